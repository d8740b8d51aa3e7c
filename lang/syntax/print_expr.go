package syntax

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// binds returns the precedence of an expression's operator.
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

// expr prints an expression, in parentheses when its operator binds looser than bind.
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
		// Between a name in parentheses and one of + - * & a cast looks like an operation;
		// parentheses disambiguate it.
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

// under prints the operand of a prefix operator, and separates the two if they would form another
// token.
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

// operand prints the operand of [, . or ->.
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

// quote returns bytes as a literal between two quotes of the kind given.
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
