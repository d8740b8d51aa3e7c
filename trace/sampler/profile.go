package sampler

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/gen"
	"culprit/lang/ir"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/symbol"
	"culprit/trace"
	"culprit/trace/probe"
)

// A Profile describes which stacks to gather. A D program adds them up in the kernel.
type Profile struct {
	Of      ProfileOf
	Hz      int    // for OnCPU: samples per second and CPU
	Event   *Event // for OnEvent
	Threads ThreadFilter
	CPUs    []int // nil: all. Of waits: the CPU on which the wait begins (OffCPU) or ends
	// Kernel and User select stacks; neither selects both. With one of them, OnCPU samples only the
	// kernel or only programs, and Locks counts only locks of the kernel or only futexes.
	Kernel, User bool
	ByCPU        bool          // for samples: stacks are separate per CPU
	ByThread     bool          // stacks are separate per thread
	ByLeader     bool          // stacks have the name of the process beside the thread's
	ByCgroup     bool          // stacks are separate per control group
	Times        bool          // for OnCPU: samples have their times, as far as there is space
	Offsets      bool          // for samples: frames are places in functions, as they are for waits
	Wakers       bool          // for OffCPU: stacks are separate per waker
	Least        measure.Span  // of waits: shorter ones are left out
	For          measure.Span  // how long Run gathers; 0: until the context ends
	Inline       bool          // inlined functions are frames, where files have debug information
	Files        *symbol.Files // reads files of processes; nil: this process does
	Unwind       string        // how stacks of processes are walked: auto, fp, tables; "": auto
	// Command is started for the profile, which is of its processes and ends with it; nil: none.
	Command []string
	// Progress is called each second with what was gathered so far; nil: nothing.
	Progress func(Progress)

	hooks  profileHooks
	groups *cgroupPaths // nil: control groups are not requested
}

// profileHooks adapt a profile to its caller.
type profileHooks struct {
	doing      string // the operation in errors; "": profile
	begun      func() // called when the clauses run; nil: nothing
	beforeRead func() // called before counts are read; nil: nothing
}

// A ProfileOf is the subject of a profile.
type ProfileOf uint8

// The subjects of profiles. The first two are samples. The others are waits: their amounts are ns
// from begin to end, and they are counted at the end.
const (
	OnCPU    ProfileOf = iota // what CPUs execute, sampled
	OnEvent                   // one event in Event.Every
	OffCPU                    // from when a thread leaves its CPU until it runs again
	RunQueue                  // from when a thread is woken, new or preempted until it runs
	Locks                     // waits for locks of the kernel, and in futex(2)
)

// waits reports whether the amounts are times of waits.
func (of ProfileOf) waits() bool { return of > OnEvent }

// A Progress is what a running profile has gathered.
type Progress struct {
	Took    time.Duration
	Samples int64 // 0 for waits, which are read at the end
	Unnamed int64 // samples of programs at addresses that have no name
}

// A Sampled is a stack with its amount.
type Sampled struct {
	Process  string // the thread's name
	Leader   string // the name of the process, if ByLeader
	Cgroup   string // the path of the control group, if ByCgroup; "": unknown
	PID, TID int    // TID is -1 unless stacks are separate per thread
	CPU      int    // -1 unless stacks are separate per CPU
	State    string // of waits: how the thread waited (sleeping, preempted ...), or a kind of lock
	// Kernel and User are frames as DTrace prints them, innermost first. They are valid until the
	// iteration continues.
	Kernel, User []string
	Waker        *Waker // nil: not requested, or not known
	Count        int64  // samples, or waits
	Amount       int64  // samples, events, or ns
	// Times has samples of the stack in order of time, if Profile.Times was set. It lacks those of
	// idle CPUs and those beyond the limit, and is valid until the iteration continues.
	Times []SampleTime
}

// A SampleTime is when a thread was sampled.
type SampleTime struct {
	At  measure.Span // since the kernel started
	TID int
}

// A Waker is the thread that ended a wait.
type Waker struct {
	Process      string
	PID          int
	Kernel, User []string
}

// A Profiled is the result of a Profile.
type Profiled struct {
	Stacks iter.Seq[Sampled] // may be iterated repeatedly
	Took   measure.Span      // the duration on the wall clock
	Unit   string            // for OnEvent: of amounts, a name of the event
	Every  uint64            // for OnEvent: the events per sample
	Away   int64             // for OffCPU: threads whose waits had not ended, and are in no stack
	// Untimed is the number of samples without a time although Times was set: there were too many.
	Untimed int64
	Loss    []measure.Loss
	Notes   []string // limits of what the profile proves
}

// profileStacks is how many different stacks of waits fit in each of the kernel's maps of stacks.
const profileStacks = 32768

// Run gathers stacks for p.For, or until the context ends. It fails with a measure.Denied that
// names the missing capability, and with measure.ErrUnsupported when this kernel cannot do it.
func (p *Profile) Run(ctx context.Context) (*Profiled, error) {
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	env.Files = p.Files
	if err := p.checkRights(env); err != nil {
		return nil, err
	}
	p, command, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer command.close()
	if p, err = p.withCgroups(env); err != nil {
		return nil, err
	}
	if p, err = p.withEvent(env); err != nil {
		return nil, err
	}
	if p, err = p.timed(env); err != nil {
		return nil, err
	}
	s, partial, err := p.load(env)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	s.PreloadUnwindTables(p.Threads.PIDs)
	l := &profiling{profile: p, session: s, lost: map[string]uint64{}}
	s.CollectFrames(p.Offsets || p.Of.waits(), p.Of.waits())
	if !p.Of.waits() {
		l.samples = newSamples(p, s)
	}
	began, ended := time.Time{}, make(chan time.Time, 1)
	// Counts are read each second, so that addresses are looked up while the processes exist.
	s.EachSecond = func() error {
		if p.hooks.beforeRead != nil {
			p.hooks.beforeRead()
		}
		p.groups.read()
		err := l.take()
		l.report(began)
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.OnStart = func() { // loading and attaching is not part of the duration
		began = time.Now()
		if p.For > 0 {
			time.AfterFunc(time.Duration(p.For), stop)
		}
		// The kernel's types that the compiler read are garbage now: tens of megabytes.
		time.AfterFunc(100*time.Millisecond, debug.FreeOSMemory)
		if p.hooks.begun != nil {
			p.hooks.begun()
		}
		command.run(stop)
	}
	defer context.AfterFunc(ctx, func() {
		// This stops the clauses even while counts are being read, which may take long on a busy
		// machine. Run stops them again.
		_ = s.StopClauses()
		ended <- time.Now()
	})()
	if _, err := s.Run(ctx, l, nil); err != nil {
		return nil, err
	}
	out := &Profiled{Took: measure.Span((<-ended).Sub(began))}
	p.groups.readAll()
	if err := l.take(); err != nil {
		return nil, err
	}
	unwinding := s.UnwindNotes()
	s.ReleaseBuffers()
	inlined := s.ResolveFrames(p.Inline)
	if l.samples != nil {
		out.Stacks, out.Untimed = l.samples.all(), l.samples.untimed
	} else {
		out.Stacks = l.waits(out)
	}
	for _, why := range slices.Sorted(maps.Keys(l.lost)) {
		out.Loss = append(out.Loss, measure.Loss{Reason: why, Events: l.lost[why]})
	}
	out.Notes = slices.Concat(
		partial, s.Caveats(), s.SymbolNotes(), s.StackNotes(), unwinding, inlined,
	)
	if p.Of == OnEvent {
		out.Unit, out.Every = p.Event.unit, p.Event.Every
	}
	return out, nil
}

// mostAggKeys is how many keys a map of samples has at most.
const mostAggKeys = 1 << 16

// timed returns the profile without Times if its samples can't have them. With them each sample is
// a key of its own, so the map must hold two seconds of samples.
func (p *Profile) timed(env *probe.Env) (*Profile, error) {
	if !p.Times {
		return p, nil
	}
	cpus, err := proc.PossibleCPUs(env.Root())
	if err != nil || p.Of == OnCPU && 2*p.Hz*len(cpus) <= mostAggKeys {
		return p, err
	}
	own := *p
	own.Times = false
	return &own, nil
}

// load compiles the program of the profile and loads it into the kernel. It fails when a probe
// cannot be attached; of an event with several probes, when none can. The notes name the others.
// The caller closes the session.
func (p *Profile) load(env *probe.Env) (s *trace.Session, notes []string, err error) {
	text, err := p.text(env)
	if err != nil {
		return nil, nil, err
	}
	// One drain per second suffices, because nothing is printed meanwhile. Strings are names of
	// threads, which have less than 32 bytes.
	options := check.Options{
		StrSize: 32,
		All:     map[string]string{"switchrate": "1s", "unwind": cmp.Or(p.Unwind, "auto")},
		Words:   trace.ProcessMacros(),
	}
	limits := gen.Limits{Ring: 64 << 10, Stacks: profileStacks}
	// Each reading empties the maps, so they must hold the samples of some seconds.
	if p.Of == OnCPU {
		cpus, err := proc.PossibleCPUs(env.Root())
		if err != nil {
			return nil, nil, err
		}
		limits.Stacks = min(max(1024, 4*p.Hz*len(cpus)), mostAggKeys)
		limits.AggKeys = limits.Stacks
		if p.Times {
			limits.AggKeys = min(max(4096, 2*limits.AggKeys), mostAggKeys)
		}
	}
	c, err := trace.Compile(
		trace.Script{Text: text, Mode: syntax.Mode{Last: syntax.PartName}, Options: options}, env,
		limits,
	)
	if err != nil && p.Of == OnEvent {
		err = p.Event.refused(err)
	}
	if err != nil {
		return nil, nil, err
	}
	if s, err = trace.Load(c, env); err != nil {
		return nil, nil, err
	}
	if notes, err = p.attached(s.Attachment()); err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, notes, nil
}

// attached returns an error if probes that the profile needs could not be attached.
func (p *Profile) attached(a *probe.Attachment) (notes []string, err error) {
	if p.Of == OnEvent {
		return p.Event.attached(a)
	}
	for _, skipped := range a.Skipped {
		return nil, fmt.Errorf("profile by %v: %w", skipped.Probe, skipped.Err)
	}
	return nil, nil
}

// kernels and users report whether there are stacks of the kernel, and of programs.
func (p *Profile) kernels() bool { return p.Kernel || !p.User }
func (p *Profile) users() bool   { return p.User || !p.Kernel }

// profiling is the listener of a running profile. It reads counts and adds up losses.
type profiling struct {
	profile *Profile
	session *trace.Session
	samples *samples          // of OnCPU
	lost    map[string]uint64 // by reason
}

// Reasons of losses.
const (
	lostBack = "the kernel did not report that a thread ran again: that wait is in no stack"
	lostKept = "more different stacks than are kept: they are counted as those without frames"
)

// take reads the counts out of the kernel.
func (p *profiling) take() error {
	if p.samples != nil {
		if err := p.session.Gather(); err != nil {
			return err
		}
		if left := p.samples.left; left > 0 {
			p.lost[lostKept] = left
		}
		return nil
	}
	_, err := p.session.Aggregates(p.session.Program().Aggs)
	return err
}

// report reports the progress.
func (p *profiling) report(began time.Time) {
	if p.profile.Progress == nil {
		return
	}
	now := Progress{Took: time.Since(began)}
	if p.samples != nil {
		now.Samples, now.Unnamed = p.samples.taken, p.samples.unnamed
	}
	p.profile.Progress(now)
}

// Record has nothing to do: no clause writes records.
func (p *profiling) Record(*trace.Record) error { return nil }

// Fault counts a sample or wait that could not be read.
func (p *profiling) Fault(f *trace.FaultReport) error {
	p.lost[format.Fault(f.Fault).String()]++
	return nil
}

// Drops counts losses. A stack that did not fit is counted as one without frames.
func (p *profiling) Drops(kind ir.Drop, _ int, n uint64) error {
	p.lost[dropReasons[kind]] += n
	return nil
}

// table: the reasons of what programs drop
var dropReasons = map[ir.Drop]string{
	ir.DropRecord:  "faults that could not be reported",
	ir.DropAgg:     "more different stacks in a second than fit",
	ir.DropDynamic: "more waiting threads than fit",
	ir.DropStack:   "too many different stacks: the others are counted as one without frames",
	ir.DropNested:  "one came while another one was taken",
	ir.DropMissed:  "one was due while another one was taken",
}

// Pause has nothing to do.
func (p *profiling) Pause() error { return nil }

// End has nothing to do: Run reads the rows afterwards.
func (p *profiling) End() error { return nil }
