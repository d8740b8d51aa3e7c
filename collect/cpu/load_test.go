package cpu

import (
	"strings"
	"testing"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/heapbound"
	"culprit/measure"
)

func TestNoPressureNoSchedstat(t *testing.T) {
	m := collecttest.NewMachine(t, Load{}, map[string]string{"proc/loadavg": "0.69 0.41 0.20 " +
		"1/94 13674\n"})
	collecttest.Expect(
		t,
		m.Read(true),
		"",
		map[string]float64{
			"sched.load|1m":  0.69,
			"sched.load|5m":  0.41,
			"sched.load|15m": 0.2,
			"sched.tasks":    94,
		},
	)
	for _, c := range []collect.Collector{Pressure{}, Schedstat{}} {
		if _, err := c.Open(&m.Env, collecttest.WantAll(c)); err == nil ||
			!strings.Contains(err.Error(), "CONFIG_") {
			t.Errorf("%T: %v", c, err)
		}
	}
}

func TestSchedstat(t *testing.T) {
	file := func(a, b string) string {
		return "version 17\ntimestamp 4295101238\ncpu0 0 0 0 0 0 0 159382451538 " + a + " 53092\ndomain0 SMT 03 1 2 3 4\ncpu1 0 0 0 0 0 0 1 " + b + " 5\n"
	}
	m := collecttest.NewMachine(
		t, Schedstat{}, map[string]string{"proc/schedstat": file("1000", "50")},
	)
	m.Read(true)
	m.Put(map[string]string{"proc/schedstat": file("3500", "50")})
	collecttest.Expect(
		t, m.Read(false), "", map[string]float64{"sched.runwait|0": 2500, "sched.runwait|1": 0},
	)
	if notes := m.Notes(); notes != "" {
		t.Errorf("notes %q", notes)
	}
	for name, text := range map[string]string{
		"no CPU": "version 17\n", "a short line": file("1", "2") + "cpu2 0 0 0 0 0 0 1\n",
	} {
		m := collecttest.NewMachine(t, Schedstat{}, map[string]string{"proc/schedstat": text})
		m.Read(true)
		if !strings.Contains(m.Notes(), "/proc/schedstat has a CPU without the time") {
			t.Errorf("%s: notes %q", name, m.Notes())
		}
	}
}

func FuzzLoadFiles(f *testing.F) {
	f.Add([]byte("0.69 0.41 0.20 1/94 13674\n"))
	f.Add([]byte("cpu0 0 0 0 0 0 0 159382451538 5 53092\n"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		parseLoad(b)
		parseSchedstat(b, func(cpu int, _ uint64) {
			if cpu < 0 {
				t.Fatal(cpu)
			}
		})
	})
}

// TestUnreadableNumbersOfStat checks that a malformed number of /proc/stat is unknown: neither 0
// nor the previous one.
func TestUnreadableNumbersOfStat(t *testing.T) {
	whole := "cpu  1 0 0 0 0 0 0 0 0 0\ncpu0 1 0 0 0 0 0 0 0 0 0\nintr 5 1 2\nctxt " +
		"9\nprocesses 7\nprocs_running 2\nprocs_blocked 1\nbtime 6\n"
	for name, id := range map[string]measure.StatID{"processes": "sched.forks", "intr": "system.interrupts", "procs_running": "sched.runnable", "procs_blocked": "sched.blocked", "btime": "system.boot"} {
		for _, value := range []string{"-2049562273", "", "x", "99999999999999999999999"} {
			m := collecttest.NewMachine(t, CPU{}, map[string]string{"proc/stat": whole})
			m.Read(true)
			var text strings.Builder
			for line := range strings.Lines(whole) {
				if strings.HasPrefix(line, name+" ") {
					line = name + " " + value + "\n"
				}
				text.WriteString(line)
			}
			m.Put(map[string]string{"proc/stat": text.String()})
			got := m.Read(false)
			if v, ok := got[string(id)]; ok {
				t.Errorf("%s %q: %s is %v", name, value, id, v)
			}
			if _, ok := got["sched.switches"]; !ok {
				t.Errorf("%s %q: sched.switches is unknown too", name, value)
			}
		}
	}
}
