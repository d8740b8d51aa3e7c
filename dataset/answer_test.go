package dataset

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"culprit/measure"
)

// The plain, the folding and the window's answers are equal to answers computed row by row.
func TestAnswersEqualThoseComputedByRow(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string { return fmt.Sprint("w", rnd.IntN(n)) }
	for range 200 {
		fields := []measure.Field{{Name: "a", Type: measure.Word}, {Name: "b", Type: measure.Word}}
		s := &script{stats: []measure.Stat{
			{
				ID:     "t.sum",
				Kind:   measure.Delta,
				Unit:   measure.Bytes,
				Sparse: rnd.IntN(2) == 0,
				Fields: fields,
			},
			{
				ID:     "t.max",
				Kind:   measure.Level,
				Fold:   measure.Max,
				Unit:   measure.Bytes,
				Fields: fields,
			},
		}}
		for range 4 {
			var rows []row
			seen := map[string]bool{}
			for range rnd.IntN(40) {
				r := row{
					s.stats[rnd.IntN(2)].ID,
					[]string{word(6), word(6)},
					float64(rnd.IntN(100)),
				}
				if id := fmt.Sprint(r.stat, r.key); !seen[id] {
					seen[id] = true
					rows = append(rows, r)
				}
			}
			s.ticks = append(s.ticks, rows)
		}
		c, w := record(t, s, "t.sum by a,b", "t.max by a,b")
		for _, sentence := range []string{
			"t.sum by a,b", "t.sum by b,a", "t.sum by b", `t.sum by a where b = "w1"`,
			"t.max by a,b", "t.max by b", "t.max",
		} {
			q, err := c.Parse(sentence)
			if err != nil {
				t.Fatal(err)
			}
			q.Step = measure.Second
			type watch func(context.Context, []measure.Query, func(*measure.Tick) error) error
			watched := func(watch watch) map[string]float64 {
				live, tick := map[string]float64{}, 0
				done := fmt.Errorf("done")
				queries := []measure.Query{q}
				if err := watch(context.Background(), queries, func(t *measure.Tick) error {
					for k, v := range values(t.Answers[0]) {
						live[fmt.Sprint(tick, k[1:])] = v
					}
					if tick++; tick == len(s.ticks) {
						return done
					}
					return nil
				}); err != done {
					t.Fatal(err)
				}
				return live
			}
			window, live := values(ask(t, c, w, sentence)), watched(c.Watch)
			if brief := watched(c.WatchBrief); !maps.Equal(brief, live) {
				t.Fatalf("%s: %v where ticks are kept, %v where not", sentence, live, brief)
			}
			want := map[string]float64{}
			for n, rows := range s.ticks {
				for _, r := range rows {
					if r.stat != q.Stat || len(q.Where) > 0 && !q.Where[0].Match(r.key[1]) {
						continue
					}
					id := fmt.Sprint(n)
					for _, f := range q.By {
						id += " " + r.key[map[string]int{"a": 0, "b": 1}[f]]
					}
					if old, ok := want[id]; q.Stat == "t.sum" {
						want[id] += r.value / 2 // a tick is two seconds
					} else if !ok || r.value > old {
						want[id] = r.value
					}
				}
			}
			for id, v := range want {
				if window[id] != v || live[id] != v {
					t.Fatalf(
						"%s: %s is %v in the window and %v live, want %v", sentence, id, window[id],
						live[id], v,
					)
				}
			}
			for id, v := range live {
				if _, ok := want[id]; !ok {
					t.Fatalf("%s: %s is %v live and should not be", sentence, id, v)
				}
			}
			for id, v := range window {
				if _, ok := want[id]; !ok && v == v && (v != 0 || !c.Stat(q.Stat).Sparse) {
					t.Fatalf("%s: %s is %v in the window and should not be", sentence, id, v)
				}
			}
		}
	}
}

// Answers in reused memory don't mix with those of the previous tick, also when rows come and go.
func TestReusedAnswersDoNotMix(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	by := []string{"a", "b"}
	s := &script{}
	var queries []measure.Query
	var batches []*measure.Batch
	for n := range 4 {
		id := measure.StatID(fmt.Sprint("t.t", n))
		s.stats = append(s.stats, measure.Stat{
			ID:   id,
			Kind: measure.Level,
			Unit: measure.Bytes,
			Fields: []measure.Field{
				{Name: "a", Type: measure.Word},
				{Name: "b", Type: measure.Word},
			},
		})
		batches = append(batches, &measure.Batch{
			Stat:   id,
			By:     by,
			Over:   measure.Interval{Start: 1, End: 2},
			Labels: []string{"0", "1", "2", "3"},
			Keys:   make([]measure.Label, 0, 8),
			Values: make([]float64, 0, 8),
		})
		for _, by := range [][]string{by, by[1:]} {
			queries = append(queries, measure.Query{Stat: id, By: by})
		}
		queries = append(queries, measure.Query{
			Stat:  id,
			By:    by[:1],
			Where: []measure.Term{{Field: "a", Op: measure.NotEqual, Values: []string{"1"}}},
		})
	}
	c := New(s)
	brief, kept := newFolder(c, 0, queries), newFolder(c, 0, queries)
	brief.reuse = true
	got, want := make([]*measure.Answer, len(queries)), make([]*measure.Answer, len(queries))
	second, laid, shapes := measure.NewShape(), 0, make([]measure.Shape, len(queries))
	rows := make([]string, len(queries))
	for tick := range 1000 {
		for n, b := range batches { // in the same memory, as a source has them
			if b.Shape == 0 || rnd.IntN(2) == 0 {
				b.Shape, b.Keys = 0, b.Keys[:0]
				for k := range measure.Label(rnd.IntN(4)) {
					b.Keys = append(
						b.Keys, (k+measure.Label(rnd.IntN(2)))%4, measure.Label(n), 3-k,
						measure.Label(n),
					)
				}
				if rnd.IntN(4) > 0 {
					b.Shape = measure.NewShape()
				}
			}
			b.Values = b.Values[:0]
			for range len(b.Keys) / 2 {
				b.Values = append(b.Values, rnd.Float64())
			}
		}
		given := batches
		if rnd.IntN(3) == 0 { // of two collectors, so that its rows are folded
			given = append(batches[:4:4], &measure.Batch{
				Stat:   "t.t1",
				By:     by,
				Over:   batches[1].Over,
				Labels: batches[1].Labels,
				Shape:  measure.Shape(rnd.IntN(2)) * second,
				Keys:   []measure.Label{2, 2},
				Values: []float64{rnd.Float64()},
			})
		}
		brief.answers(given, got)
		kept.answers(given, want)
		for i := range queries {
			if g, w := values(got[i]), values(want[i]); !maps.Equal(g, w) {
				t.Fatalf(
					"tick %d, %v: %v where ticks are kept, %v where not", tick, queries[i], w, g,
				)
			}
			cells, shape := got[i].Column()
			keys := ""
			for k, s := range got[i].Series {
				if keys += fmt.Sprint(s.Key); shape != 0 && &s.Values[0] != &cells[k] {
					t.Fatalf(
						"tick %d, %v: the value of series %d lies elsewhere", tick, queries[i], k,
					)
				}
			}
			if shape != 0 && shape == shapes[i] {
				if laid++; keys != rows[i] {
					t.Fatalf(
						"tick %d, %v: the rows were %s and are %s, of one shape", tick, queries[i],
						rows[i], keys,
					)
				}
			}
			shapes[i], rows[i] = shape, keys
		}
	}
	if laid < 1000 {
		t.Errorf("only %d answers had the shape of the answer before", laid)
	}
}

// values returns the cells of an answer by number and labels.
func values(a *measure.Answer) map[string]float64 {
	out := map[string]float64{}
	for i, s := range a.Series {
		for n, v := range s.Values {
			id := fmt.Sprint(n)
			for j := range a.Query.By {
				id += " " + a.Label(i, j)
			}
			out[id] = v
		}
	}
	return out
}

// Slices that no caller keeps are reused: once they are large enough, an answer allocates nothing.
func TestReusedAnswersDoNotAllocate(t *testing.T) {
	c, batch := connections()
	var queries []measure.Query
	for _, by := range [][]string{batch.By, batch.By[3:], nil} {
		queries = append(queries, measure.Query{Stat: batch.Stat, By: by})
	}
	batch.Notes = []string{"a note"}
	f, all := newFolder(c, 0, queries), make([]*measure.Answer, len(queries))
	f.reuse = true
	batches := []*measure.Batch{batch}
	if n := testing.AllocsPerRun(10, func() { f.answers(batches, all) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if len(all[0].Notes) != 1 || len(all[2].Notes) != 1 {
		t.Error(all[0].Notes, all[2].Notes)
	}
}

// BenchmarkAnswer makes the answer to one query of a batch of 2,000 connections.
func BenchmarkAnswer(b *testing.B) {
	c, batch := connections()
	for name, by := range map[string][]string{"plain": batch.By, "folded": batch.By[3:]} {
		b.Run(name, func(b *testing.B) {
			f := newFolder(c, 0, []measure.Query{{Stat: batch.Stat, By: by}})
			all := make([]*measure.Answer, 1)
			b.ReportAllocs()
			for b.Loop() {
				f.answers([]*measure.Batch{batch}, all)
			}
		})
	}
}

// connections makes a batch of 2,000 rows by 8 fields.
func connections() (*Catalogue, *measure.Batch) {
	fields := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	st := measure.Stat{ID: "t.t", Kind: measure.Delta, Unit: measure.Bytes}
	for _, f := range fields {
		st.Fields = append(st.Fields, measure.Field{Name: f, Type: measure.Word})
	}
	batch := &measure.Batch{
		Stat: st.ID,
		By:   fields,
		Over: measure.Interval{End: measure.Time(measure.Second)},
	}
	for i := range 2000 {
		for j := range fields {
			batch.Keys = append(batch.Keys, measure.Label(i>>j))
		}
		batch.Values = append(batch.Values, 1)
		batch.Labels = append(batch.Labels, fmt.Sprint(i))
	}
	return New(&script{stats: []measure.Stat{st}}), batch
}
