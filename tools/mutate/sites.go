package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// A mutant is one file with one change.
type mutant struct {
	path     string
	text     []byte // of the whole changed file
	line     int
	function string // that contains the change; "" at the top of the file
	from, to string // the changed source text
	nth      int    // which of the equal changes of the function this is, from 0
}

// key returns the name of a mutant in equivalent.txt. It has no line number, so that it stays valid
// while the file is edited elsewhere.
func (m mutant) key(importPath string) string {
	return fmt.Sprintf("%s/%s %s %q -> %q %d",
		importPath, filepath.Base(m.path), m.function, m.from, m.to, m.nth)
}

func (m mutant) describe(importPath string) string {
	return fmt.Sprintf("%s:%d: %s", m.path, m.line, m.key(importPath))
}

// swapped returns the operators that replace op.
func swapped(op token.Token) []token.Token {
	switch op {
	case token.LSS:
		return []token.Token{token.LEQ, token.GEQ}
	case token.LEQ:
		return []token.Token{token.LSS, token.GTR}
	case token.GTR:
		return []token.Token{token.GEQ, token.LEQ}
	case token.GEQ:
		return []token.Token{token.GTR, token.LSS}
	case token.EQL:
		return []token.Token{token.NEQ}
	case token.NEQ:
		return []token.Token{token.EQL}
	case token.ADD:
		return []token.Token{token.SUB}
	case token.SUB:
		return []token.Token{token.ADD}
	case token.MUL:
		return []token.Token{token.QUO}
	case token.QUO:
		return []token.Token{token.MUL}
	case token.LAND:
		return []token.Token{token.LOR}
	case token.LOR:
		return []token.Token{token.LAND}
	}
	return nil
}

// mutantsOf returns all changes of one file: swapped operators, negated conditions, numbers raised
// by one or by 12 %, exchanged true and false, and removed statements.
func mutantsOf(path string, text []byte) ([]mutant, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	c := &collector{path: path, text: text, fset: fset, seen: map[string]int{}}
	for _, d := range file.Decls {
		c.function = ""
		if f, ok := d.(*ast.FuncDecl); ok {
			c.function = f.Name.Name
		}
		ast.Inspect(d, c.node)
	}
	return c.mutants, nil
}

// A collector gathers the mutants of one file.
type collector struct {
	path     string
	text     []byte
	fset     *token.FileSet
	function string
	seen     map[string]int // how many mutants have a key
	mutants  []mutant
}

// node adds the mutants of one node.
func (c *collector) node(n ast.Node) bool {
	switch x := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.BinaryExpr:
		for _, op := range swapped(x.Op) {
			c.replace(x.OpPos, len(x.Op.String()), op.String())
		}
	case *ast.IfStmt:
		if _, binary := x.Cond.(*ast.BinaryExpr); !binary {
			end := int(x.Cond.End() - x.Cond.Pos())
			c.replace(x.Cond.Pos(), end, "!("+c.source(x.Cond)+")")
		}
	case *ast.BasicLit:
		c.number(x)
	case *ast.Ident:
		switch x.Name {
		case "true":
			c.replace(x.Pos(), 4, "false")
		case "false":
			c.replace(x.Pos(), 5, "true")
		}
	case *ast.ExprStmt:
		c.replace(x.Pos(), int(x.End()-x.Pos()), "")
	case *ast.IncDecStmt:
		c.replace(x.Pos(), int(x.End()-x.Pos()), "")
	case *ast.AssignStmt:
		if x.Tok != token.DEFINE {
			c.replace(x.Pos(), int(x.End()-x.Pos()), "")
		}
	}
	return true
}

// number adds the mutant of a number: one more for integers, 12 % more for others.
func (c *collector) number(x *ast.BasicLit) {
	switch x.Kind {
	case token.INT:
		if v, err := strconv.ParseUint(strings.ReplaceAll(x.Value, "_", ""), 0, 63); err == nil {
			c.replace(x.Pos(), len(x.Value), strconv.FormatUint(v+1, 10))
		}
	case token.FLOAT:
		if v, err := strconv.ParseFloat(strings.ReplaceAll(x.Value, "_", ""), 64); err == nil {
			c.replace(x.Pos(), len(x.Value), strconv.FormatFloat(v*1.12, 'g', -1, 64))
		}
	}
}

func (c *collector) source(n ast.Node) string {
	return string(c.text[c.fset.Position(n.Pos()).Offset:c.fset.Position(n.End()).Offset])
}

// replace adds the mutant in which length bytes at pos are to.
func (c *collector) replace(pos token.Pos, length int, to string) {
	at := c.fset.Position(pos)
	from := string(c.text[at.Offset : at.Offset+length])
	text := bytes.Join([][]byte{c.text[:at.Offset], []byte(to), c.text[at.Offset+length:]}, nil)
	m := mutant{path: c.path, text: text, line: at.Line, function: c.function, from: from, to: to}
	key := m.key("")
	m.nth = c.seen[key]
	c.seen[key]++
	c.mutants = append(c.mutants, m)
}
