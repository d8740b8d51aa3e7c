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
func TestTry(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.com/p\n\ngo 1.24\n",
		"p.go":      "package p\n\nfunc less(a, b int) bool { return a < b }\n\nfunc add(a, b string) string { return a + b }\n",
		"p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestLess(t *testing.T) {\n\tif !less(1, 2) {\n\t\tt.Error()\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	packages, err := list([]string{"."})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("p.go")
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := mutantsOf(filepath.Join(packages[0].Dir, "p.go"), text)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]result{"<=": survived, ">=": killed, "-": notCompiled}
	for _, m := range mutants {
		got, err := try(packages[0], m, t.TempDir(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if got != want[m.to] {
			t.Errorf("%s -> %s: %v, want %v", m.from, m.to, got, want[m.to])
		}
	}
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
