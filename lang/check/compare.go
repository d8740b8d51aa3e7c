package check

import (
	"culprit/lang/syntax"
)

// compare returns X op Y for the comparisons. A translated pointer is compared with NULL as the
// pointer that it is made from: args[0] != NULL.
func (c *checker) compare(at syntax.Span, op syntax.Op, x, y value) value {
	x, y = x.behind(y), y.behind(x)
	if x.isString() || y.isString() {
		if !x.textOrNull() || !y.textOrNull() {
			c.fail(at, Incompatible, "D_OP_INCOMPAT", "%s can't be compared with %s", x.t, y.t)
			return value{}
		}
		a, b := c.str(x), c.str(y)
		if s, ok := a.(*Text); ok {
			if r, ok := b.(*Text); ok {
				return number(at, tInt, truthOf(ordered(op, compareText(s.Value, r.Value), true)))
			}
		}
		return value{x: &Binary{typed{at, tInt}, op, a, b}, t: tInt}
	}
	a, aok := x.int()
	b, bok := y.int()
	if aok && bok {
		w := wide(common(a, b))
		p, q := convert(x.x, w), convert(y.x, w)
		if m, ok := p.(*Const); ok {
			if n, ok := q.(*Const); ok {
				d := compareInts(m.Value, n.Value)
				if !w.Signed {
					d = compareUints(m.Value, n.Value)
				}
				return number(at, tInt, truthOf(ordered(op, d, true)))
			}
		}
		return value{x: &Binary{typed{at, tInt}, op, p, q}, t: tInt}
	}
	x, y = x.decay(), y.decay()
	p, pok := x.t.(*Pointer)
	q, qok := y.t.(*Pointer)
	switch {
	case pok && qok && (Same(p.Elem, q.Elem) || isVoid(p.Elem) || isVoid(q.Elem)),
		pok && (bok && isZero(y.x)), qok && (aok && isZero(x.x)):
		return value{
			x: &Binary{typed{at, tInt}, op, convert(x.x, tUlong), convert(y.x, tUlong)},
			t: tInt,
		}
	case pok && bok, qok && aok:
		d := c.fail(at, Incompatible, "D_OP_INCOMPAT", "%s can't be compared with %s", x.t, y.t)
		d.Hint = "cast the pointer: (uintptr_t)"
		return value{}
	}
	c.fail(at, Incompatible, "D_OP_INCOMPAT", "%s can't be compared with %s", x.t, y.t)
	return value{}
}

// behind returns the pointer that a translated pointer is made from, if the other value is zero;
// otherwise the value itself.
func (v value) behind(other value) value {
	if v.xl == nil || other.x == nil || !isZero(other.x) {
		return v
	}
	_, out := v.xl.t.(*Pointer)
	_, in := v.xl.in.t.(*Pointer)
	if !out || !in {
		return v
	}
	return v.xl.in
}

// mixed reports two values of which only one points to memory of the script: their common type
// can't have both spaces.
func (c *checker) mixed(at syntax.Span, x, y value) bool {
	p, pok := x.t.(*Pointer)
	q, qok := y.t.(*Pointer)
	if !pok || !qok || (p.Space == Own) == (q.Space == Own) || isZero(x.x) || isZero(y.x) {
		return false
	}
	c.fail(
		at, MixedMemory, "D_ALLOCA_INCOMPAT",
		"one value points to memory of alloca() or copyin(), the other does not",
	)
	return true
}

func isVoid(t Type) bool { _, ok := t.(VoidType); return ok }

func isZero(x Expr) bool { k, ok := x.(*Const); return ok && k.Value == 0 }

func compareInts(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func compareUints(a, b int64) int {
	switch {
	case uint64(a) < uint64(b):
		return -1
	case uint64(a) > uint64(b):
		return 1
	}
	return 0
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// ordered reports whether a comparison is true for the result d of compare.
func ordered(op syntax.Op, d int, _ bool) bool {
	switch op {
	case syntax.Eq:
		return d == 0
	case syntax.Ne:
		return d != 0
	case syntax.Lt:
		return d < 0
	case syntax.Le:
		return d <= 0
	case syntax.Gt:
		return d > 0
	}
	return d >= 0
}

func (c *checker) cond(e *syntax.Cond) value {
	i := c.truth(e.If, syntax.Set)
	x, y := c.expr(e.Then), c.expr(e.Else)
	if !i.ok() || !x.ok() || !y.ok() {
		return value{}
	}
	if x.act || y.act {
		d := c.fail(e.At(), ActionValue, "D_OP_ACT", "an action in ?:")
		d.Hint = "use if and else, or a clause with a predicate"
		return value{}
	}
	t, a, b := c.either(x, y)
	if t == nil {
		c.fail(
			e.At(), Incompatible, "D_OP_INCOMPAT",
			"the two values of ?: have different types, %s and %s", x.t, y.t,
		)
		return value{}
	}
	if k, ok := i.x.(*Const); ok {
		if k.Value != 0 {
			return value{x: a, t: t}
		}
		return value{x: b, t: t}
	}
	return value{x: &Cond{typed{e.At(), a.Type()}, i.x, a, b}, t: t}
}

// either returns the common type of two values, and both converted to it; nil: there is none.
func (c *checker) either(x, y value) (Type, Expr, Expr) {
	a, aok := x.int()
	b, bok := y.int()
	if aok && bok {
		t := common(a, b)
		return t, convert(x.x, wide(t)), convert(y.x, wide(t))
	}
	if x.isString() && y.textOrNull() || y.isString() && x.textOrNull() ||
		isText(x.t) && isText(y.t) {
		return tString, c.str(x), c.str(y)
	}
	s, sok := x.t.(*Struct)
	r, rok := y.t.(*Struct)
	if sok && rok && Same(s, r) {
		return s, x.x, y.x
	}
	if _, ok := x.t.(StackType); ok && x.t == y.t {
		return x.t, x.x, y.x
	}
	if _, ok := x.t.(SymbolType); ok && x.t == y.t {
		return x.t, x.x, y.x
	}
	x, y = x.decay(), y.decay()
	p, pok := x.t.(*Pointer)
	q, qok := y.t.(*Pointer)
	var t *Pointer
	switch {
	case pok && qok && (Same(p.Elem, q.Elem) || isVoid(q.Elem)):
		t = &Pointer{Elem: p.Elem, Space: p.Space}
		if p.Space != q.Space {
			t.Space = Kernel
		}
	case pok && qok && isVoid(p.Elem):
		t = &Pointer{Elem: q.Elem, Space: q.Space}
		if p.Space != q.Space {
			t.Space = Kernel
		}
	case pok && bok && isZero(y.x):
		t = &Pointer{Elem: p.Elem, Space: p.Space}
	case qok && aok && isZero(x.x):
		t = &Pointer{Elem: q.Elem, Space: q.Space}
	default:
		return nil, nil, nil
	}
	if t.Space == Typed {
		t.Space = Kernel
	}
	return t, convert(x.x, t), convert(y.x, t)
}
