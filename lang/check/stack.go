package check

import (
	"culprit/lang/syntax"
)

// An addressesType is the type of a stack's member addrs. Only indexing accepts it.
type addressesType struct {
	Type // of one address
	of   *StackOf
}

// String returns the type in the notation of C.
func (t addressesType) String() string { return "uint64_t []" }

// StackBits is the number of bits of a stack's number when Program.Cuts is set. The 7 bits above
// them are a cut: 0, or 1 + the highest number of frames, innermost first, of the stack in the
// variable.
const StackBits = 25

// StoredStack returns the bit of a stack's number that programs never set. It marks numbers that
// user space gave to stacks; without it, a number is from the kernel's maps.
func (p *Program) StoredStack() uint32 {
	if p != nil && p.Cuts {
		return 1 << (StackBits - 1)
	}
	return 1 << 31
}

// CutStack splits a number into the number of the stack and the highest number of its frames; -1:
// all.
func CutStack(number uint32) (stack uint32, most int) {
	return number & (1<<StackBits - 1), int(number>>StackBits) - 1
}

// cutStack returns NAME.depth = Y, where NAME is a variable that contains a stack. done is true
// when the assignment has this form. The stack keeps all its frames, so that a greater depth
// restores those that a smaller one hides.
func (c *checker) cutStack(e *syntax.Assign, m *syntax.Member, y value) (v value, done bool) {
	x, ok := m.X.(*syntax.Ident)
	if !ok || m.Arrow || x.Scope == syntax.ScopeKernel {
		return value{}, false
	}
	id := c.lookup(x)
	if id == nil || id.bad || id.keys != nil || id.open {
		return value{}, false
	}
	t, ok := id.t.(StackType)
	if !ok {
		return value{}, false
	}
	if m.Name.Text != "depth" || e.Op != syntax.Set {
		c.notWritable(e.X, "only the depth can be set of a stack in a variable")
		return value{}, true
	}
	if !y.ok() {
		return value{}, true
	}
	k, ok := y.settle().(*Const)
	if _, number := y.int(); !ok || !number {
		c.fail(e.Y.At(), NotYet, "", "the depth of a stack must be a constant number")
		return value{}, true
	}
	if k.Value < 0 || k.Value > mostAsked {
		c.fail(e.Y.At(), OutOfBounds, "D_ARR_BOUNDS", "invalid stack depth %d", k.Value)
		return value{}, true
	}
	c.prog.Cuts = true
	held := c.read(x.At(), id, nil).x
	// like all integers, computed in 64 bits
	stack := convert(convert(held, tUint32), tUint64)
	number := func(n int64) Expr { return &Const{typed{e.At(), tUint64}, n} }
	cut := Expr(&Binary{typed{e.At(), tUint64}, syntax.And, stack, number(1<<StackBits - 1)})
	if most := int64(1)<<(32-StackBits) - 2; k.Value <= most { // a greater depth means all frames
		cut = &Binary{typed{e.At(), tUint64}, syntax.Or, cut, number((k.Value + 1) << StackBits)}
	}
	some := &Cond{typed{e.At(), tUint64}, stack, cut, number(0)} // no stack has no depth
	set := &Assign{typed{e.At(), t}, syntax.Set, held, convert(convert(some, tUint32), t)}
	return value{
		x: &Binary{
			typed{e.At(), tUint32},
			syntax.Comma,
			set,
			&Const{typed{e.At(), tUint32}, k.Value},
		},
		t: tUint32,
	}, true
}

// stackMember returns a member of stack() or ustack(), as in dtrace's dt_stack_t: depth, addrs,
// is_user, pid and strsz.
func (c *checker) stackMember(e *syntax.Member, v value, t StackType) value {
	of, ok := v.x.(*StackOf)
	switch {
	case e.Arrow:
		d := c.fail(e.At(), NotPointer, "D_OP_PTR", "-> requires a pointer to a struct, not %s", t)
		d.Hint = "use . instead of ->"
		return value{}
	case !ok: // a variable contains only the stack's number
		d := c.fail(e.At(), NotYet, "", "members of a stack in a variable are not supported")
		d.Hint = "read them where the stack is recorded: " + t.String() + "()." + e.Name.Text
		return value{}
	}
	user := t.Of == User
	which := BuiltinStackDepth
	if user {
		which = BuiltinUStackDepth
	}
	switch e.Name.Text {
	case "depth":
		return value{x: &Builtin{typed{e.At(), tUint32}, which, of.Frames}, t: tUint32}
	case "addrs":
		return value{x: of, t: addressesType{tUint64, of}}
	case "pid":
		if user {
			return value{
				x: &Builtin{typed{e.At(), typedefs["pid_t"]}, BuiltinPID, 0},
				t: typedefs["pid_t"],
			}
		}
		return number(e.At(), tInt, 0)
	case "is_user":
		if user {
			return number(e.At(), tUint32, 1)
		}
		return number(e.At(), tUint32, 0)
	case "strsz":
		return number(e.At(), tUint32, of.Strings)
	}
	near(
		c.fail(e.Name.At(), NoMember, "D_TYPE_MEMBER", "a stack has no member %s", e.Name.Text),
		e.Name.Text, []string{"addrs", "depth", "is_user", "pid", "strsz"},
	)
	return value{}
}

// stackAddress returns an element of a stack's addrs; 0: there are fewer frames.
func (c *checker) stackAddress(e *syntax.Index, a addressesType, key value) value {
	k, ok := key.settle().(*Const)
	if !ok {
		c.fail(e.Keys[0].At(), NotYet, "", "the index of a stack frame must be a constant number")
		return value{}
	}
	if k.Value < 0 || k.Value >= int64(a.of.Frames) {
		c.fail(
			e.Keys[0].At(), OutOfBounds, "D_ARR_BOUNDS",
			"frame %d is out of bounds: the stack has %d frames", k.Value, a.of.Frames,
		)
		return value{}
	}
	which := BuiltinFrame
	if a.of.T == (StackType{User}) {
		which = BuiltinUFrame
	}
	return value{x: &Builtin{typed{e.At(), tUint64}, which, int(k.Value)}, t: tUint64}
}
