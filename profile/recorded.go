package profile

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"culprit/measure"
)

// A Part says which of the samples that were recorded a profile is made of.
type Part struct {
	Over      measure.Interval
	CPUs      []int    // none: all
	PIDs      []int    // none: all
	Processes []string // names of threads; none: all
	Kernel    bool     // samples within the kernel alone, with its stack
	User      bool     // samples outside the kernel alone, with the program's stack
	Idle      bool     // samples of CPUs that have nothing to do too
	Numbers   bool     // processes are told apart by number
}

// A Recorded is a profile of samples that were recorded.
type Recorded struct {
	Tree    *Tree        // Samples and Seconds are set, and Notes
	Samples float64      // that came, of the CPUs and processes that were asked for, idle ones too
	Resting float64      // of them of idle CPUs
	Due     float64      // samples that should have come of these CPUs
	CPUs    int          // that were sampled, of those that were asked for
	Took    measure.Span // of the time, while samples were taken
	Loss    []measure.Loss
}

// AskRecorded makes a profile of what a reader has of a time. The error is the reader's, or says that there is no sample.
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
	out := OfAnswer(a, p)
	rates, err := r.Ask(ctx, due)
	if err != nil {
		return nil, err
	}
	for i := range rates.Series {
		n := amountOf(rates, i)
		out.Due += n
		if n > 0 {
			out.CPUs++
		}
	}
	t := out.Tree
	t.Seconds = out.Took.Seconds() * float64(out.CPUs)
	t.Taken = Taken{At: p.Over.Start, Over: out.Took}
	if out.Due > 0 {
		t.Taken.Each = measure.Span(t.Seconds / out.Due * 1e9)
	}
	for _, n := range a.Notes {
		t.note(n)
	}
	if out.Took == 0 {
		return nil, unrecorded(fmt.Sprintf("no stacks were recorded from %s to %s%s", local(p.Over.Start), local(p.Over.End), because(a.Notes)))
	}
	return out, nil
}

// unrecorded says that a time has no samples: nothing has gone wrong, there is nothing to tell.
type unrecorded string

func (u unrecorded) Error() string { return string(u) }

// Is makes it a measure.ErrUnclear.
func (unrecorded) Is(target error) bool { return target == measure.ErrUnclear }

// query asks for the samples of the part.
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
		q.Where = append(q.Where, measure.Term{Field: "process", Op: measure.In, Values: p.Processes})
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

// OfAnswer makes a profile of an answer to a question for measure.StackSamples by process, kernel and user, and pid where numbers are wanted. Over, CPUs, PIDs and
// Processes of the part are the question's affair. Due and CPUs of the result are for the caller.
func OfAnswer(a *measure.Answer, p Part) *Recorded {
	out := &Recorded{Loss: a.Loss}
	for _, e := range a.Elapsed {
		out.Took += e
	}
	process, kernel, user, pid := a.FieldIndex("process"), a.FieldIndex("kernel"), a.FieldIndex("user"), a.FieldIndex("pid")
	b := NewBuilder()
	f := &forest{b: b, frames: a.Frames, functions: [2][]uint32{make([]uint32, len(a.Frames)), make([]uint32, len(a.Frames))}}
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
		if isSwapper(name) && inKernel && Resting(a.Frames[key[kernel]].Symbol) {
			out.Resting += n
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

// amountOf gives what a series came to over the whole answer. Samples are whole; what a rate loses of that is made good.
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

// isSwapper says whether a name is that of an idle task: swapper/0.
func isSwapper(name string) bool { return strings.HasPrefix(name, "swapper/") || name == "swapper" }

// A forest is the stacks of an answer on their way into a profile.
type forest struct {
	b         *Builder
	frames    []measure.Frame
	functions [2][]uint32 // of each frame as one of a program, and as one of the kernel; 0: not yet
	path      []uint32
}

// put adds the functions of a stack to the path, the outermost first.
func (f *forest) put(at measure.Label, kind Kind) {
	from, known := len(f.path), f.functions[0]
	if kind == Kernel {
		known = f.functions[1]
	}
	for i := int32(at); i >= 0 && len(f.path) < MostDepth; i = f.frames[i].Parent {
		if known[i] == 0 {
			fr, k := &f.frames[i], kind
			switch {
			case fr.Symbol == "":
				continue // the empty stack
			case kind == Code && fr.Module == "" && !strings.HasPrefix(fr.Symbol, "[") && !strings.HasPrefix(fr.Symbol, "("):
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

// Resting says whether a function of the kernel waits for work: a CPU whose idle task is in it has nothing to do.
func Resting(function string) bool {
	switch function {
	case "default_idle", "default_idle_call", "native_safe_halt", "pv_native_safe_halt", "arch_cpu_idle", "mwait_idle", "mwait_idle_with_hints", "intel_idle",
		"intel_idle_irq", "intel_idle_ibrs", "acpi_idle_enter", "acpi_idle_do_entry", "acpi_safe_halt", "io_idle", "poll_idle", "cpu_idle_poll", "cpuidle_enter_state",
		"cpuidle_enter", "do_idle", "tdx_safe_halt", "xen_safe_halt", "amd_e400_idle", "cpu_do_idle", "psci_enter_idle_state", "haltpoll_enter_idle":
		return true
	}
	return false
}

// AskLines makes the lines of a table of what a reader has of a time: one for each CPU and function of the kernel that was sampled, and one for each CPU's time in programs.
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
		if !(n > 0) || p.Kernel && leaf.Symbol == "" || p.User && leaf.Symbol != "" || !p.Idle && isSwapper(a.Label(i, 1)) && Resting(leaf.Symbol) {
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
