package process

import (
	"fmt"
	"os"
	"os/exec"
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

// TestProcessThatSleepsAfterItHung: what a process did while its files could not be read is counted
// when they can, although it does not run any more.
func TestProcessThatSleepsAfterItHung(t *testing.T) {
	for _, tt := range []struct {
		name   string
		how    Processes
		change func(*processReading)
	}{
		{"taskstats", Processes{}, func(*processReading) {}},
		{"files", Processes{}, func(r *processReading) { r.taskstats = nil }},
		{"walk", Processes{walk: true}, func(r *processReading) {
			if r.walk != nil { // nil: without BPF
				r.walk.wait()
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := exec.Command("sh", "-c",
				"read go; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exec sleep 100")
			in, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
			k := collecttest.OpenTicker(t, tt.how, &collect.Env{}, "process.cpu")
			r := k.Reading.(*processReading)
			tt.change(r)
			k.Read()
			k.Read()
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Fatal(err)
			}
			proctest.WaitUntil(t, "it sleeps", func() bool {
				b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
				return strings.Contains(string(b), "(sleep) S")
			})
			hangs := &headReader{done: make(chan struct{})}
			for _, p := range r.procs {
				if int(p.pid) == c.Process.Pid {
					p.held = hangs
				}
			}
			row := fmt.Sprintf("process.cpu %d,sleep,usr", c.Process.Pid)
			if rows := k.Rows(); rows[row] != 0 {
				t.Errorf("%v while its files cannot be read", rows[row])
			}
			close(hangs.done)
			if rows := k.Rows(); rows[row] < float64(20*time.Millisecond) {
				t.Errorf("%s is %v after its files can be read", row, rows[row])
			}
			if rows := k.Rows(); rows[row] != 0 {
				t.Errorf("%s is %v after it was counted", row, rows[row])
			}
		})
	}
}
