package process

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"culprit/collect/collecttest"
	"culprit/collect/procfs"
	"culprit/measure"
)

// madeUp is a process of a test. Fields of its stat line that are not read have distinct numbers,
// so that a wrong column shows.
type madeUp struct {
	pid, parent               int
	comm                      string
	state                     string
	minor, cminor, major      int
	usr, sys, cusr, csys      int
	threads, start, rss, wait int
	flags                     int
}

func (m madeUp) stat() string {
	if m.state == "" {
		m.state = "S"
	}
	if m.threads == 0 {
		m.threads = 1
	}
	return fmt.Sprintf(
		"%d (%s) %s %d 901 902 903 -1 %d %d %d %d 904 %d %d %d %d 20 0 %d 0 %d "+
			"905 %d 906 907 908 909 910 911 912 913 914 915 916 917 918 17 919 0 0 %d 920 921\n",
		m.pid,
		m.comm,
		m.state,
		m.parent,
		m.flags,
		m.minor,
		m.cminor,
		m.major,
		m.usr,
		m.sys,
		m.cusr,
		m.csys,
		m.threads,
		m.start,
		m.rss,
		m.wait,
	)
}

// hostileNames can all be set with prctl(PR_SET_NAME).
func hostileNames() []string {
	return []string{
		"a b",
		"a) S 1 (b",
		") R 9 9 9 9 9 9",
		"line\nline",
		"((((",
		"))))",
		"",
		"\xff\xfe",
		"\x1b[31m",
		"%s%n",
		"tab\t",
	}
}

func TestParseProcStat(t *testing.T) {
	for _, name := range append(hostileNames(), "systemd") {
		m := madeUp{
			pid:     7,
			parent:  3,
			comm:    name,
			state:   "D",
			minor:   11,
			cminor:  12,
			major:   13,
			usr:     14,
			sys:     15,
			cusr:    16,
			csys:    17,
			threads: 18,
			start:   19,
			rss:     20,
			wait:    21,
		}
		var s procStat
		if !s.parseStat([]byte(m.stat())) {
			t.Errorf("%q: not read", name)
			continue
		}
		want := procStat{
			state:      'D',
			parent:     3,
			minor:      11,
			childMinor: 12,
			major:      13,
			usr:        14,
			sys:        15,
			childUsr:   16,
			childSys:   17,
			threads:    18,
			start:      19,
			rss:        20,
			blkio:      21,
			hasBlkio:   true,
		}
		if string(s.comm) != name {
			t.Errorf("name %q, want %q", s.comm, name)
		}
		s.comm = nil
		if fmt.Sprint(s) != fmt.Sprint(want) {
			t.Errorf("%q:\n got %+v\nwant %+v", name, s, want)
		}
	}
	whole := madeUp{pid: 7, comm: "x", start: 5}.stat()
	cut := strings.Index(whole, " 906")
	for _, bad := range []string{"", "7", "7 (", "7 (x", "7 x) S", "7 (x)", "7 (x) ", "7 (x) SS 1", whole[:40], strings.Replace(whole, " 901 ", " 901 x ", 1), strings.Replace(whole, "905", "99999999999999999999999", 1)[:20]} {
		var s procStat
		if s.parseStat([]byte(bad)) {
			t.Errorf("%q was read as a stat line", bad)
		}
	}
	var s procStat
	if !s.parseStat([]byte(whole[:cut])) || s.hasBlkio {
		t.Error("a line that ends behind rss is enough, without a disk wait")
	}
}

func TestKernelWorkersKeepTheirNames(t *testing.T) {
	for comm, want := range map[string]string{"kworker/0:1-events": "kworker/0:1", "kworker/u8:3+flush-254:0": "kworker/u8:3", "kworker/1:0H": "kworker/1:0H", "kworker/R-rcu_g": "kworker/R-rcu_g"} {
		s := procStat{comm: []byte(comm), worker: !strings.Contains(comm, "/R-")}
		if got := string(stableName(&s)); got != want {
			t.Errorf("%s: %s, want %s", comm, got, want)
		}
	}
	if got := string(stableName(&procStat{comm: []byte("kworker/9-fake")})); got != "kworker/9-fake" {
		t.Errorf("a program that calls itself so: %s", got)
	}
}

func TestParseCgroup(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/a.service\n": "/system.slice/a.service",
		"0::/\n":                       "/",
		"9:name=systemd:/x\n4:memory:/m\n1:cpu,cpuacct:/c\n0::/\n": "/c",
		"9:name=systemd:/x\n4:memory:/m\n1:cpu,cpuacct:/\n0::/\n":  "/m",
		"9:name=systemd:/x\n1:cpu:/\n":                             "/x",
		"5:rdma:/only\n0::/\n":                                     "/",
		"1:cpu:/c\n0::/unified\n":                                  "/unified",
		"0::/with:colon\n":                                         "/with:colon",
		"":                                                         "",
		"nonsense\n":                                               "",
		"0::/gone (deleted)\n":                                     "/gone (deleted)",
	} {
		if got := string(parseCgroup([]byte(text), cgroupControllers())); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestCleanText(t *testing.T) {
	for text, want := range map[string]string{
		"ls\x00-l\x00":             "ls -l",
		"a\nb\tc":                  "a b c",
		"\x1b[31mred":              "?[31mred",
		"\xff":                     "\ufffd",
		"caf\u00e9":                "caf\u00e9",
		"\u009b31m":                "?31m",
		"setproctitle\x00\x00\x00": "setproctitle",
		"":                         "",
	} {
		if got := string(appendCommand(nil, []byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestParsePasswd(t *testing.T) {
	names := map[uint32]string{}
	parsePasswd([]byte("root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:\n# "+
		"no\n+@nis:::::\nbad\nworse:x:-1:\nalice:x:1000:1000\n\nhuge:x:99999999999:\n"), names)
	if fmt.Sprint(names) != "map[0:root 1000:alice]" {
		t.Error(names)
	}
}

// A process runs and sleeps at random. The kernel shows ticks that are cut, and sometimes a run
// time that lacks a thread. What the clock returned must always add up to the true time.
func TestClockKeepsToTheTruth(t *testing.T) {
	const ticked = uint64(procfs.TickNanoseconds)
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var u, s, missing uint64 // the true time, and what the run time lacks
		var c cpuClock
		var given [2]uint64
		born := seed%2 == 0
		if !born {
			u, s = rnd.Uint64N(1e12), rnd.Uint64N(1e12)
			missing = rnd.Uint64N(u + 1)
			c.start(u+s-missing, true, u/ticked*ticked, s/ticked*ticked)
			given = [2]uint64{c.usr, c.sys}
		}
		exact := seed%3 != 0
		for range 100 {
			size := []uint64{1, 1e5, 1e7, 1e9}[rnd.IntN(4)]
			u += rnd.Uint64N(size)
			s += rnd.Uint64N(size) * uint64(rnd.IntN(2))
			if rnd.IntN(20) == 0 {
				missing += rnd.Uint64N(u + s - missing + 1)
			}
			low := u/ticked*ticked + s/ticked*ticked
			du, ds := c.advance(u+s-missing, exact, u/ticked*ticked, s/ticked*ticked)
			given[0] += du
			given[1] += ds
			sum := given[0] + given[1]
			if sum != c.usr+c.sys || sum < low || sum > low+slack {
				t.Fatalf(
					"seed %d: given %v, clock %d+%d, truth %d+%d", seed, given, c.usr, c.sys, u, s,
				)
			}
			for k, truth := range [2]uint64{u, s} {
				if off := math.Abs(float64(given[k]) - float64(truth)); off > 2*procfs.TickNanoseconds {
					t.Fatalf("seed %d: part %d is %d, truth %d", seed, k, given[k], truth)
				}
			}
		}
	}
}

func TestClockIsExactWhileNothingEnds(t *testing.T) {
	var c cpuClock
	c.start(5_003_000_000, true, 2_000_000_000, 3_000_000_000)
	usr, sys := c.advance(5_103_500_000, true, 2_090_000_000, 3_010_000_000)
	if usr+sys != 100_500_000 || sys < 1_000_000 || sys > 20_000_000 {
		t.Errorf("%d + %d", usr, sys)
	}
	if usr, sys = c.advance(5_103_500_000, true, 2_090_000_000, 3_010_000_000); usr+sys != 0 {
		t.Errorf("an idle one was given %d + %d", usr, sys)
	}
}

func TestSwitchesOfThreadsThatEnded(t *testing.T) {
	at := func(count, vol, inv uint64) *taskStats {
		return &taskStats{pulse: pulse{count: count}, voluntary: vol, involuntary: inv}
	}
	for name, c := range map[string]struct {
		now, last *taskStats
		threads   uint64
		vol, inv  float64
	}{
		"as counted":                    {at(112, 70, 40), at(100, 60, 38), 2, 10, 2},
		"a thread took its own away":    {at(150, 20, 10), at(100, 60, 38), 1, 50, 0},
		"only the sum tells":            {at(200, 61, 39), at(100, 60, 38), 1, 99, 1},
		"went back":                     {at(5, 1, 1), at(100, 60, 38), 1, measure.NaN, measure.NaN},
		"one more switch than was seen": {at(101, 60, 38), at(100, 60, 38), 1, 0, 0},
	} {
		v, i := switchesGrown(c.now, c.last, c.threads)
		if !collecttest.Near(v, c.vol) || !collecttest.Near(i, c.inv) {
			t.Errorf("%s: %v, %v, want %v, %v", name, v, i, c.vol, c.inv)
		}
	}
}

func madeUpTaskstats(version uint16, size int) []byte {
	b := make([]byte, size)
	for at := 16; at+8 <= size; at += 8 {
		binary.NativeEndian.PutUint64(b[at:], uint64(at))
	}
	binary.NativeEndian.PutUint16(b, version)
	return b
}

func TestParseTaskStats(t *testing.T) {
	var s taskStats
	for _, c := range []struct {
		version     uint16
		size, kinds int
	}{{8, 328, 3}, {9, 344, 4}, {11, 368, 5}, {13, 416, 6}, {14, 432, 7}, {16, 560, 7}, {17, 592, 8}} {
		if !parseTaskStats(madeUpTaskstats(c.version, c.size), &s) || s.kinds != c.kinds {
			t.Errorf("version %d: %d kinds of delay, want %d", c.version, s.kinds, c.kinds)
		}
	}
	want := taskStats{
		pulse:       pulse{run: 72, wait: 24, count: 16},
		voluntary:   272,
		involuntary: 280,
		delays:      [delayKinds]uint64{40, 56, 320, 336, 360, 408, 424, 568},
		kinds:       8,
	}
	if s != want {
		t.Errorf("\n got %+v\nwant %+v", s, want)
	}
	if parseTaskStats(madeUpTaskstats(8, 327), &s) ||
		parseTaskStats(madeUpTaskstats(15, 560), &s) ||
		parseTaskStats(nil, &s) {
		t.Error("a struct of another layout was read")
	}
}

// processMachine is a machine with processes, at a time since boot that the test sets.
type processMachine struct {
	*collecttest.Machine
	clock *measure.Span
}

func newProcessMachine(t *testing.T, files map[string]string) processMachine {
	t.Helper()
	now := 100 * measure.Second
	all := map[string]string{
		"proc/self/schedstat": "1 1 1\n",
		"proc/self/io":        "rchar: 1\n",
		"proc/stat":           "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\nctxt 1\n",
		"passwd":              "alice:x:1000:\n",
	}
	for k, v := range files {
		all[k] = v
	}
	dir := t.TempDir()
	passwd := filepath.Join(dir, "passwd")
	if err := os.WriteFile(passwd, []byte(all["passwd"]), 0o644); err != nil {
		t.Fatal(err)
	}
	return processMachine{
		collecttest.NewMachine(
			t, Processes{now: func() measure.Span { return now }, passwd: passwd}, all,
		),
		&now,
	}
}

// files returns the files of a process with the content of schedstat, its switches and its bytes.
func (m madeUp) files(sched string, vol, inv, bytes int) map[string]string {
	p := fmt.Sprintf("proc/%d/", m.pid)
	return map[string]string{
		p + "stat": m.stat(), p + "schedstat": sched + "\n", p + "cmdline": "/bin/" + m.comm + "\x00-x\x00", p + "cgroup": "0::/a.slice\n",
		p + "status": fmt.Sprintf(
			"Name:\t%s\nUid:\t0\t1000\t0\t0\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d\n",
			"x", vol, inv,
		),
		p + "io": fmt.Sprintf("rchar: %d\nwchar: %d\nsyscr: 1\nsyscw: 1\nread_bytes: "+
			"%d\nwrite_bytes: %d\ncancelled_write_bytes: 0\n", bytes, 2*bytes, 3*bytes, 4*bytes),
	}
}

func merge(all ...map[string]string) map[string]string {
	m := map[string]string{}
	for _, f := range all {
		for k, v := range f {
			m[k] = v
		}
	}
	return m
}

func (m processMachine) next() map[string]float64 {
	*m.clock += measure.Second
	return m.Read(false)
}

func TestProcessByFiles(t *testing.T) {
	p := madeUp{
		pid:    7,
		parent: 1,
		comm:   "busy",
		usr:    100,
		sys:    50,
		minor:  10,
		major:  1,
		start:  500,
		rss:    3,
	}
	idle := madeUp{pid: 9, parent: 7, comm: "idle", start: 600, state: "Z"}
	m := newProcessMachine(
		t, merge(p.files("1505000000 2000 30", 20, 10, 100), idle.files("5 5 5", 1, 1, 1)),
	)
	rows := m.Read(true)
	page := float64(os.Getpagesize())
	collecttest.Expect(t, rows, "process.", map[string]float64{
		"process.rss|7|busy": 3 * page, "process.rss|9|idle": 0, "process.threads|7|busy": 1, "process.threads|9|idle": 1,
		"process.state|7|busy|S": 1, "process.state|9|idle|Z": 1, "process.count|S": 1, "process.count|Z": 1,
		"process.info|7|busy|1|alice|/a.slice|/bin/busy -x|S": 1, "process.info|9|idle|7|alice|/a.slice|/bin/idle -x|Z": 1,
		"process.visibility|some|pid namespace": 1,
	})
	p.usr, p.sys, p.minor, p.major, p.rss, p.state = 130, 60, 15, 2, 4, "R"
	m.Put(p.files("1907000000 5000 41", 27, 14, 150))
	rows = m.next()
	if got := rows["process.cpu|7|busy|usr"] + rows["process.cpu|7|busy|sys"]; got != 402e6 {
		t.Errorf("cpu %v, want what schedstat says, 402 ms", got)
	}
	collecttest.Expect(
		t, rows, "process.runwait", map[string]float64{"process.runwait|7|busy": 3000},
	)
	collecttest.Expect(
		t,
		rows,
		"process.switches",
		map[string]float64{
			"process.switches|7|busy|voluntary":   7,
			"process.switches|7|busy|involuntary": 4,
		},
	)
	collecttest.Expect(
		t, rows, "process.faults",
		map[string]float64{"process.faults|7|busy|minor": 5, "process.faults|7|busy|major": 1},
	)
	collecttest.Expect(
		t, rows, "process.io",
		map[string]float64{"process.io|7|busy|read": 150, "process.io|7|busy|write": 200},
	)
	collecttest.Expect(
		t,
		rows,
		"process.calls",
		map[string]float64{
			"process.calls.bytes|7|busy|read":  50,
			"process.calls.bytes|7|busy|write": 100,
		},
	)
	collecttest.Expect(
		t, rows, "thread.runwait", map[string]float64{"thread.runwait|7|busy|7|busy": 3000},
	)
	collecttest.Expect(t, rows, "process.short", nil)
	collecttest.Expect(t, rows, "process.state|7", map[string]float64{"process.state|7|busy|R": 1})
	for k := range m.next() {
		if strings.HasPrefix(k, "process.cpu") || strings.HasPrefix(k, "thread.cpu") {
			t.Errorf("nothing ran, and there is a row %s", k)
		}
	}
}

func TestProcessOfSeveralThreads(t *testing.T) {
	p := madeUp{pid: 7, comm: "main", start: 500, threads: 2, usr: 3, sys: 1}
	first, second := madeUp{
		pid:   7,
		comm:  "main",
		usr:   2,
		sys:   1,
		start: 500,
	}, madeUp{
		pid:   8,
		comm:  "work er",
		usr:   1,
		start: 510,
	}
	status := func(v, i int) string {
		return fmt.Sprintf(
			"Name:\tx\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d\n", v, i,
		)
	}
	m := newProcessMachine(t, merge(p.files("31000000 100 10", 5, 5, 0), map[string]string{
		"proc/7/task/7/stat": first.stat(), "proc/7/task/8/stat": second.stat(), "proc/7/task/8/schedstat": "12000000 50 4\n", "proc/7/task/8/status": status(2, 2)}))
	m.Read(true)
	p.usr, second.usr, second.minor = 103, 101, 6
	m.Put(
		merge(
			p.files("31000000 100 10", 5, 5, 0),
			map[string]string{
				"proc/7/task/8/stat":      second.stat(),
				"proc/7/task/8/schedstat": "1013000000 90 14\n",
				"proc/7/task/8/status":    status(8, 6),
			},
		),
	)
	rows := m.next()
	collecttest.Expect(t, rows, "process.runwait", map[string]float64{"process.runwait|7|main": 40})
	collecttest.Expect(
		t,
		rows,
		"process.switches",
		map[string]float64{
			"process.switches|7|main|voluntary":   6,
			"process.switches|7|main|involuntary": 4,
		},
	)
	collecttest.Expect(
		t,
		rows,
		"thread.switches",
		map[string]float64{
			"thread.switches|7|main|8|work er|voluntary":   6,
			"thread.switches|7|main|8|work er|involuntary": 4,
		},
	)
	collecttest.Expect(
		t, rows, "thread.faults", map[string]float64{"thread.faults|7|main|8|work er|minor": 6},
	)
	for _, k := range []string{"process.cpu|7|main|", "thread.cpu|7|main|8|work er|"} {
		if got := rows[k+"usr"] + rows[k+"sys"]; got != 1001e6 {
			t.Errorf("%s: %v, want 1.001 s", k, got)
		}
	}
	// The second thread ends and others come, one of which has ended again. The kernel would remove
	// its file; this test does not.
	p.threads, p.usr = 3, 203
	third := madeUp{pid: 9, comm: "third", usr: 50, start: 10150}
	if err := os.RemoveAll(filepath.Join(m.Dir, "proc/7/task/8")); err != nil {
		t.Fatal(err)
	}
	m.Put(
		merge(
			p.files("31000500 100 11", 6, 5, 0),
			map[string]string{
				"proc/7/task/9/stat":      third.stat(),
				"proc/7/task/9/schedstat": "505000000 7 3\n",
				"proc/7/task/9/status":    status(3, 0),
			},
		),
	)
	rows = m.next()
	collecttest.Expect(
		t, rows, "thread.runwait", map[string]float64{"thread.runwait|7|main|9|third": 7},
	)
	if got := rows["thread.cpu|7|main|9|third|usr"] + rows["thread.cpu|7|main|9|third|sys"]; got != 505e6 {
		t.Errorf("the new thread has %v, want 505 ms", got)
	}
	if got := rows["process.cpu|7|main|usr"] + rows["process.cpu|7|main|sys"]; math.Abs(
		got-1000e6,
	) > 2*procfs.TickNanoseconds {
		t.Errorf("the process has %v, want 1 s as its ticks say, the ended thread's too", got)
	}
}

func TestPidUsedAgain(t *testing.T) {
	old := madeUp{pid: 7, comm: "old", usr: 500, start: 500}
	m := newProcessMachine(t, old.files("5000000000 10 10", 1, 1, 1000))
	m.Read(true)
	young := madeUp{pid: 7, comm: "young", usr: 20, start: 10050}
	m.Put(young.files("205000000 3 3", 2, 0, 10))
	rows := m.next()
	if got := rows["process.cpu|7|young|usr"] + rows["process.cpu|7|young|sys"]; got != 205e6 {
		t.Errorf("the young one has %v, want all its 205 ms: %v", got, rows)
	}
	collecttest.Expect(t, rows, "process.runwait", map[string]float64{"process.runwait|7|young": 3})
	collecttest.Expect(
		t, rows, "process.io",
		map[string]float64{"process.io|7|young|read": 30, "process.io|7|young|write": 40},
	)
	if _, has := rows["process.rss|7|old"]; has {
		t.Error("the old one still has a row")
	}
}

func TestProcessThatWasHiddenIsNotBornNow(t *testing.T) {
	m := newProcessMachine(t, madeUp{pid: 7, comm: "a", start: 1}.files("5 5 5", 1, 1, 1))
	m.Read(true)
	m.Put(madeUp{pid: 8, comm: "b", usr: 500, start: 400}.files("5000000000 5 5", 1, 1, 1))
	for k, v := range m.next() {
		if strings.HasPrefix(k, "process.cpu|8") {
			t.Errorf("%s = %v: what it did long ago is not of this interval", k, v)
		}
	}
}

func TestShortLivedChildren(t *testing.T) {
	sh := madeUp{pid: 7, comm: "sh", start: 10, cusr: 100, csys: 0, cminor: 5}
	child := madeUp{pid: 8, parent: 7, comm: "cc", start: 20, usr: 300}
	grandchild := madeUp{pid: 9, parent: 8, comm: "as", start: 30, usr: 50}
	m := newProcessMachine(
		t,
		merge(
			sh.files("1000000 1 1", 1, 1, 100), child.files("3002000000 1 1", 1, 1, 1000),
			grandchild.files("501000000 1 1", 1, 1, 500),
		),
	)
	m.Read(true)
	for _, pid := range []string{"8", "9"} {
		if err := os.RemoveAll(filepath.Join(m.Dir, "proc", pid)); err != nil {
			t.Fatal(err)
		}
	}
	// Both ended: the child after 0.2 s more, and 0.4 s of children that were never seen.
	sh.cusr, sh.csys, sh.cminor = 100+350+20, 40, 99
	m.Put(sh.files("2000000 1 2", 1, 1, 100+1500+7))
	rows := m.next()
	got := rows["process.short|7|sh"]
	if math.Abs(got-600e6) > 2*procfs.TickNanoseconds {
		t.Errorf("short-lived: %v, want 0.6 s: what the rows of those that ended had is taken "+
			"out", got)
	}
	collecttest.Expect(
		t, rows, "process.calls.bytes|7|sh|read",
		map[string]float64{"process.calls.bytes|7|sh|read": 7},
	)
	loss := m.Reading.(*processReading).ended
	if loss != 2 {
		t.Errorf("%d ended, want 2", loss)
	}
}

// A parent that ignores SIGCHLD receives nothing from its children, so nothing may be subtracted
// from it.
func TestChildrenThatNobodyWaitsFor(t *testing.T) {
	sh := madeUp{pid: 7, comm: "sh", start: 10}
	child := madeUp{pid: 8, parent: 7, comm: "cc", start: 20, usr: 300}
	m := newProcessMachine(
		t, merge(sh.files("1000000 1 1", 1, 1, 100), child.files("3002000000 1 1", 1, 1, 1000)),
	)
	m.Read(true)
	if err := os.RemoveAll(filepath.Join(m.Dir, "proc", "8")); err != nil {
		t.Fatal(err)
	}
	sh.usr = 10
	m.Put(sh.files("101000000 1 2", 1, 1, 600))
	m.Put(map[string]string{"proc/stat": "cpu  150 0 0 0 0 0 0 0 0 0\ncpu0 150 0 0 0 0 0 0 0 0 " +
		"0\nctxt 1\n"})
	rows := m.next()
	collecttest.Expect(
		t, rows, "process.calls.bytes|7|sh|read",
		map[string]float64{"process.calls.bytes|7|sh|read": 500},
	)
	collecttest.Expect(t, rows, "process.short", nil)
	// 1.5 s of the machine, 0.1 s of the shell
	collecttest.Expect(t, rows, "process.lost", map[string]float64{"process.lost": 1400e6})
}

func TestProcessesThatVanishAndLie(t *testing.T) {
	whole := madeUp{pid: 7, comm: "a", start: 1}.files("5 5 5", 1, 1, 1)
	for name := range whole {
		for what, text := range map[string]string{"empty": "", "binary": "\x00\xff\xfe", "numbers": "1 2 3\n", "huge": strings.Repeat("9", 10000)} {
			t.Run(filepath.Base(name)+" is "+what, func(t *testing.T) {
				m := newProcessMachine(t, whole)
				m.Read(true)
				m.Put(map[string]string{name: text, "proc/7/schedstat": "9 9 9\n"})
				if strings.HasSuffix(name, "schedstat") {
					m.Put(map[string]string{name: text})
				}
				m.next()
				if err := os.Remove(filepath.Join(m.Dir, name)); err != nil {
					t.Fatal(err)
				}
				m.next()
				m.Put(whole)
				rows := m.next()
				if len(rows) == 0 {
					t.Error("no row when all is well again")
				}
			})
		}
	}
}

func TestDelaysAreUnknownWhileNobodyCounts(t *testing.T) {
	m := newProcessMachine(
		t,
		merge(
			madeUp{pid: 1, comm: "a", start: 1, wait: 5}.files("5 5 5", 1, 1, 1),
			map[string]string{"proc/sys/kernel/task_delayacct": "0\n"},
		),
	)
	m.Read(true)
	m.next()
	for _, b := range m.Out.Finish(nil) {
		if unknown := b.Over.Start == b.Over.End; unknown != (b.Stat == "process.delay") {
			t.Errorf("%s is unknown: %v", b.Stat, unknown)
		}
	}
	// Delays are counted, without taskstats: the disk waits of the only thread.
	p := madeUp{pid: 1, comm: "a", start: 1, wait: 5}
	m = newProcessMachine(
		t,
		merge(
			p.files("5 5 5", 1, 1, 1), map[string]string{"proc/sys/kernel/task_delayacct": "1\n"},
		),
	)
	m.Read(true)
	p.wait = 12
	m.Put(p.files("6 6 6", 2, 2, 2))
	rows := m.next()
	if got := rows["process.delay|1|a|blkio"]; got != 7*procfs.TickNanoseconds {
		t.Errorf("%v, want 70 ms", got)
	}
	if got := rows["process.delay|1|a|reclaim"]; got == got {
		t.Errorf("reclaim %v, nobody said so", got)
	}
}

func TestIODeniedIsUnknown(t *testing.T) {
	p := madeUp{pid: 7, comm: "a", start: 1}
	m := newProcessMachine(t, p.files("5 5 5", 1, 1, 1))
	if err := os.Remove(filepath.Join(m.Dir, "proc/7/io")); err != nil {
		t.Fatal(err)
	}
	// reading it fails for root too
	if err := os.Mkdir(filepath.Join(m.Dir, "proc/7/io"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.Read(true)
	m.Put(map[string]string{"proc/7/schedstat": "9 9 9\n"})
	rows := m.next()
	collecttest.Expect(
		t, rows, "process.io",
		map[string]float64{"process.io|7|a|read": measure.NaN, "process.io|7|a|write": measure.NaN},
	)
	if !strings.Contains(m.Notes(), "CAP_SYS_PTRACE") {
		t.Errorf("no note: %q", m.Notes())
	}
}

// With all statistics wanted, a reading of sleeping and running processes allocates nothing.
func TestReadingDoesNotAllocate(t *testing.T) {
	files := map[string]string{}
	for pid := 10; pid < 60; pid++ {
		files = merge(files, madeUp{pid: pid, comm: "p", start: 1}.files("5 5 5", 1, 1, 1))
	}
	m := newProcessMachine(t, files)
	m.Read(true)
	var scheds []*os.File
	for pid := 10; pid < 20; pid++ {
		f, err := os.OpenFile(
			filepath.Join(m.Dir, "proc", fmt.Sprint(pid), "schedstat"), os.O_WRONLY, 0,
		)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		scheds = append(scheds, f)
	}
	var batches []*measure.Batch
	round, text := byte(0), []byte("500 500 500\n")
	n := testing.AllocsPerRun(50, func() {
		round++
		for _, f := range scheds {
			text[2] = '0' + round%10
			if _, err := f.WriteAt(text, 0); err != nil {
				t.Error(err)
			}
		}
		*m.clock += measure.Second
		m.Start(false)
		if err := m.Reading.Read(m.Out); err != nil {
			t.Error(err)
		}
		batches = m.Out.Finish(batches[:0])
	})
	if n > 0 {
		t.Errorf("%v allocations a reading", n)
	}
}

func TestHugeCommandLineIsCut(t *testing.T) {
	m := newProcessMachine(
		t,
		merge(
			madeUp{pid: 7, comm: "a", start: 1}.files("5 5 5", 1, 1, 1),
			map[string]string{"proc/7/cmdline": strings.Repeat("x", 1<<20)},
		),
	)
	for k := range m.Read(true) {
		if strings.HasPrefix(k, "process.info") && len(k) > mostCommand+100 {
			t.Errorf("a label of %d bytes", len(k))
		}
	}
}

func FuzzProcStat(f *testing.F) {
	for _, n := range hostileNames() {
		f.Add([]byte(madeUp{pid: 7, comm: n}.stat()))
	}
	f.Add([]byte(" ()\x00 0 0 0 0 4 0 0 0 0 / 0 6 7 8 0 9 0 1 2 3 4")) // no state
	// a parent that no kernel has
	f.Add([]byte("1 () R 2147483648 0 0 0 0 4 0 0 0 0 0 0 6 7 8 0 9 0 1 2 3 4"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s procStat
		if s.parseStat(b) && (s.parent < 0 || s.state == 0) {
			t.Errorf("%+v", s)
		}
		stableName(&s)
	})
}

func FuzzProcFiles(f *testing.F) {
	f.Add([]byte("Uid:\t0\t1\t2\t3\nvoluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t2\n"))
	f.Add([]byte("rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 4\n"))
	f.Add([]byte("4:cpu,cpuacct:/a\n0::/b\n"))
	f.Add([]byte("root:x:0:0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		parseSched(b)
		parseSwitches(b)
		parseUID(b)
		parseIO(b)
		parsePasswd(b, map[uint32]string{})
		if c := parseCgroup(b, cgroupControllers()); len(c) > len(b) {
			t.Error("longer than the text")
		}
		if got := appendCommand(nil, b); !utf8.Valid(got) ||
			strings.ContainsAny(string(got), "\x00\n\x1b") {
			t.Errorf("%q", got)
		}
	})
}

func FuzzTaskStats(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 8, 0, 4, 0, 4, 0, 3, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var s taskStats
		if findTaskStats(b, &s) && len(b) < tsLeast {
			t.Error("read beyond the end")
		}
		if parseTaskStats(b, &s) && s.kinds < 3 {
			t.Errorf("%+v", s)
		}
	})
}

// TestProgramOfCommandLine checks that no argument is left where arguments are not recorded.
func TestProgramOfCommandLine(t *testing.T) {
	const secret = "hunter2"
	for cmdline, want := range map[string]string{
		"mysql\x00-p" + secret + "\x00":            "mysql",
		"/opt/My App/run\x00" + secret + "\x00":    "/opt/My App/run",
		"postgres: app db 10.0.0.1 " + secret:      "postgres:",
		"nginx: master " + secret + "\x00\x00\x00": "nginx:",
		"\x00" + secret:                            "",
		"curl\x00\x00-u\x00" + secret:              "curl",
		"":                                         "",
		"sh\x00-c\x00mysql -p" + secret + "\x00\x00\x00\x00": "sh",
		"./a\x00" + strings.Repeat(secret+"\x00", 1000):      "./a",
	} {
		if got := string(appendCommand(nil, programOf([]byte(cmdline)))); got != want {
			t.Errorf("%.60q is recorded as %q, want %q", cmdline, got, want)
		}
	}
	for _, programs := range []bool{false, true} {
		m := newProcessMachine(
			t,
			merge(
				madeUp{pid: 7, comm: "a", start: 1}.files("5 5 5", 1, 1, 1),
				map[string]string{"proc/7/cmdline": "mysql\x00-p" + secret + "\x00"},
			),
		)
		m.Reading.(*processReading).programs = programs
		all := fmt.Sprint(m.Read(true))
		if !strings.Contains(all, "mysql") || strings.Contains(all, secret) == programs {
			t.Errorf("programs alone %v: %s", programs, all)
		}
	}
}
