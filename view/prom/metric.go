package prom

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"culprit/export"
	"culprit/measure"
)

// metric is a name in PromQL and the query for its rows.
type metric struct {
	name     string
	shape    export.Shape
	unit     export.Unit
	entry    export.Entry // of the statistic
	exported bool         // it leaves the machine by scrapes and remote write
	stat     measure.Stat
	by       []string
	where    [][]measure.Term // one query each; a row that two of them return is the same row
	step     measure.Span     // the finest recorded
	oldest   measure.Time     // the start of the recording; 0: unknown
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
		for _, b := range breakdowns(groups[id]) {
			shapes := export.Shapes(b.stat.Kind, b.stat.Signed)
			base := freeName(b.name, &b.metric, shapes, taken)
			for i, s := range shapes {
				one := b.metric
				one.name, one.shape, one.exported = base+s.Suffix(), s, one.exported && i == 0
				taken[one.name] = true
				out = append(out, &one)
			}
		}
	}
	slices.SortFunc(out, func(a, b *metric) int { return strings.Compare(a.name, b.name) })
	return out
}

// freeName returns the base name, or another one if one of the names with it is taken: the unit
// again if the name ends with it, then a number.
func freeName(
	base string, m *metric, shapes []export.Shape, taken map[string]bool,
) string {
	used := func() bool {
		return slices.ContainsFunc(shapes, func(s export.Shape) bool {
			return taken[base+s.Suffix()]
		})
	}
	if used() {
		base += "_" + cmp.Or(m.unit.Word, "count")
	}
	for n := 2; used(); n++ {
		base = strings.TrimRight(base, "0123456789_") + "_" + strconv.Itoa(n)
	}
	return base
}

// breakdown is a metric without a shape. Its base name is not final.
type breakdown struct {
	name string
	metric
}

// breakdowns returns the metrics of the datasets of one statistic. The first has the statistic's
// name and the labels of the table, if a dataset has these fields. Other breakdowns have names of
// their own and are not exported, so that an added dataset changes no exported metric.
func breakdowns(sets []measure.Dataset) (out []breakdown) {
	sets = slices.Clone(sets)
	slices.SortStableFunc(sets, func(a, b measure.Dataset) int { return cmp.Compare(a.ID, b.ID) })
	st := sets[0].Stat
	if st.ID == "" {
		st.ID = sets[0].Query.Stat
	}
	entry := export.OfStat(&st)
	named := ofTable(sets, entry)
	if named != nil {
		out = append(out, breakdown{entry.Base, *named})
	}
	for len(sets) > 0 {
		by := fieldsOf(&sets[0])
		same := func(d measure.Dataset) bool { return sameFields(fieldsOf(&d), by) }
		var group []measure.Dataset
		for _, d := range sets {
			if same(d) {
				group = append(group, d)
			}
		}
		sets = slices.DeleteFunc(sets, same)
		if named != nil && len(entry.Where) == 0 && sameFields(by, entry.Labels) {
			continue
		}
		by = inOrder(&st, by)
		m := combine(group, by)
		m.entry = entry
		out = append(out, breakdown{entry.Breakdown(by), m})
	}
	return out
}

// ofTable returns the metric that the table describes, nil if no dataset has its fields. If all
// datasets have predicates, the metric has the rows of those with exactly these fields, unless it
// is exported and folds fields: sums of a part of the rows would differ from those of other hosts.
func ofTable(sets []measure.Dataset, entry export.Entry) *metric {
	var whole, part []measure.Dataset
	for _, d := range sets {
		switch {
		case len(d.Query.Where) == 0 && hasFields(&d, entry):
			whole = append(whole, d)
		case (entry.Local != "" || len(entry.Labels) == len(d.Stat.Fields)) &&
			len(entry.Where) == 0 && sameFields(fieldsOf(&d), entry.Labels):
			part = append(part, d)
		}
	}
	var m metric
	switch {
	case len(whole) > 0:
		m = combine(whole, entry.Labels)
		m.where = [][]measure.Term{entry.Where}
	case len(part) > 0:
		m = combine(part, entry.Labels)
	default:
		return nil
	}
	m.entry, m.exported = entry, entry.Local == ""
	return &m
}

// hasFields reports whether a dataset has the labels of an entry and the fields of its predicate.
func hasFields(d *measure.Dataset, entry export.Entry) bool {
	has := func(f string) bool { return slices.Contains(d.Query.By, f) }
	for _, t := range entry.Where {
		if !has(t.Field) {
			return false
		}
	}
	return !slices.ContainsFunc(entry.Labels, func(f string) bool { return !has(f) })
}

// combine returns the metric of datasets whose rows, by the given fields, are the same rows.
func combine(sets []measure.Dataset, by []string) metric {
	first := sets[0]
	m := metric{stat: first.Stat, by: by, oldest: first.Created}
	if m.stat.ID == "" {
		m.stat.ID = first.Query.Stat
	}
	m.unit = export.UnitOf(m.stat.Unit)
	for _, d := range sets {
		m.where = append(m.where, d.Query.Where)
		m.oldest = min(m.oldest, d.Created)
		if step := d.Query.Step; step > 0 && (m.step == 0 || step < m.step) {
			m.step = step
		}
	}
	for _, where := range m.where {
		if len(where) == 0 { // it has all rows
			m.where = [][]measure.Term{nil}
			break
		}
	}
	if m.step == 0 {
		m.step = measure.Second
	}
	return m
}

// fieldsOf returns the fields of a dataset that become labels: stacks are folded.
func fieldsOf(d *measure.Dataset) (by []string) {
	for _, f := range d.Query.By {
		if field, at := d.Stat.Field(f); at < 0 || field.Type != measure.Stack {
			by = append(by, f)
		}
	}
	return by
}

// inOrder returns the fields in the order of the statistic.
func inOrder(st *measure.Stat, by []string) []string {
	by = slices.Clone(by)
	slices.SortStableFunc(by, func(a, b string) int {
		_, i := st.Field(a)
		_, j := st.Field(b)
		return cmp.Compare(i, j)
	})
	return by
}

func sameFields(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// help returns the help text of the metric: the statistic, and how its values are made.
func (m *metric) help() string {
	s := string(m.stat.ID) + ": " + m.stat.Help
	switch m.shape {
	case export.Rate:
		s += "; per second of measured time"
	case export.Counter, export.Histogram:
		s += "; since midnight UTC, for rate() and increase()"
	}
	return s
}
