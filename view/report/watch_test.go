package report

import (
	"strings"
	"testing"

	"culprit/changes"
	"culprit/diagnose"
)

func TestOutcome(t *testing.T) {
	less := changes.Measure{
		Query: "softirq.time", Unit: "ratio", Before: 0.378, After: 0.021, Changed: true,
	}
	same := changes.Measure{Query: "disk.busy", Unit: "ratio", Before: 0.41, After: 0.43}
	for _, tt := range []struct {
		name string
		o    changes.Outcome
		want string
	}{
		{"gone", changes.Outcome{Seconds: 30, State: changes.Gone, Measures: []changes.Measure{less}},
			"after 30 s: the finding is gone\n  38 % -> 2 % (94 % less)  softirq.time\n"},
		{"gone without a change",
			changes.Outcome{Seconds: 11, State: changes.Gone, Measures: []changes.Measure{same}},
			"after 11 s: the finding is gone, but none of its numbers changed beyond noise: it may " +
				"come back\n  41 % -> 43 % (no change beyond noise)  disk.busy\n"},
		{"remains", changes.Outcome{Seconds: 12, State: changes.Remains, Claim: "full",
			Measures: []changes.Measure{same}},
			"after 12 s: no change beyond noise; the finding remains\n" +
				"  41 % -> 43 % (no change beyond noise)  disk.busy\n"},
		{"remains with less", changes.Outcome{Seconds: 13, State: changes.Remains, Claim: "half full",
			Measures: []changes.Measure{less}},
			"after 13 s: the finding remains: half full\n  38 % -> 2 % (94 % less)  softirq.time\n"},
		{"unknown", changes.Outcome{Seconds: 14, State: changes.Unknown, Claim: "denied"},
			"after 14 s: not checked: denied\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Outcome(&tt.o, 110, false); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestWatched(t *testing.T) {
	text := Watched(&diagnose.Finding{
		ID: "a/b", Claim: "b is full", Fix: &diagnose.Fix{Command: "mend b", Undo: "break b"},
	}, 100, false)
	for _, want := range []string{"before a/b: b is full\n", "fix   mend b\n", "undo  break b\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
}
