package cpu

import (
	"fmt"
	"testing"

	"culprit/collect/collecttest"
)

// TestSoftirqs reads counters that grow each by another prime, wrap at 2^32, rest, and lose and
// regain a CPU. A softirq that was not there before has no growth.
func TestSoftirqs(t *testing.T) {
	file := func(cpus string, lines ...string) map[string]string {
		text := "                    " + cpus + "\n"
		for _, l := range lines {
			text += "          " + l + "\n"
		}
		return map[string]string{"proc/softirqs": text}
	}
	m := collecttest.NewMachine(
		t, Softirqs{}, file("CPU0 CPU1", "TIMER: 10 20", "NET_RX: 4294967290 40"),
	)
	collecttest.Expect(t, m.Read(true), "", nil)
	for n, step := range []struct {
		files map[string]string
		want  map[string]float64
	}{
		{
			file("CPU0 CPU1", "TIMER: 12 23", "NET_RX: 5 47"),
			map[string]float64{"0|TIMER": 2, "1|TIMER": 3, "0|NET_RX": 11, "1|NET_RX": 7},
		},
		{
			file("CPU0 CPU1", "TIMER: 12 36", "NET_RX: 5 47"), map[string]float64{"1|TIMER": 13},
		},
		{
			file("CPU0 CPU1", "TIMER: 12 36", "SCHED: 50 60"), nil,
		},
		{
			file("CPU0 CPU1", "TIMER: 13 38", "SCHED: 67 79"),
			map[string]float64{"0|TIMER": 1, "1|TIMER": 2, "0|SCHED": 17, "1|SCHED": 19},
		},
	} {
		m.Put(step.files)
		want := map[string]float64{}
		for row, v := range step.want {
			want["softirq.count|"+row] = v
		}
		t.Run(fmt.Sprint("reading ", n+2), func(t *testing.T) {
			collecttest.Expect(t, m.Read(false), "", want)
		})
	}
}
