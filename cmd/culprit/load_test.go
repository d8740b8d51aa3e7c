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

// TestLoadMachine checks the functions of the machine that a load test uses.
func TestLoadMachine(t *testing.T) {
	known := catalogue()
	for _, s := range load.Queries() {
		if q, err := known.Parse(s); err != nil || known.Stat(q.Stat).Traced {
			t.Errorf("%s is traced, or not a query: %v", s, err)
		}
	}
	m := loadMachine()
	if m.ID == "" {
		t.Error("the machine has no ID: two ends on one machine would not be recognized")
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
		t.Errorf("a diagnosis of 0.3 s, which is too short for levels: %s, %v", report, err)
	}
}
