package rules

import (
	"culprit/diagnose"
	"culprit/diagnose/attribute"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// divideCPUs divides the busy time of all CPUs among programs.
func divideCPUs(l *diagnose.Look, m facts.Machine, s diagnose.Period, all []facts.Program,
	idle float64) *attribute.Result {
	wants, busy := facts.CPUWantsOf(l, all, s.Mask), m.CPUs*(1-idle)
	users := facts.Users(l.Table(facts.ProcessCPU), all,
		func(i int) float64 { return all[i].Rate }, wants.Likely)
	if p := facts.ParentOfShort(l, s.Mask); p.Rate > 0 {
		users = append(users, attribute.User{Name: "short-lived children of " + p.String(),
			PID: p.PID(), Part: p.Rate, Statistic: p.Query(l.Table(facts.ProcessShort))})
	}
	for _, part := range []struct {
		name  string
		modes []string
		query string
	}{
		{"the hypervisor, for other guests,", []string{"steal"}, `cpu.time where mode = "steal"`},
		{"interrupts", []string{"soft", "irq"}, `cpu.time where mode in ("soft", "irq")`},
	} {
		users = append(users, attribute.User{Name: part.name, Statistic: part.query,
			Part: m.CPUs * m.Share(s.Mask, part.modes...)})
	}
	var others []float64
	for _, u := range users[len(all):] {
		others = append(others, series.Or(max(u.Part, 0), 0))
	}
	share := func(use float64) string { return phrase.Percent(use / m.CPUs) }
	basis := "measured: CPU time; estimated: what programs that wait for a CPU would use"
	if !wants.Known {
		basis = "measured: CPU time; unknown: who waits for a CPU and would use what is left"
	}
	return attribute.Divide(&attribute.Resource{Name: "CPU time", Unit: string(measure.Ratio),
		Total: busy, Limit: m.CPUs * (1 - threshold.CPUNearlyIdle), Users: users,
		Least: threshold.CPUActor,
		Estimate: func(stopped map[int]bool) attribute.Estimate {
			return wants.Without(stopped, others, m.CPUs, busy)
		},
		StateOf: func(amount string) string { return "the CPUs would be " + amount + " busy" },
		State:   func(use float64) string { return "the CPUs would be " + share(use) + " busy" },
		Amount:  share, Basis: basis,
		RestIs: "that of processes that are not visible"})
}
