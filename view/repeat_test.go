package view

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"culprit/measure"
)

// TestRepeatedCalls compares tables made in one Buffers with fresh ones, while the shapes of the
// answers stay or change. It does the same with means.
func TestRepeatedCalls(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	labels := []string{"", "rx", "tx", "eth2", "eth10", "a", "b"}
	reused := &Frame{Buffers: &Buffers{}}
	answers := make([]*measure.Answer, 3)
	rows := func(n int) *measure.Answer {
		a := &measure.Answer{
			Query: measure.Query{
				Stat: measure.StatID(fmt.Sprint("t.t", n)),
				By:   []string{"x", "y", "dir"},
			},
			Elapsed: []measure.Span{measure.Second},
			Labels:  labels,
			Sparse:  rnd.IntN(4) == 0,
		}
		for x := range measure.Label(2) {
			for y := range measure.Label(2) {
				for d := range measure.Label(2) {
					if rnd.IntN(3) > 0 {
						a.Series = append(
							a.Series, measure.Series{Key: []measure.Label{3 + x, 5 + y, 1 + d}},
						)
					}
				}
			}
		}
		rnd.Shuffle(
			len(a.Series), func(i, j int) { a.Series[i], a.Series[j] = a.Series[j], a.Series[i] },
		)
		return a
	}
	var laid, plain Mean
	calls, steady := 0, 0
	for n := range 5000 {
		f, bare := &Frame{}, &Frame{}
		for i, a := range answers {
			shape := measure.Shape(0)
			if a != nil {
				_, shape = a.Column()
			}
			if a == nil || rnd.IntN(10) == 0 {
				if a, shape = rows(i), 0; rnd.IntN(5) > 0 {
					shape = measure.NewShape()
				}
			}
			b := *a
			b.Series = make([]measure.Series, len(a.Series))
			values := make([]float64, len(a.Series))
			for k, s := range a.Series {
				if values[k] = float64(rnd.IntN(3)); rnd.IntN(8) == 0 {
					values[k] = measure.NaN
				}
				b.Series[k] = measure.Series{Key: s.Key, Values: values[k : k+1]}
			}
			b.SetColumn(values, shape)
			answers[i] = &b
			c := b
			c.SetColumn(nil, 0)
			f.Answers, bare.Answers = append(f.Answers, &b), append(bare.Answers, &c)
		}
		laid.Add(f)
		plain.Add(bare)
		if rnd.IntN(10) == 0 {
			calls = rnd.IntN(32)
		}
		between := rnd.IntN(20) == 0 // the rows are read between two calls
		sort, words := rnd.IntN(3) > 0, rnd.IntN(3) > 0
		var got [2]string
		for i, p := range []*Pivot{reused.NewPivot("x", "y"), NewPivot("x", "y")} {
			var columns []int
			if calls&1 == 0 {
				columns = append(columns, p.Add(f.Answers[0])) // rx and tx add up
			}
			if calls&2 == 0 {
				a, b := p.AddTwo(f.Answers[1], "dir", "rx", "tx")
				columns = append(columns, a, b)
			}
			if between {
				got[i] += fmt.Sprintln(p.Len(), "rows")
			}
			if calls&4 == 0 {
				columns = append(
					columns, p.Add(&measure.Answer{Query: measure.Query{Stat: "t.none"}}),
					p.Add(f.Answers[2], "dir", "tx"),
				)
			}
			p.Join("two", f.Answers[2], "dir", "rx")
			if calls&8 == 0 {
				p.Join("two", f.Answers[1], "dir", "tx")
			}
			if sort {
				p.Sort()
			}
			if calls&16 == 0 && len(columns) > 0 {
				p.SortBy(func(r int) float64 { return numberOrZero(p.At(r, columns[0])) }, 0)
			}
			word := -1
			if words {
				word = p.Words("two", "dir")
			}
			if i == 0 && p.sameCalls {
				steady++
			}
			for r := range p.Len() {
				got[i] += p.ID(r) + "=" + p.Word(r, "two", "dir")
				if words {
					got[i] += "=" + p.WordAt(r, word)
				}
				for _, c := range columns {
					got[i] += fmt.Sprint(" ", p.At(r, c))
				}
				got[i] += "\n"
			}
		}
		if got[0] != got[1] {
			t.Fatalf("%d: reused\n%s, fresh\n%s", n, got[0], got[1])
		}
	}
	if steady < 200 {
		t.Errorf("only %d tables had the calls of the table before", steady)
	}
	a, b := laid.Frame(), plain.Frame()
	for i := range a.Answers {
		for k := range b.Answers[i].Series {
			if x, y := a.Answers[i].Series[k], b.Answers[i].Series[k]; fmt.Sprint(
				x.Key, x.Values,
			) != fmt.Sprint(y.Key, y.Values) {
				t.Errorf("answer %d, series %d: mean %v of laid answers, %v of others", i, k, x, y)
			}
		}
	}
}

func numberOrZero(v float64) float64 {
	if v != v {
		return 0
	}
	return v
}
