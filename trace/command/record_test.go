package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/lang/gen"
	"culprit/trace"
	"culprit/trace/probe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// keepsRaw is a clause with a timer. A script with it attaches to the raw tracepoints, because the
// kernel runs no program of a timer within one of perf's records.
const keepsRaw = ` profile:::profile-1 /0/ { }`

// syscallTypes returns the types of the programs that a script's system calls have.
func syscallTypes(t *testing.T, env *probe.Env, text string) []ebpf.ProgramType {
	t.Helper()
	c, err := trace.Compile(trace.Script{Text: text}, env, gen.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var types []ebpf.ProgramType
	for _, u := range c.Units {
		if u.Probes[0].Provider == "syscall" {
			types = append(types, u.Code.Type)
		}
	}
	return types
}

// Only programs that read kernel stacks at system calls are attached to perf's records. Their
// output is the same as at the raw tracepoints, byte by byte. This holds also while another program
// is attached to the same tracepoint.
func TestStacksAtSystemCallsByRecords(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs: root")
	}
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	const plain = `syscall::getpgid:entry /arg0 == 0x7fffff/ { @ = count(); }`
	probe := fmt.Sprintf(
		`syscall::getpgid:entry /pid == %d && arg0 == 0x7fffff/ { @[probefunc, arg0, stackdepth, stack(), stack(2)] = count(); }
		syscall::getpgid:return /pid == %d && errno == 3/ { @r[probefunc, (int)arg0, (int)arg1, errno, stackdepth, stack()] = count(); }`,
		os.Getpid(),
		os.Getpid(),
	)
	if types := syscallTypes(t, env, plain); types[0] == ebpf.TracePoint {
		t.Errorf("%s: programs of types %v", plain, types)
	}
	if types := syscallTypes(t, env, probe+keepsRaw); types[0] == ebpf.TracePoint ||
		types[1] == ebpf.TracePoint {
		t.Errorf("beside a timer: programs of types %v", types)
	}
	if !env.HasPerfRecords() {
		t.Skip("needs: kernel feature trace events of raw_syscalls")
	}
	if types := syscallTypes(t, env, probe); len(types) != 2 || types[0] != ebpf.TracePoint ||
		types[1] != ebpf.TracePoint {
		t.Errorf("%s: programs of types %v", probe, types)
	}
	const calls = 5000
	run := func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for range calls {
			unix.RawSyscall(unix.SYS_GETPGID, 0x7fffff, 0, 0) // no process has such a number
		}
	}
	output := func(text string, meanwhile func()) string {
		_, out, errs := traced(t, program("%s", text), meanwhile)
		if errs != "" {
			t.Errorf("said %q", errs)
		}
		return out
	}
	raw := output(probe+keepsRaw, run)
	if got := output(probe, run); got != raw {
		t.Errorf("by records:\n%s\nat the raw tracepoints:\n%s", got, raw)
	}
	both := output(probe, func() { // another program comes to the raw tracepoints while it runs
		if out := output(plain+fmt.Sprintf(` syscall::getpgid:return /pid == %d/ { @r = count(); }`, os.Getpid()), run); !strings.Contains(
			out, fmt.Sprint(calls),
		) {
			t.Errorf("the other one printed %q", out)
		}
	})
	if both != raw {
		t.Errorf("by records, beside another program:\n%s\nat the raw tracepoints:\n%s", both, raw)
	}
	for _, want := range []string{fmt.Sprintf(`(?m)^ +%d$`, calls), `(?m)^  getpgid +-3 +-3 +3 `, "do_syscall_64"} {
		if runtime.GOARCH == "arm64" && want == "do_syscall_64" {
			continue
		}
		if !regexp.MustCompile(want).MatchString(raw) {
			t.Errorf("no %q in\n%s", want, raw)
		}
	}
	if strings.Contains(raw, "perf_") || strings.Contains(raw, "bpf_") ||
		strings.Contains(raw, "__traceiter") {
		t.Errorf("what watches is in the stacks:\n%s", raw)
	}
}

// System calls of 32-bit processes are in perf's records too, with the arguments of theirs.
func TestRecordsOf32BitProcesses(t *testing.T) {
	const calls = 100
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	if runtime.GOARCH != "amd64" || !env.Has32BitCalls() {
		t.Skip("needs: kernel feature 32-bit processes")
	}
	file := filepath.Join(t.TempDir(), "narrow")
	if err := os.WriteFile(file, narrowProgram(calls), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func() {
		if err := exec.Command(file).Run(); err == nil || err.Error() != "exit status 3" {
			t.Errorf("the program says %v", err)
		}
	}
	text := `syscall::getpriority:entry, syscall::mmap2:entry, syscall::write:entry /execname == "narrow" && stackdepth > 0/ { @[probefunc, arg0, arg1] = count(); }
		syscall::mmap2:return, syscall::getpriority:return /execname == "narrow" && stackdepth > 0/ { @r[probefunc, errno] = count(); }
		END { printa("%s %d %x %@d|", @); printa("%s %d %@d|", @r); }`
	want := fmt.Sprintf(
		"mmap2 0 0 1|getpriority 0 12345 %d|mmap2 22 1|getpriority 3 %d|", calls, calls,
	)
	_, out, errs := traced(t, program("%s", text), run)
	if strings.TrimSpace(out) != want || errs != "" {
		t.Errorf("printed %q and %q, want %q", out, errs, want)
	}
}
