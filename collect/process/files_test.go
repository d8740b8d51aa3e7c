package process

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/heapbound"
	"culprit/measure"
)

// All processes of a machine are visible only if a thread of the kernel is.
func TestProcessVisibility(t *testing.T) {
	init := fakeProcess{pid: 1, comm: "init", start: 1}.files("5 5 5", 1, 1, 1)
	kthreadd := fakeProcess{
		pid:   2,
		comm:  "kthreadd",
		start: 1,
		flags: flagKernelThread,
	}.files("5 5 5", 1, 1, 1)
	own := fakeProcess{pid: 70, comm: "a", start: 1}.files("5 5 5", 1, 1, 1)
	hidden := map[string]string{"proc/9/other": "not a process that can be read"}
	for name, c := range map[string]struct {
		files map[string]string
		mount string // options of /proc
		want  string
		note  string
	}{
		"the whole machine":                 {merge(init, kthreadd, own), "rw", "all|", ""},
		"hidepid, and may see all":          {merge(init, kthreadd, own), "rw,hidepid=invisible", "all|", ""},
		"hidepid=2":                         {own, "rw,hidepid=2", "some|hidepid", "hidepid"},
		"hidepid=invisible":                 {own, "rw,gid=3,hidepid=invisible", "some|hidepid", "hidepid"},
		"hidepid=0":                         {merge(init, kthreadd), "rw,hidepid=0", "all|", ""},
		"a container":                       {merge(init, own), "rw", "some|pid namespace", "pid namespace"},
		"one that its owner closed to us":   {merge(init, kthreadd, hidden), "rw", "some|unreadable", "may not be read"},
		"a pid namespace mounted elsewhere": {own, "rw", "some|pid namespace", "pid namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newProcessMachineAt(t, c.files, c.mount)
			if c.note == "may not be read" {
				// reading it fails for root too
				if err := os.Mkdir(m.Dir+"/proc/9/stat", 0o755); err != nil {
					t.Fatal(err)
				}
			}
			collecttest.Expect(
				t, m.Read(true), "process.visibility",
				map[string]float64{"process.visibility|" + c.want: 1},
			)
			if notes := m.Notes(); !strings.Contains(notes, c.note) ||
				c.note == "" && strings.Contains(notes, "there are more processes") {
				t.Errorf("notes: %q", notes)
			}
		})
	}
}

// newProcessMachineAt returns a machine with /proc mounted with options.
func newProcessMachineAt(t *testing.T, files map[string]string, options string) processMachine {
	t.Helper()
	m := newProcessMachine(t, files)
	m.Put(map[string]string{"proc/self/mountinfo": fmt.Sprintf("20 1 0:4 / %s/proc rw - proc "+
		"proc %s\n", m.Dir, options)})
	m.Reading.Close()
	now := 100 * measure.Second
	r, err := Processes{
		now:    func() measure.Span { return now },
		passwd: m.Dir + "/passwd",
	}.Open(&m.Env, collecttest.WantAll(Processes{}))
	if err != nil {
		t.Fatal(err)
	}
	patient(r)
	m.Reading = r
	t.Cleanup(r.Close)
	return processMachine{m.Machine, &now}
}

func TestProcessFiles(t *testing.T) {
	p := fakeProcess{pid: 7, comm: "srv", start: 1}
	limits := func(soft string) map[string]string {
		return map[string]string{"proc/7/limits": "Limit                     Soft Limit        " +
			"   Hard Limit           Units     \n" +
			"Max processes             96365                96365                processes \n" +
			"Max open files            " + soft + "                 4096                 files " +
			"    \n"}
	}
	fds := func(n int) map[string]string {
		files := map[string]string{}
		for i := range n {
			files[fmt.Sprintf("proc/7/fd/%d", i)] = ""
		}
		return files
	}
	m := newProcessMachine(t, merge(p.files("5 5 5", 1, 1, 1), limits("64"), fds(3)))
	collecttest.Expect(
		t, m.Read(true), "process.files",
		map[string]float64{"process.files|7|srv": 3, "process.files.limit|7|srv": 64},
	)
	m.Put(fds(64))
	var rows map[string]float64
	for range renewStat + 1 { // listed at most each renewStat seconds: there is no counter here
		rows = m.next()
	}
	collecttest.Expect(
		t, rows, "process.files",
		map[string]float64{"process.files|7|srv": 64, "process.files.limit|7|srv": 64},
	)
	m.Put(limits("unlimited"))
	for range renewInfo + 1 {
		rows = m.next()
	}
	collecttest.Expect(t, rows, "process.files", map[string]float64{"process.files|7|srv": 64})
}

// For this process the kernel's counter and a listing agree.
func TestFilesOfThisProcess(t *testing.T) {
	r, err := Processes{files: true}.Open(&collect.Env{}, collecttest.WantAll(Processes{}))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pr := r.(*processReading)
	fds, err := pr.dir.ListFDs(pr.self, nil)
	if err != nil || len(fds) < 3 {
		t.Fatalf("%v, %v", fds, err)
	}
	// the listing has the directory open too
	if n, err := pr.dir.OpenFiles(pr.self); err != nil || n != 0 && n != len(fds)-1 {
		t.Errorf("%d open files (%v), listed %d", n, err, len(fds))
	}
	b, err := pr.readOnce(pr.self, "limits")
	if err != nil || parseFilesLimit(b) == 0 {
		t.Errorf("no limit in %q, %v", b, err)
	}
}

func FuzzFilesLimit(f *testing.F) {
	f.Add([]byte("Max open files            1024                 524288               files    " +
		" \n"))
	f.Add([]byte("Max open files            unlimited            unlimited            files    " +
		" \n"))
	f.Add([]byte("Max open files            99999999999999999999999"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		if parseFilesLimit(b) != 0 && !bytes.Contains(b, []byte("Max open files")) {
			t.Error("a limit out of nothing")
		}
	})
}

// If /proc has no processes, that is noted as the only reason.
func TestNoProcessesInProc(t *testing.T) {
	m := newProcessMachine(t, nil)
	for _, first := range []bool{true, false} {
		m.Start(first)
		err := m.Reading.Read(m.Out)
		if err == nil || !strings.Contains(err.Error(), "not mounted") {
			t.Fatalf("no process in /proc: %v", err)
		}
		for _, b := range m.Out.Finish(nil) {
			if b.Rows() > 0 || strings.Contains(strings.Join(b.Notes, " "), "CONFIG_SCHED_INFO") {
				t.Errorf("%s: %d rows, notes %q", b.Stat, b.Rows(), b.Notes)
			}
		}
	}
}
