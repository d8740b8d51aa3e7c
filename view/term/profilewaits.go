package term

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"culprit/profile"
	"culprit/view"
)

// idleState is the State of a thread of the kernel that has nothing to do.
const idleState = "idle"

// waited writes the waits that were gathered, and says what may mislead.
func (p Program) waited(got *Profiled, q Profiling, o pictured, idle, pids bool) error {
	stacks := got.Stacks
	notes := slices.Clone(got.Notes)
	var count, nanos, resting, cut int64
	for s := range stacks {
		if s.State == idleState {
			resting += s.Amount
		}
	}
	if !idle {
		stacks = without(stacks, func(s ProfiledStack) bool { return s.State == idleState })
	}
	for s := range stacks {
		count, nanos = count+s.Count, nanos+s.Amount
		if len(s.Kernel) >= got.Frames || len(s.User) >= got.Frames {
			cut += s.Count
		}
	}
	what := map[ProfileOf]string{OffCPU: "off the CPU", RunQueue: "waiting for a CPU", Locks: "waiting for locks"}[q.Of]
	note := fmt.Sprintf(
		"%d times %s, %.3f s in total, in %.1f s", count, what, time.Duration(nanos).Seconds(),
		got.Took.Seconds(),
	)
	if q.Least > 0 {
		note += fmt.Sprintf("; shorter than %v is left out", time.Duration(q.Least))
	}
	if resting > 0 && !idle {
		notes = append(
			notes,
			fmt.Sprintf(
				"%.3f s of idle kernel threads are left out; --idle shows them",
				time.Duration(resting).Seconds(),
			),
		)
	}
	if cut > 0 {
		notes = append(
			notes, fmt.Sprintf("the stacks of %d waits are cut at %d frames", cut, got.Frames),
		)
	}
	if got.Away > 0 {
		notes = append(
			notes,
			fmt.Sprintf(
				"%d threads left a CPU and did not return: that time is in no stack, nor is that of threads that never ran",
				got.Away,
			),
		)
	}
	notes = p.tell(notes, got.Loss)
	if count == 0 {
		return fmt.Errorf("no selected thread was %s, in %.1f s", what, got.Took.Seconds())
	}
	if o.table {
		return into(p.Terminal, o.output, func(w io.Writer) error {
			return profile.WriteWaits(w, waitLines(stacks), "waits: "+note, o.rows)
		})
	}
	t := treeOf(stacks, pids, q.ByThread)
	t.Unit, t.Taken = "ns", profile.Taken{At: got.Began, Over: got.Took}
	p.noted(t, notes, "time")
	return o.put(p.Terminal, t, note)
}

// folded gives a waker whose stack begins where it was interrupted, if it was: the interrupt is who
// woke, whoever was on the CPU.
func (w *ProfiledWaker) folded() *ProfiledWaker {
	if w == nil {
		return nil
	}
	for i, line := range w.Kernel {
		switch _, name, _ := view.FrameParts(line); {
		case strings.HasPrefix(name, "asm_sysvec_"),
			name == "asm_common_interrupt",
			name == "el1h_64_irq",
			name == "el0t_64_irq",
			name == "ret_to_user_from_irq":
			return &ProfiledWaker{Process: "[interrupt]", PID: -1, Kernel: w.Kernel[:i+1]}
		}
	}
	return w
}

// waitLines gives a line for each place, with how it waited there.
func waitLines(stacks iter.Seq[ProfiledStack]) []profile.WaitLine {
	type place struct{ what, caller string }
	at := map[place]*profile.WaitLine{}
	for s := range stacks {
		where := place{s.State, s.waitsIn()}
		l := at[where]
		if l == nil {
			l = &profile.WaitLine{What: where.what, Caller: where.caller}
			at[where] = l
		}
		l.Count += float64(s.Count)
		l.Nanos += float64(s.Amount)
	}
	lines := make([]profile.WaitLine, 0, len(at))
	for _, l := range at {
		lines = append(lines, *l)
	}
	return lines
}

// waitsIn gives the frame that tells what a thread waits for: the innermost one that is no part of
// the scheduler, of a lock or of the C library's way to one.
func (s ProfiledStack) waitsIn() string {
	if at := view.WaitFrame(s.Kernel, false); at >= 0 {
		return s.Kernel[at]
	}
	if at := view.WaitFrame(s.User, true); at >= 0 {
		return s.User[at]
	}
	if len(s.User) > 0 {
		return s.User[0]
	}
	if len(s.Kernel) > 0 {
		return s.Kernel[0]
	}
	return s.Process + " (no frames)"
}
