package check

import (
	"culprit/lang/syntax"
)

// A value is what an expression comes to while it is looked at. Its x computes in 64 bits where t is a smaller integer, as D
// does; settle cuts it to t, which is what is stored and recorded. Of a struct or array x is its address. A value without an x is
// one that was told to be wrong.
type value struct {
	x     Expr
	t     Type
	place bool // x is a *VarRef or *Load, whose address can be taken
	void  bool // there is no value, x does something
	act   bool // it is an action, which does nothing here
	xl    *translation
	len   int64 // of a string that was an array of char: how many
}

// nothing is what stands where an action was taken for a value.
func nothing(at syntax.Span) value {
	return value{x: &Const{typed{at, tVoid}, 0}, t: tVoid, void: true, act: true}
}

func (v value) ok() bool { return v.x != nil }

// scalar says whether a value is true or false by itself.
func (v value) scalar() bool {
	switch v.t.(type) {
	case *Int, *Pointer:
		return true
	}
	return false
}

// text says whether D takes a value for a string: a string, an array of char, a pointer to char, 0.
func (v value) text() bool {
	switch t := v.t.(type) {
	case *Int:
		return isZero(v.x)
	case StringType:
		return true
	case *Array:
		return isChar(t.Elem)
	case *Pointer:
		return isChar(t.Elem)
	}
	return false
}

func (v value) isString() bool { _, ok := v.t.(StringType); return ok }

func (v value) int() (*Int, bool) { return isInt(v.t) }

func number(at syntax.Span, t *Int, n int64) value {
	return value{x: &Const{typed{at, t}, cut(n, t)}, t: t}
}

// wideNumber is a number that is computed with in 64 bits, whatever its type.
func wideNumber(at syntax.Span, t *Int, n int64) value {
	return value{x: &Const{typed{at, wide(t)}, n}, t: t}
}

// cut gives a number as its type holds it.
func cut(n int64, t *Int) int64 {
	bits := int64(t.Bytes) * 8
	if t.Bits > 0 {
		bits = int64(t.Bits)
	}
	if bits >= 64 {
		return n
	}
	if t.Signed {
		return n << (64 - bits) >> (64 - bits)
	}
	return n & (1<<bits - 1)
}

// convert gives an integer or pointer another type.
func convert(x Expr, t Type) Expr {
	if x == nil {
		return nil
	}
	from := x.Type()
	if Same(from, t) {
		p, pok := from.(*Pointer)
		q, qok := t.(*Pointer)
		if !pok || !qok || p.Space == q.Space {
			return x
		}
	}
	if k, ok := x.(*Const); ok {
		n := k.Value
		if i, ok := isInt(t); ok {
			n = cut(n, i)
		}
		return &Const{typed{k.At, t}, n}
	}
	if c, ok := x.(*Convert); ok && isPointer(t) && isPointer(from) && isPointer(c.X.Type()) { // nothing happens twice
		if c.X.Type() == t {
			return c.X
		}
		return &Convert{typed{c.At, t}, c.X}
	}
	return &Convert{typed{x.Place(), t}, x}
}

func isPointer(t Type) bool { _, ok := t.(*Pointer); return ok }

// settle gives the value as it is stored.
func (v value) settle() Expr {
	if v.x == nil {
		return nil
	}
	switch v.t.(type) {
	case *Int:
		return convert(v.x, v.t)
	}
	return v.x
}

// computed gives the value of an integer in the 64 bits in which D computes with a type; pointers stay.
func (v value) computed(t *Int) Expr { return convert(v.x, wide(t)) }

// decayed gives the type that an array has as a value.
func decayed(t Type) Type {
	if a, ok := t.(*Array); ok && !isChar(a.Elem) {
		return &Pointer{Elem: a.Elem}
	}
	return t
}

// ownType gives the type as a variable keeps it: a pointer that the verifier knew is any pointer once it was stored.
func ownType(t Type) Type {
	switch t := t.(type) {
	case *Pointer:
		if t.Space == Typed {
			return &Pointer{Elem: t.Elem, Space: Kernel}
		}
	case *Int:
		if t.Bits > 0 {
			return promoted(t)
		}
	}
	return t
}

// decay gives an array as the address of its first element.
func (v value) decay() value {
	a, ok := v.t.(*Array)
	if !ok {
		return v
	}
	p := &Pointer{Elem: a.Elem, Space: spaceOf(v.x)}
	return value{x: convert(v.x, p), t: p}
}

func spaceOf(x Expr) Space {
	if p, ok := x.Type().(*Pointer); ok {
		return p.Space
	}
	return Own
}

// text says whether a value can stand beside a string: text itself, or NULL.
func (v value) textOrNull() bool {
	if _, ok := v.int(); ok || v.scalar() {
		return isZero(v.x) || v.text()
	}
	return v.text()
}

// str gives a value as a string. NULL is what a variable holds before it was given one.
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

// expr checks an expression whose value is looked at. It may turn out to have none, and then be of type void, which no
// operator takes.
func (c *checker) expr(e syntax.Expr) value { return c.exprAny(e) }

// truth gives an expression that is looked at for being true or not.
func (c *checker) truth(e syntax.Expr, op syntax.Op) value {
	v := c.expr(e)
	if v.ok() && !v.scalar() {
		c.fail(e.At(), NotScalar, "D_OP_SCALAR", "%s wants a number or a pointer, not %s", opName(op), v.t)
		return value{}
	}
	return v
}

// opName gives an operator for a message.
func opName(op syntax.Op) string { return "operator " + op.String() }

// constant gives a number that is known now. t is nil when the expression itself was wrong, which was told.
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

// exprAny checks an expression, whether or not it has a value. What it can't make anything of is told, if by nobody else:
// nothing is left out of a program in silence.
func (c *checker) exprAny(e syntax.Expr) value {
	v := c.expression(e)
	if !v.ok() && len(c.diags) == 0 {
		c.fail(e.At(), NotUnderstood, "D_UNKNOWN", "this can't be understood")
	}
	return v
}

func (c *checker) expression(e syntax.Expr) value {
	if c.depth > 0 { // inlines of inlines of inlines double with each
		if c.expanded++; c.expanded > mostExpanded {
			if c.expanded == mostExpanded+1 {
				c.fail(e.At(), syntax.TooDeep, "", "the inlines and translators of this program come to too much text")
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
		c.fail(e.At(), AggregationValue, "D_OP_INCOMPAT", "an aggregation has no value in the kernel").Hint = "printa prints it"
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

// intConstant gives a number the smallest of C's types that holds it; a decimal one without u is never unsigned.
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
		c.fail(e.At(), syntax.BigInt, "D_INT_OFLOW", "the number %d is larger than any signed type holds", e.Value).Hint = "write it with u"
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
		c.fail(e.At(), NotInteger, tag, "%s wants an integer, not %s", opName(e.Op), v.t)
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
	x, y := c.expr(e.X), c.expr(e.Y)
	if !x.ok() || !y.ok() {
		return value{}
	}
	return c.operate(e.At(), e.Op, x, y)
}

func (c *checker) logic(e *syntax.Binary, x, y value) value {
	a, aKnown := x.x.(*Const)
	b, bKnown := y.x.(*Const)
	if aKnown && bKnown {
		p, q := a.Value != 0, b.Value != 0
		return number(e.At(), tInt, truthOf(e.Op == syntax.LogAnd && p && q || e.Op == syntax.LogOr && (p || q) || e.Op == syntax.LogXor && p != q))
	}
	return value{x: &Binary{typed{e.At(), tInt}, e.Op, x.x, y.x}, t: tInt}
}

// operate gives X op Y.
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
		c.fail(at, Incompatible, tag, "%s wants integers, not %s and %s", opName(op), x.t, y.t)
		return value{}
	}
	t := common(a, b)
	if op == syntax.Shl || op == syntax.Shr {
		t = promoted(a)
	}
	w := wide(t)
	p, q := convert(x.x, w), convert(y.x, w)
	if k, ok := q.(*Const); ok && k.Value == 0 && (op == syntax.Div || op == syntax.Mod) {
		c.fail(at, DivisionByZero, "D_DIV_ZERO", "this divides by zero")
		return value{}
	}
	if m, ok := p.(*Const); ok {
		if n, ok := q.(*Const); ok {
			return wideNumber(at, t, fold(op, m.Value, n.Value, w.Signed))
		}
	}
	return value{x: &Binary{typed{at, w}, op, p, q}, t: t}
}

// fold computes with two numbers of 64 bits. y is not 0 in a division.
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

// pointerSum gives the sums and differences in which there is a pointer.
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
			c.fail(at, Incompatible, "D_OP_INCOMPAT", "%s and %s are pointers to different types", x.t, y.t)
			return value{}, true
		}
		d := c.operate(at, syntax.Sub, value{x: convert(x.x, tLong), t: tLong}, value{x: convert(y.x, tLong), t: tLong})
		return c.operate(at, syntax.Div, d, number(at, tLong, size)), true
	case pok && qok:
		c.fail(at, Incompatible, "D_OP_INCOMPAT", "pointers can't be added: %s and %s", x.t, y.t)
		return value{}, true
	case qok && op == syntax.Add:
		x, y, p = y, x, q
	case !pok:
		return value{}, false
	}
	n, ok := y.int()
	if !ok {
		c.fail(at, Incompatible, "D_OP_INCOMPAT", "%s wants an integer beside a pointer, not %s", opName(op), y.t)
		return value{}, true
	}
	size := c.elemSize(at, p)
	if size == 0 {
		return value{}, true
	}
	return c.offset(at, op, x, value{x: y.computed(n), t: y.t}, size), true
}

// stringSum gives what of a string comes behind its first bytes.
func (c *checker) stringSum(at syntax.Span, op syntax.Op, x, y value) (value, bool) {
	if y.isString() && op == syntax.Add {
		x, y = y, x
	}
	n, ok := y.int()
	if !ok || !x.isString() {
		return value{}, false
	}
	p := &Pointer{Elem: tChar, Space: Own}
	from := c.offset(at, op, value{x: &Convert{typed{at, p}, x.x}, t: p}, value{x: y.computed(n), t: y.t}, 1)
	return value{x: &StringOf{typed{at, tString}, from.x, 0}, t: tString}, true
}

// offset gives an address and n times size bytes.
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
	if p, ok := t.(*Pointer); ok && p.Space == Typed { // the verifier loses its track
		t = &Pointer{Elem: p.Elem, Space: Kernel}
	}
	return value{x: &Binary{typed{at, t}, op, convert(x.x, t), count}, t: t}
}

// elemSize gives how far a pointer goes with each step; 0 where that is told to be wrong.
func (c *checker) elemSize(at syntax.Span, p *Pointer) int64 {
	switch t := p.Elem.(type) {
	case VoidType:
		c.fail(at, Incompatible, "D_OP_INCOMPAT", "one can't count with a void *").Hint = "cast it: (char *)"
		return 0
	case *Func:
		c.fail(at, Incompatible, "D_OP_INCOMPAT", "one can't count with the address of a function")
		return 0
	case StringType:
		return 1
	case *Struct:
		if t.Only {
			c.fail(at, Incomplete, "D_OP_INCOMPLETE", "%s is not known, so one can't count with a pointer to it", t)
			return 0
		}
	}
	if n := p.Elem.Size(); n > 0 {
		return n
	}
	c.fail(at, Incomplete, "D_OP_INCOMPLETE", "%s has no size", p.Elem)
	return 0
}

// compare gives X op Y for the comparisons.
func (c *checker) compare(at syntax.Span, op syntax.Op, x, y value) value {
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
		return value{x: &Binary{typed{at, tInt}, op, convert(x.x, tUlong), convert(y.x, tUlong)}, t: tInt}
	case pok && bok, qok && aok:
		c.fail(at, Incompatible, "D_OP_INCOMPAT", "%s can't be compared with %s", x.t, y.t).Hint = "cast the pointer: (uintptr_t)"
		return value{}
	}
	c.fail(at, Incompatible, "D_OP_INCOMPAT", "%s can't be compared with %s", x.t, y.t)
	return value{}
}

// mixed tells of values that lead to memory of the script and to other memory, of which only one can be meant later on.
func (c *checker) mixed(at syntax.Span, x, y value) bool {
	p, pok := x.t.(*Pointer)
	q, qok := y.t.(*Pointer)
	if !pok || !qok || (p.Space == Own) == (q.Space == Own) || isZero(x.x) || isZero(y.x) {
		return false
	}
	c.fail(at, MixedMemory, "D_ALLOCA_INCOMPAT", "one of these leads to memory of alloca() or copyin(), the other does not")
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

// ordered says whether a comparison holds for what compare gave.
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
		c.fail(e.At(), ActionValue, "D_OP_ACT", "an action can't stand in ?:").Hint = "use if and else, or a clause with a predicate"
		return value{}
	}
	t, a, b := c.either(x, y)
	if t == nil {
		c.fail(e.At(), Incompatible, "D_OP_INCOMPAT", "the two values of ?: are of different types, %s and %s", x.t, y.t)
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

// either gives the type that fits for both of two values, and both in that type; nil: there is none.
func (c *checker) either(x, y value) (Type, Expr, Expr) {
	a, aok := x.int()
	b, bok := y.int()
	if aok && bok {
		t := common(a, b)
		return t, convert(x.x, wide(t)), convert(y.x, wide(t))
	}
	if x.isString() && y.textOrNull() || y.isString() && x.textOrNull() || isText(x.t) && isText(y.t) {
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
