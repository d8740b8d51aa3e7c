package check

import (
	"strconv"
	"strings"

	"culprit/lang/syntax"
	"culprit/lang/words"
)

type identKind uint8

const (
	identVar identKind = iota
	identEnum
	identInline
)

// An ident is the meaning of a name in the text.
type ident struct {
	kind  identKind
	name  string
	home  Home
	t     Type   // nil: unknown, because its definition has a mistake
	keys  []Type // of an associative array; nil: none
	open  bool   // the types of the keys are not known yet
	v     *Var   // set at its first use
	value int64  // of an enumerator
	at    syntax.Span
	bad   bool // already reported: no further diagnostics about it

	inline *syntax.Inline
	lib    *library // of an inline: the library that contains it
	params []*syntax.Param
	set    bool // has been assigned to: the Space of a pointer is known

	implicit bool // not declared: it has the type of its first value
}

// A builtin is a built-in variable of D.
type builtin struct {
	name  string
	which BuiltinVar
	t     Type
	n     int
}

// builtins are the built-in variables of D by name.
//
// table: name to variable
var builtins = func() map[string]builtin {
	out := map[string]builtin{}
	for _, b := range []builtin{
		{"caller", BuiltinCaller, typedefs["uintptr_t"], 0},
		{"cpu", BuiltinCPU, typedefs["processorid_t"], 0}, {"curthread", BuiltinCurthread, nil, 0},
		{"epid", BuiltinEPID, tUint, 0}, {"errno", BuiltinErrno, tInt, 0},
		{"execname", BuiltinExecname, tString, 0}, {"gid", BuiltinGID, typedefs["gid_t"], 0},
		{"id", BuiltinID, tUint, 0}, {"ipl", BuiltinIPL, tUint, 0},
		{"pid", BuiltinPID, typedefs["pid_t"], 0}, {"ppid", BuiltinPPID, typedefs["pid_t"], 0},
		{"probefunc", BuiltinProbeFunc, tString, 0}, {"probemod", BuiltinProbeMod, tString, 0},
		{"probename", BuiltinProbeName, tString, 0}, {"probeprov", BuiltinProbeProv, tString, 0},
		{"stackdepth", BuiltinStackDepth, tUint32, 0}, {"tid", BuiltinTID, typedefs["tid_t"], 0},
		{"timestamp", BuiltinTimestamp, tUint64, 0}, {"ucaller", BuiltinUCaller, tUint64, 0},
		{"uid", BuiltinUID, typedefs["uid_t"], 0}, {"ustackdepth", BuiltinUStackDepth, tUint32, 0},
		{"vtimestamp", BuiltinVTimestamp, tUint64, 0},
		{"walltimestamp", BuiltinWallTimestamp, tInt64, 0},
		{"execargs", BuiltinExecargs, tString, 0}, {"args", BuiltinArg, nil, 0},
		{"uregs", BuiltinURegs, tUint64, 0},
	} {
		out[b.name] = b
	}
	for i := range 10 {
		name := "arg" + strconv.Itoa(i)
		out[name] = builtin{name, BuiltinArg, tInt64, i}
	}
	return out
}()

// lookup returns the variable that an identifier names, nil when there is none yet.
func (c *checker) lookup(e *syntax.Ident) *ident { return c.home(e.Scope)[e.Name] }

func (c *checker) home(s syntax.Scope) map[string]*ident {
	switch s {
	case syntax.ScopeSelf:
		return c.selfs
	case syntax.ScopeThis:
		return c.thiss
	}
	return c.globals
}

func homeOf(s syntax.Scope) Home {
	switch s {
	case syntax.ScopeSelf:
		return Self
	case syntax.ScopeThis:
		return This
	}
	return Global
}

func scopeName(h Home, name string) string {
	switch h {
	case Self:
		return "self->" + name
	case This:
		return "this->" + name
	}
	return name
}

// variableOf returns the Var of an ident. The first call makes it.
func (c *checker) variableOf(id *ident) *Var {
	if id.v == nil {
		id.v = &Var{ID: len(c.prog.Vars), Home: id.home, Name: id.name, Type: id.t, At: id.at}
		for _, k := range id.keys {
			id.v.Keys = append(id.v.Keys, c.keptKey(k))
		}
		c.prog.Vars = append(c.prog.Vars, id.v)
	}
	return id.v
}

// keptKey returns the type that a key has in the map.
func (c *checker) keptKey(t Type) Type {
	if a, ok := t.(*Array); c.o.Bpftrace && isWholeType(t) && (!ok || !isChar(a.Elem)) {
		return t
	}
	switch t := t.(type) {
	case *Struct:
		return &Bytes{t.Bytes}
	case *Array:
		if isChar(t.Elem) {
			return tString
		}
		return &Pointer{Elem: t.Elem}
	}
	return t
}

// read returns the value of a variable, or of an element.
func (c *checker) read(at syntax.Span, id *ident, keys []Expr) value {
	if id.bad || id.t == nil {
		return value{}
	}
	ref := &VarRef{typed{at, id.t}, c.variableOf(id), keys}
	switch t := id.t.(type) {
	case *Struct, *Array:
		p := &Pointer{Elem: t, Space: Own}
		return value{x: &AddrOf{typed{at, p}, ref}, t: t}
	}
	return value{x: ref, t: id.t, place: true}
}

// identifier returns the value of a name.
func (c *checker) identifier(e *syntax.Ident) value {
	if e.Scope == syntax.ScopeKernel {
		return c.symbol(e)
	}
	if e.Scope == syntax.ScopeGlobal {
		if n := len(c.keys); n > 0 { // the text of an inline can use only its own keys
			if v, ok := c.keys[n-1][e.Name]; ok {
				return v
			}
		}
		if id := c.funcs[e.Name]; id != nil {
			return c.named(e, id)
		}
	}
	if id := c.lookup(e); id != nil {
		if id.bad {
			return value{}
		}
		if id.keys != nil || id.open {
			c.fail(
				e.At(), NotArray, "D_IDENT_BADREF", "missing keys of the associative array %s",
				scopeName(id.home, id.name),
			)
			return value{}
		}
		return c.read(e.At(), id, nil)
	}
	if e.Scope == syntax.ScopeGlobal {
		if b, ok := builtins[e.Name]; ok {
			return c.builtin(e, b)
		}
		if id := c.library(e.Name); id != nil {
			return c.named(e, id)
		}
		if t, n, ok := c.types.kernelEnumerator(e.Name); ok {
			id := &ident{kind: identEnum, name: e.Name, t: t, value: n}
			c.funcs[e.Name] = id
			return c.named(e, id)
		}
	}
	c.unknown(e)
	return value{}
}

func (c *checker) unknown(e *syntax.Ident) {
	if c.learning {
		return
	}
	id := &ident{kind: identVar, name: e.Name, home: homeOf(e.Scope), bad: true}
	defer func() { c.home(e.Scope)[e.Name] = id }() // report it once
	list := names(c.home(e.Scope))
	if e.Scope == syntax.ScopeGlobal {
		d := c.fail(e.At(), UnknownName, "D_IDENT_UNDEF", "unknown name %s", e.Name)
		list = append(append(list, names(builtins)...), names(c.funcs)...)
		for _, s := range []syntax.Scope{syntax.ScopeSelf, syntax.ScopeThis} {
			if c.home(s)[e.Name] != nil {
				d.Near = scopeName(homeOf(s), e.Name)
				return
			}
		}
		if c.foreignWord(d, e.Name) {
			return
		}
		if d.Hint = words.Constant(e.Name); d.Hint != "" {
			return
		}
		near(d, e.Name, list)
		if _, fn := subroutines[e.Name]; fn || actions[e.Name] != nil {
			d.Hint = e.Name + " is a function: " + e.Name + "()"
		} else if d.Near == "" {
			d.Hint = "assign to a variable, or declare it, before its first use"
		}
		return
	}
	d := c.fail(
		e.At(), NotAssigned, "D_VAR_UNDEF", "%s is not declared or assigned before its use",
		scopeName(homeOf(e.Scope), e.Name),
	)
	d.Hint = "the clause that assigns to it must come first"
	near(d, e.Name, list)
	if d.Near != "" {
		d.Near = scopeName(homeOf(e.Scope), d.Near)
	}
}

// named returns the value of an enumerator or an inline.
func (c *checker) named(e syntax.Expr, id *ident) value {
	switch {
	case id.bad:
		return value{}
	case id.kind == identEnum:
		t, _ := id.t.(*Int)
		return number(e.At(), t, id.value)
	case id.params != nil:
		c.fail(e.At(), NotArray, "D_IDENT_BADREF", "missing keys of %s", id.name)
		return value{}
	}
	return c.expand(e.At(), id, map[string]value{})
}

// expand returns the value of an inline.
func (c *checker) expand(at syntax.Span, id *ident, keys map[string]value) value {
	if c.depth > 32 {
		c.fail(at, syntax.TooDeep, "", "the inline %s is nested too deeply", id.name)
		return value{}
	}
	c.depth++
	c.keys = append(c.keys, keys)
	outer, place := c.lib, c.use
	if id.lib != nil {
		if c.lib == nil {
			c.use = at
		}
		c.lib = id.lib
	}
	v := c.expr(id.inline.Value)
	c.lib, c.use = outer, place
	c.keys = c.keys[:len(c.keys)-1]
	c.depth--
	if !v.ok() {
		return value{}
	}
	if v.xl != nil && Same(id.t, v.xl.t) {
		return v
	}
	x := c.fit(id.t, v)
	if x == nil {
		c.fail(
			id.at, Incompatible, "D_OP_INCOMPAT",
			"the inline %s has type %s, its value has type %s", id.name, id.t, v.t,
		)
		return value{}
	}
	t := id.t
	if _, isPointer := t.(*Pointer); isPointer {
		t = x.Type() // it has the space of the value's pointer
	}
	return value{x: x, t: t}
}

// inline declares an inline.
func (c *checker) inline(s *syntax.Inline) {
	name := s.Var.Name.Text
	id := &ident{kind: identInline, name: name, at: s.Var.Name.At(), inline: s, lib: c.lib}
	written := s.Var.Type
	keys := map[string]value{}
	if a, ok := written.(*syntax.Assoc); ok {
		id.params = a.Keys
		for _, p := range a.Keys {
			t := c.typeOf(p.Type)
			if t == nil {
				id.bad = true
				continue
			}
			keys[p.Name.Text] = sample(p.At(), t)
		}
		written = a.Elem
	}
	id.t = c.typeOf(written)
	if id.t == nil {
		id.bad = true
	}
	_, isSub := subroutines[name]
	if c.globals[name] != nil || c.funcs[name] != nil || builtins[name].name != "" || isSub ||
		actions[name] != nil {
		c.fail(
			s.Var.Name.At(), Redeclared, "D_DECL_IDRED", "%s is declared twice, or is a name of D",
			name,
		)
		return
	}
	// expand it once by itself, so that mistakes are reported at its definition
	if !id.bad && c.lib == nil {
		before := len(c.diags)
		if v := c.expand(s.Value.At(), id, keys); !v.ok() || len(c.diags) > before {
			id.bad = true
		}
	}
	c.funcs[name] = id
}

// sample returns a value of a type for checking an inline by itself.
func sample(at syntax.Span, t Type) value {
	return value{x: &Builtin{typed{at, t}, BuiltinArg, 0}, t: t}
}

// builtin returns the value of a built-in variable.
func (c *checker) builtin(e *syntax.Ident, b builtin) value {
	t := b.t
	switch b.name {
	case "args":
		c.fail(e.At(), ArgsIndex, "D_IDENT_BADREF", "args[] requires a number: args[0]")
		return value{}
	case "uregs":
		c.fail(e.At(), ArgsIndex, "D_IDENT_BADREF", "uregs[] requires a number: uregs[0]")
		return value{}
	case "arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7", "arg8", "arg9":
		if p := c.meant(); p != nil {
			return c.plain(e.At(), p, b.n)
		}
	case "curthread":
		c.stable(e.At(), "curthread")
		s := c.types.kernelStruct("task_struct", false)
		if s == nil {
			s = &Struct{
				Name:   "task_struct",
				Only:   true,
				Fields: func() []StructMember { return nil },
			}
		}
		t = &Pointer{Elem: s, Space: Kernel}
	}
	n := b.n
	if b.which == BuiltinStackDepth || b.which == BuiltinUStackDepth {
		n = c.o.MaxFrames
	}
	return value{x: &Builtin{typed{e.At(), t}, b.which, n}, t: t}
}

// stable checks a use of kernel internals, which dtrace calls Private, against the option amin. Its
// value name/data/class is the lowest stability that the program accepts.
func (c *checker) stable(at syntax.Span, what string) {
	least := strings.Split(c.o.All["amin"], "/")
	if len(least) == 3 && least[1] != "Internal" && least[1] != "Private" && least[1] != "" {
		c.fail(
			at, Unstable, "D_ATTR_MIN",
			"%s is internal to the kernel and may change; the option amin requires %s", what,
			least[1],
		)
	}
}

// symbol returns the value of a kernel variable.
func (c *checker) symbol(e *syntax.Ident) value {
	if c.env == nil {
		return value{}
	}
	c.stable(e.At(), "a kernel variable")
	if v, ok := c.perCPU(e); ok {
		return v
	}
	addr, bt, err := c.env.Symbol(e.Module, e.Name)
	if err != nil {
		d := c.fail(
			e.At(), NoSymbol, "D_IDENT_UNDEF", "unknown kernel variable %s`%s: %v", e.Module,
			e.Name, err,
		)
		d.Hint = words.Variable(e.Name)
		return value{}
	}
	var t Type = tInt
	if bt != nil {
		t = c.types.from(bt)
	}
	p := &Pointer{Elem: t, Space: Kernel}
	if isVoid(t) {
		return value{x: &Const{typed{e.At(), p}, int64(addr)}, t: p}
	}
	return c.at(e.At(), &Const{typed{e.At(), p}, int64(addr)}, t)
}

// inlineRef returns the value of an inline with keys.
func (c *checker) inlineRef(id *ident, e *syntax.Index) value {
	if id.bad {
		return value{}
	}
	if len(e.Keys) != len(id.params) {
		c.fail(
			e.At(), KeyMismatch, "D_PROTO_LEN", "%s has %s, not %d", id.name,
			count(len(id.params), "key"), len(e.Keys),
		)
		return value{}
	}
	keys := map[string]value{}
	for i, k := range e.Keys {
		v := c.expr(k)
		t := c.typeOf(id.params[i].Type)
		if !v.ok() || t == nil {
			return value{}
		}
		x := c.fit(t, v)
		if x == nil {
			c.fail(
				k.At(), KeyMismatch, "D_PROTO_ARG", "key %d of %s is %s, not %s", i+1, id.name, t,
				v.t,
			)
			return value{}
		}
		keys[id.params[i].Name.Text] = value{x: x, t: t}
	}
	return c.expand(e.At(), id, keys)
}
