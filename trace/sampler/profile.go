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
	Hz      int // for OnCPU: samples per second and CPU
	Threads ThreadFilter
	CPUs    []int // nil: all. Of waits: the CPU on which the wait begins (OffCPU) or ends
	// Kernel and User select stacks; neither selects both. With one of them, OnCPU samples only the
	// kernel or only programs, and Locks counts only locks of the kernel or only futexes.
	Kernel, User bool
	ByCPU        bool          // for OnCPU: stacks are separate per CPU
	ByThread     bool          // stacks are separate per thread
	ByLeader     bool          // stacks have the name of the process beside the thread's
	ByCgroup     bool          // stacks are separate per control group
	Offsets      bool          // for OnCPU: frames are places in functions, as they are for waits
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

// The subjects of profiles. All but the first are waits: their amounts are ns from begin to end,
// and they are counted at the end.
const (
	OnCPU    ProfileOf = iota // what CPUs execute, sampled
	OffCPU                    // from when a thread leaves its CPU until it runs again
	RunQueue                  // from when a thread is woken, new or preempted until it runs
	Locks                     // waits for locks of the kernel, and in futex(2)
)

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
	Amount       int64  // samples, or ns
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
	Away   int64             // for OffCPU: threads whose waits had not ended, and are in no stack
	Loss   []measure.Loss
	Notes  []string // limits of what the profile proves
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
	s, err := p.load(env)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	s.PreloadUnwindTables(p.Threads.PIDs)
	l := &profiling{profile: p, session: s, lost: map[string]uint64{}}
	s.CollectFrames(p.Offsets || p.Of != OnCPU, p.Of != OnCPU)
	if p.Of == OnCPU {
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
		out.Stacks = l.samples.all()
	} else {
		out.Stacks = l.waits(out)
	}
	for _, why := range slices.Sorted(maps.Keys(l.lost)) {
		out.Loss = append(out.Loss, measure.Loss{Reason: why, Events: l.lost[why]})
	}
	out.Notes = slices.Concat(s.Caveats(), s.SymbolNotes(), unwinding, inlined)
	return out, nil
}

// load compiles the program of the profile and loads it into the kernel. It fails when a probe
// cannot be attached. The caller closes the session.
func (p *Profile) load(env *probe.Env) (*trace.Session, error) {
	text, err := p.text(env)
	if err != nil {
		return nil, err
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
			return nil, err
		}
		limits.Stacks = min(max(1024, 4*p.Hz*len(cpus)), 1<<16)
		limits.AggKeys = limits.Stacks
	}
	c, err := trace.Compile(
		trace.Script{Text: text, Mode: syntax.Mode{Last: syntax.PartName}, Options: options}, env,
		limits,
	)
	if err != nil {
		return nil, err
	}
	s, err := trace.Load(c, env)
	if err != nil {
		return nil, err
	}
	for _, skipped := range s.Attachment().Skipped {
		s.Close()
		return nil, fmt.Errorf("profile by %v: %w", skipped.Probe, skipped.Err)
	}
	return s, nil
}

// waits returns the stacks of waits. Frames are valid until the iteration continues.
func (p *profiling) waits(out *Profiled) iter.Seq[Sampled] {
	for _, a := range p.session.Aggregations() {
		for _, row := range a.Rows {
			switch a.Name {
			case awayName:
				out.Away = max(0, row.Data[0])
			case untoldName:
				if n := row.Data[0]; n > 0 {
					p.lost[lostBack] += uint64(n)
				}
			}
		}
	}
	list, aggs, profile := p.session.FrameTexts(), p.session.Aggregations(), p.profile
	return func(yield func(Sampled) bool) {
		var buffers [4][]string
		for _, a := range aggs {
			if a.Name == awayName || a.Name == untoldName {
				continue
			}
			for _, row := range a.Rows {
				n := 0
				if !yield(profile.sampled(row, func(v format.Value) []string {
					buffers[n] = list(buffers[n][:0], int32(v.Num))
					n++
					return slices.Clip(buffers[n-1])
				})) {
					return
				}
			}
		}
	}
}

// sampled decodes a row of waits, whose key has the layout of keys. frames returns the frames of a
// stack.
func (p *Profile) sampled(row format.AggregationRow, frames func(format.Value) []string) Sampled {
	key := row.Key
	next := func() format.Value {
		v := key[0]
		key = key[1:]
		return v
	}
	one := Sampled{
		TID:     -1,
		CPU:     -1,
		Process: next().Text,
		PID:     int(next().Num),
		Count:   row.Data[0],
		Amount:  row.Data[len(row.Data)-1],
	}
	if p.ByThread {
		one.TID = int(next().Num)
	}
	if p.ByLeader {
		one.Leader = next().Text
	}
	if p.ByCgroup {
		one.Cgroup = p.groups.path(uint64(next().Num))
	}
	one.State = p.state(int64(next().Num))
	if p.kernels() && one.State != stateFutex {
		one.Kernel = frames(next())
	}
	if p.users() {
		one.User = frames(next())
	}
	if p.Wakers {
		w := &Waker{PID: int(next().Num) - 1, Process: next().Text}
		if p.kernels() {
			w.Kernel = frames(next())
		}
		if p.users() {
			w.User = frames(next())
		}
		if w.PID >= 0 {
			one.Waker = w
		}
	}
	return one
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
