package syntax

import (
	"strings"
)

// typed prints a type and the name that it declares, "" for none. The base is at the end of the
// type's chain.
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

// baseOf returns the type at the end of a chain of pointers, arrays and functions.
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

// declarator returns the text after the base in the declaration of a name.
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

// qualWords returns qualifiers, each followed by a space.
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
// table: the text of each kind
var basicNames = [...]string{
	KindVoid: "void", KindBool: "_Bool", KindChar: "char", KindSChar: "signed char",
	KindUChar: "unsigned char",
	KindShort: "short", KindUShort: "unsigned short", KindInt: "int", KindUInt: "unsigned int",
	KindLong: "long", KindULong: "unsigned long",
	KindLongLong: "long long", KindULongLong: "unsigned long long", KindFloat: "float",
	KindDouble: "double", KindLongDouble: "long double",
	KindString: "string",
}

// String returns the type as it is written: "unsigned long".
func (k BasicKind) String() string {
	if int(k) < len(basicNames) {
		return basicNames[k]
	}
	return "?"
}

// base prints a type other than a pointer, array or function.
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

// ofModule prints the name of a type. A name that is a keyword is valid only after a backtick:
// `int.
func (p *printer) ofModule(module, name string) {
	if module != "" || wordKind(name) != wName {
		p.put(module, "`")
	}
	p.put(name)
}

func (p *printer) bits(f *StructMember) {
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
