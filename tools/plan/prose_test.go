package plan_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// This file checks how the texts of the tree read: docs/GLOSSARY.md lists the words that are not
// used, a line has at most 100 columns, and the comment of an exported function says what a caller
// needs.

const (
	maxColumns = 100
	tabColumns = 4
	glossary   = "docs/GLOSSARY.md"
	// allowedFile lists how many complaints each directory may have: "directory count" lines. It
	// shrinks.
	allowedFile = "tools/plan/testdata/prose.txt"
)

var update = flag.Bool("update", false, "write the number of prose complaints of each directory")

// TestProse fails when a directory has more complaints than testdata/prose.txt allows. It prints
// the complaints of such a directory; -v prints those of all directories.
func TestProse(t *testing.T) {
	files, err := readTree(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := parseAllowed(string(files.texts[allowedFile]))
	if err != nil {
		t.Fatal(err)
	}
	found := checkProse(files)
	if *update {
		var b strings.Builder
		for _, dir := range slices.Sorted(maps.Keys(found)) {
			fmt.Fprintf(&b, "%s %d\n", dir, len(found[dir]))
		}
		if err := os.WriteFile("testdata/prose.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if len(found[dir]) <= allowed[dir] {
			if testing.Verbose() {
				t.Logf(
					"%s: %d complaints\n%s", dir, len(found[dir]), strings.Join(found[dir], "\n"),
				)
			}
			continue
		}
		t.Errorf("%s: %d complaints, %d allowed", dir, len(found[dir]), allowed[dir])
		for i, complaint := range found[dir] {
			if i == 40 {
				t.Error("and more")
				break
			}
			t.Error(complaint)
		}
	}
}

// parseAllowed parses "directory count" lines. A merge may list a directory twice: the higher count
// holds.
func parseAllowed(text string) (map[string]int, error) {
	out := map[string]int{}
	for line := range strings.Lines(text) {
		dir, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			return nil, fmt.Errorf("%s: line %q: want a directory and a count", allowedFile, line)
		}
		out[dir] = max(out[dir], n)
	}
	return out, nil
}

// checkProse returns the complaints of each directory, in the order of files and lines.
func checkProse(t *tree) map[string][]string {
	p := &prose{
		tree:    t,
		refused: refusedWords(string(t.texts[glossary])),
		found:   map[string][]complaint{},
	}
	parsed := map[string]bool{}
	for _, s := range t.sources {
		parsed[s.path] = true
		p.goFile(s)
	}
	for _, name := range slices.Sorted(maps.Keys(t.texts)) {
		if parsed[name] || inTestdata(name) || name == glossary || generated.Match(t.texts[name]) {
			continue
		}
		p.textFile(name, string(t.texts[name]))
	}
	out := map[string][]string{}
	for dir, list := range p.found {
		slices.SortStableFunc(list, func(a, b complaint) int {
			return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
		})
		for _, c := range list {
			out[dir] = append(out[dir], fmt.Sprintf("%s:%d: %s", c.file, c.line, c.text))
		}
	}
	return out
}

type complaint struct {
	file string
	line int
	text string
}

// A prose collects complaints about one tree.
type prose struct {
	tree    *tree
	refused []refusedWord
	found   map[string][]complaint // by directory
}

// A refusedWord is one entry of the glossary's list of words that are not used.
type refusedWord struct {
	words   string // lower case; one word or several
	instead string
}

// refusedWords parses the rows of the glossary's second part. A cell that has a remark in
// parentheses describes a habit, not a word; it is left to the reader.
func refusedWords(page string) []refusedWord {
	_, list, _ := strings.Cut(page, "## Words not used")
	var out []refusedWord
	for line := range strings.Lines(list) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 || strings.Contains(line, "---") || strings.Contains(cells[1], "(") {
			continue
		}
		for w := range strings.SplitSeq(cells[1], ",") {
			w = strings.TrimSpace(w)
			if w == "not" {
				continue
			}
			out = append(out, refusedWord{w, strings.TrimSpace(cells[2])})
		}
	}
	return out
}

func (p *prose) complain(file string, line int, format string, args ...any) {
	dir := path.Dir(file)
	p.found[dir] = append(p.found[dir], complaint{file, line, fmt.Sprintf(format, args...)})
}

// words complains of each refused word in text, which begins at line.
func (p *prose) words(file string, line int, text string) {
	for l := range strings.Lines(text) {
		spaced := " " + strings.Join(splitWords(l), " ") + " "
		for _, r := range p.refused {
			if strings.Contains(spaced, " "+r.words+" ") ||
				strings.Contains(spaced, " "+r.words+"s ") {
				p.complain(file, line, "%q: write %s", r.words, r.instead)
			}
		}
		line++
	}
}

// splitWords splits text at everything but letters, and identifiers where a small letter is
// followed by a capital: "maxRows" is "max", "rows". The words are in lower case.
func splitWords(text string) []string {
	var b strings.Builder
	var last rune
	for _, r := range text {
		if unicode.IsUpper(r) && unicode.IsLower(last) || !unicode.IsLetter(r) {
			b.WriteByte(' ')
		}
		if unicode.IsLetter(r) {
			b.WriteRune(unicode.ToLower(r))
		}
		last = r
	}
	return strings.Fields(b.String())
}

// goFile checks comments, names that the file declares, strings with spaces, and line lengths.
func (p *prose) goFile(s *source) {
	text := string(p.tree.texts[s.path])
	if generated.MatchString(text) {
		return
	}
	line := func(pos token.Pos) int { return p.tree.fset.Position(pos).Line }
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			p.words(s.path, line(c.Pos()), c.Text)
		}
	}
	raw := map[int]bool{} // lines inside raw strings
	tags := map[*ast.BasicLit]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Field:
			tags[x.Tag] = true
		case *ast.Ident:
			// Fields and methods of other packages are theirs to name; declarations are seen too.
			if declares(s.file, x) {
				p.words(s.path, line(x.Pos()), x.Name)
			}
		case *ast.BasicLit:
			if x.Kind != token.STRING || tags[x] {
				return true
			}
			if strings.HasPrefix(x.Value, "`") {
				for l := line(x.Pos()); l <= line(x.End()); l++ {
					raw[l] = true
				}
			}
			if strings.Contains(x.Value, " ") {
				p.words(s.path, line(x.Pos()), x.Value)
			}
		}
		return true
	})
	n := 0
	for l := range strings.Lines(text) {
		n++
		if s.test { // the texts that a test feeds in are kept in one piece
			l = stringLiteral.ReplaceAllString(l, `""`)
		}
		if !raw[n] && !tableRow.MatchString(l) {
			p.columns(s.path, n, l)
		}
	}
	if !s.test {
		p.docComments(s)
	}
}

// declares reports whether id is declared by this file: the parser's object resolution is off, so
// declarations are found by position in declares' own walk, cached in declared.
func declares(file *ast.File, id *ast.Ident) bool {
	_, ok := declared(file)[id]
	return ok
}

var declarations = map[*ast.File]map[*ast.Ident]bool{} // table: declared identifiers, by file

// declared returns the identifiers that file declares: functions, types, values, fields, parameters
// and local variables.
func declared(file *ast.File) map[*ast.Ident]bool {
	if found, ok := declarations[file]; ok {
		return found
	}
	found := map[*ast.Ident]bool{}
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			found[id] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncDecl:
			add(x.Name)
		case *ast.TypeSpec:
			add(x.Name)
		case *ast.ValueSpec:
			add(x.Names...)
		case *ast.Field:
			add(x.Names...)
		case *ast.AssignStmt:
			if x.Tok == token.DEFINE {
				for _, l := range x.Lhs {
					if id, ok := l.(*ast.Ident); ok {
						add(id)
					}
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{x.Key, x.Value} {
				if id, ok := e.(*ast.Ident); ok && x.Tok == token.DEFINE {
					add(id)
				}
			}
		}
		return true
	})
	declarations[file] = found
	return found
}

// tableRow matches one entry of a literal that gofmt keeps on one line: "{...}," or "key: ...,".
var tableRow = regexp.MustCompile(`^\t+(\{.*\},?|("[^"]*"|\w+): .*,)( *//.*)?\n?$`)

// stringLiteral matches a string literal in double quotes.
var stringLiteral = regexp.MustCompile(`"(\\.|[^"\\])*"`)

func (p *prose) columns(file string, line int, text string) {
	text = strings.TrimRight(text, "\n")
	n := utf8.RuneCountInString(text) + (tabColumns-1)*strings.Count(text, "\t")
	if n > maxColumns &&
		strings.ContainsAny(strings.TrimSpace(strings.TrimLeft(text, "\t /#*")), " ") {
		p.complain(file, line, "%d columns, at most %d", n, maxColumns)
	}
}

// docComments wants the comment of an exported function to begin with its name and a verb that is
// not refused, to name its errors where it returns one, and to name who closes what it opens.
func (p *prose) docComments(s *source) {
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Doc == nil || !f.Name.IsExported() {
			continue
		}
		if f.Recv != nil && (!ast.IsExported(receiver(f)) || obvious[f.Name.Name]) {
			continue
		}
		line := p.tree.fset.Position(f.Pos()).Line
		text := f.Doc.Text()
		if !strings.HasPrefix(text, f.Name.Name+" ") {
			p.complain(s.path, line, "the comment of %s does not begin with its name", f.Name.Name)
		}
		lower := strings.ToLower(text)
		opens := strings.HasPrefix(f.Name.Name, "Open") || strings.HasPrefix(f.Name.Name, "Attach")
		if returnsError(f) && opens && !strings.Contains(lower, "close") {
			p.complain(
				s.path, line, "the comment of %s does not say who closes the result", f.Name.Name,
			)
		}
		named := strings.Contains(lower, "err") || strings.Contains(lower, "fail") ||
			strings.Contains(lower, "refuse")
		if returnsError(f) && !named {
			p.complain(
				s.path, line, "the comment of %s does not say when it returns an error",
				f.Name.Name,
			)
		}
	}
}

func returnsError(f *ast.FuncDecl) bool {
	if f.Type.Results == nil {
		return false
	}
	return slices.ContainsFunc(f.Type.Results.List, func(r *ast.Field) bool {
		id, ok := r.Type.(*ast.Ident)
		return ok && id.Name == "error"
	})
}

// formatted are the files of the page: its formatter wraps all code that can be wrapped, so only
// comments are checked.
var formatted = map[string]bool{".ts": true, ".svelte": true, ".css": true} // table: by extension

// comment matches a line of the page that contains a comment.
var comment = regexp.MustCompile(`^\s*(//|/?\*|<!--)|\s// `)

// textFile checks a file that is not Go. Tables, indented and fenced blocks of Markdown are not
// wrapped, nor is code of the page and of shell scripts: only their comments are checked.
func (p *prose) textFile(file, text string) {
	switch path.Ext(file) {
	case ".md", ".ts", ".svelte", ".css", ".sh", ".d", ".yaml", ".service":
	default:
		if !strings.HasPrefix(text, "#!") && path.Base(file) != "Makefile" {
			return
		}
	}
	markdown := path.Ext(file) == ".md"
	shell := strings.HasPrefix(text, "#!") || path.Base(file) == "Makefile"
	fenced, n := false, 0
	for l := range strings.Lines(text) {
		n++
		if markdown && strings.HasPrefix(strings.TrimSpace(l), "```") {
			fenced = !fenced
		}
		if markdown && (fenced || strings.HasPrefix(l, "    ") || strings.HasPrefix(l, "\t")) {
			continue
		}
		p.words(file, n, l)
		code := formatted[path.Ext(file)] && !comment.MatchString(l)
		if shell && !strings.Contains(l, "# ") {
			code = true
		}
		if code || markdown && strings.HasPrefix(l, "|") {
			continue
		}
		p.columns(file, n, l)
	}
}
