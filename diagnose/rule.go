package diagnose

// Rule checks for one kind of fault. It keeps no state: the same answers give the same findings.
type Rule struct {
	ID       string // never changes: programs rely on it
	Checks   string // what it checks, for Report.Checked: "cpu", "interrupt work of single cpus"
	Resource string // cpu memory disk network: ruled out when all its rules call Fine; "" none
	// About is the resource that the findings of a rule without Resource are about; "" none. They
	// do not list it as ruled out, and above low severity it is not.
	About string

	// Needs are required queries whose answers have rows on every machine. An answer without rows
	// or numbers makes the rule "not checked".
	Needs []string
	// Finds are required queries whose answers may be empty: there are no such things.
	Finds []string
	// Uses are optional queries that add evidence.
	Uses []string
	// Traced are optional queries of statistics that BPF programs measure (measure.Stat.Traced).
	// They need rights, and a server records them on request. A missing answer is not reported: the
	// evidence is marked as an estimate. Those of a rule without Needs and Finds are required.
	Traced []string
	// Sampled are optional queries of CPU samples (measure.StackSamples). A missing answer is not
	// reported.
	Sampled []string

	Check func(*Look)
}

// RuleSet is the rules of a diagnosis, with the checks across them.
type RuleSet struct {
	Rules []Rule // in the order of Report.Checked

	// Doubts returns the numbers that keep a resource from being ruled out, whatever its rules
	// report. nil: none.
	Doubts func(Tables) []Doubt
	// Explains reports whether a finding is the cause of a doubt about a resource. nil: a finding
	// explains doubts about the resource of its rule.
	Explains func(f *Finding, resource string) bool
	// Covers reports whether a finding is the cause of another, beside Finding.Cover: for symptoms
	// that many rules have. nil: none.
	Covers func(cause, symptom *Finding) bool
	// Notes returns notes for the report. nil: none.
	Notes func(Tables) []string
}

// Tables returns the answer to a query of any rule; a table without rows when no rule has the
// query.
type Tables func(query string) *Table

// Resource returns the resource of a rule; "" for a rule without one, and for an unknown rule.
func (s RuleSet) Resource(id string) string {
	for _, r := range s.Rules {
		if r.ID == id {
			return r.Resource
		}
	}
	return ""
}

// Queries returns each query of the rules once, in a fixed order, and the query of the host name.
// All of them must be measured before Run can read their answers.
func Queries(rules []Rule) []string {
	var all []string
	seen := map[string]bool{}
	for _, r := range rules {
		for _, list := range [][]string{r.Needs, r.Finds, r.Uses, r.Traced, r.Sampled} {
			for _, s := range list {
				if !seen[s] {
					seen[s] = true
					all = append(all, s)
				}
			}
		}
	}
	return append(all, hostQuery)
}
