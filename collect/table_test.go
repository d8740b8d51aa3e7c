package collect

import (
	"fmt"
	"math"
	"math/rand/v2"
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
		{ID: "x.level.count", Kind: measure.Level, Unit: measure.Count, Fields: fields},
		{ID: "x.delta.count", Kind: measure.Delta, Unit: measure.Count, Fields: fields},
	}
	d := NewDictionary()
	d.limit = 64
	o := NewOut(stats, d, false)
	level, delta := o.Table(stats[0].ID), o.Table(stats[1].ID)
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
			level.Row(float64(n), a, b)
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
			case kept && !changed && !failed && !odd && now == before[k] && now != "" && k < 1:
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

// TestPutDoesNotAllocate checks that rows with the keys of the previous reading allocate nothing.
func TestPutDoesNotAllocate(t *testing.T) {
	o := NewOut([]measure.Stat{{
		ID:     "x.x.count",
		Kind:   measure.Level,
		Unit:   measure.Count,
		Fields: []measure.Field{{Name: "a", Type: measure.Word}, {Name: "b", Type: measure.Word}},
	}}, NewDictionary(), false)
	table := o.Table("x.x.count")
	if n := testing.AllocsPerRun(10, func() {
		o.Start(false, time.Now())
		for i := range 100 {
			table.Put(1, measure.Label(i&1), 0)
		}
		o.Finish(nil)
	}); n > 4 { // the list of batches, and what the race detector adds
		t.Errorf("%v allocations", n)
	}
}

// An amount below zero is unknown, with a note, unless the statistic has signed amounts.
func TestNegativeAmountsAreUnknown(t *testing.T) {
	stats := []measure.Stat{
		{ID: "x.delta.count", Kind: measure.Delta, Unit: measure.Count},
		{ID: "x.signed.count", Kind: measure.Delta, Unit: measure.Count, Signed: true},
		{ID: "x.level.count", Kind: measure.Level, Unit: measure.Count},
	}
	o := NewOut(stats, NewDictionary(), false)
	for reading := range 2 {
		o.Start(reading == 0, time.Now())
		for _, st := range stats {
			o.Table(st.ID).Row(-1)
		}
		for i, b := range o.Finish(nil) {
			switch {
			case reading == 0 && i < 2: // nothing to compare with
			case len(b.Values) != 1:
				t.Errorf("%s has rows %v", b.Stat, b.Values)
			case i == 0 && !math.IsNaN(b.Values[0]), i > 0 && b.Values[0] != -1:
				t.Errorf("%s is %v", b.Stat, b.Values[0])
			case reading > 0 && len(b.Notes) == 0:
				t.Errorf("%s has no note", b.Stat)
			}
		}
	}
}
