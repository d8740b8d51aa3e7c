package access

import (
	"slices"
	"testing"

	"culprit/measure"
)

// The role metrics sees datasets without hidden fields, and none of D programs.
func TestHide(t *testing.T) {
	field := func(name string) measure.Field {
		return measure.Field{Name: name, Type: measure.Word}
	}
	stack := measure.Field{Name: "kernel", Type: measure.Stack}
	flows := measure.Stat{ID: "tcp.flow.bytes", Fields: []measure.Field{
		field("process"), field("peer"), field("peerport"), field("direction"),
	}}
	where := func(name string) []measure.Term {
		return []measure.Term{{Field: name, Op: measure.Equal, Values: []string{"x"}}}
	}
	all := []measure.Dataset{
		{ID: 1, Stat: flows, Query: measure.Query{
			Stat: flows.ID, By: []string{"peer", "process", "peerport", "direction"},
		}},
		{ID: 2, Stat: flows, Query: measure.Query{Stat: flows.ID, Where: where("peer")}},
		{ID: 3, Stat: flows, Query: measure.Query{Stat: flows.ID, Where: where("process")}},
		{
			ID:    4,
			Stat:  measure.Stat{ID: "trace.mine.a", Fields: []measure.Field{field("process")}},
			Query: measure.Query{Stat: "trace.mine.a", By: []string{"process"}},
		},
		{
			ID: 5,
			Stat: measure.Stat{ID: "cpu.stack.samples", Fields: []measure.Field{
				field("process"), field("user"), stack,
			}},
			Query: measure.Query{Stat: "cpu.stack.samples", By: []string{"kernel", "process"}},
		},
		{
			ID:    6,
			Stat:  measure.Stat{ID: findings, Fields: []measure.Field{field("kind"), field("culprit")}},
			Query: measure.Query{Stat: findings, By: []string{"kind", "culprit"}},
		},
	}
	before := slices.Clone(all[0].Query.By)
	out := Hide(all, func(id measure.StatID) bool { return id == "trace.mine.a" })
	want := map[uint32][]string{1: {"process", "direction"}, 3: nil, 5: {"process"}, 6: {"kind", "culprit"}}
	if len(out) != len(want) {
		t.Fatalf("%d datasets: %+v", len(out), out)
	}
	for _, d := range out {
		if by, ok := want[d.ID]; !ok || !slices.Equal(d.Query.By, by) {
			t.Errorf("dataset %d: by %v, want %v", d.ID, d.Query.By, by)
		}
		if d.ID == 6 && d.Query.String() !=
			`finding.confidence by kind,culprit where kind != "peer"` {
			t.Errorf("findings: %s", d.Query)
		}
		for _, f := range d.Stat.Fields {
			if slices.Contains(HiddenFields(), f.Name) || f.Type == measure.Stack {
				t.Errorf("dataset %d has the field %s", d.ID, f.Name)
			}
		}
	}
	if !slices.Equal(all[0].Query.By, before) || len(all[0].Stat.Fields) != 4 {
		t.Errorf("the datasets themselves have changed: %+v", all[0])
	}
}
