package profile

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
)

// A Part selects recorded samples.
type Part struct {
	Over      measure.Interval
	CPUs      []int    // empty: all
	PIDs      []int    // empty: all
	Processes []string // names of threads; empty: all
	// Names select samples by the name of the process or of the thread, Cgroups by the path of a
	// control group, including the groups below it; empty: all. Both need ProcessNames.
	Names, Cgroups []string
	Kernel         bool     // only samples in the kernel, with the kernel stack
	User           bool     // only samples outside the kernel, with the program's stack
	Idle           bool     // also samples of idle CPUs
	Numbers        bool     // distinguish processes by number
	Times          bool     // also Tree.Times, unless Over is above MaxRecordedTimes
	By             []string // fields at the root, as Roots.By; nil: the thread's name
	// owner returns the process and the control group of a process ID and a thread's name, as name
	// and module of the top function; nil: the thread's name.
	owner  func(pid, thread string) (process, cgroup string)
	owners map[string]owner // of process IDs, for By, Names and Cgroups
}

// selects reports whether Names and Cgroups select a thread of a process.
func (p *Part) selects(pid, thread string) bool {
	of := p.owners[pid]
	if len(p.Names) > 0 && !slices.Contains(p.Names, thread) &&
		(of.process == "" || !slices.Contains(p.Names, of.process)) {
		return false
	}
	below := func(path string) bool {
		rest, ok := strings.CutPrefix(of.cgroup, strings.TrimSuffix(path, "/"))
		return ok && of.cgroup != "" && (rest == "" || rest[0] == '/')
	}
	return len(p.Cgroups) == 0 || slices.ContainsFunc(p.Cgroups, below)
}

// A Recorded is a profile of recorded samples.
type Recorded struct {
	Tree     *Tree        // Samples and Seconds are set, and Notes
	Samples  float64      // recorded of the selected CPUs and processes, including idle ones
	Idle     float64      // the part of Samples from idle CPUs
	Expected float64      // number of samples that these CPUs should have had
	CPUs     int          // number of selected CPUs that were sampled
	Took     measure.Span // the part of the time in which samples were taken
	Loss     []measure.Loss
}

// Hz returns the samples per second and CPU; 0: unknown.
func (r *Recorded) Hz() float64 {
	if r.Tree.Seconds <= 0 {
		return 0
	}
	return r.Expected / r.Tree.Seconds
}

// CompareSampled compares two profiles as Compare, and scales the amounts of after if it was
// sampled at another rate. The rates are in samples per second and CPU; 0: unknown. The error is
// that of Compare.
func CompareSampled(before, after *Tree, beforeHz, afterHz float64, n Norm) (*Diff, error) {
	rate := 1.0
	if n.Per != "sample" && beforeHz > 0 && afterHz > 0 {
		rate = afterHz / beforeHz
	}
	scaled := rate > 1.01 || rate < 0.99
	if scaled {
		n.After *= rate
	}
	d, err := Compare(before, after, n)
	if err == nil && scaled {
		d.NormText += fmt.Sprintf(
			" Before was sampled %.0f times per second, after %.0f: "+
				"the amounts of after are scaled to %.0f.",
			beforeHz, afterHz, beforeHz,
		)
	}
	return d, err
}

// AskRecorded returns the profile of a recorded time. The error is the reader's; it is a
// measure.ErrUnclear when there are no samples.
func AskRecorded(ctx context.Context, r measure.Reader, p Part) (*Recorded, error) {
	by := []string{"process", "kernel", "user"}
	owned := len(p.Names)+len(p.Cgroups) > 0
	if p.Numbers || p.owner != nil || len(p.By) > 0 || owned {
		by = append(by, "pid")
	}
	var unnamed error
	if len(p.By) > 0 && !slices.Equal(p.By, []string{ByThread}) || owned {
		p.owners, unnamed = askOwners(ctx, r, p.Over)
	}
	if unnamed != nil && len(p.Cgroups) > 0 {
		return nil, fmt.Errorf("find the processes of a control group: %w", unnamed)
	}
	q := p.query(by...)
	due := measure.Query{Stat: measure.StackRate, By: []string{"cpu"}, Over: q.Over, Step: q.Step}
	if len(p.CPUs) > 0 {
		due.Where = q.Where[:1]
	}
	a, err := r.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	out := FromAnswer(a, p)
	rates, err := r.Ask(ctx, due)
	if err != nil {
		return nil, err
	}
	for i := range rates.Series {
		n := amountOf(rates, i)
		out.Expected += n
		if n > 0 {
			out.CPUs++
		}
	}
	t := out.Tree
	t.Seconds = out.Took.Seconds() * float64(out.CPUs)
	t.Taken = Taken{At: p.Over.Start, Over: out.Took}
	if out.Expected > 0 {
		t.Taken.Each = measure.Span(t.Seconds / out.Expected * 1e9)
	}
	for _, n := range a.Notes {
		t.note(n)
	}
	if unnamed != nil {
		t.note("processes and control groups are unknown: " + unnamed.Error())
	}
	if out.Took == 0 {
		return nil, unrecorded(
			fmt.Sprintf("no stacks were recorded from %s to %s%s", local(p.Over.Start),
				local(p.Over.End), because(a.Notes)),
		)
	}
	return out, nil
}

// unrecorded is the error of a time without samples.
type unrecorded string

func (u unrecorded) Error() string { return string(u) }

// Is reports whether target is measure.ErrUnclear.
func (unrecorded) Is(target error) bool { return target == measure.ErrUnclear }

// query returns the query for the samples of the part.
func (p *Part) query(by ...string) measure.Query {
	q := measure.Query{Stat: measure.StackSamples, By: by, Over: p.Over, Step: p.Over.Span()}
	if p.timed() {
		q.Step = recordedTick
	}
	numbers := func(field string, values []int) {
		if len(values) == 0 {
			return
		}
		t := measure.Term{Field: field, Op: measure.In}
		for _, v := range values {
			t.Values = append(t.Values, strconv.Itoa(v))
		}
		q.Where = append(q.Where, t)
	}
	numbers("cpu", p.CPUs)
	numbers("pid", p.PIDs)
	if len(p.Processes) > 0 {
		q.Where = append(q.Where,
			measure.Term{Field: "process", Op: measure.In, Values: p.Processes})
	}
	return q
}

func because(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	return ": " + notes[0]
}

func local(t measure.Time) string { return t.AsTime().Local().Format("2006-01-02 15:04:05") }

// FromAnswer returns the profile of an answer for measure.StackSamples by process, kernel and user,
// and by pid if p.Numbers. The query selects time, CPUs and processes; p's fields for them are
// ignored. The caller sets Expected and CPUs of the result.
func FromAnswer(a *measure.Answer, p Part) *Recorded {
	out := &Recorded{Loss: a.Loss}
	for _, e := range a.Elapsed {
		out.Took += e
	}
	process, kernel, user, pid := a.FieldIndex(
		"process",
	), a.FieldIndex(
		"kernel",
	), a.FieldIndex(
		"user",
	), a.FieldIndex(
		"pid",
	)
	b := NewBuilder()
	f := &stackDecoder{b: b, frames: a.Frames,
		functions: [2][]uint32{make([]uint32, len(a.Frames)), make([]uint32, len(a.Frames))}}
	names := map[owner]uint32{}
	var timer *recordedTimer
	if p.timed() {
		timer = &recordedTimer{answer: a}
	}
	for i := range a.Series {
		n := amountOf(a, i)
		if !(n > 0) {
			continue
		}
		key := a.Series[i].Key
		inKernel := a.Frames[key[kernel]].Symbol != ""
		name, number := a.Label(i, process), ""
		if pid >= 0 {
			number = a.Label(i, pid)
		}
		if !p.selects(number, name) {
			continue
		}
		out.Samples += n
		if isSwapper(name) && inKernel && IsIdleFunction(a.Frames[key[kernel]].Symbol) {
			out.Idle += n
			if !p.Idle {
				continue
			}
		}
		if p.Kernel && !inKernel || p.User && inKernel {
			continue
		}
		f.path = f.path[:0]
		for _, root := range p.roots(name, number) {
			top, ok := names[root]
			if !ok {
				top = b.Function([]byte(root.process), []byte(root.cgroup), Process)
				names[root] = top
			}
			f.path = append(f.path, top)
		}
		if !p.Kernel {
			f.put(key[user], Code)
		}
		f.put(key[kernel], Kernel)
		timer.add(i, b.Stack(f.path, n))
	}
	out.Tree = b.Tree()
	out.Tree.Times = timer.timeline(out.Tree)
	out.Tree.Samples = out.Tree.Sum()
	return out
}

// roots returns the outermost frames of a thread's samples. pid is "" if it is unknown.
func (p *Part) roots(thread, pid string) []owner {
	if len(p.By) > 0 {
		of := Thread{Name: thread, Process: p.owners[pid].process, Cgroup: p.owners[pid].cgroup}
		var err error
		if of.PID, err = strconv.Atoi(pid); err != nil {
			of.PID = -1
		}
		if of.Process == "" && of.PID != 0 && !p.Numbers { // it ended before its name was read
			of.PID = -1
		}
		r := Roots{By: p.By, PIDs: p.Numbers}
		var out []owner
		for _, frame := range r.Frames(of) {
			out = append(out, owner{process: frame})
		}
		return out
	}
	one := owner{process: thread}
	if p.Numbers && pid != "" {
		one.process += "-" + pid
	}
	if p.owner != nil && pid != "" {
		one.process, one.cgroup = p.owner(pid, one.process)
	}
	return []owner{one}
}

// amountOf returns the samples of a series over the whole answer, rounded, since a rate is not
// exact.
func amountOf(a *measure.Answer, i int) float64 {
	sum := 0.0
	for c, v := range a.Series[i].Values {
		if v == v && c < len(a.Elapsed) {
			sum += v * a.Elapsed[c].Seconds()
		}
	}
	if whole := math.Round(sum); math.Abs(sum-whole) < 1e-6*max(1, whole) {
		return whole
	}
	return sum
}

// isSwapper reports whether a name is that of an idle task: swapper/0.
func isSwapper(name string) bool { return strings.HasPrefix(name, "swapper/") || name == "swapper" }

// A stackDecoder converts the stacks of an answer to functions of a Builder.
type stackDecoder struct {
	b         *Builder
	frames    []measure.Frame
	functions [2][]uint32 // of each frame in a program, and in the kernel; 0: not yet known
	path      []uint32
}

// put appends the functions of a stack to the path, outermost first.
func (f *stackDecoder) put(at measure.Label, kind Kind) {
	from, known := len(f.path), f.functions[0]
	if kind == Kernel {
		known = f.functions[1]
	}
	for i := int32(at); i >= 0 && len(f.path) < MaxDepth; i = f.frames[i].Parent {
		if known[i] == 0 {
			fr, k := &f.frames[i], kind
			switch {
			case fr.Symbol == "":
				continue // the empty stack
			case kind == Code && fr.Module == "" && !isRemark(fr.Symbol):
				k = JIT
			}
			known[i] = f.b.Function([]byte(fr.Symbol), []byte(fr.Module), k)
		}
		f.path = append(f.path, known[i])
	}
	for i, j := from, len(f.path)-1; i < j; i, j = i+1, j-1 {
		f.path[i], f.path[j] = f.path[j], f.path[i]
	}
}

// IsIdleFunction reports whether the idle task waits for work in this kernel function: its CPU is
// idle.
func IsIdleFunction(function string) bool {
	switch function {
	case "default_idle",
		"default_idle_call",
		"native_safe_halt",
		"pv_native_safe_halt",
		"arch_cpu_idle",
		"mwait_idle",
		"mwait_idle_with_hints",
		"intel_idle",
		"intel_idle_irq",
		"intel_idle_ibrs",
		"acpi_idle_enter",
		"acpi_idle_do_entry",
		"acpi_safe_halt",
		"io_idle",
		"poll_idle",
		"cpu_idle_poll",
		"cpuidle_enter_state",
		"cpuidle_enter",
		"do_idle",
		"tdx_safe_halt",
		"xen_safe_halt",
		"amd_e400_idle",
		"cpu_do_idle",
		"psci_enter_idle_state",
		"haltpoll_enter_idle":
		return true
	}
	return false
}

// AskLines returns the lines of a table of recorded samples: one for each CPU and kernel function,
// and one for each CPU's time in programs. The error is the reader's.
func AskLines(ctx context.Context, r measure.Reader, p Part) ([]TableLine, error) {
	a, err := r.Ask(ctx, p.query("cpu", "process", "kernel"))
	if err != nil {
		return nil, err
	}
	type place struct {
		cpu    int
		caller string
	}
	counts := map[place]float64{}
	for i := range a.Series {
		n := amountOf(a, i)
		key := a.Series[i].Key
		leaf := a.Frames[key[2]]
		caller := "(usermode)"
		if leaf.Symbol != "" {
			caller = leaf.Symbol
			if leaf.Module != "" {
				caller = leaf.Module + "`" + caller
			}
		}
		if !(n > 0) || p.Kernel && leaf.Symbol == "" || p.User && leaf.Symbol != "" ||
			!p.Idle && isSwapper(a.Label(i, 1)) && IsIdleFunction(leaf.Symbol) {
			continue
		}
		cpu, err := strconv.Atoi(a.Label(i, 0))
		if err != nil {
			return nil, fmt.Errorf("read the number of a CPU: %w", err)
		}
		counts[place{cpu, caller}] += n
	}
	lines := make([]TableLine, 0, len(counts))
	for at, n := range counts {
		lines = append(lines, TableLine{Count: n, CPU: at.cpu, Caller: at.caller})
	}
	return lines, nil
}
