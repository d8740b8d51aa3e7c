package diagnose

import (
	"testing"

	"culprit/measure"
)

// TestLongest: the length of a diagnosis is the longest measured time, which claims state.
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
