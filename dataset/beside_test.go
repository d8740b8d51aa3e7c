package dataset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

// hand is a source that reports the batches that the test passes to it.
type hand struct {
	stats []measure.Stat
	next  chan []*measure.Batch
	taken chan bool
	begun chan bool // closed when a failing one was run
	fails error     // what Run returns at once
}

func (h *hand) Stats() []measure.Stat { return h.stats }

func (h *hand) Run(ctx context.Context, _ []measure.Query, sink measure.Sink) error {
	if h.fails != nil {
		close(h.begun)
		return h.fails
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case b := <-h.next:
			if err := sink.Accept(b); err != nil {
				return err
			}
			h.taken <- true
		}
	}
}

// give passes a reading to a source and waits until the sink has taken it.
func (h *hand) give(b ...*measure.Batch) {
	h.next <- b
	<-h.taken
}

func newHand(stats ...measure.Stat) *hand {
	return &hand{
		stats: stats,
		next:  make(chan []*measure.Batch),
		taken: make(chan bool, 1),
		begun: make(chan bool),
	}
}

func second(from, to float64) measure.Interval {
	at := func(s float64) measure.Time { return measure.Time(s * float64(measure.Second)) }
	return measure.Interval{Start: at(from), End: at(to)}
}

// TestStacksBesideCounters: samples with stacks are recorded while another source counts, each
// reading in the tick that contains most of it, also when ticks take longer than readings. Their
// frames are right when the source starts another dictionary.
func TestStacksBesideCounters(t *testing.T) {
	counters := newHand(
		measure.Stat{
			ID:     "cpu.time",
			Kind:   measure.Delta,
			Unit:   measure.Nanoseconds,
			Fields: []measure.Field{{Name: "cpu", Type: measure.Number}},
		},
	)
	stacks := newHand(
		measure.Stat{
			ID:     "cpu.stack.samples",
			Kind:   measure.Delta,
			Unit:   measure.Samples,
			Sparse: true,
			Fields: []measure.Field{
				{Name: "process", Type: measure.Word},
				{Name: "kernel", Type: measure.Stack},
			},
		},
	)
	c := New(counters, stacks)
	var queries []measure.Query
	for _, s := range []string{"cpu.time by cpu", "cpu.stack.samples by process,kernel"} {
		q, err := c.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		q.Step = measure.Second
		queries = append(queries, q)
	}
	count := func(from, to float64) *measure.Batch {
		return &measure.Batch{
			Stat:   "cpu.time",
			By:     []string{"cpu"},
			Over:   second(from, to),
			Labels: []string{"0"},
			Keys:   []measure.Label{0},
			Values: []float64{(to - from) * 5e8},
		}
	}
	first := []measure.Frame{
		{Parent: -1},
		{Symbol: "a", Parent: -1},
		{Symbol: "b", Parent: 1},
		{Symbol: "c", Parent: 1},
	}
	other := []measure.Frame{
		{Parent: -1},
		{Symbol: "x", Parent: -1},
		{Symbol: "a", Parent: -1},
		{Symbol: "c", Parent: 2},
	}
	sample := func(
		from, to float64, frames []measure.Frame, values map[measure.Label]float64,
	) *measure.Batch {
		b := &measure.Batch{
			Stat:   "cpu.stack.samples",
			By:     []string{"process", "kernel"},
			Over:   second(from, to),
			Labels: []string{"p"},
			Frames: frames,
		}
		for at := range frames {
			if v := values[measure.Label(at)]; v > 0 {
				b.Keys, b.Values = append(b.Keys, 0, measure.Label(at)), append(b.Values, v)
			}
		}
		return b
	}
	done := make(chan *Window)
	go func() {
		w, err := c.Record(t.Context(), queries, 4, nil)
		if err != nil {
			t.Error(err)
		}
		done <- w
	}()
	stacks.give(sample(0.2, 1.2, first, map[measure.Label]float64{0: 5, 2: 10}))
	counters.give(count(0, 1))
	stacks.give(sample(1.2, 2.2, first, map[measure.Label]float64{2: 20, 3: 4}))
	stacks.give(sample(2.2, 3.2, first, map[measure.Label]float64{2: 30}))
	counters.give(count(1, 4))
	stacks.give(sample(3.2, 4.2, other, map[measure.Label]float64{3: 8, 1: 3}))
	counters.give(count(4, 5))
	stacks.give(sample(4.2, 5.2, other, map[measure.Label]float64{3: 6}))
	counters.next <- []*measure.Batch{count(5, 6)} // the last: no test checks it
	w := <-done
	q := queries[1]
	a, err := w.Ask(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range a.Series {
		got = append(got, fmt.Sprintf("%s %.4g", a.Label(i, 1), a.Series[i].Values))
	}
	slices.Sort(got)
	want := []string{" [5 0 0 NaN]", "a;b [10 16.67 0 NaN]", "a;c [NaN 4 6 NaN]", "x [NaN 1 0 NaN]"}
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], "NaN 4 ", "0 4 ")
	}
	for i := range want {
		want[i] = strings.ReplaceAll(strings.ReplaceAll(want[i], "[NaN", "[0"), "NaN 4 ", "0 4 ")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if fmt.Sprint(a.Elapsed) != "[1s 3s 1s 0s]" {
		t.Errorf("measured for %v", a.Elapsed)
	}
	if a, rows, numbers, ok := w.Outline(t.Context(), q); !ok || rows != 4 || !numbers ||
		len(a.Frames) != 5 ||
		!slices.Equal(a.Stacks, []bool{false, true}) {
		t.Errorf("in outline %d rows, numbers %v, ok %v, %v", rows, numbers, ok, a)
	}
}

// TestBesideFails: a failure of a further source is a note, and the rest is recorded.
func TestSecondSourceFails(t *testing.T) {
	counters := newHand(
		measure.Stat{ID: "cpu.time", Kind: measure.Delta, Unit: measure.Nanoseconds},
	)
	stacks := newHand(measure.Stat{ID: "cpu.stack.rate", Kind: measure.Level, Unit: measure.Hertz})
	stacks.fails = errors.New("it broke")
	c := New(counters, stacks)
	done := make(chan *Window)
	go func() {
		w, err := c.Record(
			t.Context(),
			[]measure.Query{
				{Stat: "cpu.time", Step: measure.Second},
				{Stat: "cpu.stack.rate", Step: measure.Second},
			},
			2,
			nil,
		)
		if err != nil {
			t.Error(err)
		}
		done <- w
	}()
	one := &measure.Batch{Stat: "cpu.time", Over: second(0, 1), Values: []float64{1}}
	<-stacks.begun
	counters.give(one)
	counters.next <- []*measure.Batch{{Stat: "cpu.time", Over: second(1, 2), Values: []float64{1}}}
	w := <-done
	if a := ask(t, c, w, "cpu.time"); len(a.Series) != 1 || len(a.Elapsed) != 2 {
		t.Errorf("of the other: %v", show(a))
	}
	for {
		a, err := w.Ask(t.Context(), measure.Query{Stat: "cpu.stack.rate"})
		if err != nil { // the other goroutine has not returned it yet
			continue
		}
		if len(a.Series) != 0 || len(a.Notes) != 1 || a.Notes[0] != "it broke" ||
			fmt.Sprint(a.Elapsed) != "[0s 0s]" {
			t.Errorf("of what failed: %v %v %v", a.Series, a.Notes, a.Elapsed)
		}
		return
	}
}
