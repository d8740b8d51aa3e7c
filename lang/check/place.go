package check

import (
	"slices"
	"strings"

	"culprit/lang/syntax"
	"culprit/lang/words"
)

// at returns the value at an address; for a struct or array, the address itself.
func (c *checker) at(at syntax.Span, addr Expr, t Type) value {
	p := &Pointer{Elem: t, Space: spaceOf(addr)}
	switch t := t.(type) {
	case *Struct, *Array, *Func:
		return value{x: convert(addr, p), t: t}
	case *Pointer:
		k := *t
		// a pointer refers to the memory that it is stored in, except for pointers that the script
		// stores
		if k.Space == Kernel {
			if p.Space == User || p.Space == Typed {
				k.Space = p.Space
			}
		}
		if _, ok := k.Elem.(*Struct); (!ok || k.raw) && k.Space == Typed {
			k.Space = Kernel
		}
		return value{x: &Load{typed{at, &k}, convert(addr, p)}, t: &k, place: true}
	case StringType:
		return value{x: &StringOf{typed{at, tString}, convert(addr, p), 0}, t: tString, place: true}
	}
	return value{x: &Load{typed{at, t}, convert(addr, p)}, t: t, place: true}
}

// deref returns *X.
func (c *checker) deref(e *syntax.Unary) value {
	v := c.expr(e.X)
	if !v.ok() {
		return value{}
	}
	v = v.decay()
	if v.isString() { // the first character
		return c.charOf(e.At(), v, number(e.At(), tInt, 0))
	}
	p, ok := v.t.(*Pointer)
	if !ok {
		c.fail(e.At(), NotPointer, "D_DEREF_NONPTR", "* requires a pointer, not %s", v.t)
		return value{}
	}
	return c.through(e.At(), v, p)
}

// through returns the value that a pointer points to.
func (c *checker) through(at syntax.Span, v value, p *Pointer) value {
	switch t := p.Elem.(type) {
	case VoidType:
		d := c.fail(at, NotPointer, "D_DEREF_VOID", "can't dereference a void *")
		d.Hint = "cast it: *(int *)"
		return value{}
	case *Func:
		c.fail(at, NotPointer, "D_DEREF_FUNC", "can't dereference a function pointer")
		return value{}
	case *Struct:
		if t.Only && !c.known(at, t) {
			return value{}
		}
	}
	return c.at(at, v.x, p.Elem)
}

// known reports a struct whose members are unknown.
func (c *checker) known(at syntax.Span, t *Struct) bool {
	if !t.Only {
		return true
	}
	if c.types.noSpec(at) {
		return false
	}
	d := c.fail(at, Incomplete, "D_OP_INCOMPLETE", "the members of %s are unknown", t)
	if c.types.tags[tagKey(t.Union, t.Name)] == t { // the kernel has none of that name
		d.Near = c.types.nearType(t.Name)
	}
	return false
}

// addr returns &X.
func (c *checker) addr(e *syntax.Unary) value {
	if _, ok := e.X.(*syntax.Aggregation); ok {
		c.fail(e.At(), NoAddress, "D_ADDROF_VAR", "an aggregation has no address")
		return value{}
	}
	v := c.expr(e.X)
	if !v.ok() {
		return value{}
	}
	if i, ok := v.int(); ok && i.Bits > 0 {
		c.fail(e.At(), NoAddress, "D_ADDROF_BITFIELD", "a bit field has no address")
		return value{}
	}
	switch x := v.x.(type) {
	case *Load:
		if v.place {
			p := &Pointer{Elem: x.T, Space: spaceOf(x.X)}
			return value{x: convert(x.X, p), t: p}
		}
	case *VarRef, *AddrOf: // a variable, or one that is a struct or an array
		c.fail(e.At(), NoAddress, "D_ADDROF_VAR", "a variable of D has no fixed address")
		return value{}
	case *Builtin:
		c.fail(e.At(), NoAddress, "D_ADDROF_VAR", "a built-in variable has no address")
		return value{}
	}
	switch v.t.(type) {
	case *Struct, *Array, *Func:
		p := &Pointer{Elem: v.t, Space: spaceOf(v.x)}
		return value{x: convert(v.x, p), t: p}
	}
	c.fail(e.At(), NoAddress, "D_ADDROF_LVAL", "the expression has no address")
	return value{}
}

// member returns X.name and X->name.
func (c *checker) member(e *syntax.Member) value {
	if id, ok := e.X.(*syntax.Ident); ok && id.Name == "args" && c.lookup(id) == nil {
		return c.argsNamed(e)
	}
	v := c.expr(e.X)
	if !v.ok() {
		return value{}
	}
	t := v.t
	if v.xl != nil {
		return c.translated(e, v)
	}
	if st, ok := t.(StackType); ok {
		return c.stackMember(e, v, st)
	}
	if e.Arrow {
		v = v.decay()
		p, ok := v.t.(*Pointer)
		if !ok {
			d := c.fail(
				e.At(), NotPointer, "D_OP_PTR", "-> requires a pointer to a struct, not %s", v.t,
			)
			if _, ok := v.t.(*Struct); ok {
				d.Hint = "use . instead of ->"
			}
			return value{}
		}
		t = p.Elem
	}
	if p, ok := t.(*Pointer); ok && c.o.Bpftrace { // p.x is p->x
		t = p.Elem
	}
	s, ok := t.(*Struct)
	if !ok {
		d := c.fail(e.At(), NotStruct, "D_OP_SOU", "%s has no members", t)
		if p, ok := v.t.(*Pointer); ok && !e.Arrow {
			if _, ok := p.Elem.(*Struct); ok {
				d.Hint = "use -> instead of ."
			}
		}
		return value{}
	}
	if !c.known(e.X.At(), s) {
		return value{}
	}
	f, ok := c.field(e.Name, s, "D_TYPE_MEMBER")
	if !ok {
		return value{}
	}
	return c.fieldOf(e.At(), v, f)
}

// fieldOf returns a member of the struct at the address v.
func (c *checker) fieldOf(at syntax.Span, v value, f StructMember) value {
	space := spaceOf(v.x)
	p := &Pointer{Elem: f.Type, Space: space}
	var addr Expr
	switch x := v.x.(type) {
	case *Const:
		if x.Value != 0 { // a member of NULL is a fault at 0, whatever its offset
			addr = &Const{typed{at, p}, x.Value + f.Offset}
		}
	case *Binary:
		if k, ok := x.Y.(*Const); ok && x.Op == syntax.Add && f.Offset != 0 {
			addr = &Binary{typed{at, p}, syntax.Add, x.X,
				&Const{typed{at, tLong}, k.Value + f.Offset}}
		}
	case *Convert:
		if b, ok := x.X.(*Binary); ok && b.Op == syntax.Add && f.Offset != 0 {
			if k, ok := b.Y.(*Const); ok {
				addr = &Binary{typed{at, p}, syntax.Add, b.X,
					&Const{typed{at, tLong}, k.Value + f.Offset}}
			}
		}
	}
	if addr == nil {
		addr = v.x
		if f.Offset != 0 {
			addr = &Binary{typed{at, p}, syntax.Add, v.x, &Const{typed{at, tLong}, f.Offset}}
		}
	}
	out := c.at(at, addr, f.Type)
	// the verifier does not know which member of the union is valid
	if p, ok := out.t.(*Pointer); ok && p.Space == Typed && f.union {
		k := &Pointer{Elem: p.Elem}
		out.t = k
		if l, ok := out.x.(*Load); ok {
			l.T = k
		}
	}
	return out
}

// field finds a member, including those of anonymous members.
func (c *checker) field(name syntax.Name, s *Struct, tag string) (StructMember, bool) {
	var all []string
	for _, f := range s.Fields() {
		if f.Name == name.Text {
			return f, true
		}
		all = append(all, f.Name)
	}
	if f, ok := renamedField(s, name.Text); ok {
		return f, true
	}
	d := c.fail(name.At(), NoMember, tag, "%s has no member %s", s, name.Text)
	linux, _, _ := strings.Cut(words.Member(name.Text), "->")
	linux, _, _ = strings.Cut(linux, ".")
	if linux != "" && slices.Contains(all, linux) {
		d.Hint = "on Linux it is " + words.Member(name.Text)
	} else if d.Hint = words.Translated(name.Text); d.Hint == "" {
		near(d, name.Text, all)
	}
	return StructMember{}, false
}

// index returns X[keys]: an element of an associative array, of an array, or behind a pointer.
func (c *checker) index(e *syntax.Index) value {
	if id, ok := e.X.(*syntax.Ident); ok {
		if v, done := c.assocRef(id, e, false); done {
			return v
		}
	}
	x := c.expr(e.X)
	var keys []value
	bad := !x.ok()
	for _, k := range e.Keys {
		v := c.expr(k)
		bad = bad || !v.ok()
		keys = append(keys, v)
	}
	if bad {
		return value{}
	}
	if len(keys) > 1 {
		c.fail(
			e.At(), NotArray, "D_ARR_BADREF",
			"more than one key for something other than an associative array",
		)
		return value{}
	}
	i, ok := keys[0].int()
	if !ok {
		c.fail(
			e.Keys[0].At(), NotInteger, "D_ARR_BADREF", "an index must be an integer, not %s",
			keys[0].t,
		)
		return value{}
	}
	length := x.len
	if a, ok := x.t.(*Array); ok {
		length = a.Len
	}
	if k, ok := keys[0].settle().(*Const); ok && length > 0 &&
		(k.Value < 0 && i.Signed || uint64(k.Value) >= uint64(length)) {
		c.fail(
			e.Keys[0].At(), OutOfBounds, "D_ARR_BOUNDS",
			"index %d is out of bounds: the array has %d elements", k.Value, length,
		)
		return value{}
	}
	if a, ok := x.t.(addressesType); ok {
		return c.stackAddress(e, a, keys[0])
	}
	if x.isString() {
		return c.charOf(e.At(), x, keys[0])
	}
	x = x.decay()
	p, ok := x.t.(*Pointer)
	if !ok {
		c.fail(e.At(), NotArray, "D_ARR_BADREF", "%s is neither an array nor a pointer", x.t)
		return value{}
	}
	if isVoid(p.Elem) {
		d := c.fail(e.At(), NotPointer, "D_DEREF_VOID", "can't dereference a void *")
		d.Hint = "cast it: ((int *)x)[0]"
		return value{}
	}
	size := c.elemSize(e.At(), p)
	if size == 0 {
		return value{}
	}
	elem := c.offset(e.At(), syntax.Add, x, keys[0], size)
	return c.through(e.At(), elem, p)
}

// charOf returns a character of a string.
func (c *checker) charOf(at syntax.Span, s, n value) value {
	p := &Pointer{Elem: tChar, Space: Own}
	addr := value{x: &Convert{typed{at, p}, s.x}, t: p}
	v := c.at(at, c.offset(at, syntax.Add, addr, n, 1).x, tChar)
	v.place = false
	return v
}

// sizeOf returns sizeof.
func (c *checker) sizeOf(e *syntax.SizeOf) value {
	var t Type
	if e.Type != nil {
		t = c.typeOf(e.Type)
	} else if s, ok := e.X.(*syntax.String); ok {
		t = &Array{Elem: tChar, Len: int64(len(s.Value)) + 1}
	} else if v := c.exprAny(e.X); v.ok() {
		t = v.t
	}
	var n int64
	switch k := t.(type) {
	case nil:
		return value{}
	case StringType:
		n = c.strSize()
	case VoidType, *Func, StackType, SymbolType:
		c.fail(e.At(), NoSize, "D_SIZEOF_TYPE", "%s has no size", t)
		return value{}
	case *Int:
		if k.Bits > 0 {
			c.fail(e.At(), NoSize, "D_SIZEOF_BITFIELD", "a bit field has no size in bytes")
			return value{}
		}
		n = k.Size()
	case *Struct:
		if k.Only && c.types.noSpec(e.At()) {
			return value{}
		}
		if k.Only {
			d := c.fail(e.At(), NoSize, "D_SIZEOF_TYPE", "the size of %s is unknown", t)
			d.Near = c.types.nearType(k.Name)
			return value{}
		}
		n = k.Size()
	default:
		n = t.Size()
	}
	return number(e.At(), typedefs["size_t"].(*Int), n)
}

// strSize returns the highest size of a string in bytes.
func (c *checker) strSize() int64 {
	if c.o.StrSize > 0 {
		return c.o.StrSize
	}
	return 256
}

// offsetOf returns offsetof.
func (c *checker) offsetOf(e *syntax.OffsetOf) value {
	t := c.typeOf(e.Type)
	var n int64
	for _, name := range e.Path {
		if t == nil {
			return value{}
		}
		s, ok := t.(*Struct)
		if !ok || s.Only && !c.types.noSpec(e.At()) {
			c.fail(e.At(), NotStruct, "D_OFFSETOF_TYPE", "the members of %s are unknown", t)
			return value{}
		}
		if s.Only {
			return value{}
		}
		f, ok := c.field(name, s, "D_UNKNOWN")
		if !ok {
			return value{}
		}
		if i, ok := isInt(f.Type); ok && i.Bits > 0 {
			c.fail(name.At(), NoAddress, "D_OFFSETOF_BITFIELD", "a bit field has no byte offset")
			return value{}
		}
		n += f.Offset
		t = f.Type
	}
	return number(e.At(), typedefs["size_t"].(*Int), n)
}

// stringOf returns stringof.
func (c *checker) stringOf(e *syntax.StringOf) value {
	v := c.expr(e.X)
	if !v.ok() {
		return value{}
	}
	_, isInt := v.int()
	_, isPointer := v.t.(*Pointer)
	switch {
	case v.text():
		return value{x: c.str(v), t: tString}
	case isInt, isPointer:
		p := &Pointer{Elem: tChar, Space: Kernel}
		if isPointer {
			p.Space = spaceOf(v.x)
		}
		return value{x: &StringOf{typed{e.At(), tString}, convert(v.x, p), 0}, t: tString}
	}
	if a, ok := v.t.(*Array); ok {
		return value{x: &StringOf{typed{e.At(), tString}, v.x, max(0, a.Size())}, t: tString}
	}
	c.fail(e.At(), NoString, "D_STRINGOF_TYPE", "can't convert %s to a string", v.t)
	return value{}
}

// cast returns (type) X.
func (c *checker) cast(e *syntax.Cast) value {
	t := c.typeOf(e.Type)
	v := c.lasting(e.At(), c.exprAny(e.X))
	if t == nil || !v.ok() {
		return value{}
	}
	wrong := func() value {
		c.fail(e.At(), BadCast, "D_CAST_INVAL", "can't cast %s to %s", v.t, t)
		return value{}
	}
	if isVoid(t) && !v.void {
		return value{x: &Convert{typed{e.At(), tVoid}, v.x}, t: tVoid, void: true}
	}
	if v.void {
		return wrong()
	}
	switch to := t.(type) {
	case *Int:
		if v.isString() { // its address
			return value{x: convert(&Convert{typed{e.At(), &Pointer{Elem: tChar, Space: Own}}, v.x},
				to), t: to}
		}
		d := v.decay()
		if !d.scalar() {
			return wrong()
		}
		return value{x: convert(d.x, to), t: to}
	case *Pointer:
		if v.isString() {
			p := &Pointer{Elem: to.Elem, Space: Own}
			return value{x: &Convert{typed{e.At(), p}, v.x}, t: p}
		}
		d := v.decay()
		if _, s := d.t.(*Struct); s || !d.scalar() {
			return wrong()
		}
		p := &Pointer{Elem: to.Elem, Space: to.Space}
		if _, isInt := d.int(); isInt && c.o.Bpftrace && c.ofUser() {
			p.Space = User
		}
		if from, ok := d.t.(*Pointer); ok {
			p.Space = from.Space
			if p.Space == Typed && !Same(p.Elem, from.Elem) {
				p.Space = Kernel
			}
		}
		return value{x: convert(d.x, p), t: p}
	case StringType:
		if p, ok := v.t.(*Pointer); ok && !v.text() {
			return value{x: &StringOf{typed{e.At(), tString},
				convert(v.x, &Pointer{Elem: tChar, Space: p.Space}), 0}, t: tString}
		}
		if !v.text() {
			return wrong()
		}
		return value{x: c.str(v), t: tString}
	case *Struct:
		if Same(t, v.t) {
			return v
		}
	}
	return wrong()
}

// renamed are members of kernel structs that newer kernels renamed, by struct: the older name
// first. A script may use either name on any kernel.
//
// table: made once, never changed
var renamed = map[string][][2]string{
	"task_struct": {{"state", "__state"}}, // Linux 5.14, with another type of the same meaning
}

// renamedField finds a member by its name in older or newer kernels.
func renamedField(s *Struct, name string) (StructMember, bool) {
	for _, names := range renamed[s.Name] {
		other := ""
		switch name {
		case names[0]:
			other = names[1]
		case names[1]:
			other = names[0]
		default:
			continue
		}
		for _, f := range s.Fields() {
			if f.Name == other {
				return f, true
			}
		}
	}
	return StructMember{}, false
}
