package bpftrace

import "culprit/lang/syntax"

// block parses statements in braces.
func (p *parser) block() []Stmt {
	open := p.tok
	if !p.want("{", "before statements") {
		return nil
	}
	var list []Stmt
	for !p.is("}") {
		if p.tok.kind == tEOF {
			if len(p.wrong) == 0 { // else the mistake before it may have hidden the }
				p.report(BadSyntax, open.from, open.to, "missing } of this block", "")
			}
			return list
		}
		if p.got(";") {
			continue
		}
		p.failed = false
		at := p.tok.from
		s := p.statement()
		if p.failed {
			p.skipStatement()
			if p.tok.from == at && !p.is("}") {
				p.next()
			}
			continue
		}
		if s != nil {
			list = append(list, s)
		}
		if len(p.wrong) >= mostDiagnostics {
			break
		}
	}
	p.got("}")
	return list
}

// skipStatement skips to behind the next ; of the block, or to its }.
func (p *parser) skipStatement() {
	for depth := 0; p.tok.kind != tEOF; p.next() {
		switch {
		case p.is("{"):
			depth++
		case p.is("}") && depth == 0:
			return
		case p.is("}"):
			if depth--; depth == 0 {
				p.next()
				return
			}
		case p.is(";") && depth == 0:
			p.next()
			return
		}
	}
}

func (p *parser) statement() Stmt {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	from := p.tok.from
	if p.tok.kind == tWord {
		switch p.tok.text {
		case "if":
			return p.ifElse()
		case "unroll", "while":
			return p.repeat()
		case "for":
			return p.forEach()
		case "return", "break", "continue":
			word := p.tok.text
			p.next()
			if word == "return" && !p.is(";") && !p.is("}") {
				p.fail("a probe returns no value", "write return;")
			}
			p.endStatement()
			return &Jump{Span: p.span(from), Word: word}
		case "let":
			return p.let()
		}
	}
	x := p.expr()
	if !p.failed {
		p.endStatement()
	}
	return &Do{Span: p.span(from), X: x}
}

// endStatement skips the ; behind a statement, which the last one of a block may omit.
func (p *parser) endStatement() {
	p.open = !p.got(";")
	if p.open && !p.is("}") {
		p.fail("expected ; after the statement, not "+p.found(), p.instead())
	}
}

// instead returns what to write in place of the current token, which can't follow an expression.
func (p *parser) instead() string {
	switch {
	case p.isWord("and"):
		return "write && for and"
	case p.isWord("or"):
		return "write || for or"
	case p.is(":") && p.byteAt(p.tok.to) == '=':
		return "= assigns: $x = 1"
	}
	return ""
}

func (p *parser) ifElse() Stmt {
	s := &If{}
	from := p.tok.from
	p.next()
	s.Cond = p.expr() // parentheses around it are part of the expression, and may be omitted
	if p.failed {
		return nil
	}
	s.Then = p.block()
	if p.isWord("else") {
		p.next()
		if p.isWord("if") {
			if p.enter() {
				s.Else = []Stmt{p.ifElse()}
			}
			p.leave()
		} else {
			s.Else = p.block()
		}
	}
	s.Span = p.span(from)
	return s
}

// repeat parses unroll (N) and while (COND).
func (p *parser) repeat() Stmt {
	s := &Repeat{While: p.tok.text == "while"}
	from := p.tok.from
	p.next()
	s.X = p.expr()
	if p.failed {
		return nil
	}
	s.Body = p.block()
	s.Span = p.span(from)
	return s
}

// forEach parses for ($x : @map) and for ($i : 0..10), also without the parentheses.
func (p *parser) forEach() Stmt {
	s := &For{}
	from := p.tok.from
	p.next()
	closed := p.got("(")
	if p.tok.kind != tVar {
		p.fail("expected a variable, not "+p.found(),
			"write for ($kv : @map) { ... } or for ($i : 0..10) { ... }")
		return nil
	}
	s.Name = p.tok.text
	p.next()
	if !p.is(":") {
		p.fail("expected : after the variable, not "+p.found(),
			"write for ($i : 0..10) { ... }, or while ($i < 10) { ...; $i++; }")
		p.skipBlock()
		return nil
	}
	p.next()
	s.X = p.expr()
	if p.got("..") {
		s.End = p.expr()
	}
	if p.failed || closed && !p.want(")", "after the range") {
		return nil
	}
	s.Body = p.block()
	s.Span = p.span(from)
	return s
}

// let parses let $x; and let $x = ...;.
func (p *parser) let() Stmt {
	from := p.tok.from
	p.next()
	if p.tok.kind != tVar {
		p.fail("expected a variable after let, not "+p.found(), "write let $x = 1;")
		return nil
	}
	switch next := p.peek(); {
	case next.kind == tSign && next.text == ";":
		p.next()
		p.endStatement()
		return nil
	case next.kind == tSign && next.text == ":":
		p.fail("a variable with a type is not supported",
			"leave out the type, and convert the value: let $x = (uint8)3;")
		return nil
	}
	x := p.expr()
	if !p.failed {
		p.endStatement()
	}
	return &Do{Span: p.span(from), X: x}
}

// typeWords are the integer types of bpftrace.
//
// table: name to the type in D
var typeWords = map[string]string{
	"uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
	"int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
	"uint8_t": "uint8_t", "uint16_t": "uint16_t", "uint32_t": "uint32_t", "uint64_t": "uint64_t",
	"int8_t": "int8_t", "int16_t": "int16_t", "int32_t": "int32_t", "int64_t": "int64_t",
	"bool": "uint8_t", "size_t": "size_t", "uintptr_t": "uintptr_t",
}

// basicWords are the integer types of C.
//
// table: name to kind
var basicWords = map[string]syntax.BasicKind{
	"void": syntax.KindVoid, "char": syntax.KindChar, "short": syntax.KindShort,
	"int": syntax.KindInt, "long": syntax.KindLong,
}

// typeAhead reports whether a type follows the current (, and returns false for an expression.
func (p *parser) typeAhead() bool {
	saved, wrong, last := p.tok, len(p.wrong), p.last
	defer func() { p.tok, p.wrong, p.last = saved, p.wrong[:wrong], last }()
	p.next()
	if p.tok.kind != tWord {
		return false
	}
	if p.isWord("struct") || p.isWord("union") || p.isWord("enum") || p.isWord("unsigned") ||
		p.isWord("const") {
		return true
	}
	_, known := typeWords[p.tok.text]
	_, basic := basicWords[p.tok.text]
	p.next()
	for basic && p.tok.kind == tWord {
		p.next()
	}
	stars := 0
	for p.got("*") {
		stars++
	}
	return p.is(")") && (known || basic || stars > 0)
}

// typeName parses a type: struct name **, uint64 *, unsigned long.
func (p *parser) typeName() syntax.Type {
	from := p.tok.from
	var t syntax.Type
	if p.isWord("const") {
		p.next()
	}
	word := p.tok.text
	switch {
	case p.tok.kind != tWord:
		p.fail("expected a type, not "+p.found(), "write uint64, or struct NAME *")
		return nil
	case word == "struct" || word == "union" || word == "enum":
		p.next()
		name := syntax.Name{Text: p.tok.text}
		name.Span = syntax.Span{From: int32(p.tok.from), To: int32(p.tok.to)}
		if p.tok.kind != tWord {
			p.fail("expected the name of a "+word+", not "+p.found(), "")
			return nil
		}
		p.next()
		if word == "enum" {
			t = &syntax.Enum{Span: p.span(from), Tag: name}
		} else {
			t = &syntax.Struct{Span: p.span(from), Union: word == "union", Tag: name}
		}
	case typeWords[word] != "":
		p.next()
		t = &syntax.Named{Span: p.span(from), Name: typeWords[word]}
	default:
		t = p.basicType(from)
	}
	for p.got("*") {
		t = &syntax.Pointer{Span: p.span(from), Elem: t}
	}
	if p.is("[") {
		p.fail("casts to arrays are not supported", "cast to a pointer: (uint32 *)x")
	}
	return t
}

// basicType parses int, unsigned long, char; or the name of a typedef.
func (p *parser) basicType(from int) syntax.Type {
	unsigned, words, long := false, 0, 0
	k := syntax.KindInt
	for ; p.tok.kind == tWord; p.next() {
		kind, ok := basicWords[p.tok.text]
		switch {
		case p.tok.text == "unsigned":
			unsigned = true
		case p.tok.text == "signed":
		case !ok:
			if words == 0 {
				name := p.tok.text
				p.next()
				return &syntax.Named{Span: p.span(from), Name: name}
			}
			p.fail("expected ), not "+p.found(), "")
			return nil
		case kind == syntax.KindLong:
			long++
			k = kind
		case kind != syntax.KindInt || k == syntax.KindInt:
			k = kind
		}
		words++
	}
	if unsigned {
		switch k {
		case syntax.KindChar:
			k = syntax.KindUChar
		case syntax.KindShort:
			k = syntax.KindUShort
		case syntax.KindLong:
			k = syntax.KindULong
		default:
			k = syntax.KindUInt
		}
	}
	return &syntax.Basic{Span: p.span(from), Kind: k}
}
