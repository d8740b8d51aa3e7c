package process

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/kernel/proc/proctest"
)

// TestFilesOfProcessThatHangs: the files that are read without a limit of time return while a
// process hangs in execve.
func TestFilesOfProcessThatHangs(t *testing.T) {
	pid, begin, _ := proctest.StartHanging(t)
	begin()
	var hang []string
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range names {
		if e.Type().IsRegular() && !proctest.Returns(pid, e.Name()) {
			hang = append(hang, e.Name())
		}
	}
	t.Log("these do not return: ", hang)
	for _, name := range []string{"status", "schedstat", "cgroup", "limits", "comm"} {
		if slices.Contains(hang, name) {
			t.Errorf("%s does not return while the process is in execve", name)
		}
	}
}

// TestProcessThatHangsInExecve: the I/O of the process is unknown while it hangs, that of the
// others is known, and no reading waits for it for long.
func TestProcessThatHangsInExecve(t *testing.T) {
	pid, begin, end := proctest.StartHanging(t)
	k := collecttest.OpenTicker(t, Processes{}, &collect.Env{}, "process.io", "process.cpu")
	r := k.Reading.(*processReading)
	of := func(pid int) *process {
		for _, p := range r.procs {
			if int(p.pid) == pid {
				return p
			}
		}
		t.Fatalf("process %d is not known", pid)
		return nil
	}
	k.Read()
	if p := of(pid); !p.hasIO {
		t.Fatalf("before it hangs: %+v", p.processIO)
	}
	begin()
	r.heads.limit = 50 * time.Millisecond
	proctest.WaitUntil(t, "the read of its file does not return", func() bool {
		k.Read()
		return of(pid).held != nil
	})
	if p := of(pid); p.file != nil || p.ioFile != nil || len(r.heads.held) == 0 {
		t.Errorf("while it hangs: %+v, %d reads", p.processIO, len(r.heads.held))
	}
	// Not longer: other tests may have a process that hangs too.
	r.heads.limit = 3 * time.Second
	if _, err := os.ReadFile("/proc/self/stat"); err != nil { // this process has run
		t.Fatal(err)
	}
	k.Read()
	if p := of(os.Getpid()); !p.hasIO {
		t.Errorf("another process while one hangs: %+v", p.processIO)
	}
	k.Rows()
	if got := strings.Join(k.Notes, "\n"); !strings.Contains(got, "hangs in execve(2)") {
		t.Errorf("notes while it hangs: %q", got)
	}
	end()
	proctest.WaitUntil(t, "its files are read again", func() bool {
		k.Read()
		p := of(pid)
		return p.held == nil && p.comm == "sleep" && len(r.heads.held) == 0
	})
}
