package prom

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/view"
)

// shape is what the samples of a metric are made of.
type shape uint8

const (
	gauge        shape = iota + 1 // a Level, as it is
	rate                          // a Delta: its amount per second, a gauge
	counter                       // a Delta: the amounts since midnight UTC, added up
	distribution                  // a Dist: the distributions since midnight UTC, added up
)

// kind is the word that Prometheus has for the type of a metric.
func (s shape) kind() string {
	return [...]string{gauge: "gauge", rate: "gauge", counter: "counter", distribution: "histogram"}[s]
}

// metric is a name that PromQL knows, and where its rows come from.
type metric struct {
	name   string
	shape  shape
	unit   string  // Prometheus's word of the base unit: bytes, seconds; "" for plain numbers
	per    float64 // the statistic's own units in one base unit: 1e9 nanoseconds
	stat   measure.Stat
	by     []string
	where  [][]measure.Term // one question each; their rows are one set, and a row that two of them have is the same
	step   measure.Span     // the finest that was recorded
	oldest measure.Time     // nothing was recorded before; 0 = unknown
}

// metrics gives what the datasets are as metrics, by name.
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
			return !slices.ContainsFunc(shapes, func(s shape) bool { return taken[base+suffix(s)] })
		}
		if !free() { // the name of this one ends as that of the other with its unit
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

// ofStat gives what the datasets of one statistic have in common as metrics. They may differ in their fields: then those
// with the fields of the best are taken - one without a predicate rather than with, more fields rather than fewer, the
// older rather than the newer - since rows of different breakdowns side by side would be counted twice.
func ofStat(sets []measure.Dataset) metric {
	sets = slices.Clone(sets)
	slices.SortFunc(sets, func(a, b measure.Dataset) int {
		return cmp.Or(cmp.Compare(min(len(a.Query.Where), 1), min(len(b.Query.Where), 1)),
			cmp.Compare(len(b.Query.By), len(a.Query.By)), cmp.Compare(a.ID, b.ID))
	})
	best := sets[0]
	m := metric{stat: best.Stat, step: max(best.Query.Step, 0), oldest: best.Created, per: 1}
	if m.stat.ID == "" {
		m.stat.ID = best.Query.Stat
	}
	for _, f := range best.Query.By {
		if field, at := best.Stat.Field(f); at < 0 || field.Type != measure.Stack { // stacks are folded away
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
		m.where = m.where[:1] // has all rows
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
	case st.Kind == measure.Delta && st.Signed: // goes down too, which a counter must not
		return []shape{rate}
	case st.Kind == measure.Delta:
		return []shape{counter, rate}
	}
	return []shape{gauge}
}

func suffix(s shape) string {
	return [...]string{gauge: "", rate: "_per_second", counter: "_total", distribution: ""}[s]
}

// help is what the metadata say of the metric: the statistic, and what its numbers are.
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
