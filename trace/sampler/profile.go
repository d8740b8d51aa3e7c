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
	"culprit/trace"
	"culprit/trace/probe"
)

// A Profile is what stacks are gathered of, and whose: by a program in D that adds up in the
// kernel.
type Profile struct {
	Of  ProfileOf
	Hz  int // of OnCPU: samples a second of each CPU
	Who Who
	// none: all. Of waits: the CPU where the thread was put aside or got what it waited for
	CPUs []int
	// OnCPU: samples within the kernel alone; else the kernel's stack alone, and of Locks the
	// kernel's alone
	Kernel   bool
	User     bool // the same of programs
	ByCPU    bool // of OnCPU: stacks are separate per CPU
	ByThread bool // and by thread
	// of OnCPU: and by the places in functions, not by functions alone; those of waits always are
	Offsets bool
	Wakers  bool         // of OffCPU: and by who woke the thread
	Least   measure.Span // of waits: shorter ones are left out
	For     measure.Span // how long; 0: until the context ends
	// functions that compilers put into others are frames of their own, where files have debug
	// information
	Inline bool
	Unwind string // how stacks of processes are walked: auto, fp, tables; "": auto

	doing string // what it is for, in errors; "": profile
	begun func() // called when it has begun; nil: nothing
	looks func() // called before what was counted is read; nil: nothing
}

// A ProfileOf is what a profile is of.
type ProfileOf uint8

// What a profile can be of. All but the first are waits: their amounts are ns, from beginning to
// end of a wait, counted at its end.
const (
	OnCPU  ProfileOf = iota // what CPUs execute, sampled
	OffCPU                  // from when a thread leaves its CPU until it runs again
	// from when a thread could run - woken, new, or put aside - until it does
	RunQueue
	Locks // waiting for locks of the kernel, and in futex(2)
)

// A Sampled is a stack, and how much it has.
type Sampled struct {
	Process  string // the thread's name
	PID, TID int    // TID is -1 unless stacks are separate per thread
	CPU      int    // -1 unless stacks are separate per CPU
	// of waits: how the thread waited: sleeping, preempted ...; or for what kind of lock
	State  string
	Kernel []string
	// frames as DTrace prints them, the innermost first; both are good until the next stack is
	// asked for
	User   []string
	Waker  *Waker // nil: not asked for, or not known
	Count  int64  // samples, or waits
	Amount int64  // samples, or ns
}

// A Waker is who ended a wait.
type Waker struct {
	Process      string
	PID          int
	Kernel, User []string
}

// A Profiled is what was gathered.
type Profiled struct {
	Stacks iter.Seq[Sampled] // may be gone through again
	Took   measure.Span      // by the clock, while it was gathered
	// of OffCPU: threads that left a CPU and were not back at the end: their waits are in no stack
	Away  int64
	Loss  []measure.Loss
	Notes []string // what may mislead
}

// profileStacks is how many different stacks of waits fit in the kernel, of each of the lengths
// that have a map of their own.
const profileStacks = 32768

// Run gathers for as long as was asked, or until the context ends. The error is a measure.Denied
// that names the right that is missing, measure.ErrUnsupported where this kernel can't.
func (p *Profile) Run(ctx context.Context) (*Profiled, error) {
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	if err := p.may(env); err != nil {
		return nil, err
	}
	text, err := p.text(env)
	if err != nil {
		return nil, err
	}
	// Once a second is often enough to look: nothing is reported meanwhile. Strings are names of
	// threads, which are shorter.
	options := check.Options{
		StrSize: 32,
		All:     map[string]string{"switchrate": "1s", "unwind": cmp.Or(p.Unwind, "auto")},
		Words:   trace.ProcessMacros(),
	}
	limits := gen.Limits{Ring: 64 << 10, Stacks: profileStacks}
	// each look leaves the maps empty, so they have to hold what is sampled in some seconds
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
	defer s.Close()
	for _, skipped := range s.Attachment().Skipped {
		return nil, fmt.Errorf("profile by %v: %w", skipped.Probe, skipped.Err)
	}
	s.PreloadUnwindTables(p.Who.PIDs)
	l := &profiling{profile: p, session: s, lost: map[string]uint64{}}
	s.CollectFrames(p.Offsets || p.Of != OnCPU, p.Of != OnCPU)
	if p.Of == OnCPU {
		l.samples = newSamples(p, s)
	}
	// What was counted is taken out of the kernel each second, and what its addresses belong to is
	// found out while the processes are still there.
	s.EachSecond = func() error {
		if p.looks != nil {
			p.looks()
		}
		return l.take()
	}
	began, ended := time.Time{}, make(chan time.Time, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.OnStart = func() { // what is done before does not take of the time
		began = time.Now()
		if p.For > 0 {
			time.AfterFunc(time.Duration(p.For), stop)
		}
		// What the compiler read of the kernel's types is garbage now, tens of megabytes.
		time.AfterFunc(100*time.Millisecond, debug.FreeOSMemory)
		if p.begun != nil {
			p.begun()
		}
	}
	defer context.AfterFunc(ctx, func() {
		// also while what was counted is being read, which takes long when others have the CPUs;
		// Run does it again
		_ = s.StopClauses()
		ended <- time.Now()
	})()
	if _, err := s.Run(ctx, l, nil); err != nil {
		return nil, err
	}
	out := &Profiled{Took: measure.Span((<-ended).Sub(began))}
	if err := l.take(); err != nil {
		return nil, err
	}
	unwinding := s.UnwindNotes()
	s.ReleaseBuffers()
	inlined := s.ResolveFrames(p.Inline) // and what may mislead
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

// waits returns what was gathered of waits, each time that it is asked. Frames are good until the
// next one is asked for.
func (p *profiling) waits(out *Profiled) iter.Seq[Sampled] {
	for _, a := range p.session.Aggregations() {
		for _, row := range a.Rows {
			switch a.Name {
			case awayName:
				out.Away = max(0, row.Data[0])
			case untoldName:
				if n := row.Data[0]; n > 0 {
					p.lost["the kernel did not tell that a thread ran again: that wait is in no stack"] += uint64(n)
				}
			}
		}
	}
	list, aggs, profile := p.session.FrameTexts(), p.session.Aggregations(), p.profile
	return func(yield func(Sampled) bool) {
		var room [4][]string
		for _, a := range aggs {
			if a.Name == awayName || a.Name == untoldName {
				continue
			}
			for _, row := range a.Rows {
				n := 0
				if !yield(profile.sampled(row, func(v format.Value) []string {
					room[n] = list(room[n][:0], int32(v.Num))
					n++
					return slices.Clip(room[n-1])
				})) {
					return
				}
			}
		}
	}
}

// sampled decodes a row of waits. keys made its key; frames returns the frames of a stack.
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

// kernels and users say of which stacks there are.
func (p *Profile) kernels() bool { return p.Kernel || !p.User }
func (p *Profile) users() bool   { return p.User || !p.Kernel }

// profiling gathers what a profile counts, and what was lost of it.
type profiling struct {
	profile *Profile
	session *trace.Session
	samples *samples // of OnCPU
	lost    map[string]uint64
}

// take takes what was counted out of the kernel.
func (p *profiling) take() error {
	if p.samples != nil {
		if err := p.session.Gather(); err != nil {
			return err
		}
		if left := p.samples.left; left > 0 {
			p.lost["more different stacks than are kept: they are counted as those without frames"] = left
		}
		return nil
	}
	_, err := p.session.Aggregates(p.session.Program().Aggs)
	return err
}

// Record has nothing to do: no clause writes records.
func (p *profiling) Record(*trace.Record) error { return nil }

// Fault counts what could not be looked at.
func (p *profiling) Fault(f *trace.FaultReport) error {
	p.lost[format.Fault(f.Fault).String()]++
	return nil
}

// Drops counts what was lost. A stack that did not fit is counted as one without frames.
func (p *profiling) Drops(kind ir.Drop, _ int, n uint64) error {
	p.lost[map[ir.Drop]string{ir.DropRecord: "faults that could not be reported", ir.DropAgg: "more different stacks in a second than fit", ir.DropDynamic: "no room for another thread that waits",
		ir.DropStack: "too many different stacks: the others are counted as one without frames", ir.DropNested: "one came while another one was taken",
		ir.DropMissed: "one was due while another one was taken"}[kind]] += n
	return nil
}

// Pause has nothing to do.
func (p *profiling) Pause() error { return nil }

// End has nothing to do: the rows are asked for when all is over.
func (p *profiling) End() error { return nil }
