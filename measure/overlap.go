package measure

import (
	"slices"
	"strings"
)

// Overcounts says in a sentence that the rows of an answer to the query count some things more than once, since it adds up over a field whose values overlap; ""
// where it does not. A field that the query is by, or asks for one value of, is not added up over.
func (st *Stat) Overcounts(q Query) string {
	if st.Kind == Dists || st.Kind == Level && st.Fold != Sum {
		return ""
	}
	told := func(field string) bool {
		return slices.Contains(q.By, field) || slices.ContainsFunc(q.Where, func(t Term) bool { return t.Field == field && (t.Op == Equal || t.Op == In && len(t.Values) == 1) })
	}
	var over []string
	for _, f := range st.Fields {
		switch {
		case !f.Overlaps:
		case told(f.Name):
			if f.Name == "parent" || f.Name == "handle" { // things in a tree: who is told apart by it, or by its parent, is told apart by all else
				return ""
			}
		default:
			over = append(over, f.Name)
		}
	}
	if over == nil {
		return ""
	}
	return string(q.Stat) + " overlaps by " + strings.Join(over, " and ") + ": this sum counts some of it more than once. Ask by " + strings.Join(over, ",") + ", or for one"
}
