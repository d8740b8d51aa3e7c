package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"culprit/kernel"

	"golang.org/x/sys/unix"
)

// A read that does not return delays the caller once: the same process is not read again until it
// has returned, and other processes are. Here the file is a FIFO without a writer.
func TestTimedReaderThatHangs(t *testing.T) {
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
	dir, err := OpenProcDir(kernel.Root{Proc: filepath.Join(root, "proc")}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close() //nolint:errcheck // only read
	var l TimedReader
	defer l.Close()
	if b, err := l.ReadPIDAt(dir, 7, "mem", 0); !errors.Is(err, ErrHangs) || !l.Hangs(7) {
		t.Fatalf("%q, %v while the read hangs", b, err)
	}
	l.Limit = time.Minute // the others return, on a loaded machine late
	if b, err := l.ReadPIDAt(dir, 7, "cmdline", 0); !errors.Is(err, ErrHangs) {
		t.Errorf("%q of the process whose read hangs", b)
	}
	if b, err := l.ReadPIDAt(dir, 8, "cmdline", 1); err != nil || string(b) != "ext8" {
		t.Errorf("%q, %v of another process, want ext8", b, err)
	}
	if b, err := l.ReadPIDAt(dir, 8, "none", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%q, %v of no file", b, err)
	}
	w, err := os.OpenFile(stuck, os.O_WRONLY, 0) // ends the read
	if err != nil {
		t.Fatal(err)
	}
	w.Close() //nolint:errcheck // nothing was written
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if b, err := l.ReadPIDAt(dir, 7, "cmdline", 0); err == nil {
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
func TestTimedReaderBound(t *testing.T) {
	dir, err := OpenProcDir(kernel.Root{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close() //nolint:errcheck // only read
	l := TimedReader{pending: map[int32]*timedWorker{}, Limit: time.Minute}
	defer l.Close()
	for pid := range int32(mostPending) {
		l.pending[pid] = &timedWorker{asked: make(chan timedRead), done: make(chan timedResult, 1)}
	}
	own := int32(os.Getpid())
	if b, err := l.ReadPIDAt(dir, own, "cmdline", 0); !errors.Is(err, ErrHangs) {
		t.Errorf("%q while %d reads hang", b, mostPending)
	}
	l.pending[3] = startTimed()
	l.pending[3].done <- timedResult{}
	if _, err := l.ReadPIDAt(dir, own, "cmdline", 0); err != nil {
		t.Error("nothing after one has returned")
	}
}
