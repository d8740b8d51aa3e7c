package dataset

import (
	"slices"
	"strings"
	"sync"

	"culprit/measure"
)

// Window contains a recording in memory. It answers any query whose statistic was recorded with the
// fields that the query needs, with one cell per tick. It implements measure.Reader. Safe for
// concurrent use, also while it is being filled.
type Window struct {
	catalogue *Catalogue

	mu        sync.RWMutex // guards the fields below
	ticks     []measure.Interval
	stats     map[measure.StatID]*recordedStat
	keys      map[string]*rows // by fields: shared by all statistics with the same fields
	words     map[string]measure.Label
	texts     []string
	labelMaps [maxLabelMaps]labelMap // of the answers' dictionaries, the newest first
	stack     forest

	// Of the current row or tick.
	key   []measure.Label
	cells []float64
}

func newWindow(c *Catalogue) *Window {
	return &Window{
		catalogue: c,
		stats:     map[measure.StatID]*recordedStat{},
		keys:      map[string]*rows{},
		words:     map[string]measure.Label{},
	}
}

// Ticks returns the measured intervals, oldest first.
func (w *Window) Ticks() []measure.Interval {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return slices.Clone(w.ticks)
}

// add adds a tick: answers calls take for each of its answers.
func (w *Window) add(
	over measure.Interval, answers func(take func(*measure.Answer, *measure.Batch)),
) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticks = append(w.ticks, over)
	answers(w.addAnswer)
}

// statOf returns the recording of an answer's statistic. w.mu is held.
func (w *Window) statOf(a *measure.Answer) *recordedStat {
	k := w.stats[a.Query.Stat]
	if k == nil {
		fields := strings.Join(a.Query.By, "\x00")
		if w.keys[fields] == nil {
			w.keys[fields] = newRows(len(a.Query.By))
		}
		k = &recordedStat{st: w.catalogue.Stat(a.Query.Stat), by: a.Query.By, keys: w.keys[fields]}
		w.stats[a.Query.Stat] = k
	}
	return k
}

// addAnswer adds an answer of the newest tick. If b is not nil, its rows are the answer's. w.mu is
// held.
func (w *Window) addAnswer(a *measure.Answer, b *measure.Batch) {
	k := w.statOf(a)
	k.elapsed = append(k.elapsed, a.Elapsed[0])
	for _, l := range a.Loss {
		k.loss = addLoss(k.loss, l)
	}
	k.notes = addNotes(k.notes, a.Notes)
	k.next = 0
	if a.Kind == measure.Dists {
		w.takeDists(k, a)
		return
	}
	absent := absentIn(a.Sparse, a.Elapsed[0])
	w.cells = w.cells[:0]
	for range k.len() {
		w.cells = append(w.cells, absent)
	}
	over := measure.Span(0)
	if b == nil {
		_, shape := a.Column()
		w.placeRows(k, a, shape, len(a.Series), func(i int) ([]measure.Label, float64) {
			return a.Series[i].Key, a.Series[i].Values[0]
		})
	} else {
		values := b.Values
		if a.Kind == measure.Delta {
			if over = b.Over.Span(); over <= 0 {
				values = slices.Clone(values)
				k.st.Unit.Rates(values, over)
			}
		}
		w.placeRows(k, a, b.Shape, len(values), func(i int) ([]measure.Label, float64) {
			return b.Key(i), values[i]
		})
	}
	cells := w.cells
	var before *column
	if n := len(k.cells); n > 0 {
		before = &k.cells[n-1]
	}
	k.cells = append(k.cells, columnOf(cells, over, before))
}

// placeRows stores n rows of an answer in w.cells. shape is that of the rows, or 0. w.mu is held.
func (w *Window) placeRows(
	k *recordedStat, a *measure.Answer, shape measure.Shape, n int,
	row func(int) ([]measure.Label, float64),
) {
	if shape != 0 && shape == k.shape {
		for i := range n {
			_, v := row(i)
			if k.places != nil {
				i = int(k.places[i])
			}
			w.cells[i] = v
		}
		return
	}
	k.shape = shape
	places, straight := k.places[:0], true
	for i := range n {
		key, v := row(i)
		at, fresh := k.row(w.ours(a, key))
		if fresh {
			w.cells = append(w.cells, v)
		} else {
			w.cells[at] = v
		}
		if straight && at != i {
			straight = false
			for j := range i {
				places = append(places, int32(j))
			}
		}
		if !straight {
			places = append(places, int32(at))
		}
	}
	if k.places = places; straight {
		k.places = nil
	}
}

func (w *Window) takeDists(k *recordedStat, a *measure.Answer) {
	dists := make([]measure.Dist, k.len(), k.len()+len(a.Series))
	for _, s := range a.Series {
		if i, fresh := k.row(w.ours(a, s.Key)); fresh {
			dists = append(dists, s.Dists()[0])
		} else {
			dists[i] = s.Dists()[0]
		}
	}
	k.dists = append(k.dists, dists)
}

func addLoss(all []measure.Loss, l measure.Loss) []measure.Loss {
	for i := range all {
		if all[i].Reason == l.Reason {
			all[i].Events += l.Events
			return all
		}
	}
	return append(all, l)
}
