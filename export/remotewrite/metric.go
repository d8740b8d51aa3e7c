package remotewrite

import (
	"math"
	"slices"
	"strings"

	"culprit/export"
	"culprit/measure"

	"github.com/prometheus/prometheus/prompb"
)

// metric is an exported metric.
type metric struct {
	export.Entry
	name  string
	shape export.Shape
	unit  export.Unit
	stat  measure.Stat
	step  measure.Span // the finest between recorded ticks
}

// metricsOf returns the metrics of the export table that the datasets have the fields of, sorted by
// name.
func metricsOf(sets []measure.Dataset) []*metric {
	found := map[measure.StatID]*metric{}
	for i := range sets {
		d := &sets[i]
		step := d.Query.Step
		if step <= 0 {
			step = measure.Second
		}
		if m := found[d.Query.Stat]; m != nil {
			m.step = min(m.step, step)
			continue
		}
		e := export.OfStat(&d.Stat)
		if e.Local != "" || !has(d.Query.By, &e) {
			continue
		}
		found[d.Query.Stat] = &metric{
			Entry: e, name: e.Name(), shape: export.Shapes(e.Kind, e.Signed)[0],
			unit: export.UnitOf(e.Unit), stat: d.Stat, step: step,
		}
	}
	all := make([]*metric, 0, len(found))
	for _, m := range found {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *metric) int { return strings.Compare(a.name, b.name) })
	return all
}

// has reports whether a breakdown has the labels of an entry and the fields of its predicate.
func has(by []string, e *export.Entry) bool {
	for _, f := range e.Labels {
		if !slices.Contains(by, f) {
			return false
		}
	}
	for _, t := range e.Where {
		if !slices.Contains(by, t.Field) {
			return false
		}
	}
	return true
}

// ask returns the query for the rows of the metric over an interval.
func (m *metric) ask(over measure.Interval, step measure.Span) measure.Query {
	q := m.Query()
	q.Over, q.Step = over, step
	return q
}

// help returns the help text of the metric.
func (m *metric) help() string { return string(m.Stat) + ": " + m.stat.Help }

// amount returns the amount, in the statistic's own unit, from which a reader computed a rate. A
// product that is a whole number but for rounding becomes that number: amounts are counts, and
// their sum must not depend on the cells.
func (m *metric) amount(rate float64, elapsed measure.Span) float64 {
	v := rate * elapsed.Seconds()
	if m.Unit == measure.Nanoseconds {
		v = rate * float64(elapsed)
	}
	if r := math.Round(v); math.Abs(v-r) <= 8*0x1p-52*math.Abs(v) {
		return r
	}
	return v
}

// value converts a value of the statistic to the metric's base unit.
func (m *metric) value(v float64) float64 {
	if m.shape == export.Rate && m.Unit == measure.Nanoseconds {
		return v // a rate of nanoseconds is already in seconds per second
	}
	return v / m.unit.Per
}

// labels returns the labels of a row, sorted by name, as remote write requires. An empty value is
// no label. A field with the name of a label of more becomes exported_NAME.
func (m *metric) labels(key []string, more []prompb.Label) []prompb.Label {
	all := append(make([]prompb.Label, 0, 1+len(key)+len(more)),
		prompb.Label{Name: "__name__", Value: m.name})
	for i, f := range m.Labels {
		value := export.Label(f, key[i])
		if value == "" {
			continue
		}
		if slices.ContainsFunc(more, func(l prompb.Label) bool { return l.Name == f }) {
			f = "exported_" + f
		}
		all = append(all, prompb.Label{Name: f, Value: value})
	}
	all = append(all, more...)
	sortLabels(all)
	return all
}

// with returns the labels with another name of the metric; extra is appended unless it is empty.
func with(all []prompb.Label, name string, extra prompb.Label) []prompb.Label {
	out := append(make([]prompb.Label, 0, len(all)+1), all...)
	for i := range out {
		if out[i].Name == "__name__" {
			out[i].Value = name
		}
	}
	if extra.Name != "" {
		out = append(out, extra)
		sortLabels(out)
	}
	return out
}

func sortLabels(all []prompb.Label) {
	slices.SortFunc(all, func(a, b prompb.Label) int { return strings.Compare(a.Name, b.Name) })
}
