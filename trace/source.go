package trace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"culprit/kernel"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/ir"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/trace/probe"
)

// A Source is a script whose aggregations are statistics: trace.NAME.AGGREGATION by the keys of the
// aggregation. It runs from Live until it exits, its context ends or its budget is spent. Each
// reader receives what was added from tick to tick, also rows that the script clears or truncates.
// What was added before the first tick of a reader is in none of its batches.
//
// It is a measure.Source, a measure.Meter and a measure.Outsider. Safe for several goroutines.
type Source struct {
	name    string
	text    string
	session *Session
	stats   []measure.Stat
	aggs    []*Aggregate // of the statistics
	reads   []reads      // of the statistics; nil: Define was not called
	notes   func() []string
	// lossReasons replace the reasons of scripts; nil: none do.
	lossReasons LossReasons
	out         *bufio.Writer
	listener    *sourceListener
	begun       chan struct{} // closed when the clauses run
	ended       chan struct{} // closed when the script has ended
	// why is the error that ended the script; nil: it exited, or was stopped. It is set before
	// ended is closed.
	why error

	reading sync.Mutex // one reading at a time, once the script has ended
	usage   sourceUsage
}

// GatherEvery makes a running source read its aggregations at least once per interval, so that the
// kernel's maps need not hold more. Call it before Live.
func (s *Source) GatherEvery(interval time.Duration) {
	session := s.session
	session.EachSecond = func() error {
		if err := s.tidy(); err != nil || time.Since(session.aggs.cut) < interval {
			return err
		}
		return session.Gather()
	}
}

// CollectFrames makes the source keep stacks as chains of frames by function, which costs less than
// text. With places, each place in a function has a frame of its own; with inline, LearnInlined
// finds inlined functions. Call it before Live.
func (s *Source) CollectFrames(places, inline bool) {
	s.session.stacks.frames = newFrames()
	s.session.stacks.frames.places = places
	s.session.symbols.processes.DisableSymbolCache()
	if inline {
		s.session.symbols.processes.Inlining()
	}
}

// LearnInlined looks for inlined functions at the places in one file that were sampled, within a
// limit of CPU time. It returns the time that it took, and whether it found any place to look at.
func (s *Source) LearnInlined(limit time.Duration) (took time.Duration, any bool) {
	return s.session.symbols.processes.LearnInlined(limit)
}

// PreloadUnwindTables loads the unwind tables of processes before their first sample.
func (s *Source) PreloadUnwindTables(pids []int) { s.session.PreloadUnwindTables(pids) }

// NoteSymbols adds notes on missing names and on incomplete stacks to each batch. Call it before
// Live.
func (s *Source) NoteSymbols() {
	session := s.session
	s.notes = func() []string { return append(session.SymbolNotes(), session.UnwindNotes()...) }
}

// maxOverBudget is for how many consecutive seconds a script that is a source may be over its
// budget.
const maxOverBudget = 4

// NewSource compiles a script and loads it into the kernel; its clauses run from Live on. Its
// output goes to out, which must not fail. A budget of 0 is no limit. It fails with a
// syntax.Diagnostics when the text is wrong. The caller calls Live, or Close.
func NewSource(
	name string, script Script, budget Budget, env *probe.Env, out io.Writer,
) (*Source, error) {
	return NewLimitedSource(name, script, budget, gen.Limits{}, env, out)
}

// NewLimitedSource is NewSource with limits on the sizes of the script's maps. It fails as
// NewSource does.
func NewLimitedSource(
	name string, script Script, budget Budget, limits gen.Limits, env *probe.Env, out io.Writer,
) (*Source, error) {
	script.Options.Destructive = false
	script.Options.Args, script.Options.Words = []string{name}, ProcessMacros()
	c, err := Compile(script, env, limits)
	if err != nil {
		return nil, err
	}
	if c.Program.Options.Destructive {
		at := max(0, strings.Index(script.Text, "destructive"))
		return nil, syntax.Diagnostics{
			syntax.Diagnose(
				script.File, script.Text,
				syntax.Span{From: int32(at), To: int32(at) + int32(len("destructive"))},
				check.Destructive, "a script that measures must not change the system",
				"culprit trace -w runs it",
			),
		}
	}
	s := &Source{
		name:  name,
		text:  script.Text,
		out:   bufio.NewWriterSize(out, 4<<10),
		begun: make(chan struct{}),
		ended: make(chan struct{}),
	}
	session, err := Load(c, env)
	if err != nil {
		return nil, err
	}
	s.session = session
	session.Budget, session.costs.maxOverBudget = budget, maxOverBudget
	session.OnStart = func() { close(s.begun) }
	if text, ok := c.Program.Options.All["budget"]; ok {
		if session.Budget, err = ParseBudget(text); err != nil {
			session.Close()
			return nil, err
		}
	}
	if err := session.CountCosts(); err != nil && session.Budget > 0 {
		session.Close()
		return nil, fmt.Errorf("limit the script to its budget: %w", err)
	}
	printed := map[*check.Aggregation]bool{}
	for _, r := range c.IR.Records {
		for _, a := range r.Actions {
			if a.Action.Action.Kind == check.Printa {
				for _, g := range a.Action.Action.Aggs {
					printed[g] = true
				}
			}
		}
	}
	session.EachSecond = s.tidy
	for i, a := range session.aggs.all {
		a.unkept = !printed[c.Program.Aggs[i]]
	}
	s.describe(c)
	return s, nil
}

// Stats lists the statistics, in the order in which the script names its aggregations.
func (s *Source) Stats() []measure.Stat { return s.stats }

// Attachment returns what was attached, and what could not be.
func (s *Source) Attachment() *probe.Attachment { return s.session.Attachment() }

// Live runs the script until it exits, the context ends, or its budget is spent: then it fails with
// an *ErrBudget. At the end it unloads everything from the kernel. It is called once.
func (s *Source) Live(ctx context.Context) error {
	l := &sourceListener{NewPrinter(s.session, s.out, Streams{Name: "culprit"}), s}
	l.err, s.listener = s.out, l
	if a := s.session.Attachment(); len(a.Skipped)+len(a.Passed) > 0 {
		l.Say("%v", a)
	}
	_, err := s.session.Run(ctx, l, nil)
	if errors.Is(err, ErrNoReader) {
		err = nil
	}
	s.out.Flush() //nolint:errcheck // NewSource demands an out that does not fail
	s.why = err
	s.session.Close()
	close(s.ended)
	return err
}

// Close releases a source whose Live was never called.
func (s *Source) Close() { s.session.Close() }

// Begun is closed when the clauses run.
func (s *Source) Begun() <-chan struct{} { return s.begun }

// Err returns the error that ended the script, once it has ended; nil: it exited, or was stopped.
func (s *Source) Err() error { return s.why }

// Ended is closed when the script has ended.
func (s *Source) Ended() <-chan struct{} { return s.ended }

// sourceListener prints the output of a script, and counts what was lost.
type sourceListener struct {
	*Printer
	source *Source
}

func (l *sourceListener) Fault(f *FaultReport) error {
	l.source.lose(func(n *losses) { n.faults++ })
	return l.Printer.Fault(f)
}

func (l *sourceListener) Drops(kind ir.Drop, cpu int, n uint64) error {
	l.source.lose(func(all *losses) { all.dropped[kind] += n })
	return l.Printer.Drops(kind, cpu, n)
}

// End reads the last rows. Unlike Printer.End it prints nothing.
func (l *sourceListener) End() error {
	return errors.Join(l.source.account(), l.source.session.Gather(), l.Pause())
}

// do calls f on the goroutine that runs the session, or on this one when the session has ended. It
// returns false when the context ended first.
func (s *Source) do(ctx context.Context, f func(alive bool)) bool {
	done := make(chan struct{})
	select {
	case s.session.calls <- func() {
		defer close(done)
		runtime.LockOSThread() // ThreadTime is of this thread
		defer runtime.UnlockOSThread()
		before := kernel.ThreadTime()
		f(true)
		took := kernel.ThreadTime() - before +
			measure.Span(s.session.symbols.processes.TakeAway())
		s.usage.mu.Lock()
		s.usage.inside += took
		s.usage.mu.Unlock()
	}:
		<-done
	case <-s.ended:
		s.reading.Lock()
		defer s.reading.Unlock()
		f(false)
	case <-ctx.Done():
		return false
	}
	return true
}

// Run implements measure.Source. After the script has ended, batches are empty and have a note with
// the reason. It fails when sink does, or when the step of a query is not positive.
func (s *Source) Run(ctx context.Context, queries []measure.Query, sink measure.Sink) error {
	return s.RunNotify(ctx, queries, sink, func() {})
}

// RunNotify is Run, and fails as Run does. It calls begun after the first reading, which begins the
// first batch's interval.
func (s *Source) RunNotify(
	ctx context.Context, queries []measure.Query, sink measure.Sink, begun func(),
) error {
	if len(queries) == 0 {
		<-ctx.Done()
		return nil
	}
	if queries[0].Step <= 0 {
		return fmt.Errorf("run %d queries: step %v is not positive", len(queries), queries[0].Step)
	}
	plan := kernel.PlanTicks(ctx, queries[0].Step, queries[0].Over.Start)
	r := newReader(s, queries)
	defer func() {
		s.do(context.WithoutCancel(ctx), func(bool) { r.close() })
	}()
	for first := true; plan.Wait(); first = false {
		var batches []*measure.Batch
		if !s.do(ctx, func(alive bool) { batches = r.read(alive) }) {
			return nil
		}
		if first {
			begun()
			continue
		}
		if err := sink.Accept(batches); err != nil {
			return err
		}
	}
	return nil
}
