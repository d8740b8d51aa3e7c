package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"culprit/collect"
	"culprit/collect/all"
	"culprit/dataset"
	"culprit/diagnose/rules"
	"culprit/measure"
	"culprit/trace/sampler"
	"culprit/view/classic"
	"culprit/view/drill"
)

// Rules and tools refer to collectors by queries only. The tests of this file check all queries
// against the catalogue.

// catalogue returns the catalogue of all sources.
func catalogue() *dataset.Catalogue {
	return dataset.New(append(sources(collect.Env{}, 0), sampler.NewSampler(diagnosisHz()))...)
}

// TestQueriesOfRules checks the queries of all rules.
func TestQueriesOfRules(t *testing.T) {
	c := catalogue()
	for _, s := range rules.Queries() {
		if _, err := c.Parse(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// TestTracedQueriesOfRules checks that a rule lists its queries of traced statistics as Traced,
// those of samples as Sampled, and no others: a rule must work without traced statistics.
func TestTracedQueriesOfRules(t *testing.T) {
	c := catalogue()
	traced := 0
	for _, r := range rules.All() {
		for _, s := range r.Traced {
			traced++
			if q, err := c.Parse(s); err != nil || !c.Stat(q.Stat).Traced {
				t.Errorf("%s: %s is not traced, or not a query: %v", r.ID, s, err)
			}
		}
		for _, s := range r.Sampled {
			if q, err := c.Parse(s); err != nil ||
				q.Stat != measure.StackSamples && q.Stat != measure.StackRate {
				t.Errorf("%s: %s is not of samples, or not a query: %v", r.ID, s, err)
			}
		}
		for _, s := range slices.Concat(r.Needs, r.Finds, r.Uses) {
			if q, err := c.Parse(s); err != nil || c.Stat(q.Stat).Traced {
				t.Errorf("%s: %s is traced, or not a query: %v", r.ID, s, err)
			}
		}
	}
	if traced == 0 {
		t.Error("no rule has a traced query")
	}
}

// TestQueriesOfTools checks the queries of each tool without options and with each of its flags.
func TestQueriesOfTools(t *testing.T) {
	c := catalogue()
	for _, tool := range classic.All() {
		for _, o := range flagChoices(tool) {
			for _, s := range tool.Ask(o) {
				if _, err := c.Parse(s); err != nil {
					t.Errorf("%s %v: %s: %v", tool.Name, o, s, err)
				}
			}
		}
	}
}

// TestCannedStatisticsAreReal compares testdata/statistics.txt, the statistics of the rules' tests,
// with the catalogue. A line is "id kind unit fold [fields]".
func TestCannedStatisticsAreReal(t *testing.T) {
	text, err := os.ReadFile("../../diagnose/rules/testdata/statistics.txt")
	if err != nil {
		t.Fatal(err)
	}
	c := catalogue()
	kinds := map[measure.Kind]string{
		measure.Delta: "Delta",
		measure.Level: "Level",
		measure.Dists: "Dist",
	}
	folds := map[measure.Fold]string{
		measure.Sum:  "Sum",
		measure.Max:  "Max",
		measure.Mean: "Mean",
		measure.Min:  "Min",
	}
	lines := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		lines++
		st := c.Stat(measure.StatID(f[0]))
		if st == nil {
			t.Errorf("no collector measures %s", f[0])
			continue
		}
		var fields []string
		for _, field := range st.Fields {
			fields = append(fields, field.Name)
		}
		want := fmt.Sprintf(
			"%s %s %s %s [%s]", st.ID, kinds[st.Kind], st.Unit, folds[st.Fold],
			strings.Join(fields, ","),
		)
		if got := strings.Join(f, " "); got != want {
			t.Errorf("canned:   %s\nmeasured: %s", got, want)
		}
	}
	if lines == 0 {
		t.Error("statistics.txt lists nothing")
	}
}

// TestListsAreComplete checks the lists of tools, rules, collectors and statistics: names are
// unique, and each entry has its help.
func TestListsAreComplete(t *testing.T) {
	var names []string
	for _, tool := range classic.All() {
		if tool.Name == "" || tool.Short == "" || tool.Long == "" || len(tool.Examples) == 0 {
			t.Errorf("tool %q lacks Name, Short, Long or an example", tool.Name)
		}
		if slices.Contains(names, tool.Name) {
			t.Errorf("two tools are called %s", tool.Name)
		}
		names = append(names, tool.Name)
	}
	names = nil
	for _, r := range rules.All() {
		if r.ID == "" || r.Checks == "" || len(r.Needs)+len(r.Finds)+len(r.Traced) == 0 {
			t.Errorf("rule %q lacks ID, Checks, or queries", r.ID)
		}
		if slices.Contains(names, r.ID) {
			t.Errorf("two rules are called %s", r.ID)
		}
		names = append(names, r.ID)
	}
	kinds := map[string]bool{}
	for _, c := range all.Collectors() {
		kind := fmt.Sprintf("%T", c)
		if kinds[kind] {
			t.Errorf("%s is listed twice", kind)
		}
		kinds[kind] = true
	}
	for _, st := range catalogue().Stats() {
		if strings.Count(string(st.ID), ".") < 1 || st.Help == "" || st.Unit == "" || st.Kind == 0 {
			t.Errorf("statistic %s lacks a subsystem in its name, Help, Unit or Kind", st.ID)
		}
		for _, f := range st.Fields {
			if f.Type == 0 {
				t.Errorf("%s: field %s has no type", st.ID, f.Name)
			}
		}
	}
}

// TestNoQueryOvercounts checks that no default query sums rows that overlap.
func TestNoQueryOvercounts(t *testing.T) {
	c := catalogue()
	for _, query := range defaultQueries() {
		q, err := c.Parse(query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		if note := c.Stat(q.Stat).Overcounts(q); note != "" {
			t.Errorf("%s: %s", query, note)
		}
	}
}

// TestQuestionsOfRows checks the table of questions: each line has a statistic with the fields that
// it needs, and names the thing that it is about; a row of that thing gets it or one before it.
func TestQuestionsOfRows(t *testing.T) {
	c := catalogue()
	for _, text := range drill.Queries() {
		if _, err := c.Parse(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	stats := c.Stats()
	lookup := func(_ context.Context, q measure.Query) ([][]string, error) {
		key := make([]string, len(q.By))
		for i := range key {
			key[i] = "10.0.0.1"
		}
		return [][]string{key}, nil
	}
	for i := range stats {
		for _, f := range stats[i].Fields {
			if f.Type == measure.Stack {
				continue
			}
			for _, where := range [][]measure.Term{
				nil, {{Field: f.Name, Op: measure.Equal, Values: []string{"7"}}},
			} {
				row := drill.Row{Query: measure.Query{Stat: stats[i].ID, Where: where}}
				if where == nil {
					row.Query.By, row.Key = []string{f.Name}, []string{"7"}
				}
				all, err := drill.Questions(t.Context(), stats, row, lookup)
				if err != nil || len(all) > 7 {
					t.Fatalf("%s: %d questions: %v", row.Query, len(all), err)
				}
				if len(all) == 0 && drill.HasQuestions(stats[i].ID, f.Name) {
					t.Errorf("%s: no questions", row.Query)
				}
				for _, q := range all {
					if _, err := c.Parse(q.Query.String()); err != nil {
						t.Errorf("%s of %s: %v", q.Text, row.Query, err)
					}
				}
			}
		}
	}
}
