package bpftrace

import (
	"runtime"
	"strings"

	"culprit/lang/syntax"
)

// register translates reg("NAME"), a register of the program at a probe of its functions.
func (t *translator) register(e *syntax.Call) syntax.Expr {
	at := e.Span
	s, ok := e.Args[0].(*syntax.String)
	if !ok {
		t.fail(e.Args[0].At(), BadCall, "write reg(\"sp\")", "reg() requires a string")
		return number(at, 0)
	}
	if !t.site.filtered() {
		t.fail(at, Unsupported, "use arg0 to arg9, or retval; kstack shows where a CPU is",
			"reg() is only for probes of programs: uprobe, uretprobe, usdt")
		return number(at, 0)
	}
	name, ok := registerName(s.Value, runtime.GOARCH)
	if !ok {
		t.fail(s.Span, BadCall, "", "there is no register %s", shown(s.Value))
		return number(at, 0)
	}
	return &syntax.Index{
		Span: at, X: &syntax.Ident{Span: at, Name: "uregs"},
		Keys: []syntax.Expr{&syntax.Ident{Span: at, Name: name}},
	}
}

// registerName returns the name of an index of uregs[] for a register, as bpftrace names it.
func registerName(name, arch string) (string, bool) {
	if arch == "arm64" {
		if n, ok := strings.CutPrefix(name, "r"); ok && len(n) <= 2 && plain(n) == n &&
			(len(n) == 1 || n <= "30") && digit(n[0]) {
			return "R_X" + n, true
		}
		switch name {
		case "sp", "pc", "pstate":
			return "R_" + strings.ToUpper(name), true
		}
		return "", false
	}
	switch name {
	case "ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip":
		return "R_R" + strings.ToUpper(name), true
	case "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cs", "ss":
		return "R_" + strings.ToUpper(name), true
	case "flags":
		return "R_RFL", true
	}
	return "", false
}

// cgroupPath translates cgroup_path(ID, HIERARCHY): user space finds the path when it prints it.
func (t *translator) cgroupPath(e *syntax.Call) (syntax.Expr, *Shape) {
	shape := &Shape{Kind: CgroupPath}
	if len(e.Args) == 2 {
		s, ok := e.Args[1].(*syntax.String)
		if !ok {
			t.fail(e.Args[1].At(), BadCall, "write cgroup_path(cgroup, \"unified\")",
				"the hierarchy must be a string")
		} else {
			shape.Format = s.Value
		}
	}
	x, _ := t.expr(e.Args[0])
	return unsigned(e.Span, x), shape
}
