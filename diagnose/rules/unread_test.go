package rules

import (
	"context"
	"testing"

	"culprit/diagnose"
	"culprit/measure"
)

// TestUnreadProcessesAreNotedOnce: the note about processes that could not be read appears once,
// and only when a finding rests on a statistic that lacks them.
func TestUnreadProcessesAreNotedOnce(t *testing.T) {
	for _, tt := range []struct {
		name, machine string
		want          int
	}{{"nothing is found", "testdata/quiet.txt", 0},
		{"a link is full", "testdata/table-full/fires.txt", 0},
		{"a disk is full", "testdata/disk-saturated/fires.txt", 1}} {
		t.Run(tt.name, func(t *testing.T) {
			c := readCanned(t, tt.machine, nil)
			for _, id := range []string{"process.io", "tcp.flow.bytes", "tcp.flow.rtt"} {
				s := *c.stats[id]
				s.notes = []string{measure.UnreadProcesses()}
				c.stats[id] = &s
			}
			rep, err := diagnose.Run(context.Background(), c, Set(), c.over(), c.step)
			if err != nil {
				t.Fatal(err)
			}
			if len(rep.Notes) != tt.want {
				t.Errorf("notes %q, want %d", rep.Notes, tt.want)
			}
		})
	}
}
