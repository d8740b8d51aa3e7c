package diagnose

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"culprit/heapbound"
	"culprit/measure"
)

// at returns a time some seconds after the first test report.
func at(seconds int) measure.Time {
	return measure.Time(1e6+seconds) * measure.Time(measure.Second)
}

// reportOf returns a diagnosis of the ten seconds before a time, with findings.
func reportOf(end int, ids ...string) *Report {
	r := &Report{Start: at(end - 10), End: at(end), Findings: []Finding{}}
	for _, id := range ids {
		r.Findings = append(r.Findings, Finding{ID: id, Rule: id, Severity: Medium, Confidence: 1,
			Evidence: []Evidence{{}}})
	}
	return r
}

// observed enters diagnoses every ten seconds, one per character: x has the finding, . lacks it,
// and ? could not check it.
func observed(h *holds, pattern string) (last *Report) {
	for i, c := range pattern {
		r := reportOf(10 * (i + 1))
		if c == 'x' {
			r = reportOf(10*(i+1), "disk")
		}
		if c == '?' {
			r.Missing = []Missing{{Rule: "disk"}}
		}
		h.observe(r)
		h.remember(r)
		last = r
	}
	return last
}

// state describes a finding in a report: found or held, since which diagnosis, and its share.
func state(r *Report) string {
	list := func(name string, all []Finding) string {
		if len(all) == 0 {
			return ""
		}
		past := all[0].Past
		s := fmt.Sprintf("%s since %d, %.2f, %d returns", name,
			past.Since.Sub(at(0))/measure.Second, float64(past.Share), past.Returns)
		if !past.Confirmed {
			s += ", unconfirmed"
		}
		if past.AtLeast {
			s += ", at least"
		}
		return s
	}
	if s := list("found", r.Findings); s != "" {
		return s
	}
	return list("held", r.Held)
}

func TestHolds(t *testing.T) {
	tests := []struct{ name, pattern, want string }{
		{"one diagnosis confirms nothing", ".x", "found since 10, 1.00, 0 returns, unconfirmed"},
		{"two confirm", ".xx", "found since 10, 1.00, 0 returns"},
		{"the first diagnosis does not know since when", "xx",
			"found since 0, 1.00, 0 returns, at least"},
		{"an unconfirmed one is not held", ".x.", ""},
		{"two with a gap confirm", ".x.x", "found since 10, 0.67, 1 returns"},
		{"absent for 50 s", ".xx.....", "held since 10, 0.29, 0 returns"},
		{"absent for 60 s", ".xx......", ""},
		{"back within a minute", ".xx.....x", "found since 10, 0.38, 1 returns"},
		{"after a return it is held for longer", ".xx.x......", "held since 10, 0.30, 1 returns"},
		{"two minutes after one return", ".xx.x............", ""},
		{"not checked is not absent", ".xx??????????", "held since 10, 1.00, 0 returns"},
		{"not checked for ten minutes", ".xx????????????????????????????????????????????????????" +
			"????????", ""},
		{"a new run begins anew", ".xx......x", "found since 90, 1.00, 0 returns, unconfirmed"},
		{"every other diagnosis", ".x.x.x.x.x.x", "found since 10, 0.55, 5 returns"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := state(observed(newHolds(), tt.pattern)); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.pattern, got, tt.want)
			}
		})
	}
}

// TestHoldsProperties: whatever comes and goes, a finding is in one list at most, one that was
// found is known for a minute, and the share is one.
func TestHoldsProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 1))
	for range 300 {
		h, ids := newHolds(), []string{"a", "b", "c"}
		last := map[string]int{}
		for i := 1; i < 80; i++ {
			var some []string
			for k, id := range ids {
				if random.IntN(k+2) == 0 {
					some = append(some, id)
					last[id] = i
				}
			}
			r := reportOf(10*i, some...)
			h.observe(r)
			h.remember(r)
			seen := map[string]bool{}
			for _, f := range slices.Concat(r.Findings, r.Held) {
				p := f.Past
				if seen[f.ID] {
					t.Fatalf("%s is listed twice", f.ID)
				}
				seen[f.ID] = true
				if !(p.Share > 0 && p.Share <= 1) || p.Since >= p.Seen ||
					p.LastGood != nil && (p.LastGood[1] != p.Since || p.LastGood[0] >= p.Since) {
					t.Fatalf("%+v", p)
				}
			}
			for id, at := range last {
				if o := h.all[id]; i-at < 6 && (o == nil || o.past.Confirmed && !seen[id]) {
					t.Fatalf("%s is forgotten after %d diagnoses", id, i-at)
				}
			}
		}
	}
}

// TestExplainedIsNotHeld: a finding below another one is there.
func TestExplainedIsNotHeld(t *testing.T) {
	h := newHolds()
	h.observe(reportOf(10, "disk"))
	h.observe(reportOf(20, "disk"))
	r := reportOf(30, "memory")
	r.Findings[0].Symptoms = []Symptom{{ID: "disk", Rule: "disk"}}
	h.observe(r)
	if len(r.Held) != 0 {
		t.Errorf("held: %+v", r.Held)
	}
	r = reportOf(40, "disk")
	h.observe(r)
	if got := state(r); got != "found since 0, 1.00, 0 returns, at least" {
		t.Error(got)
	}
}

// TestHoldsAreBounded: names that others choose do not use memory without end.
func TestHoldsAreBounded(t *testing.T) {
	h := newHolds()
	for i := range 40 {
		var ids []string
		for k := range 200 {
			ids = append(ids, fmt.Sprint("rule/", i, "/", k))
		}
		h.observe(reportOf(10*(i+1), ids...))
		if len(h.all) > keptHeld || len(h.ended) > 2*keptHeld {
			t.Fatalf("%d findings, %d ended", len(h.all), len(h.ended))
		}
	}
}

// TestRestoredHolds: what lasts across a restart of the server lasts since before it.
func TestRestoredHolds(t *testing.T) {
	h := newHolds()
	before := observed(h, "...........xxxx.xx")
	document, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		later measure.Span
		want  string
	}{
		{"shortly after", 2 * measure.Minute, "found since 110, 0.88, 1 returns"},
		{"long after", 5 * measure.Minute, "found since 470, 1.00, 0 returns, unconfirmed, at least"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := &rangeLog{docs: map[measure.Time][]byte{before.End: document}}
			after := newHolds()
			after.restore(t.Context(), log, before.End.Add(tt.later))
			r := reportOf(180+int(tt.later/measure.Second), "disk")
			after.observe(r)
			if got := state(r); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// rangeLog is a log in memory.
type rangeLog struct{ docs map[measure.Time][]byte }

func (l *rangeLog) Logged(_ context.Context, _ string, over measure.Interval,
	each func(measure.Time, []byte) error) error {
	var times []measure.Time
	for at := range l.docs {
		if at > over.Start && at <= over.End {
			times = append(times, at)
		}
	}
	slices.Sort(times)
	for _, at := range times {
		if err := each(at, l.docs[at]); err != nil {
			return err
		}
	}
	return nil
}

// TestIDsIn: the IDs of a report are found without decoding it.
func TestIDsIn(t *testing.T) {
	hard := `disk/a"b\c&d"id":"x`
	r := reportOf(10, "cpu", hard)
	r.Findings[0].Claim = `it prints "id":"trap"`
	r.Findings[1].Symptoms = []Symptom{{ID: "below"}}
	document, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	idsIn(document, func(quoted []byte) { got = append(got, unquoted(quoted)) })
	if want := []string{"cpu", hard, "below"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzIDsIn: no document is read beyond its end.
func FuzzIDsIn(f *testing.F) {
	for _, s := range []string{`{"id":"a"}`, `{"id":"a\"`, `"id":`, `"id":"\`, `{"id":"\ud800"}`} {
		f.Add([]byte(s))
	}
	heapbound.Fuzz(f, func(t *testing.T, document []byte) {
		idsIn(document, func(quoted []byte) {
			if len(unquoted(quoted)) > 3*len(quoted) {
				t.Error("an ID is longer than its text")
			}
		})
	})
}

// TestSlowDiagnosesHold: where diagnoses are rare, a minute alone withdraws nothing.
func TestSlowDiagnosesHold(t *testing.T) {
	h := newHolds()
	var got []string
	for i, c := range "xx..." {
		r := reportOf(70 * (i + 1))
		if c == 'x' {
			r = reportOf(70*(i+1), "disk")
		}
		h.observe(r)
		got = append(got, state(r))
	}
	want := []string{"found since 60, 1.00, 0 returns, unconfirmed, at least",
		"found since 60, 1.00, 0 returns, at least", "held since 60, 0.67, 0 returns, at least",
		"held since 60, 0.50, 0 returns, at least", ""}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
