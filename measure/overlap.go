package measure

import (
	"slices"
	"strings"
)

// Overcounts says in a sentence that the rows of an answer to the query count some things more than once, since it adds up over a field whose values overlap; ""
// where it does not. A field that the query is by, or asks for one value of, is not added up over.
func (st *Stat) Overcounts(q Query) string {
	if !st.Allowed().Sum {
		return ""
	}
	var over []string
	for _, f := range st.Fields {
		switch {
		case !f.Overlaps:
		case !slices.Contains(q.By, f.Name) && !q.pins(f.Name):
			over = append(over, f.Name)
		case f.tree():
			return ""
		}
	}
	if over == nil {
		return ""
	}
	return string(q.Stat) + " overlaps by " + strings.Join(over, " and ") + ": this sum counts some of it more than once. Ask by " + strings.Join(over, ",") + ", or for one"
}
