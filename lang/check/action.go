package check

import (
	"strconv"

	"culprit/lang/format"
	"culprit/lang/syntax"
)

// specUse records the actions of a clause so far, where their order matters.
type specUse struct {
	recorded, speculated, committed bool
}

// An actionRule describes an action.
type actionRule struct {
	kind        ActionKind
	destructive bool
	params      string // as in subroutine, for actions that need no other check
	plain       bool   // params is the only check
	proto       string
}

// actions are the actions by name.
//
// table: name to action
var actions = map[string]*actionRule{
	"trace": {kind: Trace}, "printf": {kind: Printf}, "printa": {kind: Printa},
	"print": {kind: Print}, "tracemem": {kind: Tracemem},
	"stack": {kind: Stack}, "ustack": {kind: UStack}, "jstack": {kind: UStack},
	"exit":  {kind: Exit, params: "i", plain: true, proto: "void exit(int)"},
	"clear": {kind: Clear}, "trunc": {kind: Trunc}, "normalize": {kind: Normalize},
	"denormalize": {kind: Denormalize},
	"system":      {kind: System, destructive: true}, "freopen": {kind: Freopen, destructive: true},
	"setopt":    {kind: Setopt},
	"ftruncate": {kind: Ftruncate, params: "", plain: true, proto: "void ftruncate()"},
	"speculate": {kind: Speculate, params: "i", plain: true, proto: "void speculate(int)"},
	"commit":    {kind: Commit, params: "i", plain: true, proto: "void commit(int)"},
	"discard":   {kind: Discard, params: "i", plain: true, proto: "void discard(int)"},
	"raise": {
		kind:        Raise,
		destructive: true,
		params:      "i",
		plain:       true,
		proto:       "void raise(int)",
	},
	"stop": {kind: Stop, destructive: true, params: "", plain: true, proto: "void stop()"},
	"chill": {
		kind:        Chill,
		destructive: true,
		params:      "i",
		plain:       true,
		proto:       "void chill(int)",
	},
	"breakpoint": {
		kind:        Panic,
		destructive: true,
		params:      "",
		plain:       true,
		proto:       "void breakpoint()",
	},
	"return": {
		kind:        Panic,
		destructive: true,
		params:      "i",
		plain:       true,
		proto:       "void return(int)",
	},
	"pcap":  {kind: Panic, params: "ai", plain: true, proto: "void pcap(void *, int)"},
	"panic": {kind: Panic, destructive: true, params: "", plain: true, proto: "void panic()"},
	"copyout": {
		kind:        Copyout,
		destructive: true,
		params:      "pai",
		plain:       true,
		proto:       "void copyout(void *, uintptr_t, size_t)",
	},
	"copyoutstr": {
		kind:        Copyoutstr,
		destructive: true,
		params:      "sai",
		plain:       true,
		proto:       "void copyoutstr(char *, uintptr_t, size_t)",
	},
}

// record adds an action to the clause.
func (c *checker) record(at syntax.Span, a Action, args ...Expr) {
	c.add(&Record{place{at}, a, args})
}

// action checks a call used as a statement. It returns false when it is no action.
func (c *checker) action(e *syntax.Call, at syntax.Span) bool {
	rule := actions[e.Func.Text]
	if t, ok := symbols[e.Func.Text]; ok {
		if v := c.call(e); v.ok() {
			c.record(at, Action{Kind: Symbol, Type: t}, v.x)
		}
		return true
	}
	if rule == nil {
		return false
	}
	before := len(c.diags)
	c.perform(e, at, rule)
	if len(c.diags) > before {
		return true
	}
	c.order(e, rule)
	switch e.Func.Text {
	case "breakpoint", "return", "pcap":
		c.fail(e.At(), NotYet, "", "%s() is not supported", e.Func.Text)
		return true
	}
	if rule.destructive && !c.o.Destructive {
		d := c.fail(e.At(), Destructive, "D_DESTRUCTIVE",
			"%s() is destructive, and destructive actions are not enabled", e.Func.Text)
		d.Hint = "enable them with -w or #pragma D option destructive"
	}
	return true
}

// order checks an action against those before it in the clause.
func (c *checker) order(e *syntax.Call, rule *actionRule) {
	s := &c.spec
	tag, why := "", ""
	switch rule.kind {
	case Speculate:
		switch {
		case s.speculated:
			tag, why = "D_SPEC_SPEC", "the clause has another speculate()"
		case s.committed:
			tag, why = "D_SPEC_COMM", "it can't follow commit()"
		case s.recorded:
			tag, why = "D_SPEC_DREC", "it must come before all actions that record data"
		}
		s.speculated = true
	case Commit:
		switch {
		case s.recorded:
			tag, why = "D_COMM_DREC", "it can't follow an action that records data"
		}
		s.committed = true
	case Discard:
	case Exit:
		if s.speculated {
			tag, why = "D_EXIT_SPEC", "it can't follow speculate()"
		}
		fallthrough
	default:
		if rule.destructive && s.speculated && rule.kind != System && rule.kind != Freopen {
			tag, why = "D_ACT_SPEC", "it can't follow speculate()"
		} else if tag == "" && s.committed {
			tag, why = "D_DREC_COMM", "no data can be recorded after commit()"
		}
		s.recorded = true
	}
	if tag != "" {
		c.fail(e.At(), ActionOrder, tag, "%s() is not allowed here: %s", e.Func.Text, why)
	}
}

// perform checks an action by itself.
func (c *checker) perform(e *syntax.Call, at syntax.Span, rule *actionRule) {
	if rule.plain {
		args, ok := c.arguments(e, rule.params, rule.proto)
		if !ok {
			return
		}
		c.record(at, Action{Kind: rule.kind}, args...)
		return
	}
	switch rule.kind {
	case Trace:
		c.trace(e, at)
	case Printf, System, Freopen:
		c.printf(e, at, rule.kind)
	case Printa:
		c.printa(e, at)
	case Stack, UStack:
		if frames, ok := c.frames(e); ok {
			c.record(at, Action{Kind: rule.kind, Frames: frames})
		}
	case Clear, Trunc, Normalize, Denormalize:
		c.onAggregation(e, at, rule.kind)
	case Tracemem:
		c.tracemem(e, at)
	case Print:
		c.print(e, at)
	case Setopt:
		c.setopt(e, at)
	}
}

// recordable returns the form that a value has in a record; nil when it has none.
func (c *checker) recordable(v value) (Expr, Type) {
	switch t := v.t.(type) {
	case *Int:
		return convert(v.settle(), ownType(t)), ownType(t)
	case StringType, *Pointer, StackType, SymbolType, *Float:
		return v.x, v.t
	case *Array, *Struct:
		if n := t.Size(); n > 0 {
			return &Copy{typed{v.x.Place(), &Bytes{n}}, v.x, n}, v.t
		}
	}
	return nil, nil
}

func (c *checker) trace(e *syntax.Call, at syntax.Span) {
	if len(e.Args) != 1 {
		c.wrongCount(e, 1, 1, "void trace(value)")
		return
	}
	if c.aggregationArg(e.Args[0]) != nil {
		d := c.fail(e.Args[0].At(), AggregationValue, "D_TRACE_DYN",
			"trace() can't print an aggregation")
		d.Hint = "printa(...)"
		return
	}
	v := c.lasting(e.Args[0].At(), c.exprAny(e.Args[0]))
	if !v.ok() {
		return
	}
	if v.void {
		c.fail(e.Args[0].At(), NoValue, "D_TRACE_VOID", "the expression has no value to trace")
		return
	}
	x, t := c.recordable(v)
	if x == nil {
		c.fail(e.Args[0].At(), NotRecordable, "D_TRACE_DYN", "%s can't be traced", v.t)
		return
	}
	c.record(at, Action{Kind: Trace, Type: t}, x)
}

func (c *checker) aggregationArg(e syntax.Expr) *syntax.Aggregation {
	a, _ := e.(*syntax.Aggregation)
	return a
}

// printf checks printf, system and freopen, which take a format and arguments.
func (c *checker) printf(e *syntax.Call, at syntax.Span, kind ActionKind) {
	name := e.Func.Text
	if len(e.Args) == 0 {
		c.fail(e.At(), ArgumentCount, "D_PROTO_LEN", "missing format of %s()", name)
		return
	}
	if kind == Freopen {
		if s, ok := e.Args[0].(*syntax.String); ok && s.Value == "." {
			c.fail(e.Args[0].At(), BadFormat, "D_FREOPEN_INVALID", "freopen() can't open \".\"")
			return
		}
	}
	f := c.format(e.Args[0], name)
	var vs []value
	ok := f != nil
	for _, a := range e.Args[1:] {
		if g := c.aggregationArg(a); g != nil {
			d := c.fail(a.At(), AggregationValue, "D_PRINTF_ARG_TYPE",
				"%s() can't print an aggregation", name)
			d.Hint = "printa(...)"
			ok = false
			continue
		}
		v := c.expr(a)
		ok = ok && v.ok()
		vs = append(vs, v)
	}
	if !ok {
		return
	}
	args, ok := c.formatted(e, f, vs)
	if !ok {
		return
	}
	c.record(at, Action{Kind: kind, Format: f}, args...)
}

// format parses the text of a format.
func (c *checker) format(e syntax.Expr, name string) *format.Format {
	s, ok := e.(*syntax.String)
	if !ok {
		v := c.expr(e)
		if !v.ok() {
			return nil
		}
		tag := "D_PROTO_ARG"
		if v.text() {
			tag = "D_PRINTF_ARG_FMT"
		} else if name == "printa" {
			tag = "D_PRINTA_AGGARG"
		}
		d := c.fail(
			e.At(), FormatWanted, tag, "the first argument of %s() must be a string", name,
		)
		if text, ok := e.(*syntax.Char); ok {
			d.Hint = "a string has double quotes: " + strconv.Quote(text.Text)
		}
		return nil
	}
	if s.Value == "" && name != "freopen" {
		c.fail(e.At(), FormatWanted, "D_PRINTF_FMT_EMPTY", "the format of %s() is empty", name)
		return nil
	}
	f, err := format.Parse(s.Value)
	if err != nil {
		at := e.At()
		// without escapes the position within the literal is known
		if raw := c.text[min(int(at.From), len(c.text)):min(int(at.To), len(c.text))]; raw == `"`+s.Value+`"` {
			at = syntax.Span{
				From: at.From + 1 + int32(err.Pos),
				To:   at.From + 1 + int32(err.Pos+err.Len),
			}
		}
		c.fail(at, BadFormat, "D_SYNTAX", "%s", err.Message)
		return nil
	}
	return f
}

// formatted checks arguments against a format.
func (c *checker) formatted(e *syntax.Call, f *format.Format, vs []value) ([]Expr, bool) {
	name := e.Func.Text
	var out []Expr
	next := 0
	take := func(conv *format.Conversion, number int, what string, fits func(value) Expr,
		tag string) bool {
		if next >= len(vs) {
			missing := "D_PRINTF_ARG_PROTO"
			if tag == "D_PRINTF_DYN_TYPE" {
				missing = "D_PRINTF_DYN_PROTO"
			}
			c.fail(
				e.At(), FormatArguments, missing,
				"%s() has too few arguments: none for conversion %d, %%%s", name, number, conv.Name,
			)
			return false
		}
		v := vs[next]
		next++
		x := fits(v)
		if x == nil {
			d := c.fail(
				e.Args[next].At(), FormatType, tag, "conversion %d, %%%s, requires %s, not %s",
				number, conv.Name, what, v.t,
			)
			if p, ok := v.t.(*Pointer); ok && conv.Want == format.String && isChar(p.Elem) {
				d.Hint = "stringof(...) reads the string that it points to"
				if p.Space == User {
					d.Hint = "copyinstr(...) reads the string from the process"
				}
			} else if i, ok := v.int(); ok && i.Bytes == 8 && conv.Want == format.String {
				d.Hint = "copyinstr(address) reads a string from the process, " +
					"stringof(address) from the kernel"
			}
			return false
		}
		out = append(out, x)
		return true
	}
	integer := func(v value) Expr {
		if _, ok := v.int(); ok {
			return v.settle()
		}
		return nil
	}
	for i := range f.Conversions {
		conv := &f.Conversions[i]
		if conv.Want == format.Nothing {
			continue
		}
		if conv.Aggregation {
			c.fail(
				e.Args[0].At(), BadFormat, "D_PRINTF_AGG_CONV",
				"conversion %d, %%@%s, is only for printa()", i+1, conv.Name,
			)
			return nil, false
		}
		if conv.WidthArg &&
			!take(conv, i+1, "an integer for its width", integer, "D_PRINTF_DYN_TYPE") {
			return nil, false
		}
		if conv.PrecisionArg &&
			!take(conv, i+1, "an integer for its precision", integer, "D_PRINTF_DYN_TYPE") {
			return nil, false
		}
		if !take(
			conv, i+1, conv.Prototype, func(v value) Expr { return c.converted(conv, v) },
			"D_PRINTF_ARG_TYPE",
		) {
			return nil, false
		}
	}
	if next < len(vs) {
		c.fail(
			e.Args[next+1].At(), FormatArguments, "D_PRINTF_ARG_EXTRA",
			"%s() has %d arguments more than its format has conversions", name, len(vs)-next,
		)
		return nil, false
	}
	return out, true
}

// converted returns a value as a conversion takes it; nil when it does not.
func (c *checker) converted(conv *format.Conversion, v value) Expr {
	i, isInt := v.int()
	_, isPointer := v.t.(*Pointer)
	_, isArray := v.t.(*Array)
	switch conv.Want {
	case format.Integer:
		if isInt {
			return v.settle()
		}
	case format.Small:
		if isInt && i.Size() <= 4 {
			return v.settle()
		}
	case format.Exact:
		if isInt && i.Size() == int64(conv.Size) && (conv.AnySign || i.Signed == conv.Signed) {
			return v.settle()
		}
	case format.Pointer:
		if isInt || isPointer || isArray {
			return v.decay().settle()
		}
	case format.Symbol:
		if t, ok := v.t.(SymbolType); ok && t.Of == Kernel || isInt || isPointer {
			return v.settle()
		}
	case format.UserSymbol:
		if t, ok := v.t.(SymbolType); ok && t.Of == User ||
			(isInt || isPointer) && c.o.Target != 0 {
			return v.settle()
		}
	case format.Stack:
		if _, ok := v.t.(StackType); ok {
			return v.x
		}
	case format.Time:
		if isInt && i.Size() == 8 {
			return v.settle()
		}
	case format.String:
		if v.isString() || isText(v.t) {
			return c.str(v)
		}
	case format.Wide:
		if a, ok := v.t.(*Array); ok && a.Elem.Size() == 4 {
			x, _ := c.recordable(v)
			return x
		}
	case format.Float:
		if f, ok := v.t.(*Float); ok && f.Bytes <= 8 {
			return v.x
		}
	case format.LongDouble:
		if f, ok := v.t.(*Float); ok && f.Bytes == 16 {
			return v.x
		}
	case format.WideChar:
		if isInt && i.Size() == 4 {
			return v.settle()
		}
	}
	return nil
}

func (c *checker) tracemem(e *syntax.Call, at syntax.Span) {
	if len(e.Args) < 2 || len(e.Args) > 3 {
		c.wrongCount(e, 2, 3, "void tracemem(address, size_t, [size_t])")
		return
	}
	v := c.expr(e.Args[0])
	n, t, ok := c.constant(e.Args[1])
	if _, isInt := t.(*Int); t != nil && !isInt {
		c.fail(
			e.Args[1].At(), ArgumentType, "D_PROTO_ARG", "argument 2 of tracemem() can't be %s", t,
		)
		return
	}
	if !ok && t != nil || ok && n <= 0 {
		c.fail(
			e.Args[1].At(), TracememSize, "D_TRACEMEM_SIZE",
			"the size of tracemem() must be a constant number above 0",
		)
		return
	}
	args := []Expr{}
	if v.ok() {
		x := c.parameter('a', v)
		if v.isString() {
			x = c.parameter('v', v)
		}
		if x == nil {
			c.fail(
				e.Args[0].At(), ArgumentType, "D_TRACEMEM_ADDR",
				"tracemem() requires an address, not %s", v.t,
			)
			return
		}
		args = append(args, &Copy{typed{e.Args[0].At(), &Bytes{n}}, x, n})
	}
	if len(e.Args) == 3 {
		d := c.expr(e.Args[2])
		if !d.ok() {
			return
		}
		i, isInt := d.int()
		if !isInt {
			c.fail(
				e.Args[2].At(), ArgumentType, "D_TRACEMEM_DYNSIZE",
				"the number of bytes that tracemem() prints must be an integer, not %s", d.t,
			)
			return
		}
		args = append(args, d.computed(i))
	}
	if ok && v.ok() {
		c.record(at, Action{Kind: Tracemem, Size: n}, args...)
	}
}

func (c *checker) print(e *syntax.Call, at syntax.Span) {
	if len(e.Args) != 1 {
		c.wrongCount(e, 1, 1, "void print(value)")
		return
	}
	v := c.exprAny(e.Args[0])
	if !v.ok() {
		return
	}
	if v.void {
		c.fail(e.Args[0].At(), NoValue, "D_PROTO_ARG", "the expression has no value to print")
		return
	}
	d := v.decay()
	p, ok := d.t.(*Pointer)
	if _, isStruct := v.t.(*Struct); isStruct {
		p, ok = &Pointer{Elem: v.t, Space: spaceOf(v.x)}, true
	}
	if !ok {
		c.fail(
			e.Args[0].At(), ArgumentType, "D_PROTO_ARG",
			"print() requires a pointer to the value to print, not %s", v.t,
		)
		return
	}
	n := p.Elem.Size()
	if a, ok := v.t.(*Array); ok {
		p, n = &Pointer{Elem: a, Space: p.Space}, a.Size()
	}
	if n <= 0 {
		c.fail(
			e.Args[0].At(), NotRecordable, "D_PRINT_SIZE", "%s has no size and can't be printed",
			p.Elem,
		)
		return
	}
	c.record(
		at, Action{Kind: Print, Type: p.Elem, Size: n},
		&Copy{typed{e.Args[0].At(), &Bytes{n}}, d.x, n}, d.x,
	)
}

func (c *checker) setopt(e *syntax.Call, at syntax.Span) {
	args, ok := c.arguments(e, "s|s", "void setopt(const char *, [const char *])")
	if !ok {
		return
	}
	name, ok := args[0].(*Text)
	if !ok {
		c.fail(
			e.Args[0].At(), ArgumentType, "D_PROTO_ARG",
			"argument 1 of setopt() must be the name of an option",
		)
		return
	}
	if _, known := options[name.Value]; !known {
		c.warn(e.Args[0].At(), UnknownOption, "unknown option %s", name.Value)
	}
	a := Action{Kind: Setopt, Name: name.Value}
	var rest []Expr
	if len(args) > 1 {
		if s, ok := args[1].(*Text); ok {
			a.Value = s.Value
		} else {
			rest = args[1:]
		}
	}
	c.record(at, a, rest...)
}
