package check

import (
	"culprit/lang/syntax"
)

// topology gives chip_of(CPU) or node_of(CPU) of D's own libraries: which chip a CPU is on, which NUMA node it is near to. CPUs whose
// numbers follow one another are mostly of the same: it is a choice between ranges of them.
func (c *checker) topology(e *syntax.Call) value {
	at := e.At()
	v := c.expr(e.Args[0])
	if !v.ok() {
		return value{}
	}
	places, nodes := c.env.Topology()
	if e.Func.Text == "node_of" {
		places = nodes
	}
	var out Expr = &Const{typed{at, tInt}, 0}
	last := 0 // of the CPUs behind
	for cpu := len(places) - 1; cpu >= 0; cpu-- {
		if places[cpu] == last {
			continue
		}
		last = places[cpu]
		below := c.operate(at, syntax.Le, v, number(at, tInt, int64(cpu)))
		if !below.ok() {
			return value{}
		}
		out = &Cond{typed{at, tInt}, below.x, &Const{typed{at, tInt}, int64(last)}, out}
	}
	return value{x: out, t: tInt}
}

// lasting gives what curcpu is where an address is wanted of it: of memory of the clause that has been given its members. Other
// translations have no address.
func (c *checker) lasting(at syntax.Span, v value) value {
	if v.xl == nil || v.xl.by.lib == nil || v.xl.by.out.Name != "cpuinfo" {
		return v
	}
	if _, ok := v.xl.t.(*Pointer); !ok {
		return v
	}
	s := v.xl.by.out
	p := &Pointer{Elem: s, Space: Own}
	const name = "cpuinfo " // nobody else's: it has a blank
	id := c.thiss[name]
	if id == nil {
		id = &ident{kind: identVar, name: name, home: This, t: p, at: at, set: true}
		c.thiss[name] = id
	}
	ref := &VarRef{typed{at, p}, c.variableOf(id), nil}
	room := &Call{typed{at, &Pointer{Elem: tVoid, Space: Own}}, SubAlloca, []Expr{&Const{typed{at, tLong}, s.Size()}}}
	var out Expr = &Assign{typed{at, p}, syntax.Set, ref, &Convert{typed{at, p}, room}}
	for _, f := range s.Fields() {
		m := v.xl.by.members[f.Name]
		if m == nil {
			continue
		}
		member := c.memberOf(at, v.xl, f, m)
		to := c.fieldOf(at, value{x: ref, t: s}, f)
		x := c.fit(to.t, member)
		if !member.ok() || x == nil {
			return value{}
		}
		out = &Binary{typed{at, to.t}, syntax.Comma, out, &Assign{typed{at, to.t}, syntax.Set, to.x, x}}
	}
	return value{x: &Binary{typed{at, p}, syntax.Comma, out, ref}, t: p}
}
