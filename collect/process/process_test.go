package process

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/collect/collecttest"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

func TestProcessByFiles(t *testing.T) {
	p := fakeProcess{
		pid:    7,
		parent: 1,
		comm:   "busy",
		usr:    100,
		sys:    50,
		minor:  10,
		major:  1,
		start:  500,
		rss:    3,
		nice:   -5,
	}
	idle := fakeProcess{pid: 9, parent: 7, comm: "idle", start: 600, state: "Z"}
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
		"process.virtual|7|busy":                905, "process.virtual|9|idle": 905,
		"process.priority|7|busy": 15, "process.priority|9|idle": 20,
		"process.nice|7|busy": -5, "process.nice|9|idle": 0,
		"process.time|7|busy": 1.5e9, "process.time|9|idle": 0,
		"process.zombies|7|busy": 1,
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
	p := fakeProcess{pid: 7, comm: "main", start: 500, threads: 2, usr: 3, sys: 1}
	first, second := fakeProcess{
		pid:   7,
		comm:  "main",
		usr:   2,
		sys:   1,
		start: 500,
	}, fakeProcess{
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
	third := fakeProcess{pid: 9, comm: "third", usr: 50, start: 10150}
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

func TestDelaysAreUnknownWhileNobodyCounts(t *testing.T) {
	m := newProcessMachine(
		t,
		merge(
			fakeProcess{pid: 1, comm: "a", start: 1, wait: 5}.files("5 5 5", 1, 1, 1),
			map[string]string{"proc/sys/kernel/task_delayacct": "0\n"},
		),
	)
	m.Reading.(*processReading).ioPriority.get = func(int) (uint, error) { return 0, nil }
	m.Read(true)
	m.next()
	for _, b := range m.Out.Finish(nil) {
		if unknown := b.Over.Start == b.Over.End; unknown != (b.Stat == "process.delay") {
			t.Errorf("%s is unknown: %v", b.Stat, unknown)
		}
	}
	// Delays are counted, without taskstats: the disk waits of the only thread.
	p := fakeProcess{pid: 1, comm: "a", start: 1, wait: 5}
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
	p := fakeProcess{pid: 7, comm: "a", start: 1}
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
		files = merge(files, fakeProcess{pid: pid, comm: "p", start: 1}.files("5 5 5", 1, 1, 1))
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
			fakeProcess{pid: 7, comm: "a", start: 1}.files("5 5 5", 1, 1, 1),
			map[string]string{"proc/7/cmdline": strings.Repeat("x", 1<<20)},
		),
	)
	for k := range m.Read(true) {
		if strings.HasPrefix(k, "process.info") && len(k) > proc.MostTimed+100 {
			t.Errorf("a label of %d bytes", len(k))
		}
	}
}
