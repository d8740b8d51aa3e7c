package syntax

import (
	"strings"
)

// block reads from "{" to "}". p.off is behind it afterwards, and p.tok is the "}".
func (p *parser) block() *Block {
	b := &Block{Span: Span{From: p.tok.from}}
	open := p.tok
	if !p.enter() {
		return b
	}
	defer p.leave()
	p.next()
	for {
		switch p.tok.kind {
		case tSemi:
			p.next()
			continue
		case tRBrace:
			b.To = p.tok.to
			p.last = int(p.tok.to)
			return b
		case tEOF:
			if !p.failed {
				p.report(UnclosedBrace, int(open.from), int(open.to), "unclosed {", "")
				b.To = p.tok.to
				return b
			}
		}
		if !p.failed {
			from := p.tok.from
			s, ended := p.statement()
			if s != nil {
				b.List = append(b.List, s)
			}
			if !p.failed && !ended {
				p.endStatement(int(from))
			}
		}
		if p.failed {
			if p.stopped {
				b.To = p.tok.to
				return b
			}
			if p.fault < 0 { // a clause begins here: the block ends
				p.failed = false
				b.To = p.tok.from
				return b
			}
			p.sync(tSemi, tRBrace)
		}
	}
}

// endStatement requires the end of the statement that began at an offset.
func (p *parser) endStatement(from int) {
	switch p.tok.kind {
	case tSemi:
		p.next()
		return
	case tRBrace, tEOF:
		return
	}
	if p.probeInBlock(from) {
		return
	}
	switch p.tok.kind {
	case tWord, tAgg, tMacro, tInc, tDec:
		if strings.IndexByte(p.text[p.last:p.tok.from], '\n') >= 0 {
			p.report(
				ExpectedSemicolon, p.last, p.last, "expected a semicolon", "statements end with ;",
			)
			return
		}
	}
	p.unexpected()
}

// probeInBlock checks whether the text that could not be read as a statement is a probe
// description. If so, it ends the block before it.
func (p *parser) probeInBlock(from int) bool {
	if p.tok.kind != tColon && p.tok.kind != tLBrace || p.depth > 1 {
		return false
	}
	off, colons := from, 0
	for classes[p.at(off)]&cProbe != 0 {
		if p.text[off] == ':' {
			colons++
		}
		off++
	}
	quiet := p.quiet
	p.quiet = true
	next := p.at(p.space(off))
	p.quiet = quiet
	if off == from || next != '{' && next != '/' && next != ',' || next != '{' && colons == 0 {
		return false
	}
	p.failAt(ProbeInBlock, from, off, "clause within another clause", "is a } missing before it?")
	if p.stopped {
		return true
	}
	p.closers++
	p.fault = -1
	p.off = from
	p.tok = token{kind: tRBrace, from: int32(from), to: int32(from)}
	return true
}

// unexpected fails at a token that can't follow the expression before it.
func (p *parser) unexpected() {
	switch p.tok.kind {
	case tRParen, tRBrack:
		p.fail(UnmatchedClose, "unmatched "+p.what(), "")
	case tColon:
		hint := ""
		if p.at(int(p.tok.to)) == '=' {
			hint = "= assigns: x = 1"
		}
		p.fail(ExpectedOperator, "unexpected : without ?", hint)
	case tEOF:
		p.fail(ExpectedOperator, "unexpected end of the text", "")
	case tLBrace:
		p.fail(ExpectedOperator, "unexpected block after a value", "")
	case tSlash:
		p.fail(ExpectedOperator, "missing divisor after /", "")
	case tAssign,
		tSetOr,
		tSetXor,
		tSetAnd,
		tSetShl,
		tSetShr,
		tSetAdd,
		tSetSub,
		tSetMul,
		tSetDiv,
		tSetMod:
		p.fail(
			NotAssignable, "the expression before "+p.what()+" is not assignable",
			"put an assignment within an expression in parentheses",
		)
	default:
		hint := "is an operator or a comma missing?"
		if p.tok.kind == tWord && wordKind(p.str()) == wReserved && p.str() != "if" &&
			p.str() != "else" {
			hint = ""
		}
		switch word := p.what(); word {
		case "and":
			hint = "D writes && for and"
		case "or":
			hint = "D writes || for or"
		}
		p.fail(ExpectedOperator, "unexpected "+p.what(), hint)
	}
}

// statement reads one statement. ended is true when it needs no semicolon.
func (p *parser) statement() (s Stmt, ended bool) {
	from := p.tok.from
	switch p.tok.kind {
	case tLBrace:
		p.fail(ExpectedStatement, "a block is allowed only after if and else", "omit the braces")
		return nil, true
	case tWord:
		word := p.str()
		if hint := p.foreignStatement(word); hint != "" {
			return nil, p.noSuchStatement(word, hint)
		}
		switch wordKind(word) {
		case wReserved:
			switch word {
			case "if":
				return p.ifStatement()
			case "else":
				p.fail(BareElse, "else without if", "")
				return nil, true
			case "return":
				if p.at(p.space(p.off)) == '(' {
					break // an action
				}
				return nil, p.noSuchStatement(
					word,
					"put the statements that should be skipped after an if, "+
						"or in a clause with a predicate",
				)
			case "while", "for", "do", "goto", "break", "continue", "switch", "case", "default":
				hint := "D has no loops and no jumps: repeat the statements, " +
					"or use a probe such as tick-1ms"
				if word == "break" || word == "goto" {
					hint = "put the statements that should be skipped after an if, " +
						"or in a clause with a predicate"
				} else if word == "switch" || word == "case" || word == "default" {
					hint = "use ?: or if and else"
				}
				return nil, p.noSuchStatement(word, hint)
			}
		case wType, wStorage:
			if p.declaresHere() {
				p.fail(
					DeclarationInBlock, "declaration within a clause",
					"put it before the clause: this int x; declares this->x. "+
						"Assigned variables need no declaration",
				)
				return nil, true
			}
		case wOperand:
			if word == "self" || word == "this" {
				if p.declaresHere() {
					p.fail(
						DeclarationInBlock, "declaration within a clause",
						"put it before the clause; an assigned variable needs no declaration",
					)
					return nil, true
				}
			}
		}
	}
	x := p.expr()
	if p.failed {
		p.probeAfterFailure(int(from))
		return nil, false
	}
	return &Do{p.span(from), x}, false
}

// foreignStatement returns what to write in place of a statement of bpftrace or SystemTap; "" for
// others.
func (p *parser) foreignStatement(word string) string {
	next := p.at(p.space(p.off))
	switch {
	case word == "foreach" && next == '(':
		return "printa(@NAME) prints all elements of an aggregation"
	case word == "unroll" && next == '(':
		return "D has no loops: repeat the statements"
	case word == "let" || word == "global" || word == "local" || word == "var":
		if next == '$' || next == '@' || classes[next]&cLetter != 0 {
			return "a variable needs no declaration: assign to NAME, to this->NAME of the " +
				"clause, or to self->NAME of the thread"
		}
	}
	return ""
}

// noSuchStatement reports a statement of C and skips it. It returns whether it skipped to the end
// of a block.
func (p *parser) noSuchStatement(word, hint string) bool {
	p.report(NoSuchStatement, int(p.tok.from), int(p.tok.to), "D has no "+word, hint)
	if p.failed {
		return true
	}
	quiet := p.quiet
	p.quiet = true
	defer func() { p.quiet = quiet }()
	p.scan()
	if p.tok.kind == tLParen {
		p.skipPair(tLParen, tRParen)
	}
	if p.tok.kind == tLBrace {
		p.skipPair(tLBrace, tRBrace)
		if word == "do" && p.is("while") {
			p.scan()
			if p.tok.kind == tLParen {
				p.skipPair(tLParen, tRParen)
			}
		}
		return true
	}
	for p.tok.kind != tSemi && p.tok.kind != tRBrace && p.tok.kind != tLBrace &&
		p.tok.kind != tEOF {
		p.scan()
	}
	p.last = int(p.tok.from)
	return false
}

// skipPair skips from an opening character to behind the matching closing one.
func (p *parser) skipPair(open, end kind) {
	for depth := 0; p.tok.kind != tEOF; p.scan() {
		switch p.tok.kind {
		case open:
			depth++
		case end:
			depth--
			if depth == 0 {
				p.scan()
				return
			}
		}
	}
}

// probeAfterFailure replaces the last diagnostic by ProbeInBlock when the statement at an offset is
// a probe description.
func (p *parser) probeAfterFailure(from int) {
	if p.stopped || p.fault < from || p.fault >= len(p.text) || p.text[p.fault] != ':' ||
		len(p.diags) == 0 {
		return
	}
	last := p.diags[len(p.diags)-1]
	if last.Pos < from || p.quiet {
		return
	}
	tok := p.tok
	p.tok.kind, p.failed = tColon, false
	p.diags = p.diags[:len(p.diags)-1]
	if !p.probeInBlock(from) {
		p.diags = append(p.diags, last)
		p.tok, p.failed = tok, true
	}
}

// declaresHere reports whether a declaration begins at the token: a word of a type or storage,
// followed by no operator.
func (p *parser) declaresHere() bool {
	c := p.at(p.space(int(p.tok.to)))
	return classes[c]&cLetter != 0 || c == '*' || c == '{'
}

func (p *parser) ifStatement() (Stmt, bool) {
	s := &If{Span: Span{From: p.tok.from}}
	if !p.enter() {
		return nil, true
	}
	defer p.leave()
	p.next()
	if p.tok.kind != tLParen {
		p.fail(IfParen, "the condition of an if must be in parentheses", "if (condition) { ... }")
		return nil, true
	}
	open := p.tok
	p.nest++
	p.next()
	s.Cond = p.expr()
	p.close(tRParen, open)
	s.Then = p.branch()
	if !p.failed && p.is("else") {
		p.next()
		if p.is("if") {
			from := p.tok.from
			inner, _ := p.ifStatement()
			if !p.failed {
				s.Else = &Block{Span: p.span(from), List: []Stmt{inner}}
			}
		} else {
			s.Else = p.branch()
		}
	}
	s.Span = p.span(s.From)
	if p.failed {
		return nil, true
	}
	return s, true
}

// branch reads the part after a condition or else: a block, or one statement with its semicolon.
func (p *parser) branch() *Block {
	if p.failed {
		return nil
	}
	from := p.tok.from
	switch p.tok.kind {
	case tLBrace:
		b := p.block()
		if !p.failed && p.tok.kind == tRBrace && b.To == p.tok.to && b.To > p.tok.from {
			p.next()
		}
		return b
	case tSemi:
		p.next()
		return &Block{Span: p.span(from)}
	case tRBrace, tEOF:
		p.fail(ExpectedStatement, "expected a statement", "")
		return nil
	}
	if !p.enter() {
		return nil
	}
	defer p.leave()
	s, ended := p.statement()
	if !p.failed && !ended {
		p.endStatement(int(from))
	}
	if p.failed || s == nil {
		return nil
	}
	return &Block{Span: s.At(), List: []Stmt{s}}
}
