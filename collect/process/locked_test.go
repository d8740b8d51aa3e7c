package process

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/proc"

	"golang.org/x/sys/unix"
)

// A read that does not return delays the caller once: the same process is not read again until it
// has returned, and other processes are. Here the file is a FIFO without a writer.
func TestLockedReaderThatHangs(t *testing.T) {
	root := t.TempDir()
	for _, pid := range []string{"7", "8"} {
		if err := os.MkdirAll(filepath.Join(root, "proc", pid), 0o755); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(root, "proc", pid, "cmdline")
		if err := os.WriteFile(name, []byte("text"+pid), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stuck := filepath.Join(root, "proc/7/mem")
	if err := unix.Mkfifo(stuck, 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := proc.OpenProcDir(kernel.Root{Proc: filepath.Join(root, "proc")}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close() //nolint:errcheck // only read
	var l lockedReader
	defer l.close()
	if b, ok := l.read(lockedRead{dir, 7, "mem", 0, 10}); ok || l.pending[7] == nil {
		t.Fatalf("%q, %v while the read hangs", b, ok)
	}
	l.most = time.Minute // the others return, on a loaded machine late
	if b, ok := l.read(lockedRead{dir, 7, "cmdline", 0, 10}); ok {
		t.Errorf("%q of the process whose read hangs", b)
	}
	if b, ok := l.read(lockedRead{dir, 8, "cmdline", 1, 2}); !ok || string(b) != "ex" {
		t.Errorf("%q, %v of another process, want ex", b, ok)
	}
	if b, ok := l.read(lockedRead{dir, 8, "none", 0, 2}); ok {
		t.Errorf("%q of no file", b)
	}
	w, err := os.OpenFile(stuck, os.O_WRONLY, 0) // ends the read
	if err != nil {
		t.Fatal(err)
	}
	w.Close() //nolint:errcheck // nothing was written
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if b, ok := l.read(lockedRead{dir, 7, "cmdline", 0, 10}); ok {
			if string(b) != "text7" {
				t.Errorf("%q after the read has returned, want text7", b)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal("no read after the one that hung has returned")
		}
	}
}

// Only a few reads that hang are waited for.
func TestLockedReaderBound(t *testing.T) {
	dir, err := proc.OpenProcDir(kernel.Root{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close() //nolint:errcheck // only read
	l := lockedReader{pending: map[int32]*lockedWorker{}, most: time.Minute}
	defer l.close()
	for pid := range int32(mostPending) {
		l.pending[pid] = &lockedWorker{asked: make(chan lockedRead), done: make(chan []byte, 1)}
	}
	own := lockedRead{dir, int32(os.Getpid()), "cmdline", 0, 1}
	if b, ok := l.read(own); ok {
		t.Errorf("%q while %d reads hang", b, mostPending)
	}
	l.pending[3] = startLocked()
	l.pending[3].done <- nil
	if _, ok := l.read(own); !ok {
		t.Error("nothing after one has returned")
	}
}
