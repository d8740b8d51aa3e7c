package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/measure"
)

// A Wait is the waits of threads of a process at one stack.
type Wait struct {
	Process string // name of the thread
	PID     int
	State   string   // as of the profile of waits: "sleeping", "uninterruptible"
	Kernel  []string // frames, innermost first: "vmlinux`io_schedule+0x46"
	User    []string
	Amount  measure.Span // of all waits
}

// mostWaiting is the most processes whose waits are measured: each switch of theirs is traced.
const mostWaiting = 16

// Waiting returns the processes whose waits are to be measured, with their stacks; none: no finding
// is about processes that wait.
func (p *Plan) Waiting() []int {
	var pids []int
	for _, i := range p.waits {
		for _, pid := range subjectOf(&p.report.Findings[i]).PIDs {
			if len(pids) < mostWaiting && pid > 0 && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func subjectOf(f *diagnose.Finding) facts.Waiters {
	w, _ := f.Subject.(facts.Waiters)
	return w
}

// Profile returns the command that measures the waits of Waiting.
func (p *Plan) Profile() string {
	var words []string
	for _, pid := range p.Waiting() {
		words = append(words, strconv.Itoa(pid))
	}
	return "culprit profile --off-cpu --pid " + strings.Join(words, ",")
}

// ApplyWaits adds to the findings where their processes wait, and returns what it added, as
// sentences. seconds is how long waits were measured. Waits that did not end are not among them.
func (p *Plan) ApplyWaits(waits []Wait, seconds float64) (changed []string) {
	for _, i := range p.waits {
		f := &p.report.Findings[i]
		if text := addWaits(f, waits, seconds); text != "" {
			changed = append(changed, f.ID+": "+text)
		}
	}
	return changed
}

// place is where threads wait: in which function of the kernel, called from where.
type place struct {
	kernel, user string
	amount       measure.Span
	names        map[string]measure.Span
}

func addWaits(f *diagnose.Finding, waits []Wait, seconds float64) string {
	w := subjectOf(f)
	var places []*place
	total := measure.Span(0)
	for i := range waits {
		one := &waits[i]
		if !slices.Contains(w.PIDs, one.PID) || !w.Holds(one.State, one.Kernel) {
			continue
		}
		total += one.Amount
		kernel, user := waitsIn(one.Kernel), chain(one.User)
		n := slices.IndexFunc(places, func(p *place) bool {
			return p.kernel == kernel && p.user == user
		})
		if n < 0 {
			n = len(places)
			places = append(places, &place{kernel: kernel, user: user,
				names: map[string]measure.Span{}})
		}
		places[n].amount += one.Amount
		places[n].names[phrase.ProcessName(one.Process, one.PID)] += one.Amount
	}
	if total <= 0 || !(seconds > 0) {
		return "no wait of its programs ended meanwhile"
	}
	slices.SortStableFunc(places, func(a, b *place) int { return cmp.Compare(b.amount, a.amount) })
	threads, first := float64(total)/float64(measure.Second)/seconds, ""
	for n, at := range places {
		if n == mostPlaces || n > 0 && at.amount < total/10 {
			break
		}
		text := fmt.Sprintf("%s of the %s are in %s", phrase.Percent(float64(at.amount)/
			float64(total)), w.What(), at.kernel)
		if at.user != "" {
			text += ", called from " + at.user
		}
		text += ", mostly those of " + longest(at.names)
		if n == 0 {
			first = text
		}
		f.Evidence = append(f.Evidence, diagnose.Evidence{Text: text + " (measured)",
			Value: diagnose.Number(threads * float64(at.amount) / float64(total)),
			Unit:  string(measure.Count), ComparedWith: diagnose.Number(threads),
			ComparedAs: "threads that wait at any moment"})
	}
	return first
}

// mostPlaces is the most places that a finding names.
const mostPlaces = 2

// longest returns the process that waits longest.
func longest(names map[string]measure.Span) string {
	first := ""
	for name, amount := range names {
		if first == "" || amount > names[first] || amount == names[first] && name < first {
			first = name
		}
	}
	return first
}

// waitsIn returns the kernel function in which a thread waits: the innermost that is not of the
// scheduler; "the kernel" when it is not known.
func waitsIn(frames []string) string {
	for _, frame := range frames {
		name := functionOf(frame)
		if name != "" && !strings.HasPrefix(name, "0x") && !facts.IsScheduler(name) {
			return phrase.Clean(name)
		}
	}
	return "the kernel"
}

// chain returns the innermost functions of a program, callees first: "read, load, main".
func chain(frames []string) string {
	var names []string
	for _, frame := range frames {
		name := functionOf(frame)
		if name == "" || strings.HasPrefix(name, "0x") || isCall(name) {
			continue
		}
		if names = append(names, phrase.Clean(name)); len(names) == 3 {
			break
		}
	}
	return strings.Join(names, ", ")
}

// isCall reports whether a function only enters the kernel: those of Go have several frames.
func isCall(name string) bool {
	for _, prefix := range []string{"internal/runtime/syscall", "runtime/internal/syscall",
		"syscall.", "golang.org/x/sys/unix."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// functionOf returns the function of a frame "libc.so.6`read+0x12".
func functionOf(frame string) string {
	if i := strings.LastIndexByte(frame, '`'); i >= 0 {
		frame = frame[i+1:]
	}
	if i := strings.LastIndex(frame, "+0x"); i > 0 {
		frame = frame[:i]
	}
	return frame
}
