package profile

import (
	"context"
	"fmt"
	"math"
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
	Kernel    bool     // only samples in the kernel, with the kernel stack
	User      bool     // only samples outside the kernel, with the program's stack
	Idle      bool     // also samples of idle CPUs
	Numbers   bool     // distinguish processes by number
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

// AskRecorded returns the profile of a recorded time. The error is the reader's; it is a
// measure.ErrUnclear when there are no samples.
func AskRecorded(ctx context.Context, r measure.Reader, p Part) (*Recorded, error) {
	by := []string{"process", "kernel", "user"}
	if p.Numbers {
		by = append(by, "pid")
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
	names := map[string]uint32{}
	for i := range a.Series {
		n := amountOf(a, i)
		if !(n > 0) {
			continue
		}
		out.Samples += n
		key := a.Series[i].Key
		inKernel := a.Frames[key[kernel]].Symbol != ""
		name := a.Label(i, process)
		if isSwapper(name) && inKernel && IsIdleFunction(a.Frames[key[kernel]].Symbol) {
			out.Idle += n
			if !p.Idle {
				continue
			}
		}
		if p.Kernel && !inKernel || p.User && inKernel {
			continue
		}
		if p.Numbers && pid >= 0 {
			name += "-" + a.Label(i, pid)
		}
		top, ok := names[name]
		if !ok {
			top = b.Function([]byte(name), nil, Process)
			names[name] = top
		}
		f.path = append(f.path[:0], top)
		if !p.Kernel {
			f.put(key[user], Code)
		}
		f.put(key[kernel], Kernel)
		b.Stack(f.path, n)
	}
	out.Tree = b.Tree()
	out.Tree.Samples = out.Tree.Sum()
	return out
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
			case kind == Code && fr.Module == "" && !strings.HasPrefix(fr.Symbol, "[") &&
				!strings.HasPrefix(fr.Symbol, "("):
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
