package check

import (
	"culprit/lang/syntax"
)

// An addressesType is the type of a stack's member addrs. Nothing but an index knows what to do with it.
type addressesType struct {
	Type // of one address
	of   *StackOf
}

// String gives the type as C writes it.
func (t addressesType) String() string { return "uint64_t []" }

// stackMember gives a member of stack() or ustack(), as dtrace's dt_stack_t has them: depth, addrs, is_user, pid and strsz.
func (c *checker) stackMember(e *syntax.Member, v value, t StackType) value {
	of, ok := v.x.(*StackOf)
	switch {
	case e.Arrow:
		c.fail(e.At(), NotPointer, "D_OP_PTR", "-> wants a pointer to a struct, not %s", t).Hint = "write . in place of ->"
		return value{}
	case !ok: // a variable has the stack's number alone
		c.fail(e.At(), NotYet, "", "members of a stack that a variable holds are not supported").Hint = "ask for them where the stack is taken: " + t.String() + "()." + e.Name.Text
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
			return value{x: &Builtin{typed{e.At(), typedefs["pid_t"]}, BuiltinPID, 0}, t: typedefs["pid_t"]}
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
	near(c.fail(e.Name.At(), NoMember, "D_TYPE_MEMBER", "a stack has no member %s", e.Name.Text), e.Name.Text, []string{"addrs", "depth", "is_user", "pid", "strsz"})
	return value{}
}

// stackAddress gives an element of a stack's addrs; 0: there are not so many frames.
func (c *checker) stackAddress(e *syntax.Index, a addressesType, key value) value {
	k, ok := key.settle().(*Const)
	if !ok {
		c.fail(e.Keys[0].At(), NotYet, "", "which frame of a stack is wanted must be a constant number")
		return value{}
	}
	if k.Value < 0 || k.Value >= int64(a.of.Frames) {
		c.fail(e.Keys[0].At(), OutOfBounds, "D_ARR_BOUNDS", "there is no frame %d in a stack of %d", k.Value, a.of.Frames)
		return value{}
	}
	which := BuiltinFrame
	if a.of.T == (StackType{User}) {
		which = BuiltinUFrame
	}
	return value{x: &Builtin{typed{e.At(), tUint64}, which, int(k.Value)}, t: tUint64}
}
