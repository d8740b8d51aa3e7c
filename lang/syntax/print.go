package syntax

import (
	"strconv"
	"strings"
)

// Print returns a node as text that parses to the same node. The layout does not depend on the text
// it came from: parentheses only where needed, one statement per line, no comments. Nodes made by
// hand print like parsed ones. A tree that no text can produce prints as it is.
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
	case *StructMember:
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
		// without the space it would begin a comment
		if strings.HasPrefix(text, "*") || strings.HasPrefix(text, "/") {
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
	// The written parts are the last of four, or of fewer with another Mode.Last, whose later parts
	// are empty.
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
