package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/attribute"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// memoryGrowing finds a process, or a kind of memory that belongs to none, that takes more and more
// memory, so that none will be left soon.
func memoryGrowing() diagnose.Rule {
	return diagnose.Rule{
		ID: "memory-growing", Checks: "memory growth", About: "memory",
		Needs: []string{facts.MemorySize},
		Finds: []string{facts.ProcessRSS},
		Uses:  []string{facts.ProcessInfo, facts.FilesystemSize, facts.CacheBytes},
		Check: func(l *diagnose.Look) {
			size := l.Table(facts.MemorySize)
			available, anon := size.One("kind", "available"), size.One("kind", "anon")
			if !(available.Last() >= 0) {
				l.Unchecked("this kernel does not report how much memory is available")
				return
			}
			t := l.Table(facts.ProcessRSS)
			var top *diagnose.Row
			most, taken := 0.0, facts.PerSecond(size, anon)
			for _, r := range t.Rows {
				// Mapped files are taken from nobody.
				if v := memoryGrowth(t, r); v > most && taken >= threshold.GrowAnon*v {
					top, most = r, v
				}
			}
			if top != nil && available.Last() <= threshold.GrowSoon*most {
				accuseGrowth(l, top, available, most, taken)
			}
			if g := growingKind(size); g.rate > 0 &&
				available.Last() <= threshold.GrowSoon*g.rate {
				g.accuse(l, available)
			}
		},
	}
}

// memoryGrowth returns by how much a level grows per second; 0 when it does not grow in most steps,
// or slows down. A program that starts slows down when it has what it needs; so does the memory
// of the BPF programs that are loaded for the diagnosis itself.
func memoryGrowth(t *diagnose.Table, r *diagnose.Row) float64 {
	steps, grown, last := 0, 0, -1
	first := -1
	for c, s := range t.Seconds {
		if s <= 0 || r.At(c) != r.At(c) {
			continue
		}
		if first < 0 {
			first = c
		}
		if last >= 0 {
			steps++
			if r.At(c) > r.At(last) {
				grown++
			}
		}
		last = c
	}
	if steps <= threshold.LeastCells || float64(grown) < threshold.GrowSteady*float64(steps) {
		return 0
	}
	half, third := (first+last)/2, last-max(1, (last-first)/3)
	whole := facts.GrowthBetween(t, r, first, last)
	if facts.GrowthBetween(t, r, half, last) < whole/2 ||
		facts.GrowthBetween(t, r, third, last) < whole/4 {
		return 0
	}
	return whole
}

func accuseGrowth(l *diagnose.Look, r, available *diagnose.Row, rate, taken float64) {
	s := diagnose.WholePeriod(r.Table)
	programs := facts.Actors(l, r.Table, []*diagnose.Row{r}, s.Mask)
	left := available.Last() / rate
	severity := diagnose.Low
	if left <= threshold.GrowUrgent {
		severity = diagnose.Medium
	}
	p := programs[0]
	f := l.Found(p.Identity(), severity, 0.7, p.Culprit(), fmt.Sprintf(
		"%s grows by %s and holds %s: at that rate no memory is left in %s.", p,
		phrase.BytesRate(rate), phrase.Memory(r.Last()), phrase.Ahead(left)))
	f.AddEvidence(r.Table, s, r.Query(), r.Last(), r.Table.Unit, fmt.Sprintf(
		"%s holds %s, and %s more each second", p, phrase.Memory(r.Last()), phrase.Bytes(rate)))
	f.AddEvidence(available.Table, s, available.Query(), available.Last(), available.Table.Unit,
		phrase.Memory(available.Last())+" are available")
	division := divideGrowth(l, taken, available.Last())
	if f.Attribution = division.Report(); f.Attribution != nil {
		f.SetExplains(rate / division.Total)
	}
	f.AddCaveat(0.2, "A program that loads its data looks the same until it has them.")
	f.Verify = fmt.Sprintf("for i in 1 2 3 4 5; do grep VmRSS /proc/%d/status; sleep 1; done",
		p.PID())
}

// divideGrowth divides the growth of memory among programs. free is the memory that is available.
func divideGrowth(l *diagnose.Look, taken, free float64) *attribute.Result {
	t := l.Table(facts.ProcessRSS)
	whole := diagnose.WholePeriod(t)
	var users []attribute.User
	sum := 0.0
	var rows []*diagnose.Row
	for _, r := range t.Rows {
		if memoryGrowth(t, r) > 0 {
			rows = append(rows, r)
		}
	}
	for _, p := range facts.Actors(l, t, rows, whole.Mask) {
		growth := 0.0
		for _, r := range p.Rows {
			growth += memoryGrowth(t, r)
		}
		users = append(users, attribute.User{Name: p.String(), Group: p.Group(), PID: p.PID(),
			Part: growth, Statistic: p.Query(t)})
		sum += growth
	}
	return attribute.Divide(&attribute.Resource{Name: "growth of memory",
		Unit: string(measure.Bytes) + "/s", Total: max(taken, sum),
		Limit: free / threshold.GrowSoon, Users: users, Amount: phrase.BytesRate,
		State: func(use float64) string {
			if left := free / use; left < 1000*threshold.GrowSoon {
				return "memory would last " + phrase.Ahead(left) + ", growing by " +
					phrase.BytesRate(use)
			}
			return "memory would hardly grow"
		},
		Basis:  "measured: resident memory, of programs that grow steadily",
		RestIs: "that of programs that do not grow steadily"})
}
