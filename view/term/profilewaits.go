package term

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"culprit/profile"

	"culprit/view/classic"
)

// idleState is the State of an idle kernel thread.
const idleState = "idle"

// writeWaits writes a profile of waits, and prints its notes.
func (p *profilePrinter) writeWaits(
	got *Profiled, q Profiling, o outputFlags, idle, pids bool,
) error {
	stacks := got.Stacks
	notes := slices.Clone(got.Notes)
	var count, nanos, idleTime, cut int64
	for s := range stacks {
		if s.State == idleState {
			idleTime += s.Amount
		}
	}
	if !idle {
		stacks = excluding(stacks, func(s ProfiledStack) bool { return s.State == idleState })
	}
	for s := range stacks {
		count, nanos = count+s.Count, nanos+s.Amount
		if len(s.Kernel) >= got.Frames || len(s.User) >= got.Frames {
			cut += s.Count
		}
	}
	what := map[ProfileOf]string{
		OffCPU: "off the CPU", RunQueue: "waiting for a CPU", Locks: "waiting for locks",
	}[q.Of]
	note := fmt.Sprintf(
		"%d times %s, %.3f s in total, in %.1f s", count, what, time.Duration(nanos).Seconds(),
		got.Took.Seconds(),
	)
	if q.Least > 0 {
		note += fmt.Sprintf("; shorter than %v is left out", time.Duration(q.Least))
	}
	if idleTime > 0 && !idle {
		notes = append(
			notes,
			fmt.Sprintf(
				"%.3f s of idle kernel threads are left out; --idle shows them",
				time.Duration(idleTime).Seconds(),
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
				"%d threads left a CPU and did not return: that time is in no stack, "+
					"nor is that of threads that never ran",
				got.Away,
			),
		)
	}
	notes = p.printNotes(notes, got.Loss)
	if count == 0 {
		return fmt.Errorf("no selected thread was %s, in %.1f s", what, got.Took.Seconds())
	}
	if o.table {
		return writeFile(p.terminal, o.output, func(w io.Writer) error {
			return profile.WriteWaits(w, waitLines(stacks), "waits: "+note, o.rows)
		})
	}
	t := treeOf(stacks, profile.Roots{By: q.By, PIDs: pids, TIDs: q.ByThread})
	t.Unit, t.Taken = "ns", profile.Taken{At: got.Began, Over: got.Took}
	p.attachNotes(t, notes, "time")
	return o.write(p.terminal, t, note)
}

// cutAtInterrupt returns the waker. If an interrupt woke the thread, it is the interrupt, without
// the thread that it interrupted.
func (w *ProfiledWaker) cutAtInterrupt() *ProfiledWaker {
	if w == nil {
		return nil
	}
	for i, line := range w.Kernel {
		switch _, name, _ := classic.FrameParts(line); {
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

// waitLines returns a line for each place and kind of wait.
func waitLines(stacks iter.Seq[ProfiledStack]) []profile.WaitLine {
	type place struct{ what, caller string }
	at := map[place]*profile.WaitLine{}
	for s := range stacks {
		where := place{s.State, s.waitFrame()}
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

// waitFrame returns the frame that shows what a thread waits for: the innermost one that is not
// part of the scheduler, of a lock or of the C library.
func (s ProfiledStack) waitFrame() string {
	if at := classic.WaitFrame(s.Kernel, false); at >= 0 {
		return s.Kernel[at]
	}
	if at := classic.WaitFrame(s.User, true); at >= 0 {
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
