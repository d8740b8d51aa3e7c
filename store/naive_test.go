package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

// naive is an archive that is obviously correct: it keeps every appended batch and computes each
// answer from them.
type naive struct {
	sets  map[uint32]measure.Dataset
	ticks []naiveTick
}

type naiveTick struct {
	id      uint32
	at      measure.Time
	elapsed measure.Span
	partial bool
	rows    map[string]float64 // key joined by \x00
}

func (n *naive) append(at measure.Time, ids []uint32, batches []*measure.Batch) {
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		t := naiveTick{id: id, at: at, rows: map[string]float64{}}
		failed, looked := false, false
		for i, b := range batches {
			if ids[i] != id {
				continue
			}
			if b.Over.Span() <= 0 {
				failed = true
				continue
			}
			looked = true
			t.elapsed = max(t.elapsed, b.Over.Span())
			for r := range b.Rows() {
				var key []string
				for j, l := range b.Key(r) {
					st := n.sets[id].Stat
					if f, _ := st.Field(b.By[j]); f.Type == measure.Stack {
						key = append(key, measure.FoldedStack(b.Frames, l))
					} else {
						key = append(key, b.Labels[l])
					}
				}
				t.rows[strings.Join(key, "\x00")] = b.Values[r]
			}
		}
		t.partial = failed && looked
		n.ticks = append(n.ticks, t)
	}
}

type naiveCell struct{ value, least, most float64 }

// ask returns the cells of each series by its key, and the measured time of each cell.
func (n *naive) ask(
	id uint32, q measure.Query, start measure.Time, step measure.Span, cells int, end measure.Time,
) (map[string][]naiveCell, []measure.Span) {
	d := n.sets[id]
	elapsed := make([]measure.Span, cells)
	type perTick struct {
		tick *naiveTick
		rows map[string]float64
	}
	inCell := make([][]perTick, cells)
	keys := map[string]bool{}
	for i := range n.ticks {
		t := &n.ticks[i]
		if t.id != id || t.at <= start || t.at > end || t.elapsed == 0 {
			continue
		}
		c := int(int64(t.at.Sub(start)-1) / int64(step))
		elapsed[c] += t.elapsed
		folded, counts := map[string]float64{}, map[string]int{}
		for key, v := range t.rows {
			parts := strings.Split(key, "\x00")
			ok := true
			for _, term := range q.Where {
				ok = ok && term.Match(parts[slices.Index(d.Query.By, term.Field)])
			}
			if !ok {
				continue
			}
			var to []string
			for _, f := range q.By {
				to = append(to, parts[slices.Index(d.Query.By, f)])
			}
			k := strings.Join(to, "\x00")
			keys[k] = true
			if _, there := folded[k]; !there {
				folded[k] = math.NaN()
			}
			folded[k], counts[k] = d.Stat.Fold.Combine(folded[k], counts[k], v)
		}
		inCell[c] = append(inCell[c], perTick{t, folded})
	}
	out := map[string][]naiveCell{}
	for k := range keys {
		row := make([]naiveCell, cells)
		for c := range row {
			cell := naiveCell{math.NaN(), math.NaN(), math.NaN()}
			sum, count := 0.0, 0
			span := elapsed[c]
			take := func(v, rate float64) {
				sum += v
				count++
				if !(rate >= cell.least) {
					cell.least = rate
				}
				if !(rate <= cell.most) {
					cell.most = rate
				}
			}
			for _, t := range inCell[c] {
				v, there := t.rows[k]
				rate := v
				if d.Stat.Kind == measure.Delta {
					rate = d.Stat.Unit.Rate(v, t.tick.elapsed)
				}
				switch {
				case there && v == v:
					take(v, rate)
				case there, t.tick.partial:
					span -= t.tick.elapsed
				case d.Stat.Sparse:
					take(0, 0)
				}
			}
			if count > 0 && d.Stat.Kind == measure.Delta {
				cell.value = d.Stat.Unit.Rate(sum, span)
			} else if count > 0 {
				cell.value = sum / float64(count)
			}
			row[c] = cell
		}
		out[k] = row
	}
	return out, elapsed
}

func alike(a, b float64) bool {
	return a == b || a != a && b != b || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b))
}

// near compares extremes, which rollups round outward.
func near(a, b float64) bool {
	return alike(a, b) || math.Abs(a-b) <= 5e-5*math.Abs(b)
}

// compare makes the same query to the store and the model, and reports the first difference.
func compare(s *Store, n *naive, id uint32, q measure.Query) error {
	a, err := s.Ask(context.Background(), q)
	if err != nil {
		return err
	}
	end := q.Over.End
	if end == 0 {
		end = math.MaxInt64
		for _, t := range n.ticks {
			if t.at > a.Over().End && t.id == id {
				return fmt.Errorf("the answer ends at %s, before a tick at %s", a.Over().End, t.at)
			}
		}
	}
	want, elapsed := n.ask(id, q, a.Start, a.Step, len(a.Elapsed), end)
	if !slices.Equal(elapsed, a.Elapsed) {
		for c := range min(len(elapsed), len(a.Elapsed)) {
			if a.Elapsed[c] != elapsed[c] {
				return fmt.Errorf(
					"%s step %s: elapsed %v, want %v in cell %d of %d, which ends %s", q, q.Step,
					a.Elapsed[c], elapsed[c], c, len(elapsed),
					a.Start.Add(a.Step*measure.Span(c+1)),
				)
			}
		}
		return fmt.Errorf("%s step %s: %d cells, want %d", q, q.Step, len(a.Elapsed), len(elapsed))
	}
	got := map[string]bool{}
	for i, series := range a.Series {
		var key []string
		for j := range a.Query.By {
			key = append(key, a.Label(i, j))
		}
		k := strings.Join(key, "\x00")
		if got[k] {
			return fmt.Errorf("%s: %q comes twice", q, key)
		}
		got[k] = true
		row := want[k]
		if row == nil {
			return fmt.Errorf("%s: %q should not be there", q, key)
		}
		for c := range row {
			if !alike(series.Values[c], row[c].value) {
				return fmt.Errorf(
					"%s step %s: %q cell %d is %v, want %v", q, q.Step, key, c, series.Values[c],
					row[c].value,
				)
			}
			if series.Min() != nil &&
				(!near(series.Min()[c], row[c].least) || !near(series.Max()[c], row[c].most)) {
				return fmt.Errorf(
					"%s step %s: %q cell %d spans %v..%v, want %v..%v", q, q.Step, key, c,
					series.Min()[c], series.Max()[c], row[c].least, row[c].most,
				)
			}
		}
	}
	for k := range want {
		if !got[k] {
			return fmt.Errorf("%s: %q is missing", q, k)
		}
	}
	return nil
}

// world makes ticks of a machine whose objects come and go.
type world struct {
	r      *rand.Rand
	sets   []measure.Dataset
	labels []string
	index  map[string]measure.Label
	next   int
	rows   [][]worldRow // of each set
}

type worldRow struct {
	key  []string
	last float64
	kind int
}

func newWorld(seed uint64) *world {
	w := &world{r: rand.New(rand.NewPCG(seed, 7)), index: map[string]measure.Label{}}
	for i, kind := range []measure.Kind{
		measure.Delta, measure.Level, measure.Delta, measure.Level,
	} {
		st := measure.Stat{
			ID:     measure.StatID(fmt.Sprintf("test.thing.number%d", i)),
			Kind:   kind,
			Unit:   measure.Bytes,
			Sparse: i >= 2,
			Fold:   []measure.Fold{measure.Sum, measure.Max, measure.Sum, measure.Mean}[i],
			Fields: []measure.Field{
				{Name: "device", Type: measure.Word},
				{Name: "pid", Type: measure.Number},
			},
		}
		if i == 2 {
			st.Unit = measure.Nanoseconds
		}
		w.sets = append(w.sets, measure.Dataset{
			Stat: st,
			Query: measure.Query{
				Stat: st.ID,
				By:   []string{"device", "pid"},
				Step: measure.Second,
			},
			State: measure.Recording,
		})
		w.rows = append(w.rows, nil)
	}
	return w
}

func (w *world) label(s string) measure.Label {
	l, ok := w.index[s]
	if !ok {
		l = measure.Label(len(w.labels))
		w.index[s] = l
		w.labels = append(w.labels, s)
	}
	return l
}

// batches makes the next tick.
func (w *world) batches(at measure.Time) (ids []uint32, out []*measure.Batch) {
	if w.r.IntN(200) == 0 {
		w.labels, w.index = nil, map[string]measure.Label{}
	}
	for i, d := range w.sets {
		for len(w.rows[i]) < 8 || w.r.IntN(25) == 0 {
			w.next++
			w.rows[i] = append(
				w.rows[i],
				worldRow{
					[]string{fmt.Sprintf("eth%d", w.r.IntN(3)), fmt.Sprint(w.next)},
					float64(w.r.IntN(1000)),
					w.r.IntN(5),
				},
			)
		}
		if len(w.rows[i]) > 8 && w.r.IntN(20) == 0 {
			w.rows[i] = slices.Delete(w.rows[i], 3, 4)
		}
		elapsed := measure.Second + measure.Span(w.r.IntN(3e6))
		if w.r.IntN(50) == 0 {
			elapsed = 3 * measure.Second
		}
		halves := 1 + w.r.IntN(2)
		for h := range halves {
			b := &measure.Batch{
				Stat: d.Stat.ID,
				By:   []string{"device", "pid"},
				Over: measure.Interval{Start: at.Add(-elapsed), End: at},
			}
			if w.r.IntN(30) == 0 {
				b.Over.Start = b.Over.End
				ids, out = append(ids, d.ID), append(out, b)
				continue
			}
			for j := range w.rows[i] {
				row := &w.rows[i][j]
				if j%halves != h || w.r.IntN(40) == 0 {
					continue
				}
				switch row.kind {
				case 0:
				case 1:
					row.last += float64(w.r.IntN(100) - 50)
				case 2:
					row.last = w.r.NormFloat64() * 1e6
				case 3:
					row.last = float64(w.r.IntN(10)) / 10
				case 4:
					if w.r.IntN(10) == 0 {
						row.last = float64(w.r.Int64N(1 << 60))
					}
				}
				v := row.last
				if w.r.IntN(60) == 0 {
					v = math.NaN()
				}
				b.Values = append(b.Values, v)
				for _, k := range row.key {
					b.Keys = append(b.Keys, w.label(k))
				}
			}
			ids, out = append(ids, d.ID), append(out, b)
		}
	}
	for _, b := range out {
		b.Labels = w.labels
	}
	return ids, out
}

// filled returns a store and its model with n ticks from start on.
func filled(t *testing.T, dir string, o Options, seed uint64) (*Store, *naive, *world) {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	w, n := newWorld(seed), &naive{sets: map[uint32]measure.Dataset{}}
	for i := range w.sets {
		id, err := s.Save(w.sets[i])
		if err != nil {
			t.Fatal(err)
		}
		w.sets[i].ID = id
		n.sets[id] = w.sets[i]
	}
	return s, n, w
}

func (w *world) run(t *testing.T, s *Store, n *naive, from measure.Time, ticks int) measure.Time {
	t.Helper()
	for range ticks {
		from = from.Add(measure.Second)
		if w.r.IntN(100) == 0 {
			from = from.Add(measure.Span(w.r.IntN(20)) * measure.Second)
		}
		ids, batches := w.batches(from)
		n.append(from, ids, batches)
		if err := s.Append(from, ids, batches); err != nil {
			t.Fatal(err)
		}
	}
	return from
}

// compareAll makes many queries of each dataset.
func compareAll(t *testing.T, s *Store, n *naive, r *rand.Rand, over measure.Interval) {
	t.Helper()
	for id, d := range n.sets {
		for range 3 {
			q := measure.Query{
				Stat: d.Stat.ID,
				By: [][]string{
					{"device", "pid"}, {"pid", "device"}, {"device"}, {"pid"}, nil,
				}[r.IntN(5)],
			}
			if r.IntN(3) == 0 {
				q.Where = []measure.Term{
					{Field: "device", Op: measure.Equal, Values: []string{"eth1"}},
				}
			}
			q.Step = []measure.Span{0, 1, 5, 7, 60, 120, 600}[r.IntN(7)] * measure.Second
			if r.IntN(8) > 0 && over.Span() > 0 {
				q.Over.Start = over.Start.Add(
					measure.Span(r.Int64N(int64(over.Span())/1e9)) * measure.Second,
				)
				if r.IntN(2) == 0 && q.Step > 0 {
					q.Over.Start = floor(q.Over.Start, q.Step)
				}
				q.Over.End = q.Over.Start.Add(measure.Span(r.Int64N(1000)) * measure.Second)
			}
			if err := compare(s, n, id, q); err != nil && !errors.Is(err, errTooLarge) {
				t.Fatalf("dataset %d over %s..%s: %v", id, q.Over.Start, q.Over.End, err)
			}
		}
	}
}
