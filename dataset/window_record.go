package dataset

import (
	"context"
	"fmt"
	"slices"
	"time"

	"culprit/measure"
)

// Record watches the queries for n steps, or until the context ends, and returns the recording,
// also with an error. That is n ticks, or fewer on a busy machine, where a reading takes longer
// than a step, but at least five. progress, if not nil, is called after each tick with the number
// of ticks so far. Record returns with the last tick; the sources release their files and programs
// only when the context ends, so that the caller does not wait for that. The error is a
// *measure.Diagnostic for an invalid query, or a source's.
func (c *Catalogue) Record(
	ctx context.Context, queries []measure.Query, n int, progress func(tick int),
) (*Window, error) {
	w := newWindow(c)
	if len(queries) == 0 {
		return w, fmt.Errorf("record: no query")
	}
	var asked []measure.Query
	for _, q := range queries {
		if err := c.Check(q); err != nil {
			return w, err
		}
		asked = merge(asked, q, queries[0].Step)
	}
	for i := range asked {
		asked[i].Where = nil // the recording answers other queries too
	}
	whole := ctx
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	full := make(chan struct{})
	source, runs := c.owner[asked[0].Stat], map[int][]measure.Query{}
	for _, q := range asked {
		runs[c.owner[q.Stat]] = append(runs[c.owner[q.Stat]], q)
	}
	for beside, queries := range runs {
		if beside != source {
			go w.recordOther(ctx, beside, queries)
		}
	}
	f := newFolder(c, source, runs[source])
	f.reuse = true
	step := asked[0].Step
	ended := make(chan error, 1)
	go func() {
		accept := measure.SinkFunc(func(batches []*measure.Batch) error {
			if w.covers(n, step) {
				return nil // the source has not noticed the end yet
			}
			w.add(widest(batches), func(take func(*measure.Answer, *measure.Batch)) {
				f.eachAnswer(batches, take)
			})
			if progress != nil {
				progress(len(w.ticks))
			}
			if w.covers(n, step) {
				stop()
				close(full)
				<-whole.Done() // see Record
			}
			return nil
		})
		ended <- c.sources[source].Run(ctx, runs[source], accept)
	}()
	select {
	case <-full:
		return w, nil
	case err := <-ended:
		if err != nil {
			err = fmt.Errorf("record: %w", err)
		}
		return w, err
	}
}

// fewestTicks is how many ticks a recording has in any case: what lasts is seen in several.
const fewestTicks = 5

// covers reports whether the ticks make n steps.
func (w *Window) covers(n int, step measure.Span) bool {
	if len(w.ticks) < min(n, fewestTicks) || step <= 0 {
		return len(w.ticks) >= n
	}
	watched := w.ticks[len(w.ticks)-1].End.Sub(w.ticks[0].Start)
	return len(w.ticks) >= n || float64(watched)/float64(step) > float64(n)-0.5
}

// otherDelay is the part of a step after which further sources start: reading all counters of a
// machine takes 20 to 60 ms.
const otherDelay = 10

// recordOther records another source than the first until the context ends. Each of its readings
// belongs to the tick that contains most of it. Later readings are ignored.
func (w *Window) recordOther(ctx context.Context, source int, queries []measure.Query) {
	// It must not delay the first reading of the first source, which starts the interval that the
	// user waits for.
	began := time.NewTimer(queries[0].Step.AsDuration() / otherDelay)
	defer began.Stop()
	select {
	case <-ctx.Done():
		return
	case <-began.C:
	}
	f := newFolder(w.catalogue, source, queries)
	f.reuse = true
	err := w.catalogue.sources[source].Run(
		ctx,
		queries,
		measure.SinkFunc(func(batches []*measure.Batch) error {
			if ctx.Err() != nil {
				return nil
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			over := widest(batches)
			middle := over.Start.Add(over.Span() / 2)
			cell := slices.IndexFunc(
				w.ticks, func(t measure.Interval) bool { return middle < t.End },
			)
			if cell < 0 {
				cell = len(w.ticks)
			}
			f.eachAnswer(batches, func(a *measure.Answer, b *measure.Batch) {
				k := w.statOf(a)
				for len(k.elapsed) < cell {
					k.elapsed, k.cells = append(k.elapsed, 0), append(k.cells, column{})
					k.dists = append(k.dists, nil)
				}
				w.addAnswer(a, b)
				// the ticks of the first source took longer, or this one has overtaken them
				if n := len(k.elapsed) - 1; n > cell {
					k.joinTicks(n - 1)
				}
			})
			return nil
		}),
	)
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range queries {
		k := w.statOf(&measure.Answer{Query: q, Stacks: w.catalogue.Stat(q.Stat).Stacks(q.By)})
		k.notes = append(k.notes, err.Error())
	}
}
