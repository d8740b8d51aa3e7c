package diagnose

import (
	"fmt"
	"sort"
	"strings"

	"culprit/measure"
)

// stacks is what CPUs were sampled to execute (stackSamples). Shares are of one CPU's time: samples over those that were due (stackRate), so that
// what a CPU did while none came is in no share. Functions are the kernel's, without what compilers add to their names.
type stacks struct {
	table *Table
	hz    map[string]float64 // samples due each second, by CPU
	rows  []*stackRow
}

// stackRow is samples of one stack of one process on one CPU.
type stackRow struct {
	*Row
	process, pid, cpu string
	in                way
	path              []string // functions, innermost first, up to where the CPU came into the kernel; none: it was in the program
}

// way is how a CPU came into the kernel, as the innermost such frame tells. Softirqs and interrupts stand on the stack of whatever task they found.
type way struct {
	kind wayKind
	name string // of a system call or a softirq; "" not known
}

type wayKind uint8

const (
	inProgram wayKind = iota
	inCall
	inFault
	inSoftirq
	inInterrupt
	inThread // of the kernel
)

// String gives "in system call rmdir".
func (c way) String() string {
	named := func(of, alone string) string {
		if c.name == "" {
			return alone
		}
		return of + clean(c.name)
	}
	switch c.kind {
	case inCall:
		return named("in system call ", "in system calls")
	case inFault:
		return "in page faults"
	case inSoftirq:
		return named("in softirq ", "in softirqs")
	case inInterrupt:
		return "in interrupts"
	case inThread:
		return "in a thread of the kernel"
	}
	return "in the program"
}

// stacksOf gives what was sampled, nil when nothing was.
func stacksOf(l *Look) *stacks {
	t := l.Table(stackSamples)
	if t.stacks != nil {
		return t.stacks
	}
	rate := l.Table(stackRate)
	s := &stacks{table: t, hz: map[string]float64{}}
	for _, r := range rate.Rows {
		if hz := r.Mean(nil); hz > 0 {
			s.hz[r.Word("cpu")] = hz
		}
	}
	if !t.Have() || len(s.hz) == 0 {
		return nil
	}
	known := map[measure.Label]*stackRow{}
	for _, r := range t.Rows {
		at, ok := r.stack("kernel")
		if !ok {
			continue
		}
		like := known[at]
		if like == nil {
			like = &stackRow{}
			like.in, like.path = walked(t.frames, at)
			known[at] = like
		}
		one := &stackRow{Row: r, process: r.Word("process"), pid: r.Word("pid"), cpu: r.Word("cpu"), in: like.in, path: like.path}
		if one.pid == "0" && one.in.kind != inSoftirq && one.in.kind != inInterrupt {
			continue // the idle task: nothing to do
		}
		s.rows = append(s.rows, one)
	}
	t.stacks = s
	return s
}

// walked gives how a CPU came into the kernel, and the functions from the innermost on that it has called since.
func walked(frames []measure.Frame, at measure.Label) (in way, path []string) {
	thread := false
	i := int64(at)
	for n := 0; i >= 0 && i < int64(len(frames)) && n < len(frames); n++ {
		name := bare(frames[i].Symbol)
		i = int64(frames[i].Parent)
		if name == "" {
			break
		}
		callee := ""
		if len(path) > 0 {
			callee = path[len(path)-1]
		}
		if c, ok := entered(name, callee); ok {
			if len(path) == 0 {
				path = []string{name}
			}
			return c, path
		}
		thread = thread || name == "kthread" || strings.HasPrefix(name, "ret_from_fork")
		path = append(path, name)
	}
	switch {
	case len(path) == 0:
		return way{}, nil
	case thread:
		return way{kind: inThread}, path
	}
	return way{kind: inCall}, path // entry code, and calls whose own function was made one with it
}

// entered says whether the function is where a CPU comes into the kernel. callee is what it called.
func entered(name, callee string) (way, bool) {
	switch name {
	case "handle_softirqs", "__do_softirq", "__softirqentry_text_start":
		return way{inSoftirq, softirqNames()[callee]}, true
	case "exc_page_fault", "asm_exc_page_fault", "do_user_addr_fault", "do_mem_abort", "el0_da", "el0_ia", "el1_abort":
		return way{kind: inFault}, true
	case "common_interrupt", "asm_common_interrupt", "do_IRQ", "smp_apic_timer_interrupt", "el1_interrupt", "el0_interrupt", "gic_handle_irq", "handle_irq_event", "__irq_exit_rcu", "irq_exit_rcu", "irq_exit":
		return way{kind: inInterrupt}, true
	case "do_syscall_64", "do_fast_syscall_32", "do_int80_emulation", "el0_svc_common", "invoke_syscall", "x64_sys_call":
		return way{inCall, calledBy(callee)}, true
	}
	for _, prefix := range []string{"sysvec_", "__sysvec_", "asm_sysvec_"} {
		if strings.HasPrefix(name, prefix) {
			return way{kind: inInterrupt}, true
		}
	}
	for _, prefix := range []string{"__x64_sys_", "__arm64_sys_", "__ia32_sys_", "__ia32_compat_sys_", "__arm64_compat_sys_", "__s390x_sys_", "__riscv_sys_"} {
		if call, ok := strings.CutPrefix(name, prefix); ok {
			return way{inCall, strings.TrimPrefix(call, "new")}, true
		}
	}
	return way{}, false
}

// calledBy gives the system call whose own function is not on the stack, since it jumped to the one that does the work: ksys_read, do_rmdir. "" not known.
func calledBy(worker string) string {
	for _, prefix := range []string{"__do_sys_", "__se_sys_", "ksys_", "do_sys_", "__sys_", "do_"} {
		if call, ok := strings.CutPrefix(worker, prefix); ok {
			return call
		}
	}
	return ""
}

// softirqNames gives the softirqs by the functions that do them.
func softirqNames() map[string]string {
	return map[string]string{
		"net_rx_action": "NET_RX", "net_tx_action": "NET_TX", "run_timer_softirq": "TIMER", "tasklet_action": "TASKLET", "tasklet_hi_action": "HI", "workqueue_softirq_action": "TASKLET",
		"blk_done_softirq": "BLOCK", "irq_poll_softirq": "IRQ_POLL", "run_rebalance_domains": "SCHED", "sched_balance_softirq": "SCHED", "hrtimer_run_softirq": "HRTIMER", "rcu_core_si": "RCU", "rcu_process_callbacks": "RCU",
	}
}

// bare gives a function's name without what compilers add to parts and copies of it: foo.isra.0, foo.constprop.0.cold.
func bare(name string) string {
	if i := strings.IndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}

// share gives what a row takes of its CPU in the masked cells; 0 where it was not seen.
func (s *stacks) share(r *stackRow, mask []bool) float64 { return s.part(r, r.Part(mask)) }

// part gives samples a second as a share of the row's CPU. More than a CPU has are none.
func (s *stacks) part(r *stackRow, samples float64) float64 {
	if v := samples / s.hz[r.cpu]; v > 0 && v < 1.5 { // as machine.plausible: a reading that comes late has more than a second's
		return v
	}
	return 0
}

// sum gives what the wanted rows take together, in CPUs.
func (s *stacks) sum(mask []bool, want func(*stackRow) bool) (all float64) {
	for _, r := range s.rows {
		if want(r) {
			all += s.share(r, mask)
		}
	}
	return all
}

// enough says whether the masked time was sampled for as long as a state lasts.
func (s *stacks) enough(mask []bool) bool {
	if s == nil {
		return false
	}
	told, of := 0.0, 0.0
	for c, sec := range s.table.Seconds {
		if mask == nil || mask[c] {
			told += sec
			of += max(sec, s.table.step.Seconds())
		}
	}
	return told >= leastSeconds && told >= leastShare*of
}

// taken is what a function takes, in CPUs.
type taken struct {
	name      string
	self      float64
	inclusive float64
	in        map[way]float64 // of self
}

// mostly gives the way in by which most of it is taken.
func (t *taken) mostly() way {
	var all []way
	for c := range t.in {
		all = append(all, c)
	}
	sort.Slice(all, func(i, j int) bool {
		if t.in[all[i]] != t.in[all[j]] {
			return t.in[all[i]] > t.in[all[j]]
		}
		return all[i].kind < all[j].kind || all[i].kind == all[j].kind && all[i].name < all[j].name
	})
	if len(all) == 0 {
		return way{}
	}
	return all[0]
}

// functions gives what functions of the kernel take in the wanted rows, those that take most by themselves first.
func (s *stacks) functions(mask []bool, want func(*stackRow) bool) []*taken {
	by := map[string]*taken{}
	var all []*taken
	of := func(name string) *taken {
		t := by[name]
		if t == nil {
			t = &taken{name: name, in: map[way]float64{}}
			by[name] = t
			all = append(all, t)
		}
		return t
	}
	for _, r := range s.rows {
		if len(r.path) == 0 || !want(r) {
			continue
		}
		v := s.share(r, mask)
		if v <= 0 {
			continue
		}
		self := of(own(r.path))
		self.self += v
		self.in[r.in] += v
		for i, name := range r.path {
			if !before(r.path, i) { // a function that calls itself counts once
				of(name).inclusive += v
			}
		}
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].self != all[j].self {
			return all[i].self > all[j].self
		}
		return all[i].name < all[j].name
	})
	return all
}

// before says whether the function at i is in the path nearer to the innermost.
func before(path []string, i int) bool {
	for _, name := range path[:i] {
		if name == path[i] {
			return true
		}
	}
	return false
}

// own gives the function that a sample is of. The clock that samples is held up while interrupts are off: then it finds the function that lets
// them on again, and what took the time is who called that.
func own(path []string) string {
	for _, name := range path {
		if !latch(name) {
			return name
		}
	}
	return path[0]
}

func latch(name string) bool {
	switch name {
	case "_raw_spin_unlock_irqrestore", "_raw_spin_unlock_irq", "_raw_read_unlock_irqrestore", "_raw_write_unlock_irqrestore", "__raw_spin_unlock_irqrestore", "__raw_spin_unlock_irq",
		"raw_spin_rq_unlock_irq", "arch_local_irq_restore", "arch_local_irq_enable", "native_irq_enable", "pv_native_irq_enable":
		return true
	}
	return false
}

// everywhere wants all rows.
func everywhere(*stackRow) bool { return true }

// on wants those of a CPU.
func on(cpu string) func(*stackRow) bool { return func(r *stackRow) bool { return r.cpu == cpu } }

// of wants what a group of processes does itself: not the softirqs and interrupts that found them.
func (s *stacks) of(a actor) func(*stackRow) bool {
	pids := map[string]bool{}
	for _, pid := range a.pids {
		pids[pidWord(pid)] = true
	}
	return func(r *stackRow) bool {
		return pids[r.pid] && r.in.kind != inSoftirq && r.in.kind != inInterrupt
	}
}

// When a function is worth a line among evidence.
const (
	// functionLine: it takes this share of what the evidence is about, and functionLines is how many lines there are at most.
	functionLine  = 0.1
	functionLines = 2
	// functionSeen: of ten seconds of a CPU at 99 a second it is ten samples; fewer may be chance.
	functionSeen = 0.01
)

// functionsProof adds the functions of the kernel that take most of the wanted rows. whole is the CPU time that they are held against, of is what that is: "CPU 0's time".
func (s *stacks) functionsProof(f *Finding, sp spell, want func(*stackRow) bool, whole float64, of string, sentence string) (named []string) {
	if !s.enough(sp.mask) || !(whole > 0) {
		return nil
	}
	for _, t := range s.functions(sp.mask, want) {
		if t.self < functionLine*whole || len(named) >= functionLines {
			break
		}
		if t.self > 1.5*whole {
			continue // the other number knows nothing of it
		}
		named = append(named, t.name)
		f.proof(s.table, sp, sentence, t.self, "CPU", fmt.Sprintf("%s takes %s of %s by itself, %s%s (sampled)", clean(t.name), percent(t.self/whole), of, t.mostly(), walks(t.name)))
	}
	return named
}

// profileOf gives the command that shows the functions of the kernel on a CPU, "" all CPUs.
func profileOf(cpu string) string {
	if cpu == "" {
		return "culprit profile --kernel --for 10s --table"
	}
	return "culprit profile --cpu " + shell(cpu) + " --kernel --for 10s --table"
}
