package check

import (
	"culprit/lang/syntax"
)

// fit converts a value for an assignment to type t; nil when D does not allow it.
func (c *checker) fit(t Type, v value) Expr {
	switch to := t.(type) {
	case StringType:
		if v.textOrNull() {
			return c.str(v)
		}
	case *Int:
		if _, ok := v.int(); ok {
			return convert(v.x, to)
		}
	case *Pointer:
		if v.isString() {
			if isChar(to.Elem) || isVoid(to.Elem) {
				return &Convert{typed{v.x.Place(), &Pointer{Elem: to.Elem, Space: Own}}, v.x}
			}
			return nil
		}
		d := v.decay()
		if from, ok := d.t.(*Pointer); ok {
			if Same(from.Elem, to.Elem) || isVoid(from.Elem) || isVoid(to.Elem) {
				return convert(d.x, &Pointer{Elem: to.Elem, Space: to.Space})
			}
			return nil
		}
		if _, ok := d.int(); ok && isZero(d.x) {
			return convert(d.x, to)
		}
	case *Array:
		if isChar(to.Elem) && v.text() { // keys of this type
			return c.str(v)
		}
		if Same(to, v.t) {
			return v.x
		}
	case *Struct:
		if Same(to, v.t) {
			return v.x
		}
		if _, ok := v.int(); ok && isZero(v.x) { // frees it
			return &Const{typed{v.x.Place(), t}, 0}
		}
	case *Float, *Bytes:
		if Same(to, v.t) {
			return v.x
		}
	case StackType, SymbolType:
		if to == v.t {
			return v.x
		}
		if _, ok := t.(StackType); ok {
			if _, ok := v.int(); ok && isZero(v.x) { // no stack; frees it
				return &Const{typed{v.x.Place(), t}, 0}
			}
		}
	}
	return nil
}

// stored returns the type that a variable gets from its first value; nil: no variable can contain
// it.
func (c *checker) stored(v value) Type {
	switch t := v.t.(type) {
	case *Int, *Pointer, StringType, *Struct, StackType, SymbolType, *Float:
		return c.whole(ownType(t))
	case *Array:
		if isChar(t.Elem) {
			return tString
		}
		if c.wholeArray(t) {
			return t
		}
		return v.decay().t
	case *Bytes:
		if c.o.Bpftrace {
			return t
		}
	}
	return nil
}

// mostArray is the highest size of an array that variables and keys of bpftrace contain whole.
const mostArray = 512

// wholeArray reports whether variables and keys contain an array itself, as in bpftrace, and not
// its address, as in D.
func (c *checker) wholeArray(t *Array) bool {
	return c.o.Bpftrace && t.Len > 0 && t.Size() <= mostArray
}

// target returns the target of an assignment. New variables get the type of y, or int64_t when y is
// nil. made reports whether the variable is new.
func (c *checker) target(e syntax.Expr, y *value, step bool) (value, bool) {
	switch x := e.(type) {
	case *syntax.Ident:
		if x.Scope == syntax.ScopeKernel {
			v := c.exprAny(e)
			if v.ok() {
				c.notWritable(e, "can't assign to a kernel variable")
			}
			return value{}, false
		}
		if x.Scope == syntax.ScopeGlobal {
			if c.funcs[x.Name] != nil {
				c.notWritable(e, x.Name+" is not a variable and can't be assigned to")
				return value{}, false
			}
			if builtins[x.Name].name != "" && c.globals[x.Name] == nil {
				c.notWritable(e, x.Name+" is a built-in variable and can't be assigned to")
				return value{}, false
			}
		}
		id := c.lookup(x)
		if id == nil {
			if y == nil && !step {
				c.unassigned(x)
				return value{}, false
			}
			id = &ident{kind: identVar, name: x.Name, home: homeOf(x.Scope), at: x.At()}
			c.home(x.Scope)[x.Name] = id
			if !c.giveType(e, id, y) {
				return value{}, false
			}
		}
		if id.keys != nil || id.open {
			return c.identifier(x), false
		}
		c.space(e, id, y)
		return c.place(c.read(x.At(), id, nil))
	case *syntax.Index:
		id, ok := x.X.(*syntax.Ident)
		if !ok {
			break
		}
		v, done := c.assocRef(id, x, true)
		if !done {
			break
		}
		if !v.ok() {
			return v, false
		}
		ref, isRef := v.x.(*VarRef)
		if a, ok := v.x.(*AddrOf); ok {
			ref, isRef = a.X, true
		}
		if !isRef {
			c.notWritable(e, "the expression is not assignable")
			return value{}, false
		}
		if ref.T == nil {
			name := c.home(id.Scope)[id.Name]
			if !c.giveType(e, name, y) {
				return value{}, false
			}
			ref.Var.Type = name.t
			ref.T = name.t
		}
		return value{x: ref, t: ref.T, place: true}, false
	}
	v := c.expr(e)
	if !v.ok() {
		return v, false
	}
	if s, ok := v.x.(*StringOf); ok && v.place {
		return value{x: &Load{typed{e.At(), tString}, s.X}, t: tString, place: true}, false
	}
	if l, ok := v.x.(*Load); ok && !v.place {
		if of, _ := l.CharOf(); of != nil && len(of.Keys) == 0 && of.Var.Home != Self {
			v.place = true
			return v, false
		} else if of != nil {
			c.notWritable(
				e,
				"a character can be assigned only in strings of clause-local and "+
					"global variables",
			)
			return value{}, false
		}
	}
	if l, ok := v.x.(*Load); ok && v.place {
		if s := spaceOf(l.X); s == Typed {
			c.notWritable(e, "can't assign to kernel memory")
			return value{}, false
		}
		return v, false
	}
	switch v.t.(type) {
	case *Array, *Func:
		c.fail(e.At(), NotAssignable, "D_OP_LVAL", "can't assign to a whole array")
		return value{}, false
	case *Struct:
		return value{x: &Load{typed{e.At(), v.t}, v.x}, t: v.t, place: true}, false
	}
	c.fail(e.At(), NotAssignable, "D_OP_LVAL", "the expression is not assignable")
	return value{}, false
}

// CharOf returns the string variable of which l reads a character, and its index; nil: it reads
// something else.
func (l *Load) CharOf() (of *VarRef, index Expr) {
	if !isChar(l.T) {
		return nil, nil
	}
	at := l.X
	if b, ok := at.(*Binary); ok && b.Op == syntax.Add {
		at, index = b.X, b.Y
	}
	if to, ok := at.(*Convert); ok {
		if v, ok := to.X.(*VarRef); ok && v.T == Type(tString) {
			return v, index
		}
	}
	return nil, nil
}

// place returns a variable as a target: for a struct the variable itself, not its address.
func (c *checker) place(v value) (value, bool) {
	if a, ok := v.x.(*AddrOf); ok {
		return value{x: a.X, t: v.t, place: true}, false
	}
	return v, false
}

func (c *checker) notWritable(e syntax.Expr, message string) {
	d := c.fail(e.At(), NotWritable, "D_OP_WRITE", "%s", message)
	if c.predicate {
		d.Hint = "== compares"
	}
}

// giveType sets the type of a variable to that of the first value assigned to it.
func (c *checker) giveType(e syntax.Expr, id *ident, y *value) bool {
	switch {
	case y == nil:
		id.t = tInt64
	case !y.ok():
		id.bad = true
	default:
		id.t, id.implicit = c.stored(*y), true
		id.set = !isZero(y.x)
		if id.t == nil {
			id.bad = true
			c.fail(e.At(), NotStorable, "D_OP_INCOMPAT", "a variable can't contain %s", y.t)
		}
	}
	return !id.bad
}

// unassigned reports that a variable has no value to add to.
func (c *checker) unassigned(e *syntax.Ident) {
	c.home(e.Scope)[e.Name] = &ident{kind: identVar, name: e.Name, home: homeOf(e.Scope), bad: true}
	d := c.fail(e.At(), NotAssigned, "D_VAR_UNDEF", "%s is not declared or assigned before its use",
		scopeName(homeOf(e.Scope), e.Name))
	d.Hint = "assign to it before, or declare it"
}

// space sets the space of a declared pointer to that of its first value.
func (c *checker) space(e syntax.Expr, id *ident, y *value) {
	p, ok := id.t.(*Pointer)
	if y == nil || !y.ok() || !ok || isZero(y.x) || y.isString() {
		return
	}
	if id.set {
		c.mixed(e.At(), value{x: &VarRef{}, t: p}, y.decay())
		return
	}
	id.set = true
	if q, ok := y.decay().t.(*Pointer); ok && q.Space != p.Space && q.Space != Typed {
		id.t = &Pointer{Elem: p.Elem, Space: q.Space}
		if id.v != nil {
			id.v.Type = id.t
		}
	}
}

// assign returns X = Y and X op= Y.
func (c *checker) assign(e *syntax.Assign) value {
	if a, ok := e.X.(*syntax.Aggregation); ok {
		c.fail(
			a.At(), AggregationValue, "D_OP_INCOMPAT",
			"an assignment to an aggregation must be a statement of its own",
		)
		return value{}
	}
	y := c.expr(e.Y)
	if e.Op != syntax.Set {
		return c.compound(e, y)
	}
	if y.void {
		d := c.fail(e.Y.At(), NoValue, "D_OP_INCOMPAT", "the expression has no value")
		if y.act {
			d.Code, d.Message = ActionValue, "an action has no value"
		}
		y = value{}
	}
	if y.xl != nil {
		y = c.lasting(e.Y.At(), y)
	}
	made := y.xl
	if made != nil {
		y.t = made.t
		if _, ok := made.t.(*Struct); !ok {
			d := c.fail(e.Y.At(), NotStorable, "D_OP_DYN",
				"a variable can't contain a pointer to a translated struct")
			d.Hint = "assign its members"
			return value{}
		}
	}
	if m, ok := e.X.(*syntax.Member); ok {
		if v, done := c.cutStack(e, m, y); done {
			return v
		}
	}
	x, _ := c.target(e.X, &y, false)
	if !x.ok() || !y.ok() {
		return value{}
	}
	if made != nil {
		return c.assignTranslation(e, x, y)
	}
	if a, isArray := x.t.(*Array); isArray && !c.wholeArray(a) {
		c.fail(e.X.At(), NotAssignable, "D_OP_ARRFUN", "can't assign to a whole array")
		return value{}
	}
	r := c.fit(x.t, y)
	if r == nil {
		c.fail(e.At(), Incompatible, "D_OP_INCOMPAT", "%s can't be assigned to %s", y.t, x.t)
		return value{}
	}
	c.narrowed(e, x, y)
	return value{x: &Assign{typed{e.At(), x.t}, syntax.Set, x.x, r}, t: x.t}
}

// narrowed warns about a 64-bit number assigned to a variable that has 32 bits only because of its
// first value.
func (c *checker) narrowed(e *syntax.Assign, x, y value) {
	a, aok := x.int()
	b, bok := y.int()
	if _, known := y.x.(*Const); c.o.Bpftrace || !aok || !bok || a.Bytes >= b.Bytes || known {
		return
	}
	name, ok := e.X.(*syntax.Ident)
	if i, isIndex := e.X.(*syntax.Index); isIndex {
		name, ok = i.X.(*syntax.Ident)
	}
	if !ok {
		return
	}
	if id := c.lookup(name); id != nil && id.implicit {
		c.warn(
			e.At(), Narrowed,
			"%s has the type of its first value, %s, and %s does not fit in it: "+
				"declare the variable",
			scopeName(id.home, id.name), a, b,
		)
	}
}

// compound returns X op= Y.
func (c *checker) compound(e *syntax.Assign, y value) value {
	x, _ := c.target(e.X, nil, false)
	if !x.ok() || !y.ok() {
		return value{}
	}
	if p, ok := y.t.(*Pointer); ok && (e.Op == syntax.Add || e.Op == syntax.Sub) {
		c.fail(e.At(), Incompatible, "D_OP_VFPTR", "%s= can't take a pointer, %s", e.Op, p)
		return value{}
	}
	r := c.operate(e.At(), e.Op, x, y)
	if !r.ok() {
		return value{}
	}
	f := c.fit(x.t, r)
	if f == nil {
		c.fail(e.At(), Incompatible, "D_OP_INCOMPAT", "%s can't be assigned to %s", r.t, x.t)
		return value{}
	}
	ref, isVar := x.x.(*VarRef)
	if isVar && len(ref.Keys) == 0 {
		return value{x: &Assign{typed{e.At(), x.t}, syntax.Set, x.x, f}, t: x.t}
	}
	if b, ok := r.x.(*Binary); ok {
		return value{x: &Assign{typed{e.At(), x.t}, e.Op, x.x, b.Y}, t: x.t}
	}
	return value{x: &Assign{typed{e.At(), x.t}, syntax.Set, x.x, f}, t: x.t} // adding nothing
}

// step returns ++ and --.
func (c *checker) step(e *syntax.Step) value {
	x, _ := c.target(e.X, nil, true)
	if !x.ok() {
		return value{}
	}
	by := int64(1)
	switch t := x.t.(type) {
	case *Int:
	case *Pointer:
		if by = c.elemSize(e.At(), t); by == 0 {
			return value{}
		}
	default:
		c.fail(e.At(), NotInteger, "D_OP_SCALAR", "++ and -- require a number or a pointer, not %s",
			x.t)
		return value{}
	}
	if e.Op == syntax.Sub {
		by = -by
	}
	return value{x: &Step{typed{e.At(), x.t}, x.x, by, e.Post}, t: x.t}
}
