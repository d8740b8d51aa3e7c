package cases

import (
	"errors"
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

// worstExposure is the highest exposure level of the unit: docs/decisions/0009 has what remains.
// systemd 252 reports 3.4; other versions differ a little.
const worstExposure = 3.5

// TestUnitAnalyzed: systemd accepts each line of the unit, and its exposure level does not grow.
func TestUnitAnalyzed(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs: tool systemd-analyze")
	}
	dir := t.TempDir()
	text, err := os.ReadFile("../packaging/culprit.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(dir, "culprit.service")
	program := filepath.Join(dir, "bin", "culprit")
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, "bin"), 0o755), os.WriteFile(program, nil, 0o755),
		os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), "@PREFIX@", dir)), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
	if err != nil || strings.Contains(string(out), "culprit.service:") {
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
	out, err = exec.Command("systemd-analyze", "security", "--offline=true", unit).CombinedOutput()
	const head = "Overall exposure level for culprit.service: "
	_, rest, found := strings.Cut(string(out), head)
	var level float64
	if _, scan := fmt.Sscan(rest, &level); !found || scan != nil {
		t.Fatalf("systemd-analyze security: %v: %s", err, out)
	}
	if level > worstExposure {
		t.Errorf("the exposure level is %v, more than %v", level, worstExposure)
	}
}

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
