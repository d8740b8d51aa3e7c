package term

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/flame"

	"github.com/spf13/cobra"
)

// Profiling is what `culprit profile` was asked: which CPUs and processes are sampled, how often and for how long.
type Profiling struct {
	Hz     int
	For    time.Duration
	CPUs   []int // none: all
	PIDs   []int // none: all
	Kernel bool  // samples within the kernel alone
	User   bool  // samples outside the kernel alone
	ByCPU  bool  // stacks are told apart by CPU
}

// Profiled is what was sampled.
type Profiled struct {
	Stacks []ProfiledStack
	Took   measure.Span
	CPUs   int // that were sampled
	Frames int // as many as a stack can have: one with so many may have been longer
	Loss   []measure.Loss
	Notes  []string
}

// A ProfiledStack is a stack and how often it was seen; frames as DTrace prints them, the innermost first.
type ProfiledStack struct {
	Process      string
	PID, CPU     int // CPU -1: not told
	Kernel, User []string
	Count        int64
}

// Profiler samples stacks until the context ends or the time is over.
type Profiler func(context.Context, Profiling) (*Profiled, error)

const (
	leastHz, mostHz = 1, 10000
	mostProfile     = 24 * time.Hour
)

func (p Program) profile() *cobra.Command {
	var o pictured
	var q Profiling
	var w profiledPast
	var every string
	var idle, pids bool
	c := &cobra.Command{
		Use:   "profile [flags]",
		Short: "where the CPUs' time goes: stacks of kernel and programs, sampled",
		Long: reflow(`Samples what each CPU executes, so many times a second, counts the stacks in the kernel, and writes them as culprit flame does: a picture, a
page, a table, or a format of other tools. The rate is 99 a second unless you say otherwise, which no timer of programs is in step with.
Ctrl-C ends it early and writes what was sampled. Samples of idle CPUs are left out, and counted in a note.

With --at, or --from and --to, it is made of what `+"`culprit serve`"+` sampled in that time: the same formats, without the places within functions; with --diff it is compared with
another time, as long. That needs no rights but those to read what was recorded.

It needs root, or the capabilities CAP_BPF and CAP_PERFMON; and CAP_SYS_PTRACE for the names of functions in processes of others, and to walk their stacks by
the unwind tables of their files, which needs no frame pointers.`, helpWidth),
		Example: examples([]view.Example{
			{Line: "culprit profile --for 30s -o out.html", Means: "a page of the whole machine, to zoom and search"},
			{Line: "culprit profile --cpu 23 --kernel --hz 997 --for 60s -o out.svg", Means: "what one CPU does in the kernel"},
			{Line: "culprit profile --pid 1234 --user", Means: "a process, as a tree of calls"},
			{Line: "culprit profile --table", Means: "Count indv cuml CPU Caller, as lockstat -I prints it"},
			{Line: "culprit profile --at 14:03:22 --for 30s -o then.html", Means: "what a server has sampled in the half minute up to then"},
			{Line: "culprit profile --at now --for 1m --diff -1h", Means: "what the last minute does more of than one an hour ago"},
		}),
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.SortFlags = false
	f.IntVar(&q.Hz, "hz", 99, "samples a second of each CPU")
	f.StringVar(&every, "for", "10s", "how long: seconds, or with a unit")
	f.IntSliceVar(&q.CPUs, "cpu", nil, "these CPUs alone")
	f.IntSliceVarP(&q.PIDs, "pid", "p", nil, "these processes alone")
	f.BoolVar(&q.Kernel, "kernel", false, "samples within the kernel alone")
	f.BoolVar(&q.User, "user", false, "samples outside the kernel alone")
	f.BoolVar(&idle, "idle", false, "samples of idle CPUs too")
	f.BoolVar(&pids, "pids", false, "processes are told apart by number")
	o.flags(c)
	w.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if _, err := o.chosen(); err != nil {
			return err
		}
		span, err := parseInterval(every)
		if err != nil {
			return usagef("--for: %w", err)
		}
		q.For = time.Duration(span)
		switch {
		case q.Hz < leastHz || q.Hz > mostHz:
			return usagef("--hz %d is out of range: %d to %d", q.Hz, leastHz, mostHz)
		case q.For > mostProfile:
			return usagef("--for %s is longer than a day", every)
		case q.Kernel && q.User:
			return usagef("--kernel and --user exclude each other; without them it is both")
		case slices.ContainsFunc(q.PIDs, func(n int) bool { return n < 0 }) || slices.ContainsFunc(q.CPUs, func(n int) bool { return n < 0 }):
			return usagef("--pid and --cpu take numbers from 0 on")
		}
		if err := w.check(c, &q, &o); err != nil {
			return err
		}
		if w.given() {
			return p.profilePast(c.Context(), &w, &q, o, idle, pids)
		}
		if p.Profile == nil {
			return fmt.Errorf("this program samples nothing: %w", measure.ErrUnsupported)
		}
		q.ByCPU = o.table
		got, err := p.Profile(c.Context(), q)
		if err != nil {
			return err
		}
		return p.profiled(got, q, o, idle, pids)
	}
	return c
}

// profiled writes what was sampled, and says what may mislead.
func (p Program) profiled(got *Profiled, q Profiling, o pictured, idle, pids bool) error {
	stacks := got.Stacks
	all, resting, cut := int64(0), int64(0), int64(0)
	for _, s := range stacks {
		all += s.Count
		if s.resting() {
			resting += s.Count
		}
		if len(s.Kernel) >= got.Frames || len(s.User) >= got.Frames {
			cut += s.Count
		}
	}
	if !idle {
		stacks = slices.DeleteFunc(slices.Clone(stacks), ProfiledStack.resting)
	}
	note := fmt.Sprintf("%d samples in %.1f s, %d a second of each of %d CPUs", all, got.Took.Seconds(), q.Hz, got.CPUs)
	notes := slices.Clone(got.Notes)
	if resting > 0 && !idle {
		notes = append(notes, fmt.Sprintf("%d of %d samples are of idle CPUs and left out; --idle shows them", resting, all))
	}
	if cut > 0 {
		notes = append(notes, fmt.Sprintf("the stacks of %d samples have %d frames, which is the most: they may have been longer", cut, got.Frames))
	}
	// With nothing left out there is a sample for each tick of each CPU.
	if due := float64(q.Hz*got.CPUs) * got.Took.Seconds(); len(q.PIDs) == 0 && !q.Kernel && !q.User && float64(all) < 0.9*due && due > 20 {
		notes = append(notes, fmt.Sprintf("%d samples came of %.0f that were due: the kernel takes none while a CPU sleeps without ticks, a virtual machine does not run, or sampling would cost too much", all, due))
	}
	for _, l := range got.Loss {
		notes = append(notes, fmt.Sprintf("lost: %s (%d)", l.Reason, l.Events))
	}
	for _, n := range notes {
		fmt.Fprintln(p.Terminal.Err, "culprit: "+view.Clean(n))
	}
	if len(stacks) == 0 {
		return fmt.Errorf("nothing was sampled that was asked for, in %.1f s", got.Took.Seconds())
	}
	if o.table {
		return into(p.Terminal, o.output, func(w io.Writer) error {
			return flame.WriteTableLines(w, tableLines(stacks), float64(sum(stacks)), "samples: "+note, o.rows)
		})
	}
	t := treeOf(stacks, pids)
	t.Seconds = got.Took.Seconds() * float64(got.CPUs)
	return o.put(p.Terminal, t, note)
}

func sum(stacks []ProfiledStack) (n int64) {
	for _, s := range stacks {
		n += s.Count
	}
	return n
}

// resting says whether a stack is of a CPU that has nothing to do: the idle task's, in a function that waits for work. What interrupts
// do meanwhile is no rest.
func (s ProfiledStack) resting() bool {
	if s.PID != 0 || len(s.Kernel) == 0 {
		return false
	}
	switch _, name, _ := frameOf(s.Kernel[0]); name {
	case "default_idle", "default_idle_call", "native_safe_halt", "pv_native_safe_halt", "arch_cpu_idle", "mwait_idle", "mwait_idle_with_hints", "intel_idle",
		"intel_idle_irq", "intel_idle_ibrs", "acpi_idle_enter", "acpi_idle_do_entry", "acpi_safe_halt", "io_idle", "poll_idle", "cpu_idle_poll", "cpuidle_enter_state",
		"cpuidle_enter", "do_idle", "tdx_safe_halt", "xen_safe_halt", "amd_e400_idle", "cpu_do_idle", "psci_enter_idle_state", "haltpoll_enter_idle":
		return true
	}
	return false
}

// frameOf takes a frame apart as DTrace prints it: module`name+0x1f.
func frameOf(line string) (module, name, offset string) {
	if m, rest, ok := strings.Cut(line, "`"); ok {
		module, line = m, rest
	}
	if i := strings.LastIndex(line, "+0x"); i > 0 {
		line, offset = line[:i], line[i:]
	}
	return module, line, offset
}

// treeOf makes a profile of stacks: below the process its own functions, then the kernel's.
func treeOf(stacks []ProfiledStack, pids bool) *flame.Tree {
	b := flame.NewBuilder()
	var path []uint32
	for _, s := range stacks {
		process := s.Process
		if pids {
			process += "-" + strconv.Itoa(s.PID)
		}
		path = append(path[:0], b.Function([]byte(process), nil, flame.Process))
		add := func(frames []string, kind flame.Kind) {
			for _, line := range slices.Backward(frames) {
				module, name, _ := frameOf(line)
				k := kind
				if kind == flame.Code && module == "" && !strings.HasPrefix(name, "0x") {
					k = flame.JIT
				}
				if strings.HasPrefix(name, "0x") && module != "" { // a function without a name is told by its file, as one
					name = "[" + module + "]"
				} else if strings.HasPrefix(name, "0x") {
					name = "[unknown]"
				}
				path = append(path, b.Function([]byte(name), []byte(module), k))
			}
		}
		add(s.User, flame.Code)
		add(s.Kernel, flame.Kernel)
		b.Stack(path, float64(s.Count))
	}
	t := b.Tree()
	t.Samples = t.Sum()
	return t
}

// tableLines gives a line for each CPU and place in the kernel, and one for each CPU's time in programs.
func tableLines(stacks []ProfiledStack) []flame.TableLine {
	type place struct {
		cpu    int
		caller string
	}
	counts := map[place]int64{}
	for _, s := range stacks {
		caller := "(usermode)"
		if len(s.Kernel) > 0 {
			caller = s.Kernel[0]
		}
		counts[place{s.CPU, caller}] += s.Count
	}
	lines := make([]flame.TableLine, 0, len(counts))
	for at, n := range counts {
		lines = append(lines, flame.TableLine{Count: float64(n), CPU: at.cpu, Caller: at.caller})
	}
	return lines
}
