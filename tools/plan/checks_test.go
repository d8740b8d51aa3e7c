package plan_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A tree is everything the checks look at: the committed files, with the Go files parsed.
type tree struct {
	module  string            // from go.mod; "" when there is none
	texts   map[string][]byte // path to contents, all files but binaries
	others  map[string]bool   // the binaries: pictures
	sources []*source         // the Go files outside testdata, by path
	fset    *token.FileSet
}

// A source is one parsed Go file.
type source struct {
	path, dir string
	file      *ast.File
	test      bool // its name ends in _test.go
}

// skipped are directories that hold nothing of ours: git's own, and what .gitignore names.
var skipped = map[string]bool{".git": true, "bin": true, ".cache": true, "node_modules": true}

func readTree(fsys fs.FS) (*tree, error) {
	t := &tree{texts: map[string][]byte{}, others: map[string]bool{}, fset: token.NewFileSet()}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && skipped[d.Name()] {
			return fs.SkipDir
		}
		// .git is a file in a work tree of git's.
		if !d.Type().IsRegular() || d.Name() == ".git" {
			return nil
		}
		data, err := fs.ReadFile(fsys, p)
		if errors.Is(err, fs.ErrNotExist) { // a temporary file of another program
			return nil
		}
		if err != nil {
			return err
		}
		if bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data) {
			t.others[p] = true
			return nil
		}
		t.texts[p] = data
		if path.Ext(p) != ".go" || inTestdata(p) {
			return nil
		}
		file, err := parser.ParseFile(
			t.fset, p, data, parser.ParseComments|parser.SkipObjectResolution,
		)
		if err != nil {
			return err
		}
		t.sources = append(
			t.sources, &source{p, path.Dir(p), file, strings.HasSuffix(p, "_test.go")},
		)
		return nil
	})
	// A directory with a go.mod of its own is a tool that is not part of the program.
	t.sources = slices.DeleteFunc(t.sources, func(s *source) bool {
		for dir := s.dir; dir != "."; dir = path.Dir(dir) {
			if t.texts[dir+"/go.mod"] != nil {
				return true
			}
		}
		return false
	})
	for line := range strings.Lines(string(t.texts["go.mod"])) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			t.module = strings.TrimSpace(name)
		}
	}
	return t, err
}

func inTestdata(p string) bool { return slices.Contains(strings.Split(p, "/"), "testdata") }

func trimStar(pattern string) string { return strings.TrimSuffix(pattern, "/*") }

// covers reports whether pattern, a directory or "dir/*", includes dir.
func covers(pattern, dir string) bool {
	if pattern == "*" || pattern == dir || trimStar(pattern) == dir {
		return true
	}
	below, all := strings.CutSuffix(pattern, "*")
	return all && strings.HasPrefix(dir, below)
}

func (p planned) importList() []string { return strings.Fields(p.imports) }

func planOf(dir string) (planned, bool) {
	for _, p := range plan {
		if covers(p.dir, dir) {
			return p, true
		}
	}
	return planned{}, false
}

func (t *tree) at(pos token.Pos, format string, args ...any) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d: ", p.Filename, p.Line) + fmt.Sprintf(format, args...)
}

// unwanted are packages that nothing imports, with the reason.
var unwanted = map[string]string{
	"C":         "the binary is static and builds without a C compiler",
	"log":       "errors are returned and notes are part of the answer",
	"io/ioutil": "deprecated",
	"plugin":    "the binary is static",
}

// checkImports wants each import of each file to be allowed: packages of the tree by the plan,
// modules of others by docs/DEPENDENCIES.md. Each directory with Go code is in the plan.
func checkImports(t *tree) []string {
	var out []string
	granted := t.dependencies()
	strangers := map[string]bool{}
	for _, s := range t.sources {
		r, known := planOf(s.dir)
		if !known {
			if !strangers[s.dir] {
				out = append(
					out,
					s.dir+": contains Go code but is not in the plan: it needs a line in "+
						"plan_test.go and a paragraph in docs/ARCHITECTURE.md",
				)
			}
			strangers[s.dir] = true
			continue
		}
		for _, spec := range s.file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				out = append(out, t.at(spec.Pos(), "import %s: %v", spec.Path.Value, err))
				continue
			}
			if why, bad := unwanted[name]; bad {
				out = append(out, t.at(spec.Pos(), "imports %q: %s", name, why))
				continue
			}
			target, ours := strings.CutPrefix(name, t.module+"/")
			first, _, _ := strings.Cut(name, "/")
			switch {
			case ours:
				ok := s.test && target == s.dir
				for _, imported := range r.importList() {
					ok = ok || covers(imported, target)
				}
				if !ok {
					out = append(
						out,
						t.at(
							spec.Pos(), "%s may not import %s (it may import: %s)", s.dir, target,
							cmp.Or(r.imports, "nothing"),
						),
					)
				}
			case strings.Contains(first, "."):
				module, d, ok := findModule(granted, name)
				if !ok {
					out = append(
						out,
						t.at(
							spec.Pos(), "%s is of a module that docs/DEPENDENCIES.md does not list",
							name,
						),
					)
				} else if !d.grants(s.dir) {
					const text = "docs/DEPENDENCIES.md does not grant %s to %s"
					out = append(out, t.at(spec.Pos(), text, module, s.dir))
				}
			}
		}
	}
	return out
}

// checkPlanned wants each line of the plan to have a directory with Go code.
func checkPlanned(t *tree) []string {
	var out []string
	for _, p := range plan {
		if !slices.ContainsFunc(t.sources, func(s *source) bool { return covers(p.dir, s.dir) }) {
			out = append(out, fmt.Sprintf("the plan lists %s, which contains no Go code", p.dir))
		}
	}
	return out
}

// vague are names of directories and packages that say nothing about their content.
var vague = []string{
	"internal",
	"pkg",
	"util",
	"utils",
	"common",
	"helpers",
	"helper",
	"types",
	"config",
	"model",
	"models",
	"misc",
	"base",
	"shared",
	"lib",
}

func checkNames(t *tree) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range t.sources {
		name := strings.TrimSuffix(s.file.Name.Name, "_test")
		for _, part := range append(strings.Split(s.dir, "/"), name) {
			key := s.dir + " " + part
			if slices.Contains(vague, part) && !seen[key] {
				seen[key] = true
				out = append(
					out,
					fmt.Sprintf("%s: %q is a vague name: name it after its content", s.dir, part),
				)
			}
		}
	}
	return out
}

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

// A dependency is a row of docs/DEPENDENCIES.md.
type dependency struct {
	packages []string
	reason   string
}

// grants reports whether the package of dir may import the module.
func (d dependency) grants(dir string) bool {
	return slices.ContainsFunc(d.packages, func(p string) bool { return covers(p, dir) })
}

// dependencies parses the rows `| module | packages | reason |` of docs/DEPENDENCIES.md.
func (t *tree) dependencies() map[string]dependency {
	out := map[string]dependency{}
	for line := range strings.Lines(string(t.texts["docs/DEPENDENCIES.md"])) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			continue
		}
		module := strings.Trim(strings.TrimSpace(cells[0]), "`")
		if !strings.Contains(module, ".") {
			continue
		}
		d := dependency{reason: strings.TrimSpace(cells[2])}
		for _, r := range strings.Split(cells[1], ",") {
			d.packages = append(d.packages, strings.Trim(strings.TrimSpace(r), "`"))
		}
		out[module] = d
	}
	return out
}

func findModule(granted map[string]dependency, name string) (string, dependency, bool) {
	for m, d := range granted {
		if name == m || strings.HasPrefix(name, m+"/") {
			return m, d, true
		}
	}
	return "", dependency{}, false
}

// checkDependencies compares the direct requirements of go.mod with the committed list, both ways.
func checkDependencies(t *tree) []string {
	var out []string
	listed := t.dependencies()
	required := map[string]bool{}
	block := false
	for line := range strings.Lines(string(t.texts["go.mod"])) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "tool"):
			out = append(out, "go.mod: tools live in tools/lint/go.mod")
		case line == "require (":
			block = true
			continue
		case line == ")":
			block = false
		}
		single, one := strings.CutPrefix(line, "require ")
		if one {
			line = single
		}
		if f := strings.Fields(line); (block || one) && len(f) >= 2 &&
			!strings.HasSuffix(line, "// indirect") {
			required[f[0]] = true
		}
	}
	for _, m := range slices.Sorted(maps.Keys(required)) {
		if listed[m].reason == "" {
			out = append(
				out,
				fmt.Sprintf(
					"go.mod: %s is not in docs/DEPENDENCIES.md with its packages and the reason", m,
				),
			)
		}
	}
	for _, m := range slices.Sorted(maps.Keys(listed)) {
		if !required[m] {
			out = append(
				out, fmt.Sprintf("docs/DEPENDENCIES.md: go.mod does not require %s directly", m),
			)
		}
		for _, r := range listed[m].packages {
			known := slices.ContainsFunc(
				plan, func(p planned) bool { return covers(r, p.dir) || covers(p.dir, r) },
			)
			if !known {
				out = append(
					out,
					fmt.Sprintf(
						"docs/DEPENDENCIES.md: %s is granted to %q, which is no package", m, r,
					),
				)
			}
		}
	}
	return out
}

// checkArchitecture wants a paragraph in docs/ARCHITECTURE.md for each package of the plan.
func checkArchitecture(t *tree) []string {
	var out []string
	page := string(t.texts["docs/ARCHITECTURE.md"])
	seen := map[string]bool{}
	for _, s := range t.sources {
		r, known := planOf(s.dir)
		dir := trimStar(r.dir)
		if !known || dir == "." || seen[dir] {
			continue
		}
		seen[dir] = true
		if !strings.Contains(page, "`"+dir+"/`") {
			out = append(out, fmt.Sprintf("docs/ARCHITECTURE.md: has no paragraph on `%s/`", dir))
		}
	}
	return out
}

var link = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)\s]*)?\)`)

// checkLinks wants the target of each link within the tree to exist.
func checkLinks(t *tree) []string {
	var out []string
	for _, p := range slices.Sorted(maps.Keys(t.texts)) {
		if path.Ext(p) != ".md" || inTestdata(p) {
			continue
		}
		for _, m := range link.FindAllSubmatch(t.texts[p], -1) {
			to := path.Join(path.Dir(p), string(m[1]))
			there := t.texts[to] != nil || t.others[to]
			for q := range t.texts {
				there = there || strings.HasPrefix(q, to+"/")
			}
			if !there {
				out = append(out, fmt.Sprintf("%s: links to %s, which does not exist", p, m[1]))
			}
		}
	}
	return out
}

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
