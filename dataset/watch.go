package dataset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"culprit/measure"
)

// Watch implements measure.Watcher. Each source runs once for all its queries, with the fields that
// any of them needs, and all queries are folded from the same reading. The error is a
// *measure.Diagnostic for an invalid query, the first error of a source, or that of each.
func (c *Catalogue) Watch(
	ctx context.Context, queries []measure.Query, each func(*measure.Tick) error,
) error {
	return c.watch(ctx, queries, false, each)
}

// WatchBrief is Watch without allocation: a tick and its answers are read-only and valid until each
// returns. The errors are those of Watch.
func (c *Catalogue) WatchBrief(
	ctx context.Context, queries []measure.Query, each func(*measure.Tick) error,
) error {
	return c.watch(ctx, queries, true, each)
}

// watch is Watch. With reuse, the next tick overwrites the previous one.
func (c *Catalogue) watch(
	ctx context.Context, queries []measure.Query, reuse bool, each func(*measure.Tick) error,
) error {
	if len(queries) == 0 {
		return errors.New("watch: no query")
	}
	for _, q := range queries {
		if err := c.Check(q); err != nil {
			return err
		}
	}
	runs := map[int][]measure.Query{} // source -> one query per statistic
	for _, q := range queries {
		runs[c.owner[q.Stat]] = merge(runs[c.owner[q.Stat]], q, queries[0].Step)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if len(runs) == 1 {
		for i, asked := range runs {
			return c.watchOne(ctx, i, asked, queries, reuse, each)
		}
	}
	return c.watchMany(ctx, runs, queries, each)
}

// watchOne is Watch with one source for all queries. It calls each from the source's goroutine:
// passing ticks to another one would wake a goroutine, and sometimes a thread, each interval.
func (c *Catalogue) watchOne(
	ctx context.Context, source int, asked, queries []measure.Query, reuse bool,
	each func(*measure.Tick) error,
) error {
	f := newFolder(c, source, queries)
	f.reuse = reuse
	var eachErr error
	t := &measure.Tick{Answers: make([]*measure.Answer, len(queries))}
	err := c.sources[source].Run(ctx, asked, measure.SinkFunc(func(batches []*measure.Batch) error {
		if !reuse {
			t = &measure.Tick{Answers: make([]*measure.Answer, len(queries))}
		}
		t.Over = widest(batches)
		f.answers(batches, t.Answers)
		eachErr = each(t)
		return eachErr
	}))
	if eachErr != nil || err == nil {
		return eachErr
	}
	return fmt.Errorf("watch: %w", err)
}

// widest returns the interval of a reading: the latest end, and of equal ends the longest interval.
// A statistic that was not measured has an empty one.
func widest(batches []*measure.Batch) (over measure.Interval) {
	for _, b := range batches {
		if b.Over.End > over.End || b.Over.End == over.End && b.Over.Start < over.Start {
			over = b.Over
		}
	}
	return over
}

// watchMany is Watch with several sources. A tick is complete when each has reported its part. If a
// source is late by half a step, the tick is reported without it, with a note, and its part belongs
// to the next tick.
func (c *Catalogue) watchMany(
	ctx context.Context, runs map[int][]measure.Query, queries []measure.Query,
	each func(*measure.Tick) error,
) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type part struct {
		source  int
		over    measure.Interval
		answers []*measure.Answer // nil for the queries of other sources
		err     error
		ended   bool
	}
	parts := make(chan part)
	for i, asked := range runs {
		go func() {
			f := newFolder(c, i, queries)
			err := c.sources[i].Run(
				ctx,
				asked,
				measure.SinkFunc(func(batches []*measure.Batch) error {
					p := part{
						source:  i,
						over:    widest(batches),
						answers: make([]*measure.Answer, len(queries)),
					}
					f.answers(batches, p.answers)
					select {
					case parts <- p:
					case <-ctx.Done():
					}
					return nil
				}),
			)
			select {
			case parts <- part{source: i, err: err, ended: true}:
			case <-ctx.Done():
			}
		}()
	}

	waiting := map[int][]part{}
	flush := func() error {
		t := &measure.Tick{Answers: make([]*measure.Answer, len(queries))}
		for source, queue := range waiting {
			p := queue[0]
			if p.over.End > t.Over.End || p.over.Span() > 0 && t.Over.Span() == 0 {
				t.Over = p.over
			}
			for n, a := range p.answers {
				if a != nil {
					t.Answers[n] = a
				}
			}
			if queue = queue[1:]; len(queue) > 0 {
				waiting[source] = queue
			} else {
				delete(waiting, source)
			}
		}
		for n, q := range queries {
			if t.Answers[n] == nil {
				st := c.Stat(q.Stat)
				t.Answers[n] = &measure.Answer{
					Query: q,
					Kind:  st.Kind,
					Unit:  st.AnswerUnit(),
					Start: t.Over.Start,
					Step:  t.Over.Span(),
					Elapsed: []measure.Span{
						0,
					},
					Notes: []string{string(q.Stat) + " came late and is missing in this interval"},
				}
			}
		}
		return each(t)
	}
	maxDelay := max(queries[0].Step.AsDuration()/2, 100*time.Millisecond)
	// runs only while a part waits for others: a periodic timer would wake the process once more
	// per interval
	late := time.NewTimer(maxDelay)
	late.Stop()
	defer late.Stop()
	for {
		for len(waiting) > 0 && len(waiting) >= len(runs) {
			late.Stop()
			if err := flush(); err != nil {
				return err
			}
			if len(waiting) > 0 {
				late.Reset(maxDelay)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-late.C:
			if err := flush(); err != nil {
				return err
			}
			if len(waiting) > 0 {
				late.Reset(maxDelay)
			}
		case p := <-parts:
			if p.ended {
				if p.err != nil {
					return fmt.Errorf("watch: %w", p.err)
				}
				if delete(runs, p.source); len(runs) == 0 {
					return nil
				}
				continue
			}
			if len(waiting) == 0 {
				late.Reset(maxDelay)
			}
			waiting[p.source] = append(waiting[p.source], p)
		}
	}
}

// merge adds what q needs to the queries, one per statistic: the fields of all queries, and the
// terms that all have in common.
func merge(asked []measure.Query, q measure.Query, step measure.Span) []measure.Query {
	at := slices.IndexFunc(asked, func(a measure.Query) bool { return a.Stat == q.Stat })
	if at < 0 {
		asked = append(asked, measure.Query{Stat: q.Stat, Where: slices.Clone(q.Where), Step: step})
		at = len(asked) - 1
	} else {
		asked[at].Where = slices.DeleteFunc(asked[at].Where, func(t measure.Term) bool {
			return !containsTerms([]measure.Term{t}, q.Where)
		})
	}
	need := slices.Clone(q.By)
	for _, t := range q.Where {
		need = append(need, t.Field)
	}
	for _, f := range need {
		if !slices.Contains(asked[at].By, f) {
			asked[at].By = append(asked[at].By, f)
		}
	}
	return asked
}
