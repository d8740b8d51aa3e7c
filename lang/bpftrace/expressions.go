package bpftrace

import (
	"cmp"
	"strconv"

	"culprit/lang/syntax"
	"culprit/lang/words"
)

// values translates an expression to the values that make it up: several for a tuple or buffer.
func (t *translator) values(e syntax.Expr) ([]syntax.Expr, *Shape) {
	if parts, ok := isTuple(e); ok {
		var out []syntax.Expr
		shape := &Shape{Kind: Tuple}
		for _, p := range parts {
			v, s := t.values(p)
			out = append(out, v...)
			shape.Parts = append(shape.Parts, s)
		}
		return out, shape
	}
	switch e := e.(type) {
	case *syntax.Macro:
		if shape, ok := t.vars[e.Name]; ok && shape.Values() > 1 {
			var out []syntax.Expr
			for i := range shape.Values() {
				name := cmp.Or(t.loopVars[e.Name], e.Name)
				out = append(out, t.local(e.Span, name+"."+strconv.Itoa(i)))
			}
			return out, shape
		}
	case *syntax.Aggregation:
		if m := t.maps[e.Name]; m != nil && m.Func == "" && m.Value.Values() > 1 {
			var out []syntax.Expr
			n := m.Value.Values()
			for i := range n {
				out = append(out, t.element(e, i, n))
			}
			return out, m.Value
		}
	case *syntax.Member:
		if out, shape, ok := t.tuplePart(e); ok {
			return out, shape
		}
	case *syntax.Call:
		if e.Func.Text == "buf" {
			return t.buffer(e)
		}
	}
	x, shape := t.expr(e)
	return []syntax.Expr{x}, shape
}

// tuplePart translates $t.0.
func (t *translator) tuplePart(e *syntax.Member) ([]syntax.Expr, *Shape, bool) {
	n, err := strconv.Atoi(e.Name.Text)
	if err != nil {
		return nil, nil, false
	}
	all, shape := t.values(e.X)
	if shape.kind() != Tuple || n >= len(shape.Parts) {
		t.fail(e.Name.Span, BadCall, "", "there is no element %d", n)
		return all[:1], nil, true
	}
	from := 0
	for _, p := range shape.Parts[:n] {
		from += p.Values()
	}
	part := shape.Parts[n]
	return all[from : from+part.Values()], part, true
}

// expr translates an expression to one value.
func (t *translator) expr(e syntax.Expr) (syntax.Expr, *Shape) {
	if _, ok := isTuple(e); ok {
		t.fail(e.At(), BadCall, "use its elements", "a tuple can't be used here")
		return number(e.At(), 0), nil
	}
	switch e := e.(type) {
	case *syntax.Ident:
		return t.ident(e)
	case *syntax.Macro:
		return t.variable(e)
	case *syntax.Aggregation:
		return t.mapValue(e)
	case *syntax.Call:
		return t.call(e)
	case *syntax.Member:
		if out, shape, ok := t.tuplePart(e); ok {
			return out[0], shape
		}
		if id, ok := e.X.(*syntax.Ident); ok && id.Name == "retval" && t.site == siteFexit {
			return &syntax.Member{
				Span: e.Span, X: typedResult(id.Span), Name: e.Name, Arrow: e.Arrow,
			}, nil
		} else if ok && id.Name == "args" && t.site == siteFexit {
			t.fail(e.Span, Unsupported,
				"keep it at the entry: kfunc:FUNCTION { @arg[tid] = args."+e.Name.Text+"; }",
				"this version does not read arguments where a function returns")
			return number(e.Span, 0), nil
		} else if ok && id.Name == "args" {
			return &syntax.Member{Span: e.Span, X: id, Name: e.Name, Arrow: e.Arrow}, nil
		} else if ok && id.Name == "curtask" {
			task := &syntax.Ident{Span: id.Span, Name: "curthread"}
			return &syntax.Member{Span: e.Span, X: task, Name: e.Name, Arrow: e.Arrow}, nil
		}
		x, _ := t.expr(e.X)
		return &syntax.Member{Span: e.Span, X: x, Name: e.Name, Arrow: e.Arrow}, nil
	case *syntax.Index:
		x, _ := t.expr(e.X)
		d := &syntax.Index{Span: e.Span, X: x}
		for _, k := range e.Keys {
			y, _ := t.expr(k)
			d.Keys = append(d.Keys, y)
		}
		return d, nil
	case *syntax.Unary:
		x, _ := t.expr(e.X)
		return &syntax.Unary{Span: e.Span, Op: e.Op, X: x}, nil
	case *syntax.Step:
		x, shape := t.expr(e.X)
		return &syntax.Step{Span: e.Span, Op: e.Op, X: x, Post: e.Post}, shape
	case *syntax.Binary:
		x, _ := t.expr(e.X)
		y, _ := t.expr(e.Y)
		return &syntax.Binary{Span: e.Span, Op: e.Op, X: x, Y: y}, nil
	case *syntax.Cond:
		x, _ := t.expr(e.If)
		a, shape := t.expr(e.Then)
		b, _ := t.expr(e.Else)
		return &syntax.Cond{Span: e.Span, If: x, Then: a, Else: b}, shape
	case *syntax.Cast:
		return t.cast(e), nil
	case *syntax.SizeOf:
		if e.X == nil {
			return e, nil
		}
		x, _ := t.expr(e.X)
		return &syntax.SizeOf{Span: e.Span, X: x}, nil
	case *syntax.Assign:
		t.fail(e.Span, BadSyntax, "write the assignment before, as a statement",
			"an assignment is not a value")
		return number(e.Span, 0), nil
	}
	return e, nil
}

// cast translates a cast. curtask stays a pointer, so that fields need no helper to be read.
func (t *translator) cast(e *syntax.Cast) syntax.Expr {
	if id, ok := e.X.(*syntax.Ident); ok && id.Name == "curtask" {
		if _, ok := e.Type.(*syntax.Pointer); ok {
			return &syntax.Cast{Span: e.Span, Type: e.Type,
				X: &syntax.Ident{Span: id.Span, Name: "curthread"}}
		}
	}
	x, _ := t.expr(e.X)
	return &syntax.Cast{Span: e.Span, Type: e.Type, X: x}
}

func (t *translator) variable(e *syntax.Macro) (syntax.Expr, *Shape) {
	shape, ok := t.vars[e.Name]
	if !ok {
		t.fail(e.Span, BadMap, "assign to it before", "$%s is not assigned before its use", e.Name)
		t.vars[e.Name] = nil
	}
	if shape.Values() > 1 {
		t.fail(e.Span, BadCall, "use its elements: $"+e.Name+".0", "a tuple can't be used here")
	}
	return t.local(e.Span, e.Name), shape
}

// mapValue translates the value of a map's element.
func (t *translator) mapValue(e *syntax.Aggregation) (syntax.Expr, *Shape) {
	m := t.maps[e.Name]
	switch {
	case m == nil:
		t.fail(e.Span, BadMap, "assign to it: @"+e.Name+" = 1", "@%s is never assigned", e.Name)
		return number(e.Span, 0), nil
	case m.Func != "":
		if name, ok := t.answers[e]; ok && t.divided {
			return t.local(e.Span, name), nil
		}
		hint := "print(@" + e.Name + ") prints it"
		if m.number() {
			hint += "; BEGIN, END and interval can read it"
		}
		if m.Func == "count" {
			hint += "; @" + e.Name + "++ counts in a map that can be read"
		}
		t.fail(e.Span, Unsupported, hint,
			"the value of @%s is not known in the kernel, because %s() adds to it on each CPU",
			e.Name, m.Func)
		return number(e.Span, 0), nil
	case m.Value.Values() > 1:
		t.fail(e.Span, BadCall, "use its elements", "a tuple can't be used here")
		return number(e.Span, 0), nil
	}
	return t.element(e, 0, 1), m.Value
}

// unsigned returns an expression as a number of 64 bits without sign, as bpftrace's builtins are.
func unsigned(at syntax.Span, x syntax.Expr) syntax.Expr {
	return &syntax.Cast{Span: at, Type: &syntax.Named{Span: at, Name: "uint64_t"}, X: x}
}

// numbers are the builtins that are numbers, with their names in D.
//
// table: name to name in D
var numbers = map[string]string{
	"pid": "pid", "tid": "tid", "uid": "uid", "gid": "gid", "cpu": "cpu", "nsecs": "timestamp",
	"curtask": "curthread", "numaid": "lgrp",
}

// unsupportedNames are builtins of bpftrace that culprit does not have, with what to write instead.
//
// table: name to hint
var unsupportedNames = map[string]string{
	"ctx":      "use arg0, args.FIELD or retval",
	"sarg0":    "read it from the stack: *(uint64 *)(reg(\"sp\") + 8)",
	"usermode": "use kstack or ustack",
	"jiffies":  "use nsecs",
}

// ident translates a builtin, or the name of an enumerator.
func (t *translator) ident(e *syntax.Ident) (syntax.Expr, *Shape) {
	at := e.Span
	if name, ok := numbers[e.Name]; ok {
		return unsigned(at, &syntax.Ident{Span: at, Name: name}), nil
	}
	if hint, ok := unsupportedNames[e.Name]; ok {
		t.fail(at, Unsupported, hint, "%s is not supported", e.Name)
		return number(at, 0), nil
	}
	if n, ok := knownConstants[e.Name]; ok {
		return number(at, n), nil
	}
	switch name := e.Name; name {
	case "comm":
		return &syntax.Ident{Span: at, Name: "execname"}, nil
	case "rand":
		return &syntax.Call{Span: at, Func: syntax.Name{Span: at, Text: "rand"}}, nil
	case "probe":
		return &syntax.Ident{Span: at, Name: "id"}, &Shape{Kind: ProbeName}
	case "func":
		if t.site < siteKprobe || t.site > siteUretprobe {
			t.fail(at, Unsupported, "use probe", "func is only for probes of functions")
		}
		return &syntax.Ident{Span: at, Name: "probefunc"}, nil
	case "username":
		return &syntax.Ident{Span: at, Name: "uid"}, &Shape{Kind: Username}
	case "ppid":
		return unsigned(at, &syntax.Ident{Span: at, Name: "ppid"}), nil
	case "pcomm":
		return t.ofTask(at, "real_parent", "comm"), nil
	case "elapsed":
		t.elapsed = true
		now := &syntax.Ident{Span: at, Name: "timestamp"}
		return &syntax.Binary{Span: at, Op: syntax.Sub, X: now,
			Y: &syntax.Ident{Span: at, Name: beginName}}, nil
	case "kstack", "ustack":
		return t.stack(at, name, nil)
	case "cgroup":
		return t.cgroup(at), nil
	case "cpid":
		return number(at, t.o.Target), nil
	case "retval":
		return t.retval(at), nil
	case "args":
		t.fail(at, BadCall, "write args.FIELD; -lv PROBE lists the fields",
			"args is not a value by itself")
		return number(at, 0), nil
	}
	if n, ok := argNumber(e.Name); ok {
		return t.arg(at, n), nil
	}
	hint := words.Hint(words.Bpftrace, e.Name)
	if _, isCall := forms[e.Name]; isCall || aggregating[e.Name].d != "" {
		hint = e.Name + " is a function: write " + e.Name + "(...)"
		if aggregating[e.Name].d != "" {
			hint = aggregatingForms[e.Name]
		}
	}
	if hint != "" {
		t.fail(at, BadCall, hint, "unknown name %s", e.Name)
		return number(at, 0), nil
	}
	return e, nil
}

// argNumber returns the number of arg0 ... arg9.
func argNumber(name string) (int, bool) {
	if len(name) != 4 || name[:3] != "arg" || !digit(name[3]) {
		return 0, false
	}
	return int(name[3] - '0'), true
}

func (t *translator) arg(at syntax.Span, n int) syntax.Expr {
	switch t.site {
	case siteKprobe, siteUprobe, siteUSDT, siteRaw:
		return unsigned(at, &syntax.Ident{Span: at, Name: "arg" + strconv.Itoa(n)})
	}
	hint := "use args.FIELD; -lv PROBE lists the fields"
	switch t.site {
	case siteKretprobe, siteUretprobe:
		hint = "keep it at the entry: @arg[tid] = arg" + strconv.Itoa(n)
	case siteBegin, siteTimer, siteEvent:
		hint = "only probes of functions have arguments"
	}
	t.fail(at, Unsupported, hint, "this probe has no arg%d", n)
	return number(at, 0)
}

func (t *translator) retval(at syntax.Span) syntax.Expr {
	switch t.site {
	case siteKretprobe, siteUretprobe, siteFexit:
		if t.site == siteFexit {
			return &syntax.Ident{Span: at, Name: "arg1"}
		}
		return unsigned(at, &syntax.Ident{Span: at, Name: "arg1"})
	}
	t.fail(at, Unsupported, "use kretprobe, uretprobe or fexit", "this probe has no retval")
	return number(at, 0)
}

// typedResult returns what a function of the kernel returns, with its type.
func typedResult(at syntax.Span) syntax.Expr {
	return &syntax.Index{
		Span: at, X: &syntax.Ident{Span: at, Name: "args"}, Keys: []syntax.Expr{number(at, 1)},
	}
}

// cgroup returns the ID of the thread's cgroup: curtask->cgroups->dfl_cgrp->kn->id.
func (t *translator) cgroup(at syntax.Span) syntax.Expr {
	return unsigned(at, t.ofTask(at, "cgroups", "dfl_cgrp", "kn", "id"))
}

// ofTask returns a member of the thread's task_struct by the names of the members on the way.
func (t *translator) ofTask(at syntax.Span, names ...string) syntax.Expr {
	var x syntax.Expr = &syntax.Ident{Span: at, Name: "curthread"}
	for _, name := range names {
		x = &syntax.Member{Span: at, X: x, Name: syntax.Name{Span: at, Text: name}, Arrow: true}
	}
	return x
}

// knownConstants are macros of the kernel's headers that programs use without including them.
//
// table: name to value
var knownConstants = map[string]int64{
	"TASK_RUNNING": 0, "AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "SOCK_STREAM": 1, "SOCK_DGRAM": 2,
	"O_RDONLY": 0, "O_WRONLY": 1, "O_RDWR": 2, "SIGKILL": 9, "SIGTERM": 15,
	"true": 1, "false": 0, "NULL": 0,
}
