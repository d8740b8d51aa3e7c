package probe

import (
	"fmt"
	"slices"
	"strings"

	"culprit/kernel/bpf"
	"culprit/kernel/proc"
	"culprit/lang/check"
	"culprit/measure"

	"github.com/cilium/ebpf/btf"
)

// A stableProbe is a probe of D that means the same on every system.
type stableProbe struct {
	provider, name string
	// places are where it fires. As in DTrace each is a probe of its own with its own function. Of
	// the ways to implement a place, the first one that this kernel has is used.
	places [][]way
	lacks  string // why it has no places; "": the tracepoints are missing
}

// A way implements a stable probe: by a tracepoint, a system call, or a software event of perf.
type way struct {
	function string // the probe's FUNCTION, if the name has several places
	event    string // the tracepoint
	syscall  string // the system call's entry, or with returns its return
	returns  bool
	counter  uint64 // 1 + the software event of perf (PERF_COUNT_SW_...)

	names []param
	// when is a condition in D about names; see check.Meaning. %s is the address of the first of
	// symbol that this kernel has.
	when   string
	symbol []string // functions of the kernel
	thread string   // which of names is the thread that the probe is about; "": the current thread
	args   []check.Arg

	before, after string // clauses of D
}

// A param is an argument of a way. Arguments of tracepoints are found by their types, because their
// positions differ between kernels.
type param struct {
	name string // in texts of D
	// of is the struct that a tracepoint's argument points to; "": a number; other: a pointer to
	// something else. For a system call it is the type as C text.
	of  string
	nth int // index among the arguments with of; for a system call among all
}

const (
	other       = "(other)"
	firstStable = 8000
	mostPlaces  = 16 // of one probe: the step from its number to the next
)

// task names the nth argument of a tracepoint that is a thread (a pointer to task_struct).
func task(name string, nth int) param { return param{name, "task_struct", nth} }

// value returns an argument that is a plain value.
func value(c, d string) check.Arg { return check.Arg{C: c, D: d} }

// made returns an argument that is a pointer to a struct t of D, translated from d.
func made(t, d string) check.Arg { return check.Arg{C: t + " *", D: d, Xlate: t} }

// withMembers returns the same with members that the probe itself provides. pairs are a member and
// its text, alternating.
func withMembers(t, d string, pairs ...string) check.Arg {
	a := made(t, d)
	a.With = map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		a.With[pairs[i]] = pairs[i+1]
	}
	return a
}

// stableProbes returns all stable probes, provider by provider. The index here determines a probe's
// number.
func stableProbes() []stableProbe {
	return slices.Concat(
		ioProbes(), procProbes(), schedProbes(), tcpProbes(), udpProbes(), ipProbes(),
		lockstatProbes(), vminfoProbes(), sysinfoProbes(),
	)
}

// StableNames returns the names of all stable probes, as "provider:::name", also of those that this
// kernel lacks. A probe with several places has its name several times.
func StableNames() []string {
	all := stableProbes()
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].provider + ":::" + all[i].name
	}
	return names
}

// at returns the places of a probe with one place and several alternative ways.
func at(ways ...way) [][]way { return [][]way{ways} }

// stableProvider lists the stable probes of one provider that this kernel has.
func stableProvider(name string) *provider {
	return &provider{
		name: name, first: firstStable, last: firstSDT - 1, settled: true,
		list: func(e *Env, w *want, yield func(*found)) error {
			for i, s := range stableProbes() {
				if s.provider != name || w.id == 0 && !w.name.match(s.name) {
					continue
				}
				for k, ways := range s.places {
					f := &found{
						Listed: Listed{
							ID:       firstStable + uint32(i*mostPlaces+k),
							Provider: name,
							Module:   "vmlinux",
							Name:     s.name,
						},
					}
					for j := range ways {
						ok, err := e.onWay(f, &ways[j])
						if err != nil {
							return err
						}
						if ok {
							yield(f)
							break
						}
					}
				}
			}
			return nil
		},
		args: stableArgs,
		why: func(_ *Env, w *want) string {
			for _, s := range stableProbes() {
				if s.provider == name && w.name.isLit && w.name.literal == s.name {
					return s.missing()
				}
			}
			return ""
		},
	}
}

// missing returns why this kernel lacks a probe.
func (s *stableProbe) missing() string {
	if s.lacks != "" {
		return s.lacks
	}
	var events []string
	for _, ways := range s.places {
		for _, w := range ways {
			if w.event != "" && !slices.Contains(events, w.event) {
				events = append(events, w.event)
			}
		}
	}
	if len(events) == 0 {
		return ""
	}
	why := "this kernel has no tracepoint " + strings.Join(events, " or ")
	for _, event := range events {
		if version := eventSince[event]; version != "" {
			return why + ": Linux " + version + " brought it"
		}
	}
	return why
}

// eventSince is the version of Linux that brought a tracepoint, of those that stable probes use and
// Linux 5.10 lacks.
//
// table: made once, never changed
var eventSince = map[string]string{
	"contention_begin": "5.19", "contention_end": "5.19",
	"block_io_start": "6.5", "block_io_done": "6.5",
	"sched_exit_tp": "6.15",
}

// onWay sets f to the probe that a way implements. It returns false when this kernel lacks it.
func (e *Env) onWay(f *found, w *way) (bool, error) {
	f.Function, f.way = w.function, w
	switch {
	case w.counter > 0:
		f.site, f.counter = check.SitePerfEvent, w.counter
		return true, nil
	case w.syscall != "":
		number, ok := syscallNumber(w.syscall)
		f.site, f.key, f.compat = check.SiteSyscallEntry, number, e.calls32Bit()[w.syscall]
		if w.returns {
			f.site = check.SiteSyscallReturn
		}
		return ok, nil
	}
	f.site, f.event = check.SiteRawTracepoint, w.event
	events, err := e.TraceEvents()
	if err != nil {
		return false, err
	}
	if !hasEvent(events, w.event) && !e.bareTracepoint(w.event) {
		return false, nil
	}
	if len(w.symbol) > 0 && e.firstSymbol(w) == 0 {
		return false, nil
	}
	for _, p := range w.names {
		// Only the types show whether this kernel's tracepoint has the argument.
		if p.nth > 0 || p.of != "" && p.of != "task_struct" || len(w.names) > 1 {
			args, why := tracepointArgs(e, f, nil)
			if why == "" {
				_, err := pick(args, w.names)
				return err == nil, nil
			}
			break
		}
	}
	return true, nil
}

// firstSymbol returns the address of the first of a way's functions that this kernel has, or 0.
func (k *kernelInfo) firstSymbol(w *way) uint64 {
	for _, name := range w.symbol {
		if address, _, ok := k.symbols.Lookup("vmlinux", name); ok {
			return address
		}
	}
	return 0
}

func syscallNumber(name string) (uint64, bool) {
	nr := slices.Index(syscallNames[:], name)
	return uint64(max(nr, 0)), nr >= 0
}

func hasEvent(events []proc.Event, name string) bool {
	for _, e := range events {
		if e.Name == name && !eventless(e.Subsystem) {
			return true
		}
	}
	return false
}

// bareTracepoint reports whether the kernel has a tracepoint that has no trace event.
func (k *kernelInfo) bareTracepoint(name string) bool {
	if !strings.HasSuffix(name, "_tp") { // all such tracepoints of stable probes end so
		return false
	}
	names, err := k.types.TypeNames("")
	return err == nil && slices.Contains(namesOf(names, bpf.KindTypedef), tracepointType+name)
}

// pick returns the arguments that names describe, with these names.
func pick(all []check.Arg, names []param) ([]check.Arg, error) {
	var out []check.Arg
	for _, p := range names {
		nth := p.nth
		for _, a := range all {
			if pointsTo(a.Type) != p.of {
				continue
			}
			if nth--; nth >= 0 {
				continue
			}
			a.Name = p.name
			out = append(out, a)
			break
		}
		if nth >= 0 {
			return nil, fmt.Errorf("argument %s %s: %w", p.of, p.name, measure.ErrUnsupported)
		}
	}
	return out, nil
}

// stableArgs sets the meaning of a stable probe on this kernel, and returns its arguments.
func stableArgs(e *Env, f *found, p *check.Probe) ([]check.Arg, string) {
	w := f.way
	m := &check.Meaning{Event: f.event, When: w.when, Before: w.before, After: w.after}
	p.Meaning = m
	if len(w.symbol) > 0 {
		m.When = fmt.Sprintf(w.when, fmt.Sprintf("%#x", e.firstSymbol(w)))
	}
	if f.event == "" {
		for _, n := range w.names { // types and positions are those of the way
			m.Names = append(m.Names, check.Arg{Name: n.name, C: n.of, From: n.nth})
		}
		return w.args, ""
	}
	all, why := tracepointArgs(e, f, p)
	if all == nil && why != "" {
		m.Why = why
		return nil, why
	}
	var err error
	if m.Names, err = pick(all, w.names); err != nil {
		m.Why = "the tracepoint " + f.event + " of this kernel has other arguments"
		return nil, m.Why
	}
	p.Site = check.SiteTracepointBTF
	for _, n := range m.Names {
		if n.Name == w.thread {
			m.Thread = n.From + 1
		}
	}
	return w.args, ""
}

// pointsTo returns the name of the struct that a type points to; "" for what isn't a pointer.
func pointsTo(t btf.Type) string {
	pointer, ok := btf.UnderlyingType(t).(*btf.Pointer)
	if !ok {
		return ""
	}
	if s, ok := btf.UnderlyingType(pointer.Target).(*btf.Struct); ok {
		return s.Name
	}
	return other
}
