package cpu

import (
	"errors"
	"testing"

	"culprit/collect/collecttest"
	"culprit/measure"
)

func TestClockSteps(t *testing.T) {
	const second, ms = measure.Second, measure.Millisecond
	var wall, boot, pause measure.Span = 1e9 * second, 7 * second, 1000
	m := collecttest.EmptyMachine(t)
	m.Open(ClockSteps{read: func() (w, b measure.Span, err error) {
		wall, boot = wall+pause, boot+pause
		return wall, boot, nil
	}})
	collecttest.Expect(t, m.Read(true), "", nil)
	for _, tt := range []struct {
		name          string
		step, pause   measure.Span
		forward, back float64
	}{
		{"none", 0, 1000, 0, 0},
		{"forward", 3 * second, 1000, 3e9, 0},
		{"back", -40 * ms, 1000, 0, 40e6},
		{"too small", ms / 2, 1000, 0, 0},
		{"the CPU was lost between the clocks", 2 * ms, 30 * ms, 0, 0},
		{"which the next reading finds", 0, 1000, 2e6, 0},
		{"a large one while the CPU is lost", second, 30 * ms, 1e9, 0},
	} {
		wall, pause = wall+second+tt.step, tt.pause
		boot += second
		rows := m.Read(false)
		for direction, want := range map[string]float64{"forward": tt.forward, "back": tt.back} {
			if got, ok := rows["system.clock.steps|"+direction]; !ok || got != want {
				t.Errorf("%s: %s %v, want %v", tt.name, direction, got, want)
			}
		}
	}
}

func TestClocksOfThisMachine(t *testing.T) {
	m := collecttest.EmptyMachine(t)
	m.Open(ClockSteps{})
	m.Read(true)
	if rows := m.Read(false); len(rows) != 2 { // somebody may set the clock just now
		t.Errorf("rows %v, want both directions", rows)
	}
}

func TestClocksThatCannotBeRead(t *testing.T) {
	bad := errors.New("bad")
	m := collecttest.EmptyMachine(t)
	err := m.TryOpen(ClockSteps{read: func() (measure.Span, measure.Span, error) {
		return 0, 0, bad
	}})
	if !errors.Is(err, bad) {
		t.Errorf("error %v, want %v", err, bad)
	}
}
