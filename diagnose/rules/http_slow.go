package rules

import (
	"fmt"
	"math"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// httpSlow finds servers of HTTP that answer late, with errors, or not at all. Where one waits for
// another, the last one is the cause.
func httpSlow() diagnose.Rule {
	return diagnose.Rule{
		ID: "http-slow", Checks: "answers of HTTP servers",
		Uses: []string{facts.ProcessInfo, facts.FlowRTT, facts.DeviceAddress},
		Traced: []string{facts.HTTPRequests, facts.HTTPAnswers, facts.HTTPTimes,
			facts.HTTPLatency},
		Check: func(l *diagnose.Look) {
			for _, s := range facts.HTTPServers(l) {
				f := checkHTTP(l, s)
				if f == nil {
					continue
				}
				f.Subject = s
				f.Cover("http-slow", func(o *diagnose.Finding) bool {
					other, ok := o.Subject.(*facts.HTTPServer)
					return ok && explainsHTTP(l, s, other)
				})
			}
		},
	}
}

// explainsHTTP reports whether the trouble of one server explains that of another: the other one
// asks it, or both are one server, seen by itself and by its clients here.
func explainsHTTP(l *diagnose.Look, s, other *facts.HTTPServer) bool {
	if s.Own && !other.Own {
		return other.Reaches(l, s)
	}
	t := l.Table(facts.HTTPAnswers)
	return other.Asks(s) && (s.Mean(t, nil) == 0 ||
		s.Mean(t, nil) >= threshold.HTTPPart*other.Mean(t, nil))
}

// checkHTTP returns the finding about a server, nil for none.
func checkHTTP(l *diagnose.Look, s *facts.HTTPServer) *diagnose.Finding {
	t := l.Table(facts.HTTPAnswers)
	asked := func(c int) bool { return s.Requests[c] > 0 }
	answered := func(c int) bool { return s.Answers[c] > 0 }
	whole := diagnose.WholePeriod(t)
	if t.Part(s.Answers, nil)*whole.Known < 1 {
		if p, ok := diagnose.Lasting(t, nil, asked); ok {
			return accuseHTTP(l, s, p, diagnose.Medium, fmt.Sprintf(
				"gets %s requests per second and answered none within %s s",
				phrase.Count(t.Part(s.Requests, p.Mask)), phrase.Seconds(whole.Known)))
		}
		return nil
	}
	if p, ok := diagnose.Lasting(t, answered, func(c int) bool {
		return s.Errors[c] >= threshold.HTTPErrors &&
			s.Errors[c] >= threshold.HTTPErrorShare*s.Answers[c]
	}); ok {
		fails, all := t.Part(s.Errors, p.Mask), t.Part(s.Answers, p.Mask)
		severity := diagnose.Medium
		if fails >= threshold.HTTPErrorMost*all {
			severity = diagnose.High
		}
		return accuseHTTP(l, s, p, severity, fmt.Sprintf(
			"answers %s of %s requests per second with errors (%s) for %s", phrase.Count(fails),
			phrase.Count(all), statusesOf(s, p), p))
	}
	p, ok := diagnose.Lasting(t, answered, func(c int) bool {
		return s.Time[c] >= threshold.HTTPSlow*s.Answers[c]
	})
	if !ok {
		return checkHTTPTail(l, s)
	}
	if t.Part(s.Answers, p.Mask)*p.Held < threshold.HTTPLeast || waitsAreMeant(l, s, p) {
		return nil
	}
	mean, severity := s.Mean(t, p.Mask), diagnose.Medium
	if mean >= threshold.HTTPLong {
		severity = diagnose.Low
	}
	f := accuseHTTP(l, s, p, severity, fmt.Sprintf(
		"answers after %s on average for %s (%s requests per second)", phrase.Duration(1e9*mean), p,
		phrase.Count(t.Part(s.Answers, p.Mask))))
	if f != nil {
		f.AddCaveat(0, "Requests that are meant to wait, as long polls, look like slow ones.")
	}
	return f
}

// waitsAreMeant reports whether a few answers that take very long, as of long polls, are all that
// makes the mean long.
func waitsAreMeant(l *diagnose.Look, s *facts.HTTPServer, p diagnose.Period) bool {
	all := s.Pace(l.Table(facts.HTTPLatency), threshold.HTTPSlow, threshold.HTTPLong)
	pace := facts.PaceOf(all, p.Mask)
	return pace.LongShare() > 0 && pace.LongShare() < threshold.HTTPTailShare &&
		pace.Share() < threshold.HTTPTailShare
}

// checkHTTPTail returns the finding about a server that is quick on average and slow for a part of
// its requests, nil for none. Answers that take very long are meant to.
func checkHTTPTail(l *diagnose.Look, s *facts.HTTPServer) *diagnose.Finding {
	t := l.Table(facts.HTTPLatency)
	all := s.Pace(t, threshold.HTTPSlow, threshold.HTTPLong)
	window := measure.Span(threshold.HTTPTailWindow * 1e9)
	near := facts.PaceWithin(t, all, window)
	p, ok := diagnose.Lasting(t, func(c int) bool {
		return near[c].Quick.Count()+near[c].Slow.Count() > 0
	}, func(c int) bool {
		return near[c].Share() >= threshold.HTTPTailShare && float64(near[c].Slow.Count()) >=
			threshold.HTTPTailRate*facts.SecondsWithin(t, c, window)
	})
	cells := 0 // with slow answers: those that wait for one thing end in one cell or two
	for c := range all {
		if p.Mask[c] && all[c].Slow.Count() > 0 {
			cells++
		}
	}
	if !ok || t.Step <= measure.Second && cells < threshold.LeastCells {
		return nil
	}
	pace := facts.PaceOf(all, p.Mask)
	if pace.Share() < threshold.HTTPTailShare {
		return nil
	}
	slow, quick := float64(pace.Slow.Count()), float64(pace.Quick.Count())
	took, others := aboutMedian(&pace.Slow), ""
	if quick > 0 {
		others = ", the others after " + aboutMedian(&pace.Quick)
	}
	f := accuseHTTP(l, s, p, diagnose.Medium, fmt.Sprintf(
		"answers %s of its requests late for %s: after %s%s (medians; %s of %s answers per second)",
		phrase.Percent(slow/(slow+quick)), p, took, others, phrase.Count(slow/p.Held),
		phrase.Count((slow+quick)/p.Held)))
	if f != nil {
		f.AddEvidence(t, p, s.Query(t), pace.Slow.Quantile(0.5), t.Unit, fmt.Sprintf(
			"%s of %s answers took half a second or longer: %s at the median", phrase.Count(slow),
			phrase.Count(slow+quick), took))
		f.AddCaveat(0, "Requests that are meant to wait, as long polls, look like slow ones.")
	}
	return f
}

// aboutMedian returns the median of a distribution in ns, such as "about 1.2 s": its buckets are a
// quarter of a power of two wide.
func aboutMedian(d *measure.Dist) string {
	v := d.Quantile(0.5)
	if unit := math.Pow(10, math.Floor(math.Log10(v))-1); unit > 0 {
		v = math.Round(v/unit) * unit
	}
	return "about " + phrase.Duration(v)
}

// accuseHTTP makes the finding: what follows the name of the server in its sentence.
func accuseHTTP(l *diagnose.Look, s *facts.HTTPServer, p diagnose.Period,
	severity diagnose.Severity, what string) *diagnose.Finding {
	t := l.Table(facts.HTTPAnswers)
	programs := facts.Actors(l, l.Table(facts.HTTPRequests), s.RequestRows, nil)
	if len(programs) == 0 { // asked before the time
		programs = facts.Actors(l, t, s.AnswerRows, nil)
	}
	if len(programs) == 0 {
		return nil
	}
	program := programs[0]
	culprit := program.Culprit()
	culprit.NetNS = s.NetNS
	id := phrase.Identity(s.NetNS, program.Identity()+":"+phrase.Clean(s.Port))
	claim := fmt.Sprintf("HTTP server %s (port %s%s) %s.", program, phrase.Clean(s.Port),
		phrase.NamespaceSuffix(s.NetNS), what)
	if !s.Own {
		culprit = diagnose.Culprit{Kind: "peer", Name: phrase.Clean(s.Name()),
			PID: program.PID(), NetNS: s.NetNS, Peer: s.Address}
		id, claim = phrase.Identity(s.NetNS, s.Name()), fmt.Sprintf(
			"HTTP server %s%s %s; %s asks it.", phrase.Clean(s.Name()),
			phrase.NamespaceSuffix(s.NetNS), what, program)
	}
	f := l.Found(id, severity, 0.8, culprit, claim)
	if mean := s.Mean(t, p.Mask); mean > 0 {
		took := l.Table(facts.HTTPTimes)
		f.AddEvidence(took, p, s.Query(took), t.Part(s.Time, p.Mask), took.Unit,
			"an answer takes "+phrase.Duration(1e9*mean)+" on average")
	}
	f.AddEvidence(t, p, s.Query(t), t.Part(s.Answers, p.Mask), t.Unit, fmt.Sprintf(
		"answers: %s per second; errors of the server (status 500 to 599): %s",
		phrase.Count(t.Part(s.Answers, p.Mask)), phrase.Count(t.Part(s.Errors, p.Mask))))
	requests := l.Table(facts.HTTPRequests)
	f.AddEvidence(requests, p, s.Query(requests), t.Part(s.Requests, p.Mask), requests.Unit,
		"requests: "+phrase.Count(t.Part(s.Requests, p.Mask))+" per second")
	addRoundTrip(l, f, s, p)
	f.Verify = "culprit stat " + phrase.Shell(l.Table(facts.HTTPLatency).QueryOf(
		[]string{"side", "peer", "status"}, "netns", s.NetNS, "port", s.Port))
	return f
}

// addRoundTrip adds what the network takes of the time of an answer.
func addRoundTrip(l *diagnose.Look, f *diagnose.Finding, s *facts.HTTPServer, p diagnose.Period) {
	t := l.Table(facts.FlowRTT)
	most := 0.0
	var worst *diagnose.Row
	for _, r := range t.Rows {
		port := r.Word("peerport")
		if s.Own {
			port = r.Word("localport")
		} else if facts.PlainAddress(r.Word("peer")) != s.Address {
			continue
		}
		if v := r.Mean(nil); port == s.Port && v > most {
			most, worst = v, r
		}
	}
	if worst != nil {
		f.AddEvidence(t, p, worst.Query(), most, t.Unit,
			"a round trip takes at most "+phrase.Duration(most))
	}
}

// statusesOf returns the statuses of errors, the most frequent first: "503, 500".
func statusesOf(s *facts.HTTPServer, p diagnose.Period) string {
	count := map[string]float64{}
	for _, r := range s.AnswerRows {
		if facts.IsServerError(r) {
			count[r.Word("status")] += r.Part(p.Mask)
		}
	}
	var words []string
	for len(count) > 0 {
		w := facts.Largest(count)
		delete(count, w)
		words = append(words, phrase.Clean(w))
	}
	return strings.Join(words, ", ")
}
