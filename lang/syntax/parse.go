package syntax

import (
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
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
	Last Part

	// Types says whether a name that the text does not declare is a type: one of the kernel's. nil: not known. See Cast.
	Types func(name string) bool

	// Macros gives what stands for a macro: "target", "uid", "1". A number becomes an *Int, a name an *Ident, and all else a
	// *String, as does everything behind $$. nil: macros stay in the tree.
	Macros func(name string) (value string, ok bool)
}

// Part is a part of a probe description.
type Part uint8

// The parts of a probe description: what dtrace's -n, -f, -m and -P take.
const (
	PartName     Part = iota // the name, as in scripts
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

// program reads items to the end of the text. Between items p.off is where the next one is looked for.
func (p *parser) program() *Program {
	if p.at(0) == '#' && p.at(1) == '!' {
		p.off = p.lineEnd(0)
	}
	some := false
	for !p.stopped {
		p.off = p.space(p.off)
		if p.off >= len(p.text) || p.stopped {
			break
		}
		if p.at(p.off) == ';' {
			p.off++
			continue
		}
		start := p.off
		if item := p.item(); item != nil {
			p.items = append(p.items, item)
		}
		some = true
		p.failed, p.predicate, p.nest, p.depth = false, false, 0, 0
		if p.off <= start { // never: but a text is no place to be caught in
			p.off = start + 1
		}
	}
	if !some && len(p.diags) == 0 {
		p.report(EmptyProgram, len(p.text), len(p.text), "there is no clause in this program", `BEGIN { trace("hello"); }`)
	}
	return &Program{Span: Span{0, int32(len(p.text))}, Items: p.items}
}

func (p *parser) item() Item {
	c := p.at(p.off)
	switch c {
	case '{', '/', ',':
		p.report(MissingProbe, p.off, p.off+1, "there is no probe description before this "+string(rune(c)), "a clause is probe /predicate/ { actions }, with BEGIN for the start")
		switch c {
		case '{':
			p.next()
			p.block()
		case '/':
			p.off++
			p.clauseRest(&Clause{Span: Span{int32(p.off - 1), 0}})
		default:
			p.off++
		}
		return nil
	case '}':
		if p.closers > 0 {
			p.closers--
			p.off++
			return nil
		}
		p.report(UnmatchedClose, p.off, p.off+1, "there is no { that this } closes", "")
		p.off++
		return nil
	}
	if p.declares() {
		return p.declaration()
	}
	if classes[c]&cProbe == 0 || c == '@' || c == '%' || c == '+' || c == '~' || c == '^' || c >= 0x80 {
		p.tok = token{from: int32(p.off), to: int32(p.off)}
		p.next()
		if p.tok.kind == tEOF {
			p.off = len(p.text)
			return nil
		}
		p.fail(ExpectedItem, "no clause and no declaration begins with "+p.what(), "a clause is probe /predicate/ { actions }")
		p.fault = int(p.tok.to)
		if end := p.lineEnd(p.fault); strings.IndexByte(p.text[p.fault:end], '{') < 0 {
			p.off = end
			return nil
		}
		p.skipItem()
		return nil
	}
	return p.clause()
}

// skipItem goes on after a failure outside of braces: behind the ";" or block that ends the item.
func (p *parser) skipItem() {
	p.sync(tSemi, tRBrace, tLBrace)
	switch p.tok.kind {
	case tLBrace:
		p.fault = int(p.tok.to)
		p.sync(tRBrace)
		p.off = int(p.tok.to)
	case tRBrace:
		p.off = int(p.tok.to)
		if p.closers > 0 {
			p.closers--
		}
	default:
		p.off = int(p.tok.to)
	}
}

// declares says whether a declaration begins at p.off: with a word that only those begin with, or with a name, stars,
// another name and what may follow the name of a variable. What holds a colon is a probe description, and so is a*b without
// spaces unless a is a known type.
func (p *parser) declares() bool {
	end := p.off
	for classes[p.at(end)]&cProbe != 0 {
		if p.text[end] == ':' {
			return false
		}
		end++
	}
	word := p.off
	for classes[p.at(word)]&(cLetter|cDigit) != 0 || p.at(word) == '`' {
		word++
	}
	if word == p.off || classes[p.at(p.off)]&cDigit != 0 {
		return false
	}
	w := wordKind(p.text[p.off:word])
	if w != wName && w != wReserved {
		return w != wOperand || p.text[p.off:word] == "self" || p.text[p.off:word] == "this"
	}
	if p.text[p.off:word] == "provider" || p.text[p.off:word] == "translator" {
		return true
	}
	skip := func(off int) int {
		for off < len(p.text) && (classes[p.text[off]]&cSpace != 0 || p.text[off] == '*') {
			off++
		}
		return off
	}
	name := skip(word)
	if name == word || classes[p.at(name)]&cLetter == 0 {
		return false
	}
	after := name
	for classes[p.at(after)]&(cLetter|cDigit) != 0 {
		after++
	}
	if name < end && !p.typeName(p.text[p.off:word]) { // a*b without spaces is a glob
		return false
	}
	if p.at(after) == '*' {
		return false
	}
	next := skip(after)
	switch p.at(next) {
	case ';', ',', '=', '[', '(':
		return true
	}
	return name < end && next == len(p.text) // as with the semicolon that a printed clause has
}

// clause reads probe descriptions, a predicate and a block.
func (p *parser) clause() Item {
	c := &Clause{Span: Span{From: int32(p.off)}}
	for {
		probe := p.probe()
		if probe == nil {
			p.fault = p.off
			p.quiet = true
			p.off = p.space(p.off)
			p.quiet = false
			if next := p.at(p.off); next == '/' || next == '{' {
				p.clauseBody()
				return nil
			}
			if p.at(p.off) != ',' {
				p.skipItem()
				return nil
			}
		} else {
			c.Probes = append(c.Probes, probe)
		}
		c.To = int32(p.off)
		p.off = p.space(p.off)
		if p.at(p.off) != ',' {
			break
		}
		comma := p.off
		p.off = p.space(p.off + 1)
		if classes[p.at(p.off)]&cProbe == 0 {
			p.report(MissingProbe, comma, comma+1, "there is no probe description behind this comma", "")
			break
		}
	}
	next := p.at(p.off)
	if p.off < len(p.text) && next != '/' && next != '{' && next != ';' {
		at, end := p.off, p.off
		for classes[p.at(end)]&cProbe != 0 {
			end++
		}
		if end > at {
			p.report(ProbeSpaces, at, end, "this is a second probe description, or a part of the first behind a space",
				"descriptions have commas between them and no spaces in them; one without actions ends with a semicolon")
			p.off = end
			p.off = p.space(p.off)
			if next = p.at(p.off); next == '/' || next == '{' {
				p.clauseBody()
			} else {
				p.fault = p.off
				p.skipItem()
			}
			return nil
		}
		p.tok.to = int32(p.off)
		p.next()
		p.fail(ExpectedItem, "a predicate or a block should stand here, not "+p.what(), "a clause is probe /predicate/ { actions }")
		p.skipItem()
		return nil
	}
	if next == '/' {
		p.off++
		return p.clauseRest(c)
	}
	return p.clauseBlock(c)
}

// clauseBody reads the rest of a clause whose descriptions were wrong.
func (p *parser) clauseBody() {
	c := &Clause{}
	if p.at(p.off) == '/' {
		p.off++
		p.clauseRest(c)
	} else {
		p.clauseBlock(c)
	}
}

// clauseRest reads a predicate from behind its first slash, and the block.
func (p *parser) clauseRest(c *Clause) Item {
	slash := p.off - 1
	p.predicate, p.nest, p.failed = true, 0, false
	p.tok = token{from: int32(slash), to: int32(slash + 1)}
	p.next()
	if p.tok.kind == tSlash {
		p.report(EmptyPredicate, slash, int(p.tok.to), "there is nothing in this predicate", "leave the slashes out to have the clause run always")
	} else {
		c.Predicate = p.expr()
	}
	p.predicate = false
	if !p.failed && p.tok.kind == tSlash {
		p.off = int(p.tok.to)
		c.To = p.tok.to
		p.off = p.space(p.off)
		return p.clauseBlock(c)
	}
	if !p.failed && (p.tok.kind == tLBrace || p.tok.kind == tEOF || p.tok.kind == tSemi) {
		p.report(UnclosedPredicate, slash, slash+1, "this predicate has no second slash", "a predicate stands between two slashes")
		p.off = int(p.tok.from)
		return p.clauseBlock(c)
	}
	if !p.failed {
		p.unexpected()
	}
	p.sync(tLBrace, tRBrace)
	p.off = int(p.tok.from)
	if p.tok.kind == tLBrace {
		return p.clauseBlock(c)
	}
	p.off = int(p.tok.to)
	return c
}

// clauseBlock reads a block if there is one.
func (p *parser) clauseBlock(c *Clause) Item {
	if p.at(p.off) == '{' {
		p.tok = token{from: int32(p.off), to: int32(p.off)}
		p.next()
		c.Body = p.block()
		c.To = int32(p.off)
	}
	return c
}

// probe reads the description at p.off; nil when it is told of as wrong. p.off is behind it in any case.
func (p *parser) probe() *Probe {
	from, off := p.off, p.off
	bracket, bad, digits := -1, false, true
	var colons []int // where they stand; a colon behind a backslash or within brackets of a function's name is part of the name
	process := false
	for off < len(p.text) {
		c := p.text[off]
		if process && len(colons) > 0 {
			if end := p.symbolText(off, from, colons); end > off {
				off = end
				continue
			}
		}
		if classes[c]&cProbe == 0 {
			break
		}
		switch c {
		case ':':
			if colons == nil {
				process = OfProcess(p.text[from:off])
			}
			colons = append(colons, off)
			digits = false
		case '[':
			if bracket < 0 {
				bracket = off
			}
		case ']':
			bracket = -1
		case '\\':
			if off+1 >= len(p.text) || classes[p.text[off+1]]&cProbe == 0 && (!process || p.text[off+1] == '\n') {
				p.report(ProbeGlob, off, off+1, "there is nothing behind this \\ for it to protect", "")
				bad = true
			} else {
				off++
			}
		default:
			digits = digits && classes[c]&cDigit != 0
		}
		off++
	}
	p.off = off
	if off == from {
		end := min(off+1, len(p.text))
		p.report(MissingProbe, from, end, "here a probe description should stand", "provider:module:function:name")
		p.off = end
		return nil
	}
	if most := 3 - int(p.mode.Last); process && len(colons) > most && most >= 2 { // those in between are of the function's name
		kept := colons[:2:2]
		if p.mode.Last == PartName {
			kept = append(kept, colons[len(colons)-1])
		}
		colons = kept
	}
	probe := &Probe{Span: Span{int32(from), int32(off)}, Parts: len(colons) + 1}
	if digits && p.mode.Last == PartName {
		n, err := strconv.ParseUint(p.text[from:off], 10, 32)
		if err != nil {
			p.report(ProbeNumber, from, off, "no probe has the number "+shorten(p.text[from:off]), "numbers of probes have 32 bits")
			return nil
		}
		probe.ID, probe.Parts = uint32(n), 0
		return probe
	}
	if bracket >= 0 {
		p.report(ProbeGlob, bracket, bracket+1, "there is no ] that ends this [", "[abc] stands for one of a, b and c; \\[ for itself")
		bad = true
	}
	if most := 4 - int(p.mode.Last); len(colons) >= most {
		p.report(ProbeParts, from, off, "this description has "+strconv.Itoa(len(colons)+1)+" parts, and there are only "+strconv.Itoa(most), "provider:module:function:name")
		bad = true
	}
	if bad {
		return nil
	}
	parts := [4]*Name{&probe.Provider, &probe.Module, &probe.Function, &probe.Name}
	end := off
	for i := range probe.Parts {
		start := from
		if i < len(colons) {
			start = colons[len(colons)-1-i] + 1
		}
		to := parts[3-int(p.mode.Last)-i]
		*to = Name{Span{int32(start), int32(end)}, p.part(start, end, process && to == &probe.Function)}
		end = start - 1
	}
	return probe
}

// OfProcess reports whether a provider is one of a process: pid and what its probes begin with, or one with the process's
// number or a macro behind its name.
func OfProcess(provider string) bool {
	if strings.HasPrefix(provider, "pid") || strings.IndexByte(provider, '$') >= 0 {
		return true
	}
	return provider != "" && classes[provider[len(provider)-1]]&cDigit != 0
}

// symbolText returns the end of what stands at off and can't be in other descriptions, but in the file or the function of a
// probe of a process, so that names of symbols need no backslashes: net/http.(*conn).serve, main.f[...]. Else it returns off.
func (p *parser) symbolText(off, from int, colons []int) int {
	switch c := p.text[off]; c {
	case '(', '[':
		if len(colons) >= 2 {
			return max(off, p.closed(off))
		}
	case '/': // or a predicate begins
		last := p.text[colons[len(colons)-1]+1 : off]
		if len(colons) >= 3 && (!strings.HasPrefix(p.text[from:], "pid") || last == "entry" || last == "return" || strings.Trim(last, "0123456789abcdef*?") == "") {
			return off
		}
		for end := off + 1; end < len(p.text) && classes[p.text[end]]&cSpace == 0 && p.text[end] != '{'; end++ {
			switch c := p.text[end]; c {
			case ':':
				return off + 1
			case '(', '[':
				if behind := p.closed(end); behind > 0 {
					end = behind - 1
				}
			case '\\':
				end++
			}
		}
	}
	return off
}

// closed returns what is behind the bracket that closes the one at off, in the same line; -1: there is none.
func (p *parser) closed(off int) int {
	var open []byte
	for ; off < len(p.text) && p.text[off] != '\n'; off++ {
		switch c := p.text[off]; c {
		case '(':
			open = append(open, ')')
		case '[':
			open = append(open, ']')
		case '{':
			open = append(open, '}')
		case ')', ']', '}':
			if open[len(open)-1] != c {
				return -1
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return off + 1
			}
		}
	}
	return -1
}

// ProbePart returns the name of a function as a description of a probe of a process can hold it: with a backslash before
// what would end the description or a part of it, or begin a macro.
func ProbePart(name string) string {
	p := parser{text: name}
	var out strings.Builder
	for off := 0; off < len(name); off++ {
		c := name[off]
		end := -1
		if c == '(' || c == '[' {
			end = p.closed(off)
		}
		switch {
		case end > 0 && !strings.ContainsAny(name[off:end], `\$`):
			out.WriteString(name[off:end])
			off = end - 1
			continue
		case classes[c]&cProbe == 0 && c != '/', c == '/' && strings.IndexByte(name[:off], ':') >= 0, c == '\\', c == '$', c == '[':
			out.WriteByte('\\')
		}
		out.WriteByte(c)
	}
	return out.String()
}

// part gives the text of a part of a description, with what stands for its macros. Of a symbol, a $ that begins no macro is
// part of the name.
func (p *parser) part(from, to int, symbol bool) string {
	text := p.text[from:to]
	if p.mode.Macros == nil || strings.IndexByte(text, '$') < 0 {
		return text
	}
	var out strings.Builder
	for off := from; off < to; {
		if p.text[off] == '\\' && off+1 < to {
			out.WriteString(p.text[off : off+2])
			off += 2
			continue
		}
		if p.text[off] != '$' {
			out.WriteByte(p.text[off])
			off++
			continue
		}
		_, end := p.token(off)
		if name := strings.TrimLeft(p.text[off:end], "$"); symbol {
			if _, ok := p.mode.Macros(name); !ok && (name == "" || classes[name[0]]&cDigit == 0) {
				out.WriteString("\\$")
				off++
				continue
			}
		}
		value, _ := p.macro(Span{int32(off), int32(end)})
		out.WriteString(strings.Trim(value, `"`))
		off = end
	}
	return out.String()
}

// macro gives what stands for the macro at a span, and whether it was written with $$.
func (p *parser) macro(at Span) (value string, quoted bool) {
	name := strings.TrimPrefix(p.text[at.From:at.To], "$")
	name, quoted = strings.CutPrefix(name, "$")
	value, ok := p.mode.Macros(name)
	if !ok && name != "" {
		hint := "this->" + name + " is a variable of the clause"
		if classes[name[0]]&cDigit != 0 {
			hint = "give it behind the program, or set the option defaultargs to have 0 or \"\" for it"
		}
		d := p.report(UnknownMacro, int(at.From), int(at.To), "nothing was given for the macro "+shorten(p.text[at.From:at.To]), hint)
		d.Near = measure.Nearest(name, macroNames())
		if d.Near != "" {
			d.Near = "$" + d.Near
		}
	}
	return value, quoted
}

func macroNames() []string {
	return []string{"target", "pid", "ppid", "pgid", "sid", "uid", "euid", "gid", "egid", "projid", "taskid"}
}
