package plan_test

import "go/ast"

// fuzzLimits is the package that all tests may import: fuzz targets use it.
const fuzzLimits = "heapbound"

// checkFuzz wants each fuzz target to have a bound on the heap: it calls heapbound.Fuzz or
// heapbound.FuzzWithin where it would call f.Fuzz.
func checkFuzz(t *tree) []string {
	var out []string
	for _, s := range t.sources {
		if s.dir == fuzzLimits {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			f, ok := n.(*ast.SelectorExpr)
			if !ok || f.Sel.Name != "Fuzz" {
				return true
			}
			if of, named := f.X.(*ast.Ident); !named || of.Name != fuzzLimits {
				const text = "a fuzz target without a bound on the heap: call %s.Fuzz(f, func...)"
				out = append(out, t.at(f.Pos(), text, fuzzLimits))
			}
			return true
		})
	}
	return out
}
