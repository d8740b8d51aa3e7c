package syntax

import (
	"strings"
)

// The grammatical classes of words.
const (
	wName = iota
	wType
	wStorage
	wOperand  // begins or is an operand
	wReserved // reserved, and invalid within an expression
)

// wordKind returns the class of a word. The words of provider and translator definitions are names,
// except at the start of one.
func wordKind(word string) int {
	switch word {
	case "char",
		"short",
		"int",
		"long",
		"float",
		"double",
		"void",
		"signed",
		"unsigned",
		"_Bool",
		"string",
		"struct",
		"union",
		"enum",
		"const",
		"volatile",
		"restrict",
		"userland":
		return wType
	case "auto", "extern", "inline", "register", "static", "typedef":
		return wStorage
	case "offsetof", "self", "sizeof", "stringof", "this", "xlate":
		return wOperand
	case "break",
		"case",
		"continue",
		"default",
		"do",
		"else",
		"for",
		"goto",
		"if",
		"return",
		"switch",
		"while":
		return wReserved
	}
	return wName
}

func isQualifier(word string) bool {
	return word == "const" || word == "volatile" || word == "restrict"
}

// typeName reports whether a name is known as a type. See Cast.
func (p *parser) typeName(word string) bool {
	if p.types[word] || p.mode.Types != nil && p.mode.Types(word) {
		return true
	}
	bare := word[strings.LastIndexByte(word, '`')+1:]
	if strings.HasSuffix(bare, "_t") {
		return true
	}
	switch bare {
	case "bool",
		"uint",
		"ulong",
		"ushort",
		"uchar",
		"u_char",
		"u_short",
		"u_int",
		"u_long",
		"unchar",
		"quad",
		"u_quad",
		"u8",
		"u16",
		"u32",
		"u64",
		"s8",
		"s16",
		"s32",
		"s64",
		"__u8",
		"__u16",
		"__u32",
		"__u64",
		"__s8",
		"__s16",
		"__s32",
		"__s64",
		"__le16",
		"__le32",
		"__le64",
		"__be16",
		"__be32",
		"__be64",
		"__sum16",
		"__wsum":
		return true
	}
	return false
}

// typeAhead reports whether the token begins a type.
func (p *parser) typeAhead() bool {
	if p.tok.kind != tWord {
		return false
	}
	k := wordKind(p.str())
	return k == wType || k == wName && p.typeName(p.str())
}

// typeOnly reads a type without a name.
func (p *parser) typeOnly() Type {
	base, _ := p.specs(false)
	_, t := p.declarator(base, nameNone)
	return t
}

// basicWords counts the words of basic types that specs has read.
type basicWords struct {
	void, boolean, char, short, long, integer, float, double, signed, unsigned, str int
}

// specs reads the words before a declarator: storage where it is allowed, qualifiers and the base
// type.
func (p *parser) specs(storage bool) (Type, Storage) {
	from := p.tok.from
	var (
		w     basicWords
		store Storage
		qual  Qual
		t     Type
		some  bool
	)
	basic := func(n *int) {
		*n++
		some = true
	}
	first, last := int32(-1), int32(-1) // of the type's words
	for p.tok.kind == tWord && !p.failed {
		word := p.str()
		at := p.tok
		var s Storage
		switch word {
		case "auto", "register":
			p.fail(StoragePlace, word+" has no meaning in D", "omit it").Tag = "D_DECL_BADCLASS"
			return &Basic{}, store
		case "static":
			s = StoreStatic
		case "extern":
			s = StoreExtern
		case "typedef":
			s = StoreTypedef
		case "self":
			s = StoreSelf
		case "this":
			s = StoreThis
		case "const":
			qual |= Const
		case "volatile":
			qual |= Volatile
		case "restrict":
			qual |= Restrict
		case "void":
			basic(&w.void)
		case "_Bool":
			basic(&w.boolean)
		case "char":
			basic(&w.char)
		case "short":
			basic(&w.short)
		case "int":
			basic(&w.integer)
		case "long":
			basic(&w.long)
		case "float":
			basic(&w.float)
		case "double":
			basic(&w.double)
		case "signed":
			basic(&w.signed)
		case "unsigned":
			basic(&w.unsigned)
		case "string":
			basic(&w.str)
		// of DTrace: a type of the traced process; here all types are the kernel's or D's own
		case "userland":
		case "struct", "union":
			if t != nil || some {
				p.badWords(from, t, w)
				return &Basic{}, store
			}
			t = p.structType(word == "union")
			first, last = at.from, int32(p.last)
			continue
		case "enum":
			if t != nil || some {
				p.badWords(from, t, w)
				return &Basic{}, store
			}
			t = p.enumType()
			first, last = at.from, int32(p.last)
			continue
		default:
			if t != nil || some {
				goto done
			}
			if k := wordKind(word); k != wName {
				goto done
			}
			if store != StoreNone && store != StoreTypedef &&
				strings.IndexByte(",;[=", p.at(p.space(p.off))) >= 0 &&
				p.at(p.space(p.off)) != 0 {
				return &Basic{Span{at.from, at.from}, qual, KindInt}, store // self x;
			}
			id := ident(Span{at.from, at.to}, word)
			t = &Named{Span: id.Span, Module: id.Module, Name: id.Name}
			first, last = at.from, at.to
		}
		if s != StoreNone {
			switch {
			case !storage:
				p.fail(StoragePlace, word+" is not allowed here", "")
			case store != StoreNone:
				p.fail(TwoStorages, "second storage: only one is allowed", "")
			}
			store = s
		} else if t == nil {
			if first < 0 {
				first = at.from
			}
			last = at.to
		}
		p.next()
	}
done:
	if p.failed {
		return &Basic{}, store
	}
	if t != nil {
		if some {
			p.badWords(from, t, w)
		}
		switch t := t.(type) {
		case *Named:
			t.Qual = qual
		case *Struct:
			t.Qual = qual
		case *Enum:
			t.Qual = qual
		}
		return t, store
	}
	if !some {
		if store == StoreNone || p.tok.kind != tWord { // self x; would be an int in old C
			p.fail(ExpectedType, "expected a type, found "+p.what(), "")
		} else {
			p.fail(ExpectedType, "expected a type before "+p.what(), "")
		}
		return &Basic{}, store
	}
	kind, ok := w.kind()
	if !ok {
		p.badWords(from, nil, w)
	}
	return &Basic{Span{first, last}, qual, kind}, store
}

// badWords fails at words that make no type together; t is the struct or enum among them, if any.
func (p *parser) badWords(from int32, t Type, w basicWords) {
	to := max(p.last, int(from))
	if p.is("struct") || p.is("union") || p.is("enum") {
		to = int(p.tok.to)
		if t != nil && p.text[p.last-1] == '}' {
			d := p.failAt(UnendedDeclaration, p.last, p.last, "expected a semicolon",
				"declarations end with ;")
			d.Tag = "D_DECL_COMBO"
			return
		}
	}
	d := p.failAt(
		BadTypeWords, int(from), to, "invalid combination of type words",
		"the longest one is unsigned long long",
	)
	signs := w.signed + w.unsigned
	switch one := w.void + w.char; {
	case w.short > 0 && w.long > 0:
		d.Tag = "D_UNKNOWN"
	case w.void == 1 && one == 1 && w.short+w.long+signs > 0:
		d.Tag = "D_DECL_VOIDATTR"
	case w.char == 1 && one == 1 && w.short+w.long > 0:
		d.Tag = "D_DECL_CHARATTR"
	case w.integer+one == 0 && w.short+w.long > 0 && signs == 0:
		d.Tag = "D_DECL_LONGINT"
	case w.integer+one == 0 && signs > 0:
		d.Tag = "D_DECL_SIGNINT"
	}
}

// kind returns the type that the words make together.
func (w basicWords) kind() (BasicKind, bool) {
	pick := func(unsigned, signed BasicKind) (BasicKind, bool) {
		if w.unsigned > 0 {
			return unsigned, true
		}
		return signed, true
	}
	if w.signed+w.unsigned > 1 || w.integer > 1 || w.short > 1 || w.long > 2 ||
		w.short > 0 && w.long > 0 {
		return 0, false
	}
	whole := w.short + w.long + w.integer + w.signed + w.unsigned
	switch others := w.void + w.boolean + w.char + w.float + w.double + w.str; {
	case others > 1:
		return 0, false
	case others == 0:
		switch {
		case w.short == 1:
			return pick(KindUShort, KindShort)
		case w.long == 2:
			return pick(KindULongLong, KindLongLong)
		case w.long == 1:
			return pick(KindULong, KindLong)
		}
		return pick(KindUInt, KindInt)
	case w.char == 1:
		switch {
		case w.unsigned == 1 && whole == 1:
			return KindUChar, true
		case w.signed == 1 && whole == 1:
			return KindSChar, true
		}
		return KindChar, whole == 0
	case w.double == 1:
		if w.long == 1 && whole == 1 {
			return KindLongDouble, true
		}
		return KindDouble, whole == 0
	case w.void == 1:
		return KindVoid, whole == 0
	case w.boolean == 1:
		return KindBool, whole == 0
	case w.float == 1:
		return KindFloat, whole == 0
	}
	return KindString, whole == 0
}

// tag reads the tag behind struct, union or enum, if there is one.
func (p *parser) tag(what string) (module string, tag Name) {
	p.next()
	if p.tok.kind == tWord && wordKind(p.str()) == wName {
		id := ident(Span{p.tok.from, p.tok.to}, p.str())
		module, tag = id.Module, Name{id.Span, id.Name}
		p.next()
	} else if p.tok.kind != tLBrace {
		p.fail(ExpectedTag, "expected the tag of the "+what+", found "+p.what(),
			what+" tag, or "+what+" { ... }")
	}
	return module, tag
}

func (p *parser) structType(union bool) Type {
	s := &Struct{Span: Span{From: p.tok.from}, Union: union}
	what := p.str()
	s.Module, s.Tag = p.tag(what)
	if p.tok.kind != tLBrace || p.failed {
		s.Span = p.span(s.From)
		return s
	}
	if !p.enter() {
		return s
	}
	defer p.leave()
	open := p.tok
	p.next()
	if p.tok.kind == tRBrace {
		p.failAt(
			EmptyStruct, int(open.from), int(p.tok.to), "empty "+what,
			"a type of the kernel is known without a declaration; a pointer needs only struct tag;",
		)
	}
	for !p.failed && p.tok.kind != tRBrace {
		if p.tok.kind == tEOF {
			p.failAt(UnclosedBrace, int(open.from), int(open.to), "unclosed {", "")
			break
		}
		s.Fields = append(s.Fields, p.fields()...)
	}
	p.next()
	s.Span = p.span(s.From)
	return s
}

// fields reads one line of a struct.
func (p *parser) fields() []*StructMember {
	base, _ := p.specs(false)
	var out []*StructMember
	for !p.failed && p.tok.kind != tSemi {
		f := &StructMember{Span: Span{From: p.tok.from}, Base: base, Type: base}
		if p.tok.kind != tColon {
			f.Name, f.Type = p.declarator(base, nameMust)
		}
		if p.got(tColon) {
			f.Bits = p.cond()
		}
		f.Span = p.span(f.From)
		out = append(out, f)
		if !p.got(tComma) {
			break
		}
	}
	if len(out) == 0 && !p.failed {
		if s, ok := base.(*Struct); ok && s.Fields != nil {
			out = append(out, &StructMember{Span: s.Span, Base: base, Type: base})
		} else {
			p.fail(ExpectedName, "missing name of a member", "")
		}
	}
	if p.mode.LooseMembers && p.tok.kind == tRBrace {
		return out
	}
	if p.tok.kind != tSemi {
		if p.tok.kind != tEOF && strings.IndexByte(p.text[p.last:p.tok.from], '\n') < 0 {
			p.fail(
				UnendedDeclaration, "expected a semicolon before "+p.what(), "members end with ;",
			)
			p.fault = int(p.tok.to)
		} else if !p.failed {
			p.report(UnendedDeclaration, p.last, p.last, "expected a semicolon",
				"members end with ;")
			return out
		}
	}
	p.next()
	return out
}

func (p *parser) enumType() Type {
	e := &Enum{Span: Span{From: p.tok.from}}
	e.Module, e.Tag = p.tag("enum")
	if p.tok.kind != tLBrace || p.failed {
		e.Span = p.span(e.From)
		return e
	}
	open := p.tok
	p.next()
	if p.tok.kind == tRBrace {
		p.failAt(EmptyStruct, int(open.from), int(p.tok.to), "empty enum", "")
	}
	for !p.failed && p.tok.kind != tRBrace {
		v := &EnumValue{Span: Span{From: p.tok.from}, Name: Name{Span: Span{p.tok.from, p.tok.to}}}
		if p.tok.kind != tWord || wordKind(p.str()) != wName ||
			strings.IndexByte(p.str(), '`') >= 0 {
			if p.tok.kind == tEOF {
				p.failAt(UnclosedBrace, int(open.from), int(open.to), "unclosed {", "")
			} else {
				p.fail(ExpectedName, "expected the name of a value, found "+p.what(),
					"enum tag { name, name = 3 }")
			}
			break
		}
		v.Name.Text = p.str()
		p.next()
		if p.got(tAssign) {
			v.Value = p.cond()
		}
		v.Span = p.span(v.From)
		e.Values = append(e.Values, v)
		if !p.got(tComma) && p.tok.kind != tRBrace {
			if p.tok.kind == tEOF || p.tok.kind == tSemi {
				p.failAt(UnclosedBrace, int(open.from), int(open.to), "unclosed {", "")
			} else {
				p.unexpected()
			}
		}
	}
	p.next()
	e.Span = p.span(e.From)
	return e
}
