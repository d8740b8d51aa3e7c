package cpp

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"culprit/lang/syntax"
	"culprit/measure"
)

// table: all directives
var directives = []string{
	"define",
	"undef",
	"if",
	"ifdef",
	"ifndef",
	"elif",
	"else",
	"endif",
	"include",
	"include_next",
	"pragma",
	"error",
	"warning",
	"line",
	"ident",
	"sccs",
}

// directive executes the line that begins with #. A #pragma is for the compiler, and is returned.
func (p *run) directive(in *input, hash token) (token, bool) {
	before := in.pos
	t := p.scan(in)
	if t.kind == tLine || t.kind == tEOF { // # alone has no effect
		in.pos, in.first = before, false
		return token{}, false
	}
	t.at.from = hash.at.from
	switch {
	case t.text == "!" && hash.at.from == 0: // the interpreter line of a script
		in.pos = lineEnd(in)
		return token{}, false
	case t.kind == tNumber: // # 12 "file", the output of another preprocessor
		p.rest(in)
		return token{}, false
	}
	switch t.text {
	case "include", "include_next":
		p.include(in, t)
		return token{}, false
	case "define":
		p.define(in, t)
	case "undef":
		line := p.rest(in)
		if name, ok := p.named(t, line); ok {
			delete(p.macros, name.text)
		}
	case "if", "ifdef", "ifndef":
		yes := p.condition(in, t)
		in.conds = append(in.conds, cond{at: t.at, taken: yes})
		if !yes {
			p.skip(in)
		}
	case "elif", "else", "endif":
		if !p.branch(in, t, false) {
			p.skip(in)
		}
	case "pragma":
		from := in.pos
		line := p.rest(in)
		if len(line) == 1 && line[0].text == "once" {
			p.once[in.name] = true
			return token{}, false
		}
		return token{
			kind: tPragma,
			text: "#pragma" + piece(line),
			at:   place{in.file, hash.at.from, in.rawEnd(max(from, in.pos))},
		}, true
	case "error":
		p.report(t.at, syntax.ErrorDirective, "#error:"+shown(piece(p.rest(in))), "")
	case "warning":
		p.warn(t.at, WarningDirective, "#warning:"+shown(piece(p.rest(in))), "")
	case "line":
		if line := p.line(in); len(line) == 0 || line[0].kind != tNumber {
			p.report(t.at, BadLine, "missing line number after #line", `#line 12 "file"`)
		}
	case "ident", "sccs":
		p.rest(in)
	default:
		d := len(p.faults)
		p.report(
			t.at, BadDirective, "unknown directive #"+shown(t.text),
			"with -C a # begins a preprocessor line; comments are /* ... */",
		)
		if len(p.faults) > d {
			if near := measure.Nearest(t.text, directives); near != "" {
				p.faults[d].Near = "#" + near
			}
		}
		p.rest(in)
	}
	return token{}, false
}

// piece returns tokens as text, with a space before each that had one.
func piece(line []token) string {
	var b strings.Builder
	for _, t := range line {
		if t.space {
			b.WriteByte(' ')
		}
		b.WriteString(t.text)
	}
	return b.String()
}

func lineEnd(in *input) int {
	if i := strings.IndexByte(in.text[in.pos:], '\n'); i >= 0 {
		return in.pos + i
	}
	return len(in.text)
}

// line returns the rest of the line, expanded.
func (p *run) line(in *input) []token {
	line := p.rest(in)
	if len(line) == 0 {
		return nil
	}
	return p.alone(line, line[0].at)
}

// named returns the name that a directive applies to.
func (p *run) named(directive token, line []token) (token, bool) {
	switch {
	case len(line) == 0:
		p.report(
			directive.at, BadDefine, "missing macro name after #"+directive.text,
			"#"+directive.text+" NAME",
		)
	case line[0].kind != tName:
		p.report(line[0].at, BadDefine, shown(line[0].text)+" is not a valid macro name", "")
	case line[0].text == "defined" || line[0].text == "__VA_ARGS__":
		p.report(line[0].at, BadDefine, line[0].text+" can't be the name of a macro", "")
	default:
		return line[0], true
	}
	return token{}, false
}

// define reads a #define.
func (p *run) define(in *input, directive token) {
	line := p.rest(in)
	name, ok := p.named(directive, line)
	if !ok {
		return
	}
	m := &macro{name: name.text, at: name.at}
	body := line[1:]
	if len(body) > 0 && body[0].text == "(" && !body[0].space {
		m.call = true
		if body, ok = p.params(m, body); !ok {
			return
		}
	}
	m.body = body
	for i := range body {
		t := &body[i]
		switch {
		case t.kind == tMark && t.text == "##":
			t.paste = true
			if i == 0 || i == len(body)-1 {
				p.report(t.at, BadPaste, "## needs a token on both sides", "")
				return
			}
		case t.kind == tMark && t.text == "#" && m.call &&
			(i+1 == len(body) || !slices.Contains(m.params, body[i+1].text)):
			p.report(
				t.at, BadStringify,
				"# in the body of a macro must be followed by one of its parameters", "",
			)
			return
		case t.text == "__VA_ARGS__" && !(m.variable && m.params[len(m.params)-1] == t.text):
			p.report(
				t.at, BadDefine, "__VA_ARGS__ in a macro without ... among its parameters",
				"#define "+m.name+"(...) "+t.text,
			)
			return
		}
	}
	if old := p.macros[m.name]; old != nil && !same(old, m) {
		hint := "#undef " + m.name + " before it, if this is intended"
		if old.at.file != nil && !old.at.file.quiet {
			d := syntax.Diagnose(old.at.file.name, old.at.file.raw, old.at.span(), "", "", "")
			hint = strings.TrimPrefix(
				fmt.Sprintf("%s:%d", d.File, d.Line), ":",
			) + " has the other definition; " + hint
		}
		p.warn(name.at, Redefined, m.name+" is redefined differently", hint)
	}
	p.macros[m.name] = m
}

// params reads the parameters of a macro, and returns the tokens after them.
func (p *run) params(m *macro, line []token) (body []token, ok bool) {
	bad := func(t token, message string) ([]token, bool) {
		p.report(t.at, BadDefine, message, "#define "+m.name+"(a, b) ...")
		return nil, false
	}
	i := 1
	for {
		if i >= len(line) {
			return bad(line[len(line)-1], "missing ) after the parameters of "+m.name)
		}
		t := line[i]
		i++
		switch {
		case t.text == ")" && len(m.params) == 0:
			return line[i:], true
		case t.text == "...":
			m.variable = true
			m.params = append(m.params, "__VA_ARGS__")
		case t.kind != tName || t.text == "__VA_ARGS__":
			return bad(t, shown(t.text)+" is not a valid macro parameter")
		case slices.Contains(m.params, t.text):
			return bad(t, "duplicate parameter "+t.text+" of "+m.name)
		default:
			m.params = append(m.params, t.text)
			if i < len(line) && line[i].text == "..." {
				m.variable = true
				i++
			}
		}
		if i >= len(line) {
			continue
		}
		switch t = line[i]; {
		case t.text == ")":
			return line[i+1:], true
		case t.text == "," && !m.variable:
			i++
			if i < len(line) && line[i].text == ")" {
				return bad(line[i], "missing parameter after the last comma")
			}
		case m.variable:
			return bad(t, "expected ) after ...")
		default:
			return bad(t, "expected a comma between parameters")
		}
	}
}

// same reports whether two definitions are equal by C's rules: all tokens are the same, and white
// space is at the same places.
func same(a, b *macro) bool {
	return a.builtin == nil && b.builtin == nil && a.call == b.call && a.variable == b.variable &&
		slices.Equal(a.params, b.params) &&
		slices.EqualFunc(a.body, b.body, func(x, y token) bool { return x.text == y.text }) &&
		(len(a.body) < 2 || strings.TrimSpace(piece(a.body)) == strings.TrimSpace(piece(b.body)))
}

// condition reports whether the condition of an #if, #ifdef, #ifndef or #elif is true.
func (p *run) condition(in *input, t token) bool {
	if t.text == "if" || t.text == "elif" {
		return p.evaluate(in, t)
	}
	name, ok := p.named(t, p.rest(in))
	return ok && (p.macros[name.text] != nil) == (t.text == "ifdef")
}

// branch executes an #elif, #else or #endif, and reports whether the text after it is read.
// skipped: the branch before it was not read.
func (p *run) branch(in *input, t token, skipped bool) bool {
	n := len(in.conds)
	if n == 0 {
		p.report(t.at, LoneDirective, "#"+t.text+" without #if", "")
		p.rest(in)
		return true
	}
	c := &in.conds[n-1]
	if t.text == "endif" {
		p.rest(in)
		in.conds = in.conds[:n-1]
		return true
	}
	if c.other {
		p.report(t.at, LoneDirective, "#"+t.text+" after #else", "")
	}
	if t.text == "else" {
		c.other = true
		p.rest(in)
	}
	if c.taken {
		in.pos = lineEnd(in)
		return false
	}
	c.taken = t.text == "else" || p.condition(in, t)
	return c.taken
}

// skip continues at the branch of the innermost #if that is read, or at its #endif.
func (p *run) skip(in *input) {
	depth := 0
	for !p.stopped {
		t := p.scan(in)
		if t.kind == tEOF {
			return
		}
		if !t.first || t.kind != tMark || t.text != "#" {
			continue
		}
		at := t.at.from
		t = p.scan(in)
		t.at.from = at
		switch t.text {
		case "if", "ifdef", "ifndef":
			depth++
		case "endif":
			if depth > 0 {
				depth--
				continue
			}
			p.branch(in, t, true)
			return
		case "elif", "else":
			if depth == 0 && p.branch(in, t, true) {
				return
			}
		}
	}
}

// include executes an #include: it continues in the file.
func (p *run) include(in *input, t token) {
	from, to := in.pos, lineEnd(in)
	name, angle, ok := header(strings.TrimSpace(in.text[from:to]))
	if ok {
		p.rest(in)
	} else if name, angle, ok = header(strings.TrimSpace(piece(p.line(in)))); !ok {
		p.report(t.at, BadInclude, "missing file name after #"+t.text, `#include "file" or #include <file>`)
		return
	}
	at := place{in.file, t.at.from, in.rawEnd(in.pos)}
	if in.depth+1 > maxDepth || len(p.included) >= maxIncludes {
		p.large(at, "too many files include each other")
		return
	}
	f, err := p.find(in, name, angle, t.text == "include_next")
	if err != nil {
		hint := "the kernel's types are known without headers: omit the line; " +
			"-I adds a directory to search"
		if !angle {
			hint = "searched: the directory of the including file, and the directories of -I"
		}
		message := "file " + shown(name) + " not found"
		if !errors.Is(err, fs.ErrNotExist) {
			message = fmt.Sprintf("%s can't be read: %v", shown(name), err)
			hint = ""
		}
		p.report(at, NoHeader, message, hint)
		return
	}
	if p.once[f.name] {
		return
	}
	if p.bytes += len(f.raw); p.bytes > maxBytes {
		p.large(at, "the included files are too long in sum")
		return
	}
	f.from, f.at, f.depth = in.file, t.at.from, in.depth+1
	p.included = append(p.included, Inclusion{f.depth, f.name})
	p.inputs = append(p.inputs, &input{file: f, first: true})
}

// header reads "name" or <name>.
func header(s string) (name string, angle, ok bool) {
	if s == "" {
		return "", false, false
	}
	end := strings.IndexByte(s[1:], '"')
	switch s[0] {
	case '<':
		angle = true
		end = strings.IndexByte(s[1:], '>')
	case '"':
	default:
		return "", false, false
	}
	if end < 1 {
		return "", false, false
	}
	return s[1 : 1+end], angle, true
}

// find searches for a file.
func (p *run) find(in *input, name string, angle, next bool) (*file, error) {
	if p.c.Read == nil {
		return nil, fs.ErrNotExist
	}
	read := func(path string, dir int) (*file, error) {
		b, err := p.c.Read(path)
		if err != nil {
			return nil, err
		}
		f := newFile(path, string(b))
		f.dir = dir
		return f, nil
	}
	if filepath.IsAbs(name) {
		return read(name, -1)
	}
	if !angle && !next {
		path := name
		if in.name != "" {
			path = filepath.Join(filepath.Dir(in.name), name)
		}
		if f, err := read(path, in.dir); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	first := 0
	if next {
		first = in.dir + 1
	}
	dirs := append(slices.Clone(p.c.Dirs), p.c.System...)
	for i, dir := range dirs {
		if i < first {
			continue
		}
		if f, err := read(filepath.Join(dir, name), i); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

// pragmaWord executes _Pragma("D option quiet").
func (p *run) pragmaWord(name token) (token, bool) {
	before, open := p.open()
	if !open {
		p.push(before, nil)
		return token{}, false
	}
	args, ok := p.arguments(&macro{name: name.text, params: []string{"text"}}, name)
	if !ok || len(args[0]) != 1 || args[0][0].kind != tString {
		if ok {
			p.report(
				name.at, BadDirective, "_Pragma requires a string", `_Pragma("D option quiet")`,
			)
		}
		return token{}, false
	}
	text := args[0][0].text
	text = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(text[1 : len(text)-1])
	return token{
		kind:  tPragma,
		text:  "#pragma " + text,
		at:    name.at,
		macro: &macro{name: name.text},
	}, true
}

// number returns a token for a number.
func number(n int, like token) token {
	like.kind, like.text = tNumber, strconv.Itoa(n)
	return like
}
