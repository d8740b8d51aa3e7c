package syntax

import (
	"slices"
	"strconv"
)

// Limits of a text. Scripts stay far below them.
const (
	MaxText        = 4 << 20 // bytes
	maxDepth       = 256     // nested parentheses, blocks, types
	maxHeight      = 2000    // height of the tree: 1 + 1 + 1 ... grows to the left
	maxDiagnostics = 20      // diagnostics before TooMany
)

// Mode selects how a text is read. The zero Mode reads a script.
type Mode struct {
	// File is the name of the text in diagnostics; "" for text of a command line.
	File string

	// Last is the last part of a probe description that has fewer than four parts.
	Last DescriptionPart

	// Types reports whether a name that the text does not declare is a type of the kernel. nil: not
	// known. See Cast.
	Types func(name string) bool

	// Macros returns the value of a macro: of "target", "uid", "1". A number becomes an *Int, a
	// name an *Ident, and other values a *String, as does every macro with $$. nil: macros stay in
	// the tree.
	Macros func(name string) (value string, ok bool)

	// LooseMembers allows the last member of a struct to have no ; behind it, as bpftrace does.
	LooseMembers bool
}

// DescriptionPart is a part of a probe description.
type DescriptionPart uint8

// The parts of a probe description: what dtrace's -n, -f, -m and -P take.
const (
	PartName     DescriptionPart = iota // the name, as in scripts
	PartFunction                        // the function: "read" is syscall::read:
	PartModule                          // the module
	PartProvider                        // the provider
)

// Parse reads a whole program. It returns a program or diagnostics, never both.
func Parse(text string, mode Mode) (*Program, Diagnostics) {
	p := newParser(text, mode)
	prog := p.program()
	if len(p.diags) > 0 {
		return nil, p.sortedDiagnostics()
	}
	return prog, nil
}

// ParseExpr reads one expression, such as a predicate of a command line. It returns an expression
// or diagnostics, never both.
func ParseExpr(text string, mode Mode) (Expr, Diagnostics) {
	p := newParser(text, mode)
	if len(p.diags) == 0 {
		p.next()
		x := p.expr()
		if !p.failed && p.tok.kind != tEOF {
			p.unexpected()
		}
		if len(p.diags) == 0 {
			return x, nil
		}
	}
	return nil, p.sortedDiagnostics()
}

// ParseProbes reads a list of probe descriptions, separated by commas or white space. It returns
// probes or diagnostics, never both.
func ParseProbes(text string, mode Mode) ([]*Probe, Diagnostics) {
	p := newParser(text, mode)
	var out []*Probe
	for len(p.diags) == 0 {
		p.off = p.space(p.off)
		if p.off >= len(p.text) {
			if len(out) == 0 {
				p.report(
					MissingProbe, p.off, p.off, "expected a probe description",
					"provider:module:function:name",
				)
			}
			break
		}
		if p.at(p.off) == ',' && len(out) > 0 {
			p.off = p.space(p.off + 1)
		}
		if probe := p.probe(); probe != nil {
			out = append(out, probe)
		}
	}
	if len(p.diags) > 0 {
		return nil, p.sortedDiagnostics()
	}
	return out, nil
}

// A parser reads one text. After a failure p.tok is the end of the text until sync finds a place to
// continue, so that every loop ends and one mistake is reported once.
type parser struct {
	file, text string
	mode       Mode
	off        int   // where the next token begins, or white space before it
	tok        token // the current token
	last       int   // end of the token before it
	fault      int   // where parsing failed
	failed     bool
	quiet      bool // skipping: report nothing
	stopped    bool // nothing more is read
	openText   bool // a string or comment has no end, and may contain all text behind it
	predicate  bool // within /.../
	nest       int  // open ( and [
	depth      int  // nesting depth
	height     int  // height of the tree that was made last
	directed   int  // directives before this offset have been read
	closers    int  // surplus } to ignore, because a { before them was taken for a new clause
	items      []Item
	types      map[string]bool // declared by typedef
	diags      Diagnostics
}

func newParser(text string, mode Mode) *parser {
	p := &parser{file: mode.File, text: text, mode: mode}
	if len(text) > MaxText {
		p.text = ""
		p.report(
			LongText,
			0,
			0,
			"the text has "+strconv.Itoa(
				len(text),
			)+" bytes; at most "+strconv.Itoa(
				MaxText,
			)+" are read",
			"",
		)
		p.stopped = true
	}
	return p
}

// sortedDiagnostics returns the diagnostics in the order of the text.
func (p *parser) sortedDiagnostics() Diagnostics {
	many := p.diags[len(p.diags)-1].Code == TooMany
	list := p.diags
	if many {
		list = list[:len(list)-1]
	}
	slices.SortStableFunc(list, func(a, b *Diagnostic) int { return a.Pos - b.Pos })
	return p.diags
}

// reported reports whether there is a diagnostic with this code at an offset.
func (p *parser) reported(code Code, off int) bool {
	return slices.ContainsFunc(
		p.diags, func(d *Diagnostic) bool { return d.Code == code && d.Pos == off },
	)
}

// report adds a diagnostic; reading continues.
func (p *parser) report(code Code, from, to int, message, hint string) *Diagnostic {
	d := &Diagnostic{}
	if p.quiet || p.stopped || p.reported(code, from) {
		return d
	}
	switch code {
	case UnclosedString, UnclosedChar, UnclosedComment:
		p.openText = true
	case UnclosedBrace, UnclosedParen, UnclosedBracket, UnclosedPredicate:
		if p.openText { // the closing character may be inside it
			return d
		}
	}
	if len(p.diags) == maxDiagnostics {
		code, message, hint = TooMany, "too many errors; the rest of the text is not checked",
			"correct the errors above first"
		p.stopped = true
		p.failed = true
		p.tok.kind = tEOF
	}
	d = Diagnose(p.file, p.text, Span{int32(from), int32(to)}, code, message, hint)
	d.Tag = tag(code)
	p.diags = append(p.diags, d)
	return d
}

// fail reports a diagnostic at the current token and stops reading until sync. A token that has a
// diagnostic of its own gets no second one.
func (p *parser) fail(code Code, message, hint string) *Diagnostic {
	return p.failAt(code, int(p.tok.from), int(p.tok.to), message, hint)
}

func (p *parser) failAt(code Code, from, to int, message, hint string) *Diagnostic {
	d := &Diagnostic{}
	if p.failed {
		return d
	}
	p.fault = int(p.tok.from)
	if p.tok.kind == tBad {
		p.fault = int(p.tok.to)
	} else {
		d = p.report(code, from, to, message, hint)
	}
	p.failed = true
	p.tok.kind = tEOF
	return d
}

// enter increases the nesting depth. It returns false, and fails, when the depth is too high. leave
// decreases it.
func (p *parser) enter() bool {
	p.depth++
	if p.depth > maxDepth {
		p.fail(
			TooDeep, "nested too deeply",
			"at most "+strconv.Itoa(maxDepth)+" parentheses, braces or types may be open",
		)
		p.stopped = true
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

// grow records the height of a tree that was made of others; the highest of them has the height
// given.
func (p *parser) grow(of int) {
	p.height = of + 1
	if p.height > maxHeight {
		p.fail(
			TooDeep, "this expression has too many parts",
			"at most "+strconv.Itoa(maxHeight)+" may be joined",
		)
		p.stopped = true
	}
}

// sync continues after a failure: at the ";" or "}" that ends the construct, or at the end of the
// text. It skips blocks in braces.
func (p *parser) sync(stop ...kind) {
	if p.stopped { // perhaps without a place to continue
		p.failed, p.nest, p.off = true, 0, len(p.text)
		p.tok.kind, p.tok.from, p.tok.to = tEOF, int32(p.off), int32(p.off)
		return
	}
	p.failed, p.quiet = false, true
	p.off, p.nest = p.fault, 0
	p.scan()
	for depth := 0; p.tok.kind != tEOF; p.scan() {
		if depth == 0 && slices.Contains(stop, p.tok.kind) {
			break
		}
		switch p.tok.kind {
		case tLBrace:
			depth++
		case tRBrace:
			if depth > 0 {
				depth--
			}
		}
	}
	p.quiet = false
}

// span returns the span from an offset to the end of the last token read.
func (p *parser) span(from int32) Span { return Span{from, max(from, int32(p.last))} }

// is reports whether the token is this word.
func (p *parser) is(word string) bool { return p.tok.kind == tWord && p.str() == word }

// str returns the token's text.
func (p *parser) str() string { return p.text[p.tok.from:p.tok.to] }

// what describes the token for a message.
func (p *parser) what() string {
	switch p.tok.kind {
	case tEOF:
		return "the end of the text"
	case tString:
		return "a string"
	}
	return shown(p.str())
}

// got consumes the token if it is of kind k, and reports whether it was.
func (p *parser) got(k kind) bool {
	if p.tok.kind == k && !p.failed {
		p.next()
		return true
	}
	return false
}
