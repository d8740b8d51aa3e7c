package process

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/measure"
)

// fakeProcess is a process of a test. Fields of its stat line that are not read have distinct
// numbers, so that a wrong column shows.
type fakeProcess struct {
	pid, parent               int
	comm                      string
	state                     string
	minor, cminor, major      int
	usr, sys, cusr, csys      int
	threads, start, rss, wait int
	flags, nice               int
}

func (m fakeProcess) stat() string {
	if m.state == "" {
		m.state = "S"
	}
	if m.threads == 0 {
		m.threads = 1
	}
	return fmt.Sprintf(
		"%d (%s) %s %d 901 902 903 -1 %d %d %d %d 904 %d %d %d %d %d %d %d 0 %d "+
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
		20+m.nice,
		m.nice,
		m.threads,
		m.start,
		m.rss,
		m.wait,
	)
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
	m := processMachine{
		collecttest.NewMachine(
			t, Processes{now: func() measure.Span { return now }, passwd: passwd}, all,
		),
		&now,
	}
	patient(m.Reading)
	return m
}

// patient makes a reading read the same on a loaded machine.
func patient(r collect.Reading) {
	p := r.(*processReading)
	p.locked.Limit, p.heads.limit = time.Minute, time.Minute
	p.blocked.most, p.lockWaits.most = measure.Minute, time.Minute
}

// files returns the files of a process with the content of schedstat, its switches and its bytes.
func (m fakeProcess) files(sched string, vol, inv, bytes int) map[string]string {
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
