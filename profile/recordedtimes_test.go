package profile

import (
	"reflect"
	"testing"

	"culprit/measure"
)

// TestTimelineOfRecordedSamples checks that each second has its stacks side by side, that a second
// with few samples has a gap, and that a second without any is one.
func TestTimelineOfRecordedSamples(t *testing.T) {
	over := measure.Interval{Start: 100e9, End: 104e9}
	part := Part{Over: over, Times: true}
	a := &measure.Answer{
		Query: part.query("process", "kernel", "user"), Start: over.Start, Step: measure.Second,
		Elapsed: []measure.Span{measure.Second, measure.Second, 0, measure.Second},
		Labels:  []string{"web", "db"},
		Frames: []measure.Frame{
			{Parent: -1}, {Symbol: "main", Module: "prog", Parent: -1},
			{Symbol: "read", Parent: -1},
		},
		Series: []measure.Series{
			{Key: []measure.Label{0, 0, 1}, Values: []float64{30, 10, measure.NaN, 10}},
			{Key: []measure.Label{1, 2, 1}, Values: []float64{10, 0, measure.NaN, 5}},
		},
	}
	got := FromAnswer(a, part)
	checkMoments(t, got.Tree)
	want := []string{
		"all: db;main;read 0+250", "all: web;main 250+750", "all: web;main 1000+250",
		"all: db;main;read 3000+125", "all: web;main 3125+250",
	}
	if m := moments(got.Tree); !reflect.DeepEqual(m, want) {
		t.Errorf("%q\nwant %q", m, want)
	}
	if got.Tree.Times.Within != 1e9 || got.Tree.Sum() != 65 {
		t.Errorf("%v samples, in order within %v ns", got.Tree.Sum(), got.Tree.Times.Within)
	}
	for _, p := range []Part{
		{Over: over}, {Over: measure.Interval{End: 121e9}, Times: true},
	} {
		if q := p.query("process"); q.Step != p.Over.Span() || FromAnswer(a, p).Tree.Times != nil {
			t.Errorf("%+v has times", p)
		}
	}
}
