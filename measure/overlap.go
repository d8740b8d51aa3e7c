package measure

import (
	"slices"
	"strings"
)

// Overcounts returns a caveat when rows of an answer to q count some things more than once, because
// q sums over a field whose values overlap; "" when they don't. A field in q.By, or one of which q
// selects a single value, is not summed over.
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
	return string(q.Stat) + " overlaps by " + strings.Join(over, " and ") +
		": this sum counts some of it more than once. Ask by " +
		strings.Join(over, ",") + ", or for one"
}
