package bpftrace

import (
	"fmt"

	"culprit/lang/syntax"
)

// A macro is statements and a value that replace its calls. Only its parameters refer to what is
// outside of it; its other variables are its own in each call.
//
//	Macro = "macro" name "(" [ Param { "," Param } ] ")" "{" { Stmt } [ Expr ] "}" .
//	Param = "$" name | "@" name | name .
//
// A parameter $x is the variable of the caller, or a new one that is assigned the argument; @x is a
// map of the caller; x is the expression of the argument itself.
type macro struct {
	syntax.Span
	name   string
	params []syntax.Expr // *syntax.Macro, *syntax.Aggregation or *syntax.Ident
	body   []Stmt
	value  syntax.Expr // nil: none
}

// macroItem parses the definition of a macro.
func (p *parser) macroItem() {
	from := p.tok.from
	p.next()
	m := &macro{name: p.tok.text}
	if p.tok.kind != tWord {
		p.fail("expected the name of the macro, not "+p.found(), "write macro name($x) { ... }")
		p.skipBlock()
		return
	}
	p.next()
	m.params = p.list("(", ")")
	for _, x := range m.params {
		switch x := x.(type) {
		case *syntax.Macro, *syntax.Ident:
			continue
		case *syntax.Aggregation:
			if x.Keys == nil {
				continue
			}
		}
		at := x.At()
		p.report(BadSyntax, int(at.From), int(at.To), "expected a parameter: $x, @x or x",
			"write macro name($x) { ... }")
	}
	if p.failed {
		p.skipBlock()
		return
	}
	m.body = p.block()
	if n := len(m.body); n > 0 && p.open {
		if d, ok := m.body[n-1].(*Do); ok {
			if _, assigns := d.X.(*syntax.Assign); !assigns {
				m.body, m.value = m.body[:n-1], d.X
			}
		}
	}
	m.Span = p.span(from)
	if p.defined[m.name] != nil {
		p.report(BadSyntax, from, int(m.To), "the macro "+m.name+" is defined twice", "rename it")
	}
	p.defined[m.name] = m
}

// An expander replaces the calls of macros in a program.
type expander struct {
	p     *parser
	calls int
	depth int
	nodes int // of expressions, in what the macros expand to
}

// Limits of what macros expand to.
const (
	mostNestedMacros = 20
	mostNodes        = 100_000
)

// full counts a node of an expression, and reports when there are too many.
func (x *expander) full(at syntax.Span) bool {
	if x.nodes++; x.nodes <= mostNodes {
		return false
	}
	x.p.report(TooLarge, int(at.From), int(at.To), "the macros expand to too much text", "")
	return true
}

// expand replaces the calls of macros in all clauses.
func (p *parser) expand(prog *Program) {
	if len(p.defined) == 0 {
		return
	}
	x := &expander{p: p}
	for _, c := range prog.Clauses {
		if c.Predicate != nil {
			c.Predicate = x.alone(c.Predicate, bindings{}, "a predicate")
		}
		c.Body = x.list(c.Body, bindings{})
	}
}

// bindings are what the names in a macro's body refer to.
type bindings struct {
	in     string // prefix of the macro's own variables; "": outside of macros
	vars   map[string]string
	maps   map[string]string
	values map[string]syntax.Expr
}

// list expands statements.
func (x *expander) list(list []Stmt, b bindings) []Stmt {
	var out []Stmt
	for _, s := range list {
		switch s := s.(type) {
		case *Do:
			e := x.expr(s.X, b, &out)
			if e != nil {
				out = append(out, &Do{Span: s.Span, X: e})
			}
		case *If:
			cond := x.value(s.Cond, b, &out)
			out = append(out, &If{
				Span: s.Span, Cond: cond, Then: x.list(s.Then, b), Else: x.list(s.Else, b),
			})
		case *Repeat:
			cond := x.alone(s.X, b, "a condition of a loop")
			out = append(out, &Repeat{
				Span: s.Span, While: s.While, X: cond, Body: x.list(s.Body, b),
			})
		case *For:
			f := &For{Span: s.Span, Name: x.variable(s.Name, b), X: x.value(s.X, b, &out)}
			if s.End != nil {
				f.End = x.value(s.End, b, &out)
			}
			f.Body = x.list(s.Body, b)
			out = append(out, f)
		default:
			out = append(out, s)
		}
	}
	return out
}

// alone expands an expression before which no statements can run.
func (x *expander) alone(e syntax.Expr, b bindings, where string) syntax.Expr {
	var before []Stmt
	e = x.value(e, b, &before)
	if len(before) > 0 {
		at := before[0].At()
		x.p.report(Unsupported, int(at.From), int(at.To),
			"a macro with statements, or with a $ parameter that is no variable, can't be in "+
				where,
			"assign its value to a variable before")
	}
	return e
}

// value expands an expression whose value is needed.
func (x *expander) value(e syntax.Expr, b bindings, before *[]Stmt) syntax.Expr {
	at := e.At()
	if e = x.expr(e, b, before); e == nil {
		x.p.report(BadCall, int(at.From), int(at.To), "the macro has no value",
			"end it with an expression without ;")
		return &syntax.Int{Span: at}
	}
	return e
}

// variable returns the variable that $name refers to.
func (x *expander) variable(name string, b bindings) string {
	if to, ok := b.vars[name]; ok {
		return to
	}
	if b.in == "" {
		return name
	}
	return b.in + name
}

// expr returns a copy of an expression with macros expanded. Their statements are appended to
// before. It returns nil for a call of a macro without a value.
func (x *expander) expr(e syntax.Expr, b bindings, before *[]Stmt) syntax.Expr {
	value := func(e syntax.Expr) syntax.Expr { return x.value(e, b, before) }
	values := func(list []syntax.Expr) (out []syntax.Expr) {
		for _, e := range list {
			out = append(out, value(e))
		}
		return out
	}
	if x.full(e.At()) {
		return &syntax.Int{Span: e.At()}
	}
	switch e := e.(type) {
	case *syntax.Macro:
		return &syntax.Macro{Span: e.Span, Name: x.variable(e.Name, b)}
	case *syntax.Aggregation:
		name, ok := b.maps[e.Name]
		if !ok {
			name = e.Name
			if b.in != "" {
				x.p.report(BadMap, int(e.From), int(e.To),
					"@"+e.Name+" is not a parameter of the macro", "add the parameter @"+e.Name)
			}
		}
		return &syntax.Aggregation{Span: e.Span, Name: name, Keys: values(e.Keys)}
	case *syntax.Ident:
		if v, ok := b.values[e.Name]; ok {
			syntax.Walk(v, func(syntax.Node) bool { return !x.full(e.Span) })
			return v
		}
		if m := x.p.defined[e.Name]; m != nil && len(m.params) == 0 {
			return x.call(m, &syntax.Call{Span: e.Span}, b, before)
		}
		return e
	case *syntax.Call:
		if m := x.p.defined[e.Func.Text]; m != nil {
			return x.call(m, e, b, before)
		}
		return &syntax.Call{Span: e.Span, Func: e.Func, Args: values(e.Args)}
	case *syntax.Member:
		return &syntax.Member{Span: e.Span, X: value(e.X), Name: e.Name, Arrow: e.Arrow}
	case *syntax.Index:
		return &syntax.Index{Span: e.Span, X: value(e.X), Keys: values(e.Keys)}
	case *syntax.Unary:
		return &syntax.Unary{Span: e.Span, Op: e.Op, X: value(e.X)}
	case *syntax.Step:
		return &syntax.Step{Span: e.Span, Op: e.Op, X: value(e.X), Post: e.Post}
	case *syntax.Binary:
		out := &syntax.Binary{Span: e.Span, Op: e.Op, X: value(e.X)}
		if e.Op == syntax.LogAnd || e.Op == syntax.LogOr {
			out.Y = x.alone(e.Y, b, "&& and ||")
		} else {
			out.Y = value(e.Y)
		}
		return out
	case *syntax.Cond:
		return &syntax.Cond{
			Span: e.Span, If: value(e.If), Then: x.alone(e.Then, b, "?:"),
			Else: x.alone(e.Else, b, "?:"),
		}
	case *syntax.Cast:
		return &syntax.Cast{Span: e.Span, Type: e.Type, X: value(e.X)}
	case *syntax.SizeOf:
		if e.X != nil {
			return &syntax.SizeOf{Span: e.Span, X: value(e.X)}
		}
	case *syntax.Assign:
		return &syntax.Assign{Span: e.Span, Op: e.Op, X: value(e.X), Y: value(e.Y)}
	}
	return e
}

// call replaces a call of a macro.
func (x *expander) call(
	m *macro, e *syntax.Call, outer bindings, before *[]Stmt,
) syntax.Expr {
	from, to := int(e.From), int(e.To)
	x.calls++
	switch {
	case len(e.Args) != len(m.params):
		x.p.report(BadCall, from, to, fmt.Sprintf("the macro %s takes %d arguments, not %d", m.name,
			len(m.params), len(e.Args)), "")
		return &syntax.Int{Span: e.Span}
	case x.depth >= mostNestedMacros || x.calls > mostExpanded:
		x.p.report(TooLarge, from, to, "the macros expand to too much text", "")
		return &syntax.Int{Span: e.Span}
	}
	b := bindings{
		in:   fmt.Sprintf("(%s %d)", m.name, x.calls),
		vars: map[string]string{}, maps: map[string]string{}, values: map[string]syntax.Expr{},
	}
	for i, p := range m.params {
		switch p := p.(type) {
		case *syntax.Macro:
			arg := x.value(e.Args[i], outer, before)
			if v, ok := arg.(*syntax.Macro); ok {
				b.vars[p.Name] = v.Name
				continue
			}
			own := &syntax.Macro{Span: arg.At(), Name: b.in + p.Name}
			*before = append(*before, &Do{Span: arg.At(), X: &syntax.Assign{
				Span: arg.At(), Op: syntax.Set, X: own, Y: arg,
			}})
		case *syntax.Aggregation:
			given, ok := e.Args[i].(*syntax.Aggregation)
			if !ok || given.Keys != nil {
				x.p.report(BadCall, from, to, "the argument for @"+p.Name+" must be a map", "")
				return &syntax.Int{Span: e.Span}
			}
			if m, ok := x.expr(given, outer, before).(*syntax.Aggregation); ok {
				b.maps[p.Name] = m.Name
			}
		case *syntax.Ident:
			b.values[p.Name] = x.value(e.Args[i], outer, before)
		}
	}
	x.depth++
	defer func() { x.depth-- }()
	*before = append(*before, x.list(m.body, b)...)
	if m.value == nil {
		return nil
	}
	return x.expr(m.value, b, before)
}
