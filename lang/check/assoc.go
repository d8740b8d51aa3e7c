package check

import (
	"strconv"

	"culprit/lang/syntax"
)

// assocRef returns an element of an associative array, args[] or uregs[]. done is false when X is
// something else. With make set, an unknown array is declared.
func (c *checker) assocRef(name *syntax.Ident, e *syntax.Index, make bool) (value, bool) {
	if name.Scope == syntax.ScopeKernel {
		return value{}, false
	}
	if name.Scope == syntax.ScopeGlobal && c.globals[name.Name] == nil &&
		c.funcs[name.Name] == nil &&
		builtins[name.Name].name == "" {
		c.library(name.Name)
	}
	if id := c.funcs[name.Name]; id != nil && name.Scope == syntax.ScopeGlobal {
		if id.kind == identInline && id.params != nil {
			return c.inlineRef(id, e), true
		}
		return value{}, false
	}
	id := c.lookup(name)
	if id == nil {
		if name.Scope == syntax.ScopeGlobal {
			switch name.Name {
			case "args":
				return c.argsRef(e), true
			case "uregs":
				return c.uregs(e), true
			}
			if builtins[name.Name].name != "" {
				return value{}, false
			}
		}
		if !make {
			c.unknown(name)
			c.keyValues(e.Keys)
			return value{}, true
		}
		if name.Scope == syntax.ScopeThis {
			d := c.fail(e.At(), ThisArray, "D_ARR_LOCAL", "this->%s can't be an associative array",
				name.Name)
			d.Hint = "use self->" + name.Name + " or a global one"
			c.thiss[name.Name] = &ident{name: name.Name, home: This, bad: true}
			return value{}, true
		}
		id = &ident{
			kind: identVar,
			name: name.Name,
			home: homeOf(name.Scope),
			at:   name.At(),
			open: true,
		}
		keys, ok := c.keyValues(e.Keys)
		if !ok {
			id.bad = true
		}
		c.home(name.Scope)[name.Name] = id
		return c.element(e, id, keys), true
	}
	if id.bad {
		c.keyValues(e.Keys)
		return value{}, true
	}
	if id.keys == nil && !id.open {
		return value{}, false
	}
	keys, ok := c.keyValues(e.Keys)
	if !ok {
		return value{}, true
	}
	return c.element(e, id, keys), true
}

func (c *checker) keyValues(list []syntax.Expr) ([]value, bool) {
	var out []value
	ok := true
	for _, k := range list {
		v := c.expr(k)
		ok = ok && v.ok() && (!v.ok() || c.keyType(k.At(), v.t))
		out = append(out, v)
	}
	return out, ok
}

// keyType reports whether values of a type can be keys of an associative array.
func (c *checker) keyType(at syntax.Span, t Type) bool {
	switch t := t.(type) {
	case *Int, *Pointer, StringType:
		return true
	case *Array:
		return true
	case *Struct:
		return t.Bytes > 0
	case StackType, SymbolType, *Bytes:
		if c.o.Bpftrace {
			return true
		}
	}
	c.fail(at, KeyType, "D_KEY_TYPE", "%s can't be a key", t)
	return false
}

// element returns an element of an associative array with valid keys. The first use of an array
// determines the types of its keys.
func (c *checker) element(e *syntax.Index, id *ident, keys []value) value {
	if id.bad {
		return value{}
	}
	if id.open && id.keys == nil {
		for _, k := range keys {
			id.keys = append(id.keys, c.keyTypeOf(k))
		}
		id.open = false
	}
	if len(keys) != len(id.keys) {
		c.fail(
			e.At(), KeyMismatch, "D_PROTO_LEN", "%s has %s, not %d", scopeName(id.home, id.name),
			count(len(id.keys), "key"), len(keys),
		)
		return value{}
	}
	var xs []Expr
	for i, k := range keys {
		x := c.fit(id.keys[i], k)
		if x == nil {
			c.fail(
				e.Keys[i].At(), KeyMismatch, "D_PROTO_ARG", "key %d of %s is %s, not %s", i+1,
				scopeName(id.home, id.name), id.keys[i], k.t,
			)
			return value{}
		}
		if t := id.keys[i]; c.o.Bpftrace && isWholeType(t) {
			x = &Copy{typed{x.Place(), t}, k.x, t.Size()}
		} else if s, ok := t.(*Struct); ok {
			x = &Copy{typed{x.Place(), &Bytes{s.Bytes}}, x, s.Bytes}
		}
		xs = append(xs, x)
	}
	if id.t == nil { // its type is that of the assigned value
		return value{x: &VarRef{typed{e.At(), nil}, c.variableOf(id), xs}, place: true}
	}
	return c.read(e.At(), id, xs)
}

// keyTypeOf returns the type that a value has as a key.
func (c *checker) keyTypeOf(v value) Type {
	switch t := v.t.(type) {
	case *Array:
		if isChar(t.Elem) {
			return tString
		}
		if c.wholeArray(t) {
			return t
		}
		return v.decay().t
	case *Int:
		return c.whole(ownType(t))
	}
	return ownType(v.t)
}

// isWholeType reports whether a type is that of structs or arrays.
func isWholeType(t Type) bool {
	switch t.(type) {
	case *Struct, *Array:
		return true
	}
	return false
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
