package diagnose

import (
	"context"
	"strings"
	"testing"

	"culprit/measure"
)

// TestHiddenWork: CPU time that no process seen has used is that of short-lived ones only where enough
// of them start and all would be seen, or where their parents account for it.
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
			c.stats["process.short"] = &cannedStat{rows: []cannedRow{{[]string{"4711", "bash"}, []string{tt.children}}}}
			if tt.partial {
				s := *c.stats["process.cpu"]
				s.notes = []string{measure.PartInSight + "/proc is mounted with hidepid"}
				c.stats["process.cpu"] = &s
			}
			rep, err := Run(context.Background(), c, c.over(), c.step)
			if err != nil || len(rep.Findings) != 1 {
				t.Fatalf("%d findings, %v", len(rep.Findings), err)
			}
			if short := strings.Contains(rep.Findings[0].Claim, "short-lived"); short != tt.short {
				t.Errorf("short-lived: %v, want %v: %s", short, tt.short, rep.Findings[0].Claim)
			}
		})
	}
}
