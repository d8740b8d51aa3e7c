package check

import (
	"strconv"

	"culprit/lang/syntax"
)

// str converts a value to a string. NULL is the value of a variable before its first assignment.
func (c *checker) str(v value) Expr {
	if isZero(v.x) {
		return &Const{typed{v.x.Place(), tString}, 0}
	}
	switch t := v.t.(type) {
	case StringType:
		return v.x
	case *Array:
		return &StringOf{typed{v.x.Place(), tString}, v.x, max(0, t.Len)}
	}
	return &StringOf{typed{v.x.Place(), tString}, v.x, 0}
}

// expr checks an expression whose value is used. It may have no value; then its type is void, which
// no operator accepts.
func (c *checker) expr(e syntax.Expr) value { return c.exprAny(e) }

// truth checks an expression used as a condition.
func (c *checker) truth(e syntax.Expr, op syntax.Op) value {
	v := c.expr(e)
	if v.ok() && !v.scalar() {
		c.fail(
			e.At(), NotScalar, "D_OP_SCALAR", "%s requires a number or a pointer, not %s",
			opName(op), v.t,
		)
		return value{}
	}
	return v
}

// opName returns an operator for a message.
func opName(op syntax.Op) string { return "operator " + op.String() }

// constant evaluates a constant expression. t is nil when the expression has a mistake, which was
// reported.
func (c *checker) constant(e syntax.Expr) (n int64, t Type, ok bool) {
	v := c.expr(e)
	if !v.ok() {
		return 0, nil, false
	}
	k, isConst := v.settle().(*Const)
	if _, isInt := v.int(); !isConst || !isInt {
		return 0, v.t, false
	}
	return k.Value, v.t, true
}

// exprAny checks an expression with or without a value. An expression that it can't compile has at
// least one diagnostic: no part of a program is dropped silently.
func (c *checker) exprAny(e syntax.Expr) value {
	v := c.expression(e)
	if !v.ok() && len(c.diags) == 0 {
		c.fail(e.At(), NotUnderstood, "D_UNKNOWN", "the expression can't be compiled")
	}
	return v
}

func (c *checker) expression(e syntax.Expr) value {
	if c.depth > 0 { // nested inlines double the text at each level
		if c.expanded++; c.expanded > mostExpanded {
			if c.expanded == mostExpanded+1 {
				c.fail(
					e.At(), syntax.TooDeep, "",
					"the inlines and translators of this program expand to too much text",
				)
			}
			return value{}
		}
	}
	switch e := e.(type) {
	case *syntax.Int:
		return c.intConstant(e)
	case *syntax.Char:
		return number(e.At(), charType(e), e.Value)
	case *syntax.String:
		return value{x: &Text{typed{e.At(), tString}, e.Value}, t: tString}
	case *syntax.Macro:
		return c.macro(e)
	case *syntax.Ident:
		return c.identifier(e)
	case *syntax.Aggregation:
		d := c.fail(e.At(), AggregationValue, "D_OP_INCOMPAT",
			"an aggregation can't be used as a value")
		d.Hint = "print it with printa()"
		return value{}
	case *syntax.Index:
		return c.index(e)
	case *syntax.Member:
		return c.member(e)
	case *syntax.Call:
		return c.call(e)
	case *syntax.Unary:
		return c.unary(e)
	case *syntax.Step:
		return c.step(e)
	case *syntax.Binary:
		return c.binary(e)
	case *syntax.Assign:
		return c.assign(e)
	case *syntax.Cond:
		return c.cond(e)
	case *syntax.Cast:
		return c.cast(e)
	case *syntax.SizeOf:
		return c.sizeOf(e)
	case *syntax.StringOf:
		return c.stringOf(e)
	case *syntax.OffsetOf:
		return c.offsetOf(e)
	case *syntax.Xlate:
		return c.xlate(e)
	}
	return value{}
}

func charType(e *syntax.Char) *Int {
	if len(e.Text) > 4 {
		return tLong
	}
	return tInt
}

// intConstant returns a number with the smallest type of C that can represent it; a decimal one
// without u is never unsigned.
func (c *checker) intConstant(e *syntax.Int) value {
	decimal := len(e.Text) == 0 || e.Text[0] != '0'
	var t *Int
	switch {
	case e.Long == 0 && !e.Unsigned && e.Value <= 1<<31-1:
		t = tInt
	case e.Long == 0 && (e.Unsigned || !decimal) && e.Value <= 1<<32-1:
		t = tUint
	case !e.Unsigned && e.Value <= 1<<63-1:
		t = tLong
	case e.Unsigned || !decimal:
		t = tUlong
	default:
		d := c.fail(e.At(), syntax.BigInt, "D_INT_OFLOW",
			"the number %d does not fit in a signed type", e.Value)
		d.Hint = "append u"
		return value{}
	}
	return number(e.At(), t, int64(e.Value))
}

func (c *checker) unary(e *syntax.Unary) value {
	switch e.Op {
	case syntax.Deref:
		return c.deref(e)
	case syntax.Addr:
		return c.addr(e)
	case syntax.Not:
		v := c.truth(e.X, e.Op)
		if !v.ok() {
			return value{}
		}
		if k, ok := v.x.(*Const); ok {
			return number(e.At(), tInt, truthOf(k.Value == 0))
		}
		return value{x: &Unary{typed{e.At(), tInt}, e.Op, v.x}, t: tInt}
	}
	v := c.expr(e.X)
	if !v.ok() {
		return value{}
	}
	i, ok := v.int()
	if !ok {
		tag := "D_OP_INT"
		if e.Op != syntax.BitNot {
			tag = "D_OP_ARITH"
		}
		c.fail(e.At(), NotInteger, tag, "%s requires an integer, not %s", opName(e.Op), v.t)
		return value{}
	}
	t := promoted(i)
	x := v.computed(i)
	if k, ok := x.(*Const); ok {
		switch e.Op {
		case syntax.Neg:
			return wideNumber(e.At(), t, -k.Value)
		case syntax.BitNot:
			return wideNumber(e.At(), t, ^k.Value)
		}
	}
	if e.Op == syntax.Plus {
		return value{x: x, t: t}
	}
	return value{x: &Unary{typed{e.At(), wide(t)}, e.Op, x}, t: t}
}

func truthOf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (c *checker) binary(e *syntax.Binary) value {
	switch e.Op {
	case syntax.Comma:
		x, y := c.exprAny(e.X), c.expr(e.Y)
		if !x.ok() || !y.ok() {
			return value{}
		}
		return value{x: &Binary{typed{e.At(), y.x.Type()}, e.Op, x.x, y.x}, t: y.t}
	case syntax.LogAnd, syntax.LogOr, syntax.LogXor:
		x, y := c.truth(e.X, e.Op), c.truth(e.Y, e.Op)
		if !x.ok() || !y.ok() {
			return value{}
		}
		return c.logic(e, x, y)
	}
	x := c.expr(e.X)
	before := len(c.diags)
	y := c.expr(e.Y)
	if x.ok() && y.ok() {
		y = c.operate(e.At(), e.Op, x, y)
	} else {
		y = value{}
	}
	if !y.ok() && x.ok() && x.isString() && len(c.diags) == before+1 {
		c.unquoted(c.diags[before], e.Y)
	}
	return y
}

// unquoted adds to a diagnostic that the right side of a comparison with a string has no quotes.
func (c *checker) unquoted(d *syntax.Diagnostic, y syntax.Expr) {
	text := ""
	switch y := y.(type) {
	case *syntax.Ident:
		text = y.Name
	case *syntax.Char:
		text = y.Text
	}
	if text != "" {
		d.Near, d.Hint = "", "a string has double quotes: "+strconv.Quote(text)
	}
}

func (c *checker) logic(e *syntax.Binary, x, y value) value {
	a, aKnown := x.x.(*Const)
	b, bKnown := y.x.(*Const)
	if aKnown && bKnown {
		p, q := a.Value != 0, b.Value != 0
		return number(
			e.At(),
			tInt,
			truthOf(
				e.Op == syntax.LogAnd && p && q || e.Op == syntax.LogOr && (p || q) ||
					e.Op == syntax.LogXor && p != q,
			),
		)
	}
	return value{x: &Binary{typed{e.At(), tInt}, e.Op, x.x, y.x}, t: tInt}
}
