package process

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/collect/collecttest"
	"culprit/collect/procfs"
)

func TestPidUsedAgain(t *testing.T) {
	old := fakeProcess{pid: 7, comm: "old", usr: 500, start: 500}
	m := newProcessMachine(t, old.files("5000000000 10 10", 1, 1, 1000))
	m.Read(true)
	young := fakeProcess{pid: 7, comm: "young", usr: 20, start: 10050}
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
	m := newProcessMachine(t, fakeProcess{pid: 7, comm: "a", start: 1}.files("5 5 5", 1, 1, 1))
	m.Read(true)
	m.Put(fakeProcess{pid: 8, comm: "b", usr: 500, start: 400}.files("5000000000 5 5", 1, 1, 1))
	for k, v := range m.next() {
		if strings.HasPrefix(k, "process.cpu|8") {
			t.Errorf("%s = %v: what it did long ago is not of this interval", k, v)
		}
	}
}

func TestShortLivedChildren(t *testing.T) {
	sh := fakeProcess{pid: 7, comm: "sh", start: 10, cusr: 100, csys: 0, cminor: 5}
	child := fakeProcess{pid: 8, parent: 7, comm: "cc", start: 20, usr: 300}
	grandchild := fakeProcess{pid: 9, parent: 8, comm: "as", start: 30, usr: 50}
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
	sh := fakeProcess{pid: 7, comm: "sh", start: 10}
	child := fakeProcess{pid: 8, parent: 7, comm: "cc", start: 20, usr: 300}
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
	whole := fakeProcess{pid: 7, comm: "a", start: 1}.files("5 5 5", 1, 1, 1)
	for name := range whole {
		for what, text := range map[string]string{
			"empty":   "",
			"binary":  "\x00\xff\xfe",
			"numbers": "1 2 3\n",
			"huge":    strings.Repeat("9", 10000),
		} {
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
