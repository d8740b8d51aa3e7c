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

// A Placed is a loaded program and the probes that it serves. A program that serves several probes
// distinguishes them by the number of the system call, or by a cookie: the index in Probes.
type Placed struct {
	Program *ebpf.Program
	Probes  []*check.Probe
	CPU     int // of timers: the only CPU on which the program runs; -1: all CPUs
}

// An Attachment is the result of Attach: what was attached, and what could not be.
type Attachment struct {
	Wanted   int       // number of probes
	Attached int       // number of attached ones
	Skipped  []Skipped // the others, with the reason
	// Passed are attached probes that never fire: their programs check whether a probe is enabled,
	// and the kernel cannot make them find that it is.
	Passed []Skipped

	links   []attached
	enabled []spot // where processes were made to find their probes enabled
}

// A Skipped is a probe that could not be attached. Err is measure.ErrUnsupported,
// measure.ErrDenied, or neither.
type Skipped struct {
	Probe *check.Probe
	Err   error
}

type attached struct {
	link   *bpf.Link
	placed *Placed
}

// AttachTo returns the tracepoint or function whose types the program of a probe uses, and for
// which it must be loaded; "" when there is none.
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

// Attach attaches programs to their probes, in the order of programs. Probes that cannot be
// attached are in Skipped. BEGIN, END, ERROR and ticks need no attachment and count as attached. It
// fails, with nothing attached, when the probes of a program differ in kind. The caller closes the
// Attachment.
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
		case check.SiteTracepoint:
			a.each(p, func(_ int, probe *check.Probe) (*bpf.Link, error) {
				return e.attachTraceEvent(p.Program, probe)
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

// attachSyscalls attaches a program to the entry or return of all system calls, as its type
// demands.
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

// attachTraceEvent attaches a program to a trace event, whose record it reads.
func (e *Env) attachTraceEvent(prog *ebpf.Program, p *check.Probe) (*bpf.Link, error) {
	t, err := e.openTracefs()
	if err != nil {
		return nil, err
	}
	format, err := t.Format(p.Module, e.targets[p].event)
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

// all attaches a program with one link for all of its probes.
func (a *Attachment) all(p *Placed, attach func() (*bpf.Link, error)) {
	link, err := attach()
	if err != nil {
		a.none(p, err)
		return
	}
	a.links = append(a.links, attached{link, p})
	a.Attached += len(p.Probes)
}

// each attaches a program at each of its probes. attach returns nil when it has added its links
// itself.
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

// timer attaches a program to a timer on each CPU that is online, or on p.CPU. A CPU that comes
// online later has none.
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
		if f := e.targets[probe]; f.perf != nil {
			link, err = bpf.AttachEvent(p.Program, cpu, f.perf.kind, f.perf.config, f.perf.period)
		} else if f.counter > 0 {
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

// HasLinks reports whether the kernel runs programs of the attachment. It is false for a script
// that has only BEGIN, END, ERROR and ticks, which culprit runs.
func (a *Attachment) HasLinks() bool { return len(a.links) > 0 }

// Close detaches all programs and returns the first error of that. It may be called twice, and on
// nil. The kernel may call a program for the trace events of system calls for some tens of
// milliseconds longer; its clauses then do nothing.
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

// Missed counts the firings at which the kernel did not run a program.
type Missed struct {
	Nested uint64 // the program was already running on that CPU
	// Returns: more calls were open than the kernel has slots for, or a probe fired within a probe.
	Returns uint64
}

// Missed returns the kernel's counts of missed firings since Attach.
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

// String returns how many probes are attached, and once for each reason how many are not: "419 of
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
		"never fire, because their programs check whether they are enabled and cannot find that:",
		a.Passed,
	)
	return b.String()
}

// writeReasons writes each reason of list once, with the number and the names of its probes.
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

// RunOnce runs the program of BEGIN, END, ERROR or a tick once, on the CPU of this thread, with
// args as arg0 ... arg9. The program has the type raw tracepoint. It returns the result of the
// program, and fails when the kernel refuses BPF_PROG_RUN.
func RunOnce(prog *ebpf.Program, args ...uint64) (uint32, error) {
	// BPF_PROG_RUN takes at most MAX_BPF_FUNC_ARGS words, and at least as many as the program
	// reads.
	var context [12 * 8]byte
	for i, arg := range args {
		if i < 12 {
			binary.NativeEndian.PutUint64(context[8*i:], arg)
		}
	}
	return prog.Run(&ebpf.RunOptions{Context: context[:]})
}
