package plan_test

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestChecksCanFail runs each check on small trees that break one rule, and on trees that break
// none. want is a part of the only complaint; "" means no complaint.
func TestChecksCanFail(t *testing.T) {
	const mod = "module culprit\n\ngo 1.26\n"
	long := "// Package measure is long.\npackage measure\n" + strings.Repeat("\n", 1000)
	tests := []struct {
		name, check string
		files       map[string]string
		want        string
	}{
		{"package below", "imports", map[string]string{"collect/a.go": "package collect\nimport _ \"culprit/kernel\""}, ""},
		{"package beside", "imports", map[string]string{"collect/a.go": "package collect\nimport _ \"culprit/store\""}, "collect may not import store"},
		{"import of a package above", "imports", map[string]string{"measure/a.go": "package measure\nimport _ \"culprit/kernel\""}, "measure may not import kernel (it may import: nothing)"},
		{"import of a test", "imports", map[string]string{"view/a_test.go": "package view_test\nimport _ \"culprit/collect\""}, "view may not import collect"},
		{"own external test", "imports", map[string]string{"view/a_test.go": "package view_test\nimport _ \"culprit/view\""}, ""},
		{"cmd imports all", "imports", map[string]string{"cmd/culprit/a.go": "package main\nimport _ \"culprit/collect\""}, ""},
		{"lab imports none", "imports", map[string]string{"cases/hub/a.go": "package main\nimport _ \"culprit/measure\""}, "cases/hub may not import measure"},
		{"a folder and all below it", "imports", map[string]string{"cmd/culprit/a.go": "package main\nimport _ \"culprit/lang/ir\""}, ""},
		{"lang upward", "imports", map[string]string{"lang/syntax/a.go": "package syntax\nimport _ \"culprit/lang/check\""}, "lang/syntax may not import lang/check"},
		{"unknown directory", "imports", map[string]string{"attic/a.go": "package attic"}, "attic: contains Go code but is not in the plan"},
		{"unknown directory below", "imports", map[string]string{"store/attic/a.go": "package attic"}, "store/attic: contains Go code but is not in the plan"},
		{"fixtures are no packages", "imports", map[string]string{"store/testdata/a.go": "package attic"}, ""},
		{"log", "imports", map[string]string{"store/a.go": "package store\nimport _ \"log\""}, `imports "log"`},
		{"C", "imports", map[string]string{"store/a.go": "package store\nimport \"C\""}, `imports "C"`},
		{"module not listed", "imports", map[string]string{"store/a.go": "package store\nimport _ \"example.com/x/y\""}, "docs/DEPENDENCIES.md does not list"},
		{"module not granted", "imports", map[string]string{
			"store/a.go":           "package store\nimport _ \"example.com/x/y\"",
			"docs/DEPENDENCIES.md": "| `example.com/x` | `load` | speed |\n",
		}, "does not grant example.com/x to store"},
		{"module granted", "imports", map[string]string{
			"store/a.go":           "package store\nimport _ \"example.com/x/y\"",
			"docs/DEPENDENCIES.md": "| `example.com/x` | `load`, `store` | speed |\n",
		}, ""},

		{"package of the plan is gone", "planned", allPlannedBut("store"), "the plan lists store"},
		{"all packages of the plan", "planned", allPlannedBut(""), ""},

		{"vague directory", "names", map[string]string{"store/internal/a.go": "package disk"}, `"internal" is a vague name`},
		{"vague package", "names", map[string]string{"store/a.go": "package util"}, `"util" is a vague name`},
		{"good name", "names", map[string]string{"store/a.go": "package store"}, ""},

		{"package", "docs", map[string]string{"store/a.go": "package store", "store/b.go": "package store"}, "store: the package has no comment"},
		{"func", "docs", map[string]string{"store/a.go": "// Package store keeps.\npackage store\nfunc Open() {}"}, "func Open has no comment"},
		{"method", "docs", map[string]string{"store/a.go": "// Package store keeps.\npackage store\n// T is.\ntype T[K any] struct{}\nfunc (*T[K]) Get() {}"}, "method T.Get has no comment"},
		{"type", "docs", map[string]string{"store/a.go": "// Package store keeps.\npackage store\ntype T int"}, "type T has no comment"},
		{"const", "docs", map[string]string{"store/a.go": "// Package store keeps.\npackage store\nconst A = 1"}, "const A has no comment"},
		{"var", "docs", map[string]string{"store/a.go": "// Package store keeps.\npackage store\nvar A = 1"}, "var A has no comment"},
		{"interface", "docs", map[string]string{"store/a.go": "// Package store keeps.\npackage store\n// I is.\ntype I interface { Get() }"}, "interface method I.Get has no comment"},
		{"documented", "docs", map[string]string{"store/a.go": `// Package store keeps.
package store
// Open opens.
func Open() {}
// Sizes.
const (
	A = 1
	B = 2
)
const (
	C = 1 // C is one.
)
type t struct{}
func (t) Close() {}
// E is an error.
type E struct{}
func (E) Error() string { return "" }
`}, ""},

		{"init", "state", map[string]string{"store/a.go": "package store\nfunc init() {}"}, "func init"},
		{"init in a test", "state", map[string]string{"store/a_test.go": "package store\nfunc init() {}"}, "func init"},
		{"map", "state", map[string]string{"store/a.go": "package store\nvar m = map[string]int{}"}, "var m (map[string]int) can change in place"},
		{"slice", "state", map[string]string{"store/a.go": "package store\nvar m []int"}, "var m ([]int) can change in place"},
		{"pointer", "state", map[string]string{"store/a.go": "package store\ntype t struct{}\nvar p = &t{}"}, "can change in place"},
		{"channel", "state", map[string]string{"store/a.go": "package store\nvar c = make(chan int)"}, "can change in place"},
		{"hook", "state", map[string]string{"store/a.go": "package store\nimport \"time\"\nvar now = time.Now"}, "can change in place"},
		{"lock", "state", map[string]string{"store/a.go": "package store\nimport \"sync\"\nvar mu sync.Mutex"}, "can change in place"},
		{"struct with a map", "state", map[string]string{"store/a.go": "package store\nvar s struct{ m map[int]int }"}, "can change in place"},
		{"table with a reason", "state", map[string]string{"store/a.go": "package store\n// table: names by number\nvar m = map[int]string{1: \"a\"}"}, ""},
		{"table without a reason", "state", map[string]string{"store/a.go": "package store\nvar m = map[int]string{1: \"a\"} // table:"}, "can change in place"},
		{"table on the line", "state", map[string]string{"store/a.go": "package store\nvar m = []int{1} // table: primes"}, ""},
		{"table that is changed", "state", map[string]string{"store/a.go": "package store\nvar m = []int{1} // table: primes\nfunc f() { m[0] = 2 }"}, "package-level m is assigned to"},
		{"table that is emptied", "state", map[string]string{"store/a.go": "package store\nvar m = map[int]int{} // table: primes\nfunc f() { delete(m, 1) }"}, "package-level m is changed"},
		{"counter", "state", map[string]string{"store/a.go": "package store\nvar n int", "store/b.go": "package store\nfunc f() { n++ }"}, "store/b.go:2: package-level n is changed"},
		{"field", "state", map[string]string{"store/a.go": "package store\nvar s struct{ n int }\nfunc f() { s.n = 1 }"}, "package-level s is assigned to"},
		{"address", "state", map[string]string{"store/a.go": "package store\nvar n int\nfunc f() *int { return &n }"}, "package-level n is pointed at"},
		{"range", "state", map[string]string{"store/a.go": "package store\nvar n int\nfunc f() { for n = range 3 {} }"}, "package-level n is assigned to"},
		{"pointer method", "state", map[string]string{"store/a.go": "package store\ntype t struct{ n int }\nfunc (x *t) inc() { x.n++ }\nvar v t\nfunc f() { v.inc() }"}, "package-level v is changed by a pointer method"},
		{"exported", "state", map[string]string{"store/a.go": "package store\nvar Max = 3"}, "exported var Max"},
		{"local of the same name", "state", map[string]string{"store/a.go": "package store\nconst n = 1\nfunc f() { n := 1; n++; _ = n }"}, ""},
		{"sentinel", "state", map[string]string{"store/a.go": "package store\nimport \"errors\"\nvar ErrGone = errors.New(\"gone\")"}, ""},
		{"embedded", "state", map[string]string{"store/a.go": "package store\nimport _ \"embed\"\n//go:embed x\nvar text []byte"}, ""},
		{"assertion", "state", map[string]string{"store/a.go": "package store\ntype t struct{}\nvar _ error = (*t)(nil)"}, ""},
		{"linked", "state", map[string]string{"cmd/culprit/a.go": "package main\nvar version = \"none\""}, ""},
		{"test flags", "state", map[string]string{"store/a_test.go": "package store\nvar update = new(bool)\nfunc f() { *update = true }"}, ""},

		{"long file", "length", map[string]string{"measure/a.go": long}, "measure/a.go: 1002 lines"},
		{"long fixture", "length", map[string]string{"measure/testdata/a.go": long}, ""},
		{"long generated", "length", map[string]string{"measure/a.go": "// Code generated by x. DO NOT EDIT.\n" + long}, ""},

		{"skip of another form", "skips", map[string]string{"store/a_test.go": "package store\nfunc f(t T) { t.Skip(\"too slow\") }"}, `skip "too slow"`},
		{"skip of a sum", "skips", map[string]string{"store/a_test.go": "package store\nfunc f(t T) { t.Skip(\"needs: \" + why + \".\") }"}, `skip "needs: "`},
		{"skip of no form", "skips", map[string]string{"store/a_test.go": "package store\nfunc f(t T) { t.SkipNow() }"}, "SkipNow has no reason"},
		{"short mode", "skips", map[string]string{"store/a_test.go": "package store\nfunc f() bool { return testing.Short() }"}, "Short has no reason"},
		{"skip with a need", "skips", map[string]string{"store/a_test.go": "package store\nfunc f(t T) { t.Skip(\"needs: root (namespaces)\"); t.Skipf(\"needs: kernel feature %s\", x) }"}, ""},

		{"machine path", "text", map[string]string{"docs/A.md": "ok\nsee /wo" + "rk/main\n"}, "docs/A.md:2: names a path outside the tree"},
		{"folder beside", "text", map[string]string{"docs/A.md": "see ../sha" + "red/HOUSE.md\n"}, "names a path outside the tree"},
		{"registry", "text", map[string]string{".ci/run": "GOPROXY=https://proxy.gol" + "ang.org\n"}, "names a path outside the tree"},
		{"path of our own", "text", map[string]string{"docs/A.md": "see net/work/x and /proc/net\n"}, ""},

		{"not listed", "dependencies", map[string]string{"go.mod": mod + "require example.com/x v1.0.0\n"}, "example.com/x is not in docs/DEPENDENCIES.md"},
		{"no reason", "dependencies", map[string]string{"go.mod": mod + "require (\n\texample.com/x v1.0.0\n)\n", "docs/DEPENDENCIES.md": "| `example.com/x` | `load` | |\n"}, "example.com/x is not in docs/DEPENDENCIES.md"},
		{"not required", "dependencies", map[string]string{"go.mod": mod, "docs/DEPENDENCIES.md": "| `example.com/x` | `load` | speed |\n"}, "go.mod does not require example.com/x"},
		{"no such package", "dependencies", map[string]string{"go.mod": mod + "require example.com/x v1.0.0\n", "docs/DEPENDENCIES.md": "| `example.com/x` | `attic` | speed |\n"}, `"attic", which is no package`},
		{"indirect", "dependencies", map[string]string{"go.mod": mod + "require example.com/x v1.0.0 // indirect\n"}, ""},
		{"listed", "dependencies", map[string]string{"go.mod": mod + "require example.com/x v1.0.0\n", "docs/DEPENDENCIES.md": "| `example.com/x` | `load` | speed |\n"}, ""},
		{"tool", "dependencies", map[string]string{"go.mod": mod + "tool example.com/x\n"}, "tools live in tools/lint/go.mod"},

		{"dead link", "links", map[string]string{"docs/A.md": "see [this](B.md#part) and [that](https://example.com/x)\n"}, "docs/A.md: links to B.md"},
		{"live links", "links", map[string]string{"docs/A.md": "[up](../README.md) [folder](decisions/)\n", "README.md": "x", "docs/decisions/1.md": "x"}, ""},

		{"a right asked of everybody", "rights", map[string]string{"store/a.go": "package store\nvar why = \"needs CAP_BPF\""}, "names a capability"},
		{"a right asked of who lacks it", "rights", map[string]string{"store/a.go": "package store\nvar why = kernel.RefusedNote(\"needs CAP_BPF\", \"x\", 39)"}, ""},
		{"a right in help", "rights", map[string]string{"view/a.go": "package view\nvar why = \"needs CAP_BPF\""}, ""},

		{"package without a paragraph", "architecture", map[string]string{"store/a.go": "package store", "docs/ARCHITECTURE.md": "`measure/`"}, "has no paragraph on `store/`"},
		{"package with a paragraph", "architecture", map[string]string{"store/a.go": "package store", "docs/ARCHITECTURE.md": "`store/` keeps."}, ""},
	}
	tried := map[string]int{}
	for _, tt := range tests {
		t.Run(tt.check+"/"+tt.name, func(t *testing.T) {
			fsys := fstest.MapFS{"go.mod": {Data: []byte(mod)}}
			for name, data := range tt.files {
				fsys[name] = &fstest.MapFile{Data: []byte(data)}
			}
			small, err := readTree(fsys)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range checks {
				if c.name != tt.check {
					continue
				}
				got := c.check(small)
				switch {
				case tt.want == "" && len(got) > 0:
					t.Errorf("complains of a good tree: %q", got)
				case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
					t.Errorf("complaints %q, want one with %q", got, tt.want)
				}
				if tt.want != "" {
					tried[c.name]++
				}
			}
		})
	}
	for _, c := range checks {
		if tried[c.name] == 0 {
			t.Errorf("no case shows that the check %q can fail", c.name)
		}
	}
}

// allPlannedBut returns a Go file for each line of the plan but that of dir.
func allPlannedBut(dir string) map[string]string {
	files := map[string]string{}
	for _, p := range plan {
		if p.dir != dir {
			files[strings.ReplaceAll(p.dir, "*", "any")+"/a.go"] = "package a"
		}
	}
	return files
}
