package main

import (
	"slices"
	"testing"

	"culprit/cases"
	"culprit/diagnose/rules"
)

// TestRulesWithoutRow compares the rules of the diagnosis with the stories: each rule is the culprit
// of a story, or the page says why it is not.
func TestRulesWithoutRow(t *testing.T) {
	named := map[string]string{ // stories with names of their own
		"interface-unused": "dead-interface",
		"connections-fail": "connections-refused",
		"limit-reached":    "files-limit",
		"tasks-blocked":    "filesystem-frozen",
		"tcp-stalled":      "reader-stopped",
		"udp-refused":      "datagrams-refused",
	}
	without := rulesWithoutRow()
	for _, r := range rules.Set().Rules {
		listed := slices.ContainsFunc(without, func(w ruleWithoutRow) bool { return w.rule == r.ID })
		name := r.ID
		if n := named[r.ID]; n != "" {
			name = n
		}
		if _, err := cases.Find(name); (err == nil) == listed {
			t.Errorf("%s: listed as without a row: %v; story %s: %v", r.ID, listed, name, err)
		}
		without = slices.DeleteFunc(without, func(w ruleWithoutRow) bool { return w.rule == r.ID })
	}
	for _, w := range without {
		t.Errorf("%s is no rule", w.rule)
	}
}
