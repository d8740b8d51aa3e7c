package diagnose

import "testing"

// A note is left out only when it explains nothing but what is in "Not checked".
func TestNotesThatRepeatMissing(t *testing.T) {
	tables := map[string]*Table{
		"heat":  {notes: []string{"no sensor", "all are read late"}},
		"clock": {notes: []string{"no driver"}},
		"cpu":   {notes: []string{"all are read late", "no ticks"}, rows: 2},
		"disk":  {notes: []string{"no disk"}},
	}
	looks := []*Look{
		{rule: &Rule{Uses: []string{"heat", "clock"}}, unchecked: true},
		{rule: &Rule{Needs: []string{"cpu"}, Uses: []string{"clock"}}},
		{rule: &Rule{Finds: []string{"disk"}}},
	}
	drop := repeatsMissing(looks, tables)
	for note, want := range map[string]bool{
		"no sensor": true, "all are read late": false, "no driver": false, "no ticks": false,
		"no disk": false, "of no statistic": false,
	} {
		if drop(note) != want {
			t.Errorf("note %q is left out: %v, want %v", note, !want, want)
		}
	}
}
