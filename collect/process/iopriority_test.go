package process

import (
	"os"
	"os/exec"
	"testing"

	"culprit/collect/collecttest"

	"golang.org/x/sys/unix"
)

// TestIOPriority: processes that read or wrote have a row, with their class and level.
func TestIOPriority(t *testing.T) {
	some := fakeProcess{pid: 7, comm: "backup", start: 600}
	quiet := fakeProcess{pid: 8, comm: "quiet", start: 600}
	m := newProcessMachine(t, merge(some.files("50 6 7", 1, 2, 3), quiet.files("50 6 7", 1, 2, 3)))
	if rows := m.Read(true); len(matching(rows, "process.io.priority")) > 0 {
		t.Errorf("the first reading does not know what was read: %v", rows)
	}
	m.Reading.(*processReading).ioPriority.get = func(pid int) (uint, error) {
		if pid != 7 {
			t.Errorf("process %d was read", pid)
		}
		return 3<<13 | 5, nil
	}
	m.Put(map[string]string{"proc/7/schedstat": "51 7 8\n", "proc/8/schedstat": "51 7 8\n",
		"proc/7/io": "rchar: 1\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: 4097\n" +
			"write_bytes: 3\ncancelled_write_bytes: 0\n"})
	collecttest.Expect(t, m.next(), "process.io.priority", map[string]float64{
		"process.io.priority|7|backup|idle": 5,
	})
}

func TestIOClass(t *testing.T) {
	for _, tt := range []struct {
		v     uint
		class string
		level int
	}{{0, "none", 0}, {4, "none", 4}, {1<<13 | 3, "realtime", 3}, {2<<13 | 7, "best-effort", 7},
		{3 << 13, "idle", 0}, {2<<13 | 5<<3 | 6, "best-effort", 6}, {7<<13 | 1, "none", 1}} {
		if class, level := ioClass(tt.v); class != tt.class || level != tt.level {
			t.Errorf("%#x: %s %d, want %s %d", tt.v, class, level, tt.class, tt.level)
		}
	}
}

// TestIOPriorityOf sets the class of a process and reads it.
func TestIOPriorityOf(t *testing.T) {
	c := exec.Command("sleep", "20")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Kill(); c.Wait() }() //nolint:errcheck // it was killed
	const idle = 3 << 13
	pid := uintptr(c.Process.Pid)
	if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, 1, pid, idle); errno != 0 {
		t.Fatal(errno)
	}
	v, err := ioPriorityOf(c.Process.Pid)
	if class, _ := ioClass(v); err != nil || class != "idle" {
		t.Errorf("%#x, %v", v, err)
	}
	if _, err := ioPriorityOf(os.Getpid()); err != nil {
		t.Error(err)
	}
}
