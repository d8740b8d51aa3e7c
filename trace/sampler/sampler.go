package sampler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/kernel/proc"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/symbol"
	"culprit/trace"
	"culprit/trace/probe"
)

// The statistics of a Sampler.
const (
	SampledStacks = measure.StackSamples
	SampledBusy   = measure.StatID("cpu.stack.busy")
	SampledRate   = measure.StackRate
)

// A Sampler is a continuous profile. While its statistics have readers, a D program samples all
// CPUs, and each reader receives the stacks of each tick. Names are looked up while the processes
// exist. Without readers nothing of it is in the kernel.
//
// It is a measure.Source and a measure.Outsider. Safe for several goroutines.
type Sampler struct {
	// Files reads files of processes; nil: this process does. Set it before the first Run.
	Files *symbol.Files

	hz    int
	stats []measure.Stat

	start sync.Mutex // one start or stop at a time; locked before mu

	mu  sync.Mutex // guards the fields below
	all sampling   // all three statistics
	// kernels samples only stacks of the kernel. Stacks of programs are most of a sample's cost.
	kernels sampling
	past    map[measure.StatID]measure.Span // cost of sources that have ended
	outside measure.Span                    // the part of past outside of this process
	// shortage is why sampling has not started for lack of descriptors or memory; "": no shortage.
	shortage string
}

// sampling is a program of a Sampler.
type sampling struct {
	text    string
	stats   []measure.Stat
	source  *trace.Source // nil: no readers
	stop    context.CancelFunc
	readers int
}

// slotsOfSecond is how many slots a second has for SampledBusy: of 20 ms each.
const slotsOfSecond = 50

// samplerText returns the program of a Sampler that also samples stacks of programs. Its first
// clause is that of a Profile with ByCPU.
func samplerText(hz int) string {
	p := Profile{Hz: hz, ByCPU: true}
	clause := strings.Replace(p.onCPU(nil), "@[", "@samples[", 1)
	return fmt.Sprintf(
		"%s\nprofile-%d /pid != 0/ { @busy[(walltimestamp %% 1000000000) / %d] = count(); }\n",
		clause, hz, 1000000000/slotsOfSecond,
	)
}

// NewSampler returns a sampler that takes hz samples per second and CPU. It reads nothing before
// Run.
func NewSampler(hz int) *Sampler {
	text := samplerText(hz)
	s := &Sampler{hz: hz, past: map[measure.StatID]measure.Span{}}
	help := fmt.Sprintf(" (perf_event cpu-clock at %d Hz on each CPU, stacks by BPF)", hz)
	s.stats = []measure.Stat{
		{
			ID:      SampledStacks,
			Kind:    measure.Delta,
			Unit:    measure.Samples,
			Sparse:  true,
			Program: text,
			Help:    "samples of what CPUs execute, idle ones too: kernel and program stack" + help,
			Fields: []measure.Field{
				{Name: "process", Type: measure.Word, Help: "name of the thread that was sampled"},
				{Name: "pid", Type: measure.Number, Help: "process ID; 0 is an idle CPU"},
				{Name: "cpu", Type: measure.Number, Help: "CPU that was sampled"},
				{
					Name: "kernel",
					Type: measure.Stack,
					Help: "functions of the kernel; empty: the CPU was in the program",
				},
				{
					Name: "user",
					Type: measure.Stack,
					Help: "functions of the program; empty: a thread of the kernel",
				},
			},
		},
		{
			ID:      SampledBusy,
			Kind:    measure.Delta,
			Unit:    measure.Samples,
			Sparse:  true,
			Program: text,
			Help:    "samples that found a CPU with a thread to run, by parts of the second" + help,
			Fields: []measure.Field{
				{
					Name: "slot",
					Type: measure.Number,
					Help: fmt.Sprintf(
						"which of the %d parts of the wall clock's second, from 0", slotsOfSecond,
					),
				},
			},
		},
		{
			ID:      SampledRate,
			Kind:    measure.Level,
			Unit:    measure.Hertz,
			Program: text,
			Help: "samples due each second: with fewer, what a CPU did in between is in no row " +
				"of cpu.stack.samples" + help,
			Fields: []measure.Field{
				{Name: "cpu", Type: measure.Number, Help: "CPU that is sampled"},
			},
		},
	}
	s.all = sampling{text: text, stats: s.stats[:2]}
	alone := s.stats[0]
	alone.Fields = alone.Fields[:len(alone.Fields)-1]
	s.kernels = sampling{text: kernelsText(hz), stats: []measure.Stat{alone}}
	return s
}

// kernelsText returns the program for readers that need no stacks of programs.
func kernelsText(hz int) string {
	return fmt.Sprintf(
		"profile-%d { @samples[execname, pid, cpu, stack(%d)] = count(); }\n", hz, trace.MaxFrames,
	)
}

// Stats implements measure.Source.
func (s *Sampler) Stats() []measure.Stat { return s.stats }

// enter adds a reader to a program, which it starts for the first reader. It returns the source.
func (s *Sampler) enter(p *sampling) (*trace.Source, error) {
	s.start.Lock()
	defer s.start.Unlock()
	s.mu.Lock()
	if p.source != nil {
		defer s.mu.Unlock()
		p.readers++
		return p.source, nil
	}
	s.mu.Unlock()
	env := probe.NewEnv(kernel.Root{})
	defer env.Close() //nolint:errcheck // only read
	env.Files = s.Files
	if err := feature.RawTracepoints.Have(env.Root()); errors.Is(err, measure.ErrDenied) {
		return nil, probe.MissingRight(env.Root(), "load BPF programs that read stacks", err)
	}
	cpus, err := proc.PossibleCPUs(kernel.Root{})
	if err != nil {
		return nil, err
	}
	// Each reading empties the maps, so they must hold the samples of some seconds.
	maxKeys := min(max(1024, 4*s.hz*len(cpus)), 1<<16)
	source, err := trace.NewLimitedSource(
		"sampler",
		trace.Script{Text: env.WithGlobalIDs(p.text), Mode: syntax.Mode{Last: syntax.PartName},
			// One drain per second suffices, because nothing is printed. Strings are names of
			// threads, which have less than 32 bytes.
			Options: check.Options{StrSize: 32, All: map[string]string{"switchrate": "1s"}}},
		0,
		gen.Limits{Ring: 64 << 10, AggKeys: maxKeys, Stacks: maxKeys},
		env,
		io.Discard,
	)
	if err != nil {
		return nil, err
	}
	for _, skipped := range source.Attachment().Skipped {
		source.Close()
		return nil, fmt.Errorf("sample by %v: %w", skipped.Probe, skipped.Err)
	}
	var definitions []trace.Definition
	for i, name := range []string{"samples", "busy"}[:len(p.stats)] {
		definitions = append(definitions, trace.Definition{Stat: p.stats[i], Aggregation: name})
	}
	if err := source.Define(definitions); err != nil {
		source.Close()
		return nil, err
	}
	source.CollectFrames(false, true)
	ctx, stop := context.WithCancel(context.Background())
	go source.Live(ctx) //nolint:errcheck // Err returns it
	select {
	case <-source.Begun():
	case <-source.Ended():
	}
	if p == &s.all {
		go inlining(ctx, source)
	}
	// The kernel's types that the compiler read are garbage now: tens of megabytes.
	time.AfterFunc(time.Second, debug.FreeOSMemory)
	s.mu.Lock()
	defer s.mu.Unlock()
	p.source, p.stop, p.readers = source, stop, 1
	return source, nil
}

// leave removes a reader from a program, which it stops after the last reader.
func (s *Sampler) leave(p *sampling) {
	s.start.Lock()
	defer s.start.Unlock()
	s.mu.Lock()
	p.readers--
	source, stop := p.source, p.stop
	over := p.readers == 0
	s.mu.Unlock()
	if !over {
		return
	}
	stop()
	<-source.Ended()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range source.Stats() {
		s.past[st.ID] += source.Cost(st.ID)
	}
	s.outside += source.ExternalCost()
	p.source = nil
}

// Cost implements measure.Meter.
func (s *Sampler) Cost(id measure.StatID) measure.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.past[id]
	for _, p := range []*sampling{&s.all, &s.kernels} {
		if p.source != nil {
			all += p.source.Cost(id)
		}
	}
	return all
}

// ExternalCost implements measure.Outsider.
func (s *Sampler) ExternalCost() measure.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.outside
	for _, p := range []*sampling{&s.all, &s.kernels} {
		if p.source != nil {
			all += p.source.ExternalCost()
		}
	}
	return all
}

// retryShortage is the delay before a start that failed for lack of descriptors or memory is tried
// again.
const retryShortage = 5 * time.Second

func (s *Sampler) setShortage(why string) {
	s.mu.Lock()
	s.shortage = why
	s.mu.Unlock()
}

// Problems implements measure.ProblemReporter.
func (s *Sampler) Problems() []measure.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shortage == "" {
		return nil
	}
	return []measure.Problem{{
		Key:  "shortage: profile",
		Text: fmt.Sprintf("%s; culprit tries again every %v", s.shortage, retryShortage),
	}}
}

// Run implements measure.Source. When sampling is not possible, each batch has an empty interval
// and a note with the reason. It fails when sink does.
func (s *Sampler) Run(ctx context.Context, queries []measure.Query, sink measure.Sink) error {
	if len(queries) == 0 {
		<-ctx.Done()
		return nil
	}
	// All samples are read, whatever the queries need, because they are compared with those due.
	asked := []measure.Query{
		{
			Stat: SampledStacks,
			By:   []string{"process", "pid", "cpu", "kernel"},
			Step: queries[0].Step,
			Over: queries[0].Over,
		},
	}
	program := &s.kernels
	if slices.ContainsFunc(queries, func(q measure.Query) bool {
		return q.Stat == SampledBusy || slices.Contains(q.By, "user")
	}) {
		program = &s.all
		asked[0].By = append(asked[0].By, "user")
	}
	source, err := s.enter(program)
	for ; err != nil; source, err = s.enter(program) {
		why := "no stacks are sampled: " + err.Error()
		if !kernel.IsShortage(err) {
			return trace.RunUnavailable(ctx, s.stats, queries, sink, why)
		}
		s.setShortage(why)
		pause, stop := context.WithTimeout(ctx, retryShortage)
		err := trace.RunUnavailable(pause, s.stats, queries, sink, why)
		stop()
		s.setShortage("")
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
	defer s.leave(program)
	wanted := func(id measure.StatID) bool {
		return slices.ContainsFunc(queries, func(q measure.Query) bool { return q.Stat == id })
	}
	if wanted(SampledBusy) {
		asked = append(
			asked, measure.Query{Stat: SampledBusy, By: []string{"slot"}, Step: queries[0].Step},
		)
	}
	d := due{hz: float64(s.hz), times: newCPUTimes()}
	return source.RunNotify(ctx, asked, measure.SinkFunc(func(batches []*measure.Batch) error {
		rate := d.account(batches[0])
		batches[0].Notes = append(batches[0].Notes, s.Files.Notes()...)
		if !wanted(SampledStacks) {
			batches = batches[1:]
		}
		if wanted(SampledRate) {
			batches = append(batches, rate)
		}
		return sink.Accept(batches)
	}), d.begin)
}
