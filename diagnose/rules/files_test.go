package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// partOf lists files that hold a part of a rule.
// table: never changed
var partOf = map[string]string{
	"cpu_one_saturated_turns.go": "cpu_one_saturated.go",
	"cpu_saturated_divide.go":    "cpu_saturated.go",
	"cpu_starved_text.go":        "cpu_starved.go",
	"disk_saturated_divide.go":   "disk_saturated.go",
	"link_saturated_class.go":    "link_saturated.go",
	"link_saturated_divide.go":   "link_saturated.go",
	"lock_convoy_holder.go":      "lock_convoy.go",
	"memory_cgroup.go":           "memory_pressure.go",
	"memory_growing_kernel.go":   "memory_growing.go",
}

// TestRulesAreApart: each rule has a file of its own, and no rule uses what another rule's file
// declares. What several rules need is in package facts. all.go and doubts.go use any of them.
func TestRulesAreApart(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files, home := map[string]*ast.File{}, map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = f
		for _, d := range f.Decls {
			for _, name := range declared(d) {
				home[name] = path
			}
		}
	}
	for _, r := range All() {
		if path := strings.ReplaceAll(r.ID, "-", "_") + ".go"; files[path] == nil {
			t.Errorf("rule %s has no file %s", r.ID, path)
		}
	}
	for path, f := range files {
		if path == "all.go" || path == "doubts.go" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr: // the selected name is of another package or type
				ast.Inspect(n.X, func(x ast.Node) bool { use(t, path, x, home); return true })
				return false
			case *ast.Ident:
				use(t, path, n, home)
			}
			return true
		})
	}
}

// use reports a name of another rule's file.
func use(t *testing.T, path string, n ast.Node, home map[string]string) {
	t.Helper()
	id, ok := n.(*ast.Ident)
	if !ok {
		return
	}
	from := home[id.Name]
	if from != "" && from != path && partOf[from] != path && partOf[path] != from {
		t.Errorf("%s uses %s of %s: move it to package facts", path, id.Name, from)
	}
}

// declared returns the names of the functions, constants, variables and types that a declaration
// declares; methods belong to their type.
func declared(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}
