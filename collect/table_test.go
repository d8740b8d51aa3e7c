package collect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"culprit/measure"
)

// TestShape checks that batches of equal Shape have equal keys, and that equal keys keep their
// Shape.
func TestShape(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	fields := []measure.Field{{Name: "a", Type: measure.Word}, {Name: "b", Type: measure.Word}}
	stats := []measure.Stat{
		{ID: "x.like.count", Kind: measure.Level, Unit: measure.Count, Fields: fields},
		{ID: "x.lead.count", Kind: measure.Level, Unit: measure.Count, Fields: fields},
		{ID: "x.delta.count", Kind: measure.Delta, Unit: measure.Count, Fields: fields},
	}
	d := NewDictionary()
	d.limit = 64
	o := NewOut(stats, d, false)
	like, lead, delta := o.Table(stats[0].ID), o.Table(stats[1].ID), o.Table(stats[2].ID)
	like.Like(lead)
	before, shapes, same := make([]string, len(stats)), make([]measure.Shape, len(stats)), 0
	var rows []int
	kept := false
	for n := range 5000 {
		d.StartTick()
		o.Start(n == 0, time.Now())
		changed := len(rows) == 0 || rnd.IntN(4) == 0
		if changed {
			rows = rows[:0]
			for range rnd.IntN(6) {
				rows = append(rows, rnd.IntN(3))
			}
		}
		if rnd.IntN(100) == 0 {
			o.Label(fmt.Sprint("word ", n)) // sometimes all words get new labels
		}
		odd := rnd.IntN(10) == 0
		for i, r := range rows {
			a, b := strconv.Itoa(r), strconv.Itoa(i)
			lead.Row(float64(n), a, b)
			like.Put(float64(n), o.Label(a), o.Label(b))
			if !odd || i != 1 {
				delta.Put(float64(n), o.Label(a), o.Label(b))
			}
		}
		failed := rnd.IntN(30) == 0
		if failed {
			o.Fail("for a test")
		}
		for k, b := range o.Finish(nil) {
			now := ""
			for i := range b.Values {
				now += fmt.Sprint(
					b.Labels[b.Key(i)[0]], ".", b.Labels[b.Key(i)[1]], " ", b.Key(i), " ",
				)
			}
			switch {
			case b.Shape == 0 || len(b.Keys) != 2*len(b.Values):
				t.Fatalf(
					"reading %d: shape %d, %d labels of %d rows", n, b.Shape, len(b.Keys),
					len(b.Values),
				)
			case b.Shape == shapes[k] && now != before[k]:
				t.Fatalf(
					"reading %d, %s: the rows were %s and are %s, of one shape", n, b.Stat,
					before[k], now,
				)
			case b.Shape == shapes[k]:
				same++
			case kept && !changed && !failed && !odd && now == before[k] && now != "" && k < 2:
				t.Fatalf("reading %d, %s: rows that stay have another shape", n, b.Stat)
			}
			before[k], shapes[k] = now, b.Shape
		}
		kept = !failed && !changed && !odd
	}
	if same < 5000 {
		t.Errorf("only %d batches had the shape of the one before", same)
	}
}

// TestLike compares tables that share keys with tables that do not, over many readings, with equal
// and with different rows.
func TestLike(t *testing.T) {
	fields := []measure.Field{{Name: "a", Type: measure.Word}, {Name: "b", Type: measure.Word}}
	stats := []measure.Stat{
		{ID: "x.lead.count", Kind: measure.Level, Unit: measure.Count, Fields: fields},
		{ID: "x.like.count", Kind: measure.Level, Unit: measure.Count, Fields: fields},
		{ID: "x.alone.count", Kind: measure.Level, Unit: measure.Count, Fields: fields},
		{ID: "x.other.count", Kind: measure.Level, Unit: measure.Count, Fields: fields[:1]},
	}
	o := NewOut(stats, NewDictionary(), false)
	lead, like, alone, other := o.Table(stats[0].ID), o.Table(
		stats[1].ID,
	), o.Table(stats[2].ID), o.Table(
		stats[3].ID,
	)
	like.Like(lead)
	lead.Like(like)  // no circles
	other.Like(lead) // other fields
	like.Like(nil)
	(*Table)(nil).Like(lead)
	for n, rows := range []string{"", "11111", "1101", "0111", "11112", "1111", "", "10", "11", "2"} {
		o.Start(false, time.Now())
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
			o.Fail("for a test")
		}
		batches := o.Finish(nil)
		if a, b := batches[1], batches[2]; !slices.Equal(a.Keys, b.Keys) ||
			!slices.Equal(a.Values, b.Values) ||
			len(a.Keys) != 2*len(a.Values) {
			t.Errorf(
				"reading %d, %q: keys %v, values %v; alone %v, %v", n, rows, a.Keys, a.Values,
				b.Keys, b.Values,
			)
		}
		if len(batches[0].Keys) != 2*len(batches[0].Values) {
			t.Errorf(
				"reading %d: the leader has keys %v of %d rows", n, batches[0].Keys,
				len(batches[0].Values),
			)
		}
	}
	if n := testing.AllocsPerRun(10, func() {
		o.Start(false, time.Now())
		for i := range 100 {
			lead.Put(1, measure.Label(i&1), 0)
			like.Put(1, measure.Label(i&1), 0)
		}
		o.Finish(nil)
	}); n > 4 { // of 200 rows: the list of batches, and what the race detector adds
		t.Errorf("%v allocations", n)
	}
}
