package network

import (
	"strings"
	"testing"

	"culprit/collect/collecttest"
	"culprit/heapbound"
)

func TestSoftnet(t *testing.T) {
	line := func(packets, drops, squeeze string, rest ...string) string {
		return strings.Join(
			append([]string{packets, drops, squeeze, "0", "0", "0", "0", "0", "0"}, rest...), " ",
		) + "\n"
	}
	m := collecttest.NewMachine(
		t,
		Softnet{},
		map[string]string{
			"proc/net/softnet_stat": line(
				"fffffff0", "0", "1", "2", "3", "0", "0", "0", "0",
			) + line("10", "0", "0", "0", "0", "7", "2"),
		},
	)
	collecttest.Expect(
		t, m.Read(true), "", map[string]float64{"softnet.backlog|0": 0, "softnet.backlog|2": 7},
	)
	m.Put(
		map[string]string{
			"proc/net/softnet_stat": line(
				"00000010", "5", "2", "4", "6", "1", "0", "0", "0",
			) + line("1f", "0", "0", "0", "0", "0", "2"),
		},
	)
	collecttest.Expect(
		t,
		m.Read(false),
		"",
		map[string]float64{
			"softnet.packets|0":   32,
			"softnet.drops|0":     5,
			"softnet.squeezes|0":  1,
			"softnet.rps|0":       2,
			"softnet.flowlimit|0": 3,
			"softnet.backlog|0":   1,
			"softnet.packets|2":   15,
			"softnet.drops|2":     0,
			"softnet.squeezes|2":  0,
			"softnet.rps|2":       0,
			"softnet.flowlimit|2": 0,
			"softnet.backlog|2":   0,
		},
	)
	// A kernel before 5.10: no backlog, no CPU; and a malformed line.
	old := collecttest.NewMachine(
		t,
		Softnet{},
		map[string]string{
			"sys/devices/system/cpu/online": "0,3\n",
			"proc/net/softnet_stat":         line("1", "0", "0", "0", "0") + line("2", "0", "0", "0", "0"),
		},
	)
	old.Read(true)
	old.Put(
		map[string]string{
			"proc/net/softnet_stat": line("2", "0", "0", "0", "0") + line("4", "0", "0", "0", "0") + "zz\n",
		},
	)
	collecttest.Expect(
		t, old.Read(false), "softnet.packets",
		map[string]float64{"softnet.packets|0": 1, "softnet.packets|3": 2},
	)
	if !strings.Contains(old.Notes(), "5.10") {
		t.Errorf("notes %q", old.Notes())
	}
}

func FuzzSoftnet(f *testing.F) {
	f.Add([]byte("00000802 00000000 00000000 00000000 00000000 00000000 00000000 00000000 " +
		"00000000 00000000 00000000 00000000 00000001"))
	f.Add([]byte("1 2 3 4 5 6 7 8 9"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		if l, ok := parseSoftnetLine(b); ok && (l.columns < 9 || l.packets >= 1<<32 || l.cpu < -1) {
			t.Fatalf("%q: %+v", b, l)
		}
	})
}

func BenchmarkSoftnetRead(b *testing.B) { collecttest.BenchmarkRead(b, Softnet{}) }
