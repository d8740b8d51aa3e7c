package ir_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/lang/check"
	"culprit/lang/ir/irtest"
	"culprit/lang/syntax"
)

// corners are numbers at the limits of types.
func corners() []uint64 {
	return []uint64{
		0,
		1,
		2,
		3,
		7,
		31,
		32,
		33,
		63,
		64,
		127,
		128,
		255,
		256,
		0x7fff,
		0x8000,
		0xffff,
		0x7fffffff,
		0x80000000,
		0xffffffff,
		0x100000000,
		1<<63 - 1,
		1 << 63,
		1<<64 - 1,
		1<<64 - 2,
		1<<64 - 128,
		1<<64 - 0x8000,
		1<<64 - 0x80000000,
	}
}

// cut returns the extension of the low bytes of v.
func cut(v uint64, size int, signed bool) uint64 {
	shift := 64 - 8*size
	if signed {
		return uint64(int64(v) << shift >> shift)
	}
	return v << shift >> shift
}

func toBit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// compute is D's arithmetic in 64 bits; ok is false for a division by zero.
func compute(op syntax.Op, x, y uint64, signed bool) (v uint64, ok bool) {
	a, b := int64(x), int64(y)
	less := x < y
	if signed {
		less = a < b
	}
	switch op {
	case syntax.Add:
		return x + y, true
	case syntax.Sub:
		return x - y, true
	case syntax.Mul:
		return x * y, true
	case syntax.And:
		return x & y, true
	case syntax.Or:
		return x | y, true
	case syntax.Xor:
		return x ^ y, true
	case syntax.Shl:
		return x << (y % 64), true
	case syntax.Shr:
		if signed {
			return uint64(a >> (y % 64)), true
		}
		return x >> (y % 64), true
	case syntax.Div, syntax.Mod:
		if y == 0 {
			return 0, false
		}
		switch {
		case signed && op == syntax.Div:
			return uint64(a / b), true
		case signed:
			return uint64(a % b), true
		case op == syntax.Div:
			return x / y, true
		}
		return x % y, true
	case syntax.Eq:
		return toBit(x == y), true
	case syntax.Ne:
		return toBit(x != y), true
	case syntax.Lt:
		return toBit(less), true
	case syntax.Ge:
		return toBit(!less), true
	case syntax.Gt:
		return toBit(!less && x != y), true
	case syntax.Le:
		return toBit(less || x == y), true
	case syntax.LogAnd:
		return toBit(x != 0 && y != 0), true
	case syntax.LogOr:
		return toBit(x != 0 || y != 0), true
	case syntax.LogXor:
		return toBit((x != 0) != (y != 0)), true
	}
	panic(op.String())
}

// TestOperators compares every operator, with every combination of operand types, with Go's
// arithmetic: of two variables, and of a variable and a constant on either side.
func TestOperators(t *testing.T) {
	for _, size := range []int{4, 8} {
		for _, signed := range []bool{true, false} {
			typ := intType(size, signed)
			for op := syntax.LogOr; op <= syntax.Mod; op++ {
				x, y := &check.Var{Name: "x", Type: typ}, &check.Var{Name: "y", Type: typ}
				logic := op <= syntax.LogAnd || op >= syntax.Eq && op <= syntax.Ge
				rt, rsize, rsigned := check.Type(typ), size, signed
				if logic {
					rt, rsize, rsigned = intType(4, true), 4, true
				}
				both := lower(
					t,
					program(
						[]*check.Var{x, y},
						nil,
						&check.Clause{
							Body: []check.Stmt{act(check.Trace, bin(op, ref(x), ref(y), rt))},
						},
					),
				)
				for i, a := range corners() {
					for j, b := range corners() {
						va, vb := cut(a, size, signed), cut(b, size, signed)
						want, ok := compute(op, va, vb, signed)
						expected := fmt.Sprint(cut(want, rsize, rsigned))
						if rsigned {
							expected = fmt.Sprint(int64(cut(want, rsize, rsigned)))
						}
						if !ok {
							expected = "DIVZERO:0x0"
						}
						m := irtest.New(both)
						putNumber(m.Globals, size, va)
						putNumber(m.Globals[size:], size, vb)
						m.Fire(0)
						if got := irtest.FormatRecords(m.Program, m.Records); got != expected {
							t.Fatalf(
								"%v of %v: %#x %#x: %s, want %s\n%v", op, typ, va, vb, got,
								expected, both,
							)
						}
						if (i+j)%4 != 0 {
							continue // a part of the constants is enough
						}
						for _, e := range []*check.Binary{bin(op, num(int64(va), typ), ref(y), rt),
							bin(op, ref(x), num(int64(vb), typ), rt),
							bin(op, num(int64(va), typ), num(int64(vb), typ), rt)} {
							p := lower(
								t,
								program(
									[]*check.Var{x, y}, nil,
									&check.Clause{Body: []check.Stmt{act(check.Trace, e)}},
								),
							)
							m := irtest.New(p)
							putNumber(m.Globals, size, va)
							putNumber(m.Globals[size:], size, vb)
							m.Fire(0)
							if got := irtest.FormatRecords(m.Program, m.Records); got != expected {
								t.Fatalf(
									"%v of %v with a constant: %#x %#x: %s, want %s\n%v", op, typ,
									va, vb, got, expected, p,
								)
							}
						}
					}
				}
			}
		}
	}
}

func putNumber(b []byte, size int, v uint64) {
	var all [8]byte
	binary.LittleEndian.PutUint64(all[:], v)
	copy(b[:size], all[:])
}

// A made is a random expression in D with its value.
type made struct {
	text   string
	value  uint64 // 64 bits, as in D
	size   int    // of its type
	signed bool
	leaf   bool // a variable or a constant
}

// errDivision is a division by zero in the expression.
//
// table: an error
var errDivision = errors.New("division by zero")

// A maker makes random expressions of the variables a ... h, of all integer types.
type maker struct {
	rand   *rand.Rand
	values [8]uint64
}

func (m *maker) typeOf(i int) (size int, signed bool) { return 1 << (i / 2), i%2 == 0 }

// promote returns the type that C computes in.
func promote(size int, signed bool) (int, bool) {
	if size < 4 {
		return 4, true
	}
	return size, signed
}

// common returns the type of an operation on two values: for types smaller than int the one of
// higher rank, by D's guide.
func common(a, b made) (int, bool) {
	if a.size < 4 && b.size < 4 {
		if a.size > b.size || a.size == b.size && !a.signed {
			return a.size, a.signed
		}
		return b.size, b.signed
	}
	as, ag := promote(a.size, a.signed)
	bs, bg := promote(b.size, b.signed)
	switch {
	case as > bs:
		return as, ag
	case bs > as:
		return bs, bg
	}
	return as, ag && bg
}

// expr makes an expression of some depth; with lazy it may fail only if it is evaluated.
func (m *maker) expr(depth int) (made, error) {
	if depth == 0 || m.rand.IntN(8) == 0 {
		if m.rand.IntN(4) == 0 {
			n := m.rand.IntN(70)
			return made{fmt.Sprint(n), uint64(n), 4, true, true}, nil
		}
		i := m.rand.IntN(8)
		size, signed := m.typeOf(i)
		return made{string(rune('a' + i)), m.values[i], size, signed, true}, nil
	}
	switch m.rand.IntN(12) {
	case 0:
		x, err := m.expr(depth - 1)
		size, signed := promote(x.size, x.signed)
		return made{"(-" + x.text + ")", -x.value, size, signed, false}, err
	case 1:
		x, err := m.expr(depth - 1)
		size, signed := promote(x.size, x.signed)
		return made{"(~" + x.text + ")", ^x.value, size, signed, false}, err
	case 2:
		x, err := m.expr(depth - 1)
		return made{"(!" + x.text + ")", toBit(x.value == 0), 4, true, false}, err
	case 3:
		x, err := m.expr(depth - 1)
		i := m.rand.IntN(8)
		size, signed := m.typeOf(i)
		name := map[int]string{1: "char", 2: "short", 4: "int", 8: "long long"}[size]
		if !signed {
			name = "unsigned " + name
		} else if size == 1 {
			name = "signed char"
		}
		return made{
			"((" + name + ")" + x.text + ")",
			cut(x.value, size, signed),
			size,
			signed,
			false,
		}, err
	case 4:
		c, cerr := m.expr(depth - 1)
		x, xerr := m.expr(depth - 1)
		y, yerr := m.expr(depth - 1)
		size, signed := common(x, y)
		v, err := y.value, yerr
		if c.value != 0 {
			v, err = x.value, xerr
		}
		if cerr != nil {
			err = cerr
		}
		return made{
			"(" + c.text + " ? " + x.text + " : " + y.text + ")",
			v,
			size,
			signed,
			false,
		}, err
	}
	ops := []syntax.Op{
		syntax.Add,
		syntax.Sub,
		syntax.Mul,
		syntax.Div,
		syntax.Mod,
		syntax.And,
		syntax.Or,
		syntax.Xor,
		syntax.Shl,
		syntax.Shr,
		syntax.Eq,
		syntax.Ne,
		syntax.Lt,
		syntax.Le,
		syntax.Gt,
		syntax.Ge,
		syntax.LogAnd,
		syntax.LogOr,
		syntax.LogXor,
	}
	op := ops[m.rand.IntN(len(ops))]
	x, xerr := m.expr(depth - 1)
	y, yerr := m.expr(depth - 1)
	size, signed := common(x, y)
	if op == syntax.Shl || op == syntax.Shr {
		size, signed = promote(x.size, x.signed)
	}
	// types smaller than int are computed as int
	v, ok := compute(op, x.value, y.value, signed || size < 4)
	err := xerr
	if err == nil && !(op == syntax.LogAnd && x.value == 0 || op == syntax.LogOr && x.value != 0) {
		if err = yerr; err == nil && !ok {
			err = errDivision
		}
	}
	if op >= syntax.Eq && op <= syntax.Ge || op <= syntax.LogAnd {
		size, signed = 4, true
	}
	return made{"(" + x.text + " " + op.String() + " " + y.text + ")", v, size, signed, false}, err
}

const madeVars = "signed char a; unsigned char b; short c; unsigned short d; int e; unsigned int f; long long g; unsigned long long h; "

// oneMade makes a program from a seed, runs it, and compares.
func oneMade(t *testing.T, seed uint64) {
	m := &maker{rand: rand.New(rand.NewPCG(seed, 4))}
	all := corners()
	for i := range m.values {
		size, signed := m.typeOf(i)
		m.values[i] = cut(all[m.rand.IntN(len(all))]+uint64(m.rand.IntN(3)), size, signed)
	}
	x, failed := m.expr(1 + m.rand.IntN(4))
	text := madeVars + "BEGIN { trace(" + x.text + "); } BEGIN /" + x.text + "/ { trace(1); }"
	p, err := irtest.Compile(text, check.Options{})
	if err != nil {
		if strings.Contains(err.Error(), "division by zero") {
			return
		}
		t.Fatalf("seed %d: %s\n%v\n%v", seed, text, err, p)
	}
	machine := irtest.New(p)
	for _, v := range p.Source.Vars {
		i := int(v.Name[0] - 'a')
		size, _ := m.typeOf(i)
		putNumber(machine.Globals[p.Places[v.ID].Mem.Off:], size, m.values[i])
	}
	machine.Fire(0, 1)
	want := fmt.Sprint(cut(x.value, x.size, x.signed))
	if x.signed {
		want = fmt.Sprint(int64(cut(x.value, x.size, x.signed)))
	}
	if x.value != 0 {
		want += " 1"
	}
	if failed != nil {
		want = "DIVZERO:0x0 DIVZERO:0x0"
	}
	if got := irtest.FormatRecords(machine.Program, machine.Records); got != want {
		t.Fatalf("seed %d: %s with %#x: %s, want %s\n%v", seed, text, m.values, got, want, p)
	}
}

// TestMadePrograms compares random expressions, compiled by the whole front end, with Go's
// arithmetic.
func TestMadePrograms(t *testing.T) {
	for seed := range uint64(3000) {
		oneMade(t, seed)
	}
}

func FuzzMadePrograms(f *testing.F) {
	f.Add(uint64(1))
	heapbound.Fuzz(f, oneMade)
}
