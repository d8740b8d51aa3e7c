package syntax

import (
	"slices"
	"strconv"
)

// What a text may be at most. Scripts stay far below; what does not is no script.
const (
	MaxText  = 4 << 20 // bytes
	maxDepth = 256     // of nested parentheses, blocks, types
	maxHigh  = 2000    // of the tree: 1 + 1 + 1 ... is deep to the left
	maxTold  = 20      // diagnostics before TooMany
)

// Mode says how a text is read. The zero Mode reads a script.
type Mode struct {
	// File is what diagnostics call the text, "" for text of a command line.
	File string

	// Last is what a probe description with fewer than four parts ends with.
	Last DescriptionPart

	// Types says whether a name that the text does not declare is a type: one of the kernel's. nil: not known. See Cast.
	Types func(name string) bool

	// Macros gives what stands for a macro: "target", "uid", "1". A number becomes an *Int, a name an *Ident, and all else a
	// *String, as does everything behind $$. nil: macros stay in the tree.
	Macros func(name string) (value string, ok bool)
}

// DescriptionPart is a part of a probe description.
type DescriptionPart uint8

// The parts of a probe description: what dtrace's -n, -f, -m and -P take.
const (
	PartName     DescriptionPart = iota // the name, as in scripts
	PartFunction             // the function: "read" is syscall::read:
	PartModule               // the module
	PartProvider             // the provider
)

// Parse reads a whole program. Either the program is nil or there are no diagnostics.
func Parse(text string, mode Mode) (*Program, Diagnostics) {
	p := newParser(text, mode)
	prog := p.program()
	if len(p.diags) > 0 {
		return nil, p.told0()
	}
	return prog, nil
}

// ParseExpr reads one expression: a predicate of a command line, say. Either it is nil or there are no diagnostics.
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
	return nil, p.told0()
}

// ParseProbes reads a list of probe descriptions with commas or white space between them, as lists of probes are asked
// for. Either there are probes or there are diagnostics.
func ParseProbes(text string, mode Mode) ([]*Probe, Diagnostics) {
	p := newParser(text, mode)
	var out []*Probe
	for len(p.diags) == 0 {
		p.off = p.space(p.off)
		if p.off >= len(p.text) {
			if len(out) == 0 {
				p.report(MissingProbe, p.off, p.off, "here a probe description should stand", "provider:module:function:name")
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
		return nil, p.told0()
	}
	return out, nil
}

// A parser reads one text. Once it has failed, p.tok is the end of the text until sync finds a place to go on from, so
// that every loop of it ends by itself and one mistake is told of once.
type parser struct {
	file, text string
	mode       Mode
	off        int   // where the next token is looked for
	tok        token // the one that is looked at
	last       int   // where the one before it ended
	fault      int   // where it failed
	failed     bool
	quiet      bool // skipping: tell nothing
	stopped    bool // nothing more is read
	swallowed  bool // a string or comment has no end, and all behind it may be missed
	predicate  bool // within /.../
	nest       int  // of ( and [ that are open
	depth      int  // of what may nest
	high       int  // how deep the tree is that was made last
	directed   int  // directives before this offset have been read
	closers    int  // how many } too many are forgiven, since a { before them was taken for a new clause
	items      []Item
	types      map[string]bool // by typedef
	diags      Diagnostics
}

func newParser(text string, mode Mode) *parser {
	p := &parser{file: mode.File, text: text, mode: mode}
	if len(text) > MaxText {
		p.text = ""
		p.report(LongText, 0, 0, "the text has "+strconv.Itoa(len(text))+" bytes, more than the "+strconv.Itoa(MaxText)+" that are read", "")
		p.stopped = true
	}
	return p
}

// told0 gives the diagnostics in the order of the text.
func (p *parser) told0() Diagnostics {
	many := p.diags[len(p.diags)-1].Code == TooMany
	list := p.diags
	if many {
		list = list[:len(list)-1]
	}
	slices.SortStableFunc(list, func(a, b *Diagnostic) int { return a.Pos - b.Pos })
	return p.diags
}

// told says whether a code was told of at an offset.
func (p *parser) told(code Code, off int) bool {
	return slices.ContainsFunc(p.diags, func(d *Diagnostic) bool { return d.Code == code && d.Pos == off })
}

// report tells of a fault, and lets reading go on.
func (p *parser) report(code Code, from, to int, message, hint string) *Diagnostic {
	d := &Diagnostic{}
	if p.quiet || p.stopped || p.told(code, from) {
		return d
	}
	switch code {
	case UnclosedString, UnclosedChar, UnclosedComment:
		p.swallowed = true
	case UnclosedBrace, UnclosedParen, UnclosedBracket, UnclosedPredicate:
		if p.swallowed { // what closes it may be in there
			return d
		}
	}
	if len(p.diags) == maxTold {
		code, message, hint = TooMany, "there is more that is wrong, which is not looked at", "mend what stands before this first"
		p.stopped = true
		p.failed = true
		p.tok.kind = tEOF
	}
	d = Diagnose(p.file, p.text, Span{int32(from), int32(to)}, code, message, hint)
	d.Tag = tag(code)
	p.diags = append(p.diags, d)
	return d
}

// fail tells of a fault at the token that is looked at and reads no further until sync. A token that was told of itself is enough.
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

// enter goes one deeper into what may nest; it says false, and fails, where that is too deep. leave goes back.
func (p *parser) enter() bool {
	p.depth++
	if p.depth > maxDepth {
		p.fail(TooDeep, "this is nested too deep", "at most "+strconv.Itoa(maxDepth)+" parentheses, braces or types may be open")
		p.stopped = true
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

// grow notes that a tree was made of others, the highest of which is given.
func (p *parser) grow(of int) {
	p.high = of + 1
	if p.high > maxHigh {
		p.fail(TooDeep, "this expression has too many parts", "at most "+strconv.Itoa(maxHigh)+" may be joined")
		p.stopped = true
	}
}

// sync goes on after a failure: at the ";" or "}" that ends what was being read, or at the end of the text. What stands in
// braces on the way is skipped whole.
func (p *parser) sync(stop ...kind) {
	if p.stopped { // and perhaps told of no place to go on from
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

// span gives the span from an offset to the end of the last token read.
func (p *parser) span(from int32) Span { return Span{from, max(from, int32(p.last))} }

// is says whether the token is this word.
func (p *parser) is(word string) bool { return p.tok.kind == tWord && p.str() == word }

// str gives the token's text.
func (p *parser) str() string { return p.text[p.tok.from:p.tok.to] }

// what says what the token is, for a message.
func (p *parser) what() string {
	switch p.tok.kind {
	case tEOF:
		return "the end of the text"
	case tString:
		return "a string"
	}
	return shown(p.str())
}

// got takes the token if it is of a kind.
func (p *parser) got(k kind) bool {
	if p.tok.kind == k && !p.failed {
		p.next()
		return true
	}
	return false
}
