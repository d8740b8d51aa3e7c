package check

import (
	"fmt"
	"strings"

	"culprit/lang/syntax"
)

// byLayout splits the probes of a clause that reads fields of args by the places of the fields.
func (c *checker) byLayout(s *syntax.Clause, groups [][]*Probe) [][]*Probe {
	reads := false
	syntax.Walk(s, func(n syntax.Node) bool {
		id, ok := n.(*syntax.Ident)
		reads = reads || ok && id.Name == "args"
		return !reads
	})
	if !reads || !c.o.Bpftrace {
		return groups
	}
	var out [][]*Probe
	for _, g := range groups {
		at := map[string]int{}
		for _, p := range g {
			args, _ := p.Arguments()
			var key strings.Builder
			for _, a := range args {
				fmt.Fprintf(&key, "%s %s %d,", a.Name, a.C, a.From)
			}
			i, ok := at[key.String()]
			if !ok {
				i = len(out)
				at[key.String()] = i
				out = append(out, nil)
			}
			out[i] = append(out[i], p)
		}
		if len(g) == 0 {
			out = append(out, g)
		}
	}
	return out
}

// foreignAction checks output(), which writes a record for user space, forget(), which removes an
// element, and keysof() and valueof(), which declare variables. It returns false for other
// functions.
func (c *checker) foreignAction(e *syntax.Call, at syntax.Span) bool {
	if !c.o.Bpftrace {
		return false
	}
	switch e.Func.Text {
	case "output":
		c.output(e, at)
		return true
	case "keysof", "valueof":
		c.loopVariables(e)
		return true
	case "forget":
		v := c.expr(e.Args[0])
		x, ok := v.x.(*VarRef)
		if a, is := v.x.(*AddrOf); is {
			x, ok = a.X, true
		}
		if ok {
			c.add(&Forget{place{at}, x})
		}
		return true
	}
	return false
}

// output checks output(N, WANTS, values ...): action N of the translation with its values. WANTS
// has a letter for each value: d a number, s a string, . any.
func (c *checker) output(e *syntax.Call, at syntax.Span) {
	n, ok := e.Args[0].(*syntax.Int)
	wants, ok2 := e.Args[1].(*syntax.String)
	if !ok || !ok2 || len(wants.Value) != len(e.Args)-2 {
		c.fail(at, NotUnderstood, "", "the action can't be compiled")
		return
	}
	var args []Expr
	for i, a := range e.Args[2:] {
		v := c.lasting(a.At(), c.exprAny(a))
		if !v.ok() {
			return
		}
		x, t := c.recordable(v)
		if _, ok := v.t.(*Bytes); ok { // of bytes()
			x, t = v.x, v.t
		}
		_, isNumber := v.int()
		isNumber = isNumber || isPointer(t)
		arr, isArray := v.t.(*Array)
		isString := v.isString() || isArray && isChar(arr.Elem)
		want := wants.Value[i]
		switch {
		case x == nil || v.void:
			c.fail(a.At(), NotRecordable, "", "%s can't be printed", v.t)
		case want == 'd' && !isNumber:
			c.fail(a.At(), FormatType, "", "the conversion requires a number, not %s", v.t).Hint =
				"use %s for strings"
		case want == 's' && !isString:
			c.fail(a.At(), FormatType, "", "the conversion requires a string, not %s", v.t).Hint =
				"use %d for numbers; str(POINTER) reads a string"
		default:
			if isArray && isChar(arr.Elem) {
				x = c.str(v)
			} else if isWholeType(v.t) {
				x = &Copy{typed{a.At(), v.t}, v.x, v.t.Size()}
			}
			args = append(args, x)
			continue
		}
		return
	}
	c.record(at, Action{Kind: Output, Number: int(n.Value)}, args...)
}
