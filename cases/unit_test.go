package cases

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestUnit: with the capabilities of the systemd unit, and without those system calls of tracing
// that it does not name, a profile is taken and the kernel's functions have names. Under a filter
// that forbids them, culprit says that it is a filter; what the kernel refuses under another one is
// not laid to it.
func TestUnit(t *testing.T) {
	l := open(t)
	bin := forAll(t, l, needProgram(t))
	needTools(t, "setpriv")
	set := unitSettings(t, "../packaging/culprit.service")
	var mask []string
	for _, c := range set["CapabilityBoundingSet"] {
		mask = append(mask, "+"+strings.ToLower(strings.TrimPrefix(c, "CAP_")))
	}
	calls := map[string]uint32{"bpf": unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN}
	named := func(name string) bool {
		return strings.Contains(" "+strings.Join(set["SystemCallFilter"], " ")+" ", " "+name+" ")
	}
	run := func(forbidden []uint32, args ...string) (string, string, error) {
		c := l.Command(
			"setpriv",
			append(
				[]string{"--no-new-privs", "--bounding-set=-all," + strings.Join(mask, ","), bin},
				args...)...)
		var out, said strings.Builder
		c.Stdout, c.Stderr = &out, &said
		err := runFiltered(c, forbidden)
		return out.String(), said.String(), err
	}
	for _, tt := range []struct {
		name    string
		forbids func(call string) bool
		out     string
		says    string
	}{
		{"as the unit has it", func(call string) bool { return !named(call) }, "Count indv cuml  CPU Caller", ""},
		{"under a filter that forbids both", func(string) bool { return true }, "", "which a filter of system calls keeps from this process"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var forbidden []uint32
			for name, number := range calls {
				if tt.forbids(name) {
					forbidden = append(forbidden, number)
				}
			}
			out, said, err := run(forbidden, "profile", "--for", "1", "--idle", "--table")
			if (err == nil) != (tt.says == "") || !strings.Contains(out, tt.out) ||
				!strings.Contains(said, tt.says) {
				t.Errorf("%v: printed %s, said %s", err, out, said)
			}
			if strings.Contains(out, "0xffff") {
				t.Errorf("functions of the kernel have no names: %s", out)
			}
		})
	}
	t.Run("a filter that lets all through", func(t *testing.T) {
		_, said, err := run(
			nil, "trace", "-q", "-n", "fbt::vfs_read:entry { exit(0); }", "-c", "cat /proc/version",
		)
		if strings.Contains(said, "filter of system calls") ||
			err != nil && !strings.Contains(said, "fbt") {
			t.Errorf("%v, said %s", err, said)
		}
	})
}

// unitSettings returns the words of each setting of a unit file; a setting that is there twice has
// the words of both.
func unitSettings(t *testing.T, path string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	set := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok &&
			!strings.HasPrefix(name, "#") {
			set[name] = append(set[name], strings.Fields(value)...)
		}
	}
	return set
}

// runFiltered runs a command to which system calls of these numbers fail with EPERM, by a filter of
// the thread that starts it, which ends then.
func runFiltered(c *exec.Cmd, forbidden []uint32) error {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		give  = unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{{Code: load}} // the number of the call comes first
	for _, number := range forbidden {
		filter = append(filter, unix.SockFilter{Code: equal, Jf: 1, K: number},
			unix.SockFilter{Code: give, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	}
	filter = append(filter, unix.SockFilter{Code: give, K: unix.SECCOMP_RET_ALLOW})
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		_, _, errno := unix.RawSyscall(
			unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)),
		)
		if errno != 0 {
			done <- fmt.Errorf("set a filter of system calls: %w", errno)
			return
		}
		done <- c.Run()
	}()
	return <-done
}
