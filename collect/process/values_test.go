package process

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/collect/procfs"
	"culprit/measure"
)

// withoutSchedstat is the file of a kernel that does not count run times: the CPU time is that of
// the ticks.
func withoutSchedstat() map[string]string {
	return map[string]string{"proc/self/schedstat": "0 0 0\n"}
}

// threadStatus is the status of a thread with its context switches.
func threadStatus(voluntary, involuntary int) string {
	return fmt.Sprintf("Name:\tx\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d\n",
		voluntary, involuntary)
}

// TestColumnsOfThreads: a process and both of its threads grow by another number in each column.
func TestColumnsOfThreads(t *testing.T) {
	all := fakeProcess{pid: 7, comm: "main", start: 500, threads: 2, usr: 300, sys: 100, minor: 50,
		major: 20}
	first := fakeProcess{pid: 7, comm: "main", start: 500, usr: 200, sys: 70, minor: 30, major: 15}
	second := fakeProcess{pid: 8, comm: "work er", start: 510, usr: 100, sys: 30, minor: 20,
		major: 5}
	files := func(switches [4]int) map[string]string {
		return merge(all.files("9 9 9", switches[0], switches[1], 0), map[string]string{
			"proc/7/task/7/stat": first.stat(), "proc/7/task/8/stat": second.stat(),
			"proc/7/task/8/status": threadStatus(switches[2], switches[3])})
	}
	m := newProcessMachine(t, merge(withoutSchedstat(), files([4]int{5, 6, 7, 8})))
	m.Read(true)
	first.usr, first.sys, first.minor, first.major = 229, 73, 53, 17
	second.usr, second.sys, second.minor, second.major = 131, 37, 57, 10
	all.usr, all.sys, all.minor, all.major = 360, 110, 111, 27
	m.Put(files([4]int{16, 19, 24, 27}))
	rows := m.next()
	const tick = procfs.TickNanoseconds
	collecttest.Expect(t, rows, "process.cpu", map[string]float64{
		"process.cpu|7|main|usr": 60 * tick, "process.cpu|7|main|sys": 10 * tick})
	collecttest.Expect(t, rows, "process.faults", map[string]float64{
		"process.faults|7|main|minor": 61, "process.faults|7|main|major": 7})
	collecttest.Expect(t, rows, "process.switches", map[string]float64{
		"process.switches|7|main|voluntary":   11 + 17,
		"process.switches|7|main|involuntary": 13 + 19})
	collecttest.Expect(t, rows, "thread.cpu", map[string]float64{
		"thread.cpu|7|main|7|main|usr": 29 * tick, "thread.cpu|7|main|7|main|sys": 3 * tick,
		"thread.cpu|7|main|8|work er|usr": 31 * tick, "thread.cpu|7|main|8|work er|sys": 7 * tick})
	collecttest.Expect(t, rows, "thread.faults", map[string]float64{
		"thread.faults|7|main|7|main|minor": 23, "thread.faults|7|main|7|main|major": 2,
		"thread.faults|7|main|8|work er|minor": 37, "thread.faults|7|main|8|work er|major": 5})
	collecttest.Expect(t, rows, "thread.switches", map[string]float64{
		"thread.switches|7|main|7|main|voluntary":      11,
		"thread.switches|7|main|7|main|involuntary":    13,
		"thread.switches|7|main|8|work er|voluntary":   17,
		"thread.switches|7|main|8|work er|involuntary": 19})
}

// TestColumnsOfTheOnlyThread: the only thread of a process has the numbers of the process.
func TestColumnsOfTheOnlyThread(t *testing.T) {
	p := fakeProcess{pid: 7, comm: "busy", start: 500, usr: 300, sys: 100, minor: 50, major: 20}
	m := newProcessMachine(t, merge(withoutSchedstat(), p.files("9 9 9", 5, 6, 0),
		map[string]string{"proc/7/task/7/stat": p.stat()}))
	m.Read(true)
	p.usr, p.sys, p.minor, p.major = 337, 111, 73, 22
	m.Put(p.files("9 9 9", 18, 23, 0))
	rows := m.next()
	const tick = procfs.TickNanoseconds
	for _, name := range []string{"process.%s|7|busy|", "thread.%s|7|busy|7|busy|"} {
		cpu, faults, switches := fmt.Sprintf(name, "cpu"), fmt.Sprintf(name, "faults"),
			fmt.Sprintf(name, "switches")
		collecttest.Expect(t, rows, cpu,
			map[string]float64{cpu + "usr": 37 * tick, cpu + "sys": 11 * tick})
		collecttest.Expect(t, rows, faults,
			map[string]float64{faults + "minor": 23, faults + "major": 2})
		collecttest.Expect(t, rows, switches,
			map[string]float64{switches + "voluntary": 13, switches + "involuntary": 17})
	}
}

// TestSleepingProcessIsReadAgain: the columns of a process that does not run are read again after
// ten seconds.
func TestSleepingProcessIsReadAgain(t *testing.T) {
	p := fakeProcess{pid: 7, parent: 1, comm: "idle", start: 500, rss: 3, nice: -5}
	m := newProcessMachine(t, p.files("9 9 9", 1, 1, 1))
	m.Read(true)
	p.parent, p.rss, p.nice, p.state = 2, 11, 3, "D"
	m.Put(map[string]string{"proc/7/stat": p.stat()})
	page := float64(os.Getpagesize())
	before := map[string]float64{"process.rss|7|idle": 3 * page, "process.priority|7|idle": 15,
		"process.nice|7|idle": -5, "process.state|7|idle|S": 1, "process.count|S": 1}
	after := map[string]float64{"process.rss|7|idle": 11 * page, "process.priority|7|idle": 23,
		"process.nice|7|idle": 3, "process.state|7|idle|D": 1, "process.count|D": 1,
		"process.info|7|idle|2|alice|/a.slice|/bin/idle -x|D": 1}
	for second := 1; second <= 12; second++ {
		rows := m.next()
		want := before
		switch {
		case second == 10 || second == 11: // a tenth of a process is due each second
			continue
		case second > 11:
			want = after
		}
		for key, v := range want {
			if got, has := rows[key]; !has || got != v {
				t.Errorf("after %d s %s is %v, %t, want %v", second, key, got, has, v)
			}
		}
	}
}

// TestCursor: the parts of a round add up, and no reading has more than a whole round.
func TestCursor(t *testing.T) {
	var c cursor
	for i, want := range []int{2, 3, 2, 3} {
		if got := c.due(10, 0.25); got != want {
			t.Errorf("quarter %d of a round of 10: %d are due, want %d", i, got, want)
		}
	}
	if got := c.due(10, 3); got != 10 {
		t.Errorf("three rounds at once: %d are due, want 10", got)
	}
	var order []int
	for range 5 {
		order = append(order, c.next(2))
	}
	if got := fmt.Sprint(order, c.round); got != "[0 1 0 1 0] 2" {
		t.Errorf("places and rounds %s, want [0 1 0 1 0] 2", got)
	}
}

// TestUserNames: a user without a name has its number, until the file of users has it.
func TestUserNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passwd")
	written := time.Now()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		written = written.Add(3 * time.Second)
		if err := os.Chtimes(path, written, written); err != nil {
			t.Fatal(err)
		}
	}
	u := users{path: path}
	expect := func(uid uint32, want string) {
		t.Helper()
		if got := u.name(uid); got != want {
			t.Errorf("user %d is %q, want %q", uid, got, want)
		}
	}
	write("alice:x:1000:7\n")
	expect(1000, "alice")
	expect(1001, "1001")
	expect(4294967295, "4294967295")
	write("alice:x:1000:7\nbob:x:1001:7\ncarol:x:1002:7\n")
	expect(1002, "carol")
	expect(1001, "bob")
	expect(7, "7")
}

// countedProcess returns a reading that counts by taskstats, and a process with 100 ticks whose
// counters are those of one earlier reading.
func countedProcess(t *testing.T) (*processReading, *process) {
	t.Helper()
	r := countedByTaskstats()
	p := &process{pid: 7, delta: &processDelta{}}
	p.stat = procStat{state: 'R', usr: 100, threads: 1}
	p.pulsed = true
	p.task = taskStats{pulse: pulse{run: 1e9, wait: 1000, count: 100}, voluntary: 60,
		involuntary: 40, kinds: delayKinds}
	r.count(p, &procStat{}, false)
	return r, p
}

// TestColumnsOfTaskstats: each wait and each kind of switch has its own number.
func TestColumnsOfTaskstats(t *testing.T) {
	r, p := countedProcess(t)
	before := p.stat
	p.stat.minor, p.stat.major = 31, 37
	p.delta = &processDelta{}
	p.task.wait, p.task.count, p.task.voluntary, p.task.involuntary = 1211, 130, 77, 53
	want := processDelta{wait: 211, voluntary: 17, involuntary: 13, minor: 31, major: 37,
		kinds: delayKinds}
	for i := range want.delays {
		p.task.delays[i] += uint64(100 + i)
		want.delays[i] = float64(100 + i)
	}
	r.count(p, &before, true)
	if *p.delta != want {
		t.Errorf("\n got %+v\nwant %+v", *p.delta, want)
	}
	if r.kinds != delayKinds {
		t.Errorf("%d kinds of delay, want %d", r.kinds, delayKinds)
	}
}

// TestEdgeOfCountedTwice: a run time of 20 ms above the ticks is possible, more is not.
func TestEdgeOfCountedTwice(t *testing.T) {
	for _, tt := range []struct {
		name  string
		above uint64
		wait  float64
	}{{"just possible", 20e6, 50}, {"just too much", 20e6 + 1, measure.NaN}} {
		t.Run(tt.name, func(t *testing.T) {
			r, p := countedProcess(t)
			before := p.stat
			p.stat.usr, p.delta = 130, &processDelta{}
			p.task.run = 130*procfs.TickNanoseconds + slack + tt.above
			p.task.wait += 50
			r.count(p, &before, true)
			if !collecttest.Near(p.delta.wait, tt.wait) {
				t.Errorf("waited %v, want %v", p.delta.wait, tt.wait)
			}
		})
	}
}

// TestLastNumbersOfZombie: the files of a process that was not waited for have its last numbers,
// once.
func TestLastNumbersOfZombie(t *testing.T) {
	p := fakeProcess{pid: 7, comm: "dead", start: 5}
	m := newProcessMachine(t, p.files("1000 150 13", 9, 10, 0))
	r := m.Reading.(*processReading)
	last := taskStats{pulse: pulse{run: 900, wait: 100, count: 12}, voluntary: 5, involuntary: 3}
	z := &process{pid: 7}
	for _, tt := range []struct {
		name string
		last taskStats
		want [3]float64
	}{
		{"first call", last, [3]float64{50, 4, 7}},
		{"second call", taskStats{kinds: -1}, [3]float64{}},
		{"as often as before", taskStats{pulse: pulse{count: 13, wait: 150}, voluntary: 9,
			involuntary: 10}, [3]float64{}},
		{"its id was used again", taskStats{pulse: pulse{count: 14}},
			[3]float64{measure.NaN, measure.NaN, measure.NaN}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			z.last = tt.last
			var got [3]float64
			got[0], got[1], got[2] = r.zombie(z)
			for i := range got {
				if !collecttest.Near(got[i], tt.want[i]) {
					t.Errorf("wait, voluntary, involuntary %v, want %v", got, tt.want)
					break
				}
			}
			if z.last.kinds >= 0 {
				t.Error("it would be read again")
			}
		})
	}
	m.Put(map[string]string{"proc/7/status": "Name:\tx\n"})
	z.last = last
	if wait, v, i := r.zombie(z); wait != 50 || !math.IsNaN(v) || !math.IsNaN(i) {
		t.Errorf("without switches in its status: %v, %v, %v", wait, v, i)
	}
}

// TestLostTime: CPU time in no process is reported once it is more than two ticks for each CPU.
// Other columns of /proc/stat have no part in it.
func TestLostTime(t *testing.T) {
	m := newProcessMachine(t, fakeProcess{pid: 7, comm: "a", start: 1}.files("5 5 5", 1, 1, 1))
	r := m.Reading.(*processReading)
	ticks := [3]int{100, 200, 300} // usr, nice, sys
	other := 1000
	lost := func(usr, nice, sys int, sum float64) float64 {
		t.Helper()
		ticks[0], ticks[1], ticks[2] = ticks[0]+usr, ticks[1]+nice, ticks[2]+sys
		other += 997
		cpu := fmt.Sprintf("%d %d %d %d %d %d %d 0 0 0\n", ticks[0], ticks[1], ticks[2], other,
			2*other, 3*other, 5*other)
		m.Put(map[string]string{
			"proc/stat": "cpu  " + cpu + "cpu0 " + cpu + "cpu1 " + cpu + "ctxt 1\n"})
		m.Start(false)
		r.putLost(m.Out, sum)
		return collecttest.RowsOf(t, m.Out)["process.lost"]
	}
	const tick = procfs.TickNanoseconds
	for i, c := range []struct {
		usr, nice, sys int
		sum, want      float64 // ticks
	}{
		{0, 0, 0, 0, 0}, // nothing to compare with
		{1, 1, 2, 0, 0}, // 4 ticks prove nothing on two CPUs
		{0, 1, 0, 0, 5}, // the fifth does
		{7, 11, 13, 0, 31},
		{7, 11, 13, 12, 19},
		{0, 0, 0, 90, 0}, // more than the machine had: at most 4 ticks are kept
		{3, 2, 3, 0, 0},  // 8 less 4
		{0, 0, 1, 0, 5},
	} {
		if got := lost(c.usr, c.nice, c.sys, c.sum*tick); got != c.want*tick {
			t.Errorf("reading %d: %v ticks are lost, want %v", i, got/tick, c.want)
		}
	}
}

// TestBytesOfTheEnded: what the rows of a child had is subtracted from its parent in each of the
// four columns of bytes.
func TestBytesOfTheEnded(t *testing.T) {
	sh := fakeProcess{pid: 7, comm: "sh", start: 10, cminor: 5}
	child := fakeProcess{pid: 8, parent: 7, comm: "cc", start: 20}
	m := newProcessMachine(t, merge(sh.files("1000000 1 1", 1, 1, 100),
		child.files("3002000 1 1", 1, 1, 1000)))
	m.Read(true)
	if err := os.RemoveAll(filepath.Join(m.Dir, "proc", "8")); err != nil {
		t.Fatal(err)
	}
	sh.cminor = 99
	m.Put(sh.files("2000000 1 2", 1, 1, 100+1000+7))
	rows := m.next()
	want := map[string]float64{"process.calls.bytes|7|sh|read": 7,
		"process.calls.bytes|7|sh|write": 14}
	collecttest.Expect(t, rows, "process.calls", want)
	io := map[string]float64{"process.io|7|sh|read": 21, "process.io|7|sh|write": 28}
	collecttest.Expect(t, rows, "process.io", io)
}

// TestDelayNotes: each reason why delays are not complete has its note.
func TestDelayNotes(t *testing.T) {
	counting := &taskstatsConn{}
	for _, tt := range []struct {
		name   string
		change func(*processReading)
		want   string
	}{
		{"all are known", func(r *processReading) {}, ""},
		{"accounting is off", func(r *processReading) { r.delayAcct = false }, "accounting is off"},
		{"no taskstats", func(r *processReading) { r.taskstats = nil }, "are not usable"},
		{"not permitted", func(r *processReading) {
			r.taskstats, r.taskstatsErr = nil, fmt.Errorf("x: %w", measure.ErrDenied)
		}, "disk waits of processes with one thread are known"},
		{"no taskstats and no column", func(r *processReading) { r.taskstats, r.noBlkio = nil, true },
			"waits for disks"},
		{"no column, with taskstats", func(r *processReading) { r.noBlkio = true }, ""},
		{"turned on late", func(r *processReading) { r.lateDelays = true }, "process 1"},
		{"an older kernel", func(r *processReading) { r.kinds = 5 }, ": wpcopy irq"},
		{"one reason less", func(r *processReading) { r.kinds = commonDelays - 1 }, ": irq"},
		{"one reason more", func(r *processReading) { r.kinds = commonDelays + 1 }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := collect.NewOut(Processes{}.Stats(), collect.NewDictionary(), false)
			out.Start(false, time.Now())
			r := &processReading{processSources: processSources{taskstats: counting}}
			r.delayAcct, r.kinds, r.reasons = true, commonDelays, delayReasons()
			tt.change(r)
			table := out.Table("process.delay")
			r.delayNotes(table)
			got := strings.Join(table.Batch().Notes, "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("note %q, want %q", got, tt.want)
			}
		})
	}
}

// TestPulseByWalk: what a walk over tasks shows of a process is compared with the walk before.
func TestPulseByWalk(t *testing.T) {
	p := &process{pid: 7, processFacts: processFacts{info: &processInfo{}}}
	r := &processReading{processSources: processSources{walk: &taskWalk{}}}
	r.procs = []*process{{pid: 5}, p, {pid: 9}}
	signs := func(pulse, rest, cgroups uint64) *taskSigns {
		return &taskSigns{known: true, pulse: pulse, rest: rest, cgroups: cgroups}
	}
	for _, tt := range []struct {
		name                       string
		walked                     *taskSigns // nil: the walk does not have it
		ran, unsure, stat, command bool
	}{
		{"first walk", signs(1, 1, 1), false, true, true, false},
		{"nothing happened", signs(1, 1, 1), false, false, false, false},
		{"it ran", signs(2, 1, 1), true, false, false, false},
		{"nothing more", signs(2, 1, 1), false, false, false, false},
		{"its memory changed", signs(2, 2, 1), false, false, true, false},
		{"it moved to another group", signs(2, 2, 2), false, false, false, true},
		{"missing", nil, false, true, true, false},
		{"there again", signs(2, 2, 3), false, true, true, false},
		{"it ran in another group", signs(3, 2, 4), true, false, false, true},
	} {
		r.walk.found = []taskSeen{{pid: 3, signs: *signs(8, 8, 8)}}
		if tt.walked != nil {
			r.walk.found = append(r.walk.found, taskSeen{pid: 7, signs: *tt.walked})
		}
		r.walk.found = append(r.walk.found, taskSeen{pid: 8, signs: *signs(9, 9, 9)})
		p.statStale, p.ranSinceInfo, p.info.stale = false, false, false
		r.pulseByWalk()
		if p.ran != tt.ran || p.unsure != tt.unsure || p.statStale != tt.stat ||
			p.info.stale != tt.command || p.ranSinceInfo != tt.unsure {
			t.Errorf("%s: ran %t, unsure %t, line changed %t, info changed %t, ran since %t", tt.name,
				p.ran, p.unsure, p.statStale, p.info.stale, p.ranSinceInfo)
		}
	}
}

// TestBytesAfterAGap: what a process moved while its bytes could not be read is in no interval.
func TestBytesAfterAGap(t *testing.T) {
	p := fakeProcess{pid: 7, comm: "a", start: 1}
	m := newProcessMachine(t, p.files("5 5 5", 1, 1, 100))
	m.Read(true)
	for i, tt := range []struct {
		bytes int // rchar; 0: unreadable
		want  float64
	}{{107, 7}, {0, measure.NaN}, {150, measure.NaN}, {161, 11}} {
		files := p.files(fmt.Sprint("5 5 ", 6+i), 1, 1, tt.bytes)
		if tt.bytes == 0 {
			files["proc/7/io"] = "rchar: x\n"
		}
		m.Put(files)
		rows := m.next()
		collecttest.Expect(t, rows, "process.calls.bytes", map[string]float64{
			"process.calls.bytes|7|a|read": tt.want, "process.calls.bytes|7|a|write": 2 * tt.want})
		collecttest.Expect(t, rows, "process.io", map[string]float64{
			"process.io|7|a|read": 3 * tt.want, "process.io|7|a|write": 4 * tt.want})
	}
}

// TestEachWantReadsAgain: the line of a sleeping process is read again for each statistic that is
// made of it, and for no other.
func TestEachWantReadsAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		wants levelWants
		again bool
	}{
		{"rss", levelWants{rss: true}, true},
		{"state", levelWants{state: true}, true},
		{"count", levelWants{count: true}, true},
		{"info", levelWants{info: true}, true},
		{"threads", levelWants{threads: true}, true},
		{"long", levelWants{long: true}, true},
		{"visibility", levelWants{visibility: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fakeProcess{pid: 7, comm: "idle", start: 500, rss: 3}
			m := newProcessMachine(t, p.files("9 9 9", 1, 1, 1))
			r := m.Reading.(*processReading)
			r.wants = processWants{levelWants: tt.wants, thread: true}
			m.Read(true)
			p.rss = 11
			m.Put(map[string]string{"proc/7/stat": p.stat()})
			for range 12 {
				m.next()
			}
			if again := r.procs[0].stat.rss == 11; again != tt.again {
				t.Errorf("read again: %t, want %t", again, tt.again)
			}
		})
	}
}

// TestLossOfTheEnded: each process that ended between two readings is a loss, also a single one.
func TestLossOfTheEnded(t *testing.T) {
	for _, ended := range []int{0, 1, 3} {
		files := map[string]string{}
		for pid := 10; pid < 15; pid++ {
			files = merge(files, fakeProcess{pid: pid, comm: "p", start: 1}.files("5 5 5", 1, 1, 1))
		}
		m := newProcessMachine(t, files)
		m.Read(true)
		for pid := 10; pid < 10+ended; pid++ {
			if err := os.RemoveAll(filepath.Join(m.Dir, "proc", fmt.Sprint(pid))); err != nil {
				t.Fatal(err)
			}
		}
		m.next()
		lost := uint64(0)
		for _, l := range m.Out.Table("process.cpu").Batch().Loss {
			lost += l.Events
		}
		if lost != uint64(ended) {
			t.Errorf("%d processes ended, and %d are a loss", ended, lost)
		}
	}
}
