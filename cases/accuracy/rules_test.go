package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"culprit/cases"
)

// TestRulesWithoutRow compares the rules of the diagnosis with the stories: each rule is the
// culprit of a story, or the page says why it is not. The lab does not import the rules.
func TestRulesWithoutRow(t *testing.T) {
	named := map[string]string{ // stories with names of their own
		"interface-unused": "dead-interface",
		"connections-fail": "connections-refused",
		"kernel-events":    "filesystem-damaged",
		"limit-reached":    "files-limit",
		"tasks-blocked":    "filesystem-frozen",
		"tcp-stalled":      "reader-stopped",
		"udp-refused":      "datagrams-refused",
	}
	without := rulesWithoutRow()
	for _, id := range ruleIDs(t) {
		is := func(w ruleWithoutRow) bool { return w.rule == id }
		listed := slices.ContainsFunc(without, is)
		name := id
		if n := named[id]; n != "" {
			name = n
		}
		if _, err := cases.Find(name); (err == nil) == listed {
			t.Errorf("%s: listed as without a row: %v; story %s: %v", id, listed, name, err)
		}
		without = slices.DeleteFunc(without, is)
	}
	for _, w := range without {
		t.Errorf("%s is no rule", w.rule)
	}
}

// ruleIDs returns the IDs of all rules, from their source.
func ruleIDs(t *testing.T) (ids []string) {
	t.Helper()
	files, err := filepath.Glob("../../diagnose/rules/*.go")
	if err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`diagnose\.Rule\{\s+ID:\s+"([a-z0-9-]+)"`)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range id.FindAllSubmatch(b, -1) {
			ids = append(ids, string(m[1]))
		}
	}
	if len(ids) < 40 {
		t.Fatalf("only %d rules: %v", len(ids), ids)
	}
	return ids
}
