package dataset

import (
	"context"

	"culprit/measure"
)

// Archive stores recorded ticks. Safe for concurrent use. After a crash it has everything that was
// appended more than two seconds before.
type Archive interface {
	// Ask answers from recorded data up to the newest tick, also for suspended datasets. With
	// Query.Step 0 the answer has one cell per recorded tick. The error is measure.ErrUnclear, with
	// the reason, for a query that no dataset covers. An answer of one cell has exactly the rows of
	// that cell, including rows with NaN; its notes and losses are those of its ticks.
	measure.Reader

	// Datasets lists the saved datasets by ID.
	Datasets() []measure.Dataset

	// Save stores a dataset and returns its ID: a new one when d.ID is 0. Of an existing dataset
	// only State may change.
	Save(d measure.Dataset) (uint32, error)

	// Add stores new datasets, all or none, with one sync, and returns their IDs.
	Add(all []measure.Dataset) ([]uint32, error)

	// Append records one tick: batches[i] belongs to dataset ids[i]; at is the planned end of the
	// tick, a multiple of the step. A dataset may have several batches with distinct rows. If one
	// of them could not look (its interval is empty), an absent row of a sparse statistic is
	// unknown in that tick. A batch without a field of the dataset's predicate was filtered before.
	// The batches are not kept. When the disk refuses, the tick stays in memory within a limit,
	// Problems reports that, and the error is nil.
	Append(at measure.Time, ids []uint32, batches []*measure.Batch) error

	// Discard deletes what a dataset contains of a time.
	Discard(id uint32, over measure.Interval) error

	// Drop deletes a dataset and all its data.
	Drop(id uint32) error

	// Held describes what the archive contains of a dataset.
	Held(id uint32) measure.Stored

	// Log stores a document of a kind ("change", "diagnosis") with its time. It expires with the
	// coarsest rollups; the newest of a kind stays.
	Log(kind string, at measure.Time, document []byte) error
	// Logged calls each for the documents of a kind in order of time; a zero interval means all. It
	// returns the first error of each. A document is valid during the call.
	Logged(
		ctx context.Context, kind string, over measure.Interval,
		each func(at measure.Time, document []byte) error,
	) error

	// Problems returns the current problems: a full disk, corrupt parts. It is empty when there are
	// none.
	Problems() []measure.Problem
}
