package syntax

import (
	"strings"
)

// naming is whether a declarator has a name.
type naming uint8

const (
	nameNone naming = iota
	nameMay
	nameMust
)

// declarator reads a name, if it must or may be there, and the marks around it: stars, brackets and
// parameters. It returns the name, and the type that the marks make of base. The marks are read
// from the name outward, which is the order from the whole type to its base.
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
		d := p.fail(ExpectedName, "expected a name, found "+p.what(), "")
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
			p.fail(TooDeep, "too many stars in a type", "")
		}
	}
	switch {
	case named != nameNone && p.tok.kind == tWord && wordKind(p.str()) == wName &&
		strings.IndexByte(p.str(), '`') < 0:
		name = Name{Span{p.tok.from, p.tok.to}, p.str()}
		p.next()
	case p.tok.kind == tWord && named == nameMust && wordKind(p.str()) != wName:
		p.fail(ReservedWord, p.what()+" is a keyword of D and can't be a name", "")
	case p.tok.kind == tLParen && p.nestedMarks(named):
		open := p.tok
		p.nest++
		p.next()
		name, inner = p.marks(named)
		p.close(tRParen, open)
	}
	for !p.failed {
		if len(inner) > maxDepth {
			p.fail(TooDeep, "too many parts in a type", "")
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

// nestedMarks reports whether a parenthesis in a declarator contains a declarator rather than
// parameters.
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
			d := p.failAt(EmptyKeys, p.last-3, p.last,
				"an associative array needs a fixed list of keys", "int name[string, int];")
			d.Tag = "D_DECL_PROTO_VARARGS"
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
