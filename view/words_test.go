package view

import (
	"testing"

	"culprit/measure"
)

func TestWords(t *testing.T) {
	for _, tt := range []struct{ id, want string }{
		{"net.device.bytes", "Network|interfaces|bytes"},
		{"net.device.errors.detail", "Network|interfaces|errors by reason"},
		{"tcp.flow.rtt", "TCP|connections|round trip"},
		{"memory.size", "Memory||size"},
		{"script.my_thing.some_count", "script|my_thing|some count"},
		{"alone", "alone||"},
	} {
		subsystem, thing, quantity := Words(measure.StatID(tt.id))
		if got := subsystem + "|" + thing + "|" + quantity; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.id, got, tt.want)
		}
	}
}
