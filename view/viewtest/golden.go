package viewtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/view"
)

// Layout returns all that a terminal, JSON or CSV shows of a table: a line per column, and a line
// per row with its formatted cells.
func Layout(tab *view.Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "title %q notes %q\n", tab.Title, tab.Notes)
	for _, c := range tab.Columns {
		fmt.Fprintf(
			&b, "  %s, head %q, %s .%d, width %d", c.Name, c.Head, c.Show, c.Decimals, c.Width,
		)
		if c.Left {
			b.WriteString(", left")
		}
		if c.Cut {
			b.WriteString(", cut")
		}
		if c.MinWidth > 0 {
			fmt.Fprintf(&b, ", from %d", c.MinWidth)
		}
		b.WriteString("\n")
	}
	for _, r := range tab.Rows {
		fmt.Fprintf(&b, "row %q label %q", r.Key, r.Label)
		if r.Total {
			b.WriteString(" total")
		}
		for i, c := range r.Cells {
			b.WriteString(" | " + tab.Columns[i].Format(c))
		}
		if r.Remark != "" {
			b.WriteString(" <- " + r.Remark)
		}
		b.WriteString("\n" + r.Details)
	}
	return b.String()
}

// Golden compares got with the file testdata/NAME.golden, after writing it with update. The first
// different line fails the test.
func Golden(t *testing.T, update bool, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		g, w := "(end)", "(end)"
		if i < len(gotLines) {
			g = gotLines[i]
		}
		if i < len(wantLines) {
			w = wantLines[i]
		}
		if g != w {
			t.Fatalf("%s:%d: got\n%s\nwant\n%s", file, i+1, g, w)
		}
	}
}
