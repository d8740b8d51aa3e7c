package captured

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
)

// nanoseconds returns a mean latency of a row; the unit is ns when none is printed.
func nanoseconds(r *Row) float64 {
	scale := map[string]float64{"s": 1e9, "ms": 1e6, "us": 1e3}[r.Word("unit")]
	if scale == 0 {
		scale = 1
	}
	return r.Num("value") * scale
}

// rangeOf returns the mean latencies of a function as text: "2.9-3.0 ms"; "" without any.
func (s *study) rangeOf(function string) string {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, t := range s.of(Latencies) {
		if t.Subject != function {
			continue
		}
		for _, r := range t.Rows {
			lo, hi = min(lo, nanoseconds(r)), max(hi, nanoseconds(r))
		}
	}
	if lo > hi {
		return ""
	}
	return span(lo, hi)
}

// span returns "2.9-3.0 ms" for a range in ns.
func span(lo, hi float64) string {
	scale, unit := 1.0, "ns"
	for _, u := range []struct {
		scale float64
		unit  string
	}{{1e3, "us"}, {1e6, "ms"}, {1e9, "s"}} {
		if hi >= u.scale*0.9995 {
			scale, unit = u.scale, u.unit
		}
	}
	format := func(v float64) string {
		if v /= scale; v < 10 {
			return fmt.Sprintf("%.1f", v)
		}
		return phrase.Digits(v)
	}
	a, b := format(lo), format(hi)
	if a == b {
		return a + " " + unit
	}
	return a + "-" + b + " " + unit
}

// slowCall is the mean latency from which on a call of a kernel function is reported, in ns.
const slowCall = 1e6

// latencies judges means and distributions of the latency of functions.
func (s *study) latencies() {
	done := map[string]bool{}
	for _, t := range s.of(Latencies) {
		if done[t.Subject] {
			continue
		}
		done[t.Subject] = true
		if f := s.find1("table-long/dce"); f != nil && strings.Contains(f.Claim, t.Subject) &&
			t.Subject != "" {
			continue
		}
		s.judgeMean(t)
	}
	for _, t := range s.of(Stacks) {
		if !s.explained(t.Subject) {
			f := s.find("function-callers", cmp.Or(t.Subject, "stack"), diagnose.Low, 0.6,
				diagnose.Culprit{Kind: "function", Name: cmp.Or(t.Subject, commonCallee(t))},
				callersClaim(t))
			callers(f, t)
			caveat(f, "Counts of calls do not show how long the calls take.")
		}
	}
	s.distributions()
}

func (s *study) explained(function string) bool {
	for _, f := range s.report.Findings {
		if function != "" && (f.Rule == "table-long" || f.Rule == "function-slow") &&
			strings.Contains(f.Claim, function) {
			return true
		}
	}
	return false
}

func (s *study) judgeMean(t *Table) {
	worst := t.Rows[0]
	for _, r := range t.Rows {
		if nanoseconds(r) > nanoseconds(worst) {
			worst = r
		}
	}
	name := t.Subject
	if name == "" {
		name = s.anyFunction()
	}
	if nanoseconds(worst) < slowCall {
		s.report.Notes = append(
			s.report.Notes,
			fmt.Sprintf("%s: a call of %s takes %s on average, "+
				"less than 1 ms", worst.Place(), cmp.Or(name, "the function"),
				phrase.Duration(nanoseconds(worst))),
		)
		return
	}
	claim := fmt.Sprintf("Each call of %s takes %s on average.", cmp.Or(name,
		"a function (the command that names it is missing)"), s.rangeOf(t.Subject))
	f := s.find("function-slow", cmp.Or(name, "function"), diagnose.Medium, 0.85,
		diagnose.Culprit{Kind: "function", Name: cmp.Or(name, "function")}, claim)
	s.callEvidence(f, t.Subject)
	for _, st := range s.of(Stacks) {
		if t.Subject != "" && st.Subject == t.Subject {
			break
		}
	}
	caveat(f, "Tables do not show how often it is called; a profile of the CPU does.")
}

// anyFunction returns the function of stacks or of a profile when exactly one is known.
func (s *study) anyFunction() string {
	name := ""
	for _, t := range s.of(Stacks) {
		if t.Subject != "" {
			name = t.Subject
		}
	}
	return name
}

// frames returns the functions of a stack, the innermost first, without modules and offsets.
func frames(r *Row) []string {
	list := strings.Split(r.Word("stack"), ";")
	for i, f := range list {
		if _, after, ok := strings.Cut(f, "`"); ok {
			f = after
		}
		list[i], _, _ = strings.Cut(f, "+0x")
	}
	return list
}

// branches returns the callers in which the stacks differ first, with their number of calls, and
// the frames that all stacks share.
func branches(
	t *Table,
) (shared []string, names []string, counts map[string]float64, total float64) {
	counts = map[string]float64{}
	stacks := make([][]string, len(t.Rows))
	for i, r := range t.Rows {
		stacks[i] = frames(r)
	}
	depth := commonDepth(stacks)
	shared = stacks[0][:depth]
	for i, r := range t.Rows {
		name := "(none)"
		if depth < len(stacks[i]) {
			name = stacks[i][depth]
		}
		n := zero(r.Num("count"))
		if _, ok := counts[name]; !ok {
			names = append(names, name)
		}
		counts[name] += n
		total += n
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	return shared, names, counts, total
}

// commonDepth returns the number of frames that all stacks begin with.
func commonDepth(stacks [][]string) int {
	depth := len(stacks[0])
	for _, f := range stacks[1:] {
		n := 0
		for n < depth && n < len(f) && f[n] == stacks[0][n] {
			n++
		}
		depth = n
	}
	return depth
}

func commonCallee(t *Table) string {
	shared, names, _, _ := branches(t)
	if len(shared) > 0 {
		return shared[0]
	}
	return names[0]
}

func callersClaim(t *Table) string {
	shared, names, counts, total := branches(t)
	what := t.Subject
	if what == "" {
		what = "A function below " + cmp.Or(
			strings.Join(shared[:min(1, len(shared))], ""), names[0],
		)
	}
	text := fmt.Sprintf("%s is called %s times", what, phrase.Count(total))
	if counts[names[0]] < total || len(shared) == 0 {
		text += fmt.Sprintf(", %s of them by %s", phrase.Percent(counts[names[0]]/total), names[0])
	}
	return text + "."
}

// callers adds the main callers of the stacks of a table.
func callers(f *diagnose.Finding, t *Table) {
	shared, names, counts, total := branches(t)
	if total == 0 {
		return
	}
	if len(shared) > 0 {
		evidence(f, t.Rows[0], total, "call", "all %s calls come through %s",
			phrase.Count(total), strings.Join(shared[:min(4, len(shared))], " <- "))
	}
	for i, name := range names {
		if i >= 3 || counts[name] < total/10 || name == "(none)" {
			break
		}
		evidence(f, nil, counts[name]/total, "1", "%s of the calls by %s (%s)",
			phrase.Percent(counts[name]/total), name, phrase.Count(counts[name]))
	}
	most := slices.MaxFunc(t.Rows, func(a, b *Row) int {
		return compare(a.Num("count"), b.Num("count"))
	})
	path := frames(most)
	evidence(f, most, most.Num("count")/total, "1", "the most frequent stack, %s of the calls, "+
		"begins in %s", phrase.Percent(most.Num("count")/total), path[len(path)-1])
}
