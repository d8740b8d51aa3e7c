package syntax

import (
	"strings"
)

// Every function in this file leaves p.height at the height of its result, so that no tree exceeds
// maxHeight. After a failure results are meaningless, but never nil.

// expr reads an expression with commas.
func (p *parser) expr() Expr {
	x := p.assign()
	for p.tok.kind == tComma {
		h := p.height
		p.next()
		y := p.assign()
		p.grow(max(h, p.height))
		x = &Binary{p.around(x, y), Comma, x, y}
	}
	return x
}

// around returns the span of two expressions and everything between them.
func (p *parser) around(x, y Expr) Span { return Span{x.At().From, max(y.At().To, x.At().To)} }

// assign reads an expression without commas.
func (p *parser) assign() Expr {
	if !p.enter() {
		return &Int{}
	}
	defer p.leave()
	x := p.cond()
	op, ok := assignOp(p.tok.kind)
	if !ok {
		return x
	}
	h := p.height
	switch {
	case !assignable(x):
		p.notAssignable(x)
	case op != Set:
		if _, agg := x.(*Aggregation); agg {
			p.fail(
				AggregationOp, p.what()+" is not allowed on an aggregation",
				"@ = sum(value) adds a value",
			)
		}
	}
	p.next()
	y := p.assign()
	p.grow(max(h, p.height))
	return &Assign{p.around(x, y), op, x, y}
}

// assignable reports whether an expression has a form that can be assigned to.
func assignable(x Expr) bool {
	switch x := x.(type) {
	case *Ident, *Macro, *Aggregation, *Index, *Member:
		return true
	case *Unary:
		return x.Op == Deref
	}
	return false
}

func (p *parser) notAssignable(x Expr) {
	at, hint := x.At(), "assign to a variable, a member, an element or a *pointer"
	switch x := x.(type) {
	case *Binary:
		if assignable(x.Y) && x.Op >= LogOr {
			hint = "put an assignment within an expression in parentheses"
		}
	case *Cond:
		hint = "put an assignment within an expression in parentheses"
	case *Call:
		hint = "@ = " + x.Func.Text + "(...) adds to an aggregation"
	}
	p.failAt(NotAssignable, int(at.From), int(at.To), "expression is not assignable", hint)
}

// cond reads an expression without commas and assignments.
func (p *parser) cond() Expr {
	x := p.binary(bindLogOr)
	if p.tok.kind != tQuest {
		return x
	}
	h := p.height
	if !p.enter() {
		return x
	}
	defer p.leave()
	quest := p.tok
	p.next()
	p.nest++
	then := p.expr()
	p.nest--
	h = max(h, p.height)
	if p.tok.kind != tColon {
		p.failAt(
			ExpectedColon, int(quest.from), int(quest.to), "missing : after ?",
			"condition ? value : value",
		)
	}
	p.next()
	other := p.cond()
	p.grow(max(h, p.height))
	return &Cond{p.around(x, other), x, then, other}
}

// binary reads operators of precedence bind or higher.
func (p *parser) binary(bind uint8) Expr {
	x := p.unary()
	for {
		op := binaryOp(p.tok.kind)
		if ops[op].bind < bind || op <= Comma {
			return x
		}
		if op == Div && p.predicate && p.endsPredicate(int(p.tok.to)) {
			return x
		}
		h := p.height
		p.next()
		y := p.binary(ops[op].bind + 1)
		p.grow(max(h, p.height))
		x = &Binary{p.around(x, y), op, x, y}
	}
}

// endsPredicate reports whether a slash before off ends a predicate: no value begins at off.
func (p *parser) endsPredicate(off int) bool {
	quiet := p.quiet
	p.quiet = true
	c := p.at(p.space(off))
	p.quiet = quiet
	return c == '{' || c == ';' || c == 0
}

// unary reads an operand with the operators before and after it.
func (p *parser) unary() Expr {
	from := p.tok.from
	op := Set
	switch p.tok.kind {
	case tPlus:
		op = Plus
	case tMinus:
		op = Neg
	case tNot:
		op = Not
	case tTilde:
		op = BitNot
	case tStar:
		op = Deref
	case tAnd:
		op = Addr
	case tInc, tDec:
		return p.stepBefore()
	case tLParen:
		if p.castAhead() {
			return p.cast()
		}
		return p.postfix()
	case tWord:
		switch p.str() {
		case "sizeof":
			return p.sizeOf()
		case "stringof":
			if !p.enter() {
				return &Int{}
			}
			defer p.leave()
			p.next()
			x := p.unary()
			p.grow(p.height)
			return &StringOf{Span{from, x.At().To}, x}
		}
		return p.postfix()
	default:
		return p.postfix()
	}
	if !p.enter() {
		return &Int{}
	}
	defer p.leave()
	p.next()
	x := p.unary()
	p.grow(p.height)
	return &Unary{Span{from, x.At().To}, op, x}
}

func (p *parser) stepBefore() Expr {
	from, op := p.tok.from, Add
	if p.tok.kind == tDec {
		op = Sub
	}
	if !p.enter() {
		return &Int{}
	}
	defer p.leave()
	p.next()
	x := p.unary()
	p.steps(x)
	p.grow(p.height)
	return &Step{Span{from, x.At().To}, op, x, false}
}

// steps fails if ++ or -- can't change the expression.
func (p *parser) steps(x Expr) {
	at := x.At()
	if _, agg := x.(*Aggregation); agg {
		p.failAt(
			AggregationOp, int(at.From), int(at.To), "++ and -- are not allowed on an aggregation",
			"@ = count() counts",
		)
	} else if !assignable(x) {
		p.notAssignable(x)
	}
}

// castAhead reports whether the current parenthesis contains a type. See Cast.
func (p *parser) castAhead() bool {
	quiet, save, off, last := p.quiet, p.tok, p.off, p.last
	p.quiet = true
	defer func() { p.quiet, p.tok, p.off, p.last = quiet, save, off, last }()
	p.scan()
	if p.tok.kind != tWord {
		return false
	}
	word := p.str()
	switch wordKind(word) {
	case wType:
		return true
	case wName:
	default:
		return false
	}
	known := p.typeName(word)
	p.scan()
	stars := 0
	for p.tok.kind == tStar || p.tok.kind == tWord && isQualifier(p.str()) {
		stars++
		p.scan()
	}
	if known && p.tok.kind == tLBrack || known && p.tok.kind == tLParen && stars > 0 {
		return true
	}
	if p.tok.kind != tRParen {
		return false
	}
	if stars > 0 {
		return true
	}
	p.scan()
	switch p.tok.kind {
	case tInt, tChar, tString, tAgg, tMacro, tLParen, tNot, tTilde:
		return true
	case tWord:
		switch wordKind(p.str()) {
		case wName, wOperand:
			return true
		}
	case tPlus, tMinus, tStar, tAnd, tInc, tDec:
		return known
	}
	return false
}

func (p *parser) cast() Expr {
	from := p.tok.from
	t := p.parenType()
	if !p.enter() {
		return &Int{}
	}
	defer p.leave()
	if p.tok.kind == tEOF || p.tok.kind == tRParen || p.tok.kind == tSemi || p.tok.kind == tComma {
		p.fail(ExpectedExpr, "expected a value after the type", "(type) value")
	}
	x := p.unary()
	p.grow(p.height)
	return &Cast{Span{from, x.At().To}, t, x}
}

// parenType reads "(" Type ")".
func (p *parser) parenType() Type {
	open := p.tok
	p.nest++
	p.next()
	t := p.typeOnly()
	p.close(tRParen, open)
	return t
}

// close requires a closing character. Its diagnostic marks the opening one.
func (p *parser) close(k kind, open token) {
	p.nest--
	if p.tok.kind == k {
		p.next()
		return
	}
	if k == tRBrack {
		p.closeFail(UnclosedBracket, "]", open)
	} else {
		p.closeFail(UnclosedParen, ")", open)
	}
}

func (p *parser) closeFail(code Code, mark string, open token) {
	if p.failed {
		return
	}
	switch p.tok.kind {
	case tWord, tInt, tChar, tString, tAgg, tMacro, tColon, tQuest:
		if p.tok.kind != tColon && strings.IndexByte(p.text[p.last:p.tok.from], '\n') < 0 {
			p.unexpected()
			return
		}
	}
	hint := ""
	switch p.tok.kind {
	case tAssign:
		hint = "use == to compare"
	case tEOF:
	default:
		hint = "close it before " + p.what()
	}
	p.failAt(
		code, int(open.from), int(open.to), "unclosed "+p.text[open.from:open.to]+": missing "+mark,
		hint,
	)
}

func (p *parser) sizeOf() Expr {
	from := p.tok.from
	if !p.enter() {
		return &Int{}
	}
	defer p.leave()
	p.next()
	if p.tok.kind == tLParen {
		save, off, last := p.tok, p.off, p.last
		quiet := p.quiet
		p.quiet = true
		p.scan()
		isType := p.tok.kind == tWord &&
			(wordKind(p.str()) == wType || wordKind(p.str()) == wName && p.typeName(p.str())) ||
			p.tok.kind == tRParen
		if !isType && p.tok.kind == tWord && wordKind(p.str()) == wName { // name *)
			p.scan()
			for p.tok.kind == tStar {
				p.scan()
				isType = p.tok.kind == tRParen
			}
		}
		p.quiet = quiet
		p.tok, p.off, p.last = save, off, last
		if isType {
			t := p.parenType()
			p.height = 1
			return &SizeOf{Span: p.span(from), Type: t}
		}
	}
	x := p.unary()
	p.grow(p.height)
	return &SizeOf{Span: Span{from, x.At().To}, X: x}
}

// postfix reads an operand and the operators after it.
func (p *parser) postfix() Expr {
	from := p.tok.from
	x := p.operand()
	for !p.failed {
		switch p.tok.kind {
		case tLBrack:
			if _, agg := x.(*Aggregation); agg {
				d := p.fail(AggregationOp, "an aggregation can have only one list of keys",
					"@[first, second]")
				d.Tag = "D_AGG_MDIM"
				return x
			}
			h := p.height
			keys := p.keys()
			p.grow(max(h, p.height))
			x = &Index{p.span(from), x, keys}
		case tLParen:
			p.fail(NotCallable, "expression is not callable", "only a name is: name(...)")
			return x
		case tDot, tArrow:
			arrow := p.tok.kind == tArrow
			p.next()
			name := p.member()
			p.grow(p.height)
			x = &Member{p.span(from), x, name, arrow}
		case tInc, tDec:
			op := Add
			if p.tok.kind == tDec {
				op = Sub
			}
			p.steps(x)
			p.next()
			p.grow(p.height)
			x = &Step{p.span(from), op, x, true}
		default:
			return x
		}
	}
	return x
}

// member reads a name after . or ->. Every word is valid, because members of kernel structs may
// have names that are keywords of D.
func (p *parser) member() Name {
	n := Name{Span: Span{p.tok.from, p.tok.to}}
	switch {
	case p.failed:
	case p.tok.kind == tWord && strings.IndexByte(p.str(), '`') < 0:
		n.Text = p.str()
		p.next()
	case p.tok.kind == tMacro:
		n.Text = p.str()
		if p.mode.Macros != nil {
			n.Text, _ = p.macro(n.Span)
			if !isName(n.Text) && !p.reported(UnknownMacro, int(n.From)) {
				p.fail(
					ExpectedMember,
					"the value of the macro "+p.what()+", "+shown(n.Text)+", is not a name", "",
				)
			}
		}
		p.next()
	default:
		p.fail(ExpectedMember, "expected the name of a member, found "+p.what(), "")
	}
	return n
}

// keys reads "[" Expr { "," Expr } "]".
func (p *parser) keys() []Expr {
	open := p.tok
	p.nest++
	p.next()
	if p.tok.kind == tRBrack {
		p.failAt(
			EmptyKeys, int(open.from), int(p.tok.to), "empty list of keys",
			"omit the brackets, or write the keys",
		)
		return nil
	}
	list := p.list()
	p.close(tRBrack, open)
	return list
}

// list reads Expr { "," Expr } and leaves p.height at the greatest height among them.
func (p *parser) list() []Expr {
	var list []Expr
	high := 0
	for !p.failed {
		list = append(list, p.assign())
		high = max(high, p.height)
		if !p.got(tComma) {
			break
		}
	}
	p.height = high
	return list
}
