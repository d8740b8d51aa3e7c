package term

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"

	"culprit/measure"
	"culprit/profile"
	"culprit/view"
)

// everybody says whether no thread is left out.
func (q Profiling) everybody() bool {
	return len(q.PIDs)+len(q.TIDs)+len(q.Processes)+len(q.Cgroups) == 0
}

// tell prints what may mislead, and what was lost. It returns all of that.
func (p Program) tell(notes []string, lost []measure.Loss) []string {
	for _, l := range lost {
		notes = append(notes, fmt.Sprintf("lost: %s (%d)", l.Reason, l.Events))
	}
	for _, n := range notes {
		fmt.Fprintln(p.Terminal.Err, "culprit: "+view.Clean(n))
	}
	return notes
}

// noted puts the notes of a profile into it, for the files that it is written to, and with them the
// share of what has no name, which it prints.
func (p Program) noted(t *profile.Tree, notes []string, what string) {
	t.Notes = notes
	if n, all := t.Unnamed(), t.Sum(); n > 0 && n >= unnamedShare*all {
		text := fmt.Sprintf(
			"%.1f %% of the %s are in functions without a name, shown as [unknown] or as [file]",
			100*n/all, what,
		)
		t.Notes = append(t.Notes, p.tell([]string{text}, nil)...)
	}
}

// unnamedShare is the share of samples without a name from which on a note says so.
const unnamedShare = 0.005

// profiled writes what was sampled, and says what may mislead.
func (p Program) profiled(got *Profiled, q Profiling, o pictured, idle, pids bool) error {
	if q.Of != OnCPU {
		return p.waited(got, q, o, idle, pids)
	}
	stacks := got.Stacks
	all, resting, cut := int64(0), int64(0), int64(0)
	for s := range stacks {
		all += s.Count
		if s.resting() {
			resting += s.Count
		}
		if len(s.Kernel) >= got.Frames || len(s.User) >= got.Frames {
			cut += s.Count
		}
	}
	if !idle {
		stacks = without(stacks, ProfiledStack.resting)
	}
	left := sum(stacks)
	note := fmt.Sprintf(
		"%d samples in %.1f s, %d per second on each of %d CPUs", all, got.Took.Seconds(), q.Hz,
		got.CPUs,
	)
	notes := slices.Clone(got.Notes)
	if resting > 0 && !idle {
		notes = append(
			notes,
			fmt.Sprintf(
				"%d of %d samples are of idle CPUs and left out; --idle shows them", resting, all,
			),
		)
	}
	if cut > 0 {
		notes = append(
			notes, fmt.Sprintf("the stacks of %d samples are cut at %d frames", cut, got.Frames),
		)
	}
	// With nothing left out there is a sample for each tick of each CPU.
	if due := float64(q.Hz*got.CPUs) * got.Took.Seconds(); q.everybody() && !q.Kernel && !q.User &&
		float64(all) < 0.9*due &&
		due > 20 {
		notes = append(
			notes,
			fmt.Sprintf(
				"%d of %.0f expected samples: the kernel takes none while a CPU sleeps without ticks, a virtual machine does not run, or sampling costs too much",
				all, due,
			),
		)
	}
	notes = p.tell(notes, got.Loss)
	if left == 0 {
		return fmt.Errorf("no samples match, in %.1f s", got.Took.Seconds())
	}
	if o.table {
		return into(p.Terminal, o.output, func(w io.Writer) error {
			return profile.WriteTableLines(
				w, tableLines(stacks), float64(left), "samples: "+note, o.rows,
			)
		})
	}
	t := treeOf(stacks, pids, q.ByThread)
	t.Seconds = got.Took.Seconds() * float64(got.CPUs)
	t.Taken = profile.Taken{
		At:   got.Began,
		Over: got.Took,
		Each: measure.Second / measure.Span(max(1, q.Hz)),
	}
	p.noted(t, notes, "samples")
	return o.put(p.Terminal, t, note)
}

// without gives the stacks of which something is not so.
func without(stacks iter.Seq[ProfiledStack], so func(ProfiledStack) bool) iter.Seq[ProfiledStack] {
	return func(yield func(ProfiledStack) bool) {
		for s := range stacks {
			if !so(s) && !yield(s) {
				return
			}
		}
	}
}

func sum(stacks iter.Seq[ProfiledStack]) (n int64) {
	for s := range stacks {
		n += s.Count
	}
	return n
}

// resting says whether a stack is of a CPU that has nothing to do: the idle task's, in a function
// that waits for work. What interrupts do meanwhile is no rest.
func (s ProfiledStack) resting() bool {
	if s.PID != 0 || len(s.Kernel) == 0 {
		return false
	}
	switch _, name, _ := view.FrameParts(s.Kernel[0]); name {
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

// treeOf makes a profile of stacks.
func treeOf(stacks iter.Seq[ProfiledStack], pids, tids bool) *profile.Tree {
	return profile.FromSamples(func(yield func(profile.Sampled) bool) {
		for s := range stacks {
			one := profile.Sampled{
				Process: s.Process,
				User:    s.User,
				Kernel:  s.Kernel,
				State:   s.State,
				Count:   s.Count,
				Amount:  float64(s.Amount),
			}
			switch {
			case tids && s.TID >= 0:
				one.Process += "-" + strconv.Itoa(s.PID) + "/" + strconv.Itoa(s.TID)
			case pids:
				one.Process += "-" + strconv.Itoa(s.PID)
			}
			if w := s.Waker.folded(); w != nil {
				one.Waker = &profile.Waker{Process: w.Process, User: w.User, Kernel: w.Kernel}
			}
			if !yield(one) {
				return
			}
		}
	})
}

// tableLines gives a line for each CPU and place in the kernel, and one for each CPU's time in programs.
func tableLines(stacks iter.Seq[ProfiledStack]) []profile.TableLine {
	type place struct {
		cpu    int
		caller string
	}
	counts := map[place]int64{}
	for s := range stacks {
		caller := "(usermode)"
		if len(s.Kernel) > 0 {
			caller = s.Kernel[0]
		}
		counts[place{s.CPU, caller}] += s.Count
	}
	lines := make([]profile.TableLine, 0, len(counts))
	for at, n := range counts {
		lines = append(lines, profile.TableLine{Count: float64(n), CPU: at.cpu, Caller: at.caller})
	}
	return lines
}
