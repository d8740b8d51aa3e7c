package syntax

import (
	"strings"
)

// operand reads a name, a literal, an aggregation, a call, or an expression in parentheses.
func (p *parser) operand() Expr {
	at := Span{p.tok.from, p.tok.to}
	p.height = 1
	switch p.tok.kind {
	case tWord:
		return p.named(at)
	case tInt:
		x := p.integer(at)
		p.next()
		return x
	case tString:
		_, s, _ := p.quoted(int(at.From), true)
		p.next()
		return &String{at, s}
	case tChar:
		x := p.char(at)
		p.next()
		return x
	case tAgg:
		x := &Aggregation{Span: at, Name: p.text[at.From+1 : at.To]}
		p.next()
		if p.tok.kind == tLBrack {
			x.Keys = p.keys()
			x.Span = p.span(at.From)
			p.grow(p.height)
		}
		return x
	case tMacro:
		if p.mode.Macros == nil {
			name := strings.TrimPrefix(p.str(), "$")
			name, quoted := strings.CutPrefix(name, "$")
			p.next()
			return &Macro{at, name, quoted}
		}
		value, quoted := p.macro(at)
		p.next()
		return p.meant(at, value, quoted)
	case tLParen:
		return p.paren()
	}
	switch p.tok.kind {
	case tRBrace, tSemi, tEOF, tRParen, tRBrack, tComma:
		p.fail(ExpectedExpr, "expected a value before "+p.what(), "")
	case tLBrace:
		p.fail(ExpectedExpr, "expected a value, found a block", "")
	case tAssign, tEq:
		p.fail(ExpectedExpr, "expected a value before "+p.what(), "")
	default:
		hint := ""
		if strings.HasSuffix(p.text[:p.tok.to], "<<<") { // SystemTap's aggregation
			hint = "an aggregation is assigned: @NAME[KEY] = count(), or sum(X)"
		}
		p.fail(ExpectedExpr, "expected a value, found "+p.what(), hint)
	}
	return &Int{Span: at}
}

func (p *parser) paren() Expr {
	open := p.tok
	if !p.enter() {
		return &Int{}
	}
	defer p.leave()
	p.nest++
	p.next()
	x := p.expr()
	p.close(tRParen, open)
	widen(x, p.span(open.from))
	return x
}

// widen sets the span of an expression to that of the parentheses around it.
func widen(x Expr, at Span) {
	switch x := x.(type) {
	case *Ident:
		x.Span = at
	case *Macro:
		x.Span = at
	case *Int:
		x.Span = at
	case *Char:
		x.Span = at
	case *String:
		x.Span = at
	case *Aggregation:
		x.Span = at
	case *Index:
		x.Span = at
	case *Member:
		x.Span = at
	case *Call:
		x.Span = at
	case *Unary:
		x.Span = at
	case *Step:
		x.Span = at
	case *Binary:
		x.Span = at
	case *Assign:
		x.Span = at
	case *Cond:
		x.Span = at
	case *Cast:
		x.Span = at
	case *SizeOf:
		x.Span = at
	case *StringOf:
		x.Span = at
	case *OffsetOf:
		x.Span = at
	case *Xlate:
		x.Span = at
	}
}

// named reads an operand that begins with a word.
func (p *parser) named(at Span) Expr {
	word := p.str()
	switch wordKind(word) {
	case wOperand:
		switch word {
		case "self", "this":
			return p.scoped(at, word)
		case "offsetof":
			return p.offsetOf(at)
		case "xlate":
			return p.xlate(at)
		}
		return p.unary() // sizeof, stringof: an operator is allowed where an operand is
	case wType:
		p.fail(
			ExpectedExpr, "expected a value, found the type word "+word,
			"write a cast as (type) value, and a size as sizeof (type)",
		)
		return &Int{Span: at}
	case wReserved, wStorage:
		if word == "return" && p.at(p.space(p.off)) == '(' {
			break // an action: the return value of a traced function
		}
		p.fail(ReservedWord, word+" is reserved and can't be a name", "")
		return &Int{Span: at}
	}
	p.next()
	if p.tok.kind == tLParen && !p.failed {
		return p.call(at, word)
	}
	return ident(at, word)
}

// ident makes an identifier of a word that may contain backticks.
func ident(at Span, word string) *Ident {
	if tick := strings.LastIndexByte(word, '`'); tick >= 0 {
		return &Ident{Span: at, Scope: ScopeKernel, Module: word[:tick], Name: word[tick+1:]}
	}
	return &Ident{Span: at, Name: word}
}

func (p *parser) call(at Span, word string) Expr {
	if strings.IndexByte(word, '`') >= 0 {
		p.failAt(
			NotCallable, int(at.From), int(at.To), "kernel functions can't be called",
			"only D's subroutines and actions can",
		)
		return &Int{Span: at}
	}
	open := p.tok
	if !p.enter() {
		return &Int{}
	}
	defer p.leave()
	p.nest++
	p.next()
	x := &Call{Func: Name{at, word}}
	p.height = 0
	if p.tok.kind != tRParen {
		x.Args = p.list()
	}
	p.close(tRParen, open)
	x.Span = p.span(at.From)
	p.grow(p.height)
	return x
}

// scoped reads self->name and this->name.
func (p *parser) scoped(at Span, word string) Expr {
	scope := ScopeSelf
	if word == "this" {
		scope = ScopeThis
	}
	p.next()
	if p.tok.kind != tArrow {
		p.failAt(
			BareScope, int(at.From), int(at.To), word+" is not a variable", "write "+word+"->name",
		)
		return &Int{Span: at}
	}
	p.next()
	name := p.member()
	return &Ident{Span: p.span(at.From), Scope: scope, Name: name.Text}
}

func (p *parser) offsetOf(at Span) Expr {
	const form = "offsetof(struct tag, member)"
	p.next()
	if p.tok.kind != tLParen {
		p.fail(BadOffsetOf, "expected ( after offsetof", form)
		return &Int{Span: at}
	}
	open := p.tok
	p.nest++
	p.next()
	x := &OffsetOf{Type: p.typeOnly()}
	if p.tok.kind != tComma {
		p.fail(BadOffsetOf, "expected a comma after the type of offsetof", form)
	}
	for !p.failed {
		p.next()
		x.Path = append(x.Path, p.member())
		if p.tok.kind != tDot {
			break
		}
	}
	p.close(tRParen, open)
	x.Span = p.span(at.From)
	return x
}

func (p *parser) xlate(at Span) Expr {
	const form = "xlate <type> (value)"
	p.next()
	if p.tok.kind != tLt {
		p.fail(BadXlate, "expected < after xlate", form)
		return &Int{Span: at}
	}
	p.next()
	t := p.typeOnly()
	if p.tok.kind != tGt {
		p.fail(BadXlate, "expected > after the type of xlate", form)
	}
	p.next()
	if p.tok.kind != tLParen {
		p.fail(BadXlate, "expected ( after the type of xlate", form)
	}
	if p.failed {
		return &Int{Span: at}
	}
	x := p.paren()
	p.grow(p.height)
	return &Xlate{p.span(at.From), t, x}
}

// char returns the character constant at a span.
func (p *parser) char(at Span) *Char {
	_, s, _ := p.quoted(int(at.From), true)
	x := &Char{Span: at, Text: s}
	switch {
	case s == "":
		p.report(
			EmptyChar, int(at.From), int(at.To), "empty character constant",
			"the zero byte is '\\0'",
		)
	case len(s) > 8:
		p.report(
			LongChar, int(at.From), int(at.To),
			"a character constant of more than eight characters", "write text in \"...\"",
		)
	case len(s) == 1:
		x.Value = int64(int8(s[0]))
	default:
		for i := range len(s) {
			x.Value = x.Value<<8 | int64(s[i])
		}
	}
	return x
}

// meant returns an expression for the value of a macro.
func (p *parser) meant(at Span, value string, quoted bool) Expr {
	digits := strings.TrimLeft(value, "+-")
	switch {
	case quoted:
		return &String{at, value}
	case isName(value) && wordKind(value) == wName:
		return ident(at, value)
	case len(value)-len(digits) <= 1 && digits != "" && classes[digits[0]]&cDigit != 0 &&
		isWord(digits):
		inner := &parser{text: digits}
		n := inner.integer(Span{0, int32(len(digits))})
		if len(inner.diags) > 0 {
			break
		}
		n.Span = at
		if value[0] == '-' {
			return &Unary{at, Neg, n}
		}
		return n
	}
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	return &String{at, value}
}

// isWord reports whether a text consists of letters and digits, and is not empty.
func isWord(s string) bool {
	for i := 0; i < len(s); i++ {
		if classes[s[i]]&(cLetter|cDigit) == 0 {
			return false
		}
	}
	return s != ""
}

func isName(s string) bool { return isWord(s) && classes[s[0]]&cDigit == 0 }
