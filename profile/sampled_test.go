package profile

import (
	"slices"
	"testing"
)

// TestSampledFunctionsByAddress checks that functions distinguished only by address stay separate,
// and that the offset within one is not part of its name.
func TestSampledFunctionsByAddress(t *testing.T) {
	tree := FromSamples(slices.Values([]Sampled{
		{Process: "app", User: []string{"app`[app+0x1240]", "app`main+0x7"}, Count: 7, Amount: 7},
		{Process: "app", User: []string{"app`[app+0x1280]+0x3", "app`main+0x9"}, Count: 3,
			Amount: 3},
		{Process: "app", User: []string{"app`[app+0x1280]", "app`main"}, Count: 2, Amount: 2},
	}), SampleTimes{})
	var names []string
	for _, f := range tree.Functions {
		names = append(names, f.Name)
	}
	for _, want := range []string{"[app+0x1240]", "[app+0x1280]", "main"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %q", want, names)
		}
	}
	if tree.Len() != 5 {
		t.Errorf("%d calls: %q", tree.Len(), names)
	}
}
