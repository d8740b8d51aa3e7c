package store

import (
	"slices"
	"testing"

	"culprit/measure"
)

// TestFoldedDistributionsUseRollups folds two rows over three hours: the answer has every event of
// both, and is read from minutes and hours, not tick by tick.
func TestFoldedDistributionsUseRollups(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	st := measure.Stat{
		ID: "disk.latency", Kind: measure.Dists, Unit: measure.Nanoseconds, Sparse: true,
		Fields: []measure.Field{{Name: "process"}},
	}
	by := []string{"process"}
	id, err := s.Save(measure.Dataset{
		Stat: st, Query: measure.Query{Stat: st.ID, By: by, Step: measure.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	start := someTime - someTime%measure.Time(hour)
	at, want := start, measure.Dist{Base: 2}
	for n := range uint64(3 * 3600) {
		at += 1e9
		fast, slow := measure.Dist{Base: 2}, measure.Dist{Base: 2}
		fast.Add(50_000+n, 19)
		slow.Add(20_000_000+1000*n, 1)
		want.Merge(fast)
		want.Merge(slow)
		b := &measure.Batch{
			Stat: st.ID, By: by, Over: measure.Interval{Start: at - 1e9, End: at},
			Labels: []string{"fast", "slow"}, Keys: []measure.Label{0, 1},
			Dists: []measure.Dist{fast, slow},
		}
		if err := s.Append(at, []uint32{id}, []*measure.Batch{b}); err != nil {
			t.Fatal(err)
		}
		if n%60 == 59 {
			s.Settle()
		}
	}
	over := measure.Interval{Start: start, End: at}
	for _, step := range []measure.Span{measure.Second, measure.Minute, hour, 3 * hour} {
		q := measure.Query{Stat: st.ID, Over: over, Step: step}
		a, err := s.Ask(t.Context(), q)
		if err != nil || len(a.Series) != 1 {
			t.Fatalf("step %v: %v", step, err)
		}
		got := measure.Dist{Base: 2}
		for _, d := range a.Series[0].Dists() {
			got.Merge(d)
		}
		if got.First != want.First || !slices.Equal(got.Counts, want.Counts) ||
			!alike(got.Sum, want.Sum) {
			t.Errorf("step %v: %d events, want %d", step, got.Count(), want.Count())
		}
		s.mu.RLock()
		g, over, err := s.newGather(q, maxValues, &gatherBuffers{})
		if err != nil {
			t.Fatal(err)
		}
		first := g.plan(over)[0].resolution
		s.mu.RUnlock()
		wanted := map[measure.Span]uint8{
			measure.Second: inTicks, measure.Minute: inMinutes, hour: inHours, 3 * hour: inHours,
		}
		if first != wanted[step] {
			t.Errorf("step %v is read from resolution %d, want %d", step, first, wanted[step])
		}
	}
}
