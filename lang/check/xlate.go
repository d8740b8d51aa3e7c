package check

import (
	"culprit/lang/syntax"
)

// A translator converts a value to a struct. The expression of a member is checked where the member
// is used, so that a member that this kernel lacks is a mistake only there.
type translator struct {
	out  *Struct
	in   Type
	name string // of the input, within the members
	// a library may have several definitions: the first that is valid on this kernel counts
	members map[string][]*syntax.TranslatorMember
	lib     *library // the library that contains it; nil: the program
}

// A translation is a struct made by a translator, or a pointer to one. Only its members exist.
type translation struct {
	by *translator
	in value
	t  Type // its type in D

	probe *Probe            // the probe whose argument it is; nil: none
	with  map[string]string // members defined by the probe: expressions of its Meaning
}

// A madeType is the type of a translation. Only member access accepts it.
type madeType struct{ Type }

// String returns the type in the notation of C.
func (t madeType) String() string { return "translated " + t.Type.String() }

func (c *checker) made(at syntax.Span, tr *translator, in value, t Type) value {
	return value{
		x:  &Const{typed{at, tVoid}, 0},
		t:  madeType{t},
		xl: &translation{by: tr, in: in, t: t},
	}
}

// translator declares a translator.
func (c *checker) translator(s *syntax.Translator) {
	out, in := c.typeOf(s.Output), c.typeOf(s.Input)
	if out == nil || in == nil {
		return
	}
	to, ok := out.(*Struct)
	if !ok || to.Only {
		c.fail(
			s.Output.At(), BadTranslator, "D_XLATE_SOU",
			"the output of a translator must be a struct with known members, not %s", out,
		)
		return
	}
	if old := c.findTranslator(to, in); old != nil {
		c.fail(s.At(), Redeclared, "D_XLATE_REDECL", "duplicate translator from %s to %s", in, to)
		return
	}
	tr := &translator{
		out:     to,
		in:      in,
		name:    s.Name.Text,
		members: map[string][]*syntax.TranslatorMember{},
		lib:     c.lib,
	}
	for _, m := range s.Members {
		f, ok := c.field(m.Name, to, "D_XLATE_MEMB")
		if !ok {
			continue
		}
		if c.lib != nil || tr.members[m.Name.Text] == nil {
			tr.members[m.Name.Text] = append(tr.members[m.Name.Text], m)
		}
		if c.lib != nil { // checked when it is used
			continue
		}
		c.keys = append(c.keys, map[string]value{tr.name: sample(s.Name.At(), in)})
		v := c.expr(m.Value)
		c.keys = c.keys[:len(c.keys)-1]
		if v.ok() && v.xl == nil && c.fitMember(f.Type, v) == nil {
			c.fail(
				m.Value.At(), Incompatible, "D_XLATE_INCOMPAT",
				"%s has type %s in %s and can't be set from %s", m.Name.Text, f.Type, to, v.t,
			)
		}
	}
	c.translators = append(c.translators, tr)
}

// fitMember converts a value to a member of a translator's output.
func (c *checker) fitMember(t Type, v value) Expr {
	if isText(t) && v.text() {
		return c.str(v)
	}
	return c.fit(t, v)
}

func (c *checker) findTranslator(out *Struct, in Type) *translator {
	for _, tr := range c.translators {
		if Same(tr.out, out) && Same(tr.in, in) {
			return tr
		}
	}
	return nil
}

// xlate returns xlate<type>(X).
func (c *checker) xlate(e *syntax.Xlate) value {
	t := c.typeOf(e.Type)
	v := c.expr(e.X)
	if t == nil || !v.ok() {
		return value{}
	}
	return c.translate(e.At(), v, t)
}

// translate converts a value by a translator.
func (c *checker) translate(at syntax.Span, v value, t Type) value {
	out, ok := t.(*Struct)
	if p, isPointer := t.(*Pointer); isPointer {
		out, ok = p.Elem.(*Struct)
	}
	if !ok {
		c.fail(
			at, BadTranslator, "D_XLATE_SOU",
			"the type of xlate must be a struct or a pointer to one, not %s", t,
		)
		return value{}
	}
	in := v
	tr := c.findTranslator(out, v.t)
	if tr == nil {
		in = v.decay()
		tr = c.findTranslator(out, in.t)
	}
	if tr == nil {
		c.fail(at, BadTranslator, "D_XLATE_NONE", "no translator from %s to %s", v.t, out)
		return value{}
	}
	return c.made(at, tr, in, t)
}

// translated returns a member of a translation.
func (c *checker) translated(e *syntax.Member, v value) value {
	xl := v.xl
	_, pointer := xl.t.(*Pointer)
	switch {
	case e.Arrow && !pointer:
		d := c.fail(e.At(), NotPointer, "D_OP_PTR", "-> requires a pointer to a struct, not %s",
			xl.t)
		d.Hint = "use . instead of ->"
		return value{}
	case !e.Arrow && pointer:
		d := c.fail(e.At(), NotStruct, "D_OP_SOU", "%s has no members", xl.t)
		d.Hint = "use -> instead of ."
		return value{}
	}
	f, ok := c.field(e.Name, xl.by.out, "D_TYPE_MEMBER")
	if !ok {
		return value{}
	}
	m := xl.by.members[f.Name]
	if m == nil && xl.with[f.Name] == "" {
		c.fail(
			e.Name.At(), NoConversion, "D_XLATE_NOCONV", "the translator to %s does not define %s",
			xl.by.out, f.Name,
		)
		return value{}
	}
	return c.memberOf(e.At(), xl, f, m)
}

// memberOf returns one member of a translation.
func (c *checker) memberOf(
	at syntax.Span, xl *translation, f StructMember, list []*syntax.TranslatorMember,
) value {
	if text := xl.with[f.Name]; text != "" {
		return c.memberIs(at, xl, f, c.within(at, xl.probe, text))
	}
	before := len(c.diags)
	for _, m := range list[:len(list)-1] {
		if v := c.memberAs(at, xl, f, m); len(c.diags) == before {
			return v
		}
		c.diags = c.diags[:before]
	}
	return c.memberAs(at, xl, f, list[len(list)-1])
}

// memberAs returns one member of a translation by one definition of it.
func (c *checker) memberAs(
	at syntax.Span, xl *translation, f StructMember, m *syntax.TranslatorMember,
) value {
	if c.depth > 32 {
		c.fail(at, syntax.TooDeep, "", "translators are nested too deeply")
		return value{}
	}
	c.depth++
	c.keys = append(c.keys, map[string]value{xl.by.name: xl.in})
	outer, place := c.lib, c.use
	if xl.by.lib != nil {
		if c.lib == nil {
			c.use = at
		}
		c.lib = xl.by.lib
	}
	v := c.expr(m.Value)
	c.lib, c.use = outer, place
	c.keys = c.keys[:len(c.keys)-1]
	c.depth--
	return c.memberIs(at, xl, f, v)
}

// memberIs converts a value to a member of a translation.
func (c *checker) memberIs(at syntax.Span, xl *translation, f StructMember, v value) value {
	if !v.ok() || v.xl != nil {
		return v
	}
	x := c.fitMember(f.Type, v)
	if x == nil {
		c.fail(
			at, Incompatible, "D_XLATE_INCOMPAT", "%s has type %s in %s and can't be set from %s",
			f.Name, f.Type, xl.by.out, v.t,
		)
		return value{}
	}
	t := f.Type
	if isText(t) {
		t = tString
	}
	if p, ok := x.Type().(*Pointer); ok {
		if _, isPointer := t.(*Pointer); isPointer {
			t = p
		}
	}
	out := value{x: x, t: t}
	if a, ok := f.Type.(*Array); ok {
		out.len = a.Len
	}
	return out
}

// assignTranslation returns X = xlate<...>(...): it assigns every member that the translator
// defines and zeroes the others.
func (c *checker) assignTranslation(e *syntax.Assign, x, y value) value {
	s, ok := y.xl.t.(*Struct)
	if !ok || !Same(x.t, s) {
		c.fail(e.At(), Incompatible, "D_OP_INCOMPAT", "%s can't be assigned to %s", y.t, x.t)
		return value{}
	}
	ref, ok := x.x.(*VarRef)
	if !ok || ref.Keys != nil {
		c.fail(e.At(), NotYet, "", "a translated struct can be assigned only to a variable")
		return value{}
	}
	at := e.At()
	var out Expr = &Assign{typed{at, x.t}, syntax.Set, x.x, &Const{typed{at, x.t}, 0}}
	p := &Pointer{Elem: x.t, Space: Own}
	for _, f := range s.Fields() {
		m := y.xl.by.members[f.Name]
		if m == nil && y.xl.with[f.Name] == "" {
			continue
		}
		v := c.memberOf(at, y.xl, f, m)
		if !v.ok() {
			return value{}
		}
		to := c.fieldOf(at, value{x: &AddrOf{typed{at, p}, ref}, t: x.t}, f)
		load, isLoad := to.x.(*Load)
		if !isLoad || v.xl != nil {
			c.fail(at, NotYet, "", "assigning the member %s as a whole is not supported", f.Name)
			return value{}
		}
		r := c.fit(to.t, v)
		if r == nil {
			return value{}
		}
		out = &Binary{
			typed{at, x.t},
			syntax.Comma,
			out,
			&Assign{typed{at, to.t}, syntax.Set, load, r},
		}
	}
	return value{x: out, t: x.t}
}
