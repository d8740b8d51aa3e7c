package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"

	"golang.org/x/sys/unix"
)

// Each signal that this process sends to itself fires signal-send once.
func TestStableProbesOfProcesses(t *testing.T) {
	const signals = 30
	_, out, errs := traced(
		t,
		program(
			`proc:::signal-send /pid == %d && args[2] == %d/ { @[args[1]->pr_pid] = count(); }`,
			os.Getpid(), unix.SIGURG,
		),
		func() {
			for range signals {
				if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGURG); err != nil {
					t.Error(err)
				}
			}
		},
	)
	// Go's scheduler sends itself such signals too.
	var pid, n int
	if _, err := fmt.Sscan(strings.Join(strings.Fields(out), " "), &pid, &n); err != nil ||
		pid != os.Getpid() ||
		n < signals ||
		errs != "" {
		t.Errorf("printed %q and %q, want %d signals to %d", out, errs, signals, os.Getpid())
	}
}

// Direct writes, without the page cache, fire io:::start and io:::done with all bytes.
func TestStableProbesOfDevices(t *testing.T) {
	e := tracetest.Here(t)
	tracetest.Needs(t, feature.RawTracepoints)
	if _, err := e.Probes(tracetest.Probe(t, "io:::start")); err != nil {
		t.Skip("needs: kernel feature block_events")
	}
	path := filepath.Join(t.TempDir(), "written")
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Skip("needs: kernel feature O_DIRECT")
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || unix.Major(st.Dev) == 0 {
		t.Skip("needs: kernel feature block_device (below the folder of temporary files)")
	}
	const size = 8 << 20
	block, err := unix.Mmap(
		-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON,
	)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(block) //nolint:errcheck // it goes with the process
	_, out, errs := traced(
		t,
		program(
			`io:::start /args[0]->b_flags & B_WRITE/ { @s = sum(args[0]->b_bcount); } io:::done /args[0]->b_flags & B_WRITE/ { @d = sum(args[0]->b_bcount); }`,
		),
		func() {
			if n, err := unix.Pwrite(fd, block, 0); err != nil || n != size {
				t.Error(n, err)
			}
		},
	)
	var start, done int
	if _, err := fmt.Sscan(strings.Join(strings.Fields(out), " "), &start, &done); err != nil ||
		start < size ||
		done < size ||
		errs != "" {
		t.Errorf("printed %q and %q, want at least %d twice", out, errs, size)
	}
}
