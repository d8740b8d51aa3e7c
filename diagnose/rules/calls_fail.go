package rules

import (
	"fmt"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// callsFail finds programs whose system calls fail again and again because something is used up,
// refused or broken. It is for the limits that the kernel does not show as numbers; rule
// limit-reached explains the others.
func callsFail() diagnose.Rule {
	return diagnose.Rule{
		ID: "calls-fail", Checks: "failed system calls",
		Uses: []string{facts.ProcessInfo}, Traced: []string{facts.FailedCalls, facts.Connects},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.FailedCalls)
			failures := facts.Failures()
			rows := make([][]*diagnose.Row, len(failures))
			for _, r := range t.Rows {
				if i := facts.FailureOf(failures, r); i >= 0 {
					rows[i] = append(rows[i], r)
				}
			}
			for i, failure := range failures {
				for _, p := range facts.Actors(l, t, rows[i], nil) {
					accuseFailing(l, t, failure, p)
				}
			}
		},
	}
}

func accuseFailing(l *diagnose.Look, t *diagnose.Table, failure facts.Failure, p facts.Program) {
	s, ok := diagnose.Lasting(t, nil, func(c int) bool {
		return series.AtOrZero(p.Series, c) >= threshold.CallsFail
	})
	if !ok {
		return
	}
	rate := t.Mean(p.Series, s.Mask)
	if failure.Error == "ECONNREFUSED" && !refusedLocally(l, p, rate, s.Mask) {
		return
	}
	byCall := map[string]float64{}
	for _, r := range p.Rows {
		byCall[phrase.Clean(r.Word("syscall"))] += r.Part(s.Mask)
	}
	most := facts.Largest(byCall)
	f := l.Found(p.Identity()+"/"+failure.Error, diagnose.Medium, 0.85,
		p.Culprit(), fmt.Sprintf("System calls of %s fail with %s, %s per second for %s: %s.",
			p, failure.Error, phrase.Count(rate), s, failure.Means))
	f.Subject = facts.FailingCalls{Failure: failure, Program: p, Rate: rate}
	f.AddEvidence(t, s, t.QueryOf(nil, "process", p.Name, "syscall", most, "error", failure.Error),
		byCall[most], t.Unit, fmt.Sprintf("%s fails %s times per second", most,
			phrase.Count(byCall[most])))
	f.AddCaveat(0, "What the program asked for is not in the counters: it may be too much.")
	f.Verify = fmt.Sprintf("culprit trace -n 'syscall:::return /pid == %d && errno/ "+
		"{ @[probefunc, errno, ustack()] = count(); }'", p.PID())
	if command := failure.Verify; strings.Contains(command, "%") {
		f.Verify = fmt.Sprintf(command, p.PID()) + "; " + f.Verify
	} else {
		f.Verify = command + "; " + f.Verify
	}
}

// refusedLocally reports whether most of the refused attempts to connect of a program are not to
// TCP ports, which are those of rule connections-fail.
func refusedLocally(l *diagnose.Look, p facts.Program, rate float64, mask []bool) bool {
	t, tcp := l.Table(facts.Connects), 0.0
	for _, r := range t.Where("error", "ECONNREFUSED") {
		if pid, _ := strconv.Atoi(r.Word("pid")); p.Has(pid) {
			tcp += series.Or(r.Part(mask), 0)
		}
	}
	return t.Have() && tcp < threshold.CallsTCP*rate
}
