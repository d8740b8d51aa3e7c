package check

import (
	"culprit/lang/syntax"
)

// topology returns chip_of(CPU) or node_of(CPU) for D's libraries: the chip of a CPU, or its NUMA
// node. CPUs with consecutive numbers mostly share it, so the expression chooses between ranges of
// CPUs.
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
	last := 0 // of the CPUs after it
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

// lasting returns curcpu when its address is needed: clause-local memory that contains its members.
// Other translations have no address.
func (c *checker) lasting(at syntax.Span, v value) value {
	if v.xl == nil || v.xl.by.lib == nil || v.xl.by.out.Name != "cpuinfo" {
		return v
	}
	if _, ok := v.xl.t.(*Pointer); !ok {
		return v
	}
	s := v.xl.by.out
	p := &Pointer{Elem: s, Space: Own}
	const name = "cpuinfo " // unique: it contains a space
	id := c.thiss[name]
	if id == nil {
		id = &ident{kind: identVar, name: name, home: This, t: p, at: at, set: true}
		c.thiss[name] = id
	}
	ref := &VarRef{typed{at, p}, c.variableOf(id), nil}
	memory := &Call{
		typed{at, &Pointer{Elem: tVoid, Space: Own}},
		SubAlloca,
		[]Expr{&Const{typed{at, tLong}, s.Size()}},
	}
	var out Expr = &Assign{typed{at, p}, syntax.Set, ref, &Convert{typed{at, p}, memory}}
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
		out = &Binary{
			typed{at, to.t},
			syntax.Comma,
			out,
			&Assign{typed{at, to.t}, syntax.Set, to.x, x},
		}
	}
	return value{x: &Binary{typed{at, p}, syntax.Comma, out, ref}, t: p}
}
