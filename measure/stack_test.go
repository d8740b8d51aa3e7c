package measure

import (
	"slices"
	"testing"
)

func TestStacksAsText(t *testing.T) {
	frames := []Frame{{Parent: -1}, {Symbol: "main", Parent: -1}, {Symbol: "operator;", Parent: 1}}
	a := &Answer{
		Query:  Query{By: []string{"process", "user"}},
		Labels: []string{"nginx"},
		Frames: frames,
		Stacks: []bool{false, true},
		Series: []Series{
			{Key: []Label{0, 2}, Values: []float64{1}},
			{Key: []Label{0, 0}, Values: []float64{2}},
		},
	}
	if got := a.Label(0, 1); got != "main;operator:" {
		t.Errorf("the stack is %q", got)
	}
	if got := a.Label(0, 0); got != "nginx" {
		t.Errorf("the label is %q", got)
	}
	w := a.StacksAsText(nil)
	var got []string
	for i := range w.Series {
		got = append(got, w.Labels[w.Series[i].Key[0]], w.Labels[w.Series[i].Key[1]])
	}
	if want := []string{"nginx", "main;operator:", "nginx", ""}; !slices.Equal(got, want) {
		t.Errorf("the labels are %q, want %q", got, want)
	}
	if w.StacksAsText(nil) != w || len(a.Labels) != 1 || a.Series[0].Key[1] != 2 {
		t.Error("an answer without stacks is not returned unchanged, or the input was modified")
	}
	for _, broken := range [][]Frame{
		{{Symbol: "a", Parent: 0}},
		{{Symbol: "a", Parent: 7}},
		{{Symbol: "a", Parent: 1}, {Symbol: "b", Parent: 0}},
	} {
		if got := FoldedStack(broken, 0); len(got) > 10 {
			t.Errorf("a broken chain is %q", got)
		}
	}
	if got := FoldedStack(frames, 9); got != "" {
		t.Errorf("a missing frame is %q", got)
	}
}
