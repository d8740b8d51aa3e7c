package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"culprit/diagnose"
	"culprit/measure"
)

// begin is the time of the first diagnosis of the tests.
const begin = measure.Time(1772366400e9) // 2026-03-01T12:00:00Z

// after returns the time that many seconds after begin.
func after(seconds int) measure.Time { return begin.Add(measure.Span(seconds) * measure.Second) }

// finding returns a finding of rule link-saturated.
func finding(id string, s diagnose.Severity, culprit string) diagnose.Finding {
	return diagnose.Finding{
		ID: id, Rule: "link-saturated", Severity: s, Confidence: 0.9,
		Culprit: diagnose.Culprit{Kind: "process", Name: culprit, PID: 4711},
		Claim:   culprit + " saturates eth0: 97 % of 1 Gbit/s.",
		Evidence: []diagnose.Evidence{
			{Text: "eth0 sends 970 Mbit/s", Statistic: "net.device.bytes"},
			{Text: "the queue drops 12 packets/s", Statistic: "net.device.drops"},
		},
		Against: []string{"the speed of the link is that of its driver"},
		Verify:  "nicstat 1",
		Fix:     &diagnose.Fix{Command: "tc qdisc add", Undo: "tc qdisc del", Risk: "low: it waits"},
	}
}

// report returns a diagnosis with findings; missing names rules that could not be checked.
func report(at measure.Time, missing string, all ...diagnose.Finding) *diagnose.Report {
	r := &diagnose.Report{Start: at.Add(-10 * measure.Second), End: at, Findings: all}
	if missing != "" {
		r.Missing = []diagnose.Missing{{Rule: missing, Why: "the recording has a gap"}}
	}
	return r
}

// TestStream shows what becomes a change: one letter a diagnosis, each ten seconds. "h", "m" and
// "l" are the finding with its severity, "c" is another culprit, "." no finding, "?" no finding and
// the rule was not checked.
func TestStream(t *testing.T) {
	for _, tt := range []struct{ name, seen, want string }{
		{"appears and stays", "..hhhh", "20 appeared high"},
		{"ends after a minute", "h......", "0 appeared high, 60 ended high"},
		{"just below the hold", "h.....h", "0 appeared high"},
		{"flapping is one", "h.h.h.h.h.h.h.h.h", "0 appeared high"},
		{"again after its end", "h......h", "0 appeared high, 60 ended high, 70 appeared high"},
		{"higher at once", "mmh", "0 appeared medium, 20 changed high from medium"},
		{"lower after a minute", "hmmmmmm", "0 appeared high, 60 changed medium from high"},
		{"just before a minute", "hmmmmmhm", "0 appeared high"},
		{"severity that flaps", "mhmhmhmhmh", "0 appeared medium, 10 changed high from medium"},
		{"low to medium", "llm", "0 appeared low, 20 changed medium from low"},
		{"not checked is not ended", "h????????????h", "0 appeared high"},
		{"not checked for ten minutes", "h" + strings.Repeat("?", 60),
			"0 appeared high, 600 ended high"},
		{"another culprit for a moment", "hccch", "0 appeared high"},
		{"another culprit that stays", "hcccccc", "0 appeared high, 60 changed high of curl"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := NewStream(nil)
			for i, letter := range tt.seen {
				var all []diagnose.Finding
				missing := ""
				switch letter {
				case 'h', 'c':
					all = append(all, finding("link-saturated/eth0", diagnose.High,
						map[rune]string{'h': "iperf3", 'c': "curl"}[letter]))
				case 'm':
					all = append(all, finding("link-saturated/eth0", diagnose.Medium, "iperf3"))
				case 'l':
					all = append(all, finding("link-saturated/eth0", diagnose.Low, "iperf3"))
				case '?':
					missing = "link-saturated"
				}
				s.Observe(after(10*i), report(after(10*i), missing, all...))
			}
			if got := changesOf(s); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// changesOf returns the changes of a stream as text.
func changesOf(s *Stream) string {
	changes, _, _, _ := s.Since(0)
	var all []string
	for _, c := range changes {
		line := fmt.Sprintf("%d %s %s", c.At.Sub(begin)/measure.Second, c.Kind, c.Alert.Severity)
		if b := c.Before; b != nil && b.Severity != c.Alert.Severity {
			line += " from " + string(b.Severity)
		}
		if b := c.Before; b != nil && b.Culprit.Name != c.Alert.Culprit.Name {
			line += " of " + c.Alert.Culprit.Name
		}
		all = append(all, line)
	}
	return strings.Join(all, ", ")
}

// TestStreamState shows that a changed alert is at an end under its former labels, until they
// return, and that ended alerts are kept for 15 minutes.
func TestStreamState(t *testing.T) {
	s := NewStream(nil)
	high := finding("link-saturated/eth0", diagnose.High, "iperf3")
	medium := finding("link-saturated/eth0", diagnose.Medium, "iperf3")
	state := func() string {
		now, _ := s.Now()
		var all []string
		for _, a := range append(now.Active, now.Ended...) {
			word := "lasts"
			if a.End != 0 {
				word = fmt.Sprintf("ended %d", a.End.Sub(begin)/measure.Second)
			}
			all = append(all, string(a.Severity)+" "+word)
		}
		return strings.Join(all, ", ")
	}
	for _, tt := range []struct {
		at   int
		of   []diagnose.Finding
		want string
	}{
		{0, []diagnose.Finding{medium}, "medium lasts"},
		{10, []diagnose.Finding{high}, "high lasts, medium ended 10"},
		{70, []diagnose.Finding{medium}, "medium lasts, high ended 70"},
		{130, nil, "high ended 70, medium ended 130"},
		{970, nil, "high ended 70, medium ended 130"},
		{971, nil, "medium ended 130"},
		{1031, nil, ""},
	} {
		s.Observe(after(tt.at), report(after(tt.at), "", tt.of...))
		if got := state(); got != tt.want {
			t.Errorf("at %d s: %s, want %s", tt.at, got, tt.want)
		}
	}
}

// TestStreamIsBounded lets 5,000 findings appear at once, with long hostile names.
func TestStreamIsBounded(t *testing.T) {
	s := NewStream(nil)
	var all []diagnose.Finding
	for i := range 5000 {
		f := finding(fmt.Sprintf("link-saturated/%d", i), diagnose.High,
			"\x1b[31m\xff"+strings.Repeat("x", 10_000))
		f.Claim, f.Verify = strings.Repeat("y\n", 10_000), strings.Repeat("z", 10_000)
		all = append(all, f)
	}
	for round := range 20 {
		at := after(100 * round)
		some := all[(round*250)%5000:][:250] // others in each round
		s.Observe(at, report(at, "", some...))
	}
	now, _ := s.Now()
	changes, next, lost, _ := s.Since(0)
	if len(now.Active) != maxActive || len(now.Ended) > maxEnded || len(changes) != maxChanges {
		t.Errorf("%d active, %d ended, %d changes", len(now.Active), len(now.Ended), len(changes))
	}
	if lost == 0 || next != uint64(lost+len(changes)) {
		t.Errorf("%d lost, next is %d", lost, next)
	}
	if want := "50 findings are not sent: there are more than 200"; s.Trouble() != want {
		t.Errorf("trouble %q, want %q", s.Trouble(), want)
	}
	b, err := json.Marshal((&Sender{Instance: "a"}).event(&changes[0]))
	if err != nil || len(b) > 6000 || slices.Contains(b, 0x1b) {
		t.Errorf("%d bytes of an event, %v: %.200q", len(b), err, b)
	}
	if f := &changes[0].Alert.Finding; f.Verify != "" || !strings.HasSuffix(f.Claim, "...") {
		t.Errorf("verify %q, claim %q", f.Verify, f.Claim)
	}
}

// logged is a source of diagnoses: those of before a restart, and those after it.
type logged struct{ before, later []*diagnose.Report }

func (l *logged) Reports(_ context.Context, over measure.Interval,
	each func(measure.Time, []byte) error) error {
	for _, r := range l.before {
		if r.End <= over.Start || r.End > over.End {
			continue
		}
		b, err := json.Marshal(r)
		if err == nil {
			err = each(r.End, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *logged) Report(_ context.Context, after measure.Time) (measure.Time, []byte, error) {
	for _, r := range l.later {
		if r.End > after {
			b, err := json.Marshal(r)
			return r.End, b, err
		}
	}
	return 0, nil, errors.New("the recording has ended")
}

// TestStreamAfterRestart shows that what lasts since before a restart is no new alert, and that
// what ended meanwhile is reported.
func TestStreamAfterRestart(t *testing.T) {
	eth0 := finding("link-saturated/eth0", diagnose.High, "iperf3")
	eth1 := finding("link-saturated/eth1", diagnose.Medium, "curl")
	d := &logged{
		// A diagnosis that equals the one before is logged each minute.
		before: []*diagnose.Report{
			report(after(0), "", eth0), report(after(60), "", eth0), report(after(120), "", eth0),
			report(after(150), "", eth0, eth1),
		},
		later: []*diagnose.Report{
			report(after(200), "", eth0), report(after(210), "", eth0), report(after(220), ""),
		},
	}
	s := NewStream(func() measure.Span { return 0 })
	s.Run(t.Context(), d, after(190))
	if got, want := changesOf(s), "210 ended medium"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	now, _ := s.Now()
	if len(now.Active) != 1 || now.Active[0].Began != after(0) {
		t.Errorf("active: %+v", now.Active)
	}
}

// TestFollowedDiagnoses: what the server confirms and withdraws begins and ends alerts. One letter
// per diagnosis: "u" has the finding unconfirmed, "h" confirmed, "-" holds it, "." has it no more.
func TestFollowedDiagnoses(t *testing.T) {
	for _, tt := range []struct{ name, seen, want string }{
		{"unconfirmed is no alert", "u.u..", ""},
		{"confirmed is one", ".uh", "20 appeared high"},
		{"held is not ended", "uh" + strings.Repeat("-", 30) + "h", "10 appeared high"},
		{"withdrawn is ended", "uh-.", "10 appeared high, 30 ended high"},
		{"again after its end", "uh.uh", "10 appeared high, 20 ended high, 40 appeared high"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := NewStream(nil)
			for i, letter := range tt.seen {
				r := report(after(10*i), "")
				r.Held = []diagnose.Finding{}
				f := finding("link-saturated/eth0", diagnose.High, "iperf3")
				f.Past = &diagnose.Past{Since: begin.Add(-10 * measure.Second),
					Confirmed: letter != 'u'}
				switch letter {
				case 'u', 'h':
					r.Findings = append(r.Findings, f)
				case '-':
					r.Held = append(r.Held, f)
				}
				s.Observe(after(10*i), r)
			}
			if got := changesOf(s); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.seen, got, tt.want)
			}
			for _, a := range s.sorted() {
				if a.Began != begin.Add(-10*measure.Second) {
					t.Errorf("it began at %v", a.Began)
				}
			}
		})
	}
}
