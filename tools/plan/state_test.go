package plan_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// checkState allows no init functions and no package-level state outside tests:
//
//   - no package-level variable is assigned to, has its elements or fields assigned, its address
//     taken or a pointer method called, anywhere in its package;
//   - a variable whose value can change in place (map, slice, pointer, channel, function, interface
//     or a type that this test cannot see) says why it exists in a comment with `table: reason`,
//     on the line, above it or above its group; so does every exported one;
//   - sentinel errors, compiled patterns, embedded files and interface assertions need no reason.
func checkState(t *tree) []string {
	var out []string
	byPackage := map[string][]*source{}
	for _, s := range t.sources {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				out = append(
					out, t.at(f.Pos(), "func init is refused: cmd/culprit wires things up"),
				)
			}
		}
		if !s.test {
			key := s.dir + " " + s.file.Name.Name
			byPackage[key] = append(byPackage[key], s)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byPackage)) {
		out = append(out, t.packageState(byPackage[key])...)
	}
	return out
}

func (t *tree) packageState(sources []*source) []string {
	var out []string
	var files []*ast.File
	for _, s := range sources {
		files = append(files, s.file)
	}
	info := &types.Info{
		Defs:       map[*ast.Ident]types.Object{},
		Uses:       map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	// Other packages are left empty: names from them stay unknown, which is enough here, and errors
	// about them are of no interest.
	conf := types.Config{Importer: emptyImporter{}, Error: func(error) {}, FakeImportC: true}
	pkg, _ := conf.Check(sources[0].dir, t.fset, files, info)

	for _, f := range files {
		for _, decl := range f.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				if hasReason(g, v) || embedded(g.Doc) || embedded(v.Doc) || harmless(v) {
					continue
				}
				for _, n := range v.Names {
					if n.Name == "_" {
						continue
					}
					if ast.IsExported(n.Name) {
						out = append(
							out,
							t.at(
								n.Pos(),
								"exported var %s: any package could change it; make it a "+
									"function, or write the reason as `// table: reason`",
								n.Name,
							),
						)
					} else if obj := info.Defs[n]; obj != nil && changeable(obj.Type()) {
						const text = "var %s (%s) can change in place; write why that is safe " +
							"as `// table: reason`, or make it local"
						out = append(out, t.at(n.Pos(), text, n.Name, obj.Type()))
					}
				}
			}
		}
	}

	// owner returns the package-level variable that an expression leads to, or nil.
	owner := func(e ast.Expr) *ast.Ident {
		for {
			switch x := e.(type) {
			case *ast.ParenExpr:
				e = x.X
			case *ast.IndexExpr:
				e = x.X
			case *ast.SliceExpr:
				e = x.X
			case *ast.StarExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.Ident:
				v, ok := info.Uses[x].(*types.Var)
				if ok && pkg != nil && v.Parent() == pkg.Scope() {
					return x
				}
				return nil
			default:
				return nil
			}
		}
	}
	blame := func(e ast.Expr, what string) {
		if id := owner(e); id != nil {
			out = append(
				out,
				t.at(e.Pos(), "package-level %s is %s: state belongs to a value", id.Name, what),
			)
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.AssignStmt:
				if x.Tok != token.DEFINE {
					for _, l := range x.Lhs {
						blame(l, "assigned to")
					}
				}
			case *ast.IncDecStmt:
				blame(x.X, "changed")
			case *ast.RangeStmt:
				if x.Tok == token.ASSIGN {
					for _, l := range []ast.Expr{x.Key, x.Value} {
						if l != nil {
							blame(l, "assigned to")
						}
					}
				}
			case *ast.UnaryExpr:
				if _, literal := x.X.(*ast.CompositeLit); x.Op == token.AND && !literal {
					blame(x.X, "pointed at")
				}
			case *ast.CallExpr:
				id, ok := x.Fun.(*ast.Ident)
				if ok && len(x.Args) > 0 && changesFirst(id.Name) {
					if _, builtin := info.Uses[id].(*types.Builtin); builtin {
						blame(x.Args[0], "changed")
					}
				}
			case *ast.SelectorExpr:
				sel := info.Selections[x]
				if sel != nil && sel.Kind() == types.MethodVal && callsByAddress(sel) {
					blame(x.X, "changed by a pointer method")
				}
			}
			return true
		})
	}
	return out
}

// changesFirst reports whether a built-in function changes its first argument.
func changesFirst(name string) bool { return name == "delete" || name == "clear" || name == "copy" }

// callsByAddress reports whether a method value takes the address of a variable that is no pointer.
func callsByAddress(sel *types.Selection) bool {
	if _, pointer := types.Unalias(sel.Recv()).Underlying().(*types.Pointer); pointer {
		return false
	}
	recv := sel.Obj().(*types.Func).Signature().Recv()
	_, pointer := recv.Type().(*types.Pointer)
	return pointer
}

func changeable(typ types.Type) bool {
	switch u := types.Unalias(typ).Underlying().(type) {
	case *types.Basic:
		return u.Kind() == types.Invalid
	case *types.Array:
		return changeable(u.Elem())
	case *types.Struct: // a field of a type that cannot be seen is not held against it
		for f := range u.Fields() {
			b, basic := f.Type().Underlying().(*types.Basic)
			if (!basic || b.Kind() != types.Invalid) && changeable(f.Type()) {
				return true
			}
		}
		return false
	}
	return true
}

func hasReason(g *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, c := range []*ast.CommentGroup{g.Doc, v.Doc, v.Comment} {
		if c != nil && reason.MatchString(c.Text()) {
			return true
		}
	}
	return false
}

var reason = regexp.MustCompile(`\btable:\s+\S`)

// constants are what makes or names a value that nobody can change.
var constants = []string{
	"errors.New", "fmt.Errorf", "regexp.MustCompile", "strings.NewReplacer",
	"binary.NativeEndian", "binary.LittleEndian", "binary.BigEndian",
}

// harmless reports whether a declaration needs no reason: nothing but sentinel errors and compiled
// patterns.
func harmless(v *ast.ValueSpec) bool {
	for _, e := range v.Values {
		if call, ok := e.(*ast.CallExpr); ok {
			e = call.Fun
		}
		sel, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		from, ok := sel.X.(*ast.Ident)
		if !ok || !slices.Contains(constants, from.Name+"."+sel.Sel.Name) {
			return false
		}
	}
	return len(v.Values) > 0
}

func embedded(doc *ast.CommentGroup) bool {
	return doc != nil &&
		slices.ContainsFunc(
			doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") },
		)
}

type emptyImporter struct{}

func (emptyImporter) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}
