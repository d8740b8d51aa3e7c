package plan_test

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// Files of other users are parsed in the symbolizer, not in a process with capabilities. Package
// symbol has the parsers and their callers, so the import graph alone does not show it.

// parserImports are the packages that parse executables, and the packages that may import them.
//
// table: never changed
var parserImports = map[string][]string{
	"debug/elf":                          {"symbol", "symbol/dwarf", "kernel/feature"}, // kernel/feature: culprit's own program
	"debug/dwarf":                        {},
	"debug/gosym":                        {"symbol"},
	"debug/buildinfo":                    {"symbol", "tools/licenses"},
	"debug/macho":                        {},
	"debug/pe":                           {},
	"github.com/ianlancetaylor/demangle": {"symbol"},
}

// parsers are the functions of package symbol with which parsing begins, and the functions that
// call them: of OwnReader, which the symbolizer uses, and those that read what is not of others.
//
// table: never changed
var parsers = map[string][]string{
	"readHeader": {
		"read", "debugOf", // OwnReader
		"load",     // where this process reads files: Processes without a Reader of its own
		"readVDSO", // memory of this process, written by the kernel
		"inMemory", // likewise
		"mini",     // a file inside of one that a function of this list has begun to read
	},
	"NewDebugFile":   {"inlined", "nameByDebug"},
	"scanGenerated":  {"read"},
	"newMapScan":     {"scanGenerated", "scanDump"},
	"scanDump":       {"scanGenerated", "scanDump"},
	"hasFrame":       {"read"},
	"layoutOf":       {"read"},
	"readFrames":     {"read"},
	"probeableAMD64": {"probeable"},
}

// readsHere are calls that make this process parse files of others, outside of package symbol.
//
// table: never changed
var readsHere = map[string]string{
	"symbol.NewProcesses": "call symbol.NewProcessesOf with what reads the files",
	"symbol.Readable":     "the symbolizer demangles names",
}

// checkParsers wants that files of others are parsed by a symbol.Reader, which is the symbolizer in
// the recorder and in tools of root:
//
//   - only the packages of parserImports import a parser of executables;
//   - in package symbol only the functions of parsers begin to parse;
//   - no other package but symbolizer names symbol.OwnReader, or calls a function of readsHere;
//   - a function that makes a probe.Env sets its Files.
func checkParsers(t *tree) []string {
	var out []string
	for _, s := range t.sources {
		if s.test || strings.HasPrefix(s.dir, "cases") {
			continue
		}
		for _, spec := range s.file.Imports {
			name, _ := strconv.Unquote(spec.Path.Value) // the parser has read it
			if may, known := parserImports[name]; known && !slices.Contains(may, s.dir) {
				out = append(out, t.at(spec.Pos(), "%s parses files of others here", name))
			}
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			switch {
			case !ok || f.Body == nil:
			case s.dir == "symbol":
				out = append(out, t.parsing(f)...)
			default:
				out = append(out, t.readingHere(s.dir, f)...)
			}
		}
	}
	return out
}

// parsing lists the calls with which a function of package symbol begins to parse, unless it may.
func (t *tree) parsing(f *ast.FuncDecl) (out []string) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		may, known := parsers[calledName(call)]
		if known && !slices.Contains(may, f.Name.Name) {
			out = append(out, t.at(call.Pos(), "%s calls %s: ask a Reader instead", f.Name.Name,
				calledName(call)))
		}
		return true
	})
	return out
}

// readingHere lists what makes a function of another package parse files of others.
func (t *tree) readingHere(dir string, f *ast.FuncDecl) (out []string) {
	var made *ast.CallExpr // of a probe.Env
	files := false
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.SelectorExpr:
			name := qualified(x)
			if name == "symbol.OwnReader" && dir != "symbolizer" {
				out = append(out, t.at(x.Pos(), "symbol.OwnReader parses files of others here"))
			}
			if instead := readsHere[name]; instead != "" {
				out = append(out, t.at(x.Pos(), "%s parses files of others here: %s", name, instead))
			}
		case *ast.CallExpr:
			if sel, ok := x.Fun.(*ast.SelectorExpr); ok && qualified(sel) == "probe.NewEnv" {
				made = x
			}
		case *ast.AssignStmt:
			for _, l := range x.Lhs {
				sel, ok := l.(*ast.SelectorExpr)
				files = files || ok && qualified(sel) == "env.Files"
			}
		}
		return true
	})
	if made != nil && !files && dir != "trace/tracetest" {
		out = append(out, t.at(made.Pos(), "set env.Files, which reads files of others"))
	}
	return out
}

// qualified returns a selector of an identifier, as "symbol.NewProcesses"; "" for others.
func qualified(sel *ast.SelectorExpr) string {
	if id, ok := sel.X.(*ast.Ident); ok {
		return id.Name + "." + sel.Sel.Name
	}
	return ""
}
