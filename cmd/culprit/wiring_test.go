package main

import (
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
	"culprit/view"
)

// The rooms know of one another only by sentences. Here, where all of them meet, each sentence of
// each rule and tool must be one that the catalogue understands.

func catalogue() *dataset.Catalogue {
	return dataset.New(append(sources(collect.Env{}, 0), sampler.NewSampler(diagnosisHz()))...)
}

func TestSentencesOfRules(t *testing.T) {
	c := catalogue()
	for _, s := range rules.Queries() {
		if _, err := c.Parse(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// What programs in the kernel measure is asked by rules as such, and nothing else is: a rule must
// do without it.
func TestRulesKnowWhatIsTraced(t *testing.T) {
	c := catalogue()
	traced := 0
	for _, r := range rules.All() {
		for _, s := range r.Traced {
			traced++
			if q, err := c.Parse(s); err != nil || !c.Stat(q.Stat).Traced {
				t.Errorf("%s: %s is not traced, or no sentence: %v", r.ID, s, err)
			}
		}
		for _, s := range r.Sampled {
			if q, err := c.Parse(s); err != nil ||
				q.Stat != measure.StackSamples && q.Stat != measure.StackRate {
				t.Errorf("%s: %s is not of samples, or no sentence: %v", r.ID, s, err)
			}
		}
		for _, s := range slices.Concat(r.Needs, r.Finds, r.Uses) {
			if q, err := c.Parse(s); err != nil || c.Stat(q.Stat).Traced {
				t.Errorf("%s: %s is traced, or no sentence: %v", r.ID, s, err)
			}
		}
	}
	if traced == 0 {
		t.Error("no rule asks what is traced")
	}
}

// Each tool is asked without options and with each of its flags: as many sentences as it can ask.
func TestSentencesOfTools(t *testing.T) {
	c := catalogue()
	for _, tool := range view.Tools() {
		for _, o := range flagChoices(tool) {
			for _, s := range tool.Ask(o) {
				if _, err := c.Parse(s); err != nil {
					t.Errorf("%s %v: %s: %v", tool.Name, o, s, err)
				}
			}
		}
	}
}

// The canned machines of the rules' tests hold statistics in the shape of testdata/statistics.txt:
// "id kind unit fold [fields]". If a collector's shape were another, the rules would be tested
// against a kernel that does not exist.
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

// Names that a user types are not to collide, and each list is to have what makes its help.
func TestListsAreWhole(t *testing.T) {
	var names []string
	for _, tool := range view.Tools() {
		if tool.Name == "" || tool.Short == "" || tool.Long == "" || len(tool.Examples) == 0 {
			t.Errorf("tool %q lacks a name, a line, a text or an example", tool.Name)
		}
		if slices.Contains(names, tool.Name) {
			t.Errorf("two tools are called %s", tool.Name)
		}
		names = append(names, tool.Name)
	}
	names = nil
	for _, r := range rules.All() {
		if r.ID == "" || r.Checks == "" || len(r.Needs)+len(r.Finds) == 0 {
			t.Errorf("rule %q lacks an id, what it checks, or sentences", r.ID)
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
			t.Errorf("statistic %s lacks a full name, a help, a unit or a kind", st.ID)
		}
		for _, f := range st.Fields {
			if f.Type == 0 {
				t.Errorf("%s: field %s has no type", st.ID, f.Name)
			}
		}
	}
}

// Of what overlaps nobody here asks a sum: it would count some of it more than once.
func TestNobodyAsksWhatOvercounts(t *testing.T) {
	c := catalogue()
	for _, sentence := range defaultQueries() {
		q, err := c.Parse(sentence)
		if err != nil {
			t.Errorf("%s: %v", sentence, err)
			continue
		}
		if note := c.Stat(q.Stat).Overcounts(q); note != "" {
			t.Errorf("%s: %s", sentence, note)
		}
	}
}
