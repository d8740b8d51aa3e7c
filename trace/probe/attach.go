package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"culprit/kernel/bpf"
	"culprit/kernel/proc"
	"culprit/lang/check"
	"culprit/measure"

	"github.com/cilium/ebpf"
)

// A Placed is a loaded program and the probes that it serves: more than one where the program finds
// out by itself at which it is: the number of a system call, or a cookie, which is the probe's
// place in Probes.
type Placed struct {
	Program *ebpf.Program
	Probes  []*check.Probe
	CPU     int // only on this CPU, which a predicate asks for; -1: on all. Of profile alone
}

// An Attachment is what was attached together, and what could not be.
type Attachment struct {
	Wanted   int       // probes
	Attached int       // of them
	Skipped  []Skipped // the others, with the reason
	// Passed are attached, but their programs ask first whether somebody watches, and can't learn
	// it: they skip them.
	Passed []Skipped

	links   []attached
	enabled []spot // where processes read whether their probes are watched
}

// A Skipped is a probe that could not be attached. errors.Is says of Err whether the kernel can't
// or may not.
type Skipped struct {
	Probe *check.Probe
	Err   error
}

type attached struct {
	link   *bpf.Link
	placed *Placed
}

// AttachTo returns the target that the program for a probe must be loaded for: the tracepoint or
// function that its arguments are typed by; "" when nothing.
func (e *Env) AttachTo(p *check.Probe) string {
	f := e.targets[p]
	switch {
	case f == nil:
		return ""
	case p.Site == check.SiteTracepointBTF:
		return f.event
	case p.Site == check.SiteFentry, p.Site == check.SiteFexit:
		return f.Function
	}
	return ""
}

// Attach attaches programs to their probes, in the order that they are given. What can't be
// attached is in Skipped, and what can be stays; an error means that nothing is attached. Probes
// that are run by hand (BEGIN, tick) are attached by that alone.
func (e *Env) Attach(programs []Placed) (*Attachment, error) {
	a := &Attachment{}
	for i := range programs {
		p := &programs[i]
		a.Wanted += len(p.Probes)
		if len(p.Probes) == 0 {
			continue
		}
		site := p.Probes[0].Site
		if slices.ContainsFunc(
			p.Probes,
			func(other *check.Probe) bool { return other.Site != site || e.targets[other] == nil },
		) {
			a.Close()
			return nil, fmt.Errorf("the program for %s serves probes of several kinds", p.Probes[0])
		}
		switch site {
		case check.SiteRun:
			a.Attached += len(p.Probes)
		case check.SiteSyscallEntry:
			a.all(p, func() (*bpf.Link, error) { return e.attachSyscalls(p.Program, "sys_enter") })
		case check.SiteSyscallReturn:
			a.all(p, func() (*bpf.Link, error) { return e.attachSyscalls(p.Program, "sys_exit") })
		case check.SiteTracepointBTF, check.SiteFentry, check.SiteFexit:
			a.all(p, func() (*bpf.Link, error) { return bpf.AttachTracing(p.Program) })
		case check.SiteRawTracepoint:
			a.each(p, func(i int, probe *check.Probe) (*bpf.Link, error) {
				return AttachTracepoint(p.Program, e.targets[probe].event, uint64(i))
			})
		case check.SitePerfEvent:
			a.each(
				p,
				func(_ int, probe *check.Probe) (*bpf.Link, error) { return a.timer(e, p, probe) },
			)
		case check.SiteKprobe, check.SiteKretprobe:
			e.attachFunctions(a, p)
		case check.SiteUprobe, check.SiteUretprobe:
			e.attachUser(a, p)
		default:
			a.none(
				p,
				fmt.Errorf(
					"this version cannot attach to such a probe: %w", measure.ErrUnsupported,
				),
			)
		}
	}
	return a, nil
}

// attachSyscalls attaches a program to the entry or return of all system calls, by the method that
// it was made for.
func (e *Env) attachSyscalls(prog *ebpf.Program, name string) (*bpf.Link, error) {
	if prog.Type() != ebpf.TracePoint {
		return AttachTracepoint(prog, name, 0)
	}
	t, err := e.openTracefs()
	if err != nil {
		return nil, err
	}
	format, err := t.Format("raw_syscalls", name)
	if err != nil {
		return nil, err
	}
	return bpf.AttachTraceEvent(prog, format.ID)
}

// AttachTracepoint attaches a program to a tracepoint, by its name unless the program was loaded
// for it. The caller closes the link. It needs Linux 4.17 and CAP_BPF with CAP_PERFMON, or
// CAP_SYS_ADMIN, and fails where there is no such tracepoint.
func AttachTracepoint(prog *ebpf.Program, name string, cookie uint64) (*bpf.Link, error) {
	if prog.Type() == ebpf.Tracing {
		return bpf.AttachTracing(prog)
	}
	return bpf.AttachRawTracepoint(prog, name, cookie)
}

// all attaches a program once for all of its probes.
func (a *Attachment) all(p *Placed, attach func() (*bpf.Link, error)) {
	link, err := attach()
	if err != nil {
		a.none(p, err)
		return
	}
	a.links = append(a.links, attached{link, p})
	a.Attached += len(p.Probes)
}

// each attaches a program at each of its probes, which it distinguishes by the cookie: the index of
// the probe. A nil link: attach has kept what it made.
func (a *Attachment) each(p *Placed, attach func(int, *check.Probe) (*bpf.Link, error)) {
	for i, probe := range p.Probes {
		link, err := attach(i, probe)
		if err != nil {
			a.Skipped = append(a.Skipped, Skipped{probe, fmt.Errorf("attach %s: %w", probe, err)})
			continue
		}
		if link != nil {
			a.links = append(a.links, attached{link, p})
		}
		a.Attached++
	}
}

func (a *Attachment) none(p *Placed, err error) {
	for _, probe := range p.Probes {
		a.Skipped = append(a.Skipped, Skipped{probe, fmt.Errorf("attach %s: %w", probe, err)})
	}
}

// timer attaches a program to a timer of each CPU that is online, or of the one that its predicate
// asks for. A CPU that comes later has none.
func (a *Attachment) timer(e *Env, p *Placed, probe *check.Probe) (*bpf.Link, error) {
	cpus, err := proc.OnlineCPUs(e.root)
	if err != nil {
		return nil, err
	}
	var links []attached
	for _, cpu := range cpus {
		if p.CPU >= 0 && int(cpu) != p.CPU {
			continue
		}
		var link *bpf.Link
		var err error
		if f := e.targets[probe]; f.counter > 0 {
			link, err = bpf.AttachCounter(p.Program, cpu, f.counter-1)
		} else {
			link, err = bpf.AttachTimer(p.Program, cpu, f.every, 0)
		}
		if err != nil {
			for _, l := range links {
				l.link.Close()
			}
			return nil, fmt.Errorf("event of CPU %d: %w", cpu, err)
		}
		links = append(links, attached{link, p})
	}
	if len(links) == 0 {
		return nil, fmt.Errorf("CPU %d is not online", p.CPU)
	}
	a.links = append(a.links, links...)
	return nil, nil
}

// HasLinks reports whether the kernel runs programs of the attachment: those of BEGIN and ticks are
// run by hand.
func (a *Attachment) HasLinks() bool { return len(a.links) > 0 }

// Close takes all programs off. It may be called twice. A program for the trace events of system
// calls may still be called for some tens of milliseconds, in which its clauses do nothing.
func (a *Attachment) Close() error {
	if a == nil {
		return nil
	}
	var first error
	for _, l := range a.links {
		if err := l.link.Close(); err != nil && first == nil {
			first = err
		}
	}
	a.links = nil
	return first
}

// Missed is how many times a program didn't run though it should have.
type Missed struct {
	Nested uint64 // it was running already on that CPU, and a program doesn't interrupt itself
	// more calls waited for their return than the kernel has slots for, or a probe was active
	// within a probe
	Returns uint64
}

// Missed asks the kernel what has been missed since the start.
func (a *Attachment) Missed() Missed {
	var m Missed
	seen := map[*ebpf.Program]bool{}
	for _, l := range a.links {
		m.Returns += l.link.Missed()
		if p := l.placed.Program; !seen[p] {
			seen[p] = true
			if stats, err := p.Stats(); err == nil {
				m.Nested += stats.RecursionMisses
			}
		}
	}
	return m
}

// String reports how many probes are attached, and why others aren't, the same reason once: "419 of
// 421 attached; 2 skipped because ...".
func (a *Attachment) String() string {
	var b strings.Builder
	if len(a.Skipped) == 0 {
		fmt.Fprintf(&b, "%d attached", a.Attached)
	} else {
		fmt.Fprintf(&b, "%d of %d attached", a.Attached, a.Wanted)
	}
	writeReasons(&b, "skipped because", a.Skipped)
	writeReasons(
		&b,
		"never fire, because their programs check whether they are watched and cannot learn it:",
		a.Passed,
	)
	return b.String()
}

// writeReasons writes why something could not be done for probes, the same reason once.
func writeReasons(b *strings.Builder, what string, list []Skipped) {
	type reason struct {
		why   string
		names []string
	}
	var reasons []reason
	for _, s := range list {
		why := s.Err.Error()
		if inner := errors.Unwrap(s.Err); inner != nil {
			why = inner.Error()
		}
		i := slices.IndexFunc(reasons, func(r reason) bool { return r.why == why })
		if i < 0 {
			i = len(reasons)
			reasons = append(reasons, reason{why: why})
		}
		reasons[i].names = append(reasons[i].names, s.Probe.String())
	}
	for _, r := range reasons {
		shown := r.names[:min(3, len(r.names))]
		fmt.Fprintf(b, "; %d %s %s: %s", len(r.names), what, r.why, strings.Join(shown, " "))
		if len(shown) < len(r.names) {
			b.WriteString(" ...")
		}
	}
}

// RunOnce runs the program of a probe that is never attached (BEGIN, END, ERROR, tick) once, on the
// CPU that this thread is on, with the arguments that D knows as arg0 ... arg9. It is for programs
// of type raw tracepoint. It returns the result of the program, and fails where the kernel refuses
// BPF_PROG_RUN.
func RunOnce(prog *ebpf.Program, args ...uint64) (uint32, error) {
	// BPF_PROG_RUN takes at most MAX_BPF_FUNC_ARGS words, and as many as the program was found to
	// read at least.
	var context [12 * 8]byte
	for i, arg := range args {
		if i < 12 {
			binary.NativeEndian.PutUint64(context[8*i:], arg)
		}
	}
	return prog.Run(&ebpf.RunOptions{Context: context[:]})
}
