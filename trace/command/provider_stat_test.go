package command

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"culprit/trace/tracetest"

	"golang.org/x/sys/unix"
)

func faults(t *testing.T) (major, all int64) {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return u.Majflt, u.Minflt + u.Majflt
}

// The first access to a page is a fault, and a major one if the page has to be read. The counts are
// those of the kernel.
func TestFaultProbes(t *testing.T) {
	const pages = 500
	if _, err := tracetest.Here(t).Probes(tracetest.Probe(t, "vminfo:::as_fault")); err != nil {
		t.Skip("needs: kernel feature exceptions:page_fault_user")
	}
	size := os.Getpagesize()
	path := filepath.Join(t.TempDir(), "read")
	if err := os.WriteFile(path, make([]byte, pages*size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	var major, all int64
	_, out, errs := traced(t, program(`
		vminfo:::as_fault /pid == $pid/ { @["faults"] = sum(arg0); }
		vminfo:::maj_fault /pid == $pid/ { @["major"] = sum(args[0]); }
		END { printa("%%s %%@d\n", @); }`), func() {
		m, a := faults(t)
		b, err := unix.Mmap(
			-1, 0, pages*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON,
		)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Munmap(b)                  //nolint:errcheck // it goes with the process
		unix.Madvise(b, unix.MADV_NOHUGEPAGE) //nolint:errcheck // a kernel without them has none
		for i := 0; i < len(b); i += size {
			b[i] = 1
		}
		unix.Fadvise(
			int(f.Fd()), 0, 0, unix.FADV_DONTNEED,
		) //nolint:errcheck // counted by the kernel too
		file, err := unix.Mmap(int(f.Fd()), 0, pages*size, unix.PROT_READ, unix.MAP_PRIVATE)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Munmap(file)              //nolint:errcheck // as above
		unix.Madvise(file, unix.MADV_RANDOM) //nolint:errcheck // it is read page by page
		sum := byte(0)
		for i := 0; i < len(file); i += size {
			sum += file[i]
		}
		if sum != 0 {
			t.Error("a file of zeroes has others")
		}
		m2, a2 := faults(t)
		major, all = m2-m, a2-a
	})
	if errs != "" {
		t.Error(errs)
	}
	got := answers(t, out)
	if got["major"] < major || got["major"] > major+100 { // a few may come before or behind
		t.Errorf("%d major faults, the kernel counts %d", got["major"], major)
	}
	// Those of writing to a page that is there are in the kernel's number alone.
	if got["faults"] < pages || got["faults"] > all+2*pages {
		t.Errorf("%d faults, want at least %d; the kernel counts %d", got["faults"], pages, all)
	}
}

// sysinfo counts the bytes and calls that the process makes.
func TestSysinfoProbes(t *testing.T) {
	const calls, size = 300, 100
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	_, out, errs := traced(t, program(`
		sysinfo:::syswrite /pid == $pid/ { @["writes"] = sum(arg0); } sysinfo:::writech /pid == $pid/ { @["written"] = sum(arg0); }
		sysinfo:::sysread /pid == $pid/ { @["reads"] = sum(arg0); } sysinfo:::readch /pid == $pid/ { @["read"] = sum(arg0); }
		syscall::write:entry, syscall::writev:entry, syscall::pwrite64:entry /pid == $pid/ { @["writes beside"] = sum(1); }
		syscall::read:return, syscall::readv:return, syscall::pread64:return /pid == $pid && arg0 > 0/ { @["read beside"] = sum(arg0); }
		END { printa("%%s %%@d\n", @); }`), func() {
		b := make([]byte, size)
		for range calls {
			if n, err := unix.Write(fds[1], b); err != nil || n != size {
				t.Error(n, err)
			}
			if n, err := unix.Read(fds[0], b); err != nil || n != size {
				t.Error(n, err)
			}
		}
	})
	if errs != "" {
		t.Error(errs)
	}
	got := answers(t, out)
	for name, least := range map[string]int64{
		"writes": calls, "reads": calls, "written": calls * size, "read": calls * size,
	} {
		if got[name] < least {
			t.Errorf("%s: %d, want at least %d", name, got[name], least)
		}
	}
	// programs are attached one after the other
	for _, pair := range [][2]string{{"writes", "writes beside"}, {"read", "read beside"}} {
		if d := got[pair[0]] - got[pair[1]]; d < -size || d > size {
			t.Errorf("%s %d, %s %d", pair[0], got[pair[0]], pair[1], got[pair[1]])
		}
	}
}

// Each successful wait for a lock fires one of lockstat's probes, with its duration.
func TestLockProbes(t *testing.T) {
	e := tracetest.Here(t)
	if _, err := e.Probes(tracetest.Probe(t, "lockstat:::adaptive-block")); err != nil {
		t.Skip("needs: kernel feature lock:contention_begin")
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	_, out, errs := traced(t, program(`
		lockstat::: { @["fired"] = sum(1); }
		lockstat::: /!arg0 || (int64_t)arg1 <= 0 || arg1 > 20000000000/ { @["wrong"] = sum(1); }
		lockstat:::adaptive-spin, lockstat:::adaptive-block /pid == $pid/ { @["of a pipe"] = sum(1); @["ns of it"] = sum(arg1); }
		rawtp:lock::contention_begin { kind[arg0, (uintptr_t)curthread] = arg1 | 64; }
		rawtp:lock::contention_end /arg1 == 0 && kind[arg0, (uintptr_t)curthread] & 63/ { @["ended"] = sum(1); }
		rawtp:lock::contention_end { kind[arg0, (uintptr_t)curthread] = 0; }
		END { printa("%%s %%@d\n", @); }`), func() {
		var all sync.WaitGroup
		for range 4 { // one pipe has one mutex
			all.Go(func() {
				b := make([]byte, 1)
				for range 30000 {
					unix.Write(fds[1], b) //nolint:errcheck // it may be full
					unix.Read(fds[0], b)  //nolint:errcheck // it may be empty
				}
			})
		}
		all.Wait()
	})
	if errs != "" {
		t.Error(errs)
	}
	got := answers(t, out)
	if got["fired"] == 0 && got["ended"] > 20 || got["wrong"] != 0 {
		t.Errorf("%d waits were reported, %d of them wrong", got["fired"], got["wrong"])
	}
	// what was waited for while programs came and went
	if d := got["fired"] - got["ended"]; d < -got["ended"]/20-20 || d > got["ended"]/20+20 {
		t.Errorf("%d waits were reported, and %d ended", got["fired"], got["ended"])
	}
	t.Logf("%v", got)
}
