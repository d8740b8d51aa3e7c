package web

import (
	"context"

	"culprit/measure"
)

// Machine is the recording that a server serves. Implementations are safe for concurrent use. The
// argument caller goes to the audit log.
type Machine interface {
	// Ask answers from what is recorded, up to the newest tick that Tick returned.
	measure.Reader

	// Stats lists the statistics of this machine, sorted by ID. The caller must not change the
	// slice.
	Stats() []measure.Stat

	// Parse parses and checks the text of a query. The error is a *measure.Diagnostic.
	Parse(text string) (measure.Query, error)

	// Tick waits for a tick later than after and returns the newest one: its planned end, a
	// multiple of a second. The error is the context's, or says that the recording has ended. A
	// slow caller misses ticks and never delays the recording.
	Tick(ctx context.Context, after measure.Time) (measure.Time, error)

	// Health returns the state and the cost of the recording program.
	Health() measure.Health

	// Datasets lists the datasets, by ID. Held returns what one holds, and Usage what it costs.
	Datasets() []measure.Dataset
	Held(id uint32) measure.Stored // zero for an unknown ID
	Usage(id uint32) measure.Usage // NaN and 0 for a suspended dataset and an unknown ID

	// Enable starts to record a query with Step set and Over zero. It returns the ID of the
	// dataset, which may be an older one that covers the query. The error is a *measure.Diagnostic
	// if the query is invalid; another error says why it is refused, such as the budget.
	Enable(caller string, q measure.Query) (uint32, error)

	// Suspend stops the recording of a dataset and keeps what it holds. It does nothing if the
	// dataset is suspended.
	Suspend(caller string, id uint32) error

	// Resume continues the recording of a dataset. It does nothing if the dataset is recorded.
	Resume(caller string, id uint32) error

	// Destroy deletes a dataset and all that it holds.
	Destroy(caller string, id uint32) error

	// Discard deletes what a dataset holds in a time range.
	Discard(caller string, id uint32, over measure.Interval) error

	// Changes returns the audit log of a time range, oldest entry first.
	Changes(ctx context.Context, over measure.Interval) ([]measure.Change, error)

	// Report waits for a diagnosis later than after, like Tick, and returns its time and the JSON
	// of its diagnose.Report. The caller must not change the slice.
	Report(ctx context.Context, after measure.Time) (measure.Time, []byte, error)

	// Attend reports that somebody reads each diagnosis, until leave is called. They are more
	// frequent meanwhile.
	Attend() (leave func())

	// Reports calls each for every logged diagnosis of a time range, oldest first, until each
	// returns an error, which it returns. The document is valid during the call only.
	Reports(
		ctx context.Context, over measure.Interval,
		each func(at measure.Time, document []byte) error,
	) error
}
