package facts

import (
	"fmt"
	"sort"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// Samples is the sampled execution of the CPUs (StackSamples). Shares are of the time of one CPU:
// samples divided by those that were due (StackRate). Time without samples is in no share. Function
// names are without the suffixes of compilers.
type Samples struct {
	Table *diagnose.Table
	Hz    map[string]float64 // samples due per second, by CPU
	Rows  []*Sample
}

// Sample is the samples of one stack of one process on one CPU.
type Sample struct {
	*diagnose.Row
	Process, PID, CPU string
	Entry             Entry
	Path              []string // functions, innermost first, up to the entry; none: in the program
}

// Entry is how a CPU entered the kernel, by the innermost such frame. Softirqs and interrupts run
// on the stack of the interrupted task.
type Entry struct {
	Kind EntryKind
	Name string // of a system call or a softirq; "" not known
}

// EntryKind is the kind of an Entry.
type EntryKind uint8

// The kinds of entries into the kernel.
const (
	InProgram   EntryKind = iota // not in the kernel
	InCall                       // a system call
	InFault                      // a page fault
	InSoftirq                    // a softirq
	InInterrupt                  // a hardware interrupt
	InThread                     // a thread of the kernel
)

// String returns "in system call rmdir".
func (c Entry) String() string {
	named := func(of, alone string) string {
		if c.Name == "" {
			return alone
		}
		return of + phrase.Clean(c.Name)
	}
	switch c.Kind {
	case InCall:
		return named("in system call ", "in system calls")
	case InFault:
		return "in page faults"
	case InSoftirq:
		return named("in softirq ", "in softirqs")
	case InInterrupt:
		return "in interrupts"
	case InThread:
		return "in a kernel thread"
	}
	return "in the program"
}

// EnoughSamples returns the samples of a rule that needs them. False when there are too few: the
// report then has the rule as not checked.
func EnoughSamples(l *diagnose.Look) (*Samples, bool) {
	k := SamplesOf(l)
	if !k.Enough(nil) {
		l.Unchecked("CPUs were sampled too briefly, or the sampling rate is unknown")
		return nil, false
	}
	return k, true
}

// SamplesOf returns the samples, nil when there are none.
func SamplesOf(l *diagnose.Look) *Samples {
	t := l.Table(StackSamples)
	if s, ok := t.Cached.(*Samples); ok {
		return s
	}
	rate := l.Table(StackRate)
	s := &Samples{Table: t, Hz: map[string]float64{}}
	for _, r := range rate.Rows {
		if hz := r.Mean(nil); hz > 0 {
			s.Hz[r.Word("cpu")] = hz
		}
	}
	if !t.Have() || len(s.Hz) == 0 {
		return nil
	}
	known := map[measure.Label]*Sample{}
	for _, r := range t.Rows {
		at, ok := r.Stack("kernel")
		if !ok {
			continue
		}
		like := known[at]
		if like == nil {
			like = &Sample{}
			like.Entry, like.Path = walked(t.Frames, at)
			known[at] = like
		}
		one := &Sample{Row: r, Process: r.Word("process"), PID: r.Word("pid"), CPU: r.Word("cpu"),
			Entry: like.Entry, Path: like.Path}
		if one.PID == "0" && one.Entry.Kind != InSoftirq && one.Entry.Kind != InInterrupt {
			continue // the idle task
		}
		s.Rows = append(s.Rows, one)
	}
	t.Cached = s
	return s
}

// walked returns how a CPU entered the kernel, and the functions that it has called since,
// innermost first.
func walked(frames []measure.Frame, at measure.Label) (in Entry, path []string) {
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
		return Entry{}, nil
	case thread:
		return Entry{Kind: InThread}, path
	}
	return Entry{Kind: InCall}, path // entry code, and inlined system calls
}

// entered reports whether a function is an entry into the kernel. callee is the function that it
// called.
func entered(name, callee string) (Entry, bool) {
	switch name {
	case "handle_softirqs", "__do_softirq", "__softirqentry_text_start":
		return Entry{InSoftirq, softirqNames()[callee]}, true
	case "exc_page_fault", "asm_exc_page_fault", "do_user_addr_fault", "do_mem_abort", "el0_da",
		"el0_ia", "el1_abort":
		return Entry{Kind: InFault}, true
	case "common_interrupt", "asm_common_interrupt", "do_IRQ", "smp_apic_timer_interrupt",
		"el1_interrupt", "el0_interrupt", "gic_handle_irq", "handle_irq_event", "__irq_exit_rcu",
		"irq_exit_rcu", "irq_exit":
		return Entry{Kind: InInterrupt}, true
	case "do_syscall_64", "do_fast_syscall_32", "do_int80_emulation", "el0_svc_common",
		"invoke_syscall", "x64_sys_call":
		return Entry{InCall, calledBy(callee)}, true
	}
	for _, prefix := range []string{"sysvec_", "__sysvec_", "asm_sysvec_"} {
		if strings.HasPrefix(name, prefix) {
			return Entry{Kind: InInterrupt}, true
		}
	}
	for _, prefix := range []string{"__x64_sys_", "__arm64_sys_", "__ia32_sys_",
		"__ia32_compat_sys_", "__arm64_compat_sys_", "__s390x_sys_", "__riscv_sys_"} {
		if call, ok := strings.CutPrefix(name, prefix); ok {
			return Entry{InCall, strings.TrimPrefix(call, "new")}, true
		}
	}
	return Entry{}, false
}

// calledBy returns the system call of a worker function. The function of the call itself is not on
// the stack when it jumped to the worker: ksys_read, do_rmdir. "" unknown.
func calledBy(worker string) string {
	for _, prefix := range []string{"__do_sys_", "__se_sys_", "ksys_", "do_sys_", "__sys_", "do_"} {
		if call, ok := strings.CutPrefix(worker, prefix); ok {
			return call
		}
	}
	return ""
}

// softirqNames returns the softirq of each function that runs one.
func softirqNames() map[string]string {
	return map[string]string{
		"net_rx_action": "NET_RX", "net_tx_action": "NET_TX", "run_timer_softirq": "TIMER",
		"tasklet_action": "TASKLET", "tasklet_hi_action": "HI",
		"workqueue_softirq_action": "TASKLET",
		"blk_done_softirq":         "BLOCK", "irq_poll_softirq": "IRQ_POLL",
		"run_rebalance_domains": "SCHED", "sched_balance_softirq": "SCHED",
		"hrtimer_run_softirq": "HRTIMER", "rcu_core_si": "RCU",
		"rcu_process_callbacks": "RCU",
	}
}

// bare returns the name of a function without the suffixes of compilers: foo.isra.0,
// foo.constprop.0.cold.
func bare(name string) string {
	if i := strings.IndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}

// Share returns the share of its CPU that a row takes over the cells in mask; 0 when it was not
// seen.
func (s *Samples) Share(r *Sample, mask []bool) float64 { return s.CellShare(r, r.Part(mask)) }

// CellShare returns samples per second as a share of the CPU of the row; 0 for more than a CPU can
// have.
func (s *Samples) CellShare(r *Sample, samples float64) float64 {
	if v := samples / s.Hz[r.CPU]; v > 0 && v < 1.5 { // see plausible: a late reading has more
		return v
	}
	return 0
}

// Sum returns the sum of the wanted rows, in CPUs.
func (s *Samples) Sum(mask []bool, want func(*Sample) bool) (all float64) {
	for _, r := range s.Rows {
		if want(r) {
			all += s.Share(r, mask)
		}
	}
	return all
}

// Enough reports whether the cells in mask were sampled for as long as a state lasts.
func (s *Samples) Enough(mask []bool) bool {
	if s == nil {
		return false
	}
	sampled, of := 0.0, 0.0
	for c, sec := range s.Table.Seconds {
		if mask == nil || mask[c] {
			sampled += sec
			of += max(sec, s.Table.Step.Seconds())
		}
	}
	return sampled >= threshold.LeastSeconds && sampled >= threshold.LeastShare*of
}

// FunctionTime is the time of a function, in CPUs.
type FunctionTime struct {
	Name      string
	Self      float64
	inclusive float64
	Entries   map[Entry]float64 // of self
}

// MainEntry returns the entry by which most of the time is spent.
func (t *FunctionTime) MainEntry() Entry {
	var all []Entry
	for c := range t.Entries {
		all = append(all, c)
	}
	sort.Slice(all, func(i, j int) bool {
		if t.Entries[all[i]] != t.Entries[all[j]] {
			return t.Entries[all[i]] > t.Entries[all[j]]
		}
		return all[i].Kind < all[j].Kind || all[i].Kind == all[j].Kind && all[i].Name < all[j].Name
	})
	if len(all) == 0 {
		return Entry{}
	}
	return all[0]
}

// Functions returns the kernel functions of the wanted rows, those with most time of their own
// first.
func (s *Samples) Functions(mask []bool, want func(*Sample) bool) []*FunctionTime {
	by := map[string]*FunctionTime{}
	var all []*FunctionTime
	of := func(name string) *FunctionTime {
		t := by[name]
		if t == nil {
			t = &FunctionTime{Name: name, Entries: map[Entry]float64{}}
			by[name] = t
			all = append(all, t)
		}
		return t
	}
	for _, r := range s.Rows {
		if len(r.Path) == 0 || !want(r) {
			continue
		}
		v := s.Share(r, mask)
		if v <= 0 {
			continue
		}
		self := of(OwnFunction(r.Path))
		self.Self += v
		self.Entries[r.Entry] += v
		for i, name := range r.Path {
			if !before(r.Path, i) { // a recursive function counts once
				of(name).inclusive += v
			}
		}
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].Self != all[j].Self {
			return all[i].Self > all[j].Self
		}
		return all[i].Name < all[j].Name
	})
	return all
}

// before reports whether the function at i also occurs nearer to the innermost one.
func before(path []string, i int) bool {
	for _, name := range path[:i] {
		if name == path[i] {
			return true
		}
	}
	return false
}

// OwnFunction returns the function that a sample is counted for. The sampling clock is delayed
// while interrupts are off. It then samples the function that enables them, but the time was spent
// by its caller.
func OwnFunction(path []string) string {
	for _, name := range path {
		if !latch(name) {
			return name
		}
	}
	return path[0]
}

func latch(name string) bool {
	switch name {
	case "_raw_spin_unlock_irqrestore", "_raw_spin_unlock_irq", "_raw_read_unlock_irqrestore",
		"_raw_write_unlock_irqrestore", "__raw_spin_unlock_irqrestore", "__raw_spin_unlock_irq",
		"raw_spin_rq_unlock_irq", "arch_local_irq_restore", "arch_local_irq_enable",
		"native_irq_enable", "pv_native_irq_enable":
		return true
	}
	return false
}

// AnyCPU accepts all rows.
func AnyCPU(*Sample) bool { return true }

// OnCPU accepts the rows of a CPU.
func OnCPU(cpu string) func(*Sample) bool { return func(r *Sample) bool { return r.CPU == cpu } }

// OfProgram accepts the work of a program itself, without the softirqs and interrupts that ran on
// its stack.
func (s *Samples) OfProgram(a Program) func(*Sample) bool {
	pids := map[string]bool{}
	for _, pid := range a.pids {
		pids[PIDWord(pid)] = true
	}
	return func(r *Sample) bool {
		return pids[r.PID] && r.Entry.Kind != InSoftirq && r.Entry.Kind != InInterrupt
	}
}

// AddFunctions adds evidence for the kernel functions with most time in the wanted rows. whole is
// the CPU time to compare with, and of its name: "CPU 0's time". It returns the functions that it
// named.
func (s *Samples) AddFunctions(f *diagnose.Finding, sp diagnose.Period, want func(*Sample) bool,
	whole float64, of string, sentence string) (named []string) {
	if !s.Enough(sp.Mask) || !(whole > 0) {
		return nil
	}
	for _, t := range s.Functions(sp.Mask, want) {
		if t.Self < threshold.FunctionLine*whole || len(named) >= threshold.FunctionLines {
			break
		}
		if t.Self > 1.5*whole {
			continue // the other number does not include it
		}
		named = append(named, t.Name)
		f.AddEvidence(s.Table, sp, sentence, t.Self, "CPU",
			fmt.Sprintf("%s takes %s of %s, %s%s (sampled)", phrase.Clean(t.Name),
				phrase.Percent(t.Self/whole), of, t.MainEntry(), walksTable(t.Name)))
	}
	return named
}

// ProfileCommand returns the command that shows the kernel functions on a CPU, "" all CPUs.
func ProfileCommand(cpu string) string {
	if cpu == "" {
		return "culprit profile --kernel --for 10s --table"
	}
	return "culprit profile --cpu " + phrase.Shell(cpu) + " --kernel --for 10s --table"
}
