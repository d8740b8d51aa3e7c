package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Scripts of common practice, as people write them, beside an independent count of the same run:
// perf stat's, the kernel's own of a process, or what the workload is known to do.

// known is the name of the workloads' programs, by which scripts without a predicate recognize
// them.
const known = "known-count"

// knownProgram returns a copy of a program under that name.
func knownProgram(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip("needs: tool " + name)
	}
	if real, _ := filepath.EvalSymlinks(path); strings.Contains(real, "busybox") {
		t.Skip("needs: tool " + name + " of its own")
	}
	b, err := os.ReadFile(path)
	if err == nil {
		path = filepath.Join(t.TempDir(), known)
		err = os.WriteFile(path, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// perfStat returns how often each of perf's events occurred while a command ran.
func perfStat(t *testing.T, events []string, command ...string) map[string]int {
	t.Helper()
	file := filepath.Join(t.TempDir(), "stat")
	args := append(
		[]string{"stat", "-x", ",", "-o", file, "-e", strings.Join(events, ","), "--"},
		command...)
	if out, err := exec.CommandContext(t.Context(), "perf", args...).CombinedOutput(); err != nil {
		t.Errorf("perf %v: %v: %s", args, err, out)
		return nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(line, ","); len(f) > 2 {
			if n, err := strconv.Atoi(f[0]); err == nil {
				counts[f[2]] = n
			}
		}
	}
	return counts
}

// tableRow returns the number of a name in a table, or 0.
func tableRow(out, name string) int {
	n := 0
	if m := regexp.MustCompile(`(?m)^ +` + regexp.QuoteMeta(name) + ` +(\d+)$`).FindStringSubmatch(out); m != nil {
		n, _ = strconv.Atoi(m[1])
	}
	return n
}

// picture returns the counts of the distribution of a key, by the least value of each bucket.
func picture(out, name string) (counts map[int]int, sum int) {
	counts = map[int]int{}
	at := regexp.MustCompile(`(?m)^ +` + name + ` *\n.* count *$`).FindStringIndex(out)
	if at == nil {
		return counts, 0
	}
	rest := out[at[1]:]
	rest, _, _ = strings.Cut(rest, "\n\n")
	for _, m := range regexp.MustCompile(`(?m)^ +(-?\d+) \|@* +(\d+) *$`).FindAllStringSubmatch(rest, -1) {
		value, _ := strconv.Atoi(m[1])
		n, _ := strconv.Atoi(m[2])
		counts[value] = n
		sum += n
	}
	return counts, sum
}

func TestKnownCounts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs: root")
	}
	if _, err := exec.LookPath("perf"); err != nil {
		t.Skip("needs: tool perf")
	}
	const reads = 1000
	dd := knownProgram(t, "dd")
	work := []string{
		dd,
		"if=/dev/zero",
		"of=/dev/null",
		"bs=512",
		"count=" + strconv.Itoa(reads),
		"status=none",
	}
	const entries, entered, left, opened = "raw_syscalls:sys_enter", "syscalls:sys_enter_read", "syscalls:sys_exit_read", "syscalls:sys_enter_openat"
	var counted map[string]int
	counting := func() {
		counted = perfStat(t, []string{entries, entered, left, opened}, work...)
		if counted[entered] < reads || counted[left] != counted[entered] || counted[opened] < 2 {
			t.Errorf("perf counted %v", counted)
		}
	}

	out := knownRun(t, `syscall:::entry { @[execname] = count(); }`, counting)
	if n := tableRow(out, known); n != counted[entries] {
		t.Errorf("%d system calls, perf counted %d", n, counted[entries])
	}

	out = knownRun(
		t,
		`syscall::read:entry { self->ts = timestamp; } syscall::read:return /self->ts/ { @[execname] = quantize(timestamp - self->ts); self->ts = 0; }`,
		counting,
	)
	if _, n := picture(out, known); n != counted[left] {
		t.Errorf("%d reads were timed, perf counted %d:\n%s", n, counted[left], out)
	}

	out = knownRun(t, `syscall::read:return { @[execname] = quantize(arg0); }`, counting)
	if sizes, n := picture(out, known); n != counted[left] || sizes[512] < reads ||
		sizes[512] > counted[left] {
		t.Errorf(
			"%d reads by size, of which %d of 512 bytes, perf counted %d:\n%s", n, sizes[512],
			counted[left], out,
		)
	}

	out = knownRun(
		t, `syscall::open*:entry { printf("%s %s\n", execname, copyinstr(arg1)); }`, counting,
	)
	if n := strings.Count("\n"+out, "\n"+known+" "); n > counted[opened] ||
		!strings.Contains(out, known+" /dev/zero\n") {
		t.Errorf("%d files were opened, perf counted %d:\n%s", n, counted[opened], out)
	}

	for _, text := range []string{`syscall::exec*:return { trace(execname); }`, `proc:::exec-success { trace(curpsinfo->pr_psargs); }`} {
		out = knownRun(t, text, counting)
		want := known
		if strings.HasPrefix(text, "proc") {
			want = strings.Join(work, " ")
		}
		// perf's own arguments are not meant
		if n := strings.Count(out, want) - strings.Count(out, "-- "+want); n != 1 {
			t.Errorf("%s: %d times %q in %q", text, n, want, out)
		}
	}

	const calls = 12345
	out = knownRun(t, `syscall:::entry { @[probefunc] = count(); }`, func() {
		for range calls {
			unix.RawSyscall(
				unix.SYS_SCHED_RR_GET_INTERVAL, 1<<30, 0, 0,
			) //nolint:errcheck // it is made to be counted
		}
	})
	if n := tableRow(out, "sched_rr_get_interval"); n != calls {
		t.Errorf("%d of %d calls", n, calls)
	}
}

// There are as many samples as the time allows, or fewer where a hypervisor delays timers.
func TestKnownTimes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs: root")
	}
	awk := knownProgram(t, "awk")
	sampled := func() string {
		var took time.Duration
		out := knownRun(t, `profile-99 /arg1/ { @[execname, ustack()] = count(); }`, func() {
			c := exec.CommandContext(
				t.Context(), awk, "BEGIN { for (i = 0; i < 5000000; i++) x += i }",
			)
			if err := c.Run(); err != nil {
				t.Error(err)
			}
			took = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		})
		n := 0
		for _, m := range regexp.MustCompile(`(?m)^  `+known+` *\n(?: {6,}\S*[a-zA-Z_].*\n| {6,}0x.*\n)* +(\d+)$`).FindAllStringSubmatch(out, -1) {
			k, _ := strconv.Atoi(m[1])
			n += k
		}
		if most := took.Seconds() * 99; float64(n) > most*1.1+3 || n == 0 {
			return fmt.Sprintf("%d samples in %v, at most %.0f:\n%.3000s", n, took, most, out)
		}
		return ""
	}
	wrong := sampled()
	for range 2 { // what the kernel counts of a process that others keep from its CPU is not exact
		if wrong != "" {
			wrong = sampled()
		}
	}
	if wrong != "" {
		t.Error(wrong)
	}

	began := time.Now()
	out := knownRun(
		t, `profile-101 { @[cpu] = lquantize(arg0 != 0, 0, 2, 1); }`,
		func() { time.Sleep(300 * time.Millisecond) },
	)
	if _, n := picture(out, "0"); n > int(time.Since(began).Seconds()*101)+2 || n == 0 {
		t.Errorf("%d samples of CPU 0 in %v:\n%s", n, time.Since(began), out)
	}
}

// knownRun runs a script for as long as a workload takes.
func knownRun(t *testing.T, text string, workload func()) string {
	t.Helper()
	_, out, errs := traced(
		t, Request{Parts: []Part{{'n', text}}, Options: []string{"quiet"}}, workload,
	)
	if rest := regexp.MustCompile(`(?m)^culprit: (?:error in .*invalid address.*|addresses of .* have no names: .*)\n`).ReplaceAllString(errs, ""); rest != "" {
		t.Errorf("%s said %s", text, rest)
	}
	return out
}
