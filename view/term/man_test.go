package term

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestManualPages checks that each command has a page with all its flags, and that each page in a
// reference exists.
func TestManualPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	p := Program{Version: "1.2", Terminal: Terminal{Out: os.Stdout, Err: os.Stderr}}
	if status := Run(t.Context(), p, []string{"man", dir}); status != 0 {
		t.Fatalf("status %d", status)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(files) < 25 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	for _, file := range files {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text, name := string(page), strings.TrimSuffix(filepath.Base(file), ".1")
		if !strings.Contains(
			text,
			`.TH "`+strings.ReplaceAll(
				strings.ToUpper(name), "-", `\-`,
			)+`" "1" "Nov 2023" "culprit 1.2" "culprit"`,
		) {
			t.Errorf("%s has no head: %.200s", name, text)
		}
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"} {
			if strings.Count(text, ".SH "+section+"\n") != 1 {
				t.Errorf("%s has no one section %s", name, section)
			}
		}
		_, also, _ := strings.Cut(text, ".SH SEE ALSO\n")
		for other := range strings.SplitSeq(strings.TrimSpace(also), ", ") {
			other = strings.ReplaceAll(
				strings.TrimSuffix(strings.TrimPrefix(other, `\fB`), `(1)\fP`), `\-`, "-",
			)
			if _, err := os.Stat(filepath.Join(dir, other+".1")); err != nil {
				t.Errorf("%s refers to %q, which is not there", name, other)
			}
		}
	}
	flame, err := os.ReadFile(filepath.Join(dir, "culprit-flame.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".TP\n\\fB\\-o\\fP, \\fB\\-\\-output\\fP=\"\"\nwrite to this file", ".TP\n\\fB\\-\\-width\\fP=1200\nwidth of an SVG, in pixels\n", ".EX\nperf script | culprit flame", `\fBculprit(1)\fP`} {
		if want = strings.ReplaceAll(want, ".EX\nperf", ".EX\n  perf"); !strings.Contains(
			string(flame), want,
		) {
			t.Errorf("culprit-flame.1 has no %q in\n%s", want, flame)
		}
	}
}
