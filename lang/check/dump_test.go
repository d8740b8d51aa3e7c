package check

import (
	"fmt"
	"strconv"
	"strings"

	"culprit/lang/syntax"
)

// Dump returns a program as text with all types and conversions, for tests and debugging. It is not
// D.
func Dump(p *Program) string {
	var b strings.Builder
	for _, v := range p.Vars {
		fmt.Fprintf(&b, "var %s %v", scopeName(v.Home, v.Name), v.Type)
		if v.Keys != nil {
			fmt.Fprintf(&b, "[%s]", typeList(v.Keys))
		}
		b.WriteByte('\n')
	}
	for _, a := range p.Aggs {
		fmt.Fprintf(&b, "agg @%s %v", a.Name, a.Func)
		if a.Steps != [4]int64{} {
			fmt.Fprintf(&b, "%v", a.Steps)
		}
		if a.Keys != nil {
			fmt.Fprintf(&b, "[%s]", typeList(a.Keys))
		}
		if a.Func != Count && !a.Signed {
			b.WriteString(" unsigned")
		}
		b.WriteByte('\n')
	}
	for _, c := range p.Clauses {
		for i, probe := range c.Probes {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(probe.String())
		}
		if c.Predicate != nil {
			b.WriteString(" / " + DumpExpr(c.Predicate) + " /")
		}
		b.WriteByte('\n')
		printStmts(&b, c.Body, "\t")
	}
	return b.String()
}

func typeList(list []Type) string {
	var out []string
	for _, t := range list {
		out = append(out, t.String())
	}
	return strings.Join(out, ", ")
}

func printStmts(b *strings.Builder, list []Stmt, indent string) {
	for _, s := range list {
		b.WriteString(indent)
		switch s := s.(type) {
		case *Do:
			b.WriteString(DumpExpr(s.X))
		case *If:
			b.WriteString("if " + DumpExpr(s.Cond) + "\n")
			printStmts(b, s.Then, indent+"\t")
			if s.Else != nil {
				b.WriteString(indent + "else\n")
				printStmts(b, s.Else, indent+"\t")
			}
			continue
		case *Aggregate:
			fmt.Fprintf(b, "@%s", s.Agg.Name)
			if s.Keys != nil {
				b.WriteString("[" + exprList(s.Keys) + "]")
			}
			fmt.Fprintf(b, " %v", s.Agg.Func)
			if s.Value != nil {
				b.WriteString(" " + DumpExpr(s.Value))
			}
			if s.Weight != nil {
				b.WriteString(" weight " + DumpExpr(s.Weight))
			}
		case *Record:
			printRecord(b, s)
		}
		b.WriteByte('\n')
	}
}

func printRecord(b *strings.Builder, r *Record) {
	a := r.Action
	b.WriteString("record " + a.Kind.String())
	if a.Format != nil {
		b.WriteString(" " + strconv.Quote(a.Format.Text))
	}
	for _, g := range a.Aggs {
		b.WriteString(" @" + g.Name)
	}
	if a.Frames != 0 {
		fmt.Fprintf(b, " frames=%d", a.Frames)
	}
	if a.Size != 0 {
		fmt.Fprintf(b, " size=%d", a.Size)
	}
	if a.Name != "" {
		fmt.Fprintf(b, " %s=%q", a.Name, a.Value)
	}
	if a.Type != nil {
		fmt.Fprintf(b, " (%v)", a.Type)
	}
	if r.Args != nil {
		b.WriteString(" " + exprList(r.Args))
	}
}

func exprList(list []Expr) string {
	var out []string
	for _, x := range list {
		out = append(out, DumpExpr(x))
	}
	return strings.Join(out, ", ")
}

// typeWord returns a type in a few letters, with the space of a pointer.
func typeWord(t Type) string {
	switch t := t.(type) {
	case nil:
		return "?"
	case *Int:
		s := "u"
		if t.Signed {
			s = "i"
		}
		s += strconv.Itoa(int(t.Bytes) * 8)
		if t.Bits > 0 {
			s += fmt.Sprintf(":%d>>%d", t.Bits, t.Shift)
		}
		return s
	case *Pointer:
		return t.Space.String() + "*" + pointee(t.Elem)
	case StringType:
		return "str"
	}
	return t.String()
}

func pointee(t Type) string {
	if _, ok := t.(*Int); ok {
		return typeWord(t)
	}
	return t.String()
}

// DumpExpr returns an expression in the form of Dump: every operation with the type of its result.
func DumpExpr(x Expr) string {
	switch x := x.(type) {
	case nil:
		return "nothing"
	case *Const:
		return fmt.Sprintf("%d%s", x.Value, suffix(x.T))
	case *Text:
		return strconv.Quote(x.Value)
	case *Builtin:
		s := x.Which.String()
		if x.Which == BuiltinArg || x.Which == BuiltinURegs || x.Which == BuiltinFrame ||
			x.Which == BuiltinUFrame {
			s += strconv.Itoa(x.N)
		}
		if _, ok := x.T.(*Pointer); ok {
			s += ":" + typeWord(x.T)
		}
		return s
	case *VarRef:
		s := scopeName(x.Var.Home, x.Var.Name)
		if x.Keys != nil {
			s += "[" + exprList(x.Keys) + "]"
		}
		return s
	case *Unary:
		return x.Op.String() + paren(x.X)
	case *Binary:
		return "(" + DumpExpr(x.X) + " " + x.Op.String() + suffix(x.X.Type()) + " " +
			DumpExpr(x.Y) + ")"
	case *Cond:
		return "(" + DumpExpr(x.If) + " ? " + DumpExpr(x.Then) + " : " + DumpExpr(x.Else) + ")"
	case *Convert:
		return typeWord(x.T) + "(" + DumpExpr(x.X) + ")"
	case *Load:
		return "load." + typeWord(x.T) + "." + spaceOf(x.X).String() + "(" + DumpExpr(x.X) + ")"
	case *AddrOf:
		return "&" + DumpExpr(x.X)
	case *StringOf:
		s := "stringof." + spaceOf(x.X).String()
		if x.Max > 0 {
			s += "." + strconv.FormatInt(x.Max, 10)
		}
		return s + "(" + DumpExpr(x.X) + ")"
	case *Call:
		return x.Func.String() + "(" + exprList(x.Args) + ")"
	case *Assign:
		op := "="
		if x.Op != syntax.Set {
			op = x.Op.String() + "="
		}
		return "(" + DumpExpr(x.X) + " " + op + suffix(x.T) + " " + DumpExpr(x.Y) + ")"
	case *Step:
		if x.Post {
			return fmt.Sprintf("(%s post%+d)", DumpExpr(x.X), x.By)
		}
		return fmt.Sprintf("(%s pre%+d)", DumpExpr(x.X), x.By)
	case *StackOf:
		return fmt.Sprintf("%v(%d)", x.T, x.Frames)
	case *Copy:
		return fmt.Sprintf("bytes%d(%s)", x.Size, DumpExpr(x.X))
	}
	return fmt.Sprintf("%T", x)
}

func paren(x Expr) string {
	s := DumpExpr(x)
	if strings.HasPrefix(s, "(") {
		return s
	}
	return "(" + s + ")"
}

// suffix returns the type of an operation to print after its operator; "" for a 64-bit integer and
// for a string.
func suffix(t Type) string {
	switch t := t.(type) {
	case *Int:
		if t.Bytes == 8 && t.Signed && t.Bits == 0 {
			return ""
		}
		return "." + typeWord(t)
	case *Pointer:
		return "." + typeWord(t)
	}
	return ""
}

// String returns the name of a space.
func (s Space) String() string { return [...]string{"kernel", "user", "typed", "own"}[s] }

// String returns the name of the function.
func (f AggFunc) String() string {
	return [...]string{"count", "sum", "min", "max", "avg", "stddev", "quantize", "lquantize",
		"llquantize"}[f]
}

// String returns the name of the action.
func (k ActionKind) String() string {
	return [...]string{"trace", "printf", "printa", "stack", "ustack", "exit", "clear", "trunc",
		"normalize", "denormalize", "tracemem", "print", "symbol", "system",
		"freopen", "setopt", "ftruncate", "speculate", "commit", "discard", "raise", "stop",
		"chill", "panic", "copyout", "copyoutstr", "default"}[k]
}

// String returns the name of the variable in D.
func (b BuiltinVar) String() string {
	return [...]string{"arg", "caller", "cpu", "curthread", "epid", "errno", "execname", "gid",
		"id", "ipl", "pid", "ppid", "probefunc", "probemod", "probename", "probeprov",
		"stackdepth", "tid", "timestamp", "ucaller", "uid", "uregs", "ustackdepth", "vtimestamp",
		"walltimestamp", "return", "execargs", "sitearg", "frame", "uframe"}[b]
}

// String returns the name of the subroutine in D.
func (s Subroutine) String() string {
	for name, sub := range subroutines {
		if sub.which == s {
			return name
		}
	}
	return "subroutine" + strconv.Itoa(int(s))
}
