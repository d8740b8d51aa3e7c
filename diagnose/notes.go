package diagnose

import (
	"slices"

	"culprit/diagnose/phrase"
)

// repeatsMissing returns whether a note only repeats why rules could not check: it is of statistics
// without rows, and no other rule asks for them.
func repeatsMissing(looks []*Look, tables map[string]*Table) func(note string) bool {
	asked := map[string]bool{} // by rules that could check
	for _, l := range looks {
		if l.unchecked {
			continue
		}
		r := l.rule
		for _, list := range [][]string{r.Needs, r.Finds, r.Uses, r.Traced, r.Sampled} {
			for _, q := range list {
				asked[q] = true
			}
		}
	}
	var kept, repeated []string
	for q, t := range tables {
		for _, n := range t.notes {
			if n = phrase.Printable(n); asked[q] || t.rows > 0 {
				kept = append(kept, n)
			} else {
				repeated = append(repeated, n)
			}
		}
	}
	return func(note string) bool {
		return slices.Contains(repeated, note) && !slices.Contains(kept, note)
	}
}
