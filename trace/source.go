package trace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"culprit/kernel"
	"culprit/lang/check"
	"culprit/lang/format"
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

// sourceUsage is what a source has lost and cost since its start.
type sourceUsage struct {
	mu      sync.Mutex // guards the other fields
	lost    losses
	inside  measure.Span  // CPU time of reading, in this process
	outside time.Duration // run time of the script's programs, in all processes
}

// A Definition is a statistic that is read from an aggregation of a script.
type Definition struct {
	Stat        measure.Stat
	Aggregation string // its name, without @
	// Value returns a row's value from its data. nil: the aggregating function decides.
	Value func(data []int64) float64
	// Words are functions by field: each returns the word for a value of the script. A field
	// without one has the value itself.
	Words map[string]func(string) string
	// Fixed is, by field that is no key, the value of all rows.
	Fixed map[string]string
}

// SetLossReasons replaces the reasons of losses. Call it before Live.
func (s *Source) SetLossReasons(reasons LossReasons) { s.lossReasons = reasons }

// HasAggregation reports whether the script adds to an aggregation of this name.
func (s *Source) HasAggregation(name string) bool {
	return slices.ContainsFunc(
		s.session.aggs.all, func(a *Aggregate) bool { return a.Name == name },
	)
}

// Define replaces the statistics of the script by others. It fails when an aggregation does not
// exist. Call it before Live.
func (s *Source) Define(definitions []Definition) error {
	s.stats, s.aggs, s.reads = nil, nil, nil
	for _, d := range definitions {
		i := slices.IndexFunc(
			s.session.aggs.all, func(a *Aggregate) bool { return a.Name == d.Aggregation },
		)
		if i < 0 {
			return fmt.Errorf("nothing adds to @%s", d.Aggregation)
		}
		s.stats, s.aggs = append(s.stats, d.Stat), append(s.aggs, s.session.aggs.all[i])
		s.reads = append(s.reads, reads{value: d.Value, words: d.Words, fixed: d.Fixed})
	}
	return nil
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

// LearnInlined looks for inlined functions at the places that were sampled, until stop returns
// true. It reports whether it found any place to look at.
func (s *Source) LearnInlined(stop func() bool) bool {
	return s.session.symbols.processes.LearnInlined(stop)
}

// PreloadUnwindTables loads the unwind tables of processes before their first sample.
func (s *Source) PreloadUnwindTables(pids []int) { s.session.PreloadUnwindTables(pids) }

// NoteSymbols adds notes on missing names and on incomplete stacks to each batch. Call it before
// Live.
func (s *Source) NoteSymbols() {
	session := s.session
	s.notes = func() []string { return append(session.SymbolNotes(), session.UnwindNotes()...) }
}

// reads is how a statistic is read from its aggregation. The fields are those of Definition.
type reads struct {
	value func(data []int64) float64
	words map[string]func(string) string
	fixed map[string]string
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

// describe derives the statistics from the script's aggregations.
func (s *Source) describe(c *Compiled) {
	meant := newMeanings(c.Program)
	var names []string
	for i, a := range c.Program.Aggs {
		used := uses(c.Program, a)
		if len(used) == 0 {
			continue
		}
		st := measure.Stat{Program: s.text}
		what := format.Function(a.Func).String()
		name := a.Name
		if name == "" {
			name = what
		}
		name = distinct(strings.ToLower(name), names)
		names = append(names, name)
		st.ID = measure.StatID("trace." + s.name + "." + name)
		of := ""
		for n, u := range used {
			unit := measure.Unit("")
			if u.add.Value != nil {
				at := u.add.Value.Place()
				of = c.Program.Text[at.From:at.To]
				unit = meant.of(c.Program, u.clause, u.add.Value)
			}
			if n > 0 && unit != st.Unit {
				unit = ""
			}
			st.Unit = unit
			if unit == "" && n > 0 {
				break
			}
		}
		if st.Unit == "" {
			st.Unit = measure.Count
		}
		st.Help = fmt.Sprintf("@%s of the D program %s: ", a.Name, s.name)
		switch a.Func {
		case check.Count:
			st.Kind, st.Unit, st.Sparse = measure.Delta, measure.Events, true
			st.Help += "how often the clause ran"
		case check.Sum:
			st.Kind, st.Sparse, st.Signed = measure.Delta, true, true
			st.Help += "the sum of " + of
		case check.Min, check.Max, check.Avg, check.Stddev:
			st.Kind = measure.Level
			word := ""
			switch a.Func {
			case check.Min:
				st.Fold, word = measure.Min, "the least"
			case check.Max:
				st.Fold, word = measure.Max, "the greatest"
			case check.Avg:
				st.Fold, word = measure.Mean, "the mean"
			case check.Stddev:
				st.Fold, word = measure.Mean, "the standard deviation"
			}
			st.Help += word + " of " + of + " in each interval"
		default:
			st.Kind, st.Sparse = measure.Dists, true
			st.Help += "the distribution of " + of +
				"; sums and means are computed from the middles of its buckets"
		}
		var fields []string
		for k, t := range a.Keys {
			f := measure.Field{Type: measure.Word}
			f.Name, f.Help = key(c.Program.Text, used, k)
			f.Name = distinct(f.Name, fields)
			if _, ok := t.(*check.Int); ok {
				f.Type = measure.Number
			}
			fields = append(fields, f.Name)
			st.Fields = append(st.Fields, f)
		}
		s.stats = append(s.stats, st)
		s.aggs = append(s.aggs, s.session.aggs.all[i])
	}
}

// A use is a statement that adds to an aggregation.
type use struct {
	clause *check.Clause
	add    *check.Aggregate
}

func uses(p *check.Program, a *check.Aggregation) (out []use) {
	for _, c := range p.Clauses {
		statements(c.Body, func(s check.Stmt) {
			if add, ok := s.(*check.Aggregate); ok && add.Agg == a {
				out = append(out, use{c, add})
			}
		})
	}
	return out
}

// key returns the name and the help of field k: both from the first expression that the script uses
// for it and that is no constant.
func key(text string, used []use, k int) (name, help string) {
	for _, u := range used {
		x := u.add.Keys[k]
		help = strings.Join(strings.Fields(text[x.Place().From:x.Place().To]), " ")
		if !constant(x) {
			return word(help), help
		}
	}
	return "what", help
}

func constant(x check.Expr) bool {
	switch x := x.(type) {
	case *check.Const, *check.Text:
		return true
	case *check.Convert:
		return constant(x.X)
	}
	return false
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

func (s *Source) lose(change func(*losses)) {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	change(&s.usage.lost)
}

// Losses returns what the script lost since it began, by reason.
func (s *Source) Losses() []measure.Loss {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	out := append(
		s.usage.lost.list(true, true, s.lossReasons),
		LossOf(
			"records that were written faster than they were read: bufsize allows more",
			s.usage.lost.dropped[ir.DropRecord],
		)...)
	return append(
		out,
		LossOf(
			"records that did not fit into a speculation: specsize allows more",
			s.usage.lost.dropped[ir.DropHeld],
		)...)
}

// Notes returns a note on what could not be attached, or nil.
func (s *Source) Notes() []string {
	if a := s.session.Attachment(); len(a.Skipped) > 0 {
		return []string{a.String()}
	}
	return nil
}

// tidy reads the cost of the script, and discards rows of aggregations without a reader, which
// would fill the kernel's maps.
func (s *Source) tidy() error {
	var idle []*Aggregate
	for _, a := range s.session.aggs.all {
		if a.unkept && len(a.taps) == 0 {
			idle = append(idle, a)
		}
	}
	return errors.Join(s.account(), s.session.collect(idle...))
}

// account reads the run time of the script's programs.
func (s *Source) account() error {
	if s.session.costs.counting == nil {
		return nil
	}
	all, err := s.session.Costs()
	if err != nil {
		return err
	}
	sum := time.Duration(0)
	for _, c := range all {
		sum += c.Time
	}
	s.usage.mu.Lock()
	s.usage.outside = max(s.usage.outside, sum)
	s.usage.mu.Unlock()
	return nil
}

// Cost returns the CPU time charged to a statistic: an equal share, per statistic, of the CPU time
// of reading and of the script's programs. It returns 0 for an unknown statistic.
func (s *Source) Cost(id measure.StatID) measure.Span {
	if !slices.ContainsFunc(s.stats, func(st measure.Stat) bool { return st.ID == id }) {
		return 0
	}
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	return (s.usage.inside + measure.Span(s.usage.outside)) / measure.Span(len(s.stats))
}

// ExternalCost returns the run time of the script's programs, summed over all processes that they
// ran in.
func (s *Source) ExternalCost() measure.Span {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	return measure.Span(s.usage.outside)
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
		took := kernel.ThreadTime() - before
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
