package process

import (
	"fmt"
	"strings"
	"testing"

	"culprit/collect/collecttest"
	"culprit/heapbound"
)

// placed returns the stat line of a process on CPU 3 with a policy and a priority.
func placed(p fakeProcess, policy, priority int) map[string]string {
	w := strings.Fields(p.stat())
	w[38], w[39], w[40] = "3", fmt.Sprint(priority), fmt.Sprint(policy)
	return map[string]string{fmt.Sprintf("proc/%d/stat", p.pid): strings.Join(w, " ") + "\n"}
}

func allowedFile(pid int, list string) map[string]string {
	return map[string]string{fmt.Sprintf("proc/%d/status", pid): "Name:\tx\nUid:\t0\t1\t2\t3\n" +
		"Cpus_allowed:\tff\nCpus_allowed_list:\t" + list + "\nMems_allowed_list:\t0\n" +
		"voluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t8\n"}
}

func TestPlacement(t *testing.T) {
	bound := fakeProcess{pid: 7, comm: "bound", start: 600}
	quick := fakeProcess{pid: 8, comm: "quick", start: 600}
	kernel := fakeProcess{pid: 9, comm: "kworker/3:1", start: 1, flags: flagKernelThread}
	m := newProcessMachine(t, merge(
		bound.files("50 6 7", 1, 2, 3), placed(bound, 0, 0), allowedFile(7, "1,3-5"),
		quick.files("50 6 7", 1, 2, 3), placed(quick, 0, 0), allowedFile(8, "1"),
		kernel.files("50 6 7", 1, 2, 3), placed(kernel, 0, 0), allowedFile(9, "3")))
	if rows := m.Read(true); len(matching(rows, "process.placement")) > 0 {
		t.Errorf("the first reading does not know what waited: %v", rows)
	}
	// 60 ms, 40 ms and 70 ms of a second
	m.Put(map[string]string{"proc/7/schedstat": "51 60000006 8\n",
		"proc/8/schedstat": "51 40000006 8\n", "proc/9/schedstat": "51 70000006 8\n"})
	collecttest.Expect(t, m.next(), "process.placement", map[string]float64{
		"process.placement|7|bound|3|1,3-5":  1,
		"process.placement|9|kworker/3:1|3|": 1,
	})
}

func TestRealtime(t *testing.T) {
	for _, tt := range []struct {
		name             string
		policy, priority int
		want             map[string]float64
	}{
		{"FIFO", 1, 40, map[string]float64{"thread.realtime|7|audio|7|audio|FIFO|3": 40}},
		{"RR", 2, 1, map[string]float64{"thread.realtime|7|audio|7|audio|RR|3": 1}},
		{"DEADLINE", 6, 0, map[string]float64{"thread.realtime|7|audio|7|audio|DEADLINE|3": 0}},
		{"normal", 0, 0, nil},
		{"batch", 3, 0, nil},
		{"idle", 5, 0, nil},
		{"ext", 7, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fakeProcess{pid: 7, comm: "audio", start: 600}
			m := newProcessMachine(t, merge(p.files("50 6 7", 1, 2, 3),
				placed(p, tt.policy, tt.priority)))
			m.Read(true)
			m.Put(map[string]string{"proc/7/schedstat": "51 6 8\n"})
			collecttest.Expect(t, m.next(), "thread.realtime", tt.want)
			collecttest.Expect(t, m.next(), "thread.realtime", nil) // it did not run
		})
	}
}

func TestSleepers(t *testing.T) {
	pinger := fakeProcess{pid: 7, comm: "pinger", start: 600}
	calm := fakeProcess{pid: 8, comm: "calm", start: 600}
	m := newProcessMachine(t, merge(pinger.files("50 6 7", 10, 2, 3),
		calm.files("50 6 7", 10, 2, 3), map[string]string{"proc/7/wchan": "anon_pipe_read",
			"proc/8/wchan": "anon_pipe_read"}))
	m.Read(true)
	m.Put(merge(pinger.files("51 6 8", 2100, 2, 3), calm.files("51 6 8", 1900, 2, 3)))
	collecttest.Expect(t, m.next(), "process.sleepers", map[string]float64{
		"process.sleepers|7|pinger|anon_pipe_read": 1})
	m.Put(merge(pinger.files("52 6 9", 5000, 2, 3), map[string]string{"proc/7/wchan": "0"}))
	collecttest.Expect(t, m.next(), "process.sleepers", nil)
}

// Threads that use one CPU together are sampled though they switch rarely; those that use more are
// not.
func TestSleepersInTurn(t *testing.T) {
	files := map[string]string{}
	for _, p := range []fakeProcess{{pid: 7, comm: "ruby", threads: 2, start: 600},
		{pid: 8, comm: "build", threads: 2, start: 600}} {
		files = merge(files, p.files("50 6 7", 1, 2, 3))
		for tid := p.pid; tid <= 10*p.pid; tid += 9 * p.pid {
			name := fmt.Sprintf("proc/%d/task/%d/", p.pid, tid)
			files = merge(files, map[string]string{name + "wchan": "futex_wait_queue",
				name + "stat":      fakeProcess{pid: tid, comm: "t", start: 600}.stat(),
				name + "schedstat": "50 6 7\n",
				name + "status": "voluntary_ctxt_switches:\t3\n" +
					"nonvoluntary_ctxt_switches:\t4\n"})
		}
	}
	m := newProcessMachine(t, files)
	m.Read(true)
	use := func(pid, ticks int, comm string) map[string]string {
		const half = "500000050 6 8\n"
		p := fakeProcess{pid: pid, comm: comm, threads: 2, start: 600, usr: ticks}
		th := fakeProcess{pid: 10 * pid, comm: "t", start: 600, usr: ticks / 2}
		return map[string]string{
			fmt.Sprintf("proc/%d/task/%d/stat", pid, 10*pid):      th.stat(),
			fmt.Sprintf("proc/%d/task/%d/stat", pid, pid):         th.stat(),
			fmt.Sprintf("proc/%d/task/%d/schedstat", pid, pid):    half,
			fmt.Sprintf("proc/%d/task/%d/schedstat", pid, 10*pid): half,
			fmt.Sprintf("proc/%d/schedstat", pid):                 half,
			fmt.Sprintf("proc/%d/stat", pid):                      p.stat()}
	}
	m.Put(merge(use(7, 100, "ruby"), use(8, 150, "build")))
	collecttest.Expect(t, m.next(), "process.sleepers", map[string]float64{
		"process.sleepers|7|ruby|futex_wait_queue": 2})
}

func TestWaitingSleepers(t *testing.T) {
	writer := fakeProcess{pid: 7, comm: "writer", start: 600, state: "D"}
	idle := fakeProcess{pid: 8, comm: "idle", start: 600, state: "D"}
	calm := fakeProcess{pid: 9, comm: "calm", start: 600}
	wchans := map[string]string{"proc/7/wchan": "balance_dirty_pages",
		"proc/8/wchan": "rpc_wait_bit_killable", "proc/9/wchan": "ep_poll"}
	m := newProcessMachine(t, merge(writer.files("50 6 7", 10, 2, 3),
		idle.files("50 6 7", 10, 2, 3), calm.files("50 6 7", 10, 2, 3), wchans))
	m.Read(true)
	m.Put(merge(writer.files("51 6 8", 14, 2, 3), calm.files("51 6 8", 14, 2, 3)))
	collecttest.Expect(t, m.next(), "process.sleepers", map[string]float64{
		"process.sleepers|7|writer|balance_dirty_pages": 1}) // idle did not run: process.blocked
	writer.state = "S"
	m.Put(writer.files("52 6 9", 18, 2, 3))
	collecttest.Expect(t, m.next(), "process.sleepers", nil)
}

func TestParseAllowed(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a list", allowedFile(7, "0-3,8")["proc/7/status"], "0-3,8"},
		{"another line of the same end", "x\nMems_Cpus_allowed_list:\t5\n", ""},
		{"the mask", "x\nCpus_allowed:\t5\n", ""},
		{"no list", "x\nCpus_allowed_list:\t0-x\n", ""},
		{"hidden in a list", "x\nCpus_allowed_list:\t0-\x1b[1m1\n", ""},
		{"too long", "x\nCpus_allowed_list:\t" + strings.Repeat("1,", 300) + "2\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(parseAllowed([]byte(tt.text))); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzParseAllowed(f *testing.F) {
	f.Add([]byte(allowedFile(7, "0-3,8")["proc/7/status"]))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		if got := parseAllowed(b); strings.Trim(string(got), "0123456789,-") != "" {
			t.Errorf("%q", got)
		}
	})
}
