package check

import (
	"culprit/lang/syntax"
)

// meanings groups the probes of a clause by their Meaning, in order: the probes without one
// together, and each of the others by itself. A clause without probes is one group.
func (c *checker) meanings(s *syntax.Clause, probes []*Probe) [][]*Probe {
	var groups [][]*Probe
	plain := -1
	for _, p := range probes {
		m := p.Meaning
		switch {
		case m == nil && plain >= 0:
			groups[plain] = append(groups[plain], p)
			continue
		case m == nil:
			plain = len(groups)
		case m.Why != "":
			c.fail(s.At(), NoProbe, "D_PDESC_ZERO", "%s is not available: %s", p, m.Why)
			continue
		default:
			c.around(s, m)
		}
		groups = append(groups, []*Probe{p})
	}
	if len(probes) == 0 {
		groups = append(groups, nil)
	}
	return groups
}

// around checks the clauses that run before and after the program's own for a meaning.
func (c *checker) around(s *syntax.Clause, m *Meaning) {
	if m.Before != "" && !c.loaded["before "+m.Before] {
		c.loaded["before "+m.Before] = true
		use := c.use
		c.use = s.At()
		c.hidden(m.Before)
		c.use = use
	}
	if m.After != "" && !c.loaded["after "+m.After] {
		c.loaded["after "+m.After] = true
		c.after = append(c.after, m.After)
	}
}

// hidden checks clauses that are not part of the text.
func (c *checker) hidden(text string) {
	prog, ds := syntax.Displaced(text, syntax.Mode{})
	if ds != nil {
		c.fail(c.use, NotYet, "", "the clauses of a probe: %v", ds)
		return
	}
	outer := c.lib
	c.lib = &library{text: text}
	for _, item := range prog.Items {
		switch item := item.(type) {
		case *syntax.Declaration:
			c.declaration(item)
		case *syntax.Clause:
			c.oneClause(item)
		}
	}
	c.lib = outer
}

// meant returns the probe of the current clause if it has a Meaning, otherwise nil.
func (c *checker) meant() *Probe {
	if c.clause == nil || len(c.clause.Probes) == 0 || c.clause.Probes[0].Meaning == nil {
		return nil
	}
	return c.clause.Probes[0]
}

// when adds the condition of the clause's probe to its predicate.
func (c *checker) when() {
	p := c.meant()
	if p == nil || p.Meaning.When == "" {
		return
	}
	at := c.clause.At
	v := c.within(at, p, p.Meaning.When)
	if !v.ok() {
		return
	}
	if own := c.clause.Predicate; own != nil {
		c.clause.Predicate = &Binary{typed{at, tInt}, syntax.LogAnd, v.x, own}
		return
	}
	c.clause.Predicate = v.x
}

// within returns the value of an expression of a probe's Meaning.
func (c *checker) within(at syntax.Span, p *Probe, text string) value {
	prog, ds := syntax.Displaced("inline long it = ("+text+");", syntax.Mode{})
	if ds != nil {
		c.fail(at, NotYet, "", "%s: %s: %v", p, text, ds)
		return value{}
	}
	inline, ok := prog.Items[0].(*syntax.Inline)
	if !ok {
		return value{}
	}
	names := map[string]value{}
	outer, place := c.lib, c.use
	if c.lib == nil {
		c.use = at
	}
	c.lib = &library{text: text}
	for i := range p.Meaning.Names {
		a := &p.Meaning.Names[i]
		if t := c.argType(at, a, p); t != nil {
			names[a.Name] = c.argument(at, BuiltinSite, a.From, t)
		}
	}
	c.keys = append(c.keys, names)
	v := c.expr(inline.Value)
	c.keys = c.keys[:len(c.keys)-1]
	c.lib, c.use = outer, place
	return v
}

// given returns one of args[] of a probe with a Meaning, untranslated.
func (c *checker) given(at syntax.Span, p *Probe, a *Arg) value {
	if a.D != "" {
		return c.within(at, p, a.D)
	}
	return value{}
}

// plain returns arg0 ... of a probe with a Meaning.
func (c *checker) plain(at syntax.Span, p *Probe, n int) value {
	args, _ := p.Arguments()
	if n >= len(args) {
		return number(at, tInt64, 0)
	}
	v := c.given(at, p, &args[n])
	switch {
	case !v.ok():
		return value{}
	case v.isString(): // the site has its address
		return value{x: &Builtin{typed{at, tInt64}, BuiltinSite, args[n].From}, t: tInt64}
	}
	x := c.fit(tInt64, value{x: convert(v.settle(), tInt64), t: tInt64})
	if x == nil {
		return value{}
	}
	return value{x: x, t: tInt64}
}
