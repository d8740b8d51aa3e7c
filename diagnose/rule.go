package diagnose

// Rule looks for one kind of trouble. It keeps no state: the same answers give the same findings.
type Rule struct {
	ID       string // fixed for ever: programs look for it
	Checks   string // what it checks, for the list of what was checked: "cpu", "interrupt load of single cpus"
	Resource string // cpu memory disk network: what is innocent when all the rules of the resource say so; "" none

	// Needs are sentences that the rule can't do without, and whose answers have rows on every machine. One that can't be
	// had, or has no number in it, makes the rule "not checked".
	Needs []string
	// Finds are sentences that the rule can't do without, and whose answers may be empty: there are no such things.
	Finds []string
	// Uses are sentences that only add to the evidence; the rule works without.
	Uses []string
	// Traced are as Uses, of statistics that programs in the kernel measure (measure.Stat.Traced): few may, and a server records them for who asks.
	// Where they can't be had nothing is said of it: the evidence says that it is an estimate.
	Traced []string
	// Sampled are as Uses, of what CPUs were sampled to execute (measure.StackSamples): a look of one's own samples where it may, and a server records
	// it. Where there are none nothing is said of it.
	Sampled []string

	Check func(*Look)
}

// RuleSet is the rules of a diagnosis, with what is said across them.
type RuleSet struct {
	Rules []Rule // in the order of Report.Checked

	// Doubts returns the numbers that keep a resource from being ruled out, whatever its rules
	// report. nil: none.
	Doubts func(Tables) []Doubt
	// Explains reports whether a finding is the cause of what Doubts holds against a resource.
	// nil: a finding explains what is held against the resource of its rule.
	Explains func(f *Finding, resource string) bool
	// Notes returns notes for the report. nil: none.
	Notes func(Tables) []string
}

// Tables returns the answer to a query of any rule; a table without rows when no rule has the query.
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

// Queries gives every sentence that the rules ask, once each, in a fixed order, and the one that tells the host's name: what must be
// measured before Run can find it in a reader.
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
	return append(all, hostSentence)
}
