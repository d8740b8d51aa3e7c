package format

import (
	"fmt"
	"strings"

	"culprit/lang/syntax"
)

func (m *machine) eval(x syntax.Expr) Value {
	switch x := x.(type) {
	case *syntax.Int:
		size, signed := 4, !x.Unsigned
		switch {
		case x.Long > 0 || x.Value > 1<<32-1:
			size = 8
		case x.Value > 1<<31-1 && strings.HasPrefix(x.Text, "0"):
			signed = false
		case x.Value > 1<<31-1:
			size = 8
		}
		return IntOf(int64(x.Value), size, signed)
	case *syntax.Char:
		return IntOf(x.Value, 4, true)
	case *syntax.String:
		return TextOf(x.Value, 256)
	case *syntax.Ident:
		switch x.Name {
		case "pid":
			return IntOf(1234, 4, true)
		case "timestamp", "walltimestamp", "vtimestamp", "execname", "probefunc", "probename",
			"arg0", "arg1", "tid", "id", "cpu", "caller", "curthread", "uid", "NULL", "ppid",
			"probeprov", "probemod", "errno", "curpsinfo", "epid", "stackdepth":
			panic(unable("variable " + x.Name))
		}
		in, name := m.slot(x)
		if v, ok := in[name]; ok {
			return v
		}
		if v, ok := m.types[x.Name]; ok {
			return v
		}
		return IntOf(0, 4, true)
	case *syntax.Index:
		in, name := m.slot(x)
		return in[name]
	case *syntax.Assign:
		if to, ok := x.X.(*syntax.Aggregation); ok {
			call, ok := x.Y.(*syntax.Call)
			if !ok {
				panic(unable("aggregation"))
			}
			m.aggregate(to, call)
			return Value{}
		}
		v := m.eval(x.Y)
		if x.Op != syntax.Set {
			v = operate(x.Op, m.eval(x.X), v)
		}
		in, name := m.slot(x.X)
		if id, ok := x.X.(*syntax.Ident); ok {
			if t, ok := m.types[id.Name]; ok && t.Kind == Int {
				v = convert(v, t)
			} else if old, ok := in[name]; ok && x.Op != syntax.Set {
				v = convert(v, old)
			}
		}
		in[name] = v
		return v
	case *syntax.Step:
		in, name := m.slot(x.X)
		old, known := in[name]
		if id, ok := x.X.(*syntax.Ident); !known && ok {
			if old, known = m.types[id.Name]; !known {
				old = IntOf(0, 8, true)
			}
		}
		v := operate(x.Op, old, IntOf(1, 4, true))
		v.Size, v.Signed = old.Size, old.Signed
		in[name] = v
		if x.Post {
			return old
		}
		return v
	case *syntax.Unary:
		v := m.eval(x.X)
		if v.Kind != Int {
			panic(unable("operand"))
		}
		switch x.Op {
		case syntax.Plus:
			return promote(v)
		case syntax.Neg:
			v = promote(v)
			v.Num = -v.Num
			return v
		case syntax.BitNot:
			v = promote(v)
			v.Num = ^v.Num
			return v
		case syntax.Not:
			return truth(v.unsigned() == 0)
		}
		panic(unable("operator"))
	case *syntax.Binary:
		if x.Op == syntax.LogAnd && m.eval(x.X).unsigned() == 0 {
			return truth(false)
		}
		if x.Op == syntax.LogOr && m.eval(x.X).unsigned() != 0 {
			return truth(true)
		}
		return operate(x.Op, m.eval(x.X), m.eval(x.Y))
	case *syntax.Cond:
		if m.eval(x.If).unsigned() != 0 {
			return m.eval(x.Then)
		}
		return m.eval(x.Else)
	case *syntax.Cast:
		return convert(m.eval(x.X), zeroOf(x.Type))
	}
	panic(unable(fmt.Sprintf("%T", x)))
}

func convert(v, t Value) Value {
	if v.Kind != Int || t.Kind != Int {
		panic(unable("cast"))
	}
	n := int64(v.unsigned())
	if v.Signed {
		n = v.signed()
	}
	return IntOf(n, t.Size, t.Signed)
}

func truth(b bool) Value {
	if b {
		return IntOf(1, 4, true)
	}
	return IntOf(0, 4, true)
}

func promote(v Value) Value {
	if v.Size >= 4 {
		return v
	}
	return convert(v, IntOf(0, 4, true))
}

func operate(op syntax.Op, x, y Value) Value {
	if op == syntax.Comma {
		return y
	}
	if x.Kind != Int || y.Kind != Int {
		panic(unable("operands"))
	}
	x, y = promote(x), promote(y)
	t := x
	if y.Size > x.Size || y.Size == x.Size && !y.Signed {
		t = y
	}
	if op == syntax.Shl || op == syntax.Shr {
		t = x
	}
	x, y = convert(x, t), convert(y, t)
	a, b := x.signed(), y.signed()
	ua, ub := x.unsigned(), y.unsigned()
	less := a < b
	if !t.Signed {
		less = ua < ub
	}
	r := int64(0)
	switch op {
	case syntax.Add:
		r = a + b
	case syntax.Sub:
		r = a - b
	case syntax.Mul:
		r = a * b
	case syntax.Div, syntax.Mod:
		switch {
		case ub == 0:
			panic(unable("division by zero"))
		case t.Signed && op == syntax.Div:
			r = a / b
		case t.Signed:
			r = a % b
		case op == syntax.Div:
			r = int64(ua / ub)
		default:
			r = int64(ua % ub)
		}
	case syntax.And:
		r = a & b
	case syntax.Or:
		r = a | b
	case syntax.Xor:
		r = a ^ b
	case syntax.Shl:
		r = a << (ub & uint64(8*t.Size-1))
	case syntax.Shr:
		n := ub & uint64(8*t.Size-1)
		r = int64(ua >> n)
		if t.Signed {
			r = a >> n
		}
	case syntax.Eq:
		return truth(ua == ub)
	case syntax.Ne:
		return truth(ua != ub)
	case syntax.Lt:
		return truth(less)
	case syntax.Ge:
		return truth(!less)
	case syntax.Gt:
		return truth(!less && ua != ub)
	case syntax.Le:
		return truth(less || ua == ub)
	case syntax.LogAnd, syntax.LogOr:
		return truth(ub != 0)
	case syntax.LogXor:
		return truth((ua != 0) != (ub != 0))
	default:
		panic(unable("operator"))
	}
	return IntOf(r, t.Size, t.Signed)
}
