package ir

import (
	"culprit/lang/check"
	"culprit/lang/syntax"
)

// A num is an intermediate number: in a register, or constant. As many low bytes are correct as its
// type has. size and signed describe the rest of the register: it extends the lowest size bytes. So
// a 32-bit sum need not be extended before more than its low half is used.
type num struct {
	reg    Reg
	imm    int64 // the value if reg is None, extended by its type
	size   int
	signed bool
}

func known(v int64) num { return num{reg: None, imm: v, size: 8} }

func (n num) known() bool { return n.reg == None }

// shape returns the form of a type in a register.
func shape(t check.Type) (size int, signed bool) {
	if i, ok := t.(*check.Int); ok {
		return int(i.Bytes), i.Signed
	}
	if _, ok := t.(check.StackType); ok {
		return 4, false
	}
	return 8, false
}

func isString(t check.Type) bool {
	_, ok := t.(check.StringType)
	return ok
}

// isWhole reports whether values of a type are represented by their address.
func isWhole(t check.Type) bool {
	switch t.(type) {
	case *check.Struct, *check.Array, *check.Bytes:
		return true
	}
	return false
}

// constant returns the value of a constant expression.
func constant(e check.Expr) (int64, bool) {
	switch e := e.(type) {
	case *check.Const:
		return e.Value, true
	case *check.Convert:
		if v, ok := constant(e.X); ok && !isString(e.T) && !isString(e.X.Type()) {
			size, signed := shape(e.T)
			return extend(v, size, signed), true
		}
	}
	return 0, false
}

// extend returns the extension of the low bytes of v.
func extend(v int64, size int, signed bool) int64 {
	shift := 64 - 8*size
	if signed {
		return v << shift >> shift
	}
	return int64(uint64(v) << shift >> shift)
}

// value returns an expression's value, extended by its type.
func (c *clause) value(e check.Expr) num {
	size, signed := shape(e.Type())
	return c.extended(c.number(e), size, signed)
}

// extended returns n as a number of size bytes in a whole register.
func (c *clause) extended(n num, size int, signed bool) num {
	if n.known() {
		n.imm = extend(n.imm, size, signed)
		n.size, n.signed = size, signed
		return n
	}
	if size == 8 || n.size == size && n.signed == signed || n.size < size && (signed || !n.signed) {
		return n
	}
	s := blank(OpExtend)
	s.A, s.Size, s.Signed = n.reg, size, signed
	return num{reg: c.out(s), size: size, signed: signed}
}

// out appends a step with a register for its result.
func (c *clause) out(s Step) Reg {
	s.Dst = c.reg()
	c.step(s)
	return s.Dst
}

// inReg returns a register that contains n.
func (c *clause) inReg(n num) Reg {
	if !n.known() {
		return n.reg
	}
	s := blank(OpConst)
	s.Imm = n.imm
	return c.out(s)
}

// regOf returns a register with an expression's value.
func (c *clause) regOf(e check.Expr) Reg { return c.inReg(c.value(e)) }

// two appends a step with two operands.
func (c *clause) two(op Opcode, a Reg, b num, signed bool) Reg {
	s := blank(op)
	s.A, s.B, s.Imm, s.Signed = a, b.reg, b.imm, signed
	if !b.known() {
		s.Imm = 0
	}
	return c.out(s)
}

func (c *clause) set(a Reg, cond Cond, b num, signed bool) num {
	s := blank(OpSet)
	s.A, s.B, s.Imm, s.Cond, s.Signed = a, b.reg, b.imm, cond, signed
	if !b.known() {
		s.Imm = 0
	}
	return num{reg: c.out(s), size: 1}
}

// drop evaluates an expression for its effects.
func (c *clause) drop(e check.Expr) {
	switch {
	case isString(e.Type()):
		c.text(e)
	case isVoid(e.Type()):
		c.void(e)
	case isWhole(e.Type()):
		c.whole(e)
	default:
		c.number(e)
	}
}

func isVoid(t check.Type) bool {
	_, ok := t.(check.VoidType)
	return ok || t == nil
}

// void evaluates an expression without a value.
func (c *clause) void(e check.Expr) {
	switch e := e.(type) {
	case *check.Call:
		c.call(e)
	case *check.Convert:
		c.drop(e.X)
	case *check.Cond:
		then, els, end := c.block(), c.block(), c.block()
		c.branch(e.If, then, els)
		c.place(then)
		c.apart(func() { c.drop(e.Then) })
		c.jump(end)
		c.place(els)
		c.apart(func() { c.drop(e.Else) })
		c.jump(end)
		c.place(end)
	case *check.Binary:
		c.drop(e.X)
		c.drop(e.Y)
	}
}

// number evaluates an expression that is not a string. Only the low bytes of the result need be
// correct.
func (c *clause) number(e check.Expr) num {
	switch e := e.(type) {
	case *check.Const:
		return known(e.Value)
	case *check.Builtin:
		return c.builtin(e.Which, e.N)
	case *check.VarRef:
		return c.variable(e)
	case *check.Unary:
		return c.unary(e)
	case *check.Binary:
		return c.binary(e)
	case *check.Cond:
		return c.choice(e)
	case *check.Convert:
		return c.convert(e)
	case *check.Load:
		return c.load(e)
	case *check.AddrOf:
		return num{reg: c.address(e), size: 8}
	case *check.Call:
		return c.call(e)
	case *check.Exists:
		return c.set(c.find(e.X), Ne, number0, false)
	case *check.Assign:
		return c.assign(e)
	case *check.Step:
		return c.increment(e)
	case *check.StackOf:
		return num{reg: c.stack(e.T, e.Frames), size: 4}
	case *check.Text, *check.StringOf: // used as a number: the address
		return num{reg: c.textAddress(e), size: 8}
	}
	c.complain(e.Place(), NotYet, "this expression is not supported")
	return known(0)
}

// Unique is N of a builtin tid that distinguishes all threads, including those without a number in
// the PID namespace in use.
const Unique = 1

// builtin reads a built-in variable. Those that are constant within a clause are read once.
func (c *clause) builtin(which check.BuiltinVar, n int) num {
	key := builtin{which, n}
	if v, ok := c.known[key]; ok {
		return v
	}
	s := blank(OpBuiltin)
	s.Which, s.N = which, n
	v := num{reg: c.out(s), size: builtinSize(which), signed: which == check.BuiltinErrno}
	if which != check.BuiltinVTimestamp && which != check.BuiltinWallTimestamp {
		c.known[key] = v
	}
	return v
}

// builtinSize returns the number of bytes of a builtin's register that can be nonzero. 3 is for
// values below the greatest int: they need no extension, signed or not.
func builtinSize(which check.BuiltinVar) int {
	switch which {
	case check.BuiltinCPU,
		check.BuiltinIPL,
		check.BuiltinPID,
		check.BuiltinPPID,
		check.BuiltinStackDepth,
		check.BuiltinTID,
		check.BuiltinUStackDepth:
		return 3 // the highest process ID is 2^22
	case check.BuiltinEPID, check.BuiltinGID, check.BuiltinID, check.BuiltinUID, check.BuiltinErrno:
		return 4
	}
	return 8
}

func (c *clause) unary(e *check.Unary) num {
	switch e.Op {
	case syntax.Not:
		return c.truthValue(e)
	case syntax.Neg, syntax.BitNot:
		x := c.number(e.X)
		op := OpNeg
		if e.Op == syntax.BitNot {
			op = OpNot
		}
		if x.known() {
			if op == OpNeg {
				return known(-x.imm)
			}
			return known(^x.imm)
		}
		s := blank(op)
		s.A = x.reg
		return num{reg: c.out(s), size: 8}
	}
	return c.number(e.X)
}

func (c *clause) binary(e *check.Binary) num {
	switch e.Op {
	case syntax.Comma:
		c.drop(e.X)
		return c.number(e.Y)
	case syntax.LogAnd, syntax.LogOr:
		return c.truthValue(e)
	case syntax.LogXor:
		x, y := c.truth(e.X), c.truth(e.Y)
		if x.known() && y.known() {
			return known(x.imm ^ y.imm)
		}
		return num{reg: c.two(OpXor, c.inReg(x), y, false), size: 1}
	case syntax.Eq, syntax.Ne, syntax.Lt, syntax.Le, syntax.Gt, syntax.Ge:
		a, b, cond, signed := c.compared(e)
		if a.known() && b.known() {
			return known(truth(holds(a.imm, b.imm, cond, signed)))
		}
		return c.set(c.inReg(a), cond, b, signed)
	}
	x := c.operand(e.X, e.Op)
	y := c.operand(e.Y, e.Op)
	if (e.Op == syntax.Add || e.Op == syntax.Sub) && isTyped(e.X) && !x.known() {
		c.notNull(x.reg, e.Place())
	}
	return c.compute(e.Op, x, y, e.T, e.Place())
}

// operand returns an operand in the form that an operator needs.
func (c *clause) operand(e check.Expr, op syntax.Op) num {
	switch op {
	case syntax.Div, syntax.Mod, syntax.Shr:
		return c.value(e)
	}
	return c.number(e)
}

// compute applies an arithmetic operator. The operands are of type t (those of Div, Mod and Shr
// extended), except for the count of a shift. DTrace computes in 64 bits, of which the low ones of
// the type count: a shift of an int by 40 returns 0.
func (c *clause) compute(op syntax.Op, x, y num, t check.Type, at syntax.Span) num {
	size, signed := shape(t)
	if x.known() && y.known() && (y.imm != 0 || op != syntax.Div && op != syntax.Mod) {
		return known(fold(op, x.imm, y.imm, signed))
	}
	result := num{size: 8, signed: signed}
	switch op {
	case syntax.Add, syntax.Mul, syntax.Or, syntax.Xor, syntax.And:
		if x.known() {
			x, y = y, x
		}
		ops := map[syntax.Op]Opcode{
			syntax.Add: OpAdd,
			syntax.Mul: OpMul,
			syntax.Or:  OpOr,
			syntax.Xor: OpXor,
			syntax.And: OpAnd,
		}
		if y.known() {
			switch {
			case y.imm == 0 && (op == syntax.Add || op == syntax.Or || op == syntax.Xor),
				y.imm == 1 && op == syntax.Mul:
				return x
			case y.imm == 0: // of Mul and And
				return known(0)
			}
		}
		result.reg = c.two(ops[op], c.inReg(x), y, false)
		switch {
		case op == syntax.And && y.known() && y.imm >= 0:
			result.size, result.signed = 1, false
			for result.size < 8 && y.imm>>(8*result.size) != 0 {
				result.size *= 2
			}
		case (op == syntax.Or || op == syntax.Xor || op == syntax.And) && !y.known() &&
			x.signed == y.signed:
			result.size, result.signed = max(x.size, y.size), x.signed
		}
	case syntax.Sub:
		if y.known() {
			if y.imm == 0 {
				return x
			}
		}
		result.reg = c.two(OpSub, c.inReg(x), y, false)
	case syntax.Shl:
		result.reg = c.two(OpShl, c.inReg(x), c.count(y), false)
	case syntax.Shr:
		result.reg = c.two(OpShr, c.inReg(x), c.count(y), signed)
		result.size, result.signed = size, signed
	case syntax.Div, syntax.Mod:
		if y.known() {
			if y.imm == 0 {
				c.failNow(FaultDivZero, at)
				return known(0)
			}
		} else {
			c.failIf(y.reg, Eq, 0, false, FaultDivZero, None, at)
		}
		o := OpDiv
		if op == syntax.Mod {
			o = OpMod
		}
		result.reg = c.two(o, c.inReg(x), y, signed)
		if !signed {
			result.size = size
		}
	default:
		c.complain(at, NotYet, "operator %s is not supported", op)
		return known(0)
	}
	return result
}

// count returns the count of a shift: its low six bits.
func (c *clause) count(n num) num {
	if n.known() {
		return known(n.imm & 63)
	}
	return num{reg: c.two(OpAnd, n.reg, known(63), false), size: 1}
}

// fold computes OpAdd and the other arithmetic steps.
func fold(op syntax.Op, x, y int64, signed bool) int64 {
	switch op {
	case syntax.Add:
		return x + y
	case syntax.Sub:
		return x - y
	case syntax.Mul:
		return x * y
	case syntax.Or:
		return x | y
	case syntax.Xor:
		return x ^ y
	case syntax.And:
		return x & y
	case syntax.Shl:
		return x << (y & 63)
	case syntax.Shr:
		if signed {
			return x >> (y & 63)
		}
		return int64(uint64(x) >> (y & 63))
	case syntax.Div:
		if signed {
			return x / y
		}
		return int64(uint64(x) / uint64(y))
	default:
		if signed {
			return x % y
		}
		return int64(uint64(x) % uint64(y))
	}
}

// failNow faults; the code after it is never reached.
func (c *clause) failNow(f Fault, at syntax.Span) {
	c.jump(c.fault(f, None, 0, at))
	c.place(c.block())
}

// convert lowers a conversion. To fewer bytes it is free: users of the rest of the register extend
// it.
func (c *clause) convert(e *check.Convert) num {
	if isVoid(e.T) {
		c.drop(e.X)
		return known(0)
	}
	if isString(e.X.Type()) {
		return num{reg: c.textAddress(e.X), size: 8}
	}
	if isWhole(e.X.Type()) {
		return num{reg: c.wholeAddress(e.X), size: 8}
	}
	from, signed := shape(e.X.Type())
	to, toSigned := shape(e.T)
	if to > from {
		return c.extended(c.number(e.X), from, signed)
	}
	n := c.number(e.X)
	if n.known() {
		n.imm = extend(n.imm, to, toSigned)
	}
	return n
}
