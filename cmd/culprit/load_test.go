package main

import (
	"context"
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"culprit/load"
	"culprit/measure"
)

// TestLoadMachine: what a load test asks of a machine it gets of this one.
func TestLoadMachine(t *testing.T) {
	c := catalogue()
	for _, s := range load.Queries() {
		if q, err := c.Parse(s); err != nil || c.Stat(q.Stat).Traced {
			t.Errorf("%s is traced, or no sentence: %v", s, err)
		}
	}
	m := loadMachine()
	if m.ID == "" {
		t.Error("two ends on one machine can't tell")
	}
	for _, address := range []string{"127.0.0.1", "127.0.0.7"} {
		a := netip.MustParseAddr(address)
		if device, err := m.Device(a, a); device != "lo" || err != nil {
			t.Errorf("packets to %s leave through %q, %v", address, device, err)
		}
	}
	if device, err := m.Device(netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fe80::1%lo")); device != "lo" ||
		err != nil {
		t.Errorf("packets to a link-local address leave through %q, %v", device, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	report, err := m.Diagnose(ctx, 300*measure.Millisecond)
	var read struct {
		Findings []any
		Missing  []any
	}
	if err != nil || json.Unmarshal(report, &read) != nil || read.Findings == nil ||
		len(read.Missing) == 0 {
		t.Errorf("a look of 0.3 s, in which no state can be told, gives %s, %v", report, err)
	}
}
