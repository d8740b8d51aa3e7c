package ir_test

import (
	"culprit/lang/check"
	"culprit/lang/syntax"
)

// Constructors of checked trees that no text produces.

func intType(bytes int, signed bool) *check.Int {
	name := map[int]string{1: "char", 2: "short", 4: "int", 8: "long"}[bytes]
	if !signed {
		name = "unsigned " + name
	}
	return &check.Int{Bytes: int8(bytes), Signed: signed, Name: name}
}

func num(v int64, t check.Type) *check.Const {
	e := &check.Const{Value: v}
	e.T = t
	return e
}

func str(s string) *check.Text {
	e := &check.Text{Value: s}
	e.T = check.StringType{}
	return e
}

func bin(op syntax.Op, x, y check.Expr, t check.Type) *check.Binary {
	e := &check.Binary{Op: op, X: x, Y: y}
	e.T = t
	return e
}

func builtin(which check.BuiltinVar, n int, t check.Type) *check.Builtin {
	e := &check.Builtin{Which: which, N: n}
	e.T = t
	return e
}

func ref(v *check.Var, keys ...check.Expr) *check.VarRef {
	e := &check.VarRef{Var: v, Keys: keys}
	e.T = v.Type
	return e
}

func set(x, y check.Expr) *check.Do {
	a := &check.Assign{Op: syntax.Set, X: x, Y: y}
	a.T = x.Type()
	return &check.Do{X: a}
}

func act(kind check.ActionKind, args ...check.Expr) *check.Record {
	return &check.Record{Action: check.Action{Kind: kind}, Args: args}
}

// program makes a program of one probe with its clauses.
func program(
	vars []*check.Var, aggs []*check.Aggregation, clauses ...*check.Clause,
) *check.Program {
	probe := &check.Probe{ID: 1, Provider: "dtrace", Name: "BEGIN"}
	for i, c := range clauses {
		c.Index = i
		c.Probes = []*check.Probe{probe}
	}
	for i, v := range vars {
		v.ID = i
	}
	for i, a := range aggs {
		a.ID = i
	}
	return &check.Program{Clauses: clauses, Vars: vars, Aggs: aggs}
}
