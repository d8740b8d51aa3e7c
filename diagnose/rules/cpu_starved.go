package rules

import (
	"slices"
	"sort"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// cpuStarved finds processes that wait for a CPU most of the time because of their weight: others
// of more weight use the CPUs.
func cpuStarved() diagnose.Rule {
	return diagnose.Rule{
		ID: "cpu-starved", Checks: "shares of the CPUs",
		Needs: []string{facts.CPUTime},
		Finds: []string{facts.ProcessWeights, facts.ProcessWait, facts.ProcessCPU},
		Uses:  []string{facts.CgroupWeights, facts.CgroupThrottledTime, facts.CgroupPressure},
		Check: func(l *diagnose.Look) {
			m := facts.MachineOf(l.Table(facts.CPUTime))
			var groups []*starved
			for _, w := range facts.WeighedOf(l, nil) {
				v := starvedOf(l, m, w)
				if v == nil {
					continue
				}
				i := slices.IndexFunc(groups, func(g *starved) bool { return g.like(v) })
				if i < 0 {
					groups = append(groups, v)
					continue
				}
				groups[i].victims = append(groups[i].victims, v.victims...)
			}
			for _, g := range groups {
				g.accuse(l, m)
			}
		},
	}
}

// A starved group is the processes that wait because of the same weight.
type starved struct {
	all     []*facts.Weighed // processes that want a CPU, in the period
	victims []*facts.Weighed
	takers  []*facts.Weighed // that use the CPUs, most first
	mine    facts.Weight     // of the victims
	theirs  facts.Weight     // of the first taker
	in      []string         // the CPUs that they may use
	s       diagnose.Period
}

// like reports whether another process waits for the same reason.
func (g *starved) like(o *starved) bool {
	same := g.mine.ID == o.mine.ID
	if g.mine.Task && o.mine.Task { // several processes of one nice value
		same = g.mine.Value == o.mine.Value
	}
	return same && slices.Equal(g.in, o.in)
}

// starvedOf returns a process with those that keep it waiting; nil when it is not starved.
func starvedOf(l *diagnose.Look, m facts.Machine, w *facts.Weighed) *starved {
	g := &starved{}
	if g.in, _ = w.Allowed.Of(m.Names); w.Allowed == "" {
		g.in = m.Names
	}
	if w.Wait == nil || len(g.in) == 0 {
		return nil
	}
	t := w.Wait.Table
	waited, used := spread(w.Wait.Values), spread(t.Sum(w.CPU))
	var ok bool
	g.s, ok = diagnose.Lasting(t, m.Known, func(c int) bool {
		return waited[c] >= threshold.StarvedTasks &&
			waited[c] >= threshold.StarvedShare*(waited[c]+series.AtOrZero(used, c)) &&
			m.IdleOf(g.in, c) <= threshold.StarvedIdle*float64(len(g.in))
	})
	if !ok || w.Throttled(l, g.s.Mask) {
		return nil
	}
	g.all = facts.WeighedOf(l, g.s.Mask)
	i := slices.IndexFunc(g.all, func(o *facts.Weighed) bool { return o.PID == w.PID })
	g.victims = []*facts.Weighed{g.all[i]}
	if !g.findTakers(m) {
		return nil
	}
	parts, _ := g.entitled(m)
	part, uses := parts[w.PID], g.victims[0].Used
	if part >= threshold.StarvedLess*uses && part-uses >= threshold.StarvedHeld {
		return nil
	}
	return g
}

// spread returns the means of each cell and its neighbours: the kernel counts a wait when it ends,
// and a process of very low weight waits for a second and more each time.
func spread(values []float64) []float64 {
	const reach = 2
	out := make([]float64, len(values))
	for c := range values {
		n := 0.0
		for i := max(c-reach, 0); i <= min(c+reach, len(values)-1); i++ {
			out[c] += series.AtOrZero(values, i)
			n++
		}
		out[c] /= n
	}
	return out
}

// findTakers finds those of more weight that use the CPUs of the process. It returns false when
// others, or many of equal weight, keep it waiting. The weight that counts is the one that most of
// them have more than.
func (g *starved) findTakers(m facts.Machine) bool {
	by, of, w := map[string]float64{}, map[string][]*facts.Weighed{}, g.victims[0]
	for _, o := range g.all {
		mine, other, ok := w.Against(o)
		if ok && w.Allowed.Overlaps(o.Allowed, m.Names) &&
			other.Value >= threshold.StarvedRatio*mine.Value {
			by[mine.ID] += o.Used
			of[mine.ID] = append(of[mine.ID], o)
		}
	}
	id := facts.Largest(by)
	g.takers = of[id]
	sort.SliceStable(g.takers, func(i, j int) bool { return g.takers[i].Used > g.takers[j].Used })
	if len(g.takers) == 0 || by[id] < threshold.StarvedTakers*float64(len(g.in)) {
		return false
	}
	g.mine, g.theirs, _ = w.Against(g.takers[0])
	return true
}

// entitled returns the CPU time to which each process on the CPUs is entitled, by PID, and
// the sum that they divide. Nil when that is unknown: how much others use of these CPUs, which may
// use further ones.
func (g *starved) entitled(m facts.Machine) (of map[string]float64, sum float64) {
	var on []*facts.Weighed
	unknown := 0.0
	for _, o := range g.all {
		further := slices.ContainsFunc(m.Names, func(cpu string) bool {
			return (o.Allowed == "" || o.Allowed.Has(cpu)) && !slices.Contains(g.in, cpu)
		})
		switch {
		case !g.victims[0].Allowed.Overlaps(o.Allowed, m.Names):
		case further || len(o.Path) == 0:
			unknown += o.Used
		default:
			on = append(on, o)
		}
	}
	if unknown >= threshold.StarvedUnknown*float64(len(g.in)) {
		return nil, 0
	}
	parts, sum := facts.Entitled(on)
	of = map[string]float64{}
	for i, o := range on {
		of[o.PID] = parts[i]
	}
	return of, sum
}
