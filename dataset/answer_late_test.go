package dataset

import (
	"context"
	"testing"

	"culprit/measure"
)

// TestBatchesWithLaterLabels adds two batches of one statistic to a window. The first one came late
// and was translated to the dictionary of the run after the second one was made, so it has labels
// that the second one lacks.
func TestBatchesWithLaterLabels(t *testing.T) {
	s := &script{stats: []measure.Stat{{ID: "t.entries", Kind: measure.Level, Unit: measure.Count,
		Fields: []measure.Field{{Name: "cache", Type: measure.Word}}}}}
	c := New(s)
	q, err := c.Parse("t.entries by cache")
	if err != nil {
		t.Fatal(err)
	}
	q.Step = measure.Second
	over := measure.Interval{Start: 1e9, End: 2e9}
	words := []string{"dentry", "conntrack", "tcp", "udp"}
	batch := func(labels int, key measure.Label, value float64) *measure.Batch {
		return &measure.Batch{Stat: "t.entries", By: []string{"cache"}, Over: over,
			Labels: words[:labels], Keys: []measure.Label{key}, Values: []float64{value}}
	}
	f := newFolder(c, 0, []measure.Query{q})
	f.reuse = true
	w := newWindow(c)
	w.add(over, func(take func(*measure.Answer, *measure.Batch)) {
		f.eachAnswer([]*measure.Batch{batch(4, 3, 7), batch(2, 0, 5)}, take)
	})
	a, err := w.Ask(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for i, series := range a.Series {
		got[a.LabelOf(i, "cache")] = series.Values[0]
	}
	if len(got) != 2 || got["udp"] != 7 || got["dentry"] != 5 {
		t.Errorf("%v, want udp 7 and dentry 5", got)
	}
}
