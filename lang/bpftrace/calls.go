package bpftrace

import (
	"cmp"
	"encoding/binary"
	"net/netip"

	"culprit/lang/syntax"
	"culprit/lang/words"
)

// dCall returns a call of a function of D.
func dCall(at syntax.Span, name string, args ...syntax.Expr) *syntax.Call {
	return &syntax.Call{Span: at, Func: syntax.Name{Span: at, Text: name}, Args: args}
}

// forms are how functions are written, with the least and the highest number of arguments.
//
// table: name to signature
var forms = map[string]struct {
	least, most int
	form        string
}{
	"str": {1, 2, "str(POINTER [, LENGTH])"}, "buf": {1, 2, "buf(POINTER, LENGTH)"},
	"ntop": {1, 2, "ntop([FAMILY,] ADDRESS)"}, "macaddr": {1, 1, "macaddr(ADDRESS)"},
	"ksym": {1, 1, "ksym(ADDRESS)"}, "usym": {1, 1, "usym(ADDRESS)"},
	"kaddr": {1, 1, "kaddr(\"SYMBOL\")"}, "cgroupid": {1, 1, "cgroupid(\"/sys/fs/cgroup/...\")"},
	"strftime": {2, 2, "strftime(\"%H:%M:%S\", nsecs)"}, "nsecs": {0, 1, "nsecs()"},
	"strncmp":  {3, 3, "strncmp(STRING, STRING, LENGTH)"},
	"strerror": {1, 1, "strerror(NUMBER)"}, "syscall_name": {1, 1, "syscall_name(NUMBER)"},
	"strcontains": {2, 2, "strcontains(STRING, PART)"},
	"kptr":        {1, 1, "kptr(POINTER)"}, "uptr": {1, 1, "uptr(POINTER)"},
	"has_key": {2, 2, "has_key(@map, KEY)"}, "len": {1, 1, "len(@map)"},
	"pton":  {1, 1, "pton(\"127.0.0.1\")"},
	"path":  {1, 2, "path(STRUCT_PATH [, LENGTH])"},
	"bswap": {1, 1, "bswap(NUMBER)"}, "kstack": {0, 2, "kstack([MODE,] [FRAMES])"},
	"ustack": {0, 2, "ustack([MODE,] [FRAMES])"}, "reg": {1, 1, "reg(\"NAME\")"},
	"print": {1, 3, "print(@map [, TOP [, DIVISOR]])"}, "clear": {1, 1, "clear(@map)"},
	"zero": {1, 1, "zero(@map)"}, "delete": {1, 100, "delete(@map[KEY])"},
	"exit": {0, 1, "exit()"}, "time": {0, 1, "time(\"%H:%M:%S\\n\")"},
	"join": {1, 2, "join(ARGV [, SEPARATOR])"}, "printf": {1, 100, "printf(\"FORMAT\", VALUES)"},
	"cat": {1, 100, "cat(\"FORMAT\", VALUES)"}, "system": {1, 100, "system(\"FORMAT\", VALUES)"},
	"signal": {1, 1, "signal(NUMBER)"}, "cgroup_path": {1, 2, "cgroup_path(ID [, HIERARCHY])"},
}

// unsupportedCalls are functions of bpftrace that culprit does not have, with what to write
// instead.
//
// table: name to hint
var unsupportedCalls = map[string]string{
	"override": "culprit changes no results of system calls", "uaddr": "use usym(ADDRESS)",
	"skboutput": "use printf",
	"tseries":   "use interval:s:1 { time(); print(@map); clear(@map); }",
	"typeof":    "write the type",
	"debugf":    "use printf",
	"stack_len": "print the stack", "errorf": "use printf", "warnf": "use printf",
}

// counted checks the number of arguments of a function.
func (t *translator) counted(e *syntax.Call) bool {
	f, ok := forms[e.Func.Text]
	if !ok || len(e.Args) >= f.least && len(e.Args) <= f.most {
		return true
	}
	t.fail(e.Span, BadCall, "write "+f.form, "%s() does not take %d arguments", e.Func.Text,
		len(e.Args))
	return false
}

// call translates a function that has a value.
func (t *translator) call(e *syntax.Call) (syntax.Expr, *Shape) {
	at, name := e.Span, e.Func.Text
	if hint, ok := unsupportedCalls[name]; ok {
		t.fail(at, Unsupported, hint, "%s() is not supported", name)
		return number(at, 0), nil
	}
	if _, ok := aggregating[name]; ok {
		t.fail(at, BadCall, aggregatingForms[name], "%s() is only for assignments to maps", name)
		return number(at, 0), nil
	}
	f, known := forms[name]
	if !known {
		t.fail(e.Func.Span, BadCall, words.Hint(words.Bpftrace, name), "unknown function %s", name)
		return number(at, 0), nil
	}
	if !t.counted(e) {
		return number(at, 0), nil
	}
	switch name {
	case "kstack", "ustack":
		return t.stack(at, name, e.Args)
	case "kaddr", "cgroupid":
		return t.address(e), nil
	case "pton":
		return t.inetNumber(e)
	case "has_key":
		return t.hasKey(e), nil
	case "reg":
		return t.register(e), nil
	case "cgroup_path":
		return t.cgroupPath(e)
	case "len":
		return t.length(e), nil
	case "strftime":
		s, ok := e.Args[0].(*syntax.String)
		if !ok {
			t.fail(e.Args[0].At(), BadCall, "write "+f.form, "the format must be a string")
			return number(at, 0), nil
		}
		x, _ := t.expr(e.Args[1])
		return x, &Shape{Kind: Time, Format: s.Value}
	}
	var args []syntax.Expr
	for _, a := range e.Args {
		if id, ok := a.(*syntax.Ident); ok && name == "nsecs" {
			switch id.Name {
			case "monotonic", "boot":
			case "tai", "sw_tai":
				now := unsigned(at, &syntax.Ident{Span: at, Name: "timestamp"})
				return &syntax.Binary{
					Span: at, Op: syntax.Add, X: now, Y: number(at, t.o.TAI),
				}, nil
			default:
				t.fail(id.Span, Unsupported, "use nsecs", "the clock %s is not supported", id.Name)
			}
			continue
		}
		x, _ := t.expr(a)
		args = append(args, x)
	}
	switch name {
	case "nsecs":
		return unsigned(at, &syntax.Ident{Span: at, Name: "timestamp"}), nil
	case "str":
		return t.str(e, args), nil
	case "ksym":
		return unsigned(at, args[0]), &Shape{Kind: KSym}
	case "usym":
		return dCall(at, "usym", args[0]), &Shape{Kind: USym}
	case "ntop":
		return args[len(args)-1], &Shape{Kind: Inet}
	case "strerror":
		return args[0], &Shape{Kind: ErrorText}
	case "syscall_name":
		return args[0], &Shape{Kind: CallName}
	case "macaddr":
		return args[0], &Shape{Kind: MAC}
	case "path":
		t.out.Paths = true
		x := dCall(at, "d_path", args[0])
		if len(args) > 1 { // with its final 0
			n := &syntax.Binary{Span: at, Op: syntax.Sub, X: args[1], Y: number(at, 1)}
			x = dCall(at, "substr", x, number(at, 0), n)
		}
		return x, nil
	case "kptr", "uptr", "bswap":
		return dCall(at, name, args...), nil
	case "strncmp":
		x := dCall(at, "substr", args[0], number(at, 0), args[2])
		y := dCall(at, "substr", args[1], number(at, 0), args[2])
		return &syntax.Binary{Span: at, Op: syntax.Ne, X: x, Y: y}, nil
	case "strcontains":
		return &syntax.Binary{Span: at, Op: syntax.Ge, X: dCall(at, "index", args...),
			Y: number(at, 0)}, nil
	}
	t.fail(at, BadCall, "write it as a statement", "%s() has no value", name)
	return number(at, 0), nil
}

// hasKey translates has_key(@map, KEY), where KEY may be a tuple of keys.
func (t *translator) hasKey(e *syntax.Call) syntax.Expr {
	m, ok := e.Args[0].(*syntax.Aggregation)
	if !ok || m.Keys != nil {
		t.fail(e.Args[0].At(), BadCall, "write has_key(@map, KEY)", "has_key() requires a map")
		return number(e.Span, 0)
	}
	keys, isKeys := isTuple(e.Args[1])
	if !isKeys {
		keys = e.Args[1:]
	}
	own := &syntax.Aggregation{Span: m.Span, Name: m.Name, Keys: keys}
	known := t.maps[m.Name]
	if known == nil || known.Func != "" {
		x, _ := t.mapValue(own) // reports it
		return x
	}
	return dCall(e.Span, "has", t.element(own, 0, known.Value.Values()))
}

// str translates str(POINTER, LENGTH): the string of at most LENGTH - 1 bytes.
func (t *translator) str(e *syntax.Call, args []syntax.Expr) syntax.Expr {
	return dCall(e.Span, "str", args...)
}

// literal returns a string, or that of str("STRING").
func literal(e syntax.Expr) (*syntax.String, bool) {
	if c, ok := e.(*syntax.Call); ok && c.Func.Text == "str" && len(c.Args) == 1 {
		e = c.Args[0]
	}
	s, ok := e.(*syntax.String)
	return s, ok
}

// inetNumber translates pton(ADDRESS): the number that is the 4 bytes of an IPv4 address in memory.
// One of IPv6 is its text, which ntop() prints.
func (t *translator) inetNumber(e *syntax.Call) (syntax.Expr, *Shape) {
	s, ok := literal(e.Args[0])
	if !ok {
		t.fail(e.Args[0].At(), BadCall, "write "+forms["pton"].form, "pton() requires a string")
		return number(e.Span, 0), nil
	}
	a, err := netip.ParseAddr(s.Value)
	switch {
	case err != nil || a.Zone() != "":
		t.fail(s.Span, BadCall, "", "%s is not an IP address", shown(s.Value))
	case a.Is4():
		b := a.As4()
		n := &syntax.Int{Span: e.Span, Value: uint64(binary.NativeEndian.Uint32(b[:]))}
		return &syntax.Cast{
			Span: e.Span, Type: &syntax.Named{Span: e.Span, Name: "uint32_t"}, X: n,
		}, nil
	default:
		return &syntax.String{Span: e.Span, Value: a.String()}, nil
	}
	return number(e.Span, 0), nil
}

// address translates kaddr and cgroupid, whose values are constants.
func (t *translator) address(e *syntax.Call) syntax.Expr {
	at := e.Span
	s, ok := literal(e.Args[0])
	if !ok {
		t.fail(e.Args[0].At(), BadCall, "write "+forms[e.Func.Text].form,
			"%s() requires a string", e.Func.Text)
		return number(at, 0)
	}
	if e.Func.Text == "kaddr" {
		n, ok := t.o.Address(s.Value)
		if !ok {
			t.fail(s.Span, BadCall, "", "the kernel has no symbol %s", s.Value)
		}
		return &syntax.Int{Span: at, Value: n, Long: 1, Unsigned: true}
	}
	n, err := t.o.Cgroup(s.Value)
	if err != nil {
		t.fail(s.Span, BadCall, "", "there is no cgroup %s: %v", s.Value, err)
	}
	return &syntax.Int{Span: at, Value: n, Long: 1, Unsigned: true}
}

// mostFrames is the number of frames of a stack without a number, as in bpftrace.
const mostFrames = 127

// stack translates kstack, kstack(3), kstack(perf, 3).
func (t *translator) stack(at syntax.Span, name string, args []syntax.Expr) (syntax.Expr, *Shape) {
	shape := &Shape{Kind: KStack, Mode: cmp.Or(t.o.Stacks, "bpftrace")}
	d := "stack"
	if name == "ustack" {
		shape.Kind, d = UStack, "ustack"
	}
	frames := int64(mostFrames)
	for _, a := range args {
		if id, ok := a.(*syntax.Ident); ok {
			switch id.Name {
			case "bpftrace", "perf", "raw":
				shape.Mode = id.Name
				continue
			}
		}
		n, ok := constant(a)
		if !ok || n < 1 || n > mostFrames {
			t.fail(a.At(), BadCall, "write "+name+"(perf, 5); the modes are bpftrace, perf and raw",
				"%s() requires a mode, or a number of frames from 1 to 127", name)
			break
		}
		frames = n
	}
	return dCall(at, d, number(at, frames)), shape
}

// mostBuffer is the highest number of bytes of buf().
const mostBuffer = 64

// buffer translates buf(POINTER, LENGTH) to the bytes and their number.
func (t *translator) buffer(e *syntax.Call) ([]syntax.Expr, *Shape) {
	at := e.Span
	if len(e.Args) != 2 {
		t.fail(at, BadCall, "write buf(POINTER, LENGTH)", "buf() requires the number of bytes")
		return []syntax.Expr{number(at, 0), number(at, 0)}, &Shape{Kind: Buffer}
	}
	p, _ := t.expr(e.Args[0])
	n, _ := t.expr(e.Args[1])
	known, ok := constant(e.Args[1])
	shape := &Shape{Kind: Buffer, Open: !ok}
	if !ok || known < 1 || known > mostBuffer {
		known = mostBuffer
	}
	all := dCall(at, "bytes", p, number(at, mostBuffer), number(at, known))
	return []syntax.Expr{all, n}, shape
}
