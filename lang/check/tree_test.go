package check_test

import (
	"testing"

	"culprit/lang/check"
	"culprit/lang/syntax"
)

// checkTree checks the invariants of a program: every expression has a type, operands have one
// type, memory is read only through pointers.
func checkTree(t testing.TB, p *check.Program) {
	t.Helper()
	var expr func(x check.Expr)
	exprs := func(list []check.Expr) {
		for _, x := range list {
			expr(x)
		}
	}
	wrong := func(x check.Expr, what string) {
		t.Errorf("%s: %s in\n%s", check.DumpExpr(x), what, p.Text)
	}
	expr = func(x check.Expr) {
		if x == nil {
			t.Fatalf("an expression is missing in\n%s", p.Text)
		}
		if x.Type() == nil {
			wrong(x, "has no type")
			return
		}
		if at := x.Place(); at.From < 0 || at.To < at.From {
			wrong(x, "stands nowhere")
		}
		switch x := x.(type) {
		case *check.VarRef:
			exprs(x.Keys)
			if len(x.Keys) != len(x.Var.Keys) {
				wrong(x, "has too few keys or too many")
			}
			for i := range min(len(x.Keys), len(x.Var.Keys)) {
				if !check.Same(x.Keys[i].Type(), x.Var.Keys[i]) {
					wrong(x, "has a key of type "+x.Keys[i].Type().String()+", not "+x.Var.Keys[i].String())
				}
			}
			if x.Var.ID >= len(p.Vars) || p.Vars[x.Var.ID] != x.Var {
				wrong(x, "is a variable that is not in the list")
			}
			if !check.Same(x.T, x.Var.Type) {
				wrong(x, "has another type than its variable, "+x.Var.Type.String())
			}
		case *check.Unary:
			expr(x.X)
		case *check.Binary:
			expr(x.X)
			expr(x.Y)
			a, aok := x.X.Type().(*check.Int)
			b, bok := x.Y.Type().(*check.Int)
			switch {
			case x.Op == syntax.Comma || x.Op == syntax.LogAnd || x.Op == syntax.LogOr ||
				x.Op == syntax.LogXor:
			case aok && bok:
				if a.Bytes != 8 || b.Bytes != 8 || a.Signed != b.Signed {
					wrong(x, "has operands that are not alike: "+a.Name+", "+b.Name)
				}
			case !aok && !bok:
			default:
				if _, pointer := x.X.Type().(*check.Pointer); !pointer {
					wrong(x, "has operands that are not alike")
				}
			}
		case *check.Cond:
			expr(x.If)
			expr(x.Then)
			expr(x.Else)
			if !check.Same(x.Then.Type(), x.T) || !check.Same(x.Else.Type(), x.T) {
				wrong(x, "has values of another type than its own")
			}
		case *check.Convert:
			expr(x.X)
		case *check.Load:
			expr(x.X)
			if _, ok := x.X.Type().(*check.Pointer); !ok {
				wrong(x, "loads through "+x.X.Type().String())
			}
			switch x.T.(type) {
			case *check.Struct, *check.Array:
				wrong(x, "loads a whole struct or array")
			}
		case *check.AddrOf:
			expr(x.X)
		case *check.StringOf:
			expr(x.X)
			if _, ok := x.X.Type().(*check.Pointer); !ok {
				wrong(x, "is the string at "+x.X.Type().String())
			}
		case *check.Call:
			exprs(x.Args)
		case *check.Assign:
			_, isStruct := x.T.(*check.Struct)
			// the address of a struct, which is not read
			if l, ok := x.X.(*check.Load); ok && isStruct {
				expr(l.X)
			} else {
				expr(x.X)
			}
			expr(x.Y)
			if x.Op == syntax.Set && !isStruct && !check.Same(x.X.Type(), x.Y.Type()) {
				wrong(x, "assigns "+x.Y.Type().String()+" to "+x.X.Type().String())
			}
			switch x.X.(type) {
			case *check.VarRef, *check.Load:
			default:
				wrong(x, "assigns to what is no place")
			}
		case *check.Step:
			expr(x.X)
		case *check.Copy:
			expr(x.X)
			if x.Size <= 0 {
				wrong(x, "copies nothing")
			}
		}
	}
	var stmts func(list []check.Stmt)
	stmts = func(list []check.Stmt) {
		for _, s := range list {
			switch s := s.(type) {
			case *check.Do:
				expr(s.X)
			case *check.If:
				expr(s.Cond)
				stmts(s.Then)
				stmts(s.Else)
			case *check.Aggregate:
				exprs(s.Keys)
				if len(s.Keys) != len(s.Agg.Keys) {
					t.Errorf("@%s is given %d keys in\n%s", s.Agg.Name, len(s.Keys), p.Text)
				}
				if s.Agg.ID >= len(p.Aggs) || p.Aggs[s.Agg.ID] != s.Agg {
					t.Errorf("@%s is not in the list in\n%s", s.Agg.Name, p.Text)
				}
				if s.Value != nil {
					expr(s.Value)
				}
				if s.Weight != nil {
					expr(s.Weight)
				}
				if (s.Value == nil) != (s.Agg.Func == check.Count) {
					t.Errorf("@%s has no value, or one too many in\n%s", s.Agg.Name, p.Text)
				}
			case *check.Record:
				exprs(s.Args)
			}
		}
	}
	for i, c := range p.Clauses {
		if c.Index != i {
			t.Errorf("clause %d has the number %d", i, c.Index)
		}
		if c.Predicate != nil {
			expr(c.Predicate)
		}
		stmts(c.Body)
	}
}
