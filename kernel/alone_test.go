package kernel

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What is asked without telling the scheduler gives the same as what tells it, errors included.
func TestAlone(t *testing.T) {
	var plain unix.Statfs_t
	if err := unix.Statfs("/", &plain); err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	if _, err := write.WriteString("seven b"); err != nil {
		t.Fatal(err)
	}
	for _, r := range []Root{{}, {Alone: true}} {
		for _, quick := range []bool{false, true} {
			var st unix.Statfs_t
			if err := r.Statfs("/", &st, quick); err != nil || st.Blocks != plain.Blocks || st.Type != plain.Type {
				t.Errorf("alone %v, quick %v: statfs of / gives %d blocks of type %x and %v, want %d of %x", r.Alone, quick, st.Blocks, st.Type, err, plain.Blocks, plain.Type)
			}
			if err := r.Statfs("/nowhere/at all", &st, quick); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("alone %v, quick %v: statfs of what is not there: %v", r.Alone, quick, err)
			}
		}
		var waiting int32
		if e := r.Ioctl(int(read.Fd()), unix.TIOCINQ, unsafe.Pointer(&waiting)); e != 0 || waiting != 7 {
			t.Errorf("alone %v: %d bytes wait in the pipe, %v; 7 were written", r.Alone, waiting, e)
		}
		if e := r.Ioctl(-1, unix.TIOCINQ, unsafe.Pointer(&waiting)); e != unix.EBADF {
			t.Errorf("alone %v: ioctl of no file: %v", r.Alone, e)
		}
		d, err := r.OpenProcDir("sys/kernel")
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile("/proc/sys/kernel/osrelease")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := d.ReadOne("osrelease", nil); err != nil || string(b) != string(want) {
			t.Errorf("alone %v: osrelease reads %q, %v; want %q", r.Alone, b, err, want)
		}
		if b, err := d.ReadFile("no such", nil); !errors.Is(err, fs.ErrNotExist) || len(b) != 0 {
			t.Errorf("alone %v: a file that is not there reads %q, %v", r.Alone, b, err)
		}
		d.Close()
		f, err := r.Open("/proc/sys/kernel/osrelease")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := f.ReadOne(); err != nil || string(b) != string(want) {
			t.Errorf("alone %v: osrelease kept open reads %q, %v; want %q", r.Alone, b, err, want)
		}
		f.Close()
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer mounts.Close()
	if _, err := Excepted(int(mounts.Fd())); err != nil {
		t.Errorf("poll mountinfo: %v", err)
	}
	if _, err := Excepted(int(read.Fd())); err != nil {
		t.Errorf("poll a pipe: %v", err)
	}
}
