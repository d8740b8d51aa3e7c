package show

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"culprit/changes"
	"culprit/diagnose"
	"culprit/measure"
)

// disk is a machine with a file system of 100 MB of which used bytes are in use, in each look.
type disk struct {
	used  []float64
	looks int
	more  []measure.Query // of the last look, beyond those of the rules
	rules int
}

func (d *disk) Stats() []measure.Stat { return nil }

func (d *disk) Parse(text string) (measure.Query, error) { return measure.ParseQuery(text) }

func (d *disk) Watch(context.Context, []measure.Query, func(*measure.Tick) error) error {
	return measure.ErrUnsupported
}

func (d *disk) Record(
	_ context.Context, queries []measure.Query, _ int, _ func(int),
) (measure.Reader, error) {
	if d.looks == 0 {
		d.rules = len(queries)
	}
	d.more = queries[d.rules:]
	d.looks++
	return &diskReader{d.used[min(d.looks, len(d.used))-1], d.looks}, nil
}

type diskReader struct {
	used float64
	look int
}

// Ask returns ten seconds. Only the file system has rows.
func (r *diskReader) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	a := &measure.Answer{
		Query: q, Kind: measure.Level, Unit: measure.Bytes, Step: measure.Second,
		Start: measure.Time(1e18).Add(measure.Span(r.look) * 10 * measure.Second),
	}
	for range 10 {
		a.Elapsed = append(a.Elapsed, measure.Second)
	}
	if q.Stat != "filesystem.size" {
		return a, nil
	}
	for kind, v := range map[string]float64{
		"total": 100e6, "used": r.used, "available": 100e6 - r.used,
	} {
		row := map[string]string{"mount": "/data", "device": "sdb", "type": "ext4", "kind": kind}
		wanted := true
		for _, t := range q.Where {
			wanted = wanted && t.Match(row[t.Field])
		}
		if !wanted {
			continue
		}
		s := measure.Series{}
		for _, f := range q.By {
			a.Labels = append(a.Labels, row[f])
			s.Key = append(s.Key, measure.Label(len(a.Labels)-1))
		}
		for range 10 {
			s.Values = append(s.Values, v)
		}
		a.Series = append(a.Series, s)
	}
	return a, nil
}

// TestWatchFinding watches a file system that is cleaned up after the second look.
func TestWatchFinding(t *testing.T) {
	enough := errors.New("enough")
	d := &disk{used: []float64{98e6, 98e6, 40e6}}
	var got []*changes.Outcome
	claim := ""
	err := WatchFinding(t.Context(), d, "limit-reached", 10*time.Second, nil, nil,
		func(_ *diagnose.Report, f *diagnose.Finding) error { claim = f.Claim; return nil },
		func(o *changes.Outcome) error {
			if got = append(got, o); len(got) == 2 {
				return enough
			}
			return nil
		})
	if !errors.Is(err, enough) || !strings.Contains(claim, "/data") {
		t.Fatalf("%v; %q", err, claim)
	}
	for i, want := range []struct {
		state   string
		seconds float64
		after   float64
		changed int
	}{{changes.Remains, 10, 98e6, 0}, {changes.Gone, 20, 40e6, 1}} {
		o := got[i]
		if o.State != want.state || o.Seconds != want.seconds || o.Changed() != want.changed ||
			len(o.Measures) == 0 || float64(o.Measures[0].Before) != 98e6 ||
			float64(o.Measures[0].After) != want.after {
			t.Errorf("outcome %d: %+v", i, o)
		}
	}
	if len(d.more) == 0 || d.more[0].String() != got[0].Measures[0].Query {
		t.Errorf("the later looks also measure %v", d.more)
	}
	for _, tt := range []struct{ id, want string }{
		{"limit-reched", "did you mean limit-reached?"},
		{"xyz/y", "IDs begin with a rule"},
		{"limit-reached/filesystem:tmp", "the findings are limit-reached/filesystem:data"},
		{"disk-saturated", "the findings are limit-reached/filesystem:data"},
	} {
		err := WatchFinding(t.Context(), &disk{used: []float64{98e6}}, tt.id, 10*time.Second,
			nil, nil, nil, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.id, err, tt.want)
		}
	}
}

// TestWatchFindingOfThePast compares with a recorded look, so that the first look from now on is
// already one after the fix.
func TestWatchFindingOfThePast(t *testing.T) {
	d := &disk{used: []float64{98e6, 40e6}}
	end := measure.Time(1e18).Add(20 * measure.Second)
	before, err := LookPast(t.Context(), d,
		measure.Interval{Start: end.Add(-10 * measure.Second), End: end}, measure.Second)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	var got *changes.Outcome
	err = WatchFinding(t.Context(), d, "limit-reached", 10*time.Second, before, nil,
		func(*diagnose.Report, *diagnose.Finding) error { return nil },
		func(o *changes.Outcome) error { got = o; return enough })
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if got.State != changes.Gone || got.Changed() != 1 || got.Before != before.Report.End ||
		float64(got.Measures[0].Before) != 98e6 || float64(got.Measures[0].After) != 40e6 {
		t.Errorf("%+v", got)
	}
	err = WatchFinding(t.Context(), d, "swapping", 10*time.Second, before, nil, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "swapping is not found then; the findings are") {
		t.Error(err)
	}
}

func TestOutcome(t *testing.T) {
	f := &diagnose.Finding{ID: "net-drops/eth0", Rule: "net-drops"}
	for _, tt := range []struct {
		name   string
		report diagnose.Report
		want   string
	}{
		{"gone", diagnose.Report{Findings: []diagnose.Finding{{ID: "net-drops/eth1"}}}, changes.Gone},
		{"remains", diagnose.Report{Findings: []diagnose.Finding{{ID: f.ID}}}, changes.Remains},
		{"a symptom now", diagnose.Report{Findings: []diagnose.Finding{
			{ID: "x", Symptoms: []diagnose.Symptom{{ID: f.ID}}},
		}}, changes.Remains},
		{"not checked", diagnose.Report{Missing: []diagnose.Missing{{Rule: f.Rule, Why: "x"}}},
			changes.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if o := outcome(f, &tt.report); o.State != tt.want {
				t.Errorf("%+v, want %s", o, tt.want)
			}
		})
	}
}

func TestCompared(t *testing.T) {
	steady := func(v float64) cells {
		return cells{[]float64{v, v * 1.001, v, v * 0.999, v, v * 1.002}, measure.Bytes}
	}
	q := measure.Query{Stat: "memory.size"}
	for _, tt := range []struct {
		name          string
		before, after cells
		changed       bool
	}{
		{"less, though below the least difference of changed", steady(2e6), steady(1e6), true},
		{"4 % less", steady(2e6), steady(1.92e6), false},
		{"not measured", steady(2e6), cells{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := compared(q, tt.before, tt.after)
			if m.Changed != tt.changed || m.Unit != "B" ||
				m.After.Known() != (len(tt.after.values) > 0) {
				t.Errorf("%+v", m)
			}
			if m.After.Known() && math.Abs(float64(m.After)-tt.after.values[0]) > 2e3 {
				t.Errorf("after %v, want about %v", m.After, tt.after.values[0])
			}
		})
	}
}
