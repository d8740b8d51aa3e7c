package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMutantsOf(t *testing.T) {
	const source = `package p

import "fmt"

const limit = 0.5

func f(a, b int, ok bool) int {
	if ok {
		fmt.Println(a)
	}
	if a < b && b != 7 {
		a += 2
	}
	return a
}
`
	mutants, err := mutantsOf("p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range mutants {
		got = append(got, m.from+" -> "+m.to)
	}
	want := []string{
		"0.5 -> 0.56", "ok -> !(ok)", "fmt.Println(a) -> ", "&& -> ||", "< -> <=", "< -> >=",
		"!= -> ==", "7 -> 8", "a += 2 -> ", "2 -> 3",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("mutants\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if c := strings.Count(string(mutants[4].text), "a <= b"); c != 1 {
		t.Errorf("the changed file has %d times a <= b:\n%s", c, mutants[4].text)
	}
}

// TestTry runs the tests of a small module on mutants that they notice, do not notice, and that do
// not compile.
// The package top/low has a test of less alone. The test of top/high, which imports it, sees a
// wrong sum; that of elsewhere would see a wrong product, and is not run.
func TestTry(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"go.mod": "module p\n\ngo 1.24\n",
		"top/low/low.go": "package low\n\n" +
			"func Less(a, b int) bool { return a < b }\n\n" +
			"func Add(a, b int) int { return a + b }\n\n" +
			"func Mul(a, b int) int { return a * b }\n\n" +
			"func Join(a, b string) string { return a + b }\n",
		"top/low/low_test.go":   testOf("low", "", "!Less(1, 2)"),
		"top/high/high_test.go": testOf("high", "p/top/low", "low.Add(1, 2) != 3"),
		"elsewhere/e_test.go":   testOf("elsewhere", "p/top/low", "low.Mul(2, 3) != 6"),
	})
	t.Chdir(dir)
	packages, err := list([]string{"./top/low"})
	if err != nil {
		t.Fatal(err)
	}
	low := packages[0]
	low.testers = []string{low.ImportPath}
	if err := low.addImporters(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(low.Dir, "low.go")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := mutantsOf(path, text)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]result{
		"Less <=": survived, "Less >=": killed, "Add -": killed, "Mul /": survived,
		"Join -": notCompiled,
	}
	for _, m := range mutants {
		got, err := try(low, m, t.TempDir(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if w, ok := want[m.function+" "+m.to]; !ok || got != w {
			t.Errorf("%s: %s -> %s: %v, want %v", m.function, m.from, m.to, got, w)
		}
	}
}

// write makes files with the given texts below dir.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// testOf returns the text of a test of package name that fails when the condition is true.
func testOf(name, imports, condition string) string {
	text := "package " + name + "\n\nimport \"testing\"\n"
	if imports != "" {
		text += "\nimport \"" + imports + "\"\n"
	}
	return text + "\nfunc TestIt(t *testing.T) {\n\tif " + condition +
		" {\n\t\tt.Error()\n\t}\n}\n"
}

func TestParseEquivalent(t *testing.T) {
	got, err := parseEquivalent("# comment\n\np/a.go f \"<\" -> \"<=\" 0 # both ends are equal\n")
	if err != nil || got[`p/a.go f "<" -> "<=" 0`] != "both ends are equal" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parseEquivalent("p/a.go f\n"); err == nil {
		t.Error("a line without a reason is accepted")
	}
}
