package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The viewer of the benchmark asks what the page asks, no more and no less.
func TestPageAsks(t *testing.T) {
	text, err := os.ReadFile("../../ui/data/use.ts")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "export const asks = {")
	list, _, ended := strings.Cut(rest, "} as const;")
	if !found || !ended {
		t.Fatal("ui/data/use.ts has no list of sentences where it was")
	}
	var asked []string
	for _, m := range regexp.MustCompile(`\w+: "([^"]*)",`).FindAllStringSubmatch(list, -1) {
		asked = append(asked, m[1])
	}
	if lines := strings.Count(strings.TrimSpace(list), "\n") + 1; lines != len(asked) {
		t.Fatalf("%d sentences in %d lines of ui/data/use.ts", len(asked), lines)
	}
	if !slices.Equal(asked, pageAsks) {
		t.Errorf("the page asks\n%s\nthe benchmark\n%s", strings.Join(asked, "\n"), strings.Join(pageAsks, "\n"))
	}
}
