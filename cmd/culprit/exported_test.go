package main

import (
	"slices"
	"strings"
	"testing"

	"culprit/collect"
	"culprit/export"
	"culprit/export/self"
	"culprit/measure"
	"culprit/trace/sampler"
)

// TestExportTableHasAllStatistics compares the table of exported metrics with the statistics that
// this program measures: each is in the table once, with its kind, unit and fields.
func TestExportTableHasAllStatistics(t *testing.T) {
	sources := append(sources(collect.Env{}, 0), sampler.NewSampler(49), &self.Source{})
	stats := map[measure.StatID]measure.Stat{}
	for _, source := range sources {
		for _, st := range source.Stats() {
			stats[st.ID] = st
		}
	}
	for _, e := range export.Table() {
		t.Run(string(e.Stat), func(t *testing.T) {
			st, ok := stats[e.Stat]
			if !ok {
				t.Fatal("there is no such statistic")
			}
			delete(stats, e.Stat)
			if e.Kind != st.Kind || e.Unit != st.Unit || e.Signed != st.Signed {
				t.Errorf("the table has %v %q %v, the statistic is %v %q %v", e.Kind, e.Unit,
					e.Signed, st.Kind, st.Unit, st.Signed)
			}
			fields := slices.Clone(e.Labels)
			for _, term := range e.Where {
				fields = append(fields, term.Field)
			}
			for _, f := range fields {
				if field, at := st.Field(f); at < 0 || field.Type == measure.Stack {
					t.Errorf("the statistic has no field %s that can be a label", f)
				}
			}
			for _, f := range st.Fields {
				// "parent = root" selects one queueing discipline of a device.
				pinned := f.Name == "handle" && slices.Contains(fields, "parent")
				if f.Overlaps && !pinned && !slices.Contains(fields, f.Name) {
					t.Errorf("without %s, rows count the same thing twice", f.Name)
				}
			}
			if e.Local == "" && st.Traced && st.Kind != measure.Dists &&
				!strings.HasPrefix(string(e.Stat), "nfs.") {
				t.Error("a traced statistic is exported")
			}
		})
	}
	for id := range stats {
		t.Errorf("%s is not in the table", id)
	}
}
