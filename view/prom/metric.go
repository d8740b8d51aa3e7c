package prom

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/view"
)

// shape says how the samples of a metric are made from a statistic.
type shape uint8

const (
	gauge        shape = iota + 1 // a Level, unchanged
	rate                          // a Delta: its amount per second; a gauge to Prometheus
	counter                       // a Delta: the sum of amounts since midnight UTC
	distribution                  // a Dist: the sum of distributions since midnight UTC
)

// kind returns Prometheus's word for the type of a metric.
func (s shape) kind() string {
	switch s {
	case counter:
		return "counter"
	case distribution:
		return "histogram"
	}
	return "gauge"
}

// metric is a name in PromQL and the query for its rows.
type metric struct {
	name   string
	shape  shape
	unit   string  // Prometheus's word for the base unit: bytes, seconds; "" for plain numbers
	per    float64 // the statistic's own units in one base unit: 1e9 for nanoseconds
	stat   measure.Stat
	by     []string
	where  [][]measure.Term // one query each; a row that two of them return is the same row
	step   measure.Span     // the finest recorded
	oldest measure.Time     // the start of the recording; 0: unknown
}

// metrics returns the metrics of the datasets, sorted by name.
func metrics(sets []measure.Dataset) []*metric {
	groups := map[measure.StatID][]measure.Dataset{}
	for _, d := range sets {
		groups[d.Query.Stat] = append(groups[d.Query.Stat], d)
	}
	var ids []measure.StatID
	for id := range groups {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var out []*metric
	taken := map[string]bool{}
	for _, id := range ids {
		m := ofStat(groups[id])
		shapes := shapesOf(&m.stat)
		base, word := view.MetricName(&m.stat)
		free := func() bool {
			used := func(s shape) bool { return taken[base+suffix(s)] }
			return !slices.ContainsFunc(shapes, used)
		}
		if !free() { // the name ends with a unit, and another statistic's name and unit equal it
			base += "_" + cmp.Or(word, "count")
		}
		for n := 2; !free(); n++ {
			base = strings.TrimRight(base, "0123456789_") + "_" + strconv.Itoa(n)
		}
		for _, s := range shapes {
			one := m
			one.name, one.shape, one.unit = base+suffix(s), s, word
			taken[one.name] = true
			out = append(out, &one)
		}
	}
	slices.SortFunc(out, func(a, b *metric) int { return strings.Compare(a.name, b.name) })
	return out
}

// ofStat returns what the datasets of one statistic have in common as metrics. If their fields
// differ, only datasets with the fields of the best one are used: rows of different breakdowns
// together would count twice. The best has no predicate, then the most fields, then the lowest ID.
func ofStat(sets []measure.Dataset) metric {
	sets = slices.Clone(sets)
	slices.SortFunc(sets, func(a, b measure.Dataset) int {
		return cmp.Or(
			cmp.Compare(min(len(a.Query.Where), 1), min(len(b.Query.Where), 1)),
			cmp.Compare(len(b.Query.By), len(a.Query.By)),
			cmp.Compare(a.ID, b.ID))
	})
	best := sets[0]
	m := metric{stat: best.Stat, step: max(best.Query.Step, 0), oldest: best.Created, per: 1}
	if m.stat.ID == "" {
		m.stat.ID = best.Query.Stat
	}
	for _, f := range best.Query.By {
		field, at := best.Stat.Field(f)
		if at < 0 || field.Type != measure.Stack { // stacks are folded
			m.by = append(m.by, f)
		}
	}
	for _, d := range sets {
		if !sameFields(d.Query.By, best.Query.By) {
			continue
		}
		m.where = append(m.where, d.Query.Where)
		m.oldest = min(m.oldest, d.Created)
		if d.Query.Step > 0 && d.Query.Step < m.step {
			m.step = d.Query.Step
		}
	}
	if len(best.Query.Where) == 0 {
		m.where = m.where[:1] // it has all rows
	}
	if m.step == 0 {
		m.step = measure.Second
	}
	if m.stat.Unit == measure.Nanoseconds {
		m.per = 1e9
	}
	return m
}

func sameFields(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func shapesOf(st *measure.Stat) []shape {
	switch {
	case st.Kind == measure.Dists:
		return []shape{distribution}
	case st.Kind == measure.Delta && st.Signed: // it can decrease, which a counter must not
		return []shape{rate}
	case st.Kind == measure.Delta:
		return []shape{counter, rate}
	}
	return []shape{gauge}
}

func suffix(s shape) string {
	return [...]string{gauge: "", rate: "_per_second", counter: "_total", distribution: ""}[s]
}

// help returns the help text of the metric: the statistic, and how its values are made.
func (m *metric) help() string {
	s := string(m.stat.ID) + ": " + m.stat.Help
	switch m.shape {
	case rate:
		s += "; per second of measured time"
	case counter:
		s += "; since midnight UTC, for rate() and increase()"
	case distribution:
		s += "; since midnight UTC, for rate() and increase()"
	}
	return s
}
