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
	"culprit/view/classic"
)

// allThreads reports whether the profile includes all threads.
func (q Profiling) allThreads() bool {
	return len(q.PIDs)+len(q.TIDs)+len(q.Processes)+len(q.Cgroups)+len(q.Command) == 0
}

// profilePrinter writes profiles and prints their notes.
type profilePrinter struct {
	terminal   Terminal
	readsFiles func() // Program.ReadsFiles
	names      func() profile.Namer
}

func (p Program) profilePrinter() profilePrinter {
	return profilePrinter{terminal: p.Terminal, readsFiles: p.ReadsFiles, names: p.Names}
}

// printNotes prints notes and losses, and returns all of them as notes.
func (p *profilePrinter) printNotes(notes []string, lost []measure.Loss) []string {
	for _, l := range lost {
		notes = append(notes, fmt.Sprintf("lost: %s (%d)", l.Reason, l.Events))
	}
	for _, n := range notes {
		fmt.Fprintln(p.terminal.Err, "culprit: "+view.Clean(n))
	}
	return notes
}

// attachNotes sets the notes of a profile. If a relevant share has no function name, it also prints
// and adds a note on that.
func (p *profilePrinter) attachNotes(t *profile.Tree, notes []string, what string) {
	t.Notes = notes
	if n, all := t.Unnamed(), t.Sum(); n > 0 && n >= unnamedShare*all {
		text := fmt.Sprintf(
			"%.1f %% of the %s are in functions without a name, shown as [unknown] or as [file]",
			100*n/all, what,
		)
		t.Notes = append(t.Notes, p.printNotes([]string{text}, nil)...)
	}
}

// unnamedShare is the share of unnamed functions from which on there is a note.
const unnamedShare = 0.005

// writeSamples writes a profile of samples, and prints its notes.
func (p *profilePrinter) writeSamples(
	got *Profiled, q Profiling, o outputFlags, idle, pids bool,
) error {
	if q.Of == OnEvent {
		return p.writeEvents(got, q, o, pids)
	}
	if q.Of != OnCPU {
		return p.writeWaits(got, q, o, idle, pids)
	}
	stacks := got.Stacks
	all, idleCount, cut := int64(0), int64(0), int64(0)
	for s := range stacks {
		all += s.Count
		if s.isIdle() {
			idleCount += s.Count
		}
		if len(s.Kernel) >= got.Frames || len(s.User) >= got.Frames {
			cut += s.Count
		}
	}
	if !idle {
		stacks = excluding(stacks, ProfiledStack.isIdle)
	}
	left := sampleCount(stacks)
	note := fmt.Sprintf(
		"%d samples in %.1f s, %d per second on each of %d CPUs", all, got.Took.Seconds(), q.Hz,
		got.CPUs,
	)
	notes := slices.Clone(got.Notes)
	if idleCount > 0 && !idle {
		notes = append(
			notes,
			fmt.Sprintf(
				"%d of %d samples are of idle CPUs and left out; --idle shows them", idleCount, all,
			),
		)
	}
	if cut > 0 {
		notes = append(
			notes, fmt.Sprintf("the stacks of %d samples are cut at %d frames", cut, got.Frames),
		)
	}
	// Without a selection there is a sample for each tick of each CPU.
	if due := float64(q.Hz*got.CPUs) * got.Took.Seconds(); q.allThreads() && !q.Kernel && !q.User &&
		float64(all) < 0.9*due &&
		due > 20 {
		notes = append(
			notes,
			fmt.Sprintf(
				"%d of %.0f expected samples: the kernel takes none while a CPU sleeps "+
					"without ticks, a virtual machine does not run, or sampling costs too much",
				all, due,
			),
		)
	}
	notes = p.printNotes(notes, got.Loss)
	if left == 0 {
		return fmt.Errorf("no samples match, in %.1f s", got.Took.Seconds())
	}
	if o.table {
		return writeFile(p.terminal, o.output, func(w io.Writer) error {
			return profile.WriteTableLines(
				w, tableLines(stacks), float64(left), "samples: "+note, o.rows,
			)
		})
	}
	t := treeOf(stacks, profile.Roots{By: q.By, PIDs: pids, TIDs: q.ByThread})
	t.Seconds = got.Took.Seconds() * float64(got.CPUs)
	t.Taken = profile.Taken{
		At:   got.Began,
		Over: got.Took,
		Each: measure.Second / measure.Span(max(1, q.Hz)),
	}
	p.attachNotes(t, notes, "samples")
	return o.write(p.terminal, t, note)
}

// excluding returns the stacks for which the condition is false.
func excluding(
	stacks iter.Seq[ProfiledStack], condition func(ProfiledStack) bool,
) iter.Seq[ProfiledStack] {
	return func(yield func(ProfiledStack) bool) {
		for s := range stacks {
			if !condition(s) && !yield(s) {
				return
			}
		}
	}
}

func sampleCount(stacks iter.Seq[ProfiledStack]) (n int64) {
	for s := range stacks {
		n += s.Count
	}
	return n
}

// isIdle reports whether a stack is of an idle CPU: the idle task in a function that waits for
// work. Interrupts of the idle task are not idle.
func (s ProfiledStack) isIdle() bool {
	if s.PID != 0 || len(s.Kernel) == 0 {
		return false
	}
	switch _, name, _ := classic.FrameParts(s.Kernel[0]); name {
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

// treeOf returns the tree of some stacks. Without roots.By the root is the thread's name, and with
// PIDs or TIDs each process or thread has a root of its own.
func treeOf(stacks iter.Seq[ProfiledStack], roots profile.Roots) *profile.Tree {
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
			case len(roots.By) > 0:
				one.Roots = roots.Frames(profile.Thread{
					Process: s.Leader, Name: s.Process, PID: s.PID, TID: s.TID, Cgroup: s.Cgroup,
				})
			case roots.TIDs && s.TID >= 0:
				one.Process += "-" + strconv.Itoa(s.PID) + "/" + strconv.Itoa(s.TID)
			case roots.PIDs:
				one.Process += "-" + strconv.Itoa(s.PID)
			}
			if w := s.Waker.cutAtInterrupt(); w != nil {
				one.Waker = &profile.Waker{Process: w.Process, User: w.User, Kernel: w.Kernel}
			}
			if !yield(one) {
				return
			}
		}
	}, profile.SampleTimes{})
}

// tableLines returns a line for each CPU and innermost kernel function, and one for the user time
// of each CPU.
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
		counts[place{s.CPU, caller}] += s.Amount
	}
	lines := make([]profile.TableLine, 0, len(counts))
	for at, n := range counts {
		lines = append(lines, profile.TableLine{Count: float64(n), CPU: at.cpu, Caller: at.caller})
	}
	return lines
}
