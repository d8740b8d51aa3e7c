package rules

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// dnsFails finds name servers that answer lookups with failures.
func dnsFails() diagnose.Rule {
	return diagnose.Rule{
		ID: "dns-fails", Checks: "answers of name servers",
		Uses:   []string{facts.ProcessInfo},
		Traced: []string{facts.DNSQueries, facts.DNSAnswers, facts.DNSTimes},
		Check: func(l *diagnose.Look) {
			t, remote := l.Table(facts.DNSAnswers), false
			for _, s := range facts.NameServers(l) {
				if s.IsLocal() && remote { // it passes on what those behind it answer
					return
				}
				p, ok := diagnose.Lasting(t, func(c int) bool { return s.Answers[c] > 0 },
					func(c int) bool {
						return s.Failures[c] >= threshold.DNSFailShare*s.Answers[c]
					})
				if ok && t.Part(s.Failures, p.Mask)*p.Held >= threshold.DNSFailLeast {
					accuseFailures(l, s, p)
					remote = remote || !s.IsLocal()
				}
			}
		},
	}
}

// accuseFailures adds the finding about a server that fails in a period.
func accuseFailures(l *diagnose.Look, s *facts.NameServer, p diagnose.Period) {
	t := l.Table(facts.DNSAnswers)
	programs := facts.Actors(l, t, s.AnswerRows, p.Mask)
	if len(programs) == 0 {
		return
	}
	fails, all := t.Part(s.Failures, p.Mask), t.Part(s.Answers, p.Mask)
	severity := diagnose.Medium
	if fails >= threshold.DNSFailMost*all {
		severity = diagnose.High
	}
	f := l.Found(s.Identity(), severity, 0.85, s.Culprit(), fmt.Sprintf(
		"Name server %s answers %s of the lookups with failures (%s) for %s; %s asks it.", s,
		phrase.Percent(fails/all), failuresOf(s, p), p, programs[0]))
	f.SetEffect(fails / all)
	for _, r := range s.AnswerRows {
		if v := r.Part(p.Mask); facts.IsDNSFailure(r.Word("code")) && v > 0 {
			f.AddEvidence(t, p, r.Query(), v, t.Unit, fmt.Sprintf(
				"%s of %s answers per second are %s", phrase.Digits(v), phrase.Digits(all),
				phrase.Clean(r.Word("code"))))
		}
	}
	if s.IsLocal() {
		f.AddCaveat(0, "It is a resolver of this machine: a name server that it asks may fail.")
	}
	f.Verify = phrase.InNamespace(s.NetNS, "dig +tries=1 @"+phrase.Shell(s.Address)+
		" NAME | grep status")
}

// failuresOf returns the codes of failures, the most frequent first: "SERVFAIL, REFUSED".
func failuresOf(s *facts.NameServer, p diagnose.Period) string {
	count := map[string]float64{}
	for _, r := range s.AnswerRows {
		if facts.IsDNSFailure(r.Word("code")) {
			count[r.Word("code")] += series.Or(r.Part(p.Mask), 0)
		}
	}
	var words []string
	for len(count) > 0 {
		w := facts.Largest(count)
		if count[w] > 0 {
			words = append(words, phrase.Clean(w))
		}
		delete(count, w)
	}
	return strings.Join(words, ", ")
}
