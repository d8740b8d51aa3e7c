package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"culprit/heapbound"
	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

func TestFileGrowsAndShrinks(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "f"), "")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{0, 1, firstBuffer - 1, firstBuffer, firstBuffer + 1,
		10 * firstBuffer, 100003, 7, 0} {
		want := bytes.Repeat([]byte("x1 "), size/3+1)[:size]
		write(t, path, string(want))
		for name, read := range map[string]func() ([]byte, error){"Read": f.Read,
			"ReadOne": f.ReadOne} {
			got, err := read()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s of %d bytes: %d bytes, %v", name, size, len(got), err)
			}
		}
	}
}

// Files of many records come a page at a time; ours must be as whole as the standard library's.
func TestReadWholeSeqFile(t *testing.T) {
	f, err := OpenProc(kernel.Root{}, "kallsyms")
	if err != nil {
		t.Skip("needs: kernel feature kallsyms:", err)
	}
	defer f.Close()
	// Modules and BPF programs come and go: it is whole when it was the same before and after.
	for deadline := time.Now().Add(30 * time.Second); ; {
		before, err := os.ReadFile("/proc/kallsyms")
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Read()
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile("/proc/kallsyms")
		if err != nil {
			t.Fatal(err)
		}
		if (len(before) != len(after) || len(got) != len(after)) && time.Now().Before(deadline) {
			continue // one that came and went between leaves no trace in either
		}
		if len(got) != len(after) {
			t.Errorf("%d bytes, want %d", len(got), len(after))
		}
		return
	}
}

func TestFileOfEndedProcess(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("needs: tool cat:", err)
	}
	pid := int32(cmd.Process.Pid)
	proc, err := OpenProcDir(kernel.Root{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	f, err := proc.OpenPID(pid, "stat")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := f.ReadOneInto(nil)
	if err != nil || !bytes.HasPrefix(b, []byte(strconv.Itoa(int(pid))+" (")) {
		t.Fatalf("%q, %v", b, err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if b, err = f.ReadOneInto(b); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, unix.ESRCH) ||
		len(b) != 0 || cap(b) == 0 {
		t.Errorf("kept open: %q, %v; want ErrNotExist, ESRCH and an empty buffer", b, err)
	}
	if _, err = proc.ReadPID(pid, "stat", b); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("by name: %v; want ErrNotExist", err)
	}
	if _, err = proc.ListTIDs(pid, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its threads: %v; want ErrNotExist", err)
	}
}

func TestErrno(t *testing.T) {
	tests := []struct {
		errno  unix.Errno
		is, no error
	}{
		{unix.ENOENT, fs.ErrNotExist, measure.ErrDenied},
		{unix.ESRCH, fs.ErrNotExist, measure.ErrUnsupported},
		{unix.ENODEV, fs.ErrNotExist, measure.ErrUnsupported},
		{unix.EACCES, measure.ErrDenied, fs.ErrNotExist},
		{unix.EPERM, fs.ErrPermission, measure.ErrUnsupported},
		{unix.EOPNOTSUPP, measure.ErrUnsupported, measure.ErrDenied},
		{unix.EIO, unix.EIO, measure.ErrUnsupported},
	}
	for _, test := range tests {
		err := fmt.Errorf("read x: %w", kernel.Errno(test.errno))
		if !errors.Is(err, test.is) || !errors.Is(err, test.errno) || errors.Is(err, test.no) {
			t.Errorf("%v: is %v, and not %v: wrong", test.errno, test.is, test.no)
		}
	}
}

func TestPathsThatLie(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "1")
	if _, err := ReadFile(filepath.Join(dir, "a")+"\x00b", nil); !errors.Is(err, unix.EINVAL) {
		t.Errorf("NUL in a path: %v; want EINVAL", err)
	}
	long := filepath.Join(dir, string(bytes.Repeat([]byte("n"), 200)))
	write(t, long, "long")
	if b, err := ReadFile(long, nil); err != nil || string(b) != "long" {
		t.Errorf("path longer than the stack buffer: %q, %v", b, err)
	}
	if _, err := Open(dir + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
	if _, err := OpenDir(filepath.Join(dir, "a")); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a file as directory: %v", err)
	}
	if _, err := ReadFile(dir, nil); !errors.Is(err, unix.EISDIR) {
		t.Errorf("a directory as file: %v", err)
	}
}

func TestRoot(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/p/loadavg", "0.10")
	write(t, dir+"/s/class/net/eth0/speed", "1000")
	write(t, dir+"/p/12/stat", "12 (a)")
	write(t, dir+"/p/7/stat", "7 (b)")
	write(t, dir+"/p/4294967296/stat", "no pid")
	write(t, dir+"/p/7x/stat", "no pid")
	r := kernel.Root{Proc: dir + "/p", Sys: dir + "/s"}
	if b, err := ReadProc(r, "loadavg", nil); err != nil || string(b) != "0.10" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := ReadSys(r, "class/net/eth0/speed", nil); err != nil || string(b) != "1000" {
		t.Errorf("%q, %v", b, err)
	}
	d, err := OpenProcDir(r, "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 2 { // kept open and listed again
		pids, err := d.ListPIDs(nil)
		slices.Sort(pids)
		if err != nil || !slices.Equal(pids, []int32{7, 12}) {
			t.Errorf("%v, %v", pids, err)
		}
	}
	if b, err := d.ReadPIDOne(12, "stat", nil); err != nil || string(b) != "12 (a)" {
		t.Errorf("%q, %v", b, err)
	}
	names := map[string]bool{}
	if err := d.Names(func(name []byte,
		isDir bool) bool {
		names[string(name)] = isDir
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if len(names) != 5 || names["loadavg"] || !names["12"] {
		t.Errorf("%v", names)
	}
	if (kernel.Root{}).InProc("stat") != "/proc/stat" || (kernel.Root{}).InSys("x") != "/sys/x" {
		t.Error("the zero Root is not the running kernel")
	}
}

func TestListPIDsFindsSelf(t *testing.T) {
	d, err := OpenProcDir(kernel.Root{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	pids, err := d.ListPIDs(nil)
	if err != nil || !slices.Contains(pids, int32(os.Getpid())) || !slices.IsSorted(pids) {
		t.Errorf("%v, %v", pids, err)
	}
	tids, err := d.ListTIDs(int32(os.Getpid()), nil)
	if err != nil || !slices.Contains(tids, int32(os.Getpid())) {
		t.Errorf("threads %v, %v", tids, err)
	}
	var buf [256]byte
	exe, err := d.ReadLink(int32(os.Getpid()), "exe", buf[:])
	if want, _ := os.Executable(); err != nil || string(exe) != want {
		t.Errorf("exe %q, %v", exe, err)
	}
}

// The hot paths must not allocate: a collector calls them thousands of times a second.
func TestFileDoesNotAllocate(t *testing.T) {
	proc, err := OpenProcDir(kernel.Root{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	f, err := proc.Open("stat")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf, pids := make([]byte, 0, 64<<10), make([]int32, 0, 1<<16)
	self := int32(os.Getpid())
	for name, fn := range map[string]func(){
		"File.Read":      func() { f.Read() },
		"ReadFile":       func() { buf, _ = ReadFile("/proc/uptime", buf) },
		"ReadPIDOne":     func() { buf, _ = proc.ReadPIDOne(self, "stat", buf) },
		"ReadPID (gone)": func() { buf, _ = proc.ReadPID(1<<31-1, "stat", buf) },
		"ListPIDs":       func() { pids, _ = proc.ListPIDs(pids[:0]) },
		"ListTIDs":       func() { pids, _ = proc.ListTIDs(self, pids[:0]) },
	} {
		fn()
		if n := testing.AllocsPerRun(20, fn); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func FuzzDirents(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x18\x00\x04123\x00\x00"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		for len(b) > 0 {
			e, rest := nextDirent(b)
			if e.name == nil {
				return
			}
			if len(e.name) == 0 || bytes.IndexByte(e.name, 0) >= 0 || len(rest) >= len(b) {
				t.Fatalf("%q, %d left of %d", e.name, len(rest), len(b))
			}
			b = rest
		}
	})
}

func BenchmarkFile(b *testing.B) {
	for _, name := range []string{"/proc/stat", "/proc/loadavg", "/proc/vmstat", "/proc/self/stat",
		"/sys/class/net/lo/mtu", "/proc/net/dev"} {
		f, err := Open(name)
		if err != nil {
			b.Log(err)
			continue
		}
		b.Run("Read"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.Read()
			}
		})
		b.Run("ReadOne"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.ReadOne()
			}
		})
		b.Run("ReadFile"+name, func(b *testing.B) {
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				buf, _ = ReadFile(name, buf)
			}
		})
		f.Close()
	}
}

func BenchmarkProcesses(b *testing.B) {
	d, err := OpenProcDir(kernel.Root{}, "")
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	var pids []int32
	b.Run("ListPIDs", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			pids, _ = d.ListPIDs(pids[:0])
		}
		b.ReportMetric(float64(len(pids)), "pids")
	})
	b.Run("ReadPIDOne", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf, _ = d.ReadPIDOne(int32(os.Getpid()), "stat", buf)
		}
	})
}
