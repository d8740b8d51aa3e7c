package diagnose

import (
	"cmp"
	"sort"
	"strings"
)

// cover selects findings that are symptoms of another one.
type cover struct {
	rule string
	when func(*Finding) bool // nil: always
}

// Cover marks the findings of a rule as symptoms of f, if when returns true for them; nil: always.
func (f *Finding) Cover(rule string, when func(*Finding) bool) {
	f.covers = append(f.covers, cover{rule, when})
}

// Weight returns the weight of a severity in the ranking. One high outweighs two mediums, and any
// number of lows. 0 for an unknown severity.
func (s Severity) Weight() float64 {
	switch s {
	case High:
		return 1
	case Medium:
		return 0.4
	case Low:
		return 0.1
	}
	return 0
}

// score ranks a finding: severity x confidence x (half + half its effect). An unknown effect counts
// as a quarter.
func (f *Finding) score() float64 {
	effect := 0.25
	if f.Effect.Known() {
		effect = float64(f.Effect)
	}
	return f.Severity.Weight() * float64(f.Confidence) * (0.5 + 0.5*effect)
}

// settle puts symptoms below their causes, rules resources out, ranks the findings, and fills the
// report.
func settle(rep *Report, set RuleSet, looks []*Look, tables Tables) {
	var all []*Finding
	about := map[string]string{} // resource of a rule
	accused := map[string]bool{} // resources with a fault, or with a rule that could not check
	because := map[string][]string{}
	seen := map[string]bool{}
	for _, l := range looks {
		about[l.rule.ID] = cmp.Or(l.rule.Resource, l.rule.About)
		rep.Missing = append(rep.Missing, l.missing...)
		if l.unchecked {
			accused[l.rule.Resource] = true
		} else {
			rep.Checked = append(rep.Checked, l.rule.Checks)
		}
		// Each rule of a resource must call Fine: silence does not rule it out.
		if len(l.fine) == 0 && len(l.Findings) == 0 {
			accused[l.rule.Resource] = true
		}
		for _, f := range l.Findings {
			if len(f.Evidence) == 0 || seen[f.ID] {
				continue // no evidence; or a repeated identity: the first, stronger one stays
			}
			seen[f.ID] = true
			all = append(all, f)
			if f.Severity != Low {
				accused[about[l.rule.ID]] = true
			}
		}
		for _, e := range l.fine {
			because[e.Resource] = append(because[e.Resource], e.Because)
		}
	}
	rank(all)
	var doubts []Doubt
	for _, l := range looks {
		doubts = append(doubts, l.doubts...)
	}
	var held []Doubt
	if set.Doubts != nil {
		held = set.Doubts(tables)
	}
	open, inDoubt := doubtful(doubts, held, all, set)
	for _, d := range open {
		if fine := because[d.Resource]; len(fine) > 0 {
			d.Because += "; otherwise " + strings.Join(fine, ", ")
		}
		rep.Doubtful = append(rep.Doubtful, d)
	}
	all = merge(all, set.Covers)
	var ruledOut []string
	for _, l := range looks {
		r := l.rule.Resource
		if r == "" || accused[r] || inDoubt[r] || len(because[r]) == 0 {
			continue
		}
		accused[r] = true // only once
		ruledOut = append(ruledOut, r)
		rep.Fine = append(rep.Fine, Exoneration{r, strings.Join(because[r], ", ")})
	}
	for _, f := range all {
		f.Exonerated = []string{}
		for _, r := range ruledOut {
			if r != about[f.Rule] {
				f.Exonerated = append(f.Exonerated, r)
			}
		}
		if f.Against == nil {
			f.Against = []string{}
		}
		if f.Symptoms == nil {
			f.Symptoms = []Symptom{}
		}
		rep.Findings = append(rep.Findings, *f)
	}
}

func rank(all []*Finding) {
	sort.SliceStable(all, func(i, j int) bool {
		a, b := all[i].score(), all[j].score()
		if a != b {
			return a > b
		}
		return all[i].ID < all[j].ID
	})
}

// rankFindings ranks the findings of a report.
func rankFindings(all []Finding) {
	sort.SliceStable(all, func(i, j int) bool {
		a, b := all[i].score(), all[j].score()
		if a != b {
			return a > b
		}
		return all[i].ID < all[j].ID
	})
}

// merge moves covered findings from the list to the symptoms of their cause. What a covered one
// covers goes to the same cause. In a cycle the better ranked one is the cause. more reports
// further causes; nil: there are none.
func merge(all []*Finding, more func(cause, symptom *Finding) bool) []*Finding {
	if more != nil {
		addCovers(all, more)
	}
	gone := map[*Finding]bool{}
	for _, cause := range all {
		if gone[cause] {
			continue
		}
		for i := 0; i < len(cause.covers); i++ {
			c := cause.covers[i]
			for _, f := range all {
				if f == cause || gone[f] || f.Rule != c.rule || c.when != nil && !c.when(f) {
					continue
				}
				gone[f] = true
				cause.Symptoms = append(cause.Symptoms, Symptom{f.ID, f.Rule, f.Claim})
				cause.Symptoms = append(cause.Symptoms, f.Symptoms...)
				cause.covers = append(cause.covers, f.covers...)
			}
		}
	}
	var out []*Finding
	for _, f := range all {
		if !gone[f] {
			out = append(out, f)
		}
	}
	return out
}

// addCovers adds the symptoms of each finding that more reports.
func addCovers(all []*Finding, more func(cause, symptom *Finding) bool) {
	for _, cause := range all {
		for _, f := range all {
			if f != cause && more(cause, f) {
				cause.Cover(f.Rule, func(o *Finding) bool { return o == f })
			}
		}
	}
}

// doubtful returns the doubts that no finding explains, one per resource, with the text of its
// rules or else of the gate. names has all resources in doubt.
func doubtful(rules, gate []Doubt, findings []*Finding, set RuleSet) (all []Doubt,
	names map[string]bool) {
	names = map[string]bool{}
	for _, d := range gate {
		names[d.Resource] = true
	}
	for _, d := range rules {
		names[d.Resource] = true
	}
	for _, resource := range []string{"cpu", "memory", "disk", "network"} {
		if !names[resource] {
			continue
		}
		var texts []string
		for _, list := range [][]Doubt{rules, gate} {
			for _, d := range list {
				if d.Resource == resource {
					texts = append(texts, d.Because)
				}
			}
			if len(texts) > 0 {
				break
			}
		}
		known := false
		for _, f := range findings {
			known = known || set.explains(f, resource)
		}
		if !known {
			all = append(all, Doubt{resource, strings.Join(texts, ", ")})
		}
	}
	return all, names
}

// explains reports whether a finding is the cause of a doubt about a resource.
func (s RuleSet) explains(f *Finding, resource string) bool {
	if s.Explains == nil {
		return s.Resource(f.Rule) == resource
	}
	return s.Explains(f, resource)
}
