package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/symbol"
	"culprit/trace"
	"culprit/trace/probe"
	"culprit/trace/stop"
	"culprit/trace/tracetest"

	"golang.org/x/sys/unix"
)

// helper is the variable that makes a test of this program do something as a process of its own.
const helper = "CULPRIT_TRACE_HELPER"

//go:noinline
func added(a, b int) int { return a + b }

// TestUserHelper is no test: it is the process that others trace, or that traces and is killed.
func TestUserHelper(t *testing.T) {
	switch os.Getenv(helper) {
	case "add":
		var all sync.WaitGroup
		for part := range 4 { // in threads of their own, none of which is the first
			all.Go(func() {
				runtime.LockOSThread()
				sum := 0
				for i := 250 * part; i < 250*(part+1); i++ {
					sum += added(i, 2*i)
				}
				if sum != 3*(250*250*part+124*250+125) {
					t.Error(sum)
				}
			})
		}
		all.Wait()
	case "hold": // starts a command and never lets it run
		r := Request{Commands: []string{"sleep 600"}}
		target, err := r.target(stop.Postinit, os.Stdout, os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("held", target.first)
		time.Sleep(5 * time.Minute)
	case "ticks": // counts ticks for two seconds
		r := program(`tick-1ms { n++; } tick-2s { printf("%%d\n", n); exit(0); }`)
		r.begun = func() { fmt.Println("ticking", os.Getpid()) }
		if _, err := r.Run(context.Background(), ownStreams()); err != nil {
			t.Fatal(err)
		}
	case "namespace": // runs a program in the namespace that it is in
		r := program("%s", os.Getenv(helper+"_TEXT"))
		switch command := os.Getenv(helper + "_COMMAND"); {
		case strings.HasPrefix(command, "-p "):
			c := exec.Command(strings.TrimPrefix(command, "-p "), "wait")
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			defer c.Process.Kill() //nolint:errcheck // it may have ended
			r.Processes = []int{c.Process.Pid}
		case command != "":
			r.Commands = []string{command}
		}
		if _, err := r.Run(context.Background(), ownStreams()); err != nil {
			t.Fatal(err)
		}
	case "trace": // traces a process for ever
		pid, _ := strconv.Atoi(os.Getenv(helper + "_PID"))
		r := program("pid%d:a.out:go:entry { @ = count(); }", pid)
		r.begun = func() { fmt.Println("held", pid) }
		if _, err := r.Run(context.Background(), ownStreams()); err != nil {
			t.Fatal(err)
		}
	}
}

// help returns the command line of this program as a helper.
func help(t *testing.T, what string) string {
	t.Helper()
	t.Setenv(helper, what)
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return me + " -test.run=^TestUserHelper$"
}

// calls is a program whose every call is known.
const calls = `
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void *volatile keep;
__attribute__((noinline)) long go(long a, long b, long c, long d, long e, long f, long g, long h) { __asm__ volatile(""); return a + b + c + d + e + f + g + h; }
__attribute__((noinline)) long outer(long n) { __asm__ volatile(""); return go(n, 2, 3, 4, 5, 6, 7, -8) + 1; }
int main(int argc, char **argv) {
	long sum = 0, left = 120000; // for ever is two minutes at least: nobody may be there to end it
	do {
		for (long i = 0; i < 1000; i++) { sum += outer(i); keep = malloc(i + 100000); free(keep); }
	} while (argc > 1 && usleep(1000) == 0 && --left);
	fprintf(stderr, "%ld\n", sum);
	return 0;
}`

func traceCommand(t *testing.T, command, text string) (out, errs string) {
	t.Helper()
	r := program("%s", text)
	r.Commands = []string{command}
	_, out, errs = traced(t, r, nil)
	return out, errs
}

// match reports whether a text has what is wanted, blanks aside.
func matches(t *testing.T, got string, want ...string) {
	t.Helper()
	flat := strings.Join(strings.Fields(got), " ")
	for _, w := range want {
		if !regexp.MustCompile(w).MatchString(flat) {
			t.Errorf("printed %q, want %s", flat, w)
		}
	}
}

// Functions of Go: calls, arguments in the registers that Go chooses, results at the instructions
// that return.
func TestPidProviderOfGo(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	out, errs := traceCommand(
		t,
		help(t, "add"),
		`pid$target:a.out:*command.added:entry { @c["entry"] = count(); @["a"] = sum(arg0); @["b"] = sum(arg1); }
		pid$target:a.out:*command.added:return { @c["return"] = count(); @["sum"] = sum(arg1); }`,
	)
	matches(t, out, `entry 1000`, `return 1000`, `a 499500`, `b 999000`, `sum 1498500`)
	if errs != "" {
		t.Error(errs)
	}
}

func TestPidProvider(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	work := tracetest.CompileC(t, calls)
	out, errs := traceCommand(t, work, `
		pid$target:a.out:go:entry { @["go", arg6, (long)arg7] = count(); @s["arg0"] = sum(arg0); @u[ustack()] = count(); @f[ufunc(uregs[R_PC]), umod(ucaller)] = count(); }
		pid$target::outer:return { @["outer", 0, 0] = count(); @s["arg1"] = sum(arg1); }
		pid$target:libc:malloc:entry /arg0 >= 100000/ { @["malloc", 0, 0] = count(); }
		pid$target:a.out:outer:0 { @["zero", 0, 0] = count(); }
		pid$target:a.out:[go]*:entry { @p[probeprov == "pid$target" ? "wrong" : probemod, probefunc, probename] = count(); }`)
	matches(
		t, out, `go 7 -8 1000`, `arg0 499500`, `arg1 519500|arg1 520500`, `outer 0 0 1000`,
		`malloc 0 0 1000`, `zero 0 0 1000`,
		"work`go work`outer\\+0x[0-9a-f]+ work`main\\+0x[0-9a-f]+ ", "work`go work 1000",
		`work go entry 1000`, `work outer entry 1000`,
	)
	if !strings.HasPrefix(errs, "520500\n") && !strings.Contains(errs, "\n520500") &&
		!strings.HasPrefix(errs, strconv.Itoa(499500+1000*(2+3+4+5+6+7-8+1))) {
		t.Errorf("the program said %q", errs)
	}
}

// Where the kernel can't take many places in one go, one by one does the same.
func TestPidProviderOneByOne(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	tracetest.Needs(t, feature.EventCookies)
	c := exec.Command(tracetest.CompileC(t, calls), "forever")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill() //nolint:errcheck // it may have ended
		c.Wait()         //nolint:errcheck // it was killed
	})
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	env.Method = probe.AttachKprobe
	text := fmt.Sprintf(
		`pid%[1]d:a.out:go:entry { n++; @s = sum(arg6); } pid%[1]d:a.out:outer:return { @m = sum(arg1 > 0); } pid%[1]d:a.out:go:entry /n == 3000/ { exit(0); }
		pid%[1]d:a.out:[go]*:entry { @[probefunc] = count(); }`,
		c.Process.Pid,
	)
	var script *trace.Compiled
	var err error
	eventually(t, "the program can't be traced", func() bool {
		if err != nil {
			t.Log(err)
		}
		script, err = trace.Compile(
			trace.Script{Text: text, Mode: syntax.Mode{Last: syntax.PartName}}, env, gen.Limits{},
		)
		return err == nil
	})
	s, err := trace.Load(script, env)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if a := s.Attachment(); a.Attached != 3 || len(a.Skipped) > 0 {
		t.Fatal(a)
	}
	var out strings.Builder
	w := bufio.NewWriter(&out)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	printer := trace.NewPrinter(s, w, trace.Streams{Err: os.Stderr, Name: "culprit"})
	if _, err := s.Run(ctx, printer, nil); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	matches(t, out.String(), `go \d{4}`, `outer \d{4}`)
}

// Each instruction of a function, which runs as often as the function.
func TestPidProviderOffsets(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	work := tracetest.CompileC(t, calls)
	out, _ := traceCommand(t, work, `pid$target:a.out:outer: { @[probename] = count(); }`)
	n := 0
	for _, line := range strings.Split(out, "\n") {
		if f := strings.Fields(line); len(f) == 2 {
			n++
			if f[1] != "1000" {
				t.Errorf("%q, want 1000", line)
			}
		}
	}
	if n < 5 {
		t.Errorf("%d probes: %q", n, out)
	}
}

// Where a command is held: functions of its libraries can be probed in any case but exec.
func TestEvaltime(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	work := tracetest.CompileC(t, calls)
	for _, when := range []string{"preinit", "postinit", "main"} {
		r := program(
			`pid$target:libc:malloc:entry /arg0 >= 100000/ { @ = count(); } pid$target:a.out:main:entry { @m = count(); }`,
		)
		r.Commands, r.Options = []string{work}, append(r.Options, "evaltime="+when)
		_, out, errs := traced(t, r, nil)
		if matches(t, out, `^1000 1$`); t.Failed() {
			t.Fatal(when, errs)
		}
	}
	r := program(`pid$target:libc:malloc:entry { @ = count(); }`)
	r.Commands, r.Options = []string{work}, append(r.Options, "evaltime=exec")
	if _, _, _, err := session(t.Context(), t, r); err == nil ||
		!strings.Contains(err.Error(), "executes no libc") {
		t.Errorf("%v, want that there is no libc yet", err)
	}
	r.Options = []string{"evaltime=never"}
	if _, _, _, err := session(t.Context(), t, r); err == nil ||
		!strings.Contains(err.Error(), "evaltime") {
		t.Errorf("%v", err)
	}
}

// Errors of the pid provider name similar probes.
func TestPidProviderErrors(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	work := tracetest.CompileC(t, calls)
	for _, c := range []struct{ probe, tag, says string }{
		{"pid0:::entry", "D_PROC_BADPID", "no process 0"},
		{"pid2147483647:::entry", "D_PROC_GRAB", "there is no process 2147483647"},
		{"pid$target:a.out:outr:entry", "D_PROC_FUNC", "did you mean outer?"},
		{"pid$target::nothing_of_it:entry", "D_PDESC_ZERO", "inlined"},
		{"pid$target:libnothing:malloc:entry", "D_PDESC_ZERO", "libc.so.6"},
		{"pid$target:a.out:outer:begin", "D_PROC_NAME", "entry, return"},
		{"pid$target:a.out:outer:100000", "D_PROC_OFF", "so it ends before"},
		{"pid$target:a.out:outer:2", "D_PROC_OFF", "begins at"},
		{"pid$target:libc:-:800", "D_PROC_LIB", "a.out alone"},
		{"pid$target::-:", "D_PROC_NAME", "address"},
		{"app$target:::x", "D_PDESC_ZERO", "define no probes"},
	} {
		r := program(`%s { }`, c.probe)
		r.Commands, r.Options = []string{work}, []string{"errtags"}
		_, _, _, err := session(t.Context(), t, r)
		if c.probe == "pid$target:a.out:outer:2" && err == nil {
			continue // an instruction may begin there
		}
		if err == nil || !strings.Contains(err.Error(), "["+c.tag+"]") ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s and %q", c.probe, err, c.tag, c.says)
		}
	}
}

// notes is a program with probes of its own, as SystemTap's and DTrace's headers make them, with
// arguments of all forms.
const notes = `
#include <stdio.h>
unsigned short semaphore __attribute__((section(".probes")));
long counter = 77;
#define PROBE(name, semaphore, args, ...) __asm__ volatile ( \
 "990: nop\n .pushsection .note.stapsdt,\"\",\"note\"\n .balign 4\n .4byte 992f-991f, 994f-993f, 3\n" \
 "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n .8byte _.stapsdt.base\n .8byte " semaphore "\n" \
 ".asciz \"app\"\n .asciz \"" name "\"\n .asciz \"" args "\"\n994: .balign 4\n .popsection\n" \
 ".ifndef _.stapsdt.base\n .pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n .weak _.stapsdt.base\n" \
 ".hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n .size _.stapsdt.base, 1\n .popsection\n.endif\n" :: __VA_ARGS__)
struct s { long a, b; int c[4]; };
__attribute__((noinline)) void work(long n, const char *text, struct s *p, long i) {
	PROBE("work__start", "0", "-8@%0 8@%1 -4@%2 -4@%3 -1@%b4", "r"(n), "r"(text), "m"(p->c[i]), "i"(-5), "q"((char)n));
	PROBE("mem", "0", "-8@counter(%%rip) 8@$counter -8@8(%0,%1,8) 8f@%%xmm0", "r"(p), "r"(0L * i));
	if (semaphore) PROBE("guarded", "semaphore", "-8@%0", "r"(n));
	PROBE("twice", "0", "-8@%0", "r"(n));
	PROBE("twice", "0", "-8@$1000", "i"(0));
}
int main(int argc, char **argv) {
	struct s v = {1, 2, {10, 20, 30, 40}};
	if (*(volatile const char *)"odd" == *(volatile const char *)"even") return 1; // nothing that wasn't touched can be read
	for (long n = 0; n < 100; n++) work(n - 50, n % 2 ? "odd" : "even", &v, n % 4);
	return 0;
}`

func TestUSDT(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	work := tracetest.CompileC(t, notes)
	out, errs := traceCommand(t, work, `
		app$target:::work-start { @["n"] = sum(arg0); @t[copyinstr(arg1)] = count(); @["c"] = sum(args[2]); @["constant"] = sum(arg3); @["byte"] = sum(args[4]); }
		app$target:::mem { @["counter"] = sum(arg0); @["through"] = sum(*(long *)copyin(arg1, 8)); @["b"] = sum(arg2); }
		app$target::work:guarded { @c["guarded"] = count(); @m[probemod, probefunc, probename] = count(); @u[ustack(1)] = count(); }
		app$target:::twice { @c["twice"] = count(); @["both"] = sum(arg0); }`)
	matches(
		t, out, `n -50`, `odd 50`, `even 50`, `c 2500`, `constant -500`, `byte -50`, `counter 7700`,
		`through 7700`, `b 200`, `guarded 100`, `work work guarded 100`,
		"work`work\\+0x[0-9a-f]+ 100", `twice 200`, `both 99950`,
	)
	if errs != "" {
		t.Errorf("%.500s", errs)
	}
	// What is in a register that the kernel doesn't show is an error, not a number.
	r := program(`app$target:::mem { @ = sum(arg3); }`)
	r.Commands = []string{work}
	if _, _, _, err := session(t.Context(), t, r); err == nil ||
		!strings.Contains(err.Error(), "floating-point") {
		t.Errorf("%v", err)
	}
	r = Request{
		Parts:    []Part{{'P', "app$target"}},
		List:     true,
		Verbose:  true,
		Commands: []string{work},
	}
	if _, out, _, err := session(t.Context(), t, r); err != nil ||
		!strings.Contains(out, "work-start") ||
		!strings.Contains(out, "args[4]: int8_t") {
		t.Errorf("%v %s", err, out)
	}
	r = Request{Parts: []Part{{'P', "pid*"}}, List: true, Commands: []string{work}}
	if _, out, _, err := session(t.Context(), t, r); err != nil ||
		!regexp.MustCompile(`pid\d+ +work +work +entry\n`).MatchString(out) {
		t.Errorf("%v %s", err, out)
	}
}

// asking is a program that asks in one function whether a probe of another one is watched, as
// DTrace's headers make them.
const asking = `
#define NOTE(kind, args) "990: nop\n .pushsection .note.usdt,\"\",\"note\"\n .balign 4\n .4byte 992f-991f, 994f-993f, " kind "\n" \
 "991: .asciz \"usdt\"\n992: .balign 4\n993: .8byte 990b\n .8byte 0\n .asciz \"app\"\n .asciz \"far\"\n" args "994: .balign 4\n .popsection\n"
__attribute__((noinline)) int asks(void) {
	int answer = 0;
	__asm__ volatile (NOTE("2", ".byte 1\n .asciz \"8@%%rax\"\n") :: "a"(&answer) : "memory");
	return answer;
}
__attribute__((noinline)) void fires(void) { __asm__ volatile (NOTE("1", ".byte 0, 0, 0\n")); }
int main(void) {
	for (int i = 0; i < 100; i++) if (asks()) fires();
	return 0;
}`

// A probe is a probe too where a function only asks whether it is watched, and the answer is that
// it is.
func TestUSDTAsked(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	work := tracetest.CompileC(t, asking)
	r := Request{Parts: []Part{{'P', "app$target"}}, List: true, Commands: []string{work}}
	_, out, _, err := session(t.Context(), t, r)
	for _, function := range []string{"asks", "fires"} {
		if err != nil || !regexp.MustCompile(`app\d+ +work +`+function+` +far\n`).MatchString(out) {
			t.Errorf("%s: %v %s", function, err, out)
		}
	}
	out, errs := traceCommand(t, work, `app$target:::far { @[probefunc] = count(); }`)
	if strings.Contains(errs, "bpf_probe_write_user") {
		t.Skip("needs: kernel feature bpf_probe_write_user")
	}
	matches(t, out, "fires 100")
	if strings.Contains(out, "asks") {
		t.Errorf("asking counts: %s", out)
	}
}

// At a function's first instruction its caller is in the stack, whatever that instruction is.
func TestStackAtEntry(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	for _, flags := range [][]string{{"-fcf-protection=none"}, {"-fcf-protection=full"}, {"-fomit-frame-pointer"}} {
		work := tracetest.CompileC(t, calls, flags...)
		out, errs := traceCommand(
			t, work, `pid$target:a.out:go:entry { @[ustack(2), usym(ucaller)] = count(); }`,
		)
		matches(t, out, "work`go work`outer\\+0x[0-9a-f]+ work`outer 1000")
		if t.Failed() {
			t.Fatal(flags, errs)
		}
	}
}

// A stack's members tell what the stack itself shows.
func TestStackMembers(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	work := tracetest.CompileC(t, calls)
	out, errs := traceCommand(
		t,
		work,
		`pid$target:a.out:go:entry { @[ufunc(ustack(3).addrs[0]), ufunc(ustack(3).addrs[1]), ustack(2).depth, ustack(2, 42).strsz,
		ustack(2).is_user, ustack(2).pid - $target, ustack(3).addrs[1] == ucaller, stack(2).pid, stack(2).is_user, (stack(2).depth == 0) == (stack(2).addrs[0] == 0)] = count(); }`,
	)
	matches(t, out, "work`go work`outer 2 42 1 0 1 0 0 1 1000")
	if t.Failed() {
		t.Fatal(errs)
	}
}

// A stack that a variable holds is cut to a depth, and gets back what was cut off; one that is none
// stays none.
func TestStackCut(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	work := tracetest.CompileC(t, calls)
	out, errs := traceCommand(
		t,
		work,
		`pid$target:a.out:go:entry { v = ustack(2); @["whole", v] = count(); v.depth = 1; @["cut", v] = count();
		self->s = v; self->s.depth = 500; @["again", self->s] = count(); v = 0; v.depth = 1; @["none", v] = count(); }`,
	)
	matches(
		t, out, "again work`go work`outer\\+0x[0-9a-f]+ 1000",
		"whole work`go work`outer\\+0x[0-9a-f]+ 1000", "cut work`go 1000", "none 1000",
	)
	if t.Failed() {
		t.Fatal(errs)
	}
}

// A thousand functions and more are attached together, and the program does as it would without.
func TestManyFunctions(t *testing.T) {
	tracetest.Needs(t, feature.UprobeMulti)
	work := tracetest.CompileC(t, calls)
	out, errs := traceCommand(t, work, `pid$target:libc:[a-z]*:entry { @[probefunc] = count(); }`)
	if !regexp.MustCompile(`malloc +1\d\d\d\n`).MatchString(out) {
		t.Errorf("printed %.300q and said %q", out, errs)
	}
	if !strings.Contains(errs, strconv.Itoa(499500+1000*(2+3+4+5+6+7-8+1))) {
		t.Errorf("the program said %q", errs)
	}
}

// spawn runs a helper until it prints that it stopped a process, and returns that process.
func spawn(t *testing.T, line string) (c *exec.Cmd, pid int) {
	t.Helper()
	words := strings.Fields(line)
	c = exec.Command(words[0], words[1:]...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill() //nolint:errcheck // it was killed before
		c.Wait()         //nolint:errcheck // it was killed
		if t.Failed() {
			t.Logf("the helper said %q", errs.String())
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "held %d", &pid); err == nil {
			return c, pid
		}
		t.Log(lines.Text())
	}
	t.Fatal("the helper ended")
	return nil, 0
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// When culprit is killed while its command is stopped, the command ends too.
func TestKilledWhileACommandIsHeld(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	c, pid := spawn(t, help(t, "hold"))
	if err := unix.Kill(pid, 0); err != nil {
		t.Fatal(err)
	}
	c.Process.Kill() //nolint:errcheck // checked below
	eventually(t, "the command is there still", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return errors.Is(err, os.ErrNotExist) || strings.Contains(string(b), ") Z ") ||
			!strings.Contains(string(b), "(sleep)")
	})
}

// When culprit is killed, no breakpoint stays in a process, and the process continues.
func TestKilledWhileTracing(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	work := tracetest.CompileC(t, calls)
	victim := exec.Command(work, "forever")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		victim.Process.Kill() //nolint:errcheck // it may have ended
		victim.Wait()         //nolint:errcheck // it was killed
	})
	pid := victim.Process.Pid
	var addr uint64
	eventually(t, "the program doesn't run", func() bool {
		codes, err := symbol.NewProcesses(kernel.Root{}).Code(pid)
		if err != nil || len(codes) < 2 {
			return false
		}
		funcs, _ := codes[0].Functions()
		for _, f := range funcs {
			if f.Name == "go" {
				addr = f.Start + codes[0].Bias
			}
		}
		for _, c := range codes {
			c.Close()
		}
		return addr != 0
	})
	text := func() []byte {
		f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := make([]byte, 4)
		if _, err := f.ReadAt(b, int64(addr)); err != nil {
			t.Fatal(err)
		}
		return b
	}
	before := string(text())
	t.Setenv(helper+"_PID", strconv.Itoa(pid))
	c, _ := spawn(t, help(t, "trace"))
	if string(text()) == before {
		t.Error("there is no breakpoint")
	}
	c.Process.Kill() //nolint:errcheck // checked below
	c.Wait()         //nolint:errcheck // it was killed
	eventually(t, "the breakpoint is there still", func() bool { return string(text()) == before })
	if err := victim.Process.Signal(unix.Signal(0)); err != nil {
		t.Error("the program has ended:", err)
	}
}

// Files that have no name any more are found through the process that has them.
func TestPidProviderOfADeletedProgram(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	work := tracetest.CompileC(t, calls)
	victim := exec.Command(work, "forever")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		victim.Process.Kill() //nolint:errcheck // it may have ended
		victim.Wait()         //nolint:errcheck // it was killed
	})
	if err := os.Remove(work); err != nil {
		t.Fatal(err)
	}
	r := program(
		`pid$target:a.out:outer:entry { n++; } pid$target:a.out:outer:entry /n == 5000/ { exit(0); } END { printf("%%d", n); }`,
	)
	r.Processes = []int{victim.Process.Pid}
	_, out, errs := traced(t, r, nil)
	if n, err := strconv.Atoi(strings.TrimSpace(out)); err != nil || n < 5000 || errs != "" {
		t.Errorf("printed %q and said %q", out, errs)
	}
}
