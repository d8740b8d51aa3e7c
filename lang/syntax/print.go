package syntax

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Print gives a node as text that parses to the same node, in one layout whatever the text it came from looked like:
// parentheses only where they are needed, a statement a line. Comments are not kept. Nodes that somebody made are printed
// like those that were parsed; a tree that no text could give is printed as it comes.
func Print(n Node) string {
	p := &printer{}
	switch n := n.(type) {
	case *Program:
		p.program(n)
	case Item:
		p.item(n)
	case *Probe:
		p.probe(n)
	case *Block:
		p.block(n)
	case Stmt:
		p.stmt(n)
	case Expr:
		p.expr(n, 0)
	case Type:
		p.typed(n, nil, "")
	case *Var:
		p.typed(n.Type, nil, n.Name.Text)
	case *Param:
		p.typed(n.Type, nil, n.Name.Text)
	case *Field:
		p.typed(n.Type, nil, n.Name.Text)
		p.bits(n)
	case *EnumValue:
		p.enumValue(n)
	case *TranslatorMember:
		p.member(n)
	}
	return p.String()
}

type printer struct {
	strings.Builder
	indent int
}

func (p *printer) put(parts ...string) {
	for _, s := range parts {
		p.WriteString(s)
	}
}

func (p *printer) line() {
	p.WriteByte('\n')
	for range p.indent {
		p.WriteByte('\t')
	}
}

func (p *printer) program(n *Program) {
	for i, item := range n.Items {
		if _, ok := item.(*Clause); ok && i > 0 {
			p.put("\n")
		}
		p.item(item)
		p.put("\n")
	}
}

func (p *printer) item(n Item) {
	switch n := n.(type) {
	case *Clause:
		p.clause(n)
	case *Pragma:
		p.put("#pragma D ", n.Kind.Text)
		if n.Kind.Text == "option" {
			p.put(" ", n.Name.Text)
			if n.Set {
				value := n.Value.Text
				if strings.ContainsAny(value, " \t\f\v\r") || strings.Contains(value, "/*") || strings.HasPrefix(value, `"`) && strings.HasSuffix(value, `"`) && len(value) > 1 {
					value = `"` + value + `"`
				}
				p.put("=", value)
			}
		}
		for _, w := range n.Words {
			p.put(" ", w.Text)
		}
	case *Declaration:
		switch n.Storage {
		case StoreStatic:
			p.put("static ")
		case StoreExtern:
			p.put("extern ")
		case StoreTypedef:
			p.put("typedef ")
		case StoreSelf:
			p.put("self ")
		case StoreThis:
			p.put("this ")
		}
		p.base(n.Base)
		for i, v := range n.Vars {
			if i > 0 {
				p.put(",")
			}
			p.put(" ", declarator(v.Type, n.Base, v.Name.Text))
		}
		p.put(";")
	case *Inline:
		p.put("inline ")
		p.typed(n.Var.Type, nil, n.Var.Name.Text)
		p.put(" = ")
		p.expr(n.Value, bindAssign)
		p.put(";")
	case *Translator:
		p.put("translator ")
		p.typed(n.Output, nil, "")
		p.put(" < ")
		p.typed(n.Input, nil, n.Name.Text)
		p.put(" > {")
		p.indent++
		for _, m := range n.Members {
			p.line()
			p.member(m)
		}
		p.indent--
		p.line()
		p.put("};")
	}
}

func (p *printer) member(m *TranslatorMember) {
	p.put(m.Name.Text, " = ")
	p.expr(m.Value, bindAssign)
	p.put(";")
}

func (p *printer) clause(n *Clause) {
	for i, probe := range n.Probes {
		if i > 0 {
			p.put(",\n")
		}
		p.probe(probe)
	}
	if n.Predicate != nil {
		text := Print(n.Predicate)
		if strings.HasPrefix(text, "*") || strings.HasPrefix(text, "/") { // else it begins a comment
			text = " " + text
		}
		p.put("\n/", text, "/")
	}
	switch {
	case n.Body == nil:
		p.put(";")
	default:
		p.line()
		p.block(n.Body)
	}
}

func (p *printer) probe(n *Probe) {
	if n.Parts == 0 {
		p.put(strconv.FormatUint(uint64(n.ID), 10))
		return
	}
	// The parts that were written are the last of four, or of fewer with another Mode.Last, where those behind are empty.
	parts := []string{n.Provider.Text, n.Module.Text, n.Function.Text, n.Name.Text}
	p.put(strings.Join(parts[4-min(n.Parts, 4):], ":"))
}

func (p *printer) block(b *Block) {
	p.put("{")
	p.indent++
	for _, s := range b.List {
		p.line()
		p.stmt(s)
	}
	p.indent--
	p.line()
	p.put("}")
}

func (p *printer) stmt(s Stmt) {
	switch s := s.(type) {
	case *Do:
		p.expr(s.X, 0)
		p.put(";")
	case *If:
		p.put("if (")
		p.expr(s.Cond, 0)
		p.put(") ")
		p.block(s.Then)
		if s.Else == nil {
			return
		}
		p.put(" else ")
		if len(s.Else.List) == 1 {
			if inner, ok := s.Else.List[0].(*If); ok {
				p.stmt(inner)
				return
			}
		}
		p.block(s.Else)
	}
}

// binds says how tightly an expression holds its parts together.
func binds(x Expr) uint8 {
	switch x := x.(type) {
	case *Binary:
		return ops[x.Op].bind
	case *Assign:
		return bindAssign
	case *Cond:
		return bindCond
	case *Unary, *Cast, *SizeOf, *StringOf:
		return bindUnary
	case *Step:
		if !x.Post {
			return bindUnary
		}
	}
	return bindPostfix
}

// expr prints an expression where what binds looser than bind needs parentheses.
func (p *printer) expr(x Expr, bind uint8) {
	if binds(x) < bind {
		p.put("(")
		p.expr(x, 0)
		p.put(")")
		return
	}
	switch x := x.(type) {
	case *Ident:
		switch x.Scope {
		case ScopeSelf:
			p.put("self->")
		case ScopeThis:
			p.put("this->")
		case ScopeKernel:
			p.put(x.Module, "`")
		}
		p.put(x.Name)
	case *Macro:
		p.put("$")
		if x.Quoted {
			p.put("$")
		}
		p.put(x.Name)
	case *Int:
		if x.Text != "" {
			p.put(x.Text)
			return
		}
		p.put(strconv.FormatUint(x.Value, 10))
		if x.Unsigned {
			p.put("u")
		}
		p.put(strings.Repeat("l", int(x.Long)))
	case *Char:
		p.put(quote(x.Text, '\''))
	case *String:
		p.put(quote(x.Value, '"'))
	case *Aggregation:
		p.put("@", x.Name)
		if x.Keys != nil {
			p.put("[")
			p.list(x.Keys)
			p.put("]")
		}
	case *Index:
		p.operand(x.X)
		p.put("[")
		p.list(x.Keys)
		p.put("]")
	case *Member:
		p.operand(x.X)
		if x.Arrow {
			p.put("->", x.Name.Text)
		} else {
			p.put(".", x.Name.Text)
		}
	case *Call:
		p.put(x.Func.Text, "(")
		p.list(x.Args)
		p.put(")")
	case *Unary:
		p.put(ops[x.Op].text)
		p.under(x.X, ops[x.Op].text)
	case *Step:
		mark := "++"
		if x.Op == Sub {
			mark = "--"
		}
		if x.Post {
			p.operand(x.X)
			p.put(mark)
			return
		}
		p.put(mark)
		p.under(x.X, mark)
	case *Binary:
		b := ops[x.Op].bind
		left := b
		if x.Op == Comma {
			left = bindComma
		}
		p.expr(x.X, left)
		if x.Op == Comma {
			p.put(", ")
		} else {
			p.put(" ", ops[x.Op].text, " ")
		}
		p.expr(x.Y, b+1)
	case *Assign:
		p.expr(x.X, bindUnary)
		if x.Op != Set {
			p.put(" ", ops[x.Op].text, "= ")
		} else {
			p.put(" = ")
		}
		p.expr(x.Y, bindAssign)
	case *Cond:
		p.expr(x.If, bindCond+1)
		p.put(" ? ")
		p.expr(x.Then, bindComma)
		p.put(" : ")
		p.expr(x.Else, bindCond)
	case *Cast:
		p.put("(")
		p.typed(x.Type, nil, "")
		p.put(")")
		// Between a name in parentheses and one of + - * & a cast looks like an operation; a parenthesis settles it.
		switch y := x.X.(type) {
		case *Unary:
			if y.Op != Not && y.Op != BitNot {
				p.put("(")
				p.expr(y, 0)
				p.put(")")
				return
			}
		case *Step:
			if !y.Post {
				p.put("(")
				p.expr(y, 0)
				p.put(")")
				return
			}
		}
		p.expr(x.X, bindUnary)
	case *SizeOf:
		if x.Type != nil {
			p.put("sizeof (")
			p.typed(x.Type, nil, "")
			p.put(")")
			return
		}
		p.put("sizeof ")
		p.under(x.X, "")
	case *StringOf:
		p.put("stringof ")
		p.under(x.X, "")
	case *OffsetOf:
		p.put("offsetof(")
		p.typed(x.Type, nil, "")
		p.put(", ")
		for i, n := range x.Path {
			if i > 0 {
				p.put(".")
			}
			p.put(n.Text)
		}
		p.put(")")
	case *Xlate:
		p.put("xlate <")
		p.typed(x.Type, nil, "")
		p.put("> (")
		p.expr(x.X, 0)
		p.put(")")
	}
}

// under prints the operand of an operator that stands before it, and keeps the two from growing together.
func (p *printer) under(x Expr, mark string) {
	inner := &printer{}
	inner.expr(x, bindUnary)
	s := inner.String()
	if mark != "" && s != "" && s[0] == mark[0] {
		p.put("(", s, ")")
		return
	}
	p.put(s)
}

// operand prints what stands before [, . or ->.
func (p *printer) operand(x Expr) {
	switch x.(type) {
	case *Int, *Char, *String: // 1.x would be read as another number
		p.put("(")
		p.expr(x, 0)
		p.put(")")
	default:
		p.expr(x, bindPostfix)
	}
}

func (p *printer) list(xs []Expr) {
	for i, x := range xs {
		if i > 0 {
			p.put(", ")
		}
		p.expr(x, bindAssign)
	}
}

// typed prints a type and the name that it is of, "" for none. The base is found at the end of the type's marks.
func (p *printer) typed(t, base Type, name string) {
	if base == nil {
		base = baseOf(t)
	}
	p.base(base)
	if d := declarator(t, base, name); d != "" {
		if d[0] != '[' && d[0] != '(' || name != "" {
			p.put(" ")
		}
		p.put(d)
	}
}

// baseOf gives the type that pointers, arrays and functions lead to.
func baseOf(t Type) Type {
	for {
		switch x := t.(type) {
		case *Pointer:
			t = x.Elem
		case *Array:
			t = x.Elem
		case *Assoc:
			t = x.Elem
		case *Func:
			t = x.Result
		default:
			return t
		}
	}
}

// declarator gives what stands behind the base in the declaration of a name of a type.
func declarator(t, base Type, name string) string {
	for t != base {
		switch x := t.(type) {
		case *Pointer:
			quals := qualWords(x.Qual)
			if quals != "" && name == "" {
				quals = strings.TrimSuffix(quals, " ")
			}
			name = "*" + quals + name
			switch x.Elem.(type) {
			case *Array, *Assoc, *Func:
				if x.Elem != base {
					name = "(" + name + ")"
				}
			}
			t = x.Elem
		case *Array:
			name += "["
			if x.Len != nil {
				in := &printer{}
				in.expr(x.Len, bindAssign)
				name += in.String()
			}
			name += "]"
			t = x.Elem
		case *Assoc:
			name += "[" + params(x.Keys, false) + "]"
			t = x.Elem
		case *Func:
			name += "(" + params(x.Params, x.More) + ")"
			t = x.Result
		default:
			return name
		}
	}
	return name
}

func params(list []*Param, more bool) string {
	var out []string
	for _, x := range list {
		out = append(out, Print(x))
	}
	if more {
		out = append(out, "...")
	}
	if len(out) == 0 {
		return "void"
	}
	return strings.Join(out, ", ")
}

// qualWords gives qualifiers, each with a space behind it.
func qualWords(q Qual) string {
	s := ""
	if q&Const != 0 {
		s += "const "
	}
	if q&Volatile != 0 {
		s += "volatile "
	}
	if q&Restrict != 0 {
		s += "restrict "
	}
	return s
}

// basicNames are the basic types as they are written.
//
// table: what the grammar calls each kind
var basicNames = [...]string{
	KindVoid: "void", KindBool: "_Bool", KindChar: "char", KindSChar: "signed char", KindUChar: "unsigned char",
	KindShort: "short", KindUShort: "unsigned short", KindInt: "int", KindUInt: "unsigned int", KindLong: "long", KindULong: "unsigned long",
	KindLongLong: "long long", KindULongLong: "unsigned long long", KindFloat: "float", KindDouble: "double", KindLongDouble: "long double",
	KindString: "string",
}

// String gives the type as it is written: "unsigned long".
func (k BasicKind) String() string {
	if int(k) < len(basicNames) {
		return basicNames[k]
	}
	return "?"
}

// base prints a type that is no pointer, array or function.
func (p *printer) base(t Type) {
	switch t := t.(type) {
	case *Basic:
		p.put(qualWords(t.Qual), t.Kind.String())
	case *Named:
		p.put(qualWords(t.Qual))
		p.ofModule(t.Module, t.Name)
	case *Struct:
		word := "struct"
		if t.Union {
			word = "union"
		}
		p.tagged(t.Qual, word, t.Module, t.Tag)
		if t.Fields == nil {
			return
		}
		p.put(" {")
		p.indent++
		for i, f := range t.Fields {
			if i > 0 && f.Base != nil && f.Base == t.Fields[i-1].Base {
				p.put(",")
			} else {
				if i > 0 {
					p.put(";")
				}
				p.line()
				p.base(f.Base)
			}
			if d := declarator(f.Type, f.Base, f.Name.Text); d != "" {
				p.put(" ", d)
			}
			p.bits(f)
		}
		p.put(";")
		p.indent--
		p.line()
		p.put("}")
	case *Enum:
		p.tagged(t.Qual, "enum", t.Module, t.Tag)
		if t.Values == nil {
			return
		}
		p.put(" {")
		p.indent++
		for _, v := range t.Values {
			p.line()
			p.enumValue(v)
			p.put(",")
		}
		p.indent--
		p.line()
		p.put("}")
	}
}

func (p *printer) tagged(q Qual, word, module string, tag Name) {
	p.put(qualWords(q), word)
	if tag.Text != "" {
		p.put(" ")
		p.ofModule(module, tag.Text)
	}
}

// ofModule prints the name of a type. A name that is a word of the grammar can only stand behind a backtick: `int.
func (p *printer) ofModule(module, name string) {
	if module != "" || wordKind(name) != wName {
		p.put(module, "`")
	}
	p.put(name)
}

func (p *printer) bits(f *Field) {
	if f.Bits != nil {
		p.put(" : ")
		p.expr(f.Bits, bindCond)
	}
}

func (p *printer) enumValue(v *EnumValue) {
	p.put(v.Name.Text)
	if v.Value != nil {
		p.put(" = ")
		p.expr(v.Value, bindCond)
	}
}

// quote gives bytes as a literal between marks.
func quote(s string, mark byte) string {
	out := []byte{mark}
	for i := 0; i < len(s); {
		c := s[i]
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == mark || c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, '\\', 'n')
		case c == '\t':
			out = append(out, '\\', 't')
		case c == '\r':
			out = append(out, '\\', 'r')
		case c < ' ' || c == 0x7f || r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, "\\%03o", c)
		default:
			out = append(out, s[i:i+n]...)
		}
		i += n
	}
	return string(append(out, mark))
}
