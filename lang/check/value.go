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
