package captured

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// A profile is the samples of a table, summed over offsets and CPUs.
type profile struct {
	table      *Table
	total      float64 // samples; NaN when unknown
	user, idle float64
	counts     map[string]float64
	first      map[string]*Row // the row with the most samples
	functions  []string        // most samples first
	estimated  bool            // total is an estimate
}

var (
	idleNames = regexp.MustCompile(`^(.*_)?(idle|disp_getwork|cpu_halt|halt|mwait|cpuidle_enter` +
		`|default_idle|poll_idle|disp_anywork)(_.*)?$`)
	splNames   = regexp.MustCompile(`^(i_ddi_spl\w*|spl\w|splx|i_ddi_splx|_?resume_from_idle)$`)
	purgeNames = regexp.MustCompile(
		`(^|_)(purge|shrink|prune|flush|reclaim|gc|cleanup|evict|expire|invalidate)(_|$)`)
	searchNames   = regexp.MustCompile(`(^|_)(lookup|find|search|hash|match|walk)(_|$|\d)`)
	everydayNames = regexp.MustCompile(`^(copy(in|out)|bcopy|bzero|memcpy|memset|hwblkclr|kcopy` +
		`|_?copy_(to|from|user)|rep_(movs|stos)|finish_task_switch|_raw_spin_unlock_irqrestore|clear_page|do_syscall|entry_|ia32_|x86_64_start|syscall|memmove)`)
)

func profileOf(t *Table) *profile {
	p := &profile{table: t, total: t.Total, counts: map[string]float64{}, first: map[string]*Row{}}
	listed := 0.0
	last := math.NaN()
	for _, r := range t.Rows {
		name, _, _ := strings.Cut(r.Word("function"), "+")
		n := zero(r.Num("count"))
		listed += n
		if v := r.Num("sum"); v == v {
			last = v
		}
		if p.counts[name] == 0 {
			p.functions = append(p.functions, name)
		}
		p.counts[name] += n
		if f := p.first[name]; f == nil || f.Num("count") < n {
			p.first[name] = r
		}
	}
	if p.total != p.total && last > 0 {
		p.total, p.estimated = listed/(last/100), true
	}
	idles := slices.ContainsFunc(p.functions, idleNames.MatchString)
	for name, n := range p.counts {
		switch {
		case name == "(usermode)":
			p.user += n
		case idleNames.MatchString(name) || idles && splNames.MatchString(name):
			p.idle += n
		default:
			continue
		}
	}
	p.functions = slices.DeleteFunc(p.functions, func(name string) bool {
		return name == "(usermode)" || idleNames.MatchString(name) ||
			idles && splNames.MatchString(name)
	})
	slices.SortStableFunc(p.functions, func(a, b string) int {
		return cmp.Compare(p.counts[b], p.counts[a])
	})
	return p
}

// profiles finds functions that take much of a profile, and compares profiles.
func (s *study) profiles() {
	var all []*profile
	for _, t := range s.of(Samples) {
		all = append(all, profileOf(t))
	}
	all = ordered(all, func(p *profile) string { return p.table.File })
	for i, p := range all {
		for j, name := range p.functions {
			if j > threshold.FunctionMost {
				break
			}
			s.judgeFunction(p, name, all, i)
		}
		if i == len(all)-1 && s.find1any("cache-purge", "kernel-function") == nil && p.total > 0 {
			s.shown["cpu"] = true
			most := "no function"
			if len(p.functions) > 0 {
				most = p.functions[0] + " takes most, " +
					phrase.Percent(p.counts[p.functions[0]]/p.total)
			}
			s.clear("cpu", "%s of the samples idle, %s usermode; in the kernel %s (%s, %s:%d)",
				phrase.Percent(p.idle/p.total), phrase.Percent(p.user/p.total), most,
				p.table.Tool, p.table.File, p.table.Line)
		}
	}
}

func (s *study) find1any(rules ...string) *diagnose.Finding {
	for i := range s.report.Findings {
		if slices.Contains(rules, s.report.Findings[i].Rule) {
			return &s.report.Findings[i]
		}
	}
	return nil
}

func (s *study) judgeFunction(p *profile, name string, all []*profile, at int) {
	n := p.counts[name]
	share, running := n/p.total, n/(p.total-p.idle)
	inKernel := n / (p.total - p.idle - p.user)
	rule, severity := "", diagnose.Medium
	switch {
	case everydayNames.MatchString(name):
		return
	case purgeNames.MatchString(name) && share >= threshold.PurgeFelt:
		rule = "cache-purge"
		if share >= threshold.FunctionShare {
			severity = diagnose.High
		}
	case searchNames.MatchString(name) && running >= threshold.FunctionShare &&
		share >= threshold.FunctionLeast, running >= threshold.FunctionMuch &&
		share >= threshold.FunctionLeast:
		rule = "kernel-function"
		if share >= threshold.FunctionNearly {
			severity = diagnose.High
		}
	default:
		return
	}
	f := s.find(rule, name, severity, 0.9, diagnose.Culprit{Kind: "function", Name: name},
		fmt.Sprintf("%s takes %s of the samples: %s of %s, %s of those in the kernel that are not "+
			"idle%s.", name, percent(100*share), phrase.Count(n), phrase.Count(p.total),
			percent(100*inKernel), changeOf(p, name, all, at)))
	if p.estimated {
		caveat(f, "The number of samples is estimated from the cumulated shares.")
	}
	evidence(f, p.first[name], share, "1", "%s in %s samples of %s, summed over offsets and CPUs",
		name, phrase.Count(n), phrase.Count(p.total))
	evidence(f, nil, p.user/p.total, "1", "usermode %s, idle %s of the samples",
		phrase.Percent(p.user/p.total), phrase.Percent(p.idle/p.total))
	for i, o := range all {
		if i != at && o.total > 0 {
			r := o.first[name]
			if r == nil && len(o.table.Rows) > 0 {
				r = o.table.Rows[len(o.table.Rows)-1]
			}
			evidence(
				f, r, o.counts[name]/o.total, "1", "%s in %s: %s", name, o.table.place(p.table),
				otherShare(o, name),
			)
		}
	}
	if rule == "cache-purge" {
		f.Verify = "lockstat -i 133 -I sleep 5"
		if p.table.Tool == "perf" {
			f.Verify = "perf record -a -g -- sleep 10; perf report --stdio --no-children"
		}
		caveat(f, "The time of a purge is proportional to the size of the cache: a quarter of the "+
			"cache takes a quarter of the time.")
	}
	caveat(f, "A profile shows where CPU time goes, and not for whom: stacks show the callers.")
}

// otherShare returns the share of a function in another profile: its own, or below the least row.
func otherShare(p *profile, name string) string {
	if n := p.counts[name]; n > 0 {
		return phrase.Percent(n/p.total) + " of the samples"
	}
	least := math.Inf(1)
	for _, r := range p.table.Rows {
		least = min(least, zero(r.Num("count")))
	}
	return fmt.Sprintf("not among the rows listed, the least of which has %s of %s samples",
		phrase.Count(least), phrase.Count(p.total))
}

func changeOf(p *profile, name string, all []*profile, at int) string {
	for i, o := range all {
		if i == at || !(o.total > 0) {
			continue
		}
		if o.counts[name] == 0 {
			return "; it is not listed in " + o.table.place(p.table)
		}
		return fmt.Sprintf(
			"; %s in %s", phrase.Percent(o.counts[name]/o.total), o.table.place(p.table),
		)
	}
	return ""
}

// ordered puts what a file name calls before in front of what it calls after; other names stay in
// the order in which they were read.
func ordered[T any](list []T, file func(T) string) []T {
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b T) int { return phaseOf(file(a)) - phaseOf(file(b)) })
	return out
}

// phaseOf returns -1 for a file of the time before a change, 1 after it, 0 unknown.
func phaseOf(file string) int {
	for _, w := range strings.FieldsFunc(strings.ToLower(path.Base(file)), func(c rune) bool {
		return c < 'a' || c > 'z'
	}) {
		switch w {
		case "before", "slow", "bad", "old", "sick", "vorher":
			return -1
		case "after", "fast", "good", "new", "fixed", "healthy", "nachher":
			return 1
		}
	}
	return 0
}

// sizes finds kernel tables with an absurd number of entries.
func (s *study) sizes() {
	for _, t := range s.of(Sizes) {
		r := t.Rows[0]
		n := r.Num("entries")
		name := r.Word("name")
		function := s.functionOf("dce")
		if name == "" && function != "" {
			name = "dce"
		}
		switch {
		case name == "dce" && n >= threshold.TableWorth && n/dceBuckets >= threshold.TableChain:
			s.accuseTable(r, n, function)
		case n >= absurdEntries:
			what := name
			if what == "" {
				what = "A listing (its command is missing)"
			}
			f := s.find("table-long", cmp.Or(name, "listing"), diagnose.Medium, 0.7,
				diagnose.Culprit{Kind: "table", Name: what},
				fmt.Sprintf("%s has %s lines: tables of the kernel that long are slow to search.",
					what, phrase.Count(n)))
			evidence(f, r, n, "entry", "%s lines", phrase.Count(n))
			if name == "" {
				caveat(f, "The command that printed the number is missing.")
			}
		default:
			s.report.Notes = append(s.report.Notes, fmt.Sprintf("%s: %s entries in %s, a usual "+
				"number", r.Place(), phrase.Count(n), cmp.Or(name, "a listing")))
		}
	}
}

const (
	dceBuckets    = 256 // IP's destination cache of Solaris has a fixed number of buckets
	absurdEntries = 1e6
)

// functionOf returns a function whose latency or stacks were captured and whose name contains a
// word; "" when there is none.
func (s *study) functionOf(word string) string {
	for _, t := range s.tables {
		if slices.Contains(strings.Split(t.Subject, "_"), word) {
			return t.Subject
		}
	}
	return ""
}

func (s *study) accuseTable(r *Row, n float64, function string) {
	severity := diagnose.Medium
	if n/dceBuckets >= threshold.TableChainBad {
		severity = diagnose.High
	}
	claim := fmt.Sprintf("IP's destination cache (dce table) has %s entries, about %s per bucket",
		phrase.Count(n), phrase.Count(n/dceBuckets))
	if lat := s.rangeOf(function); lat != "" {
		claim += fmt.Sprintf("; each call of %s takes %s", function, lat)
	}
	f := s.find("table-long", "dce", severity, 0.95, diagnose.Culprit{Kind: "table",
		Name: "dce"}, claim+".")
	evidence(f, r, n, "entry", "%s entries", phrase.Count(n))
	evidence(f, nil, n/dceBuckets, "entry", "%s entries per bucket, the table has %d buckets",
		phrase.Count(n/dceBuckets), dceBuckets)
	s.callEvidence(f, function)
	caveat(f, "The system frees these entries only when memory runs low.")
	f.Verify = "netstat -dn | wc -l"
}

// callEvidence adds the latency and the main callers of a function.
func (s *study) callEvidence(f *diagnose.Finding, function string) {
	for _, t := range s.of(Latencies) {
		if t.Subject != function {
			continue
		}
		for _, r := range t.Rows {
			evidence(f, r, nanoseconds(r), "ns", "%s: %s per call, mean",
				cmp.Or(function, "the function"), phrase.Duration(nanoseconds(r)))
		}
	}
	for _, t := range s.of(Stacks) {
		if t.Subject == function {
			callers(f, t)
		}
	}
}
