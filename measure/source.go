package measure

import "context"

// Sink takes what sources measure.
type Sink interface {
	// Accept takes all the batches that one reading of one source gave. The batches and everything in them belong to the
	// source and are overwritten after the return: copy what is to stay. Not called by two goroutines at once for one Run.
	// An error stops the run, which returns it.
	Accept([]*Batch) error
}

// Source measures. Its queries come validated: known statistics and fields.
type Source interface {
	// Stats lists what the source can measure. The slice must not be changed.
	Stats() []Stat

	// Run measures all the queries on one tick of queries[0].Step (all steps are equal) until the context ends, and
	// gives the sink one Accept a tick. It reads once at the start, so the first batches cover a true interval. Batches may be finer than
	// asked - more fields, unfiltered - and never coarser: they have the fields of the terms too. Returns nil when the context ended; a cancelled context lets a
	// tick under way finish. A statistic that can't be had gives a batch without rows whose Notes say why.
	//
	// When queries[0].Over.Start is set, the first reading is at that moment of the wall clock, and the ticks are where the wall clock is a
	// multiple of the step, never before; a tick that is late is taken late and those missed meanwhile are left out. A clock
	// that is set back by a few seconds is waited for, and the batch after it covers the whole time.
	Run(ctx context.Context, queries []Query, sink Sink) error
}

// Meter is a Source that knows what it costs to measure. Safe for several goroutines.
type Meter interface {
	// Cost gives the CPU time that reading the statistic has taken since the source was made, in all runs together: a
	// reading that gives several statistics is shared among them by their rows.
	Cost(StatID) Span
}

// Outsider is a Meter whose costs are in part not this process's CPU time: what it put into the kernel runs in whoever comes by. Safe for several
// goroutines.
type ExternalMeter interface {
	Meter
	// Outside gives that part of all costs so far.
	ExternalCost() Span
}

// Reader answers questions from what was measured. Safe for use by several goroutines.
type Reader interface {
	// Ask gives the answer over Query.Over in cells of Query.Step. Errors: a *Diagnostic for an unknown statistic or field;
	// errors.Is ErrUnsupported, ErrDenied, ErrUnclear where it could not be measured at all. Nothing measured
	// yet is not an error: an answer without series. The answer is the asker's, to keep and to change, but for its Labels.
	Ask(ctx context.Context, q Query) (*Answer, error)
}

// Outliner is a Reader that can tell of an answer for less than the answer costs.
type Outliner interface {
	Reader
	// Outline gives the answer that Ask would give at this moment, without its series, how many those are, and whether any of
	// their values is a number. False where that is not cheaper to know than the answer, or there is none.
	Outline(ctx context.Context, q Query) (a *Answer, rows int, numbers bool, ok bool)
}

// Watcher answers questions as time passes.
type Watcher interface {
	// Watch asks all queries each Step of queries[0] until the context ends or each returns an error, which Watch then
	// returns. The first tick comes one step after the start. The tick and its answers are the callee's to keep.
	Watch(ctx context.Context, queries []Query, each func(*Tick) error) error
}

// SinkFunc makes a function a Sink.
type SinkFunc func([]*Batch) error

// Accept calls f.
func (f SinkFunc) Accept(b []*Batch) error { return f(b) }
