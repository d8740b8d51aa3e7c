package probe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/kernel/proc"
	"culprit/lang/check"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/symbol"

	"github.com/cilium/ebpf/btf"
)

// An Env knows what can be traced on this machine. D programs are checked against it: it is a
// check.Env. It reads nothing before it is needed: syscall::read:entry needs no list of functions.
// Only Types may be called by several goroutines at once.
type Env struct {
	// Method is how functions of the kernel are probed; AttachAny chooses by what the kernel has.
	// Set it before the first call of Probes.
	Method AttachMethod
	// Processes are those that a description means whose provider names no process: pid*, of -p and
	// -c.
	Processes []int
	// Started are those of Processes that stand before their first instruction.
	Started []int

	users     userEnv
	providers []*provider
	// what system calls of 32-bit processes are known by; nil: not asked yet
	narrowed map[string]uint64
	calls    map[string]bool   // syscallEvents
	unnamed  map[string]uint64 // where variables lie that the table of symbols has not
	root     kernel.Root
	symbols  *symbol.Kernel
	types    *bpf.Types
	tracefs  *proc.Tracefs
	events   []proc.Event            // nil: not read yet
	noTrace  error                   // why events can't be read
	made     map[uint32]*check.Probe // by ID
	targets  map[*check.Probe]*found
	fbt      functions
	space    pidSpace          // what IDs of processes are
	multi    *bool             // whether kprobe.multi is there; nil: not asked yet
	missing  map[string]error  // providers that could not be listed
	timers   map[string]uint32 // those made by being named, and their numbers
}

// NewEnv returns what can be traced below root; for what is attached it must be the running
// kernel's. Who makes it closes it.
func NewEnv(root kernel.Root) *Env {
	return &Env{
		root:      root,
		symbols:   symbol.NewKernel(root),
		types:     bpf.NewTypes(root),
		providers: providers(),
		made:      map[uint32]*check.Probe{},
		targets:   map[*check.Probe]*found{},
		missing:   map[string]error{},
		timers:    map[string]uint32{},
	}
}

// Close releases the files and kernel types that e uses. Probes that it returned stay valid. It
// fails when a file cannot be closed.
func (e *Env) Close() error {
	e.closeUser()
	e.types.Release()
	t := e.tracefs
	e.tracefs = nil
	return t.Close()
}

// Root returns the root that e was made with.
func (e *Env) Root() kernel.Root { return e.root }

// KernelSymbols returns the kernel's table of symbols.
func (e *Env) KernelSymbols() *symbol.Kernel { return e.symbols }

// Types returns the kernel's types.
func (e *Env) Types() *bpf.Types { return e.types }

// BTF returns the kernel's types; see check.Env.
func (e *Env) BTF() (*btf.Spec, error) { return e.types.Kernel() }

// A Listed is a probe as it is listed.
type Listed struct {
	ID                               uint32
	Provider, Module, Function, Name string
}

// A found is a probe of a provider's list, and where it is in the kernel. Lists of ten thousands
// give the same one again and again: who keeps it copies it.
type found struct {
	Listed
	by     *provider
	site   check.Site
	key    uint64
	compat uint64       // of check.Probe
	event  string       // of the tracepoint, where it is one
	every  measure.Span // of a timer: its interval, ns
	alias  string       // another name of the function, under which it is found too; ""
	alone  bool         // of a function: it was asked for by its name, as one of a few
	method AttachMethod // by which it is to be attached
	spots  []spot       // of a process: where it is
	entry  bool         // it is at a function's first instruction
	types  []string     // of its arguments, as the process's file describes them
	// where the process asks whether the probe is watched, and goes past it if not
	asked []spot

	way     *way   // of a stable probe: what it stands on; else nil
	counter uint64 // 1 + a software event of perf; 0: none
}

// A provider is a family of probes.
type provider struct {
	name        string
	first, last uint32 // the numbers that its probes may have
	// named: its probes are for those who name it, because others have them too.
	named bool
	// settled: its arguments are not the tracepoint's, so that arg0 is not known without them
	// either.
	settled bool
	// list calls yield with each probe that w fits; that the provider's name fits is known. An
	// error says why there is no list.
	list func(e *Env, w *want, yield func(*found)) error
	// make returns a probe that there is because it was named; nil: this one isn't.
	make func(e *Env, name string) (*found, error)
	// args finds out args[]; nil: there are none.
	args func(e *Env, f *found, p *check.Probe) ([]check.Arg, string)
	// why reports why a probe that others have is not there; "": there is no such. nil: it is never
	// known.
	why func(e *Env, w *want) string
}

// providers are all families of probes, in the order in which they are listed. Their probes have
// numbers of their own, so that one provider can be listed without the others, and a number means
// the same until the next boot:
//
//	1       dtrace     10      profile, 1000 those made by being named
//	2000    syscall: twice the system call's number, one more for return
//	8000    io, proc, sched, tcp, udp, ip, lockstat, vminfo, sysinfo
//	10000   sdt        50000   rawtp
//	100000  fbt: twice the function's number in the kernel's BTF, one more for return; 4000000: those that it hasn't
//	8000001 probes of processes, in the order in which they are met
func providers() []*provider {
	return []*provider{
		dtraceProvider(), profileProvider(), syscallProvider(),
		stableProvider("io"), stableProvider("proc"), stableProvider("sched"),
		stableProvider("tcp"), stableProvider("udp"), stableProvider("ip"),
		stableProvider("lockstat"), stableProvider("vminfo"), stableProvider("sysinfo"),
		sdtProvider(), rawtpProvider(), fbtProvider(),
	}
}

// A NoProbe says that a description matches nothing here: as far as is known, why, and what is
// near. errors.Is reports whether the kernel can't (measure.ErrUnsupported) or may not
// (measure.ErrDenied) have what was asked for; else there is no such thing.
type NoProbe struct {
	Description string
	Err         error // why there can't be any; nil: the name alone is wrong
	Message     string
	Hint        string // what to write instead; "" when nothing is near
	Tag         string // what dtrace calls it; "": D_PDESC_ZERO
}

// Error returns one line.
func (n *NoProbe) Error() string {
	s := n.Message
	if n.Hint != "" {
		s += " (" + n.Hint + ")"
	}
	return s
}

// Unwrap returns Err, and what is wrong in the words of lang where dtrace has a name for it.
func (n *NoProbe) Unwrap() []error {
	var out []error
	if n.Err != nil {
		out = append(out, n.Err)
	}
	if n.Tag != "" {
		out = append(out, n.diagnostic())
	}
	return out
}

// List calls each with every probe that a description matches, provider by provider. That none does
// is no error here: an error is a timer that can't be. What could not be listed is in Missing
// afterwards.
func (e *Env) List(d *syntax.Probe, each func(Listed)) error {
	return e.search(newWant(d), func(f *found) { each(f.Listed) })
}

// Missing returns, by provider, the error for which its probes could not be listed.
func (e *Env) Missing() map[string]error { return e.missing }

// Probes returns the probes that a description matches, in the order of the list; the same
// *check.Probe each time that the same probe is meant. Where there is none the error is a *NoProbe.
func (e *Env) Probes(d *syntax.Probe) ([]*check.Probe, error) {
	w := newWant(d)
	var out []*check.Probe
	if err := e.search(w, func(f *found) { out = append(out, e.intern(f)) }); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, e.explain(w)
	}
	return out, nil
}

// search calls yield with each probe that w fits.
func (e *Env) search(w *want, yield func(*found)) error {
	for _, p := range e.providers {
		if !w.provider.match(p.name) || p.named && w.provider.any() && w.id == 0 ||
			w.id != 0 && (w.id < p.first || w.id > p.last) {
			continue
		}
		if p.make != nil && w.name.isLit && w.module.any() && w.function.any() {
			f, err := p.make(e, w.name.literal)
			if err != nil {
				return &NoProbe{Description: w.text, Message: err.Error()}
			}
			if f != nil {
				f.by = p
				yield(f)
				continue
			}
		}
		err := p.list(e, w, func(f *found) {
			if w.match(f) {
				f.by = p
				yield(f)
			}
		})
		if err != nil {
			e.missing[p.name] = err
		}
	}
	if e.user(w) {
		return e.searchUser(w, func(f *found) {
			f.by = userProvider
			yield(f)
		})
	}
	return nil
}

// intern returns the one check.Probe of a probe.
func (e *Env) intern(f *found) *check.Probe {
	if p := e.made[f.ID]; p != nil {
		return p
	}
	own := *f
	p := &check.Probe{
		ID: f.ID, Provider: f.Provider, Module: f.Module, Function: f.Function, Name: f.Name,
		Site: f.site, Key: f.key, Compat: f.compat,
	}
	if len(own.spots) > 0 {
		e.internSpots(&own, p)
	}
	if f.by.args != nil {
		p.Learn = func() ([]check.Arg, string) { return own.by.args(e, &own, p) }
	}
	e.made[f.ID] = p
	e.targets[p] = &own
	if f.by.settled {
		p.Arguments()
	}
	return p
}

// Every returns the interval of a timer, tick-5s or profile-97; 0 for other probes.
func (e *Env) Every(p *check.Probe) measure.Span {
	if f := e.targets[p]; f != nil {
		return f.every
	}
	return 0
}

// openTracefs opens the trace file system once.
func (e *Env) openTracefs() (*proc.Tracefs, error) {
	if e.tracefs == nil && e.noTrace == nil {
		e.tracefs, e.noTrace = proc.OpenTracefs(e.root)
	}
	return e.tracefs, e.noTrace
}

// TraceEvents lists the kernel's trace events, read once.
func (e *Env) TraceEvents() ([]proc.Event, error) {
	if e.events != nil {
		return e.events, nil
	}
	t, err := e.openTracefs()
	if err != nil {
		return nil, err
	}
	if e.events, err = t.Events(); err != nil {
		e.noTrace = err
	}
	return e.events, err
}

// explain reports why nothing matches.
func (e *Env) explain(w *want) *NoProbe {
	none := &NoProbe{Description: w.text, Message: "no probe matches " + w.text}
	if w.id != 0 {
		none.Message = fmt.Sprintf("no probe has the number %d", w.id)
		return none
	}
	if e.user(w) {
		return e.explainUser(w)
	}
	var meant []*provider
	var names []string
	for _, p := range e.providers {
		names = append(names, p.name)
		if w.provider.match(p.name) {
			meant = append(meant, p)
		}
	}
	if strings.HasPrefix(w.provider.text, "pid") && len(e.Processes) == 0 && len(meant) == 0 {
		none.Message = w.provider.text + " names no process"
		none.Hint = "pid123, or pid$target with -p PID or -c COMMAND"
		return none
	}
	if len(meant) == 0 {
		none.Message = "there is no provider " + w.provider.text
		if near := measure.Nearest(w.provider.text, names); near != "" {
			none.Hint = "did you mean " + near + "?"
		} else {
			none.Hint = "providers are " + strings.Join(names, " ")
		}
		return none
	}
	if len(meant) == 1 && e.missing[meant[0].name] != nil {
		e.explainMissing(w, meant[0].name, none)
		return none
	}
	if e.missing["fbt"] != nil && w.provider.match("fbt") && !w.function.any() &&
		(w.name.match("entry") || w.name.match("return")) {
		e.explainMissing(w, "fbt", none)
		return none
	}
	for _, p := range meant {
		if p.why != nil && !e.elsewhere(w) && p.why(e, w) != "" {
			none.Err = measure.ErrUnsupported
			none.Message = fmt.Sprintf("%s can't be had here: %s", w.text, p.why(e, w))
			return none
		}
	}
	e.explainParts(w, none)
	return none
}

// explainMissing reports why there are no probes of a provider, and which tracepoints are near the
// function that was asked for.
func (e *Env) explainMissing(w *want, provider string, none *NoProbe) {
	none.Err = e.missing[provider]
	none.Message = fmt.Sprintf("%s can't be had here: %v", w.text, none.Err)
	if near := e.nearEvents(w); near != "" {
		none.Hint = "near are " + near
	}
}

// elsewhere reports whether the kernel has the probe, but in another module or function than w
// names.
func (e *Env) elsewhere(w *want) (there bool) {
	if w.module.any() && w.function.any() {
		return false
	}
	anywhere := *w
	anywhere.module, anywhere.function = glob{}, glob{}
	// errors of timer names were returned before
	_ = e.search(&anywhere, func(*found) { there = true })
	return there
}

// explainParts finds the part of the description without which it would match, and what is near it.
func (e *Env) explainParts(w *want, none *NoProbe) {
	for _, part := range []struct {
		what string
		glob func(*want) *glob
		of   func(*found) string
	}{
		{"name", func(w *want) *glob { return &w.name }, func(f *found) string { return f.Name }},
		{"function", func(w *want) *glob { return &w.function }, func(f *found) string { return f.Function }},
		{"module", func(w *want) *glob { return &w.module }, func(f *found) string { return f.Module }},
	} {
		without := *w
		g := part.glob(&without)
		if g.any() {
			continue
		}
		text := g.text
		*g = glob{}
		there := map[string]bool{}
		_ = e.search(&without, func(f *found) { // errors of timer names were returned before
			there[part.of(f)] = true
		})
		if len(there) == 0 {
			continue
		}
		names := slices.Sorted(maps.Keys(there))
		if near := measure.Nearest(text, names); near != "" {
			none.Hint = "did you mean " + near + "?"
		} else if len(names) == 1 && names[0] == "" {
			none.Hint = "it has no " + part.what + ": leave that part empty"
		} else if len(names) <= 8 {
			none.Hint = "its " + part.what + " can be " + strings.Join(names, ", ")
		} else {
			none.Hint = fmt.Sprintf("none of %d probes has such a %s", len(names), part.what)
		}
		return
	}
}
