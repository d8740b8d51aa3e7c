package command

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/check"
	"culprit/trace/tracetest"
)

// thousand is a C program that makes 1000 rare system calls from a named function.
const thousand = `
#include <unistd.h>
#include <sys/types.h>
#include <sys/wait.h>
__attribute__((noinline)) long go(long n) { __asm__ volatile("" : "+r"(n)); return n + getpgid(0); }
int main(int argc, char **argv) {
	long sum = 0, left = argc > 1 ? 60000 : 1; // a minute at most
	do { for (long i = 0; i < 1000; i++) sum += go(i); } while (--left && usleep(1000) == 0);
	return sum == 1;
}`

// inNamespace runs a program of D in PID namespaces within one another, and returns what it
// printed.
func inNamespace(
	t *testing.T, levels int, proc bool, text, command string,
) (out string, err error) {
	t.Helper()
	unshare, lookErr := exec.LookPath("unshare")
	if lookErr != nil {
		t.Skip("needs: tool unshare")
	}
	words := []string{}
	for range levels {
		words = append(words, unshare, "-pf", "--kill-child")
		if proc {
			words = append(words, "--mount-proc")
		}
	}
	words = append(words, strings.Fields(help(t, "namespace"))...)
	t.Setenv(helper+"_TEXT", text)
	t.Setenv(helper+"_COMMAND", command)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.WaitDelay = 5 * time.Second // what holds its output still
	b, err := c.CombinedOutput()
	if strings.Contains(string(b), "Operation not permitted") {
		t.Skip("needs: root")
	}
	return string(b), err
}

// In a PID namespace, and in one within it, process IDs are those of the namespace.
func TestPIDNamespace(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	if err := feature.BTF.Have(kernel.Root{}); err != nil {
		t.Skip("needs: kernel feature BTF")
	}
	work := tracetest.CompileC(t, thousand)
	for _, tt := range []struct{ name, text, command, want string }{
		{"target", `syscall::getpgid:entry /pid == $target/ { @ = count(); }`, work, `^1000$`},
		{"thread", `syscall::getpgid:entry /pid == $target && tid == $target/ { @ = count(); }`, work, `^1000$`},
		{"parent", `syscall::getpgid:entry /ppid == $pid/ { @ = count(); }`, work, `^1000$`},
		{"self", `BEGIN { printf("%d", pid == $pid); exit(0); }`, "", `^1$`},
		{"progeny", `syscall::getpgid:entry /progenyof($target)/ { @ = count(); }`, "sh -c '" + work + "; :'", `^1000$`},
		{"progeny of culprit", `syscall::getpgid:entry /progenyof($pid)/ { @ = count(); }`, work, `^1000$`},
		{"psinfo", `syscall::getpgid:entry /curpsinfo->pr_pid == $target && curpsinfo->pr_ppid == $pid && curlwpsinfo->pr_lwpid == tid/ { @ = count(); }`, work, `^1000$`},
		{"another thread", `sched:::on-cpu /pid == $target && tid == $target/ { n++; } END { printf("%d", n > 0); }`, work, `^1$`},
		{"argument", `proc:::create /args[0]->pr_ppid == $target/ { n++; } proc:::exit /pid == $target/ { m++; } END { printf("%d %d", n, m); }`, "sh -c '/bin/true; :'", `^1 1$`},
		{"stack", `syscall::getpgid:entry /pid == $target/ { @[ustack(3)] = count(); }`, work, "work`go\\S* work`main\\S* 1000$"},
		{"symbol", `syscall::getpgid:entry /pid == $target/ { @[ufunc(ucaller)] = count(); }`, work, "^work`go 1000$"},
		{"own probe", `pid$target:a.out:go:entry /pid == $target/ { @[probefunc, ufunc(uregs[R_PC])] = count(); }`, work, "^go work`go 1000$"},
		{"process", `syscall::getpgid:entry /pid == $target/ { @ = count(); } syscall::getpgid:entry /pid == $target/ { n++; } syscall::getpgid:entry /n == 5000/ { exit(0); } END { clear(@); printf("%d", n >= 5000); }`, "-p " + work, `^1`},
		{"within", `syscall::getpgid:entry /progenyof($target) && pid != 0 && pid == tid/ { @[execname] = count(); @p[pid != $target] = count(); } syscall::getpgid:entry /progenyof($target)/ { @s[ustack(3)] = count(); }`,
			"unshare -pf --kill-child " + work, "work 1000 1 1000 .*work`go"},
		{"outside", `syscall:::entry /pid == 0/ { self->n = 1; self->a[1] = curthread->pid; } syscall:::return /pid == 0 && self->n && self->a[1] == curthread->pid/ { n++; } syscall:::return /pid == 0 && self->n && self->a[1] != curthread->pid/ { m++; self->n = 0; } tick-500ms { printf("%d %d", n > 0, m); exit(0); }`, "", `^1 0$`},
	} {
		for _, levels := range []int{1, 2} {
			t.Run(tt.name+" "+strings.Repeat("I", levels), func(t *testing.T) {
				if tt.name == "outside" {
					busy := exec.Command("sh", "-c", "while :; do kill -0 $$; done")
					if err := busy.Start(); err != nil {
						t.Fatal(err)
					}
					defer func() {
						busy.Process.Kill() //nolint:errcheck // it was started here
						busy.Wait()         //nolint:errcheck // it was killed
					}()
				}
				if strings.HasPrefix(tt.text, "pid$target") {
					tracetest.Needs(t, feature.Uprobe)
				}
				out, err := inNamespace(t, levels, true, tt.text, tt.command)
				out = strings.TrimSuffix(strings.TrimSpace(out), "PASS")
				flat := strings.Join(strings.Fields(missedLine.ReplaceAllString(out, "")), " ")
				if err != nil || !regexp.MustCompile(tt.want).MatchString(flat) {
					t.Errorf("printed %q (%v), want %s", flat, err, tt.want)
				}
			})
		}
	}
}

// With the /proc of another namespace, scripts that use process IDs are refused. Others work.
func TestProcOfAnotherNamespace(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	for _, tt := range []struct{ name, text, command, want string }{
		{"pid", `syscall:::entry /pid == 5/ { @ = count(); }`, "", "another PID namespace"},
		{"command", `syscall:::entry { @ = count(); }`, "true", "another PID namespace"},
		{"stack", `profile-99 { @[ustack()] = count(); }`, "", "another PID namespace"},
		{"progeny", `syscall:::entry /progenyof(1)/ { @ = count(); }`, "", "another PID namespace"},
		{"count", `BEGIN { printf("fine"); exit(0); }`, "", "fine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if out, _ := inNamespace(t, 1, false, tt.text, tt.command); !strings.Contains(
				out, tt.want,
			) {
				t.Errorf("printed %q, want %q in it", out, tt.want)
			}
		})
	}
}

// The verifier accepts each use of process IDs at each kind of site, also within a namespace.
func TestNumbersLoadWithinANamespace(t *testing.T) {
	if feature.RawTracepoints.Have(kernel.Root{}) != nil {
		t.Skip("needs: root (BPF)")
	}
	e := tracetest.Here(t)
	if _, err := e.BTF(); err != nil {
		t.Skip("needs: kernel feature BTF")
	}
	e.SetPIDNamespace(&check.Namespace{Level: 3, Inum: 4026532001})
	for _, site := range []string{"BEGIN", "syscall::read:entry", "syscall::read:return", "profile-97", "tick-1s", "sdt:sched::sched_switch", "rawtp:::sched_switch", "sched:::on-cpu", "sched:::wakeup", "proc:::exit"} {
		for _, use := range []string{
			"trace(pid)", "trace(tid)", "trace(ppid)", "trace(progenyof(5))", "@[ustack()] = count()", "@[ustack(5), stack(5)] = count()", "@[usym(arg0)] = count()", "trace(ustackdepth)",
			"self->x = pid; trace(self->x)", "self->a[tid] = 1; trace(self->a[ppid])", "trace(curpsinfo->pr_pid)", "trace(curpsinfo->pr_ppid + curpsinfo->pr_pgid + curpsinfo->pr_sid + curlwpsinfo->pr_lwpid)",
			"trace(*(char *)arg0)", "ustack(); printf(\"%d %d %d %d\", pid, tid, ppid, progenyof(pid))",
		} {
			for _, text := range []string{fmt.Sprintf("%s { %s; }", site, use), fmt.Sprintf("%s /pid == 5/ { %s; }", site, use)} {
				if err := loads(e, text); err != nil {
					t.Errorf("%s: %v", text, err)
				}
			}
		}
	}
	for i, text := range examples(t) {
		if strings.Contains(text, "$target") || strings.HasPrefix(text, "fbt:") {
			continue
		}
		if err := loads(e, text); err != nil {
			t.Errorf("example %d, %s: %v", i+1, text, err)
		}
	}
}
