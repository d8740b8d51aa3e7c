package remotewrite

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"culprit/measure"
)

// memory is an archive in memory, tick by tick: the reader of the tests.
type memory struct {
	mu     sync.Mutex // guards asked
	sets   []measure.Dataset
	ticks  map[measure.StatID][]tick
	fine   measure.Time // older ticks exist as minutes only
	minute measure.Time // older minutes exist as hours only
	asked  []measure.Query
	loss   []measure.Loss
	notes  []string
}

// tick is one reading. Rows that it does not contain were absent.
type tick struct {
	at      measure.Time
	elapsed measure.Span
	rows    map[string]float64 // by key, whose texts are separated by |
	dists   map[string]measure.Dist
}

func (m *memory) datasets() []measure.Dataset { return m.sets }

// record makes a dataset.
func (m *memory) record(t testing.TB, kind measure.Kind, unit measure.Unit, sparse bool,
	query string,
) {
	t.Helper()
	q, err := measure.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	q.Step = measure.Second
	st := measure.Stat{ID: q.Stat, Kind: kind, Unit: unit, Sparse: sparse, Help: "of a test"}
	for _, f := range q.By {
		st.Fields = append(st.Fields, measure.Field{Name: f, Type: measure.Word})
	}
	m.sets = append(m.sets,
		measure.Dataset{ID: uint32(len(m.sets) + 1), Query: q, Stat: st, State: measure.Recording})
}

// put adds a tick of one second.
func (m *memory) put(id measure.StatID, at measure.Time, rows map[string]float64) {
	if m.ticks == nil {
		m.ticks = map[measure.StatID][]tick{}
	}
	m.ticks[id] = append(m.ticks[id], tick{at: at, elapsed: measure.Second, rows: rows})
}

// cellRow is one row of an answer under construction.
type cellRow struct {
	sum, low, high []float64
	count          []int
	dists          []measure.Dist
}

// Ask implements measure.Reader by the rules of an archive. Rows are folded first (as sums), then
// time. Amounts are divided by the measured time of the cell; levels are means over the ticks that
// had the row.
func (m *memory) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	m.mu.Lock()
	m.asked = append(m.asked, q)
	m.mu.Unlock()
	at := slices.IndexFunc(m.sets, func(d measure.Dataset) bool { return d.Query.Stat == q.Stat })
	if at < 0 {
		return nil, fmt.Errorf("ask %s: no dataset: %w", q, measure.ErrUnclear)
	}
	d := m.sets[at]
	n := int(q.Over.Span() / q.Step)
	a := &measure.Answer{Query: q, Kind: d.Stat.Kind, Unit: d.Stat.AnswerUnit(),
		Sparse: d.Stat.Sparse, Start: q.Over.Start, Step: q.Step, Elapsed: make([]measure.Span, n),
		Loss: m.loss, Notes: m.notes}
	table := map[string]*cellRow{}
	var order []string
	first := sort.Search(len(m.ticks[q.Stat]),
		func(i int) bool { return m.ticks[q.Stat][i].at > q.Over.Start })
	for _, t := range m.ticks[q.Stat][first:] {
		if t.at > q.Over.End {
			break
		}
		c := int(t.at.Sub(q.Over.Start)-1) / int(q.Step)
		if c >= n || q.Step < measure.Minute && t.at <= m.fine ||
			q.Step < 60*measure.Minute && t.at <= m.minute {
			continue
		}
		a.Elapsed[c] += t.elapsed
		now := map[string]float64{}
		for key, v := range t.rows {
			if k, ok := folded(d.Query.By, q, key); ok {
				now[k] += v
			}
		}
		row := func(k string) *cellRow {
			if table[k] == nil {
				table[k] = &cellRow{make([]float64, n), make([]float64, n), make([]float64, n),
					make([]int, n), make([]measure.Dist, n)}
				order = append(order, k)
			}
			return table[k]
		}
		for key, dist := range t.dists {
			if k, ok := folded(d.Query.By, q, key); ok {
				to := &row(k).dists[c]
				if len(to.Counts) == 0 {
					to.Base = dist.Base
				}
				to.Merge(dist)
			}
		}
		for k, v := range now {
			r := row(k)
			each := v
			if d.Stat.Kind == measure.Delta {
				each = d.Stat.Unit.Rate(v, t.elapsed)
			}
			if r.count[c] == 0 || each < r.low[c] {
				r.low[c] = each
			}
			if r.count[c] == 0 || each > r.high[c] {
				r.high[c] = each
			}
			r.sum[c] += v
			r.count[c]++
		}
	}
	slices.Sort(order)
	words := map[string]measure.Label{}
	for _, k := range order {
		r := table[k]
		var s measure.Series
		for _, w := range strings.Split(k, "|")[:len(q.By)] {
			if _, ok := words[w]; !ok {
				words[w] = measure.Label(len(a.Labels))
				a.Labels = append(a.Labels, w)
			}
			s.Key = append(s.Key, words[w])
		}
		if d.Stat.Kind == measure.Dists {
			s.SetDists(r.dists)
			a.Series = append(a.Series, s)
			continue
		}
		for c := range n {
			switch {
			case r.count[c] == 0 && (!d.Stat.Sparse || a.Elapsed[c] == 0):
				r.sum[c], r.low[c], r.high[c] = measure.NaN, measure.NaN, measure.NaN
			case d.Stat.Kind == measure.Delta:
				r.sum[c] = d.Stat.Unit.Rate(r.sum[c], a.Elapsed[c])
			case r.count[c] > 0:
				r.sum[c] /= float64(r.count[c])
			}
		}
		s.Values = r.sum
		if q.Step > measure.Second {
			s.SetRange(r.low, r.high)
		}
		a.Series = append(a.Series, s)
	}
	return a, nil
}

func folded(have []string, q measure.Query, key string) (string, bool) {
	if len(q.Where) == 0 && slices.Equal(have, q.By) {
		return key, true
	}
	texts := strings.Split(key, "|")
	for _, t := range q.Where {
		if !t.Match(texts[slices.Index(have, t.Field)]) {
			return "", false
		}
	}
	var k []string
	for _, f := range q.By {
		k = append(k, texts[slices.Index(have, f)])
	}
	return strings.Join(k, "|"), true
}
