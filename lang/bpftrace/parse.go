package bpftrace

import (
	"cmp"
	"slices"
	"strings"

	"culprit/lang/syntax"
	"culprit/lang/words"
)

// Limits of a text, so that no text takes unbounded memory or stack.
const (
	mostText        = 1 << 20 // bytes
	mostDepth       = 200     // nesting of statements, expressions and macros
	mostDiagnostics = 20
	mostMacros      = 1000
	mostExpanded    = 10_000 // uses of macros, within macros too
)

// A parser parses one text. After a mistake in a statement it continues behind the statement, so
// that all mistakes are reported at once.
type parser struct {
	file, text string
	args       []string // $1 ...
	options    map[string]option
	tok        token
	last       int // end of the token before tok
	depth      int
	wrong      syntax.Diagnostics
	macros     map[string]string
	within     *syntax.Span // the use of the macro whose text is being parsed; nil: none
	failed     bool         // the statement has a mistake, which was reported
	types      []syntax.Span
	expanded   *int // uses of macros so far
	defined    map[string]*macro
	open       bool // the last statement had no ;
	textual    bool // the next positional argument is a string, also if it is a number
}

// Parse parses a text. args are the values of $1, $2 and so on, 0 where there are fewer, and the
// options of getopt(), --name=value. It returns a tree or diagnostics, never both.
func Parse(file, text string, args []string) (*Program, syntax.Diagnostics) {
	p := &parser{file: file, text: text, macros: map[string]string{}, expanded: new(int),
		defined: map[string]*macro{}, options: map[string]option{}}
	p.arguments(args)
	if len(text) > mostText {
		p.text = ""
		p.report(TooLarge, 0, 0, "the program has more than 1 MiB", "split it into several")
		return nil, p.wrong
	}
	prog := p.program()
	if len(p.wrong) > 0 {
		slices.SortStableFunc(p.wrong, func(a, b *syntax.Diagnostic) int {
			return cmp.Compare(a.Pos, b.Pos)
		})
		return nil, p.wrong
	}
	return prog, nil
}

// report adds a diagnostic about a part of the text, unless there is one at its start.
func (p *parser) report(code syntax.Code, from, to int, message, hint string) {
	at := syntax.Span{From: int32(from), To: int32(to)}
	p.failed = true
	if p.within != nil {
		*p.within = syntax.Span{From: -1} // the caller reports the macro
		return
	}
	if len(p.wrong) >= mostDiagnostics || slices.ContainsFunc(
		p.wrong, func(d *syntax.Diagnostic) bool { return d.Pos == from },
	) {
		return
	}
	p.wrong = append(p.wrong, syntax.Diagnose(p.file, p.text, at, code, message, hint))
}

// fail reports a mistake at the current token, once per statement.
func (p *parser) fail(message, hint string) {
	if !p.failed {
		p.report(BadSyntax, p.tok.from, max(p.tok.to, p.tok.from+1), message, hint)
	}
	p.failed = true
}

// found returns the current token for a message.
func (p *parser) found() string {
	if p.tok.kind == tEOF {
		return "the end of the program"
	}
	return shown(p.text[p.tok.from:p.tok.to])
}

func (p *parser) is(sign string) bool { return p.tok.kind == tSign && p.tok.text == sign }

func (p *parser) isWord(word string) bool { return p.tok.kind == tWord && p.tok.text == word }

// got skips a sign if it is the current token.
func (p *parser) got(sign string) bool {
	if !p.is(sign) {
		return false
	}
	p.next()
	return true
}

// want skips a sign, or reports that it is missing.
func (p *parser) want(sign, where string) bool {
	if p.got(sign) {
		return true
	}
	p.fail("expected "+sign+" "+where+", not "+p.found(), p.instead())
	return false
}

// span returns the span from an offset to the end of the last token.
func (p *parser) span(from int) syntax.Span {
	return syntax.Span{From: int32(from), To: int32(max(from, p.last))}
}

// enter counts a level of nesting. It returns false when there are too many.
func (p *parser) enter() bool {
	if p.depth++; p.depth <= mostDepth {
		return true
	}
	if !p.failed {
		p.report(TooLarge, p.tok.from, p.tok.to, "the program is nested too deeply",
			"use fewer than 200 levels")
	}
	p.failed = true
	return false
}

func (p *parser) leave() { p.depth-- }

func (p *parser) program() *Program {
	prog := &Program{}
	p.next()
	for p.tok.kind != tEOF && len(p.wrong) < mostDiagnostics {
		p.failed = false
		if p.isWord("struct") || p.isWord("union") || p.isWord("enum") || p.isWord("typedef") {
			p.definition()
			continue
		}
		if p.isWord("config") && p.peek().text == "=" {
			from := p.tok.from
			p.skipBlock()
			p.got(";")
			prog.Config = p.settings(from, p.last)
			continue
		}
		if p.isWord("let") && p.peek().kind == tMap { // the kind and the size of a map
			p.skipStatement()
			continue
		}
		if p.isWord("macro") {
			p.macroItem()
			continue
		}
		if hint := unsupportedItems[p.tok.text]; hint != "" && p.tok.kind == tWord {
			p.report(Unsupported, p.tok.from, p.tok.to, p.tok.text+" is not supported", hint)
			p.skipBlock()
			continue
		}
		if p.is("}") {
			p.report(BadSyntax, p.tok.from, p.tok.to, "unmatched }", "")
			p.next()
			continue
		}
		if c := p.clause(); c != nil {
			prog.Clauses = append(prog.Clauses, c)
		}
	}
	if len(prog.Clauses) == 0 && len(p.wrong) == 0 {
		p.report(BadSyntax, 0, 0, "the program has no probes",
			"write a probe and statements: BEGIN { printf(\"hello\\n\"); }")
	}
	p.parseTypes(prog)
	if len(p.wrong) == 0 {
		p.unusedOptions()
		p.expand(prog)
	}
	return prog
}

// unsupportedItems are words that begin a construct outside of probes, with what to write instead.
//
// table: word to hint
var unsupportedItems = map[string]string{
	"fn":     "write macro NAME($x) { ... } without types",
	"import": "write what it imports into the program",
}

// definition skips the definition of a type; parseTypes parses it.
func (p *parser) definition() {
	from := p.tok.from
	for depth := 0; p.tok.kind != tEOF; p.next() {
		if p.is("{") {
			depth++
		}
		if p.is("}") {
			if depth--; depth <= 0 {
				p.next()
				break
			}
		}
		if p.is(";") && depth == 0 {
			break
		}
	}
	p.got(";")
	p.types = append(p.types, p.span(from))
}

// parseTypes parses all definitions of types as D, whose declarations are those of C, at their
// places in the text.
func (p *parser) parseTypes(prog *Program) {
	if len(p.types) == 0 {
		return
	}
	only := []byte(strings.Repeat(" ", len(p.text)))
	for i := range only {
		if p.text[i] == '\n' {
			only[i] = '\n'
		}
	}
	for _, at := range p.types {
		copy(only[at.From:at.To], p.text[at.From:at.To])
		if only[at.To-1] != ';' && int(at.To) < len(only) {
			only[at.To] = ';'
		}
	}
	tree, ds := syntax.Parse(string(only), syntax.Mode{LooseMembers: true})
	for _, d := range ds {
		p.report(d.Code, d.Pos, d.Pos+d.Len, d.Message, d.Hint)
	}
	if tree != nil {
		prog.Types = tree.Items
	}
}

// skipBlock skips to behind the } that closes the next {.
func (p *parser) skipBlock() {
	for depth := 0; p.tok.kind != tEOF; p.next() {
		if p.is("{") {
			depth++
		}
		if p.is("}") {
			if depth--; depth <= 0 {
				p.next()
				return
			}
		}
	}
}

// clause parses probes, a predicate and a block.
func (p *parser) clause() *Clause {
	c := &Clause{}
	from := p.tok.from
	for {
		point := p.point()
		if point == nil {
			p.skipBlock()
			return nil
		}
		c.Points = append(c.Points, point)
		if !p.got(",") {
			break
		}
	}
	if p.got("/") {
		c.Predicate = p.predicate()
		if !p.want("/", "after the predicate") {
			p.skipBlock()
			return nil
		}
	}
	if !p.is("{") {
		p.fail("expected { before the statements of the probe, not "+p.found(),
			"write PROBE /PREDICATE/ { STATEMENTS }")
		p.skipBlock()
		return nil
	}
	c.Body = p.block()
	c.Span = p.span(from)
	return c
}

// predicate parses the expression between slashes. A slash that { follows ends it.
func (p *parser) predicate() syntax.Expr { return p.expr() }

// point parses a description of probes. Its text is not made of tokens: paths may contain most
// characters.
func (p *parser) point() *Point {
	from := p.tok.from
	var parts []string
	var part strings.Builder
	off := from
	for off < len(p.text) {
		c := p.text[off]
		// Within the file of a probe a / is part of its path; elsewhere a predicate begins.
		path := len(parts) == 1 && ofFile(parts[0])
		if c == ':' {
			parts = append(parts, part.String())
			part.Reset()
			off++
			continue
		}
		if c == '"' {
			t := p.quoted(off)
			part.WriteString(t.text)
			off = max(t.to, off+1)
			continue
		}
		if c == '$' && digit(p.byteAt(off+1)) {
			end := p.wordEnd(off + 1)
			part.WriteString(p.argument(p.text[off+1 : end]))
			off = end
			continue
		}
		if c == '/' && !path && (part.Len() > 0 || len(parts) == 0) ||
			c <= ' ' || c == ',' || c == '{' {
			break
		}
		part.WriteByte(c)
		off++
	}
	parts = append(parts, part.String())
	if off == from || parts[0] == "" {
		p.fail("expected a probe, not "+p.found(),
			"write a probe and statements: BEGIN { printf(\"hello\\n\"); }")
		return nil
	}
	if strings.Contains(parts[0], ":") { // a whole description in $1
		parts = append(strings.Split(parts[0], ":"), parts[1:]...)
	}
	if name, kind, ok := strings.Cut(parts[0], "="); ok && providers[kind].name != "" &&
		name != "" && p.wordEnd(from) == from+len(name) {
		parts[0] = kind // NAME=PROBE: names are for later versions of the language
	}
	if message, hint := unknownProbe(parts); message != "" {
		if f, ok := words.ForeignProbe(words.Bpftrace, p.text[from:]); ok {
			p.report(BadProbe, from, from+len(f.Text), "this is a probe of "+f.Tool,
				"in bpftrace it is "+f.Own)
			return nil
		}
		p.report(BadProbe, from, off, message, hint)
		return nil
	}
	p.tok.to = off
	p.next()
	p.last = off
	return &Point{Span: syntax.Span{From: int32(from), To: int32(off)}, Parts: parts}
}

// argumentNumber returns the number of $1 ...; 0 for names that are none, and those above 1000.
func (p *parser) argumentNumber(name string) (n int) {
	for i := range len(name) {
		if !digit(name[i]) || n > 1000 {
			return 0
		}
		n = 10*n + int(name[i]-'0')
	}
	return n
}

// argument returns the value of $1 ..., "0" without one.
func (p *parser) argument(name string) string {
	n := p.argumentNumber(name)
	if n < 1 || n > len(p.args) {
		return "0"
	}
	return p.args[n-1]
}
