package check

import (
	"culprit/lang/syntax"
)

// operate returns X op Y.
func (c *checker) operate(at syntax.Span, op syntax.Op, x, y value) value {
	if op >= syntax.Eq && op <= syntax.Ge {
		return c.compare(at, op, x, y)
	}
	if op == syntax.Add || op == syntax.Sub {
		if v, done := c.pointerSum(at, op, x, y); done {
			return v
		}
	}
	a, aok := x.int()
	b, bok := y.int()
	if !aok || !bok {
		tag := "D_OP_INT"
		switch op {
		case syntax.Add, syntax.Sub:
			tag = "D_OP_INCOMPAT"
		case syntax.Mul, syntax.Div:
			tag = "D_OP_ARITH"
		}
		c.fail(at, Incompatible, tag, "%s requires integers, not %s and %s", opName(op), x.t, y.t)
		return value{}
	}
	t := common(a, b)
	if op == syntax.Shl || op == syntax.Shr {
		t = promoted(a)
	}
	w := wide(t)
	p, q := convert(x.x, w), convert(y.x, w)
	if k, ok := q.(*Const); ok && k.Value == 0 && (op == syntax.Div || op == syntax.Mod) {
		c.fail(at, DivisionByZero, "D_DIV_ZERO", "division by zero")
		return value{}
	}
	if m, ok := p.(*Const); ok {
		if n, ok := q.(*Const); ok {
			return wideNumber(at, t, fold(op, m.Value, n.Value, w.Signed))
		}
	}
	return value{x: &Binary{typed{at, w}, op, p, q}, t: t}
}

// fold computes with two 64-bit numbers. y is not 0 in a division.
func fold(op syntax.Op, x, y int64, signed bool) int64 {
	switch op {
	case syntax.Add:
		return x + y
	case syntax.Sub:
		return x - y
	case syntax.Mul:
		return x * y
	case syntax.Div:
		if signed {
			return x / y
		}
		return int64(uint64(x) / uint64(y))
	case syntax.Mod:
		if signed {
			return x % y
		}
		return int64(uint64(x) % uint64(y))
	case syntax.And:
		return x & y
	case syntax.Or:
		return x | y
	case syntax.Xor:
		return x ^ y
	case syntax.Shl:
		return x << (uint64(y) & 63)
	case syntax.Shr:
		if signed {
			return x >> (uint64(y) & 63)
		}
		return int64(uint64(x) >> (uint64(y) & 63))
	}
	return 0
}

// pointerSum returns sums and differences with pointers.
func (c *checker) pointerSum(at syntax.Span, op syntax.Op, x, y value) (value, bool) {
	if x.isString() || y.isString() {
		return c.stringSum(at, op, x, y)
	}
	x, y = x.decay(), y.decay()
	p, pok := x.t.(*Pointer)
	q, qok := y.t.(*Pointer)
	switch {
	case pok && qok && op == syntax.Sub:
		size := c.elemSize(at, p)
		if size == 0 {
			return value{}, true
		}
		if !Same(p.Elem, q.Elem) {
			c.fail(
				at, Incompatible, "D_OP_INCOMPAT", "%s and %s are pointers to different types", x.t,
				y.t,
			)
			return value{}, true
		}
		d := c.operate(
			at, syntax.Sub, value{x: convert(x.x, tLong), t: tLong},
			value{x: convert(y.x, tLong), t: tLong},
		)
		return c.operate(at, syntax.Div, d, number(at, tLong, size)), true
	case pok && qok:
		c.fail(at, Incompatible, "D_OP_INCOMPAT", "can't add two pointers: %s and %s", x.t, y.t)
		return value{}, true
	case qok && op == syntax.Add:
		x, y, p = y, x, q
	case !pok:
		return value{}, false
	}
	n, ok := y.int()
	if !ok {
		c.fail(
			at, Incompatible, "D_OP_INCOMPAT", "%s requires an integer beside a pointer, not %s",
			opName(op), y.t,
		)
		return value{}, true
	}
	size := c.elemSize(at, p)
	if size == 0 {
		return value{}, true
	}
	return c.offset(at, op, x, value{x: y.computed(n), t: y.t}, size), true
}

// stringSum returns the rest of a string after its first bytes.
func (c *checker) stringSum(at syntax.Span, op syntax.Op, x, y value) (value, bool) {
	if y.isString() && op == syntax.Add {
		x, y = y, x
	}
	n, ok := y.int()
	if !ok || !x.isString() {
		return value{}, false
	}
	p := &Pointer{Elem: tChar, Space: Own}
	from := c.offset(
		at, op, value{x: &Convert{typed{at, p}, x.x}, t: p}, value{x: y.computed(n), t: y.t}, 1,
	)
	return value{x: &StringOf{typed{at, tString}, from.x, 0}, t: tString}, true
}

// offset returns an address plus or minus n times size bytes.
func (c *checker) offset(at syntax.Span, op syntax.Op, x, n value, size int64) value {
	count := convert(n.x, tLong)
	switch k := count.(type) {
	case *Const:
		count = &Const{typed{k.At, tLong}, k.Value * size}
		if k.Value == 0 {
			return value{x: x.x, t: x.t}
		}
	default:
		if size != 1 {
			count = &Binary{typed{at, tLong}, syntax.Mul, count, &Const{typed{at, tLong}, size}}
		}
	}
	if k, ok := x.x.(*Const); ok {
		if m, ok := count.(*Const); ok {
			return value{x: &Const{typed{at, x.t}, fold(op, k.Value, m.Value, true)}, t: x.t}
		}
	}
	t := x.t
	if p, ok := t.(*Pointer); ok && p.Space == Typed { // the verifier no longer knows the object
		t = &Pointer{Elem: p.Elem, Space: Kernel}
	}
	return value{x: &Binary{typed{at, t}, op, convert(x.x, t), count}, t: t}
}

// elemSize returns the step of a pointer in bytes; 0 when it has none, which is reported.
func (c *checker) elemSize(at syntax.Span, p *Pointer) int64 {
	switch t := p.Elem.(type) {
	case VoidType:
		d := c.fail(at, Incompatible, "D_OP_INCOMPAT", "arithmetic on a void *")
		d.Hint = "cast it: (char *)"
		return 0
	case *Func:
		c.fail(at, Incompatible, "D_OP_INCOMPAT", "arithmetic on the address of a function")
		return 0
	case StringType:
		return 1
	case *Struct:
		if t.Only {
			c.fail(at, Incomplete, "D_OP_INCOMPLETE",
				"arithmetic on a pointer to %s, whose size is unknown", t)
			return 0
		}
	}
	if n := p.Elem.Size(); n > 0 {
		return n
	}
	c.fail(at, Incomplete, "D_OP_INCOMPLETE", "%s has no size", p.Elem)
	return 0
}
