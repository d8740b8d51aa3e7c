package process

import (
	"fmt"
	"strings"
	"testing"

	"culprit/collect/collecttest"
	"culprit/heapbound"
)

// withPolicy returns the stat line of a process with a policy.
func withPolicy(p fakeProcess, policy int) map[string]string {
	w := strings.Fields(p.stat())
	w[40] = fmt.Sprint(policy)
	return map[string]string{fmt.Sprintf("proc/%d/stat", p.pid): strings.Join(w, " ") + "\n"}
}

// TestWeights: processes that used a CPU or waited for one have a row; calm is below 5 %.
func TestWeights(t *testing.T) {
	victim := fakeProcess{pid: 7, comm: "victim", start: 600, nice: 19}
	hog := fakeProcess{pid: 8, comm: "hog", start: 600, nice: -5}
	calm := fakeProcess{pid: 9, comm: "calm", start: 600}
	m := newProcessMachine(t, merge(
		victim.files("50 6 7", 1, 2, 3), withPolicy(victim, 3), allowedFile(7, "1"),
		hog.files("50 6 7", 1, 2, 3), allowedFile(8, "0-3"),
		calm.files("50 6 7", 1, 2, 3), allowedFile(9, "0-3"),
		map[string]string{
			"proc/sys/kernel/sched_autogroup_enabled": "1\n",
			"proc/7/cgroup":    "9:name=systemd:/s\n2:cpuacct:/x\n1:cpu,cpuset:/batch\n0::/u\n",
			"proc/7/autogroup": "/autogroup-25 nice -3\n",
			"proc/8/cgroup":    "9:name=systemd:/s\n0::/web/api\n",
			"proc/8/autogroup": "",
		}))
	if rows := m.Read(true); len(matching(rows, "process.weight")) > 0 {
		t.Errorf("the first reading does not know what waited: %v", rows)
	}
	// 900 ms of waits, 800 ms of CPU time, 20 ms of each
	hog.usr, calm.usr = 80, 2
	m.Put(merge(hog.files("50 6 7", 1, 2, 3), calm.files("50 6 7", 1, 2, 3),
		map[string]string{"proc/7/schedstat": "51 900000006 8\n",
			"proc/8/schedstat": "800000050 6 8\n", "proc/9/schedstat": "20000050 20000006 8\n"},
		allowedFile(8, "0-3"), allowedFile(9, "0-3"),
		map[string]string{"proc/8/cgroup": "9:name=systemd:/s\n0::/web/api\n"}))
	collecttest.Expect(t, m.next(), "process.weight", map[string]float64{
		"process.weight|7|victim|BATCH|19|/batch|25:-3|1": 15,
		"process.weight|8|hog|OTHER|-5|/web/api||0-3":     3121,
	})
}

// TestWeightOfPolicies: without autogroup its files are not read.
func TestWeightOfPolicies(t *testing.T) {
	for _, tt := range []struct {
		policy, nice int
		want         string
		weight       float64
	}{{0, 0, "OTHER|0", 1024}, {5, 7, "IDLE|7", 3}, {1, 0, "FIFO|0", 0}, {6, 0, "DEADLINE|0", 0},
		{7, 10, "EXT|10", 110}, {0, -20, "OTHER|-20", 88761}} {
		t.Run(tt.want, func(t *testing.T) {
			p := fakeProcess{pid: 7, comm: "x", start: 600, nice: tt.nice}
			m := newProcessMachine(t, merge(p.files("50 6 7", 1, 2, 3),
				withPolicy(p, tt.policy), map[string]string{"proc/7/cgroup": "0::/\n",
					"proc/sys/kernel/sched_autogroup_enabled": "0\n",
					"proc/7/autogroup":                        "/autogroup-25 nice 0\n"}))
			m.Read(true)
			m.Put(map[string]string{"proc/7/schedstat": "51 500000006 8\n"})
			collecttest.Expect(t, m.next(), "process.weight", map[string]float64{
				"process.weight|7|x|" + tt.want + "|/||": tt.weight})
		})
	}
}

func TestCPUGroup(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"version 2", "0::/user.slice/a:b\n", "/user.slice/a:b"},
		{"version 1", "4:memory:/m\n3:cpu,cpuacct:/c\n", "/c"},
		{"both", "0::/u\n3:cpuacct,cpu:/c\n", "/c"},
		{"no controller", "2:cpuacct:/c\n1:cpuset:/s\n", ""},
		{"no path", "3:cpu:\n0::\n", ""},
		{"malformed", "0:/x\ncpu\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(cpuGroup([]byte(tt.text))); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestParseAutogroup(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"/autogroup-25 nice 0\n", "25:0"},
		{"/autogroup-1 nice -20\n", "1:-20"},
		{"", ""},
		{"/autogroup-25\n", ""},
		{"/autogroup- nice 0\n", ""},
		{"/autogroup-2x nice 0\n", ""},
		{"/autogroup-2 nice \x1b\n", ""},
		{"/autogroup-" + strings.Repeat("1", 40) + " nice 0\n", ""},
	} {
		t.Run(tt.text, func(t *testing.T) {
			if got := string(parseAutogroup([]byte(tt.text))); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzCPUGroup(f *testing.F) {
	f.Add([]byte("9:name=systemd:/s\n1:cpu,cpuset:/batch\n0::/u\n/autogroup-25 nice 0\n"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		if got := cpuGroup(b); len(got) > len(b) {
			t.Errorf("%q", got)
		}
		if got := parseAutogroup(b); strings.Trim(string(got), "-0123456789:") != "" {
			t.Errorf("%q", got)
		}
	})
}
