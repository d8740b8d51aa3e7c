package dataset

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"culprit/measure"
)

// flowStat is a statistic with rows of two fields.
// table: of rows for tests
var flowStat = measure.Stat{
	ID:     "test.flow",
	Kind:   measure.Level,
	Unit:   measure.Count,
	Sparse: true,
	Fold:   measure.Sum,
	Fields: []measure.Field{
		{Name: "peer", Type: measure.Word},
		{Name: "process", Type: measure.Word},
	},
}

// words is the dictionary of a source.
type words struct {
	all   []string
	index map[string]measure.Label
}

func (d *words) label(w string) measure.Label {
	l, ok := d.index[w]
	if !ok {
		l = measure.Label(len(d.all))
		d.index[w], d.all = l, append(d.all, w)
	}
	return l
}

func newWords() *words { return &words{index: map[string]measure.Label{}} }

// TestWindowKeepsEveryRow: rows are answered as they were recorded, whether a batch has the shape
// of the previous one or not. Rows come, go and change places. Their dictionaries, of two sources
// in turn, grow and are replaced.
func TestWindowKeepsEveryRow(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 7))
		c := New(&script{stats: []measure.Stat{flowStat}})
		q, err := c.Parse("test.flow by peer, process")
		if err != nil {
			t.Fatal(err)
		}
		w := newWindow(c)
		of := [2]*words{newWords(), newWords()}
		var order []int
		for i := range 1 + random.IntN(20) {
			order = append(order, i)
		}
		shape := measure.NewShape()
		var batch measure.Batch
		want := map[string][]float64{}
		const ticks = 12
		for tick := range ticks {
			d := of[0]
			switch random.IntN(5) {
			case 0: // other rows
				order = append(order[:0:0], order[random.IntN(len(order)):]...)
				for range random.IntN(4) {
					order = append(order, 100+tick*10+len(order))
				}
				random.Shuffle(
					random.IntN(len(order)+1),
					func(i, j int) { order[i], order[j] = order[j], order[i] },
				)
				shape = 0
			case 1: // another dictionary
				if random.IntN(2) == 0 {
					of[0] = newWords()
					of[0].label("something else")
				} else {
					of[0], of[1] = of[1], of[0]
				}
				d, shape = of[0], 0
			case 2:
				d.label(fmt.Sprint("of another statistic ", tick)) // it grows
			}
			if shape == 0 && random.IntN(4) > 0 {
				shape = measure.NewShape()
			}
			over := measure.Interval{
				Start: measure.Time(tick) * measure.Time(measure.Second),
				End:   measure.Time(tick+1) * measure.Time(measure.Second),
			}
			batch = measure.Batch{
				Stat:  "test.flow",
				By:    []string{"peer", "process"},
				Over:  over,
				Shape: shape,
				Keys:  batch.Keys[:0],
			}
			seen := map[int]bool{}
			for _, n := range order {
				if seen[n] {
					continue
				}
				seen[n] = true
				peer, process := "10.0.0."+strconv.Itoa(n), "worker"
				batch.Keys = append(batch.Keys, d.label(peer), d.label(process))
				v := float64(random.IntN(1000))
				batch.Values = append(batch.Values, v)
				if want[peer] == nil {
					want[peer] = make([]float64, ticks)
				}
				want[peer][tick] = v
			}
			batch.Labels = d.all
			f := newFolder(c, 0, []measure.Query{q})
			f.reuse = true
			w.add(
				over,
				func(take func(*measure.Answer, *measure.Batch)) {
					f.eachAnswer([]*measure.Batch{&batch}, take)
				},
			)
		}
		a, err := w.Ask(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Series) != len(want) {
			t.Fatalf("seed %d: %d rows, want %d", seed, len(a.Series), len(want))
		}
		for i, s := range a.Series {
			peer := a.Label(i, 0)
			if a.Label(i, 1) != "worker" || want[peer] == nil {
				t.Fatalf("seed %d: row %s of %s was never given", seed, peer, a.Label(i, 1))
			}
			for tick, v := range s.Values {
				if v != want[peer][tick] {
					t.Fatalf(
						"seed %d: %s has %g in tick %d, want %g", seed, peer, v, tick,
						want[peer][tick],
					)
				}
			}
		}
	}
}

// BenchmarkWindowTick records a tick of 20,000 rows of five fields: the same ones each time, and
// with one in a hundred replaced.
func BenchmarkWindowTick(b *testing.B) {
	const rows, width = 20000, 5
	st := measure.Stat{
		ID:     "test.flow",
		Kind:   measure.Level,
		Unit:   measure.Count,
		Sparse: true,
		Fold:   measure.Sum,
	}
	for i := range width {
		st.Fields = append(
			st.Fields, measure.Field{Name: "field" + strconv.Itoa(i), Type: measure.Word},
		)
	}
	c := New(&script{stats: []measure.Stat{st}})
	q, err := c.Parse("test.flow by field0, field1, field2, field3, field4")
	if err != nil {
		b.Fatal(err)
	}
	for _, churn := range []bool{false, true} {
		b.Run(map[bool]string{false: "same", true: "other"}[churn], func(b *testing.B) {
			d := newWords()
			batch := &measure.Batch{
				Stat:  st.ID,
				By:    q.By,
				Over:  measure.Interval{End: measure.Time(measure.Second)},
				Shape: measure.NewShape(),
			}
			for i := range rows {
				for f := range width {
					batch.Keys = append(batch.Keys, d.label(strconv.Itoa(f*100000+i/(1+f*f))))
				}
				batch.Values = append(batch.Values, float64(i))
			}
			batch.Labels = d.all
			f := newFolder(c, 0, []measure.Query{q})
			f.reuse = true
			w := newWindow(c)
			n := 0
			tick := func() {
				if n++; n%50 == 0 { // as long as most diagnoses
					w = newWindow(c)
				}
				for i := range batch.Values {
					batch.Values[i]++
				}
				if churn {
					for i := n % 100; i < rows; i += 100 {
						batch.Keys[i*width] = d.label(
							"n" + strconv.Itoa(i) + "." + strconv.Itoa(n%50),
						)
					}
					batch.Labels, batch.Shape = d.all, measure.NewShape()
				}
				w.add(
					batch.Over,
					func(take func(*measure.Answer, *measure.Batch)) {
						f.eachAnswer([]*measure.Batch{batch}, take)
					},
				)
			}
			tick()
			b.ReportAllocs()
			for b.Loop() {
				tick()
			}
		})
	}
}
