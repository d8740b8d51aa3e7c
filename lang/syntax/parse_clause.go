package syntax

import (
	"strings"

	"culprit/lang/words"
)

// program reads items to the end of the text. Between items p.off is where the next one begins.
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
		if p.off <= start { // never happens; guards against an endless loop
			p.off = start + 1
		}
	}
	if !some && len(p.diags) == 0 {
		p.report(
			EmptyProgram, len(p.text), len(p.text), "the program has no clause",
			`BEGIN { trace("hello"); }`,
		)
	}
	return &Program{Span: Span{0, int32(len(p.text))}, Items: p.items}
}

func (p *parser) item() Item {
	c := p.at(p.off)
	switch c {
	case '{', '/', ',':
		p.report(
			MissingProbe, p.off, p.off+1, "missing probe description before "+string(rune(c)),
			"a clause is probe /predicate/ { actions }; the probe BEGIN fires at the start",
		)
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
		p.report(UnmatchedClose, p.off, p.off+1, "unmatched }", "")
		p.off++
		return nil
	}
	if p.declares() {
		return p.declaration()
	}
	if classes[c]&cProbe == 0 || c == '@' || c == '%' || c == '+' || c == '~' || c == '^' ||
		c >= 0x80 {
		p.tok = token{from: int32(p.off), to: int32(p.off)}
		p.next()
		if p.tok.kind == tEOF {
			p.off = len(p.text)
			return nil
		}
		p.fail(
			ExpectedItem, "expected a clause or a declaration, found "+p.what(),
			"a clause is probe /predicate/ { actions }",
		)
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

// skipItem continues after a failure outside of braces: behind the ";" or block that ends the item.
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

// declares reports whether a declaration begins at p.off. A declaration begins with a keyword, or
// with a type name, stars, a name, and a character that may follow the name of a variable. Text
// with a colon is a probe description. So is a*b without spaces, unless a is a known type.
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
	if name < end && !p.typeName(p.text[p.off:word]) { // a*b without spaces is a pattern
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
	return name < end && next == len(p.text) // a printed clause ends without its semicolon here
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
			p.report(MissingProbe, comma, comma+1, "missing probe description after this comma", "")
			break
		}
	}
	next := p.at(p.off)
	if p.off < len(p.text) && next != '/' && next != '{' && next != ';' {
		if f, ok := words.ForeignProbe(words.D, p.text[c.From:]); ok {
			p.report(ExpectedItem, int(c.From), int(c.From)+len(f.Text),
				"this is a probe of "+f.Tool, "in D it is "+f.Own)
			p.fault = p.off
			p.skipItem()
			return nil
		}
		at, end := p.off, p.off
		for classes[p.at(end)]&cProbe != 0 {
			end++
		}
		if end > at {
			hint := "separate descriptions by commas; a description contains no spaces; " +
				"one without actions ends with a semicolon"
			if word := p.text[at:end]; word == "if" || word == "when" || word == "where" {
				hint = "a condition is a predicate between slashes: PROBE /pid == 1/ { ... }"
			}
			p.report(
				ProbeSpaces, at, end, "a second probe description, or a space inside the first",
				hint,
			)
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
		p.fail(
			ExpectedItem, "expected a predicate or a block, found "+p.what(),
			"a clause is probe /predicate/ { actions }",
		)
		p.skipItem()
		return nil
	}
	if next == '/' {
		p.off++
		return p.clauseRest(c)
	}
	return p.clauseBlock(c)
}

// clauseBody reads the rest of a clause whose descriptions are wrong.
func (p *parser) clauseBody() {
	c := &Clause{}
	if p.at(p.off) == '/' {
		p.off++
		p.clauseRest(c)
	} else {
		p.clauseBlock(c)
	}
}

// clauseRest reads a predicate, from behind its first slash, and the block.
func (p *parser) clauseRest(c *Clause) Item {
	slash := p.off - 1
	p.predicate, p.nest, p.failed = true, 0, false
	p.tok = token{from: int32(slash), to: int32(slash + 1)}
	p.next()
	if p.tok.kind == tSlash {
		p.report(
			EmptyPredicate, slash, int(p.tok.to), "empty predicate",
			"omit the slashes to run the clause at every firing",
		)
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
		p.report(
			UnclosedPredicate, slash, slash+1, "unclosed predicate: the second slash is missing",
			"a predicate is written between two slashes",
		)
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
