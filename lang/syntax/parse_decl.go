package syntax

import (
	"strings"
)

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
		p.fail(
			ProviderDefinition, "a provider definition can't be traced",
			"it belongs into the program that has the probes; to trace them: provider$target:::",
		)
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

// skipDeclaration continues after a failure in the declaration that began at from: behind its
// braces when the failure was within them.
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

// unended reports whether the last diagnostic is a missing semicolon, behind which another item
// begins.
func (p *parser) unended() bool {
	return len(p.diags) > 0 && p.diags[len(p.diags)-1].Code == UnendedDeclaration && p.fault > 0
}

// semi requires the semicolon of a declaration, and does not read behind it.
func (p *parser) semi(what string) {
	if p.tok.kind == tSemi || p.failed {
		if !p.failed {
			p.last = int(p.tok.to)
		}
		return
	}
	if p.tok.kind != tEOF && strings.IndexByte(p.text[p.last:p.tok.from], '\n') < 0 {
		p.fail(UnendedDeclaration, "expected a semicolon before "+p.what(), what)
		p.fault = int(p.tok.to) // prevents it from being parsed as an item
		return
	}
	p.failAt(UnendedDeclaration, p.last, p.last, "expected a semicolon", what)
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
			p.fail(
				Initializer, "a declaration can't set a value",
				"variables begin as 0; assign in BEGIN, or write inline int name = value;",
			)
		}
		if !p.got(tComma) {
			break
		}
		if p.tok.kind == tSemi {
			p.fail(ExpectedName, "expected a name after the comma", "")
		}
	}
	if len(d.Vars) == 0 && !p.failed {
		switch d.Base.(type) {
		case *Struct, *Enum:
		default:
			d := p.fail(ExpectedName, "missing name in a declaration", "int name;")
			d.Tag = "D_DECL_USELESS"
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
		p.failAt(
			InlineValue, int(x.Var.From), int(x.Var.To), "missing value of an inline",
			"inline int name = value;",
		)
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
		p.fail(BadTranslator, "expected < before the translator's input", form)
	}
	p.next()
	base, _ := p.specs(false)
	x.Name, x.Input = p.declarator(base, nameMust)
	if p.tok.kind != tGt {
		p.fail(BadTranslator, "expected > after the translator's input", form)
	}
	p.next()
	if p.tok.kind != tLBrace {
		p.fail(BadTranslator, "expected { before the translator's members", form)
	}
	p.next()
	for !p.failed && p.tok.kind != tRBrace {
		m := &TranslatorMember{Span: Span{From: p.tok.from}, Name: p.member()}
		if p.tok.kind != tAssign {
			p.fail(BadTranslator, "expected = after the name of a translator's member", form)
		}
		p.next()
		m.Value = p.assign()
		m.Span = p.span(m.From)
		if p.tok.kind != tSemi {
			p.fail(BadTranslator, "expected a semicolon after this member, found "+p.what(), form)
		}
		p.next()
		x.Members = append(x.Members, m)
	}
	p.next()
	p.semi("a translator ends with ;")
	x.Span = p.span(from)
	return x
}
