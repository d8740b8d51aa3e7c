package plan_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// securityPage is the page of which each list item is checked by tests.
const securityPage = "docs/SECURITY.md"

// unchecked are the sections of securityPage of which the items claim nothing.
//
// table: headings
var unchecked = map[string]bool{"What is not defended": true}

// proof matches the comment of an item: <!-- attack: S1, S2; test: store TestKills -->.
//
// table: a regular expression is no constant
var proof = regexp.MustCompile(`<!-- ([^>]*) -->`)

// checkSecurity wants each list item of docs/SECURITY.md to name attacks of cases/attack or tests,
// and all of them to exist.
func checkSecurity(t *tree) []string {
	var out []string
	attacks, tests := t.attacks(), t.tests()
	for _, item := range t.claims() {
		m := proof.FindStringSubmatch(item)
		if m == nil {
			out = append(out, fmt.Sprintf("%s: no test is named for %.80q", securityPage, item))
			continue
		}
		for part := range strings.SplitSeq(m[1], ";") {
			kind, names, _ := strings.Cut(strings.TrimSpace(part), ": ")
			known := map[string]map[string]bool{"attack": attacks, "test": tests}[kind]
			for name := range strings.SplitSeq(names, ", ") {
				if !known[name] {
					out = append(out, fmt.Sprintf("%s: there is no %s %q", securityPage, kind, name))
				}
			}
		}
	}
	return out
}

// claims returns the list items of securityPage, each as one line.
func (t *tree) claims() []string {
	var all []string
	skip, inItem := false, false
	for line := range strings.Lines(string(t.texts[securityPage])) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "#"):
			skip, inItem = unchecked[strings.TrimLeft(line, "# ")], false
		case strings.HasPrefix(line, "* ") && !skip:
			all, inItem = append(all, line[2:]), true
		case strings.HasPrefix(line, "  ") && inItem:
			all[len(all)-1] += " " + strings.TrimSpace(line)
		default:
			inItem = false
		}
	}
	return all
}

// attacks returns the names of the attacks: the first strings of composite literals in cases/attack
// that begin with a name, a role and a description.
func (t *tree) attacks() map[string]bool {
	all := map[string]bool{}
	for _, s := range t.sources {
		if s.dir != "cases/attack" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || len(lit.Elts) != 5 {
				return true
			}
			name, ok := lit.Elts[0].(*ast.BasicLit)
			if text := ""; ok && name.Kind == token.STRING {
				text, _ = strconv.Unquote(name.Value) // the parser has read it
				all[text] = true
			}
			return true
		})
	}
	return all
}

// tests returns the tests of the tree as "view/web TestStrangers".
func (t *tree) tests() map[string]bool {
	all := map[string]bool{}
	for _, s := range t.sources {
		if !s.test {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				all[s.dir+" "+f.Name.Name] = true
			}
		}
	}
	return all
}
