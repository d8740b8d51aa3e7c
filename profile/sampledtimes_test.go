package profile

import (
	"reflect"
	"slices"
	"testing"
)

// TestTimesOfSamples: samples with times are moments of their threads, as long as the usual time
// between two; one without a time, as of an idle CPU, is in the tree alone.
func TestTimesOfSamples(t *testing.T) {
	const ms = 1e6
	tree := FromSamples(slices.Values([]Sampled{
		{
			Process: "web", User: []string{"web`leaf", "web`main"}, Count: 3, Amount: 3,
			Times: []SampleTime{{100 * ms, 7}, {110 * ms, 7}, {150 * ms, 7}},
		},
		{
			Process: "web", User: []string{"web`main"}, Count: 2, Amount: 2,
			Times: []SampleTime{{104 * ms, 8}, {120 * ms, 7}},
		},
		{Process: "swapper/0", Kernel: []string{"kernel`idle"}, Count: 9, Amount: 9},
	}), SampleTimes{Usual: 10 * ms, Left: 5})
	want := []string{
		"web 7: web;main;leaf 0+10", "web 7: web;main;leaf 10+10", "web 7: web;main 20+10",
		"web 7: web;main;leaf 50+10", "web 8: web;main 4+10",
	}
	if m := moments(tree); !reflect.DeepEqual(m, want) {
		t.Errorf("%q\nwant %q", m, want)
	}
	if l := tree.Times; l.Usual != 10*ms || l.Within != 0 || l.Left != 5 || tree.Sum() != 14 {
		t.Errorf("usual %v, within %v, %d left, %v samples", l.Usual, l.Within, l.Left, tree.Sum())
	}
	columns, err := AppendColumns(nil, tree)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseColumns(columns)
	if err != nil {
		t.Fatal(err)
	}
	if m := moments(back); !reflect.DeepEqual(m, want) {
		t.Errorf("after columns %q\nwant %q", m, want)
	}
	none := FromSamples(slices.Values([]Sampled{{Process: "a", Count: 1, Amount: 1}}), SampleTimes{})
	if none.Times != nil {
		t.Error("samples without times have a timeline")
	}
}
