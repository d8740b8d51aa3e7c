package probe

import (
	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/kernel/proc"
	"culprit/lang/check"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/symbol"

	"github.com/cilium/ebpf/btf"
)

// An Env finds probes on this machine. D programs are checked against it: it is a check.Env. It
// reads nothing before it is needed: syscall::read:entry needs no list of functions. Only Types may
// be called by several goroutines at once.
type Env struct {
	// Method is how functions of the kernel are probed; AttachAny chooses by what the kernel has.
	// Set it before the first call of Probes.
	Method AttachMethod
	// Processes are the processes that a provider without a process ID means (pid*): those of -p
	// and -c.
	Processes []int
	// Started are those of Processes that are stopped before their first instruction.
	Started []int
	// Files reads files of processes; nil: this process does. Set it before the first call of
	// Probes.
	Files *symbol.Files

	kernelInfo
	users     processProbes
	providers []*provider
	made      map[uint32]*check.Probe // by ID
	targets   map[*check.Probe]*found
	fbt       functions
	missing   map[string]error  // by provider: why its probes could not be listed
	timers    map[string]uint32 // numbers of the timers that exist because they were named
	perfIDs   map[string]uint32 // of the events of perf, likewise
	asks      bool              // foreignProbe searches: its descriptions need no explanation
}

// kernelInfo is what an Env has found out about the kernel.
type kernelInfo struct {
	root    kernel.Root
	symbols *symbol.Kernel
	types   *bpf.Types
	tracefs *proc.Tracefs
	events  []proc.Event // nil: not read yet
	noTrace error        // why events can't be read
	// narrowed are the numbers of system calls of 32-bit processes; nil: not read yet.
	narrowed  map[string]uint64
	calls     map[string]bool   // the result of SyscallEvents; nil: not read yet
	unnamed   map[string]uint64 // addresses of variables that the table of symbols lacks
	space     pidSpace
	multi     *bool // the kernel has kprobe.multi; nil: not tried yet
	userMulti *bool // the kernel has uprobe.multi for whole processes; nil: not tried yet
}

// NewEnv returns an Env for the files below root. To attach probes, these must be the running
// kernel's. The caller closes it.
func NewEnv(root kernel.Root) *Env {
	e := &Env{
		kernelInfo: kernelInfo{
			root:    root,
			symbols: symbol.NewKernel(root),
			types:   bpf.NewTypes(root),
		},
		providers: providers(),
		made:      map[uint32]*check.Probe{},
		targets:   map[*check.Probe]*found{},
		missing:   map[string]error{},
		timers:    map[string]uint32{},
		perfIDs:   map[string]uint32{},
	}
	e.users.env = e
	return e
}

// Close releases the files and kernel types that e uses. Probes that it returned stay valid. It
// fails when a file cannot be closed.
func (e *Env) Close() error {
	e.users.close()
	e.types.Release()
	t := e.tracefs
	e.tracefs = nil
	return t.Close()
}

// Root returns the root that NewEnv was called with.
func (k *kernelInfo) Root() kernel.Root { return k.root }

// KernelSymbols returns the kernel's table of symbols.
func (k *kernelInfo) KernelSymbols() *symbol.Kernel { return k.symbols }

// Types returns the kernel's types.
func (k *kernelInfo) Types() *bpf.Types { return k.types }

// BTF returns the kernel's types; see check.Env. It fails when the kernel has no BTF.
func (k *kernelInfo) BTF() (*btf.Spec, error) { return k.types.Kernel() }

// A Listed is a row of a list of probes.
type Listed struct {
	ID                               uint32
	Provider, Module, Function, Name string
}

// A found is a probe that a search found, and its place in the kernel. A list of ten thousands
// passes the same struct again and again: a caller that keeps it copies it.
type found struct {
	Listed
	by     *provider
	site   check.Site
	key    uint64
	compat uint64       // of check.Probe
	event  string       // of a tracepoint: its name
	every  measure.Span // of a timer: its interval, ns
	alias  string       // another name of the function, which descriptions match too; ""
	alone  bool         // of a function: it was named by itself, as one of a few
	method AttachMethod // how it will be attached

	way     *way       // of a stable probe: the probe of the kernel that implements it; else nil
	counter uint64     // 1 + a software event of perf; 0: none
	perf    *perfEvent // of software and hardware; else nil

	foundUser
}

// foundUser is the part of a found that only probes of processes have.
type foundUser struct {
	spots []spot   // where it is
	entry bool     // it is at a function's first instruction
	types []string // of its arguments, as the process's file describes them
	// asked is where the process asks whether the probe is enabled, before it reaches spots.
	asked []spot
}

// A provider is a set of probes of one origin.
type provider struct {
	name        string
	first, last uint32 // the least and the greatest number of its probes
	// named: only a description that names the provider matches, because other providers have the
	// same probes.
	named bool
	// settled: its arguments are not the tracepoint's, so args also decides what arg0 is.
	settled bool
	// list calls yield at least with each probe that w matches. The caller has compared the
	// provider's name. It fails when the probes cannot be listed.
	list func(e *Env, w *want, yield func(*found)) error
	// make returns a probe that exists because it is named, or nil for other names.
	make func(e *Env, name string) (*found, error)
	// args returns args[], or nil and the reason why they are unknown. nil: the provider has none.
	args func(e *Env, f *found, p *check.Probe) ([]check.Arg, string)
	// why returns why this kernel lacks a probe that other kernels have, or "" for an unknown
	// probe. It may be nil.
	why func(e *Env, w *want) string
}

// providers returns all providers but those of processes, in the order in which they are listed.
// Their probes have separate ranges of numbers, so that one provider can be listed without the
// others, and a number is stable until the next boot:
//
//	1       dtrace     10      profile; 1000: timers that exist because they were named
//	2000    syscall: twice the system call's number, one more for return
//	8000    io, proc, sched, tcp, udp, ip, lockstat, vminfo, sysinfo
//	10000   sdt        50000   rawtp    90000   tracepoint    99000   software, hardware
//	100000  fbt: twice the function's number in the kernel's BTF, one more for return
//	4000000 fbt: functions that are not in BTF
//	8000001 probes of processes and files, in the order in which they are first found
func providers() []*provider {
	return []*provider{
		dtraceProvider(), profileProvider(), syscallProvider(),
		stableProvider("io"), stableProvider("proc"), stableProvider("sched"),
		stableProvider("tcp"), stableProvider("udp"), stableProvider("ip"),
		stableProvider("lockstat"), stableProvider("vminfo"), stableProvider("sysinfo"),
		sdtProvider(), rawtpProvider(), tracepointProvider(), fbtProvider(),
		eventProvider("software"), eventProvider("hardware"),
		fileProvider("uprobe"), fileProvider("uretprobe"), fileProvider("usdt"),
		fileProvider("file"),
	}
}

// ProviderNames returns the names of all providers but those of processes.
func ProviderNames() []string {
	var names []string
	for _, p := range providers() {
		names = append(names, p.name)
	}
	return names
}

// A NoProbe is the error of a description that matches nothing. It is measure.ErrUnsupported or
// measure.ErrDenied when that is the reason; else the description is wrong.
type NoProbe struct {
	Description string
	Err         error // the reason; nil: the description is wrong
	Message     string
	Hint        string // what to write instead; "" when no name is similar
	Tag         string // dtrace's name of the error; "": D_PDESC_ZERO
}

// Error returns Message, with Hint in parentheses.
func (n *NoProbe) Error() string {
	s := n.Message
	if n.Hint != "" {
		s += " (" + n.Hint + ")"
	}
	return s
}

// Unwrap returns Err, and a diagnostic when Tag is set.
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

// List calls each with every probe that a description matches, provider by provider. It fails when
// the description names a timer or process that is not possible. A description that matches nothing
// is no error; providers that could not be listed are in Missing.
func (e *Env) List(d *syntax.Probe, each func(Listed)) error {
	return e.search(e.wantOf(d), func(f *found) { each(f.Listed) })
}

// Missing returns, by provider, the error for which its probes could not be listed.
func (e *Env) Missing() map[string]error { return e.missing }

// Probes returns the probes that a description matches, in the order of List. A probe has the same
// *check.Probe each time. It fails with a *NoProbe when nothing matches.
func (e *Env) Probes(d *syntax.Probe) ([]*check.Probe, error) {
	w := e.wantOf(d)
	var out []*check.Probe
	if err := e.search(w, func(f *found) { out = append(out, e.intern(f)) }); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, e.explain(w)
	}
	return out, nil
}

// search calls yield with each probe that w matches.
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
func (k *kernelInfo) openTracefs() (*proc.Tracefs, error) {
	if k.tracefs == nil && k.noTrace == nil {
		k.tracefs, k.noTrace = proc.OpenTracefs(k.root)
	}
	return k.tracefs, k.noTrace
}

// TraceEvents returns the kernel's trace events, which it reads once. It fails when the trace file
// system cannot be mounted or read.
func (k *kernelInfo) TraceEvents() ([]proc.Event, error) {
	if k.events != nil {
		return k.events, nil
	}
	t, err := k.openTracefs()
	if err != nil {
		return nil, err
	}
	if k.events, err = t.Events(); err != nil {
		k.noTrace = err
	}
	return k.events, err
}
