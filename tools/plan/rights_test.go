package plan_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// namesRights are the files whose strings may name a capability without a call of kernel.Refused,
// and the reason.
var namesRights = map[string]string{
	"kernel/capabilities.go": "the names of capabilities",
	"kernel/bpf/memlock.go":  "printed only where the limit could not be raised, which needs the capability",
	"trace/shrink.go":        "printed only where the limit could not be raised, which needs the capability",
	"measure/unread.go":      "says that it is held",
}

// asksForRights are the functions that name a capability only to who lacks it.
var asksForRights = []string{"Refused", "RefusedNote", "UnreadNote"}

// checkRights wants that no message asks for a right that is held: a string of a package below the
// views that names a capability is an argument of a function that looks whether it is held. Help
// texts of views and commands are for everybody.
func checkRights(t *tree) []string {
	var out []string
	for _, s := range t.sources {
		if s.test || namesRights[s.path] != "" || strings.HasPrefix(s.dir, "view") ||
			strings.HasPrefix(s.dir, "cmd") ||
			strings.HasPrefix(s.dir, "cases") {
			continue
		}
		var asks []ast.Node // arguments within which a capability may be named
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok &&
				slices.Contains(asksForRights, calledName(call)) {
				asks = append(asks, call)
			}
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil || !strings.Contains(text, "CAP_") {
				return true
			}
			if !slices.ContainsFunc(
				asks, func(a ast.Node) bool { return a.Pos() <= lit.Pos() && lit.End() <= a.End() },
			) {
				out = append(
					out,
					fmt.Sprintf(
						"%s: %q names a capability; kernel.Refused and kernel.RefusedNote ask "+
							"for it only where it is missing",
						t.fset.Position(lit.Pos()),
						text,
					),
				)
			}
			return true
		})
	}
	return out
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
