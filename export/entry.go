package export

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"culprit/measure"
)

// DefaultBound is the most series of a metric whose entry has no bound of its own.
const DefaultBound = 1000

// Entry is the line of a statistic in the table.
type Entry struct {
	Stat   measure.StatID
	Kind   measure.Kind
	Unit   measure.Unit
	Signed bool
	// Base is the name of the metrics without Shape.Suffix.
	Base string
	// Labels are the fields that become labels, whatever datasets exist.
	Labels []string
	// Where selects the rows. Its fields need not be labels.
	Where []measure.Term
	// Local is why the statistic does not leave the machine. Only the query API answers for it.
	// "": it is exported.
	Local string
	// Bound is the most series: a metric with more is omitted from exports.
	Bound int
	// Keep means that the metric is omitted only after all others.
	Keep bool
	// OnRequest means that the statistic is not recorded by default, since that would cost too
	// much. Traced statistics are not recorded by default either.
	OnRequest bool
	// NodeExporter and OTel are the names of the same quantity there; "" for none.
	NodeExporter, OTel string
}

// Name returns the name of the exported metric.
func (e *Entry) Name() string { return e.NameOf(Shapes(e.Kind, e.Signed)[0]) }

// NameOf returns the name of the metric of a shape.
func (e *Entry) NameOf(s Shape) string { return e.Base + s.Suffix() }

// Query returns the query for the rows of the metric, without time and step.
func (e *Entry) Query() measure.Query {
	return measure.Query{Stat: e.Stat, By: e.Labels, Where: e.Where}
}

// Breakdown returns the name of the metrics of another breakdown, without Shape.Suffix. Only the
// query API has them.
func (e *Entry) Breakdown(by []string) string {
	if len(by) == 0 {
		return e.Base + "_by_none"
	}
	parts := make([]string, len(by))
	for i, f := range by {
		parts[i] = nameOf(f)
	}
	return e.Base + "_by_" + strings.Join(parts, "_")
}

// table has the parsed entries, sorted by statistic, and their index.
//
// table: computed once from constants
var table = sync.OnceValue(func() *parsedTable {
	t := &parsedTable{stats: map[measure.StatID]int{}, names: map[string]named{}}
	for _, l := range slices.Concat(
		machineLines(), serverLines(), ioLines(), networkLines(), localLines(),
	) {
		t.entries = append(t.entries, l.entry())
	}
	slices.SortFunc(t.entries, func(a, b Entry) int {
		return strings.Compare(string(a.Stat), string(b.Stat))
	})
	for i := range t.entries {
		e := &t.entries[i]
		t.stats[e.Stat] = i
		for _, s := range Shapes(e.Kind, e.Signed) {
			t.names[e.NameOf(s)] = named{i, s}
		}
	}
	return t
})

type parsedTable struct {
	entries []Entry
	stats   map[measure.StatID]int
	names   map[string]named
}

type named struct {
	entry int
	shape Shape
}

// Table returns the entries of all built-in statistics, sorted by statistic. Don't modify the
// elements.
func Table() []Entry { return slices.Clone(table().entries) }

// Queries returns the queries for all exported statistics that are recorded by default, as text.
func Queries() (out []string) {
	for _, e := range table().entries {
		if e.Local == "" && !e.OnRequest {
			q := e.Query()
			for _, t := range q.Where {
				if !slices.Contains(q.By, t.Field) {
					q.By = append(slices.Clone(q.By), t.Field)
				}
			}
			q.Where = nil
			out = append(out, q.String())
		}
	}
	return out
}

// OfID returns the entry of a statistic; ok is false if it is not in the table.
func OfID(id measure.StatID) (e Entry, ok bool) {
	i, ok := table().stats[id]
	if !ok {
		return Entry{}, false
	}
	return table().entries[i], true
}

// OfStat returns the entry of a statistic. One that is not in the table, such as that of a user's D
// program, is not exported; its labels are all its fields but stacks.
func OfStat(st *measure.Stat) Entry {
	if e, ok := OfID(st.ID); ok && e.Kind == st.Kind && e.Unit == st.Unit && e.Signed == st.Signed {
		return e
	}
	e := Entry{
		Stat: st.ID, Kind: st.Kind, Unit: st.Unit, Signed: st.Signed,
		Base: baseName(st.ID, st.Unit), Local: "not a statistic of culprit's own",
		Bound: DefaultBound,
	}
	for _, f := range st.Fields {
		if f.Type != measure.Stack {
			e.Labels = append(e.Labels, f.Name)
		}
	}
	return e
}

// OfName returns the entry and the shape of a metric; ok is false if the table does not have the
// name.
func OfName(name string) (e Entry, s Shape, ok bool) {
	n, ok := table().names[name]
	if !ok {
		return Entry{}, 0, false
	}
	return table().entries[n.entry], n.shape, true
}

// line is an entry as it is written in the table.
type line struct {
	query   string // the statistic, its labels, and the predicate
	kind    measure.Kind
	unit    measure.Unit
	local   string // Entry.Local
	base    string // Entry.Base; "": it follows from statistic and unit
	bound   int    // Entry.Bound; 0: DefaultBound
	signed  bool
	keep    bool
	request bool // it is recorded on request only
	node    string
	otel    string
}

// entry parses a line. It panics if the query is invalid: a test reads all lines.
func (l *line) entry() Entry {
	q, err := measure.ParseQuery(l.query)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", l.query, err))
	}
	e := Entry{
		Stat: q.Stat, Kind: l.kind, Unit: l.unit, Signed: l.signed, Base: l.base, Labels: q.By,
		Where: q.Where, Local: l.local, Bound: l.bound, Keep: l.keep, OnRequest: l.request,
		NodeExporter: l.node, OTel: l.otel,
	}
	if e.Base == "" {
		e.Base = baseName(q.Stat, l.unit)
	}
	if e.Bound == 0 {
		e.Bound = DefaultBound
	}
	return e
}
