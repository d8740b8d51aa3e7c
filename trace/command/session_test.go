package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/measure"
	"culprit/trace"

	"golang.org/x/sys/unix"
)

// traced runs a program until it exits, or until meanwhile is done and some time has passed. It
// returns the output.
func traced(t *testing.T, r Request, meanwhile func()) (status int, out, errs string) {
	t.Helper()
	status, out, errs = tracedWhole(t, r, meanwhile)
	if missed := missedLine.FindString(errs); missed != "" {
		t.Log(missed) // other tests' programs run on these CPUs too: what must be exact is counted
		errs = strings.Replace(errs, missed, "", 1)
	}
	return status, out, errs
}

// missedLine is the message that the kernel left firings out.
var missedLine = regexp.MustCompile(`(?m)^culprit: \d+ missed firings? [^\n]*\n`)

// tracedWhole is traced that also returns messages about missed firings.
func tracedWhole(t *testing.T, r Request, meanwhile func()) (status int, out, errs string) {
	t.Helper()
	if err := feature.RawTracepoints.Have(kernel.Root{}); err != nil {
		if errors.Is(err, measure.ErrDenied) {
			t.Skip("needs: root")
		}
		t.Skip("needs: kernel feature raw tracepoints")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if meanwhile != nil {
		r.begun = func() {
			meanwhile()
			cancel()
		}
	}
	status, out, errs, err := session(ctx, t, r)
	if err != nil {
		t.Fatalf("%v: %v", r.Parts, err)
	}
	if ctx.Err() == context.DeadlineExceeded {
		t.Fatalf("%v: it did not end", r.Parts)
	}
	return status, out, errs
}

// ownStreams returns the streams of this process.
func ownStreams() trace.Streams {
	return trace.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Plain: os.Stdout, Name: "culprit",
	}
}

// session runs a request with files for its streams, and returns the output.
func session(
	ctx context.Context, t *testing.T, r Request,
) (status int, out, errs string, err error) {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	std := trace.Streams{In: file("in"), Out: file("out"), Err: file("err")}
	std.Plain, std.Name = std.Out, "culprit"
	status, err = r.Run(ctx, std)
	b, _ := os.ReadFile(std.Out.Name())
	e, _ := os.ReadFile(std.Err.Name())
	return status, string(b), string(e), err
}

func program(format string, args ...any) Request {
	return Request{Parts: []Part{{'n', fmt.Sprintf(format, args...)}}, Options: []string{"quiet"}}
}

func TestSessionSaysWhatAProgramSays(t *testing.T) {
	for _, c := range []struct {
		text, want string
		status     int
	}{
		{`BEGIN { printf("%d %s\n", 1 << 3, "x"); exit(0); }`, "8 x\n", 0},
		{`BEGIN { i = 3; } tick-1ms /i > 0/ { printf("%d ", i); i--; } tick-1ms /i == 0/ { exit(7); } END { printf("over\n"); }`, "3 2 1 over\n", 7},
		{`BEGIN { @a["x"] = sum(3); @a["y"] = sum(-5); @a["x"] = sum(4); exit(0); } END { printa("%s %@d\n", @a); }`, "y -5\nx 7\n", 0},
		{`BEGIN { @ = count(); @ = count(); printa("%@d\n", @); clear(@); printa("%@d\n", @); exit(0); } END { @ = count(); printa("%@d\n", @); }`, "2\n0\n1\n", 0},
		{"#pragma D option nspec=2\n" + `BEGIN { self->s = speculation(); self->d = speculation(); } BEGIN { speculate(self->s); printf("held %d\n", self->d); }
			BEGIN { speculate(self->d); printf("never\n"); } BEGIN { printf("printed\n"); } BEGIN { commit(self->s); discard(self->d); }
			BEGIN { speculate(0); printf("nor this\n"); } BEGIN { exit(0); }`, "printed\nheld 2\n", 0},
		{"#pragma D option strsize=8\n" + `BEGIN { printf("%s|%s|%s|%s\n", substr((char *)&curthread->comm, 1, 0), substr((char *)&` + "`linux_banner" + `, 1), substr((char *)&` + "`linux_banner" + `, 3, 2), substr("Linux version", 1)); exit(0); }`, "|inux ve|ux|inux v\n", 0},
		{`BEGIN { x[1, "a"] = 5; x[1, "b"] = 6; printf("%d %d %d\n", x[1, "a"], x[1, "b"], x[2, "a"]); exit(0); }`, "5 6 0\n", 0},
	} {
		status, out, errs := traced(t, program("%s", c.text), nil)
		if status != c.status || out != c.want+"\n" || errs != "" {
			t.Errorf(
				"%s\nstatus %d, printed %q and %q, want %d and %q", c.text, status, out, errs,
				c.status, c.want,
			)
		}
	}
}

// A BEGIN clause that ends before its exit() ends a script in which no other probe can fire. Other
// scripts continue.
func TestSessionEndsWithoutExit(t *testing.T) {
	const ends = "culprit: the clause ended before its exit(), and no other probe can fire: the script ends\n"
	for _, c := range []struct {
		name, text, out, errs string
		status                int
	}{
		{"the clause alone", `BEGIN { trace(*(int *)0); exit(0); } END { printf("end"); }`, "end", "invalid address (0x0) at line 1 column 15: *(int *)0\n" + ends, 1},
		{"an exit within if", `BEGIN { x = 0; y = 1 / x; if (pid > 0) { exit(0); } }`, "", "divide-by-zero at line 1 column 20: 1 / x\n" + ends, 1},
		{"an ERROR clause that exits", `BEGIN { trace(*(int *)0); exit(0); } ERROR { exit(3); }`, "", "invalid address (0x0) at line 1 column 15: *(int *)0\n", 3},
		{"an ERROR clause that does not", `BEGIN { trace(*(int *)0); exit(0); } ERROR { printf("error "); }`, "error ", "invalid address (0x0) at line 1 column 15: *(int *)0\n" + ends, 1},
		{"another clause that exits", `BEGIN { trace(*(int *)0); exit(0); } BEGIN { exit(4); }`, "", "invalid address (0x0) at line 1 column 15: *(int *)0\n", 4},
		{"a tick that exits", `BEGIN { trace(*(int *)0); exit(0); } tick-1ms { printf("tick"); exit(5); }`, "tick", "invalid address (0x0) at line 1 column 15: *(int *)0\n", 5},
		{"no scratch space", `#pragma D option scratchsize=16` + "\n" + `BEGIN { x = 17; copyin(0, x); exit(0); }`, "", "out of scratch space (-x scratchsize=BYTES sets how much there is) at line 2 column 17: copyin(0, x)\n" + ends, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out, errs := traced(t, program("%s", c.text), nil)
			errs = strings.TrimPrefix(
				errs, "culprit: error in dt_clause_0 for probe ID 1 (dtrace:::BEGIN): ",
			)
			if status != c.status || strings.TrimSpace(out) != strings.TrimSpace(c.out) ||
				errs != c.errs {
				t.Errorf(
					"%s\nstatus %d, printed %q and %q, want %d, %q and %q", c.text, status, out,
					errs, c.status, c.out, c.errs,
				)
			}
		})
	}
}

// Memory of copyin() is valid in the later clauses of a firing, at each of several probes. A write
// of 0 bytes is an empty string.
func TestSessionCopiesIn(t *testing.T) {
	const text = `syscall::connect:entry /pid == %[1]d/ { this->s = (struct sockaddr_in *)copyin(arg1, sizeof (struct sockaddr)); this->family = this->s->sin_family; }
		syscall::connect:entry /this->family == 2/ { printf("port %%d\n", ntohs(this->s->sin_port)); }
		syscall::write:entry /pid == %[1]d && arg0 == -1/ { this->t = stringof(copyin(arg1, arg2)); this->p = (char *)copyin(arg1, 1); }
		syscall::write:entry /pid == %[1]d && arg0 == -1/ { printf("%%d [%%s] %%s\n", arg2, this->t, this->p[0] == 'a' ? "begins with a" : ""); }`
	_, out, errs := traced(t, program(text, os.Getpid()), func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd) //nolint:errcheck // nothing was written
		unix.Connect(
			fd, &unix.SockaddrInet4{Port: 4321, Addr: [4]byte{127, 0, 0, 1}},
		) //nolint:errcheck // the call is what is traced
		syscall.Syscall(
			unix.SYS_WRITE, ^uintptr(0), uintptr(unsafe.Pointer(&[]byte("abc")[0])), 0,
		) //nolint:errcheck // the same
		unix.Write(-1, []byte("abc")) //nolint:errcheck // the same
	})
	if want := "port 4321\n0 [] begins with a\n3 [abc] begins with a\n"; strings.TrimSpace(out) != strings.TrimSpace(want) ||
		errs != "" {
		t.Errorf("printed %q and %q, want %q", out, errs, want)
	}
}

// The counts are exactly the system calls of a workload.
func TestSessionCountsSystemCalls(t *testing.T) {
	const calls = 12345
	_, out, errs := traced(
		t,
		program(
			`syscall::getpgid:entry /pid == %d/ { @[probefunc] = count(); @sum["arg"] = sum(arg0); }`,
			os.Getpid(),
		),
		func() {
			for range calls {
				unix.Getpgid(0) //nolint:errcheck // it is made to be counted
			}
		},
	)
	if errs != "" ||
		!regexp.MustCompile(fmt.Sprintf(`(?m)^  getpgid\s+%d$`, calls)).MatchString(out) ||
		!regexp.MustCompile(`(?m)^  arg\s+0$`).MatchString(out) {
		t.Errorf("printed %q and %q, want %d calls", out, errs, calls)
	}
}

// Values that are added while an aggregation is printed and cleared are printed the next time.
func TestSessionLosesNothingBetweenPrintaAndClear(t *testing.T) {
	const calls = 200000
	_, out, errs := traced(
		t,
		program(`syscall::getpgid:entry /pid == %d/ { @ = count(); @calls[probefunc] = count(); }
		tick-5ms { printa("%%@d all\n", @); printa("%%@d named\n", @calls); } tick-5ms { clear(@); clear(@calls); }
		END { printa("%%@d all\n", @); printa("%%@d named\n", @calls); }`, os.Getpid()),
		func() {
			for range calls {
				unix.Getpgid(0) //nolint:errcheck // it is made to be counted
			}
		},
	)
	sum := map[string]int{}
	for line := range strings.Lines(out) {
		var n int
		var what string
		if _, err := fmt.Sscan(line, &n, &what); err == nil && (what == "all" || what == "named") {
			sum[what] += n
		}
	}
	if sum["all"] != calls || sum["named"] != calls || errs != "" {
		t.Errorf(
			"printed %d in all and %d by name, of %d; said %q", sum["all"], sum["named"], calls,
			errs,
		)
	}
}

func TestSessionTimesSystemCalls(t *testing.T) {
	const naps = 20
	broken := 0 // by a signal of the runtime's: those are shorter
	_, out, errs := traced(
		t,
		program(`syscall::clock_nanosleep:entry /pid == %d/ { self->t = timestamp; }
		syscall::clock_nanosleep:return /self->t/ { @n = count(); @least = min(timestamp - self->t); self->t = 0; }`, os.Getpid()),
		func() {
			for range naps {
				if unix.ClockNanosleep(
					unix.CLOCK_MONOTONIC, 0, &unix.Timespec{Nsec: 2e6}, nil,
				) != nil {
					broken++
				}
			}
		},
	)
	var n, least int64
	if _, err := fmt.Sscan(strings.Join(strings.Fields(out), " "), &n, &least); err != nil ||
		n != naps ||
		least < 2e6 && broken == 0 ||
		errs != "" {
		t.Errorf(
			"printed %q and %q, want %d naps of at least 2 ms, but for %d that were broken off",
			out, errs, naps, broken,
		)
	}
}

func TestSessionReportsFaults(t *testing.T) {
	_, out, errs := traced(
		t,
		program(
			`BEGIN { printf("%%d", *(int *)0x10); } ERROR { printf("fault %%d at %%x\n", arg4, arg5); exit(0); }`,
		),
		nil,
	)
	if out != "fault 1 at 10\n\n" || !strings.Contains(errs, "invalid address (0x10)") {
		t.Errorf("printed %q and %q", out, errs)
	}
}

func TestSessionEndsWithItsCommand(t *testing.T) {
	r := program(`syscall::exit_group:entry /pid == $target/ { printf("%%d\n", arg0); }`)
	r.Commands = []string{"sh -c :", "sh -c true"}
	if _, out, errs := traced(t, r, nil); out != "0\n\n" || errs != "" {
		t.Errorf("printed %q and %q", out, errs)
	}
}

func TestSessionInJSON(t *testing.T) {
	r := program(
		`BEGIN { @a["x", 1] = count(); @a["y", 2] = sum0; @q = quantize(5); trace(7); printf("%%s\n", "hi"); exit(0); }`,
	)
	r.Parts[0].Text = strings.Replace(r.Parts[0].Text, "sum0", "count()", 1)
	r.JSON = true
	_, out, errs := traced(t, r, nil)
	if errs != "" {
		t.Error(errs)
	}
	var got []map[string]any
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got = append(got, m)
	}
	if len(got) != 4 || got[0]["type"] != "record" || got[0]["text"] != "7hi\n" ||
		fmt.Sprint(got[0]["values"]) != "[7 hi 0]" ||
		fmt.Sprintln(got[1]["key"], got[1]["value"], got[1]["function"]) != "[x 1] 1 count\n" ||
		fmt.Sprint(got[3]["buckets"]) != "[map[count:1 max:7 min:4]]" {
		t.Errorf("printed %s", out)
	}
}

// The aggregations of a script that is stopped for its budget are printed, and then the reason.
func TestSessionKeepsItsBudget(t *testing.T) {
	r := program(`syscall::getpgid:entry { @["calls"] = count(); }`)
	r.Options = append(r.Options, "budget=0.0001%", "cost")
	stop := make(chan struct{})
	r.begun = func() {
		for {
			select {
			case <-stop:
				return
			default:
				unix.Getpgid(0) //nolint:errcheck // it is made to be counted
			}
		}
	}
	defer close(stop)
	_, out, errs, err := session(t.Context(), t, r)
	var over *trace.ErrBudget
	if !errors.As(err, &over) || !strings.Contains(out, "calls") ||
		!strings.Contains(errs, "NS/RUN") {
		t.Errorf("ended with %v, printed %q and %q", err, out, errs)
	}
}

func TestSessionOfACommandThatIsNotThere(t *testing.T) {
	r := Request{Parts: []Part{{'n', "BEGIN"}}, Commands: []string{"/no/such/command"}}
	if _, err := r.Run(t.Context(), ownStreams()); err == nil ||
		!strings.Contains(err.Error(), "/no/such/command") {
		t.Errorf("%v", err)
	}
}

func TestPartsOfADescription(t *testing.T) {
	for _, c := range []struct {
		flag       byte
		text, want string
	}{
		{'P', "syscall", "syscall:::;"}, {'m', "vmlinux", ":vmlinux::;"}, {'m', "fbt:vmlinux", "fbt:vmlinux::;"}, {'f', "vfs_read /pid/ { x = 1 }", "::vfs_read:/pid/ { x = 1 }"},
		{'n', "BEGIN", "BEGIN;"}, {'n', "BEGIN { exit(0) }", "BEGIN { exit(0) }"}, {'i', "12", "12;"},
	} {
		r := Request{Parts: []Part{{c.flag, c.text}}}
		if s, err := r.text(nil); err != nil || s.text != c.want {
			t.Errorf("-%c %q: %q, %v, want %q", c.flag, c.text, s.text, err, c.want)
		}
	}
}

// The kernel leaves out a probe that fires within itself, and this is reported. Here the clause
// causes a page fault in the probe of page faults.
func TestMissedFiringsAreReported(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fresh, err := unix.Mmap(
		-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON,
	)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(fresh) //nolint:errcheck // it goes with the test
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature exceptions:page_fault_kernel")
	}
	_, out, errs := tracedWhole(t, program(`
		sdt:exceptions::page_fault_kernel /pid == $pid/ { @["fired"] = count(); this->nothing = copyinstr(16); }
		END { printa("%%s %%@d\n", @); }`), func() {
		if _, err := w.Write(fresh); err != nil { // the kernel reads a page that is not there yet
			t.Error(err)
		}
	})
	if answers(t, out)["fired"] < 1 || !strings.Contains(errs, " missed firing") ||
		!strings.Contains(errs, "invalid address (0x10)") {
		t.Errorf("%q, %q", out, errs)
	}
}

// curcpu is the CPU that the program runs on, also when it is read through a variable.
func TestCurcpu(t *testing.T) {
	text := `cpuinfo_t *c; BEGIN { c = curcpu; printf("%d %d %d %d", c->cpu_id == cpu, c->cpu_chip == chip, c->cpu_lgrp == lgrp, (int64_t)curcpu != -1); } BEGIN { exit(0); }`
	if status, out, errs := traced(t, program("%s", text), nil); status != 0 ||
		out != "1 1 1 1\n" ||
		errs != "" {
		t.Errorf("status %d, printed %q and said %q", status, out, errs)
	}
}
