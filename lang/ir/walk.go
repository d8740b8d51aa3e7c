package ir

import "culprit/lang/check"

// walk calls expr for every expression of a clause, outer ones first, and stmt for every statement.
func walk(src *check.Clause, expr func(check.Expr), stmt func(check.Stmt)) {
	if src.Predicate != nil {
		walkExpr(src.Predicate, expr)
	}
	walkStmts(src.Body, expr, stmt)
}

func walkStmts(list []check.Stmt, expr func(check.Expr), stmt func(check.Stmt)) {
	for _, s := range list {
		if stmt != nil {
			stmt(s)
		}
		switch s := s.(type) {
		case *check.Do:
			walkExpr(s.X, expr)
		case *check.If:
			walkExpr(s.Cond, expr)
			walkStmts(s.Then, expr, stmt)
			walkStmts(s.Else, expr, stmt)
		case *check.Aggregate:
			walkExprs(s.Keys, expr)
			walkExprs([]check.Expr{s.Value, s.Weight}, expr)
		case *check.Record:
			walkExprs(s.Args, expr)
		case *check.Forget:
			walkExpr(s.X, expr)
		}
	}
}

func walkExprs(list []check.Expr, f func(check.Expr)) {
	for _, e := range list {
		if e != nil {
			walkExpr(e, f)
		}
	}
}

func walkExpr(e check.Expr, f func(check.Expr)) {
	f(e)
	switch e := e.(type) {
	case *check.VarRef:
		walkExprs(e.Keys, f)
	case *check.Unary:
		walkExpr(e.X, f)
	case *check.Binary:
		walkExpr(e.X, f)
		walkExpr(e.Y, f)
	case *check.Cond:
		walkExprs([]check.Expr{e.If, e.Then, e.Else}, f)
	case *check.Convert:
		walkExpr(e.X, f)
	case *check.Load:
		walkExpr(e.X, f)
	case *check.AddrOf:
		walkExpr(e.X, f)
	case *check.StringOf:
		walkExpr(e.X, f)
	case *check.Call:
		walkExprs(e.Args, f)
	case *check.Assign:
		walkExpr(e.X, f)
		walkExpr(e.Y, f)
	case *check.Step:
		walkExpr(e.X, f)
	case *check.Copy:
		walkExpr(e.X, f)
	case *check.Exists:
		walkExpr(e.X, f)
	}
}

// keyBounds are the highest sizes of the strings in keys, by variable's and aggregation's ID.
type keyBounds struct{ vars, aggs map[int][]int }

// bounds computes the highest sizes of strings in keys, so that @[execname] need not have StrSize
// bytes.
func (l *lowerer) bounds() keyBounds {
	b := keyBounds{map[int][]int{}, map[int][]int{}}
	widen := func(of map[int][]int, id int, src *check.Clause, keys []check.Expr) {
		for len(of[id]) < len(keys) {
			of[id] = append(of[id], 0)
		}
		for i, k := range keys {
			if isString(k.Type()) {
				of[id][i] = max(of[id][i], l.bound(src, k))
			}
		}
	}
	for _, src := range l.src.Clauses {
		walk(src, func(e check.Expr) {
			if v, ok := e.(*check.VarRef); ok {
				widen(b.vars, v.Var.ID, src, v.Keys)
			}
		}, func(s check.Stmt) {
			if a, ok := s.(*check.Aggregate); ok {
				widen(b.aggs, a.Agg.ID, src, a.Keys)
			}
		})
	}
	return b
}

// bound returns the highest size of a string in bytes, including its final 0: a multiple of 8, at
// most StrSize.
func (l *lowerer) bound(src *check.Clause, e check.Expr) int {
	n := l.p.StrSize
	switch e := e.(type) {
	case *check.Text:
		n = len(e.Value) + 1
	case *check.Const:
		n = 1
	case *check.Cond:
		n = max(l.bound(src, e.Then), l.bound(src, e.Else))
	case *check.Binary: // a comma
		n = l.bound(src, e.Y)
	case *check.Builtin:
		var part func(*check.Probe) string
		switch e.Which {
		case check.BuiltinExecname:
			return min(n, 16) // TASK_COMM_LEN
		case check.BuiltinProbeProv:
			part = func(p *check.Probe) string { return p.Provider }
		case check.BuiltinProbeMod:
			part = func(p *check.Probe) string { return p.Module }
		case check.BuiltinProbeFunc:
			part = func(p *check.Probe) string { return p.Function }
		case check.BuiltinProbeName:
			part = func(p *check.Probe) string { return p.Name }
		default:
			return n
		}
		n = 1
		for _, p := range src.Probes {
			n = max(n, len(part(p))+1)
		}
	case *check.StringOf:
		if e.Max > 0 {
			n = int(min(e.Max+1, int64(n)))
		}
	case *check.Call:
		switch e.Func {
		case check.SubLltostr:
			n = 24 // a sign, 19 digits
			if len(e.Args) > 1 {
				n = 72 // a sign, 64 digits
			}
		case check.SubInetNtoa:
			n = 16
		case check.SubInetNtoa6, check.SubInetNtop:
			n = 48
		}
	}
	return min(round(n, 8), l.p.StrSize)
}
