package check

import (
	"strings"

	"culprit/lang/syntax"
)

// A subroutine is the signature of a function with a value. params has a letter for each parameter;
// those after | are optional: s a string, i an integer, c a constant integer, a an address or
// integer, p a pointer, v a pointer or string, o a pointer to memory of the script, 4 and 6 a
// pointer to an IP address, f a struct path, or a pointer to one or to a struct file.
type subroutine struct {
	which  Subroutine
	result Type
	params string
	proto  string
}

// subroutines are the functions that return values, by name.
//
// table: name to signature
var subroutines = map[string]subroutine{
	"alloca":    {SubAlloca, &Pointer{Elem: tVoid, Space: Own}, "i", "void *alloca(size_t)"},
	"basename":  {SubBasename, tString, "s", "string basename(const char *)"},
	"bcopy":     {SubBcopy, tVoid, "voi", "void bcopy(void *, void *, size_t)"},
	"cleanpath": {SubCleanpath, tString, "s", "string cleanpath(const char *)"},
	"copyin": {
		SubCopyin,
		&Pointer{Elem: tVoid, Space: Own},
		"ai",
		"void *copyin(uintptr_t, size_t)",
	},
	"copyinstr":  {SubCopyinstr, tString, "a|i", "string copyinstr(uintptr_t, [size_t])"},
	"copyinto":   {SubCopyinto, tVoid, "aio", "void copyinto(uintptr_t, size_t, void *)"},
	"dirname":    {SubDirname, tString, "s", "string dirname(const char *)"},
	"getmajor":   {SubGetmajor, typedefs["major_t"], "i", "major_t getmajor(dev_t)"},
	"getminor":   {SubGetminor, typedefs["minor_t"], "i", "minor_t getminor(dev_t)"},
	"htonl":      {SubHtonl, tUint32, "i", "uint32_t htonl(uint32_t)"},
	"htonll":     {SubHtonll, tUint64, "i", "uint64_t htonll(uint64_t)"},
	"htons":      {SubHtons, typedefs["uint16_t"], "i", "uint16_t htons(uint16_t)"},
	"index":      {SubIndex, tInt, "ss|i", "int index(const char *, const char *, [int])"},
	"inet_ntoa":  {SubInetNtoa, tString, "4", "string inet_ntoa(ipaddr_t *)"},
	"inet_ntoa6": {SubInetNtoa6, tString, "6|c", "string inet_ntoa6(struct in6_addr *, [int])"},
	"inet_ntop":  {SubInetNtop, tString, "iv", "string inet_ntop(int, void *)"},
	"link_ntop":  {SubLinkNtop, tString, "iv", "string link_ntop(int, void *)"},
	"lltostr":    {SubLltostr, tString, "i|i", "string lltostr(int64_t, [int])"},

	"mutex_owned": {SubMutexOwned, tInt, "p", "int mutex_owned(struct mutex *)"},
	"mutex_owner": {
		SubMutexOwner,
		&Pointer{Elem: tVoid, Space: Kernel},
		"p",
		"struct task_struct *mutex_owner(struct mutex *)",
	},
	"mutex_type_adaptive": {
		SubMutexTypeAdaptive,
		tInt,
		"p",
		"int mutex_type_adaptive(struct mutex *)",
	},
	"mutex_type_spin": {SubMutexTypeSpin, tInt, "p", "int mutex_type_spin(struct mutex *)"},
	"ntohl":           {SubNtohl, tUint32, "i", "uint32_t ntohl(uint32_t)"},
	"ntohll":          {SubNtohll, tUint64, "i", "uint64_t ntohll(uint64_t)"},
	"ntohs":           {SubNtohs, typedefs["uint16_t"], "i", "uint16_t ntohs(uint16_t)"},
	"progenyof":       {SubProgenyof, tInt, "i", "int progenyof(pid_t)"},
	"rand":            {SubRand, tInt, "", "int rand()"},
	"rindex": {
		SubRindex,
		tInt,
		"ss|i",
		"int rindex(const char *, const char *, [int])",
	},
	"rw_iswriter":   {SubRwIswriter, tInt, "p", "int rw_iswriter(struct rwlock *)"},
	"rw_read_held":  {SubRwReadHeld, tInt, "p", "int rw_read_held(struct rwlock *)"},
	"rw_write_held": {SubRwWriteHeld, tInt, "p", "int rw_write_held(struct rwlock *)"},
	"speculation":   {SubSpeculation, tInt, "", "int speculation()"},
	"strchr":        {SubStrchr, tString, "si", "string strchr(const char *, char)"},
	"strjoin": {
		SubStrjoin,
		tString,
		"ss",
		"string strjoin(const char *, const char *)",
	},
	"strlen":  {SubStrlen, typedefs["size_t"], "s", "size_t strlen(const char *)"},
	"strrchr": {SubStrrchr, tString, "si", "string strrchr(const char *, char)"},
	"strstr":  {SubStrstr, tString, "ss", "string strstr(const char *, const char *)"},
	"strtok":  {SubStrtok, tString, "ss", "string strtok(const char *, const char *)"},
	"strtoll": {SubStrtoll, tInt64, "s|i", "int64_t strtoll(const char *, [int])"},
	"substr":  {SubSubstr, tString, "si|i", "string substr(const char *, int, [int])"},
	"tolower": {SubTolower, tString, "s", "string tolower(const char *)"},
	"toupper": {SubToupper, tString, "s", "string toupper(const char *)"},
	"d_path":  {SubPath, tString, "f", dPathProto},
}

// symbols are the functions that print an address as a symbol.
//
// table: name to type
var symbols = map[string]SymbolType{
	"sym": {Kernel, SymbolName}, "func": {Kernel, SymbolFunction}, "mod": {Kernel, SymbolModule},
	"usym": {User, SymbolName}, "ufunc": {User, SymbolFunction}, "umod": {User, SymbolModule},
	"uaddr": {User, SymbolAddress},
}

// call returns the value of a function.
func (c *checker) call(e *syntax.Call) value {
	name := e.Func.Text
	if v, ok := c.foreign(e); ok {
		return v
	}
	if s, ok := subroutines[name]; ok {
		args, ok := c.arguments(e, s.params, s.proto)
		if !ok {
			return value{}
		}
		t := s.result
		if s.which == SubPath {
			args = append(args, &Const{typed{e.At(), tInt}, int64(PathWhole)})
		}
		c.scratch(e, s.which, args)
		v := value{x: &Call{typed{e.At(), t}, s.which, args}, t: t}
		v.void = isVoid(t)
		return v
	}
	if t, ok := symbols[name]; ok {
		args, ok := c.arguments(e, "a", name+"(uintptr_t)")
		if !ok {
			return value{}
		}
		return value{x: &Convert{typed{e.At(), t}, args[0]}, t: t}
	}
	switch name {
	case "stack", "ustack", "jstack":
		return c.stack(e)
	case "chip_of", "node_of":
		if c.lib != nil {
			return c.topology(e)
		}
	case "file_part", "file_of":
		if c.lib != nil {
			return c.ofFile(e)
		}
	}
	if actions[name] != nil { // the caller reports that there is no value
		rule := actions[name]
		least, most := 1, 1<<30
		switch rule.kind {
		case Trace, Clear, Print:
			most = 1
		}
		if rule.plain {
			least, most = wants(rule.params)
		}
		if len(e.Args) < least || len(e.Args) > most {
			c.wrongCount(e, least, most, rule.proto)
			return value{}
		}
		return nothing(e.At())
	}
	if _, ok := aggFuncs[name]; ok {
		d := c.fail(e.At(), AggFuncPlace, "D_CG_EXPR", "%s() without an aggregation", name)
		d.Hint = "@ = " + name + "(...)"
		return value{}
	}
	c.noFunction(e)
	return value{}
}

func (c *checker) noFunction(e *syntax.Call) {
	list := append(
		append(append(names(subroutines), names(actions)...), names(aggFuncs)...),
		names(symbols)...)
	d := c.fail(e.Func.At(), UnknownFunction, "D_FUNC_UNDEF", "unknown function %s", e.Func.Text)
	switch {
	case c.foreignWord(d, e.Func.Text):
	case builtins[e.Func.Text].name != "":
		d.Hint = e.Func.Text + " is a variable: write it without ()"
	default:
		near(d, e.Func.Text, list)
	}
}

// MostScratch is the largest piece of memory that alloca and copyin return without -x scratchsize,
// if its size is a constant.
const MostScratch = 8 << 10

// scratch reports a constant size that exceeds the scratch memory.
func (c *checker) scratch(e *syntax.Call, which Subroutine, args []Expr) {
	at := -1
	switch which {
	case SubAlloca:
		at = 0
	case SubCopyin:
		at = 1
	}
	limit, set := c.number("scratchsize")
	if at < 0 {
		return
	}
	if !set {
		limit = MostScratch
	}
	if k, ok := args[at].(*Const); ok && uint64(k.Value) > uint64(limit) {
		d := c.fail(e.Args[at].At(), ScratchSize, "D_ALLOCA_SIZE",
			"%s() of %d bytes exceeds the limit of %d", e.Func.Text, k.Value, limit)
		d.Hint = "set the option: -x scratchsize=BYTES"
	}
}

// wants returns the lowest and highest number of arguments.
func wants(params string) (least, most int) {
	must, may, _ := strings.Cut(params, "|")
	return len(must), len(must) + len(may)
}

// arguments checks the arguments of a function.
func (c *checker) arguments(e *syntax.Call, params, proto string) ([]Expr, bool) {
	least, most := wants(params)
	var vs []value
	ok := true
	if len(e.Args) < least || len(e.Args) > most {
		c.wrongCount(e, least, most, proto)
		return nil, false
	}
	for _, a := range e.Args {
		v := c.expr(a)
		ok = ok && v.ok()
		vs = append(vs, v)
	}
	if !ok {
		return nil, false
	}
	params = strings.Replace(params, "|", "", 1)
	var out []Expr
	for i, v := range vs {
		x := c.parameter(params[i], v)
		if x == nil {
			d := c.fail(e.Args[i].At(), ArgumentType, "D_PROTO_ARG",
				"argument %d of %s() can't be %s", i+1, e.Func.Text, v.t)
			d.Hint = proto
			ok = false
		}
		out = append(out, x)
	}
	return out, ok
}

func (c *checker) wrongCount(e *syntax.Call, least, most int, proto string) {
	n := count(least, "argument")
	if most > least {
		n = count(least, "argument") + " or more"
	}
	d := c.fail(
		e.At(), ArgumentCount, "D_PROTO_LEN", "%s() requires %s, not %d", e.Func.Text, n,
		len(e.Args),
	)
	if proto != "" {
		d.Hint = proto
	}
}

// parameter returns a value as a parameter takes it; nil when it does not.
func (c *checker) parameter(kind byte, v value) Expr {
	switch kind {
	case 's':
		if v.text() {
			return c.str(v)
		}
		if _, ok := v.int(); ok && isZero(v.x) {
			return &StringOf{
				typed{v.x.Place(), tString},
				&Const{typed{v.x.Place(), &Pointer{Elem: tChar, Space: Kernel}}, 0},
				0,
			}
		}
		if p, ok := v.t.(*Pointer); ok && isVoid(p.Elem) {
			return &StringOf{
				typed{v.x.Place(), tString},
				convert(v.x, &Pointer{Elem: tChar, Space: p.Space}),
				0,
			}
		}
	case 'i':
		if i, ok := v.int(); ok {
			return v.computed(i)
		}
	case 'a':
		if i, ok := v.int(); ok {
			return v.computed(i)
		}
		if d := v.decay(); d.scalar() {
			return d.x
		}
	case 'c':
		if i, ok := v.int(); ok {
			if k, ok := v.computed(i).(*Const); ok {
				return k
			}
		}
	case 'f':
		return c.pathOf(v)
	case 'v':
		if v.isString() {
			return &Convert{typed{v.x.Place(), &Pointer{Elem: tChar, Space: Own}}, v.x}
		}
		return c.parameter('p', v)
	case 'p', 'o', '4', '6':
		d := v.decay()
		if _, ok := d.int(); ok && isZero(d.x) && kind != 'o' {
			return convert(d.x, &Pointer{Elem: tVoid, Space: Kernel})
		}
		p, ok := d.t.(*Pointer)
		if !ok || kind == 'o' && p.Space != Own {
			return nil
		}
		switch t := p.Elem.(type) {
		case *Int:
			if kind == '4' && t.Bytes != 4 || kind == '6' {
				return nil
			}
		case *Struct:
			if kind == '4' && t.Bytes != 4 || kind == '6' && t.Bytes != 16 && !t.Only {
				return nil
			}
		}
		return d.x
	}
	return nil
}

// stack returns stack() or ustack() as a value.
func (c *checker) stack(e *syntax.Call) value {
	frames, ok := c.frames(e)
	if !ok {
		return value{}
	}
	strings := int64(0)
	if len(e.Args) > 1 {
		strings, _, _ = c.constant(e.Args[1])
	}
	t := StackType{Kernel}
	if e.Func.Text != "stack" {
		t.Of = User
	}
	return value{x: &StackOf{typed{e.At(), t}, frames, strings}, t: t}
}

// mostAsked is the highest number of frames of a stack; larger numbers are reduced to it.
const mostAsked = 1 << 16

// frames returns the number of frames of a stack.
func (c *checker) frames(e *syntax.Call) (int, bool) {
	frames := c.o.StackFrames
	most := 1
	user := e.Func.Text != "stack"
	if user {
		frames, most = c.o.UStackFrames, 2
	}
	if frames <= 0 {
		frames = 100
	}
	if len(e.Args) > most {
		c.fail(
			e.At(), ArgumentCount, "D_PROTO_LEN", "%s() takes at most %s, not %d", e.Func.Text,
			count(most, "argument"), len(e.Args),
		)
		return 0, false
	}
	for i, a := range e.Args {
		n, t, ok := c.constant(a)
		if !ok || n < 0 || n == 0 && i == 0 {
			if _, isInt := t.(*Int); t != nil && !isInt {
				c.fail(
					a.At(), StackFrames, "D_PROTO_ARG",
					"the number of frames of %s() must be a constant number, not %s", e.Func.Text,
					t,
				)
			} else if t != nil {
				tag := "D_STACK_SIZE"
				if user {
					tag = "D_USTACK_FRAMES"
					if i == 1 {
						tag = "D_USTACK_STRSIZE"
					}
				}
				c.fail(a.At(), StackFrames, tag,
					"the number of frames of %s() must be a constant above 0", e.Func.Text)
			}
			return 0, false
		}
		if i == 0 {
			frames = int(min(n, mostAsked))
		}
	}
	if c.o.MaxFrames > 0 {
		frames = min(frames, c.o.MaxFrames)
	}
	return frames, true
}
