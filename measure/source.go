package measure

import "context"

// Sink receives what sources measure.
type Sink interface {
	// Accept receives all batches of one reading of one source. The batches and their contents
	// belong to the source, which overwrites them after the call: copy what you keep. One Run calls
	// it from one goroutine at a time. An error ends the run, which returns it.
	Accept([]*Batch) error
}

// Source measures. Its queries are valid: their statistics and fields exist.
type Source interface {
	// Stats lists what the source can measure. Don't modify the result.
	Stats() []Stat

	// Run measures all queries on one tick of queries[0].Step until ctx ends. All steps are equal.
	// It calls Accept once per tick. It reads once at the start, so the first batches cover a true
	// interval. It returns nil when ctx ended, after a tick in progress has finished.
	//
	// Batches may be finer than the query, with more fields or unfiltered rows, but never coarser:
	// they have the fields of Where too. A statistic that cannot be measured results in a batch
	// without rows whose Notes say why.
	//
	// If queries[0].Over.Start is set, the first reading is at that wall-clock time, and ticks are
	// at multiples of the step. A tick is never early. After a late tick, the ticks missed
	// meanwhile are skipped. When the clock is set back by a few seconds, Run waits for it; the
	// next batch covers the whole time.
	Run(ctx context.Context, queries []Query, sink Sink) error
}

// Meter is a Source that knows the cost of its measurements. Safe for concurrent use.
type Meter interface {
	// Cost returns the CPU time spent on reading the statistic since the source was created, in all
	// runs. The cost of a reading that yields several statistics is divided by their numbers of
	// rows.
	Cost(StatID) Span
}

// ExternalMeter is a Meter part of whose cost is not CPU time of this process: its programs in the
// kernel run in the context of other processes. Safe for concurrent use.
type ExternalMeter interface {
	Meter
	// ExternalCost returns that part of the cost of all statistics since the source was created.
	ExternalCost() Span
}

// ProblemReporter is a Source that reports what it cannot measure for the moment. Safe for
// concurrent use.
type ProblemReporter interface {
	Source
	// Problems returns the current problems; nil when there are none.
	Problems() []Problem
}

// Reader answers queries from recorded data. Safe for concurrent use.
type Reader interface {
	// Ask returns the answer over q.Over in cells of q.Step. The error is a *Diagnostic for an
	// unknown statistic or field; otherwise errors.Is ErrUnsupported, ErrDenied or ErrUnclear says
	// why nothing could be measured. If nothing has been measured yet, the answer has no series and
	// the error is nil. The caller may keep and modify the answer except its Labels.
	Ask(ctx context.Context, q Query) (*Answer, error)
}

// Outliner is a Reader that can summarize an answer for less than the cost of the answer.
type Outliner interface {
	Reader
	// Outline returns the answer that Ask would return now without its series, the number of
	// series, and whether any of their values is a number. ok is false when that is not cheaper
	// than Ask, or when there is no answer.
	Outline(ctx context.Context, q Query) (a *Answer, rows int, numbers bool, ok bool)
}

// Watcher answers queries as time passes.
type Watcher interface {
	// Watch answers all queries each Step of queries[0] until ctx ends or each returns an error,
	// which Watch returns. The first tick is one step after the start. each may keep the tick and
	// its answers.
	Watch(ctx context.Context, queries []Query, each func(*Tick) error) error
}

// SinkFunc is a function that implements Sink.
type SinkFunc func([]*Batch) error

// Accept calls f and returns its error.
func (f SinkFunc) Accept(b []*Batch) error { return f(b) }
