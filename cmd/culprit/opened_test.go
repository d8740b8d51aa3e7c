package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"culprit/collect"
	"culprit/dataset"
	"culprit/measure"
	"culprit/store"
	"culprit/trace/sampler"
)

// TestEachDatasetOpensWithManyRows asks each default dataset with 10,000 rows as the page does: the
// 200 largest rows over 10 minutes, an hour and a week.
func TestEachDatasetOpensWithManyRows(t *testing.T) {
	all, sentences := sources(collect.Env{}, 0), defaultQueries()
	stacks := sampler.NewSampler(99)
	all = append(all, stacks)
	for _, st := range stacks.Stats() {
		sentences = append(sentences, fullQuery(&st))
	}
	archive, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close() //nolint:errcheck // a directory of this test
	set, err := dataset.NewSet(dataset.New(all...), archive, sentences)
	if err != nil {
		t.Fatal(err)
	}
	const ticks, fresh = 10, 1000
	at, opened := measure.Time(1_800_000_000e9), 0
	for _, d := range set.Datasets() {
		if len(d.Query.By) == 0 {
			continue
		}
		step := max(d.Query.Step, measure.Second)
		for i := range ticks {
			at = at.Add(step)
			b := manyRows(d, measure.Interval{Start: at.Add(-step), End: at}, i*fresh, fresh)
			if err := archive.Append(at, []uint32{d.ID}, []*measure.Batch{b}); err != nil {
				t.Fatal(err)
			}
			if i == ticks/2 {
				archive.Settle()
			}
		}
		for _, w := range []struct{ span, step measure.Span }{
			{10 * measure.Minute, measure.Second},
			{60 * measure.Minute, 4 * measure.Second},
			{7 * 24 * 60 * measure.Minute, 15 * measure.Minute},
		} {
			q := d.Query
			q.Step, q.Top = w.step, 200
			end := at.Add(w.step - 1)
			end -= end % measure.Time(w.step)
			q.Over = measure.Interval{Start: end.Add(-w.span), End: end}
			a, err := set.Ask(context.Background(), q)
			if err != nil {
				t.Errorf("%s: %v", q, err)
				continue
			}
			if n := len(a.Series) + a.Rest.Rows; n != ticks*fresh ||
				len(a.Series) != 200 && a.Rest.Rows > 0 {
				t.Errorf("%s, %v: %d rows and %d more", q, w.span, len(a.Series), a.Rest.Rows)
			}
			if a.Rest.Rows > 0 &&
				!slices.ContainsFunc(
					a.Notes,
					func(n string) bool {
						return n == "200 of 10,000 rows: the largest in the whole time"
					},
				) {
				t.Errorf("%s: notes %q", q, a.Notes)
			}
		}
		opened++
	}
	if opened < 50 {
		t.Errorf("only %d datasets have fields", opened)
	}
}

// manyRows returns a batch of a dataset with n rows: their keys are the numbers from `from` on.
func manyRows(d measure.Dataset, over measure.Interval, from, n int) *measure.Batch {
	b := &measure.Batch{Stat: d.Query.Stat, By: d.Query.By, Over: over}
	for i := range n {
		b.Labels = append(b.Labels, fmt.Sprint(from+i))
		b.Frames = append(b.Frames, measure.Frame{Symbol: fmt.Sprintf("f%d", from+i), Parent: -1})
		for range d.Query.By {
			b.Keys = append(b.Keys, measure.Label(i))
		}
		if d.Stat.Kind == measure.Dists {
			v := measure.Dist{Base: 3}
			v.Add(uint64(from+i), 1)
			b.Dists = append(b.Dists, v)
		} else {
			b.Values = append(b.Values, float64(from+i+1))
		}
	}
	return b
}
