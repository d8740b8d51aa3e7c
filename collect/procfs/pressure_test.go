package procfs

import (
	"testing"

	"culprit/heapbound"
)

func TestParsePressure(t *testing.T) {
	type result struct {
		some, full       uint64
		hasSome, hasFull bool
	}
	tests := []struct {
		name, text string
		want       result
	}{
		{"nothing", "", result{}},
		{
			"both", "some avg10=1.69 avg60=8.16 avg300=4.54 total=37\n" +
				"full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", result{37, 0, true, true},
		},
		{"cpu", "some avg10=1.69 total=37", result{37, 0, true, false}},
		{"irq", "full avg10=1.69 total=38", result{0, 38, false, true}},
		{"no number", "some total=\nfull total=x\n", result{}},
		{"not total", "some total-5\nfull totax=7\nmore total=8\n", result{}},
		{"one digit", "some total=5\nfull total=7\n", result{5, 7, true, true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got result
			got.some, got.full, got.hasSome, got.hasFull = ParsePressure([]byte(tt.text))
			if got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
	if got := PressureResources(); len(got) != 4 {
		t.Errorf("resources %v", got)
	}
}

func FuzzPressure(f *testing.F) {
	f.Add([]byte("some avg10=1.69 avg60=8.16 avg300=4.54 total=100\nfull total=3"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		some, full, hasSome, hasFull := ParsePressure(b)
		if !hasSome && some != 0 || !hasFull && full != 0 {
			t.Fatalf("%q: %d %d without their lines", b, some, full)
		}
	})
}
