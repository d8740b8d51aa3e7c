package check

import (
	"strings"

	"culprit/lang/syntax"
)

// This file checks what programs of bpftrace have beyond D: fields of args by name, functions of
// lang/bpftrace's translation, and variables that the text reads before it assigns to them.

// learn returns the global variables of a program with their types. The text may read a variable
// before it assigns to it, so it is checked until no type is new.
func learn(file, text string, prog *syntax.Program, env Env, o Options) map[string]*ident {
	var known map[string]*ident
	for range mostPasses {
		c := newChecker(file, text, env, o)
		c.learning = true
		c.assume(known)
		c.program(prog)
		found := map[string]*ident{}
		for name, id := range c.globals {
			if !id.bad && id.t != nil {
				found[name] = id
			}
		}
		for name, a := range c.aggs {
			found[aggregationName(name)] = &ident{keys: a.Keys, t: valueOf(a)}
		}
		if len(found) == len(known) {
			break
		}
		known = found
	}
	return known
}

// mostPasses is the highest number of times that learn checks a program.
const mostPasses = 8

// assume declares variables whose types are known.
func (c *checker) assume(known map[string]*ident) {
	for name, id := range known {
		c.globals[name] = &ident{
			kind: identVar, name: name, home: Global, t: id.t, keys: id.keys, at: id.at, set: true,
		}
	}
}

// A knownProbes is an Env that searches for each description once.
type knownProbes struct {
	Env
	found map[string][]*Probe
}

// Probes returns the probes of a description.
func (k *knownProbes) Probes(p *syntax.Probe) ([]*Probe, error) {
	text := syntax.Print(p)
	if found, ok := k.found[text]; ok {
		return found, nil
	}
	found, err := k.Env.Probes(p)
	if err == nil {
		k.found[text] = found
	}
	return found, err
}

// whole returns the type in which a program of bpftrace keeps values of a type: integers have 64
// bits.
func (c *checker) whole(t Type) Type {
	i, ok := t.(*Int)
	if !c.o.Bpftrace || !ok {
		return t
	}
	if i.Signed {
		return tInt64
	}
	return tUint64
}

// argsNamed returns args.NAME.
func (c *checker) argsNamed(e *syntax.Member) value {
	if c.clause == nil || len(c.clause.Probes) == 0 {
		if !c.unfound {
			c.fail(e.At(), ArgsIndex, "", "args.%s is valid only in clauses", e.Name.Text)
		}
		return value{}
	}
	at := -1
	for _, p := range c.clause.Probes {
		list, why := p.Arguments()
		i := argNamed(list, e.Name.Text)
		if i < 0 {
			d := c.fail(e.Name.At(), ArgsIndex, "", "%s has no field %s", p, e.Name.Text)
			switch {
			case why != "":
				d.Message += ": " + why
			case len(list) > 0:
				var names []string
				for _, a := range list {
					names = append(names, a.Name)
				}
				d.Hint = "it has " + strings.Join(names, ", ")
				near(d, e.Name.Text, names)
			}
			return value{}
		}
		if at >= 0 && at != i {
			c.fail(e.At(), ArgsDiffer, "", "args.%s is at different places in %s and %s",
				e.Name.Text, c.clause.Probes[0], p).Hint = "write one clause for each"
			return value{}
		}
		at = i
	}
	return c.argsAt(e.At(), int64(at))
}

// argNamed returns the index of an argument by its name; -1: there is none.
func argNamed(list []Arg, name string) int {
	for i := range list {
		if list[i].Name == name {
			return i
		}
	}
	return -1
}

// ofUser reports whether numbers in a clause that are used as addresses are those of a process.
func (c *checker) ofUser() bool {
	if c.clause == nil || len(c.clause.Probes) == 0 {
		return false
	}
	switch c.clause.Probes[0].Site {
	case SiteUprobe, SiteUretprobe, SiteSyscallEntry, SiteSyscallReturn:
		return true
	}
	return false
}

// foreignCalls are the functions of lang/bpftrace's translation that have a value, with the lowest
// and the highest number of arguments.
//
// table: name to number of arguments
var foreignCalls = map[string][2]int{
	"str": {1, 2}, "bytes": {3, 3}, "kptr": {1, 1}, "uptr": {1, 1}, "bswap": {1, 1},
	"joined": {2, 2}, "has": {1, 1}, "inettext": {1, 1},
}

// foreign returns the value of such a function. It returns false for other functions.
func (c *checker) foreign(e *syntax.Call) (value, bool) {
	n, ok := foreignCalls[e.Func.Text]
	if !c.o.Bpftrace || !ok || len(e.Args) < n[0] || len(e.Args) > n[1] {
		return value{}, false
	}
	v := c.expr(e.Args[0])
	if !v.ok() {
		return value{}, true
	}
	switch e.Func.Text {
	case "bswap":
		return c.swapped(e, v), true
	case "inettext":
		return c.inetText(e, v), true
	case "has":
		ref, ok := v.x.(*VarRef)
		if a, is := v.x.(*AddrOf); is {
			ref, ok = a.X, true
		}
		if !ok {
			return value{}, true
		}
		return value{x: &Exists{typed{e.At(), tInt}, ref}, t: tInt}, true
	}
	if v.isString() {
		return v, true
	}
	d := v.decay()
	if !d.scalar() {
		c.fail(e.Args[0].At(), ArgumentType, "", "%s() requires a pointer, not %s", e.Func.Text,
			v.t)
		return value{}, true
	}
	switch e.Func.Text {
	case "kptr":
		return value{x: convert(d.x, &Pointer{Elem: elemOf(d.t), Space: Kernel}),
			t: &Pointer{Elem: elemOf(d.t), Space: Kernel}}, true
	case "uptr":
		return value{x: convert(d.x, &Pointer{Elem: elemOf(d.t), Space: User}),
			t: &Pointer{Elem: elemOf(d.t), Space: User}}, true
	case "bytes":
		size, _, _ := c.constant(e.Args[1])
		p := &Pointer{Elem: tChar, Space: c.spaceFor(d)}
		t := &Bytes{size}
		n, _, _ := c.constant(e.Args[2])
		return value{x: &Copy{typed{e.At(), t}, convert(d.x, p), n}, t: t}, true
	case "joined":
		return c.joined(e, d), true
	}
	return c.strOf(e, d), true
}

// elemOf returns what a pointer points to; for a number, char.
func elemOf(t Type) Type {
	if p, ok := t.(*Pointer); ok {
		return p.Elem
	}
	return tChar
}

// spaceFor returns the memory that an address refers to.
func (c *checker) spaceFor(v value) Space {
	if p, ok := v.t.(*Pointer); ok {
		return p.Space
	}
	if c.ofUser() {
		return User
	}
	return Kernel
}

// strOf returns str(ADDRESS, LENGTH), of at most LENGTH bytes. The address of a number, and that of
// an argument, may be one of the kernel or of a process: the highest bit decides.
func (c *checker) strOf(e *syntax.Call, v value) value {
	most := c.strSize() - 1
	if c.o.StrMost > 0 {
		most = min(most, c.o.StrMost)
	}
	if len(e.Args) == 2 {
		n, t, ok := c.constant(e.Args[1])
		if t == nil {
			return value{}
		}
		if ok && n >= 0 {
			most = min(most, max(0, n))
		}
	}
	at := func(s Space) Expr {
		if most == 0 {
			return &Text{typed{e.At(), tString}, ""}
		}
		p := &Pointer{Elem: tChar, Space: s}
		return &StringOf{typed{e.At(), tString}, convert(v.x, p), most}
	}
	space := c.spaceFor(v)
	_, isNumber := v.int()
	_, isArg := v.x.(*Builtin)
	if space != Kernel || !isNumber && !isArg {
		return value{x: at(space), t: tString}
	}
	positive := &Binary{typed{e.At(), tInt}, syntax.Ge, convert(v.x, tLong),
		&Const{typed{e.At(), tLong}, 0}}
	return value{x: &Cond{typed{e.At(), tString}, positive, at(User), at(Kernel)}, t: tString}
}

// joined returns element N of an array of pointers to strings, as a string: "" behind its end.
func (c *checker) joined(e *syntax.Call, v value) value {
	n, _, ok := c.constant(e.Args[1])
	if !ok {
		return value{}
	}
	space := c.spaceFor(v)
	char := &Pointer{Elem: tChar, Space: space}
	array := &Pointer{Elem: char, Space: space}
	var address Expr = convert(v.x, array)
	if n > 0 {
		address = &Binary{typed{e.At(), array}, syntax.Add, address,
			&Const{typed{e.At(), tLong}, 8 * n}}
	}
	load := &Load{typed{e.At(), char}, address}
	return value{x: &StringOf{typed{e.At(), tString}, load, c.strSize() - 1}, t: tString}
}

// swapped returns bswap(NUMBER), which swaps as many bytes as the number has.
func (c *checker) swapped(e *syntax.Call, v value) value {
	i, ok := v.int()
	if !ok {
		c.fail(e.Args[0].At(), ArgumentType, "", "bswap() requires a number, not %s", v.t)
		return value{}
	}
	sub, t := SubHtonll, Type(tUint64)
	switch i.Size() {
	case 1:
		return v
	case 2:
		sub, t = SubHtons, typedefs["uint16_t"]
	case 4:
		sub, t = SubHtonl, tUint32
	}
	return value{x: &Call{typed{e.At(), t}, sub, []Expr{v.computed(i)}}, t: t}
}

// inetText returns an IP address as a string: of a number of 4 bytes in the order of the network,
// or of an array or a pointer to 4 or 16 bytes.
func (c *checker) inetText(e *syntax.Call, v value) value {
	at := e.At()
	call := func(sub Subroutine, args ...Expr) Expr {
		return &Call{typed{at, tString}, sub, args}
	}
	if i, ok := v.int(); ok {
		var text Expr
		for n := range int64(4) {
			octet := &Binary{typed{at, tUlong}, syntax.Shr, convert(v.computed(i), tUlong),
				&Const{typed{at, tUlong}, 8 * n}}
			part := call(SubLltostr, &Convert{typed{at, tLong}, &Binary{typed{at, tUlong},
				syntax.And, octet, &Const{typed{at, tUlong}, 255}}})
			if text == nil {
				text = part
				continue
			}
			text = call(SubStrjoin, call(SubStrjoin, text, &Text{typed{at, tString}, "."}), part)
		}
		return value{x: text, t: tString}
	}
	size := v.t.Size()
	if p, ok := v.t.(*Pointer); ok {
		size = p.Elem.Size()
	}
	d := v.decay()
	if s, ok := v.t.(*Struct); ok {
		d = value{x: v.x, t: &Pointer{Elem: s, Space: spaceOf(v.x)}}
	}
	family := int64(2)
	if size == 16 {
		family = 10
	}
	if size != 4 && size != 16 || !isPointer(d.t) {
		c.fail(e.Args[0].At(), ArgumentType, "", "ntop() requires an address of 4 or 16 bytes, "+
			"not %s", v.t)
		return value{}
	}
	p := &Pointer{Elem: tVoid, Space: d.t.(*Pointer).Space}
	return value{x: call(SubInetNtop, &Const{typed{at, tLong}, family}, convert(d.x, p)),
		t: tString}
}
