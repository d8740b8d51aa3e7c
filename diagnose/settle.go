package diagnose

import (
	"sort"
	"strings"
)

// cover says which other findings are symptoms of the one that has it.
type cover struct {
	rule string
	when func(*Finding) bool // nil: always
}

// covering adds to f what it explains.
func (f *Finding) covering(rule string, when func(*Finding) bool) {
	f.covers = append(f.covers, cover{rule, when})
}

// weight of a severity in the ranking: one trouble that holds the machine back outweighs two that merely degrade it, and
// no number of remarks outweighs a trouble. 0 for what is no severity.
func (s Severity) weight() float64 {
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

// score ranks a finding: severity x confidence x (half + half its effect), the share of time that it
// takes from tasks. An unknown effect counts as a quarter. Even a small one keeps half of the weight.
func (f *Finding) score() float64 {
	effect := 0.25
	if f.Effect.Known() {
		effect = float64(f.Effect)
	}
	return f.Severity.weight() * float64(f.Confidence) * (0.5 + 0.5*effect)
}

// settle puts symptoms below their causes, exonerates the innocent, ranks, and fills the report.
func settle(rep *Report, looks []*Look, tables map[string]*Table) {
	var all []*Finding
	resource := map[string]string{} // of a rule
	guilty := map[string]bool{}     // resources with a trouble, or with a rule that could not look
	because := map[string][]string{}
	seen := map[string]bool{}
	for _, l := range looks {
		resource[l.rule.ID] = l.rule.Resource
		rep.Missing = append(rep.Missing, l.missing...)
		if l.unchecked {
			guilty[l.rule.Resource] = true
		} else {
			rep.Checked = append(rep.Checked, l.rule.Checks)
		}
		// Each rule of a resource must say that it is fine: silence is no innocence.
		if len(l.fine) == 0 && len(l.findings) == 0 {
			guilty[l.rule.Resource] = true
		}
		for _, f := range l.findings {
			if len(f.Evidence) == 0 || seen[f.ID] {
				continue // an accusation without proof is none; of two with one identity the first, stronger one stays
			}
			seen[f.ID] = true
			all = append(all, f)
			if f.Severity != Low {
				guilty[l.rule.Resource] = true
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
	open, inDoubt := doubtful(doubts, doubtsOf(tables), all, resource)
	for _, d := range open {
		if fine := because[d.Resource]; len(fine) > 0 {
			d.Because += "; otherwise " + strings.Join(fine, ", ")
		}
		rep.Doubtful = append(rep.Doubtful, d)
	}
	all = merge(all)
	var innocent []string
	for _, l := range looks {
		r := l.rule.Resource
		if r == "" || guilty[r] || inDoubt[r] || len(because[r]) == 0 {
			continue
		}
		guilty[r] = true // said once
		innocent = append(innocent, r)
		rep.Fine = append(rep.Fine, Exoneration{r, strings.Join(because[r], ", ")})
	}
	for _, f := range all {
		f.Exonerated = []string{}
		for _, r := range innocent {
			if r != resource[f.Rule] {
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

// merge takes the findings that others cover out of the list and writes them down with their cause. What a covered one
// covers goes to the same cause. In a circle the better ranked one is the cause.
func merge(all []*Finding) []*Finding {
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
