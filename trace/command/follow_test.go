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

	"culprit/kernel/feature"
	"culprit/trace/tracetest"
)

// plugged loads a library, calls its function, which makes one known system call, and ends. Without
// an argument it calls libc's.
const plugged = `
#include <dlfcn.h>
#include <unistd.h>
#include <stdlib.h>
__attribute__((noinline)) long ask(void) { long n = getppid(); __asm__ volatile("" : "+r"(n)); return n; }
int main(int argc, char **argv) {
	long n = ask();
	if (argc > 1) {
		void *h = dlopen(argv[1], RTLD_NOW);
		if (!h) return 2;
		long (*f)(void) = (long (*)(void))dlsym(h, "plug");
		n += f();
		if (argc > 2) dlclose(h);
	}
	return n == 1;
}`

const plug = `
#include <sys/types.h>
#include <unistd.h>
__attribute__((noinline)) long plug_inner(void) { long n = getpgid(0); __asm__ volatile("" : "+r"(n)); return n; }
long plug(void) { long n = plug_inner(); __asm__ volatile("" : "+r"(n)); return n + 1; }`

// Addresses of a command have names from its first instruction to its last, however short it runs.
func TestCommandHasNames(t *testing.T) {
	tracetest.Needs(t, feature.PerfEvents)
	work := tracetest.CompileC(t, plugged)
	library := tracetest.CompileC(t, plug, "-shared", "-fPIC")
	static := tracetest.CompileC(t, strings.ReplaceAll(plugged, "argc > 1", "0"), "-static-pie")
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"+work+" "+library+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, command string
		want          []string // patterns in the stacks of the system calls
	}{
		{"short", work, []string{"`ask", "`main", "`__libc_start_main|`__libc_start_call_main|`call_init", "ld-linux[^`]*`"}},
		{"static-pie", static, []string{"`ask", "`main"}},
		// Tables of files that were mapped later may not be loaded yet. Then only a leaf's caller
		// can be missing.
		{"dlopen", work + " " + library, []string{"`ask", "work`plug(_inner)?\\+"}},
		{"dlclose", work + " " + library + " close", []string{"`ask", "work`plug(_inner)?\\+"}},
		{"child", "sh -c '" + work + " " + library + "; :'", []string{"work`(ask|main)\\+", "work`plug(_inner)?\\+"}},
		{"exec", "sh -c 'exec " + work + " " + library + "'", []string{"work`(ask|main)\\+", "work`plug(_inner)?\\+"}},
		{"script", script, []string{"work`(ask|main)\\+", "work`plug(_inner)?\\+"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errs := traceCommand(
				t, tt.command,
				`syscall:::entry /progenyof($target)/ { @[ustack()] = count(); @m[umod(uregs[R_PC])] = count(); }`,
			)
			for _, want := range tt.want {
				if !regexp.MustCompile(want).MatchString(out) {
					t.Errorf("no %s in the stacks: %s%s", want, out, errs)
				}
			}
			if bare := regexp.MustCompile(`(?m)^  0x[0-9a-f]+ .*$`).FindAllString(out, -1); len(bare) > 0 {
				t.Errorf("addresses without a name: %q in %s", bare, out)
			}
		})
	}
}

// spinning spends all but some of its time in a function of libc.
const spinning = `
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv) {
	double want = atof(argv[1]);
	struct timespec a, b;
	long sum = 0;
	clock_gettime(CLOCK_MONOTONIC, &a);
	do {
		for (int i = 0; i < 20000; i++) sum += rand();
		clock_gettime(CLOCK_MONOTONIC, &b);
	} while (b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) / 1e9 < want);
	return sum == 1;
}`

// The share of libc's samples is the same in a run of 50 ms and in one of a second, and stacks are
// walked to their ends. A command is stopped at its entry point, so a sample of the dynamic linker
// before that point may come before the tables.
func TestCommandSharesAreTrue(t *testing.T) {
	tracetest.Needs(t, feature.PerfEvents)
	work := tracetest.CompileC(t, spinning)
	for _, seconds := range []string{"0.05", "0.3", "1"} {
		t.Run(seconds, func(t *testing.T) {
			out, errs := traceCommand(
				t, work+" "+seconds,
				`profile-997 /pid == $target && arg1/ { @[umod(arg1)] = count(); @s[ustack()] = count(); }`,
			)
			count := func(name string) (n int) {
				for _, m := range regexp.MustCompile(`(?m)^  +`+name+` +(\d+)$`).FindAllStringSubmatch(out, -1) {
					k, _ := strconv.Atoi(m[1])
					n += k
				}
				return n
			}
			libc, all := count("libc[^ ]*"), count(`[^\s]+`)
			if all < 5 {
				t.Skip("needs: quiet machine")
			}
			if libc*100 < all*75 {
				t.Errorf("libc has %d of %d samples: %s%s", libc, all, out, errs)
			}
			for stack := range strings.SplitSeq(out, "\n\n") {
				linking := strings.Contains(stack, "`dl_main+") || strings.Contains(stack, "`_dl_sysdep_start+")
				if strings.Contains(stack, "not loaded yet") && !linking {
					t.Error("unwind tables were not loaded:", stack)
				}
			}
		})
	}
}

// A command is stopped at its entry point only if the script prints stacks, because a stop is a
// signal.
func TestStopOnlyForStacks(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	if _, err := exec.LookPath("true"); err != nil {
		t.Skip("needs: tool true")
	}
	for _, tt := range []struct{ name, action, want string }{{"count", "count()", "0"}, {"words", `sum(1)`, "0"}} {
		t.Run(tt.name, func(t *testing.T) {
			out, _ := traceCommand(
				t,
				"true",
				fmt.Sprintf(
					`proc:::signal-send /args[1]->pr_pid == $target && args[2] == 5/ { @ = %s; n++; } END { printf("%%d", n); }`,
					tt.action,
				),
			)
			if strings.TrimSpace(out) != tt.want {
				t.Errorf("%q traps", out)
			}
		})
	}
}
