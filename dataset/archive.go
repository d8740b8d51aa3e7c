package dataset

import (
	"context"

	"culprit/measure"
)

// Archive keeps what is recorded. Safe for several goroutines. After a crash it has all that was appended up to two seconds before.
type Archive interface {
	// Ask answers from what is held, up to the newest tick appended, also of suspended datasets. Query.Step 0 gives one cell a
	// recorded tick. A query that no dataset covers is measure.ErrUnclear, with the reason. An answer of one cell has the rows that were there in it,
	// also those that were NaN, and no others; its notes and losses are those of its ticks.
	measure.Reader

	// Datasets lists the descriptions that were saved, by ID.
	Datasets() []measure.Dataset

	// Save keeps a description and gives its ID: a new one when d.ID is 0. Only State may change afterwards.
	Save(d measure.Dataset) (uint32, error)

	// Add keeps new descriptions, all or none, and gives their IDs. It waits for the disk once.
	Add(all []measure.Dataset) ([]uint32, error)

	// Append keeps one tick: batches[i] belongs to dataset ids[i]. at is the planned end of the tick, a multiple of the step; the
	// measured interval is in the batch. A dataset may have several batches with rows of their own; when one of them could not
	// look (its interval is empty), an absent row of a sparse statistic is unknown in that tick. A batch without a field of the dataset's predicate was
	// filtered by it before. Nothing of the batches is kept.
	// When the disk refuses, the tick is kept in memory as far as there is room, Trouble says so, and the error is nil.
	Append(at measure.Time, ids []uint32, batches []*measure.Batch) error

	// Discard forgets what a dataset holds of a time.
	Discard(id uint32, over measure.Interval) error

	// Drop forgets a dataset and all that it holds.
	Drop(id uint32) error

	// Held says what there is of a dataset.
	Held(id uint32) measure.Stored

	// Log keeps a document of a kind ("change", "diagnosis") with its time, as long as what is kept longest. The newest of a kind stays.
	Log(kind string, at measure.Time, document []byte) error
	// Logged calls each in order of time, all there are for a zero interval, until it gives an error, which Logged returns. The document is not kept.
	Logged(ctx context.Context, kind string, over measure.Interval, each func(at measure.Time, document []byte) error) error

	// Trouble returns what is wrong now: a full disk, damaged parts. Empty when all is well.
	Problems() []measure.Problem
}
