package check

import (
	"culprit/lang/syntax"
)

// A value is the result of an expression during checking. Its x computes in 64 bits when t is a
// smaller integer; settle truncates it to t for storing and recording. For a struct or array x is
// its address. A value without an x has a mistake that was reported.
type value struct {
	x     Expr
	t     Type
	place bool // x is a *VarRef or *Load, whose address can be taken
	void  bool // there is no value, only an effect
	act   bool // it is an action, which is not valid in an expression
	xl    *translation
	len   int64 // of a string that was an array of char: its length
}

// nothing is the value of an action used in an expression.
func nothing(at syntax.Span) value {
	return value{x: &Const{typed{at, tVoid}, 0}, t: tVoid, void: true, act: true}
}

func (v value) ok() bool { return v.x != nil }

// scalar reports whether a value can be a condition.
func (v value) scalar() bool {
	switch v.t.(type) {
	case *Int, *Pointer:
		return true
	}
	return false
}

// text reports whether D accepts a value as a string: a string, an array of char, a pointer to
// char, 0.
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

// wideNumber is a number that is computed in 64 bits, whatever its type.
func wideNumber(at syntax.Span, t *Int, n int64) value {
	return value{x: &Const{typed{at, wide(t)}, n}, t: t}
}

// cut truncates a number to its type.
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

// convert converts an integer or pointer to another type.
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
	// two pointer conversions are one
	if c, ok := x.(*Convert); ok && isPointer(t) && isPointer(from) && isPointer(c.X.Type()) {
		if c.X.Type() == t {
			return c.X
		}
		return &Convert{typed{c.At, t}, c.X}
	}
	return &Convert{typed{x.Place(), t}, x}
}

func isPointer(t Type) bool { _, ok := t.(*Pointer); return ok }

// settle returns the value as it is stored.
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

// computed returns the value of an integer in the 64 bits that D uses to compute with a type;
// pointers stay.
func (v value) computed(t *Int) Expr { return convert(v.x, wide(t)) }

// decayed returns the type of an array used as a value.
func decayed(t Type) Type {
	if a, ok := t.(*Array); ok && !isChar(a.Elem) {
		return &Pointer{Elem: a.Elem}
	}
	return t
}

// ownType returns the type that a variable stores: a pointer known to the verifier becomes an
// ordinary pointer.
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

// decay converts an array to the address of its first element.
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

// textOrNull reports whether a value can be compared with a string: text, or NULL.
func (v value) textOrNull() bool {
	if _, ok := v.int(); ok || v.scalar() {
		return isZero(v.x) || v.text()
	}
	return v.text()
}
