package web

import (
	"context"

	"culprit/measure"
)

// Machine is what a server tells of: what is recorded here, live and past. Safe for use by several goroutines.
type Machine interface {
	// Ask answers from what was recorded, up to and with the newest tick that Tick told of.
	measure.Reader

	// Stats lists what can be measured here, sorted by ID. The slice must not be changed.
	Stats() []measure.Stat

	// Parse reads and checks a sentence; a *measure.Diagnostic where it is wrong.
	Parse(sentence string) (measure.Query, error)

	// Tick waits until a tick later than after is there to be asked for, and gives the newest: its planned end, a multiple of
	// a second. It comes back at once when there is one. The error is the context's, or says that the recording has ended. A
	// caller who is slow misses ticks, and never holds the recording up.
	Tick(ctx context.Context, after measure.Time) (measure.Time, error)

	// Health is how the recording program does.
	Health() measure.Health

	// Datasets lists what is recorded, by ID; Held and Usage say what there is of one and what it costs.
	Datasets() []measure.Dataset
	Held(id uint32) measure.Stored // zero for an unknown one
	Usage(id uint32) measure.Usage // NaN and 0 for one that is suspended or unknown

	// Enable begins to record a query (Step is set, Over is zero) and gives the dataset's ID: that of the dataset which covers it already
	// where there is one. A *measure.Diagnostic for a query that can't be; another error says why it is refused (the budget). who stands in the audit.
	Enable(who string, q measure.Query) (uint32, error)
	Suspend(who string, id uint32) error                        // what it has stays; nothing when it is suspended
	Resume(who string, id uint32) error                         // as Suspend
	Destroy(who string, id uint32) error                        // forgets it and all that it holds
	Discard(who string, id uint32, over measure.Interval) error // forgets what it holds of a time

	// Changes gives the audit over a time, oldest first.
	Changes(ctx context.Context, over measure.Interval) ([]measure.Change, error)

	// Report waits for a diagnosis later than after, as Tick does for a tick: its time and the JSON of its diagnose.Report, not to be changed.
	Report(ctx context.Context, after measure.Time) (measure.Time, []byte, error)

	// Reports tells the logged diagnoses of a time, oldest first, until each gives an error, which it returns. The document is not kept.
	Reports(ctx context.Context, over measure.Interval, each func(at measure.Time, document []byte) error) error
}
