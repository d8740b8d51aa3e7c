package network

import (
	"math"
	"testing"
)

func TestWireBytes(t *testing.T) {
	for _, c := range []struct {
		name                            string
		bytes, packets, overhead, least float64
		mtu                             uint32
		want                            float64
	}{
		{"one super-frame of 45 segments", 65226, 1, 24, 60, 1500, 69210},
		{"the same as a qdisc counts it", 65226, 1, 0, 0, 1500, 45 * 1514},
		{"full frames", 1514 * 1000, 1000, 24, 60, 1500, 1538 * 1000},
		{"full frames in a VLAN", 1518 * 1000, 1000, 24, 60, 1500, 1542 * 1000},
		{"frames below the least are padded", 43 * 10, 10, 24, 60, 1500, 84 * 10},
		{"jumbo frames", 9014 * 10, 10, 24, 60, 9000, 9038 * 10},
		{"nothing", 0, 0, 24, 60, 1500, 0},
		{"an MTU that can't be", 65226, 1, 24, 60, 0, 65250},
	} {
		if got := wireBytes(c.bytes, c.packets, c.mtu, c.overhead, c.least); math.Abs(
			got-c.want,
		) > 1e-6 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if !math.IsNaN(wireBytes(math.NaN(), 1, 1500, 24, 60)) {
		t.Error("what was not measured was estimated")
	}
}

func TestModeSpeed(t *testing.T) {
	for name, want := range map[string]float64{"1000baseT/Full": 1e9, "2500baseX/Full": 2.5e9, "10baseT1L/Full": 1e7, "800000baseCR8/Full": 8e11,
		"10000baseR_FEC": 1e10, "Autoneg": 0, "TP": 0, "Asym_Pause": 0, "": 0, "1000": 0, "base": 0, "99999999999base": 0} {
		if got := modeSpeed([]byte(name)); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestDisciplineAndDeviceAgree(t *testing.T) {
	for _, c := range []struct {
		name                                      string
		qBytes, qPackets, bytes, packets, dropped float64
		want                                      bool
	}{
		{"super-frames", 45 * 1514, 45, 65226, 1, 0, true},
		{"single frames", 1514e3, 1e3, 1514e3, 1e3, 0, true},
		{"a few are under way", 1524e3, 1007, 1514e3, 1e3, 0, true},
		{"half were thrown away", 2 * 1514e3, 2e3, 1514e3, 1e3, 0, false},
		{"small ones were thrown away", 2 * 60e3, 2e3, 60e3, 1e3, 1e3, false},
		{"all were thrown away", 1514e3, 1e3, 0, 0, 0, false},
		{"past the discipline", 100, 1, 1514e3, 1e3, 0, false},
		{"nothing", 0, 0, 0, 0, 0, false},
	} {
		if got := agree(c.qBytes, c.qPackets, c.bytes, c.packets, c.dropped); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
