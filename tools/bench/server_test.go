package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPageAsks: the viewer of the benchmark sends the queries of the page.
func TestPageAsks(t *testing.T) {
	text, err := os.ReadFile("../../ui/data/use/shapes.ts")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`(?m)^\s*//.*\n`).ReplaceAllString(string(text), "")
	_, rest, found := strings.Cut(code, "export const asks = {")
	list, _, ended := strings.Cut(rest, "} as const;")
	if !found || !ended {
		t.Fatal("ui/data/use/shapes.ts has no list of queries")
	}
	var asked []string
	for _, m := range regexp.MustCompile(`\w+: "([^"]*)",`).FindAllStringSubmatch(list, -1) {
		asked = append(asked, m[1])
	}
	if lines := strings.Count(strings.TrimSpace(list), "\n") + 1; lines != len(asked) {
		t.Fatalf("%d queries in %d lines of ui/data/use/shapes.ts", len(asked), lines)
	}
	if !slices.Equal(asked, pageAsks) {
		t.Errorf(
			"the page asks\n%s\nthe benchmark\n%s", strings.Join(asked, "\n"),
			strings.Join(pageAsks, "\n"),
		)
	}
}

// A line of GODEBUG=gctrace=1 is read, and no other.
func TestParseCollection(t *testing.T) {
	const line = "gc 9 @2.104s 0%: 0.03+4.1+0.02 ms clock, 0.03+0.1/3.9/0.25+0.02 ms cpu, 12->13->8 MB, 14 MB goal, 0 MB stacks, 0 MB globals, 1 P"
	alive, goal, spent, ok := parseCollection(line)
	if !ok || alive != 8<<20 || goal != 14<<20 || spent.Microseconds() != 4300 {
		t.Errorf("alive %d, goal %d, %v, %t", alive, goal, spent, ok)
	}
	for _, other := range []string{"", "culprit: gc", "gc 9 @2.104s 0%: of another form", "gc 1 @0s 0%: a, b ms cpu, 1->2->3 MB, 4 MB goal", strings.Replace(line, "12->13->8", "12->8", 1)} {
		if _, _, _, ok := parseCollection(other); ok {
			t.Errorf("%q is read", other)
		}
	}
}

// What is left of a world is removed when the process that made it ends, however it ends.
func TestDirectoryIsRemoved(t *testing.T) {
	dir := t.TempDir() + "/world"
	if err := os.MkdirAll(dir+"/archive", 0o700); err != nil {
		t.Fatal(err)
	}
	old := os.Stdin
	defer func() { os.Stdin = old }()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	os.Stdin = r
	w.Close()
	if err := removeLater(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// Goals are of the program that is measured, and not of one that runs beside it.
func TestLastOf(t *testing.T) {
	stages := []stage{
		{Program: "new", Resident: 1},
		{Program: "old", Resident: 2},
		{Program: "new", Resident: 3},
		{Program: "old", Resident: 4},
	}
	if got := lastOf(stages); got.Resident != 3 {
		t.Errorf("%+v", got)
	}
}
