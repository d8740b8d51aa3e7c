package check

import (
	"strconv"
	"strings"

	"culprit/lang/syntax"
)

// uregs returns a register of the process.
func (c *checker) uregs(e *syntax.Index) value {
	if len(e.Keys) != 1 {
		c.fail(e.At(), ArgsIndex, "D_PROTO_LEN", "uregs[] requires one number")
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
		c.fail(e.Keys[0].At(), ArgsIndex, "D_UNKNOWN", "uregs[%d] does not exist", k.Value)
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

// argsRef returns args[N].
func (c *checker) argsRef(e *syntax.Index) value {
	if len(e.Keys) != 1 {
		c.fail(e.At(), ArgsIndex, "D_PROTO_LEN", "args[] requires one number")
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
		c.fail(e.At(), ArgsIndex, "D_ARGS_NONE", "args[] is valid only in clauses")
		return value{}
	}
	return c.argsAt(e.At(), n)
}

// argsAt returns args[n].
func (c *checker) argsAt(at syntax.Span, n int64) value {
	var first *Arg
	var from *Probe
	var ft Type
	for _, p := range c.clause.Probes {
		list, why := p.Arguments()
		if n < 0 || n >= int64(len(list)) {
			d := c.fail(at, ArgsIndex, "D_ARGS_IDX", "%s has no args[%d]", p, n)
			switch {
			case why != "":
				d.Message += ": " + why
			case len(list) > 0:
				d.Hint = "it has " + count(len(list), "argument")
			case n >= 0 && n < 10:
				d.Hint = "its arguments have no types; arg" + strconv.FormatInt(
					n, 10,
				) + " is the number"
			}
			return value{}
		}
		a := &list[n]
		argType := Type(tLong)
		if p.Meaning == nil {
			argType = c.argType(at, a, p)
		}
		if argType == nil {
			return value{}
		}
		if first == nil {
			first, from, ft = a, p, argType
		} else if !Same(ft, argType) || first.From != a.From || first.User != a.User ||
			first.Xlate != a.Xlate {
			d := c.fail(at, ArgsDiffer, "D_ARGS_MULTI",
				"args[%d] has type %s at %s, and %s at %s", n, ft, from, argType, p)
			d.Hint = "write one clause for each"
			return value{}
		}
	}
	if first == nil {
		if c.unfound {
			return value{}
		}
		c.fail(at, ArgsIndex, "D_ARGS_NONE", "args[%d] in a clause without a probe", n)
		return value{}
	}
	var v value
	switch {
	case from.Meaning != nil:
		v = c.given(at, from, first)
	case first.Field == FieldArray:
		p := &Pointer{Elem: ft, Space: Kernel}
		v = value{x: &Builtin{typed{at, p}, BuiltinArg, int(n)}, t: ft}
	case first.From < 0:
		v = c.argument(at, BuiltinReturn, 0, ft)
	default:
		v = c.argument(at, BuiltinArg, int(n), ft)
	}
	if first.Xlate == "" || !v.ok() {
		return v
	}
	out := c.types.namedType(&syntax.Named{Span: at, Name: first.Xlate})
	if out == nil {
		return value{}
	}
	v = c.translate(at, v, &Pointer{Elem: out})
	if v.xl != nil {
		v.xl.probe, v.xl.with = from, first.With
	}
	return v
}

// argType returns the type of an argument of a probe.
func (c *checker) argType(at syntax.Span, a *Arg, p *Probe) Type {
	var t Type
	if a.Type != nil {
		t = c.types.from(a.Type)
	} else {
		parsed, ds := syntax.Parse("typedef "+declare(a.C)+";", syntax.Mode{})
		if ds != nil {
			c.fail(at, ArgsIndex, "D_ARGS_TYPE", "can't parse the type %s of an argument of %s",
				a.C, p)
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
			if _, ok := k.Elem.(*Struct); ok && k.Space == Kernel && a.From >= 0 && !c.o.Bpftrace {
				k.Space = Typed
			}
		}
		return &k
	}
	return t
}

// declare inserts a name into a C type: "char *" becomes "char *a", "int []" becomes "int a[]".
func declare(t string) string {
	if i := strings.IndexByte(t, '['); i >= 0 {
		return t[:i] + " a" + t[i:]
	}
	if i := strings.Index(t, "(*)"); i >= 0 {
		return t[:i] + "(*a)" + t[i+3:]
	}
	return t + " a"
}

// argument returns args[n]. The code generator finds its location at the site, Arg.From.
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
		c.fail(at, ArgsIndex, "D_ARGS_IDX", "this argument is void")
		return value{}
	}
	c.fail(at, ArgsIndex, "D_ARGS_TYPE", "an argument of type %s can't be read", t)
	return value{}
}
