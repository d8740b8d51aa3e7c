package rules

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"culprit/diagnose"
	"culprit/measure"
)

// TestHiddenWork: hidden CPU time belongs to short-lived processes only when enough of them start
// and all would be visible, or when their parents account for it.
func TestHiddenWork(t *testing.T) {
	for _, tt := range []struct {
		name, forks, children string
		partial, short        bool
	}{
		{"a shell loop", "2600", "0", false, true},
		{"one start a second", "1", "0", false, false},
		{"just too few", "7", "0", false, false},
		{"just enough", "8", "0", false, true},
		{"starts, and others out of sight", "2600", "0", true, false},
		{"others out of sight, and parents that account for it", "2600", "3.5", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := readCanned(t, "testdata/cpu-saturated/fires-short-lived.txt", nil)
			c.stats["sched.forks"] = &cannedStat{rows: []cannedRow{{nil, []string{tt.forks}}}}
			c.stats["process.short"] = &cannedStat{rows: []cannedRow{{[]string{"4711", "bash"},
				[]string{tt.children}}}}
			if tt.partial {
				c.stats["process.visibility"] = &cannedStat{rows: []cannedRow{{[]string{"some",
					"hidepid"}, []string{"1"}}}}
			}
			rep, err := diagnose.Run(context.Background(), c, Set(), c.over(), c.step)
			if err != nil || len(rep.Findings) != 1 {
				t.Fatalf("%d findings, %v", len(rep.Findings), err)
			}
			if short := strings.Contains(rep.Findings[0].Claim, "short-lived"); short != tt.short {
				t.Errorf("short-lived: %v, want %v: %s", short, tt.short, rep.Findings[0].Claim)
			}
		})
	}
}

// TestWordingDecidesNothing: the findings, the checks and the resources ruled out do not depend on
// the text of notes, only on whether there are any.
func TestWordingDecidesNothing(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txt")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	words := []string{"x", "not all processes of this machine can be seen: /proc is mounted with " +
		"hidepid", measure.UnreadProcesses(),
		"this kernel does not count it", "/proc could not be read"}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			var first string
			for i, note := range words {
				c := readCanned(t, file, nil)
				// one in three has a note that depends on i, and so has each that had one
				for id, s := range c.stats {
					other := *s
					if len(s.notes) > 0 || len(id)%3 == i%3 {
						other.notes = []string{note + " (" + id + ")"}
					}
					c.stats[id] = &other
				}
				rep, err := diagnose.Run(context.Background(), c, Set(), c.over(), c.step)
				if err != nil {
					t.Fatal(err)
				}
				got := decisions(rep)
				if i == 0 {
					first = got
				} else if got != first {
					t.Errorf("with the note %q:\n%s\nwith the note %q:\n%s", words[0], first, note,
						got)
				}
			}
		})
	}
}

// decisions returns a report without the texts about missing things.
func decisions(rep *diagnose.Report) string {
	text := ""
	for _, f := range rep.Findings {
		text += fmt.Sprintln(f.ID, f.Severity, f.Confidence, f.Claim, f.Against)
	}
	for _, m := range rep.Missing {
		text += fmt.Sprintln("missing", m.Rule, m.Statistic)
	}
	return text + fmt.Sprintln(rep.Checked, rep.Fine, rep.Doubtful)
}
