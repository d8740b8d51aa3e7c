package diagnose

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

// A recorded answers each statistic with one answer, whatever the query asks.
type recorded map[measure.StatID]*measure.Answer

func (r recorded) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	a := r[q.Stat]
	if a == nil {
		return nil, measure.ErrUnsupported
	}
	copied := *a
	copied.Query = q
	return &copied, nil
}

// answerOf returns an answer of one row with one value per second from start on.
func answerOf(start measure.Time, values ...float64) *measure.Answer {
	elapsed := slices.Repeat([]measure.Span{measure.Second}, len(values))
	return &measure.Answer{
		Start:   start,
		Step:    measure.Second,
		Elapsed: elapsed,
		Labels:  []string{""},
		Series:  []measure.Series{{Key: []measure.Label{}, Values: values}},
	}
}

// finding is a rule that reports one finding whose evidence is of the query.
func finding(query string) Rule {
	return Rule{ID: "r", Checks: "r", Needs: []string{query}, Check: func(l *Look) {
		f := l.Found("", Medium, 1, Culprit{Kind: "process", Name: "p"}, "It is.")
		f.AddEvidence(l.Table(query), WholePeriod(l.Table(query)), query, 1, "", "text")
	}}
}

func run(t *testing.T, r measure.Reader, rule Rule) *Report {
	t.Helper()
	rep, err := Run(t.Context(), r, RuleSet{Rules: []Rule{rule}}, measure.Interval{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// Losses are notes of the report, with the number of lost events where it is known.
func TestLossesAreNoted(t *testing.T) {
	a := answerOf(0, 1, 2, 3, 4, 5)
	a.Loss = []measure.Loss{{Reason: "buffer full", Events: 7}, {Reason: "too late"}}
	a.Notes = []string{"a caveat"}
	rep := run(t, recorded{"x.y": a}, finding("x.y"))
	want := []string{"a caveat", "x.y: 7 lost: buffer full", "x.y: something was lost: too late"}
	if !slices.Equal(rep.Notes, want) {
		t.Errorf("notes %q, want %q", rep.Notes, want)
	}
}

// Notes about samples are in the report only where a finding rests on samples.
func TestNotesOfSamples(t *testing.T) {
	samples := answerOf(0, 1, 2, 3, 4, 5)
	samples.Notes = []string{"some stacks are cut"}
	machine := recorded{measure.StackSamples: samples, "x.y": answerOf(0, 1, 2, 3, 4, 5)}
	rule := finding("x.y")
	rule.Uses = []string{string(measure.StackSamples)}
	if rep := run(t, machine, rule); len(rep.Notes) != 0 {
		t.Errorf("no finding rests on samples, and there are notes %q", rep.Notes)
	}
	rep := run(t, machine, finding(string(measure.StackSamples)))
	if !slices.Equal(rep.Notes, samples.Notes) {
		t.Errorf("a finding rests on samples: notes %q", rep.Notes)
	}
}

// Answers that start at other times are on one grid: from the earliest start to the latest end.
func TestTablesShareAGrid(t *testing.T) {
	second := measure.Time(measure.Second)
	machine := recorded{
		"x.early": answerOf(10*second, 1, 2, 3),
		"x.late":  answerOf(12*second, 7, 8, 9),
	}
	tables, _, _, err := ask(t.Context(), machine, []string{"x.early", "x.late"}, nil,
		measure.Interval{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float64{
		"x.early": {1, 2, 3, measure.NaN, measure.NaN},
		"x.late":  {measure.NaN, measure.NaN, 7, 8, 9},
	} {
		got := tables[name].filled().Rows[0].Values
		if !slices.EqualFunc(
			got, want, func(a, b float64) bool { return a == b || a != a && b != b },
		) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if n := tables[name].measured(); n != 3 {
			t.Errorf("%s was measured in %d cells", name, n)
		}
	}
}

// Programs read the lists of a finding without a test for null, and unknown numbers as null.
func TestReportInJSON(t *testing.T) {
	rep := run(t, recorded{"x.y": answerOf(0, 1, 2, 3, 4, 5)}, finding("x.y"))
	text, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"exonerated":[]`, `"against":[]`, `"symptoms":[]`, `"effect":null`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	var again Report
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if f := again.Findings[0]; f.Effect.Known() || f.Explains.Known() || f.Confidence != 1 {
		t.Errorf("effect %g, explains %g, confidence %g", f.Effect, f.Explains, f.Confidence)
	}
	n := Number(3) // null replaces what is there
	if err := json.Unmarshal([]byte("null"), &n); err != nil || n.Known() {
		t.Errorf("null is %g, %v", n, err)
	}
}

// A check that needs traced statistics alone has the queries to record, and only where recording
// them helps.
func TestMissingHasQueriesToRecord(t *testing.T) {
	rule := Rule{ID: "r", Checks: "r", Traced: []string{"t.one", "t.two"}, Check: func(*Look) {}}
	rep := run(t, unrecorded{}, rule)
	if len(rep.Missing) != 1 || !slices.Equal(rep.Missing[0].Record, rule.Traced) {
		t.Errorf("never recorded: missing %+v, want to record %q", rep.Missing, rule.Traced)
	}
	rep = run(t, recorded{}, rule)
	if len(rep.Missing) != 1 || rep.Missing[0].Record != nil {
		t.Errorf("unsupported: missing %+v, want nothing to record", rep.Missing)
	}
}

// An unrecorded reader has never recorded anything.
type unrecorded struct{}

func (unrecorded) Ask(context.Context, measure.Query) (*measure.Answer, error) {
	return nil, measure.ErrNeverRecorded
}
