package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/collect/collecttest"

	"golang.org/x/sys/unix"
)

// openFD makes a link of an open file of a process.
func openFD(t *testing.T, dir, pid, fd, to string) {
	t.Helper()
	fds := filepath.Join(dir, "proc", pid, "fd")
	if err := os.MkdirAll(fds, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, filepath.Join(fds, fd)); err != nil {
		t.Fatal(err)
	}
}

// The reader of a pipe is the process that has it open to read, not another one that writes to it.
func TestPipeWaiters(t *testing.T) {
	writer := fakeProcess{pid: 7, comm: "writer", state: "S", start: 600}
	other := fakeProcess{pid: 8, comm: "other", state: "S", start: 700}
	reader := fakeProcess{pid: 9, comm: "reader", state: "S", start: 800}
	idle := fakeProcess{pid: 10, comm: "idle", state: "S", start: 900}
	m := newProcessMachine(t, merge(
		writer.files("50 6 7", 1, 2, 3),
		blockedFiles(7, 7, "anon_pipe_write", "", "1 0x1 0x7ffe 0x1000 0x0 0x0 0x0 0x1 0x2\n"),
		other.files("60 7 8", 3, 2, 1), blockedFiles(8, 8, "hrtimer_nanosleep", "", pause),
		reader.files("70 8 9", 5, 6, 7), blockedFiles(9, 9, "ep_poll", "", pause),
		idle.files("80 9 10", 7, 6, 5),
		blockedFiles(10, 10, "pipe_read", "", "0 0x1 0x7ffe 0x1000 0x0 0x0 0x0 0x1 0x2\n"),
		map[string]string{
			"proc/8/fdinfo/4": "pos:\t0\nflags:\t01\nmnt_id:\t13\n",
			"proc/9/fdinfo/5": "pos:\t0\nflags:\t02000000\nmnt_id:\t13\n",
			"proc/9/wchan":    "ep_poll",
		},
	))
	openFD(t, m.Dir, "7", "1", "pipe:[77]")
	openFD(t, m.Dir, "8", "4", "pipe:[77]")
	openFD(t, m.Dir, "9", "5", "pipe:[77]")
	openFD(t, m.Dir, "10", "1", "pipe:[78]")
	if rows := m.Read(true); len(matching(rows, "process.pipe.waiters")) > 0 {
		t.Errorf("the first reading has rows: %v", rows)
	}
	row := "process.pipe.waiters|7|writer|pipe|9|reader|ep_poll||"
	for _, moved := range []string{"yes", "no"} { // it is known from the second reading on
		rows := matching(m.next(), "process.pipe.waiters")
		if len(rows) != 1 || rows[row+moved] != 1 {
			t.Errorf("rows %v, want %s%s", rows, row, moved)
		}
	}

	// the writer goes on: what it waits for is read again
	m.Put(merge(writer.files("51 6 8", 1, 2, 3), blockedFiles(7, 7, "hrtimer_nanosleep", "", pause)))
	collecttest.Expect(t, m.next(), "process.pipe.waiters", nil)
}

// Real writers, to a pipe and to a socket, that nobody reads: this process has the other ends.
func TestPipeWaitersOfThisMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	socket, far := os.NewFile(uintptr(pair[0]), "near"), os.NewFile(uintptr(pair[1]), "far")
	defer far.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	holder := exec.Command("sleep", "60")
	holder.ExtraFiles = []*os.File{r, far}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func(c *exec.Cmd) {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
	}
	defer stop(holder)
	for _, out := range []*os.File{w, socket} {
		c := exec.Command("dd", "if=/dev/zero", "bs=64k", "status=none")
		c.Stdout = out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer stop(c)
		out.Close()
	}
	m := newLive(t, Processes{})
	found := map[string]bool{}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		for key := range matching(m.read(false), "process.pipe.waiters") {
			for _, kind := range []string{"|dd|pipe|", "|dd|unix|"} {
				if strings.Contains(key, kind) && strings.Contains(key, "|sleep|hrtimer_nanosleep|") {
					found[kind] = true
				}
			}
		}
		if len(found) == 2 {
			return
		}
	}
	t.Errorf("found %v, want both", found)
}
