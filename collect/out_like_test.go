package collect

import (
	"slices"
	"testing"

	"culprit/measure"
)

// TestLike: tables that share keys give the batches that they give alone, reading after reading, whether their rows are the other's or not.
func TestLike(t *testing.T) {
	fields := words("a", "b")
	stats := []measure.Stat{
		{ID: "x.lead.count", Kind: measure.Level, Unit: measure.Count, Fields: fields},
		{ID: "x.like.count", Kind: measure.Level, Unit: measure.Count, Fields: fields},
		{ID: "x.alone.count", Kind: measure.Level, Unit: measure.Count, Fields: fields},
		{ID: "x.other.count", Kind: measure.Level, Unit: measure.Count, Fields: fields[:1]},
	}
	o := newOut(stats, newDictionary(), false)
	lead, like, alone, other := o.Table(stats[0].ID), o.Table(stats[1].ID), o.Table(stats[2].ID), o.Table(stats[3].ID)
	like.Like(lead)
	lead.Like(like)  // no circles
	other.Like(lead) // other fields
	like.Like(nil)
	(*Table)(nil).Like(lead)
	for n, rows := range []string{"", "11111", "1101", "0111", "11112", "1111", "", "10", "11", "2"} {
		o.start(false)
		for i, kind := range rows {
			key := []measure.Label{o.Number(int64(i)), o.Number(int64(n))}
			lead.Put(float64(i), key...)
			switch kind {
			case '1':
				like.Put(float64(i), key...)
				alone.Put(float64(i), key...)
			case '2': // another key than the leader's
				like.Row(float64(i), "none", "such")
				alone.Row(float64(i), "none", "such")
			}
		}
		if n == 8 {
			o.fail("for a test")
		}
		batches := o.finish(nil)
		if a, b := batches[1], batches[2]; !slices.Equal(a.Keys, b.Keys) || !slices.Equal(a.Values, b.Values) || len(a.Keys) != 2*len(a.Values) {
			t.Errorf("reading %d, %q: keys %v, values %v; alone %v, %v", n, rows, a.Keys, a.Values, b.Keys, b.Values)
		}
		if len(batches[0].Keys) != 2*len(batches[0].Values) {
			t.Errorf("reading %d: the leader has keys %v of %d rows", n, batches[0].Keys, len(batches[0].Values))
		}
	}
	if n := testing.AllocsPerRun(10, func() {
		o.start(false)
		for i := range 100 {
			lead.Put(1, measure.Label(i&1), 0)
			like.Put(1, measure.Label(i&1), 0)
		}
		o.finish(nil)
	}); n > 4 { // of 200 rows: the list of batches, and what the race detector adds
		t.Errorf("%v allocations", n)
	}
}
