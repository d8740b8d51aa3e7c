package syntax

import (
	"strings"
)

// What a word is to the grammar.
const (
	wName = iota
	wType
	wStorage
	wOperand  // begins or is an operand
	wReserved // kept, and of no use within an expression
)

// wordKind says what a word is to the grammar. The words of provider and translator definitions are names everywhere but
// at the start of one.
func wordKind(word string) int {
	switch word {
	case "char", "short", "int", "long", "float", "double", "void", "signed", "unsigned", "_Bool", "string",
		"struct", "union", "enum", "const", "volatile", "restrict", "userland":
		return wType
	case "auto", "extern", "inline", "register", "static", "typedef":
		return wStorage
	case "offsetof", "self", "sizeof", "stringof", "this", "xlate":
		return wOperand
	case "break", "case", "continue", "default", "do", "else", "for", "goto", "if", "return", "switch", "while":
		return wReserved
	}
	return wName
}

func isQualifier(word string) bool {
	return word == "const" || word == "volatile" || word == "restrict"
}

// typeName says whether a name is known for a type's. See Cast.
func (p *parser) typeName(word string) bool {
	if p.types[word] || p.mode.Types != nil && p.mode.Types(word) {
		return true
	}
	bare := word[strings.LastIndexByte(word, '`')+1:]
	if strings.HasSuffix(bare, "_t") {
		return true
	}
	switch bare {
	case "bool", "uint", "ulong", "ushort", "uchar", "u_char", "u_short", "u_int", "u_long", "unchar", "quad", "u_quad",
		"u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64",
		"__u8", "__u16", "__u32", "__u64", "__s8", "__s16", "__s32", "__s64",
		"__le16", "__le32", "__le64", "__be16", "__be32", "__be64", "__sum16", "__wsum":
		return true
	}
	return false
}

// typeAhead says whether the token begins a type.
func (p *parser) typeAhead() bool {
	if p.tok.kind != tWord {
		return false
	}
	k := wordKind(p.str())
	return k == wType || k == wName && p.typeName(p.str())
}

// declaration reads the declaration at p.off and leaves p.off behind it.
func (p *parser) declaration() Item {
	from := int32(p.off)
	p.tok = token{from: from, to: from}
	p.next()
	var item Item
	switch p.str() {
	case "inline":
		p.next()
		item = p.inline(from)
	case "translator":
		item = p.translator(from)
	case "provider":
		p.fail(ProviderDefinition, "a provider's definition is for the program that has it, and is not traced", "the probes of a program are found in its file: provider$target:::")
	default:
		item = p.declared(from)
	}
	if p.failed {
		if p.fault < p.off && p.fault >= int(from) && p.unended() {
			p.off = p.fault
			return nil
		}
		p.skipDeclaration(from)
		return nil
	}
	p.off = int(p.tok.to)
	return item
}

// skipDeclaration goes on after a failure in the declaration that began at from: when that was within braces, behind them.
func (p *parser) skipDeclaration(from int32) {
	fault, depth := p.fault, 0
	p.failed, p.quiet, p.nest, p.off = p.stopped, true, 0, int(from)
	for p.scan(); p.tok.kind != tEOF; p.scan() {
		if int(p.tok.from) >= fault && depth == 0 {
			break
		}
		if p.tok.kind == tLBrace {
			depth++
		} else if p.tok.kind == tRBrace {
			depth = max(0, depth-1)
			if depth == 0 && int(p.tok.to) > fault {
				fault = int(p.tok.to)
			}
		}
	}
	p.quiet, p.fault = false, max(fault, p.fault)
	p.skipItem()
}

// unended says whether the last told is a missing semicolon, behind which another item begins.
func (p *parser) unended() bool {
	return len(p.diags) > 0 && p.diags[len(p.diags)-1].Code == UnendedDeclaration && p.fault > 0
}

// semi wants the semicolon of a declaration, and does not read behind it.
func (p *parser) semi(what string) {
	if p.tok.kind == tSemi || p.failed {
		if !p.failed {
			p.last = int(p.tok.to)
		}
		return
	}
	if p.tok.kind != tEOF && strings.IndexByte(p.text[p.last:p.tok.from], '\n') < 0 {
		p.fail(UnendedDeclaration, "a semicolon should stand before "+p.what(), what)
		p.fault = int(p.tok.to) // not to be taken for an item
		return
	}
	p.failAt(UnendedDeclaration, p.last, p.last, "a semicolon should stand here", what)
}

func (p *parser) declared(from int32) Item {
	d := &Declaration{}
	d.Base, d.Storage = p.specs(true)
	for !p.failed && p.tok.kind != tSemi {
		at := p.tok.from
		name, t := p.declarator(d.Base, nameMust)
		d.Vars = append(d.Vars, &Var{p.span(at), name, t})
		if d.Storage == StoreTypedef && !p.failed {
			if p.types == nil {
				p.types = map[string]bool{}
			}
			p.types[name.Text] = true
		}
		if p.tok.kind == tAssign {
			p.fail(Initializer, "a declared variable begins as 0", "assign to it in BEGIN, or make it an inline: inline int name = value;")
		}
		if !p.got(tComma) {
			break
		}
		if p.tok.kind == tSemi {
			p.fail(ExpectedName, "a name should stand behind the comma", "")
		}
	}
	if len(d.Vars) == 0 && !p.failed {
		switch d.Base.(type) {
		case *Struct, *Enum:
		default:
			p.fail(ExpectedName, "this declares nothing: the name is missing", "int name;").Tag = "D_DECL_USELESS"
		}
	}
	p.semi("declarations end with ;")
	d.Span = p.span(from)
	return d
}

func (p *parser) inline(from int32) Item {
	x := &Inline{}
	base, _ := p.specs(false)
	at := p.tok.from
	x.Var = &Var{}
	x.Var.Name, x.Var.Type = p.declarator(base, nameMust)
	x.Var.Span = p.span(at)
	if p.tok.kind != tAssign {
		p.failAt(InlineValue, int(x.Var.From), int(x.Var.To), "this inline has no value", "inline int name = value;")
	}
	p.next()
	x.Value = p.assign()
	p.semi("an inline ends with ;")
	x.Span = p.span(from)
	return x
}

func (p *parser) translator(from int32) Item {
	const form = "translator output < input *name > { member = value; };"
	x := &Translator{}
	p.next()
	x.Output = p.typeOnly()
	if p.tok.kind != tLt {
		p.fail(BadTranslator, "a translator's input stands between < and >", form)
	}
	p.next()
	base, _ := p.specs(false)
	x.Name, x.Input = p.declarator(base, nameMust)
	if p.tok.kind != tGt {
		p.fail(BadTranslator, "there is no > behind the translator's input", form)
	}
	p.next()
	if p.tok.kind != tLBrace {
		p.fail(BadTranslator, "a translator's members stand in braces", form)
	}
	p.next()
	for !p.failed && p.tok.kind != tRBrace {
		m := &TranslatorMember{Span: Span{From: p.tok.from}, Name: p.member()}
		if p.tok.kind != tAssign {
			p.fail(BadTranslator, "a member of a translator is name = value;", form)
		}
		p.next()
		m.Value = p.assign()
		m.Span = p.span(m.From)
		if p.tok.kind != tSemi {
			p.fail(BadTranslator, "a semicolon should stand behind this member, not "+p.what(), form)
		}
		p.next()
		x.Members = append(x.Members, m)
	}
	p.next()
	p.semi("a translator ends with ;")
	x.Span = p.span(from)
	return x
}

// typeOnly reads a type without a name.
func (p *parser) typeOnly() Type {
	base, _ := p.specs(false)
	_, t := p.declarator(base, nameNone)
	return t
}

// words of basic types that specs has seen.
type basicWords struct {
	void, boolean, char, short, long, integer, float, double, signed, unsigned, str int
}

// specs reads the words before a declarator: storage where it may stand, qualifiers and the base type.
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
			p.fail(StoragePlace, word+" says nothing of a variable in D", "leave it out").Tag = "D_DECL_BADCLASS"
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
		case "userland": // of DTrace: the type of a process; all are the kernel's or D's own here
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
			if store != StoreNone && store != StoreTypedef && strings.IndexByte(",;[=", p.at(p.space(p.off))) >= 0 && p.at(p.space(p.off)) != 0 {
				return &Basic{Span{at.from, at.from}, qual, KindInt}, store // self x;
			}
			id := ident(Span{at.from, at.to}, word)
			t = &Named{Span: id.Span, Module: id.Module, Name: id.Name}
			first, last = at.from, at.to
		}
		if s != StoreNone {
			switch {
			case !storage:
				p.fail(StoragePlace, word+" can't stand here", "")
			case store != StoreNone:
				p.fail(TwoStorages, "only one storage can be given, and this is a second", "")
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
			p.fail(ExpectedType, "a type should stand here, not "+p.what(), "")
		} else {
			p.fail(ExpectedType, "a type should stand before "+p.what(), "")
		}
		return &Basic{}, store
	}
	kind, ok := w.kind()
	if !ok {
		p.badWords(from, nil, w)
	}
	return &Basic{Span{first, last}, qual, kind}, store
}

// badWords fails at words that make no type, of which some are a struct or an enum.
func (p *parser) badWords(from int32, t Type, w basicWords) {
	to := max(p.last, int(from))
	if p.is("struct") || p.is("union") || p.is("enum") {
		to = int(p.tok.to)
		if t != nil && p.text[p.last-1] == '}' {
			p.failAt(UnendedDeclaration, p.last, p.last, "a semicolon should stand here", "declarations end with ;").Tag = "D_DECL_COMBO"
			return
		}
	}
	d := p.failAt(BadTypeWords, int(from), to, "these words make no type together", "unsigned long long is the longest there is")
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

// kind gives the type that the words make together.
func (w basicWords) kind() (BasicKind, bool) {
	pick := func(unsigned, signed BasicKind) (BasicKind, bool) {
		if w.unsigned > 0 {
			return unsigned, true
		}
		return signed, true
	}
	if w.signed+w.unsigned > 1 || w.integer > 1 || w.short > 1 || w.long > 2 || w.short > 0 && w.long > 0 {
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
		p.fail(ExpectedTag, "the tag of the "+what+" should stand here, not "+p.what(), what+" tag, or "+what+" { ... }")
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
		p.failAt(EmptyStruct, int(open.from), int(p.tok.to), "there is nothing in this "+what, "a type of the kernel's is known without it; a pointer needs only struct tag;")
	}
	for !p.failed && p.tok.kind != tRBrace {
		if p.tok.kind == tEOF {
			p.failAt(UnclosedBrace, int(open.from), int(open.to), "there is no } that ends this {", "")
			break
		}
		s.Fields = append(s.Fields, p.fields()...)
	}
	p.next()
	s.Span = p.span(s.From)
	return s
}

// fields reads one line of a struct.
func (p *parser) fields() []*Field {
	base, _ := p.specs(false)
	var out []*Field
	for !p.failed && p.tok.kind != tSemi {
		f := &Field{Span: Span{From: p.tok.from}, Base: base, Type: base}
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
			out = append(out, &Field{Span: s.Span, Base: base, Type: base})
		} else {
			p.fail(ExpectedName, "this member has no name", "")
		}
	}
	if p.tok.kind != tSemi {
		if p.tok.kind != tEOF && strings.IndexByte(p.text[p.last:p.tok.from], '\n') < 0 {
			p.fail(UnendedDeclaration, "a semicolon should stand before "+p.what(), "members end with ;")
			p.fault = int(p.tok.to)
		} else if !p.failed {
			p.report(UnendedDeclaration, p.last, p.last, "a semicolon should stand here", "members end with ;")
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
		p.failAt(EmptyStruct, int(open.from), int(p.tok.to), "there is nothing in this enum", "")
	}
	for !p.failed && p.tok.kind != tRBrace {
		v := &EnumValue{Span: Span{From: p.tok.from}, Name: Name{Span: Span{p.tok.from, p.tok.to}}}
		if p.tok.kind != tWord || wordKind(p.str()) != wName || strings.IndexByte(p.str(), '`') >= 0 {
			if p.tok.kind == tEOF {
				p.failAt(UnclosedBrace, int(open.from), int(open.to), "there is no } that ends this {", "")
			} else {
				p.fail(ExpectedName, "the name of a value should stand here, not "+p.what(), "enum tag { name, name = 3 }")
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
				p.failAt(UnclosedBrace, int(open.from), int(open.to), "there is no } that ends this {", "")
			} else {
				p.unexpected()
			}
		}
	}
	p.next()
	e.Span = p.span(e.From)
	return e
}

// naming says whether a declarator has a name.
type naming uint8

const (
	nameNone naming = iota
	nameMay
	nameMust
)

// declarator reads what stands around a name, and the name if it must or may be there, and gives the type that both make
// of base. The marks are read from the name outward, which is the order from the whole type to its base.
func (p *parser) declarator(base Type, named naming) (Name, Type) {
	name, marks := p.marks(named)
	t := base
	for i := len(marks) - 1; i >= 0; i-- {
		switch m := marks[i].(type) {
		case *Pointer:
			m.Elem = t
		case *Array:
			m.Elem = t
		case *Assoc:
			m.Elem = t
		case *Func:
			m.Result = t
		}
		t = marks[i]
	}
	if named == nameMust && name.Text == "" && !p.failed {
		d := p.fail(ExpectedName, "a name should stand here, not "+p.what(), "")
		if p.at(p.fault) == '`' {
			d.Tag = "D_DECL_SCOPE"
		}
	}
	return name, t
}

// marks reads a declarator: its name and its pointers, arrays and parameters from the name outward.
func (p *parser) marks(named naming) (Name, []Type) {
	var name Name
	if !p.enter() {
		return name, nil
	}
	defer p.leave()
	var stars, inner []Type
	for p.tok.kind == tStar && !p.failed {
		ptr := &Pointer{Span: Span{From: p.tok.from}}
		p.next()
		for p.tok.kind == tWord && isQualifier(p.str()) {
			switch p.str() {
			case "const":
				ptr.Qual |= Const
			case "volatile":
				ptr.Qual |= Volatile
			default:
				ptr.Qual |= Restrict
			}
			p.next()
		}
		ptr.Span = p.span(ptr.From)
		stars = append(stars, ptr)
		if len(stars) > maxDepth {
			p.fail(TooDeep, "this type has too many stars", "")
		}
	}
	switch {
	case named != nameNone && p.tok.kind == tWord && wordKind(p.str()) == wName && strings.IndexByte(p.str(), '`') < 0:
		name = Name{Span{p.tok.from, p.tok.to}, p.str()}
		p.next()
	case p.tok.kind == tWord && named == nameMust && wordKind(p.str()) != wName:
		p.fail(ReservedWord, p.what()+" is a word of D, and no name", "")
	case p.tok.kind == tLParen && p.nestedMarks(named):
		open := p.tok
		p.nest++
		p.next()
		name, inner = p.marks(named)
		p.close(tRParen, open)
	}
	for !p.failed {
		if len(inner) > maxDepth {
			p.fail(TooDeep, "this type has too many parts", "")
		}
		switch p.tok.kind {
		case tLBrack:
			inner = append(inner, p.brackets())
			continue
		case tLParen:
			inner = append(inner, p.function())
			continue
		}
		break
	}
	for i := len(stars) - 1; i >= 0; i-- {
		inner = append(inner, stars[i])
	}
	return name, inner
}

// nestedMarks says whether a parenthesis in a declarator holds a declarator rather than parameters.
func (p *parser) nestedMarks(named naming) bool {
	c := p.at(p.space(p.off))
	if c == '*' || c == '(' || c == '[' {
		return true
	}
	if named == nameNone {
		return false
	}
	save, off, last, quiet := p.tok, p.off, p.last, p.quiet
	p.quiet = true
	p.scan()
	name := p.tok.kind == tWord && wordKind(p.str()) == wName && !p.typeName(p.str())
	p.tok, p.off, p.last, p.quiet = save, off, last, quiet
	return name
}

// brackets reads an array's length or an associative array's keys.
func (p *parser) brackets() Type {
	open := p.tok
	p.nest++
	p.next()
	if p.tok.kind == tRBrack {
		p.nest--
		p.next()
		return &Array{Span: p.span(open.from)}
	}
	if p.typeAhead() || p.tok.kind == tEllipsis {
		a := &Assoc{}
		more := false
		if a.Keys, more = p.params(); more {
			p.failAt(EmptyKeys, p.last-3, p.last, "an associative array has a fixed list of keys", "int name[string, int];").Tag = "D_DECL_PROTO_VARARGS"
		}
		p.close(tRBrack, open)
		a.Span = p.span(open.from)
		return a
	}
	a := &Array{Len: p.assign()}
	p.close(tRBrack, open)
	a.Span = p.span(open.from)
	return a
}

// function reads a function's parameters.
func (p *parser) function() Type {
	f := &Func{}
	open := p.tok
	p.nest++
	p.next()
	if p.tok.kind != tRParen {
		f.Params, f.More = p.params()
		if len(f.Params) == 1 && f.Params[0].Name.Text == "" {
			if b, ok := f.Params[0].Type.(*Basic); ok && b.Kind == KindVoid {
				f.Params = nil
			}
		}
	}
	p.close(tRParen, open)
	f.Span = p.span(open.from)
	return f
}

func (p *parser) params() (list []*Param, more bool) {
	for !p.failed {
		if p.tok.kind == tEllipsis {
			p.next()
			return list, true
		}
		x := &Param{Span: Span{From: p.tok.from}}
		base, _ := p.specs(false)
		x.Name, x.Type = p.declarator(base, nameMay)
		x.Span = p.span(x.From)
		list = append(list, x)
		if !p.got(tComma) {
			break
		}
	}
	return list, false
}
