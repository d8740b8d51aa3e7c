package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"culprit/diagnose"
	"culprit/kernel"
	"culprit/measure"
	"culprit/store"
)

const oneDay = 24 * 60 * measure.Minute

// weekOf returns an archive with the same hour of eight days, a tick per second, and the diagnoses
// of a finding in it: CPU pressure of value(days ago, second).
func weekOf(tb testing.TB, end measure.Time, value func(ago, second int) float64) *store.Store {
	tb.Helper()
	s, err := store.Open(tb.TempDir(), store.Options{KeepTicks: 30 * oneDay})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	runnable := measure.Stat{ID: "sched.runnable", Kind: measure.Level, Unit: measure.Count}
	pressure := measure.Stat{ID: "pressure.time", Kind: measure.Delta, Unit: measure.Nanoseconds,
		Fields: []measure.Field{{Name: "resource"}, {Name: "scope"}}}
	var ids []uint32
	for _, st := range []measure.Stat{runnable, pressure} {
		q := measure.Query{Stat: st.ID, Step: measure.Second}
		for _, f := range st.Fields {
			q.By = append(q.By, f.Name)
		}
		id, err := s.Save(measure.Dataset{Query: q, Stat: st, Created: end.Add(-8 * oneDay)})
		if err != nil {
			tb.Fatal(err)
		}
		ids = append(ids, id)
	}
	document, err := json.Marshal(&diagnose.Report{Findings: []diagnose.Finding{
		{ID: "cpu-saturated"}, {ID: "other", Claim: strings.Repeat("x", 20000)}}})
	if err != nil {
		tb.Fatal(err)
	}
	for ago := 7; ago >= 0; ago-- {
		last := end.Add(-oneDay * measure.Span(ago))
		for second := range 3600 {
			at := last.Add(measure.Second * measure.Span(second-3599))
			over := measure.Interval{Start: at.Add(-measure.Second), End: at}
			err := s.Append(at, ids, []*measure.Batch{
				{Stat: runnable.ID, Over: over, Values: []float64{1}},
				{Stat: pressure.ID, By: []string{"resource", "scope"}, Over: over,
					Labels: []string{"cpu", "some"}, Keys: []measure.Label{0, 1},
					Values: []float64{value(ago, second) * 1e9}},
			})
			if err != nil {
				tb.Fatal(err)
			}
			if second%60 == 0 {
				if err := s.Log("diagnosis", at, document); err != nil {
					tb.Fatal(err)
				}
			}
		}
	}
	s.Settle()
	return s
}

// foundNow returns a report with a finding about CPU pressure.
func foundNow(end measure.Time) *diagnose.Report {
	start := end.Add(-diagnose.HistoryOver)
	return &diagnose.Report{Start: start, End: end, Findings: []diagnose.Finding{{
		ID: "cpu-saturated", Rule: "cpu-saturated", Severity: diagnose.High, Confidence: 1,
		Waits: &diagnose.Waits{}, Effect: diagnose.Number(measure.NaN),
		Evidence: []diagnose.Evidence{{Text: "some task waits 40 % of the time", Value: 0.4,
			Statistic: `pressure.time where resource = "cpu" and scope = "some"`, Unit: "ratio",
			Over: [2]measure.Time{start, end}}},
		Past: &diagnose.Past{Since: end.Add(-5 * measure.Minute), Seen: end, Share: 1,
			LastGood: &[2]measure.Time{end.Add(-20 * measure.Minute), end.Add(-5 * measure.Minute)}},
	}}}
}

// pressureOf is 40 % in the last five minutes of an hour, and 10 % before.
func pressureOf(second int) float64 {
	if second >= 3300 {
		return 0.4
	}
	return 0.1
}

// TestUsualOfAnArchive reads what is usual from an archive on disk.
func TestUsualOfAnArchive(t *testing.T) {
	const half = measure.Time(30 * measure.Minute)
	end := (measure.Time(time.Now().UnixNano())-half)/half*half + half/3
	t.Run("each day", func(t *testing.T) {
		s := weekOf(t, end, func(_, second int) float64 { return pressureOf(second) })
		r := foundNow(end)
		b := diagnose.NewBaseline(s, s)
		runtime.LockOSThread() // its CPU clock is read
		defer runtime.UnlockOSThread()
		before := kernel.ThreadTime()
		if err := b.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		first := kernel.ThreadTime()
		if err := b.Add(t.Context(), foundNow(end)); err != nil {
			t.Fatal(err)
		}
		second := kernel.ThreadTime()
		t.Logf("CPU time: %v, then %v", first-before, second-first)
		if second-first > (first-before)/2 {
			t.Errorf("%v the first time, and %v when it is cached", first-before, second-first)
		}
		f := r.Findings[0]
		if f.Severity != diagnose.Medium || f.Past.Days != 7 || f.Past.DaysFound != 7 {
			t.Errorf("%s, %+v, %q", f.Severity, f.Past, f.Against)
		}
		if !strings.HasSuffix(f.Evidence[0].Text, "at this hour, 10 % before it began") {
			t.Errorf("%q; %+v", f.Evidence[0].Text, f.Evidence[0].Usual)
		}
	})
	t.Run("today alone", func(t *testing.T) {
		s := weekOf(t, end, func(ago, second int) float64 {
			if ago > 0 {
				return 0.1
			}
			return pressureOf(second)
		})
		r := foundNow(end)
		if err := diagnose.NewBaseline(s, s).Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		f := r.Findings[0]
		if f.Severity != diagnose.High {
			t.Errorf("%s, %q", f.Severity, f.Against)
		}
		if want := "; usually 10 % at this hour, 10 % before it began"; !strings.HasSuffix(
			f.Evidence[0].Text, want) {
			t.Errorf("%q does not end with %q", f.Evidence[0].Text, want)
		}
	})
}
