package diagnose

import (
	"context"
	"testing"

	"culprit/measure"
)

// A look is as long as what was measured for the longest: the claims speak of that.
func TestLongest(t *testing.T) {
	tables := map[string]*Table{
		"process.cpu": {Seconds: []float64{1.4, 1.4, 1.4}},
		"cpu.time":    {Seconds: []float64{12.5, 1.4, 1.4}},
		"memory.oom":  {},
	}
	if got := longest(tables); got < 15*measure.Second || got > 16*measure.Second {
		t.Errorf("%v s, want 15.3", got.Seconds())
	}
}

// TestUnreadProcessesAreToldOnce: that some processes may not be looked into is told once, and only
// where a finding rests on a statistic that they are missing from.
func TestUnreadProcessesAreToldOnce(t *testing.T) {
	for _, tt := range []struct {
		name, machine string
		want          int
	}{{"nothing is found", "testdata/quiet.txt", 0}, {"a link is full", "testdata/table-full/fires.txt", 0},
		{"a disk is full", "testdata/disk-saturated/fires.txt", 1}} {
		t.Run(tt.name, func(t *testing.T) {
			c := readCanned(t, tt.machine, nil)
			for _, id := range []string{"process.io", "tcp.flow.bytes", "tcp.flow.rtt"} {
				s := *c.stats[id]
				s.notes = []string{measure.UnreadProcesses()}
				c.stats[id] = &s
			}
			rep, err := Run(context.Background(), c, c.over(), c.step)
			if err != nil {
				t.Fatal(err)
			}
			if len(rep.Notes) != tt.want {
				t.Errorf("notes %q, want %d", rep.Notes, tt.want)
			}
		})
	}
}
