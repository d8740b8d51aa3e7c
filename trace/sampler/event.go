package sampler

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/trace/probe"
)

// An Event is what makes a sample in a profile OnEvent.
type Event struct {
	// Name is an event of perf (page-faults, LLC-load-misses), a tracepoint (sched:sched_switch) or
	// a probe of D (syscall::read:entry). $target in it is the command, or each of the processes.
	Name string
	// Every is the number of events per sample. 0: 1, or for hardware events the default of
	// bpftrace.
	Every uint64

	probes []string // D's descriptions
	unit   string
	// counted says that the kernel counts up to Every; otherwise the program does, per CPU.
	counted bool
	// mode says that a sample belongs to the kernel or to a program, by what the CPU executed.
	mode     bool
	hardware bool
}

// MaxEvery is the largest number of events per sample.
const MaxEvery = 1 << 40

// withEvent returns a copy of the profile with the probes of its event. Mistakes in the name are a
// measure.Diagnostic.
func (p *Profile) withEvent(env *probe.Env) (*Profile, error) {
	if p.Of != OnEvent {
		return p, nil
	}
	own := *p
	e, err := p.Event.resolve(env, p.Threads.PIDs)
	if err != nil {
		return nil, err
	}
	own.Event = &e
	env.Processes = p.Threads.PIDs
	return &own, nil
}

// resolve returns the event with its probes.
func (e Event) resolve(env *probe.Env, pids []int) (Event, error) {
	e.unit = e.Name
	perf, isPerf := probe.PerfEventNamed(e.Name)
	before, after, colon := strings.Cut(e.Name, ":")
	switch {
	case isPerf:
		e.unit, e.counted, e.mode = perf.Name, true, perf.Mode
		if perf.Name == "cpu-cycles" {
			e.unit = "cycles" // perf's usual name
		}
		e.hardware = perf.Provider == "hardware"
		e.Every = cmp.Or(e.Every, perf.Period)
		e.probes = []string{perf.Probe(e.Every)}
		return e, nil
	case !colon:
		return e, e.unknown()
	case e.isTimer():
		return e, e.mistake("a timer is no event of a program",
			"without --event a timer samples, --hz times a second")
	case !strings.Contains(after, ":") && !strings.Contains(before, "$"):
		if _, ok := probe.PerfEventNamed(before); ok {
			return e, e.mistake("--event takes no modifiers",
				"write --event "+before+" with --user or --kernel")
		}
		e.probes = []string{"tracepoint:" + before + "::" + after}
	case strings.Contains(e.Name, "$target"):
		if len(pids) == 0 {
			return e, e.mistake("$target is no process",
				"name it: --pid PID, or a command after --")
		}
		for _, pid := range pids {
			e.probes = append(e.probes,
				strings.ReplaceAll(e.Name, "$target", fmt.Sprint(pid)))
		}
	default:
		e.probes = []string{e.Name}
	}
	e.Every = max(1, e.Every)
	return e, nil
}

// isTimer reports whether the probe is none of the kernel or of a program.
func (e *Event) isTimer() bool {
	provider, _, _ := strings.Cut(e.Name, ":")
	name := e.Name[strings.LastIndex(e.Name, ":")+1:]
	return slices.Contains([]string{"BEGIN", "END", "ERROR"}, name) ||
		provider == "profile" || provider == "dtrace" || provider == "tick" ||
		provider == "software" && (strings.HasPrefix(name, "cpu-clock") ||
			strings.HasPrefix(name, "task-clock"))
}

func (e *Event) mistake(what, hint string) error {
	return &measure.Diagnostic{Text: e.Name, Len: len(e.Name), Code: "unknown-event",
		Message: what, Hint: hint}
}

// unknown returns the error for a name without a colon that is none of perf's events.
func (e *Event) unknown() error {
	switch e.Name {
	case "cpu-clock", "cpu", "task-clock":
		return e.mistake("a timer is no event of a program",
			"without --event a timer samples, --hz times a second")
	}
	soft, hard := probe.PerfEventNames("software"), probe.PerfEventNames("hardware")
	hint := "events are " + strings.Join(soft, " ") + "; of the hardware cycles instructions " +
		"cache-misses branch-misses LLC-load-misses ...; a tracepoint is sched:sched_switch, " +
		"a probe syscall::read:entry"
	if near := measure.Nearest(e.Name, slices.Concat(soft, hard)); near != "" {
		hint = "did you mean " + near + "?"
	}
	return e.mistake("there is no event "+e.Name, hint)
}

// text returns the program that samples at the event. Without the kernel's counting, the program
// counts the events of selected threads on each CPU:
//
//	syscall::read:entry /pid == 7/ { seen[cpu]++; }
//	syscall::read:entry /pid == 7 && seen[cpu] % 10 == 0/ { @[execname, pid ...] = count(); }
func (e *Event) text(p *Profile, terms []string) string {
	kernels, users := p.stacks()
	switch {
	case e.mode && p.Kernel && !p.User:
		terms = append(terms, "arg0 != 0")
	case e.mode && p.User && !p.Kernel:
		terms = append(terms, "arg0 == 0")
	}
	at := strings.Join(e.probes, ",\n")
	text := ""
	if !e.counted && e.Every > 1 {
		text = fmt.Sprintf("uint64_t seen[uint64_t];\n%s%s { seen[cpu]++; }\n", at,
			predicate(terms...))
		terms = append(terms, fmt.Sprintf("seen[cpu] %% %d == 0", e.Every))
	}
	return text + fmt.Sprintf("%s%s { @[%s] = count(); }", at, predicate(terms...),
		p.keys("", kernels, users))
}

// refused returns an error of compiling the program as one about the event.
func (e *Event) refused(err error) error {
	var ds syntax.Diagnostics
	if !errors.As(err, &ds) || len(ds) == 0 {
		return err
	}
	hint := ds[0].Hint
	if hint == "" && ds[0].Near != "" {
		hint = "did you mean " + ds[0].Near + "?"
	}
	return e.mistake(ds[0].Message, hint)
}

// attached returns an error if the event could not be attached, and a note if only some of its
// probes could.
func (e *Event) attached(a *probe.Attachment) (notes []string, err error) {
	if len(a.Skipped) == 0 {
		return nil, nil
	}
	if a.Attached > 0 {
		return []string{fmt.Sprintf("event %s: %v", e.Name, a)}, nil
	}
	err = a.Skipped[0].Err
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	if e.hardware {
		err = probe.HardwareError(e.Name, err)
	}
	return nil, fmt.Errorf("profile of %s: %w", e.Name, err)
}
