package format

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSuite runs the programs of a peer's test suite that need no kernel in a small interpreter:
// integers and strings, aggregations, and probes that merely fire. It prints with this package and
// compares the output with the suite's, byte by byte. CULPRIT_DTRACE_TESTS is the suite's
// directory; none of it is in this repository.
func TestSuite(t *testing.T) {
	dir := os.Getenv("CULPRIT_DTRACE_TESTS")
	if dir == "" {
		t.Log("CULPRIT_DTRACE_TESTS is not set: nothing to compare with")
		return
	}
	if below := filepath.Join(dir, "test"); isDir(below) {
		dir = below // named by the directory that contains runtest.sh
	}
	var files []string
	for _, sub := range []string{"aggs", "multiaggs", "printa", "printf", "trace", "actions/trace",
		"actions/print*", "tracemem", "operators"} {
		found, err := filepath.Glob(filepath.Join(dir, "test", "unittest", sub, "tst.*.d"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Fatalf("no tests below %s", dir)
	}
	ran, left := 0, map[string]int{}
	for _, file := range files {
		want, err := os.ReadFile(strings.TrimSuffix(file, ".d") + ".r")
		if err != nil {
			continue // only by exit status
		}
		if _, err := os.Stat(strings.TrimSuffix(file, ".d") + ".r.p"); err == nil {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "@@runtest-opts") {
			continue
		}
		if strings.Contains(string(text), "(1 << 63)") {
			continue // D's constants are wider than their types; the interpreter's are not
		}
		got, why := interpret(string(text))
		if why != "" {
			left[why]++
			continue
		}
		ran++
		expected, _, _ := strings.Cut(string(want), "-- @@stderr --")
		got = regexp.MustCompile("0x[0-9a-f]+").ReplaceAllString(got, "{ptr}")
		if !alike(got, expected) &&
			(strings.Contains(string(text), "@@nosort") ||
				!alike(inOrder(got), inOrder(expected))) {
			t.Errorf("%s: got\n%s\nwant\n%s", strings.TrimPrefix(file, dir), got, expected)
		}
	}
	t.Logf("%d of %d programs ran; left out: %v", ran, len(files), left)
	if ran < 80 {
		t.Errorf("only %d programs could be run", ran)
	}
}

func isDir(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.IsDir()
}

func alike(a, b string) bool { return strings.TrimRight(a, "\n") == strings.TrimRight(b, "\n") }

// inOrder returns the lines sorted by their bytes: some outputs of the suite were recorded sorted.
func inOrder(s string) string {
	lines := strings.Split(strings.Trim(s, "\n"), "\n")
	slices.Sort(lines)
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}
