package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"culprit/export"
	"culprit/measure"

	"github.com/prometheus/common/model"
)

// metric is how a statistic is stored in an engine.
type metric struct {
	name    string
	isDist  bool     // samples are native histograms, or NAME_bucket and NAME_sum are counters
	counter bool     // samples are sums of amounts; else each sample is the value of its interval
	per     float64  // the statistic's own units in one unit of the samples: 1e9 for seconds
	lacks   []string // fields of the query that are no labels
	notes   []string // what the rows leave out
	where   []measure.Term
}

// metricOf returns the metric of a query. The error is ErrUnsupported if servers do not send the
// statistic, or not by these fields. Rows of a level may lack a field that describes them, which is
// then "".
func metricOf(st *measure.Stat, q measure.Query) (metric, error) {
	e := export.OfStat(st)
	missing := func(why string) (metric, error) {
		return metric{}, fmt.Errorf("%s is not sent to engines%s; the server of the host has "+
			"it: %w", q.Stat, why, measure.ErrUnsupported)
	}
	shape := export.Shapes(e.Kind, e.Signed)[0]
	if e.Local != "" {
		return missing(" (" + e.Local + ")")
	}
	m := metric{
		name: e.Name(), counter: shape == export.Counter, isDist: shape == export.Histogram,
		per: export.UnitOf(e.Unit).Per,
	}
	if shape == export.Rate && e.Unit == measure.Nanoseconds {
		m.per = 1 // a rate of nanoseconds is a ratio already
	}
	for _, f := range q.By {
		switch {
		case slices.Contains(e.Labels, f):
		case e.Kind != measure.Level:
			return missing(" by " + f)
		default:
			m.lacks = append(m.lacks, f)
		}
	}
	same := func(a, b measure.Term) bool {
		return a.Field == b.Field && a.Op == b.Op && slices.Equal(a.Values, b.Values)
	}
	for _, t := range q.Where {
		sent := slices.ContainsFunc(e.Where, func(w measure.Term) bool { return same(t, w) })
		switch {
		case slices.Contains(e.Labels, t.Field):
			m.where = append(m.where, t)
		case !sent:
			return missing(" by " + t.Field)
		}
	}
	for _, w := range e.Where {
		if !slices.ContainsFunc(q.Where, func(t measure.Term) bool { return t.Field == w.Field }) {
			only := measure.Query{Stat: q.Stat, Where: e.Where}
			m.notes = append(m.notes, "only "+only.String()+" is sent to engines")
			break
		}
	}
	if len(m.lacks) > 0 {
		m.notes = append(m.notes, fmt.Sprintf("%s by %s is not sent to engines", q.Stat,
			strings.Join(m.lacks, ",")))
	}
	return m, nil
}

// matcher returns one label matcher of PromQL.
func matcher(name, op, value string) string { return name + op + strconv.Quote(value) }

// selector returns the selector of a metric's series: those of the hosts that satisfy the terms
// that a matcher can express. The others are for the reader of the answer to check.
func (m *metric) selector(hosts string) string {
	all := []string{hosts}
	for _, t := range m.where {
		var labels []string
		for _, v := range t.Values {
			labels = append(labels, v)
			if l := export.Label(t.Field, v); l != v { // servers before 1.0 sent v
				labels = append(labels, l)
			}
		}
		switch {
		case t.Op == measure.NotEqual && len(labels) == 1:
			all = append(all, matcher(t.Field, "!=", labels[0]))
		case t.Op == measure.Equal && len(labels) == 1:
			all = append(all, matcher(t.Field, "=", labels[0]))
		case t.Op == measure.Equal, t.Op == measure.In:
			all = append(all, matcher(t.Field, "=~", anyOf(labels)))
		}
	}
	return m.name + "{" + strings.Join(slices.DeleteFunc(all, isEmpty), ",") + "}"
}

func isEmpty(s string) bool { return s == "" }

// anyOf returns the regular expression (RE2, anchored by PromQL) that matches each of the values.
func anyOf(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = quoteMeta(v)
	}
	return strings.Join(quoted, "|")
}

// quoteMeta escapes the characters that have a meaning in RE2.
func quoteMeta(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`\.+*?()|[]{}^$`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// matches reports whether the labels of a series satisfy all terms. An absent label is "".
func (m *metric) matches(labels model.Metric) bool {
	return !slices.ContainsFunc(m.where, func(t measure.Term) bool {
		return !t.Match(valueOf(labels, t.Field))
	})
}

// valueOf returns the value of a field of a series, as culprit records it.
func valueOf(labels model.Metric, field string) string {
	text := string(labels[model.LabelName(field)])
	if v, ok := export.Value(field, text); ok {
		return v
	}
	return text
}
