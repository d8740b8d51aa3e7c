package check

import (
	"strconv"
	"strings"

	"culprit/lang/syntax"
)

type identKind uint8

const (
	identVar identKind = iota
	identEnum
	identInline
)

// An ident is what a name of the text stands for.
type ident struct {
	kind  identKind
	name  string
	home  Home
	t     Type   // nil: not known, since what gave it was wrong
	keys  []Type // of an associative array; nil: none
	open  bool   // the types of the keys are not known yet
	v     *Var   // once it is used
	value int64  // of an enumerator
	at    syntax.Span
	bad   bool // told of: nothing more is said about it

	inline *syntax.Inline
	lib    *library // of an inline: whose text it stands in
	params []*syntax.Param
	set    bool // was assigned to: Space of a pointer is known

	implicit bool // was not declared: its type is that of its first value
}

// A builtin is a variable that D has by itself.
type builtin struct {
	name  string
	which BuiltinVar
	t     Type
	n     int
}

// builtins are the variables of D by name.
//
// table: name to what it is
var builtins = func() map[string]builtin {
	out := map[string]builtin{}
	for _, b := range []builtin{
		{"caller", BuiltinCaller, typedefs["uintptr_t"], 0}, {"cpu", BuiltinCPU, typedefs["processorid_t"], 0}, {"curthread", BuiltinCurthread, nil, 0},
		{"epid", BuiltinEPID, tUint, 0}, {"errno", BuiltinErrno, tInt, 0}, {"execname", BuiltinExecname, tString, 0}, {"gid", BuiltinGID, typedefs["gid_t"], 0},
		{"id", BuiltinID, tUint, 0}, {"ipl", BuiltinIPL, tUint, 0}, {"pid", BuiltinPID, typedefs["pid_t"], 0}, {"ppid", BuiltinPPID, typedefs["pid_t"], 0},
		{"probefunc", BuiltinProbeFunc, tString, 0}, {"probemod", BuiltinProbeMod, tString, 0}, {"probename", BuiltinProbeName, tString, 0}, {"probeprov", BuiltinProbeProv, tString, 0},
		{"stackdepth", BuiltinStackDepth, tUint32, 0}, {"tid", BuiltinTID, typedefs["tid_t"], 0}, {"timestamp", BuiltinTimestamp, tUint64, 0}, {"ucaller", BuiltinUCaller, tUint64, 0},
		{"uid", BuiltinUID, typedefs["uid_t"], 0}, {"ustackdepth", BuiltinUStackDepth, tUint32, 0}, {"vtimestamp", BuiltinVTimestamp, tUint64, 0}, {"walltimestamp", BuiltinWallTimestamp, tInt64, 0},
		{"execargs", BuiltinExecargs, tString, 0}, {"args", BuiltinArg, nil, 0}, {"uregs", BuiltinURegs, tUint64, 0},
	} {
		out[b.name] = b
	}
	for i := range 10 {
		name := "arg" + strconv.Itoa(i)
		out[name] = builtin{name, BuiltinArg, tInt64, i}
	}
	return out
}()

// Macro gives what stands for a macro of the text, $1 and $target: syntax.Mode wants it so.
func (o Options) Macro(name string) (string, bool) {
	if name == "" {
		return "", false
	}
	if name[0] >= '0' && name[0] <= '9' {
		n, err := strconv.Atoi(name)
		if err == nil && n < len(o.Args) {
			return o.Args[n], true
		}
		return "", o.DefaultArgs
	}
	if name == "target" {
		return strconv.FormatInt(o.Target, 10), o.Target != 0
	}
	v, ok := o.Words[name]
	return v, ok
}

// macro gives what stands for a macro that the parser left in the tree.
func (c *checker) macro(e *syntax.Macro) value {
	text, ok := c.o.Macro(e.Name)
	if !ok {
		return value{} // told before
	}
	if !e.Quoted {
		if text == "" {
			return number(e.At(), tInt, 0)
		}
		if n, err := strconv.ParseInt(text, 0, 64); err == nil {
			if n == int64(int32(n)) {
				return number(e.At(), tInt, n)
			}
			return number(e.At(), tLong, n)
		}
	}
	if !e.Quoted && isName(text) {
		return c.identifier(&syntax.Ident{Span: e.At(), Name: text})
	}
	return value{x: &Text{typed{e.At(), tString}, strings.Trim(text, `"`)}, t: tString}
}

// isName says whether a text is a name of D.
func isName(s string) bool {
	for i := range len(s) {
		if b := s[i]; b != '_' && (b|0x20 < 'a' || b|0x20 > 'z') && (i == 0 || b < '0' || b > '9') {
			return false
		}
	}
	return s != ""
}

// unusedMacros tells of arguments that nothing in the text asks for.
func (c *checker) unusedMacros() {
	if _, any := c.o.All["argref"]; any || c.o.DefaultArgs {
		return
	}
	used := map[int]bool{0: true}
	for i := 0; i < len(c.text); i++ {
		if c.text[i] != '$' {
			continue
		}
		j := i
		for j < len(c.text) && c.text[j] == '$' {
			j++
		}
		k := j
		for k < len(c.text) && c.text[k] >= '0' && c.text[k] <= '9' {
			k++
		}
		if n, err := strconv.Atoi(c.text[j:k]); err == nil {
			used[n] = true
		}
	}
	for i, a := range c.o.Args {
		if !used[i] {
			c.fail(syntax.Span{}, UnusedArgument, "D_MACRO_UNUSED", "the argument %q is not used: there is no $%d in the program", a, i)
			return
		}
	}
}

// lookup finds the variable that an identifier names, nil where there is none yet.
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

// variableOf gives the Var of an ident, made at its first use.
func (c *checker) variableOf(id *ident) *Var {
	if id.v == nil {
		id.v = &Var{ID: len(c.prog.Vars), Home: id.home, Name: id.name, Type: id.t, At: id.at}
		for _, k := range id.keys {
			id.v.Keys = append(id.v.Keys, keptKey(k))
		}
		c.prog.Vars = append(c.prog.Vars, id.v)
	}
	return id.v
}

// keptKey gives the type under which a key is kept.
func keptKey(t Type) Type {
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

// read gives the value of a variable, or of an element.
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

// identifier gives what a name stands for.
func (c *checker) identifier(e *syntax.Ident) value {
	if e.Scope == syntax.ScopeKernel {
		return c.symbol(e)
	}
	if e.Scope == syntax.ScopeGlobal {
		if n := len(c.keys); n > 0 { // the text of an inline sees its own keys alone
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
			c.fail(e.At(), NotArray, "D_IDENT_BADREF", "%s is an associative array, and wants its keys", scopeName(id.home, id.name))
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
	id := &ident{kind: identVar, name: e.Name, home: homeOf(e.Scope), bad: true}
	defer func() { c.home(e.Scope)[e.Name] = id }() // told once
	list := names(c.home(e.Scope))
	if e.Scope == syntax.ScopeGlobal {
		d := c.fail(e.At(), UnknownName, "D_IDENT_UNDEF", "nothing is known by the name %s", e.Name)
		list = append(append(list, names(builtins)...), names(c.funcs)...)
		for _, s := range []syntax.Scope{syntax.ScopeSelf, syntax.ScopeThis} {
			if c.home(s)[e.Name] != nil {
				d.Near = scopeName(homeOf(s), e.Name)
				return
			}
		}
		near(d, e.Name, list)
		if _, fn := subroutines[e.Name]; fn || actions[e.Name] != nil {
			d.Hint = e.Name + " is a function: " + e.Name + "()"
		} else if d.Near == "" {
			d.Hint = "a variable must be assigned to, or declared, above where it is used"
		}
		return
	}
	d := c.fail(e.At(), NotAssigned, "D_VAR_UNDEF", "%s has not been declared or assigned to yet", scopeName(homeOf(e.Scope), e.Name))
	d.Hint = "the clause that assigns to it must stand above"
	near(d, e.Name, list)
	if d.Near != "" {
		d.Near = scopeName(homeOf(e.Scope), d.Near)
	}
}

// named gives an enumerator or an inline.
func (c *checker) named(e syntax.Expr, id *ident) value {
	switch {
	case id.bad:
		return value{}
	case id.kind == identEnum:
		t, _ := id.t.(*Int)
		return number(e.At(), t, id.value)
	case id.params != nil:
		c.fail(e.At(), NotArray, "D_IDENT_BADREF", "%s wants its keys", id.name)
		return value{}
	}
	return c.expand(e.At(), id, map[string]value{})
}

// expand puts the value of an inline in its place.
func (c *checker) expand(at syntax.Span, id *ident, keys map[string]value) value {
	if c.depth > 32 {
		c.fail(at, syntax.TooDeep, "", "the inline %s is nested too deep", id.name)
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
		c.fail(id.at, Incompatible, "D_OP_INCOMPAT", "the inline %s is %s, its value is %s", id.name, id.t, v.t)
		return value{}
	}
	t := id.t
	if _, isPointer := t.(*Pointer); isPointer {
		t = x.Type() // leads where the value leads
	}
	return value{x: x, t: t}
}

// inline gives an expression a name.
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
	if c.globals[name] != nil || c.funcs[name] != nil || builtins[name].name != "" || isSub || actions[name] != nil {
		c.fail(s.Var.Name.At(), Redeclared, "D_DECL_IDRED", "%s is declared a second time, or has a meaning in D already", name)
		return
	}
	if !id.bad && c.lib == nil { // once by itself, so that what is wrong with it is told where it stands
		before := len(c.diags)
		if v := c.expand(s.Value.At(), id, keys); !v.ok() || len(c.diags) > before {
			id.bad = true
		}
	}
	c.funcs[name] = id
}

// sample is a value of a type for looking at an inline by itself.
func sample(at syntax.Span, t Type) value {
	return value{x: &Builtin{typed{at, t}, BuiltinArg, 0}, t: t}
}

// builtin gives a variable of D.
func (c *checker) builtin(e *syntax.Ident, b builtin) value {
	t := b.t
	switch b.name {
	case "args":
		c.fail(e.At(), ArgsIndex, "D_IDENT_BADREF", "args[] wants a number: args[0]")
		return value{}
	case "uregs":
		c.fail(e.At(), ArgsIndex, "D_IDENT_BADREF", "uregs[] wants a number: uregs[0]")
		return value{}
	case "arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7", "arg8", "arg9":
		if p := c.meant(); p != nil {
			return c.plain(e.At(), p, b.n)
		}
	case "curthread":
		c.stable(e.At(), "curthread")
		s := c.types.kernelStruct("task_struct", false)
		if s == nil {
			s = &Struct{Name: "task_struct", Only: true, Fields: func() []Field { return nil }}
		}
		t = &Pointer{Elem: s, Space: Kernel}
	}
	n := b.n
	if b.which == BuiltinStackDepth || b.which == BuiltinUStackDepth {
		n = c.o.MaxFrames
	}
	return value{x: &Builtin{typed{e.At(), t}, b.which, n}, t: t}
}

// stable holds what is the kernel's own, which dtrace calls Private, against the option amin: name/data/class, the least
// that the program lets itself depend on.
func (c *checker) stable(at syntax.Span, what string) {
	words := strings.Split(c.o.All["amin"], "/")
	if len(words) == 3 && words[1] != "Internal" && words[1] != "Private" && words[1] != "" {
		c.fail(at, Unstable, "D_ATTR_MIN", "%s is the kernel's own and may change, and the option amin wants %s", what, words[1])
	}
}

// symbol gives a variable of the kernel.
func (c *checker) symbol(e *syntax.Ident) value {
	if c.env == nil {
		return value{}
	}
	c.stable(e.At(), "a variable of the kernel")
	addr, bt, err := c.env.Symbol(e.Module, e.Name)
	if err != nil {
		c.fail(e.At(), NoSymbol, "D_IDENT_UNDEF", "%s`%s can't be looked at: %v", e.Module, e.Name, err)
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

// assocRef gives an element of an associative array, args[] or uregs[]; done false: X is something else. With make an array
// that is not there yet comes to be.
func (c *checker) assocRef(name *syntax.Ident, e *syntax.Index, make bool) (value, bool) {
	if name.Scope == syntax.ScopeKernel {
		return value{}, false
	}
	if name.Scope == syntax.ScopeGlobal && c.globals[name.Name] == nil && c.funcs[name.Name] == nil && builtins[name.Name].name == "" {
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
			c.fail(e.At(), ThisArray, "D_ARR_LOCAL", "this->%s can't be an associative array", name.Name).Hint = "use self->" + name.Name + " or a global one"
			c.thiss[name.Name] = &ident{name: name.Name, home: This, bad: true}
			return value{}, true
		}
		id = &ident{kind: identVar, name: name.Name, home: homeOf(name.Scope), at: name.At(), open: true}
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

// keyType says whether values of a type can be keys of an associative array.
func (c *checker) keyType(at syntax.Span, t Type) bool {
	switch t := t.(type) {
	case *Int, *Pointer, StringType:
		return true
	case *Array:
		return true
	case *Struct:
		return t.Bytes > 0
	default:
		c.fail(at, KeyType, "D_KEY_TYPE", "%s can't be a key", t)
		return false
	}
}

// element gives an element of an associative array whose keys are known to be well. The first use of an array says what
// types its keys have.
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
		c.fail(e.At(), KeyMismatch, "D_PROTO_LEN", "%s has %s, not %d", scopeName(id.home, id.name), count(len(id.keys), "key"), len(keys))
		return value{}
	}
	var xs []Expr
	for i, k := range keys {
		x := c.fit(id.keys[i], k)
		if x == nil {
			c.fail(e.Keys[i].At(), KeyMismatch, "D_PROTO_ARG", "key %d of %s is %s, not %s", i+1, scopeName(id.home, id.name), id.keys[i], k.t)
			return value{}
		}
		if s, ok := id.keys[i].(*Struct); ok {
			x = &Copy{typed{x.Place(), &Bytes{s.Bytes}}, x, s.Bytes}
		}
		xs = append(xs, x)
	}
	if id.t == nil { // the value is what is being assigned
		return value{x: &VarRef{typed{e.At(), nil}, c.variableOf(id), xs}, place: true}
	}
	return c.read(e.At(), id, xs)
}

// keyTypeOf gives the type under which a value is kept as a key.
func (c *checker) keyTypeOf(v value) Type {
	switch t := v.t.(type) {
	case *Array:
		if isChar(t.Elem) {
			return tString
		}
		return v.decay().t
	case *Int:
		return ownType(t)
	}
	return ownType(v.t)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// inlineRef gives an inline with keys.
func (c *checker) inlineRef(id *ident, e *syntax.Index) value {
	if id.bad {
		return value{}
	}
	if len(e.Keys) != len(id.params) {
		c.fail(e.At(), KeyMismatch, "D_PROTO_LEN", "%s has %s, not %d", id.name, count(len(id.params), "key"), len(e.Keys))
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
			c.fail(k.At(), KeyMismatch, "D_PROTO_ARG", "key %d of %s is %s, not %s", i+1, id.name, t, v.t)
			return value{}
		}
		keys[id.params[i].Name.Text] = value{x: x, t: t}
	}
	return c.expand(e.At(), id, keys)
}

// uregs gives a register of the process.
func (c *checker) uregs(e *syntax.Index) value {
	if len(e.Keys) != 1 {
		c.fail(e.At(), ArgsIndex, "D_PROTO_LEN", "uregs[] wants one number")
		return value{}
	}
	v := c.expr(e.Keys[0])
	if !v.ok() {
		return value{}
	}
	k, ok := v.settle().(*Const)
	if _, isInt := v.int(); !ok || !isInt {
		c.fail(e.Keys[0].At(), ArgsIndex, "D_PROTO_ARG", "the number in uregs[] must be a constant")
		return value{}
	}
	if k.Value < 0 || k.Value > mostRegister {
		c.fail(e.Keys[0].At(), ArgsIndex, "D_UNKNOWN", "there is no uregs[%d]", k.Value)
		return value{}
	}
	if member := threadRegisters()[k.Value]; member != "" {
		m := value{}
		for i, name := range []string{"curthread", "thread", member} {
			at := syntax.Name{Span: e.At(), Text: name}
			if i == 0 {
				m = c.builtin(&syntax.Ident{Span: e.At(), Name: name}, builtins[name]).decay()
				continue
			}
			p, ok := m.t.(*Pointer)
			s, isStruct := m.t.(*Struct)
			if ok {
				s, isStruct = p.Elem.(*Struct)
			}
			if !isStruct {
				return value{}
			}
			f, ok := c.field(at, s, "D_UNKNOWN")
			if !ok {
				return value{}
			}
			m = c.fieldOf(e.At(), m, f)
		}
		return value{x: convert(m.x, tUint64), t: tUint64}
	}
	return value{x: &Builtin{typed{e.At(), tUint64}, BuiltinURegs, int(k.Value)}, t: tUint64}
}

// argsRef gives args[N].
func (c *checker) argsRef(e *syntax.Index) value {
	if len(e.Keys) != 1 {
		c.fail(e.At(), ArgsIndex, "D_PROTO_LEN", "args[] wants one number")
		return value{}
	}
	n, t, ok := c.constant(e.Keys[0])
	if !ok {
		if t != nil {
			tag := "D_ARGS_TYPE"
			if _, isInt := t.(*Int); !isInt {
				tag = "D_PROTO_ARG"
			}
			c.fail(e.Keys[0].At(), ArgsIndex, tag, "the number in args[] must be a constant")
		}
		return value{}
	}
	if c.clause == nil {
		c.fail(e.At(), ArgsIndex, "D_ARGS_NONE", "args[] is known in clauses alone")
		return value{}
	}
	var first *Arg
	var from *Probe
	var ft Type
	for _, p := range c.clause.Probes {
		list, why := p.Arguments()
		if n < 0 || n >= int64(len(list)) {
			d := c.fail(e.At(), ArgsIndex, "D_ARGS_IDX", "%s has no args[%d]", p, n)
			switch {
			case why != "":
				d.Message += ": " + why
			case len(list) > 0:
				d.Hint = "it has " + count(len(list), "argument")
			case n >= 0 && n < 10:
				d.Hint = "its arguments are not typed; arg" + strconv.FormatInt(n, 10) + " is the plain number"
			}
			return value{}
		}
		a := &list[n]
		at := Type(tLong)
		if p.Meaning == nil {
			at = c.argType(e.At(), a, p)
		}
		if at == nil {
			return value{}
		}
		if first == nil {
			first, from, ft = a, p, at
		} else if !Same(ft, at) || first.From != a.From || first.User != a.User || first.Xlate != a.Xlate {
			c.fail(e.At(), ArgsDiffer, "D_ARGS_MULTI", "args[%d] is %s at %s, and %s at %s", n, ft, from, at, p).Hint = "make a clause for each"
			return value{}
		}
	}
	if first == nil {
		if c.unfound {
			return value{}
		}
		c.fail(e.At(), ArgsIndex, "D_ARGS_NONE", "this clause has no probe, so nothing is known of args[%d]", n)
		return value{}
	}
	var v value
	switch {
	case from.Meaning != nil:
		v = c.given(e.At(), from, first)
	case first.From < 0:
		v = c.argument(e.At(), BuiltinReturn, 0, ft)
	default:
		v = c.argument(e.At(), BuiltinArg, int(n), ft)
	}
	if first.Xlate == "" || !v.ok() {
		return v
	}
	out := c.types.namedType(&syntax.Named{Span: e.At(), Name: first.Xlate})
	if out == nil {
		return value{}
	}
	v = c.translate(e.At(), v, &Pointer{Elem: out})
	if v.xl != nil {
		v.xl.probe, v.xl.with = from, first.With
	}
	return v
}

// argType gives the type of an argument of a probe.
func (c *checker) argType(at syntax.Span, a *Arg, p *Probe) Type {
	var t Type
	if a.Type != nil {
		t = c.types.from(a.Type)
	} else {
		parsed, ds := syntax.Parse("typedef "+declare(a.C)+";", syntax.Mode{})
		if ds != nil {
			c.fail(at, ArgsIndex, "D_ARGS_TYPE", "the type %s of an argument of %s can't be read", a.C, p)
			return nil
		}
		d, ok := parsed.Items[0].(*syntax.Declaration)
		if !ok || len(d.Vars) != 1 {
			return nil
		}
		t = c.types.written(d.Vars[0].Type)
	}
	if ptr, ok := t.(*Pointer); ok {
		k := *ptr
		switch {
		case a.User:
			k.Space = User
		case p.Site == SiteTracepointBTF || p.Site == SiteFentry || p.Site == SiteFexit:
			if _, ok := k.Elem.(*Struct); ok && k.Space == Kernel && a.From >= 0 {
				k.Space = Typed
			}
		}
		return &k
	}
	return t
}

// declare puts a name into a C type that has none: "char *" to "char *a", "int []" to "int a[]".
func declare(t string) string {
	if i := strings.IndexByte(t, '['); i >= 0 {
		return t[:i] + " a" + t[i:]
	}
	if i := strings.Index(t, "(*)"); i >= 0 {
		return t[:i] + "(*a)" + t[i+3:]
	}
	return t + " a"
}

// argument is args[n]. Where that is at the site, Arg.From, is found by who makes the program.
func (c *checker) argument(at syntax.Span, which BuiltinVar, n int, t Type) value {
	switch t := t.(type) {
	case *Pointer:
		return value{x: &Builtin{typed{at, t}, which, n}, t: t}
	case *Int:
		return value{x: convert(&Builtin{typed{at, tInt64}, which, n}, t), t: t}
	case *Array:
		k := &Pointer{Elem: t.Elem, Space: Kernel}
		return value{x: &Builtin{typed{at, k}, which, n}, t: k}
	case VoidType:
		c.fail(at, ArgsIndex, "D_ARGS_IDX", "this argument has no value")
		return value{}
	}
	c.fail(at, ArgsIndex, "D_ARGS_TYPE", "an argument of type %s can't be looked at", t)
	return value{}
}
