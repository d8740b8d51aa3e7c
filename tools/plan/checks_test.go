package plan_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
)

// obvious are methods whose meaning is fixed by the standard library.
var obvious = map[string]bool{"Error": true, "String": true, "Unwrap": true}

// checkDocs wants a comment on each package and each exported name: constants and variables may be
// covered by the comment of their group, methods of an interface by the one on their line.
func checkDocs(t *tree) []string {
	var out []string
	packages := map[string]bool{} // directory to: has a package comment
	for _, s := range t.sources {
		if s.test || ast.IsGenerated(s.file) {
			continue
		}
		packages[s.dir] = packages[s.dir] || s.file.Doc != nil
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if !d.Name.IsExported() || d.Doc != nil {
					continue
				}
				if d.Recv == nil {
					out = append(out, t.at(d.Pos(), "func %s has no comment", d.Name.Name))
				} else if name := receiver(d); ast.IsExported(name) && !obvious[d.Name.Name] {
					method := name + "." + d.Name.Name
					out = append(out, t.at(d.Pos(), "method %s has no comment", method))
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch v := spec.(type) {
					case *ast.TypeSpec:
						if !v.Name.IsExported() {
							continue
						}
						if v.Doc == nil && d.Doc == nil {
							out = append(out, t.at(v.Pos(), "type %s has no comment", v.Name.Name))
						}
						out = append(out, t.bareMethods(v)...)
					case *ast.ValueSpec:
						for _, n := range v.Names {
							if n.IsExported() && v.Doc == nil && v.Comment == nil && d.Doc == nil {
								text := t.at(n.Pos(), "%s %s has no comment", d.Tok, n.Name)
								out = append(out, text)
							}
						}
					}
				}
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		if !packages[dir] {
			out = append(out, dir+": the package has no comment")
		}
	}
	return out
}

// bareMethods lists the exported methods of an interface that have no comment.
func (t *tree) bareMethods(spec *ast.TypeSpec) []string {
	face, ok := spec.Type.(*ast.InterfaceType)
	if !ok {
		return nil
	}
	var out []string
	for _, m := range face.Methods.List {
		for _, n := range m.Names {
			if n.IsExported() && m.Doc == nil && m.Comment == nil && !obvious[n.Name] {
				out = append(
					out,
					t.at(n.Pos(), "interface method %s.%s has no comment", spec.Name.Name, n.Name),
				)
			}
		}
	}
	return out
}

func receiver(d *ast.FuncDecl) string {
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// checkLength lists files past a thousand lines, generated ones and fixtures aside.
func checkLength(t *tree) []string {
	var out []string
	for _, p := range slices.Sorted(maps.Keys(t.texts)) {
		switch path.Ext(p) {
		case ".go", ".ts", ".tsx", ".js", ".css", ".d", ".sh", ".md":
		default:
			continue
		}
		data := t.texts[p]
		if n := bytes.Count(data, []byte("\n")); n > 1000 && !inTestdata(p) &&
			!generated.Match(data) {
			out = append(out, fmt.Sprintf("%s: %d lines; split files past 1,000", p, n))
		}
	}
	return out
}

// checkSkips wants the reason of each skip in a test to start as the test runner in tools/tests
// wants it, also where this machine never comes to skip. Reasons put together at run time are left
// to the runner.
func checkSkips(t *tree) []string {
	var out []string
	for _, s := range t.sources {
		if !s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch sel.Sel.Name {
			case "SkipNow", "Short":
				if len(call.Args) == 0 {
					out = append(
						out,
						t.at(call.Pos(), "%s has no reason: t.Skip(\"needs: ...\")", sel.Sel.Name),
					)
				}
			case "Skip", "Skipf":
				if len(call.Args) == 0 {
					return true
				}
				start := call.Args[0]
				for b, ok := start.(*ast.BinaryExpr); ok; b, ok = start.(*ast.BinaryExpr) {
					start = b.X
				}
				text, ok := start.(*ast.BasicLit)
				if ok && text.Kind == token.STRING && !skipForm.MatchString(text.Value) {
					out = append(
						out,
						t.at(
							call.Pos(),
							"skip %s: a reason is \"needs: root\", \"needs: cap:NAME\", "+
								"\"needs: kernel feature NAME\", \"needs: tool NAME\" or "+
								"\"needs: quiet machine\"",
							text.Value,
						),
					)
				}
			}
			return true
		})
	}
	return out
}

var skipForm = regexp.MustCompile(
	"^[\"`]needs: (root\\b|cap:|kernel feature |tool |quiet machine|%[sv])",
)

// generated is the go command's mark, which other tools use too.
var generated = regexp.MustCompile(`(?m)^(//|#|/\*) Code generated .* DO NOT EDIT\.`)

// private matches names of machines and registries. The words are joined here so that this file
// does not match itself.
var private = regexp.MustCompile(
	`(^|[^A-Za-z0-9_.])/wo` + `rk/` +
		`|\.\./sha` + `red\b` +
		`|/bash_` + `jobs` +
		`|proxy\.gol` + `ang\.org|sum\.gol` + `ang\.org|registry\.np` + `mjs\.org|deb\.deb` + `ian\.org`)

func checkText(t *tree) []string {
	var out []string
	for _, p := range slices.Sorted(maps.Keys(t.texts)) {
		n := 0
		for line := range bytes.Lines(t.texts[p]) {
			n++
			if m := private.Find(line); m != nil {
				out = append(out, fmt.Sprintf("%s:%d: names a path outside the tree: %s", p, n, m))
			}
		}
	}
	return out
}
