package dataset

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"culprit/measure"
)

// memory is an archive whose content a test can inspect.
type memory struct {
	catalogue *Catalogue

	mu     sync.Mutex
	last   uint32
	sets   []measure.Dataset
	ticks  []kept1
	logs   map[string][]document
	refuse error // returned by Append
}

type kept1 struct {
	at      measure.Time
	ids     []uint32
	batches []*measure.Batch
}

type document struct {
	at   measure.Time
	text []byte
}

func newMemory(c *Catalogue) *memory { return &memory{catalogue: c, logs: map[string][]document{}} }

func (m *memory) Datasets() []measure.Dataset {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sets)
}

func (m *memory) Save(d measure.Dataset) (uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.ID == 0 {
		m.last++
		d.ID = m.last
		m.sets = append(m.sets, d)
		return d.ID, nil
	}
	for i := range m.sets {
		if m.sets[i].ID == d.ID {
			m.sets[i].State = d.State
			return d.ID, nil
		}
	}
	return 0, fmt.Errorf("no dataset %d", d.ID)
}

func (m *memory) Add(all []measure.Dataset) (ids []uint32, err error) {
	for _, d := range all {
		d.ID = 0
		id, err := m.Save(d)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (m *memory) Append(at measure.Time, ids []uint32, batches []*measure.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		return m.refuse
	}
	k := kept1{at: at, ids: slices.Clone(ids)}
	for i, b := range batches {
		if !slices.ContainsFunc(m.sets, func(d measure.Dataset) bool {
			return d.ID == ids[i] && d.Query.Stat == b.Stat && slices.Equal(d.Query.By, b.By)
		}) {
			return fmt.Errorf("a batch of %s by %v for dataset %d", b.Stat, b.By, ids[i])
		}
		c := *b
		c.Keys, c.Values, c.Notes, c.Loss = slices.Clone(
			b.Keys,
		), slices.Clone(
			b.Values,
		), slices.Clone(
			b.Notes,
		), slices.Clone(
			b.Loss,
		)
		k.batches = append(k.batches, &c)
	}
	m.ticks = append(m.ticks, k)
	return nil
}

// Ask returns one cell per tick, from the first dataset that covers the query.
func (m *memory) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.sets {
		whole := d.Query
		if whole.Step = q.Step; whole.Step == 0 {
			whole.Step = 1
		}
		if !covers(whole, q) {
			continue
		}
		c := New(&script{stats: []measure.Stat{d.Stat}})
		w := newWindow(c)
		for _, t := range m.ticks {
			var mine []*measure.Batch
			for i, id := range t.ids {
				if id == d.ID {
					mine = append(mine, t.batches[i])
				}
			}
			if len(mine) == 0 {
				continue
			}
			f := newFolder(c, 0, []measure.Query{{Stat: whole.Stat, By: whole.By}})
			w.add(
				widest(mine),
				func(take func(*measure.Answer, *measure.Batch)) { f.eachAnswer(mine, take) },
			)
		}
		return w.Ask(
			ctx,
			measure.Query{
				Stat: q.Stat,
				By:   q.By,
				Where: slices.DeleteFunc(slices.Clone(q.Where), func(t measure.Term) bool {
					return containsTerms([]measure.Term{t}, whole.Where)
				}),
			},
		)
	}
	return nil, fmt.Errorf("ask %s: nothing has it: %w", q, measure.ErrUnclear)
}

func (m *memory) Discard(id uint32, over measure.Interval) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.ticks {
		t := &m.ticks[i]
		if t.at <= over.Start || t.at > over.End {
			continue
		}
		for j := len(t.ids) - 1; j >= 0; j-- {
			if t.ids[j] == id {
				t.ids, t.batches = slices.Delete(t.ids, j, j+1), slices.Delete(t.batches, j, j+1)
			}
		}
	}
	return nil
}

func (m *memory) Drop(id uint32) error {
	if err := m.Discard(id, measure.Interval{End: math.MaxInt64}); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sets = slices.DeleteFunc(m.sets, func(d measure.Dataset) bool { return d.ID == id })
	return nil
}

func (m *memory) Held(id uint32) measure.Stored {
	m.mu.Lock()
	defer m.mu.Unlock()
	var h measure.Stored
	for _, t := range m.ticks {
		for i, of := range t.ids {
			if of == id {
				if h.Over.Start == 0 {
					h.Over.Start = t.batches[i].Over.Start
				}
				h.Over.End, h.Rows = t.at, t.batches[i].Rows()
				h.Samples += uint64(h.Rows)
			}
		}
	}
	return h
}

func (m *memory) Log(kind string, at measure.Time, text []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logs[kind] = append(m.logs[kind], document{at, slices.Clone(text)})
	return nil
}

func (m *memory) Logged(
	_ context.Context, kind string, over measure.Interval, each func(measure.Time, []byte) error,
) error {
	m.mu.Lock()
	all := slices.Clone(m.logs[kind])
	m.mu.Unlock()
	for _, d := range all {
		if over == (measure.Interval{}) || d.at > over.Start && d.at <= over.End {
			if err := each(d.at, d.text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *memory) Problems() []measure.Problem { return nil }

// stamps returns the times of a dataset's ticks.
func (m *memory) stamps(id uint32) []measure.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []measure.Time
	for _, t := range m.ticks {
		if slices.Contains(t.ids, id) {
			all = append(all, t.at)
		}
	}
	return all
}
