package plan_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
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
