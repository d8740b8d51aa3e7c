package bpftrace

import (
	"strconv"

	"culprit/lang/syntax"
)

// assignments are the assigning signs and their operators.
//
// table: sign to operator
var assignments = map[string]syntax.Op{
	"=": syntax.Set, "+=": syntax.Add, "-=": syntax.Sub, "*=": syntax.Mul, "/=": syntax.Div,
	"%=": syntax.Mod, "&=": syntax.And, "|=": syntax.Or, "^=": syntax.Xor, "<<=": syntax.Shl,
	">>=": syntax.Shr,
}

// operators are the binary operators with their precedence, as in C.
//
// table: sign to operator and precedence
var operators = map[string]struct {
	op   syntax.Op
	bind int
}{
	"||": {syntax.LogOr, 1}, "&&": {syntax.LogAnd, 2}, "|": {syntax.Or, 3}, "^": {syntax.Xor, 4},
	"&": {syntax.And, 5}, "==": {syntax.Eq, 6}, "!=": {syntax.Ne, 6}, "<": {syntax.Lt, 7},
	"<=": {syntax.Le, 7}, ">": {syntax.Gt, 7}, ">=": {syntax.Ge, 7}, "<<": {syntax.Shl, 8},
	">>": {syntax.Shr, 8}, "+": {syntax.Add, 9}, "-": {syntax.Sub, 9}, "*": {syntax.Mul, 10},
	"/": {syntax.Div, 10}, "%": {syntax.Mod, 10},
}

// expr parses an expression or an assignment. It never returns nil.
func (p *parser) expr() syntax.Expr {
	if !p.enter() {
		return &syntax.Int{}
	}
	defer p.leave()
	from := p.tok.from
	x := p.cond()
	if p.tok.kind != tSign {
		return x
	}
	op, ok := assignments[p.tok.text]
	if !ok {
		return x
	}
	if id, ok := x.(*syntax.Ident); ok && id.Name == "_" && p.tok.text == "=" {
		p.next() // _ = EXPRESSION: the value is not used
		return p.expr()
	}
	switch x.(type) {
	case *syntax.Macro, *syntax.Aggregation:
	default:
		p.fail("only variables and maps can be assigned to", assignable(x))
		return x
	}
	p.next()
	y := p.expr()
	return &syntax.Assign{Span: p.span(from), Op: op, X: x, Y: y}
}

func (p *parser) cond() syntax.Expr {
	from := p.tok.from
	x := p.binary(1)
	if !p.got("?") {
		return x
	}
	a := p.expr()
	if p.failed || !p.want(":", "between the values of ?") {
		return x
	}
	if !p.enter() {
		return x
	}
	defer p.leave()
	b := p.cond()
	return &syntax.Cond{Span: p.span(from), If: x, Then: a, Else: b}
}

// assignable returns a hint for an expression that can't be assigned to: the variables of D.
func assignable(x syntax.Expr) string {
	switch x := x.(type) {
	case *syntax.Ident:
		if unused := builtinNames[x.Name]; !unused {
			return "write $" + x.Name + " = ..., or @" + x.Name + " = ... to keep it; == compares"
		}
	case *syntax.Member:
		of, ok := x.X.(*syntax.Ident)
		if ok && of.Name == "self" {
			return "a variable of the thread is @" + x.Name.Text + "[tid]"
		} else if ok && of.Name == "this" {
			return "a variable of the clause is $" + x.Name.Text
		}
	}
	return "write $name = ... or @name = ...; == compares"
}

// builtinNames are names that can't be those of new variables.
//
// table: name to true
var builtinNames = map[string]bool{
	"pid": true, "tid": true, "comm": true, "cpu": true, "uid": true, "gid": true, "nsecs": true,
	"func": true, "probe": true, "retval": true, "args": true, "curtask": true, "cgroup": true,
}

func (p *parser) binary(bind int) syntax.Expr {
	from := p.tok.from
	x := p.unary()
	for !p.failed && p.tok.kind == tSign {
		o, ok := operators[p.tok.text]
		if !ok || o.bind < bind || p.tok.text == "/" && p.endsPredicate() {
			break
		}
		p.next()
		y := p.binary(o.bind + 1)
		x = &syntax.Binary{Span: p.span(from), Op: o.op, X: x, Y: y}
	}
	return x
}

// endsPredicate reports whether the current / ends a predicate: { follows, which begins no operand.
func (p *parser) endsPredicate() bool {
	next := p.peek()
	return next.kind == tSign && next.text == "{"
}

func (p *parser) unary() syntax.Expr {
	if !p.enter() {
		return &syntax.Int{}
	}
	defer p.leave()
	from := p.tok.from
	if p.tok.kind != tSign {
		return p.postfix()
	}
	var op syntax.Op
	switch p.tok.text {
	case "!":
		op = syntax.Not
	case "~":
		op = syntax.BitNot
	case "-":
		op = syntax.Neg
	case "+":
		op = syntax.Plus
	case "*":
		op = syntax.Deref
	case "&":
		op = syntax.Addr
	case "++", "--":
		sign := syntax.Add
		if p.tok.text == "--" {
			sign = syntax.Sub
		}
		p.next()
		return p.stepped(&syntax.Step{Span: p.span(from), Op: sign, X: p.unary()})
	case "(":
		if p.typeAhead() {
			p.next()
			t := p.typeName()
			if p.failed || !p.want(")", "after the type") {
				return &syntax.Int{}
			}
			x := p.unary()
			return &syntax.Cast{Span: p.span(from), Type: t, X: x}
		}
		return p.postfix()
	default:
		return p.postfix()
	}
	p.next()
	x := p.unary()
	return &syntax.Unary{Span: p.span(from), Op: op, X: x}
}

// stepped checks the operand of ++ and --.
func (p *parser) stepped(s *syntax.Step) syntax.Expr {
	switch s.X.(type) {
	case *syntax.Macro, *syntax.Aggregation:
	default:
		p.fail("++ and -- change only variables and maps", "write $name++ or @name++")
	}
	return s
}

func (p *parser) postfix() syntax.Expr {
	from := p.tok.from
	x := p.operand()
	for !p.failed && p.tok.kind == tSign {
		switch p.tok.text {
		case ".", "->":
			arrow := p.tok.text == "->"
			p.next()
			name := syntax.Name{Text: p.tok.text}
			name.Span = syntax.Span{From: int32(p.tok.from), To: int32(p.tok.to)}
			if p.tok.kind == tInt {
				name.Text = strconv.FormatUint(p.tok.value, 10)
			} else if p.tok.kind != tWord {
				p.fail("expected the name of a field, not "+p.found(), "")
				return x
			}
			p.next()
			x = &syntax.Member{Span: p.span(from), X: x, Name: name, Arrow: arrow}
		case "[":
			keys := p.list("[", "]")
			x = &syntax.Index{Span: p.span(from), X: x, Keys: keys}
		case "++", "--":
			op := syntax.Add
			if p.tok.text == "--" {
				op = syntax.Sub
			}
			p.next()
			x = p.stepped(&syntax.Step{Span: p.span(from), Op: op, X: x, Post: true})
		default:
			return x
		}
	}
	return x
}

// list parses expressions between brackets.
func (p *parser) list(open, end string) []syntax.Expr {
	p.want(open, "")
	var out []syntax.Expr
	if p.got(end) {
		return out
	}
	for !p.failed {
		out = append(out, p.expr())
		if !p.got(",") {
			break
		}
	}
	if !p.failed {
		p.want(end, "after the list")
	}
	return out
}

func (p *parser) operand() syntax.Expr {
	t, from := p.tok, p.tok.from
	switch t.kind {
	case tInt:
		p.next()
		return &syntax.Int{Span: p.span(from), Value: t.value, Long: 1, Unsigned: t.value >= 1<<63}
	case tString:
		p.next()
		return &syntax.String{Span: p.span(from), Value: t.text}
	case tVar:
		p.next()
		return &syntax.Macro{Span: p.span(from), Name: t.text}
	case tArg:
		p.next()
		return p.positional(from, t.text)
	case tMap:
		p.next()
		m := &syntax.Aggregation{Name: t.text}
		if p.is("[") {
			m.Keys = p.list("[", "]")
		}
		m.Span = p.span(from)
		return m
	case tWord:
		return p.word()
	case tSign:
		if t.text == "(" {
			p.next()
			x := p.expr()
			if p.is(",") {
				all := []syntax.Expr{x}
				for p.got(",") && !p.failed {
					all = append(all, p.expr())
				}
				x = &syntax.Call{Func: syntax.Name{Text: tupleName}, Args: all}
			}
			if !p.failed {
				p.want(")", "after the expression")
			}
			if c, ok := x.(*syntax.Call); ok && c.Func.Text == tupleName {
				c.Span = p.span(from)
			}
			return x
		}
	}
	p.fail("expected an expression, not "+p.found(), "")
	return &syntax.Int{Span: p.span(from)}
}

// positional returns the value of $1 or $#: a number if it is one, else a string.
func (p *parser) positional(from int, name string) syntax.Expr {
	if name == "#" {
		return &syntax.Int{Span: p.span(from), Value: uint64(len(p.args)), Long: 1}
	}
	text := p.argument(name)
	if p.textual { // str($1)
		p.textual = false
		if p.argumentNumber(name) > len(p.args) {
			text = ""
		}
	} else if n, err := strconv.ParseInt(text, 0, 64); err == nil {
		if n < 0 {
			return &syntax.Unary{Span: p.span(from), Op: syntax.Neg,
				X: &syntax.Int{Span: p.span(from), Value: uint64(-n), Long: 1}}
		}
		return &syntax.Int{Span: p.span(from), Value: uint64(n), Long: 1}
	}
	return &syntax.String{Span: p.span(from), Value: text}
}

// word parses a name, a call, sizeof, offsetof or the use of a macro.
func (p *parser) word() syntax.Expr {
	t, from := p.tok, p.tok.from
	if body, ok := p.macros[t.text]; ok {
		return p.macro(t, body)
	}
	p.next()
	if !p.is("(") {
		return &syntax.Ident{Span: p.span(from), Name: t.text}
	}
	if t.text == "sizeof" || t.text == "offsetof" {
		return p.sizeOf(t)
	}
	p.textual = t.text == "str" && p.peek().kind == tArg && p.peek().text != "#"
	args := p.list("(", ")")
	if t.text == "getopt" && !p.failed {
		return p.getopt(p.span(from), args)
	}
	name := syntax.Name{Text: t.text, Span: syntax.Span{From: int32(t.from), To: int32(t.to)}}
	return &syntax.Call{Span: p.span(from), Func: name, Args: args}
}

// sizeOf parses sizeof(TYPE), sizeof(EXPR) and offsetof(TYPE, FIELD).
func (p *parser) sizeOf(word token) syntax.Expr {
	from := word.from
	isType := p.typeAhead()
	if _, ok := typeWords[p.peek().text]; ok {
		isType = true
	}
	p.next()
	if word.text == "sizeof" {
		s := &syntax.SizeOf{}
		if isType {
			s.Type = p.typeName()
		} else {
			s.X = p.expr()
		}
		if !p.failed {
			p.want(")", "after sizeof")
		}
		s.Span = p.span(from)
		return s
	}
	o := &syntax.OffsetOf{Type: p.typeName()}
	if p.failed || !p.want(",", "after the type") {
		return o
	}
	for !p.failed {
		name := syntax.Name{Text: p.tok.text}
		name.Span = syntax.Span{From: int32(p.tok.from), To: int32(p.tok.to)}
		if p.tok.kind != tWord {
			p.fail("expected the name of a field, not "+p.found(), "")
			break
		}
		o.Path = append(o.Path, name)
		p.next()
		if !p.got(".") {
			break
		}
	}
	if !p.failed {
		p.want(")", "after offsetof")
	}
	o.Span = p.span(from)
	return o
}

// macro parses the text of a macro in place of its name. All its nodes have the span of the name.
func (p *parser) macro(use token, body string) syntax.Expr {
	*p.expanded++
	if !p.enter() || *p.expanded > mostExpanded {
		p.leave()
		p.report(TooLarge, use.from, use.to, "the macros expand to too much text", "")
		p.next()
		return &syntax.Int{}
	}
	defer p.leave()
	p.next()
	at := syntax.Span{From: int32(use.from), To: int32(use.to)}
	mark := at
	inner := &parser{
		text: body, args: p.args, options: p.options, macros: p.macros, depth: p.depth, within: &mark,
		expanded: p.expanded,
	}
	inner.next()
	x := inner.expr()
	if mark.From < 0 || inner.failed || inner.tok.kind != tEOF {
		p.report(BadSyntax, use.from, use.to,
			"the macro "+use.text+" is not an expression: "+shown(body), "")
		return &syntax.Int{Span: at}
	}
	syntax.Walk(x, func(n syntax.Node) bool {
		if n, ok := n.(interface{ Move(syntax.Span) }); ok {
			n.Move(at)
		}
		return true
	})
	return x
}
