// Package tracetest is shared by tests of the packages below trace. It skips tests where the
// machine lacks something, and compiles and starts programs.
package tracetest

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/trace/probe"
)

// Needs skips a test unless it runs as root and the kernel has a feature.
func Needs(t testing.TB, f feature.Feature) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	if err := f.Have(kernel.Root{}); err != nil {
		t.Skip("needs: kernel feature " + f.String())
	}
}

// Probe parses one probe description. It fails the test when the text is not one.
func Probe(t testing.TB, text string) *syntax.Probe {
	t.Helper()
	list, diags := syntax.ParseProbes(text, syntax.Mode{})
	if len(diags) > 0 || len(list) != 1 {
		t.Fatalf("%s: %v", text, diags)
	}
	return list[0]
}

// Here returns the Env of the running kernel, which is closed after the test. It skips a test that
// cannot read the list of trace events.
func Here(t testing.TB) *probe.Env {
	t.Helper()
	e := probe.NewEnv(kernel.Root{})
	t.Cleanup(func() { e.Close() })
	if _, err := e.TraceEvents(); errors.Is(err, measure.ErrUnsupported) {
		t.Skip("needs: kernel feature TRACEFS")
	} else if err != nil {
		t.Skip("needs: root (trace events)")
	}
	return e
}

// CompileC compiles a C program and returns its path. It skips a test where there is no gcc.
func CompileC(t *testing.T, text string, flags ...string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs: tool gcc")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "work.c")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "work")
	args := append([]string{
		"-O1", "-fno-omit-frame-pointer", "-fcf-protection=none", "-o", out, source,
	}, flags...)
	if b, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%.2000s", err, b)
	}
	return out
}

// DeepCalls is a C program that spends 70 % of its time in one function and 30 % in another. Both
// are callbacks of qsort in the C library, below functions with frames of different sizes.
const DeepCalls = `
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define N 1000
volatile unsigned long sink;
#define SPIN(name, turns) __attribute__((noinline)) int name(unsigned n) { \
	unsigned long x = n; for (unsigned i = 0; i < n * turns; i++) x = x * 6364136223846793005UL + 1442695040888963407UL; sink = x; return 0; }
SPIN(seventy, 7)
SPIN(thirty, 3)
__attribute__((noinline)) int compare(const void *a, const void *b) { sink += seventy(50) + thirty(50); return (*(int *)a > *(int *)b) - (*(int *)a < *(int *)b); }
__attribute__((noinline)) void sorted(int *v) { qsort(v, N, sizeof *v, compare); sink++; }
#define LEVEL(n, next) __attribute__((noinline)) void level##n(int *v) { char local[40 + n * 16]; memset(local, n, sizeof local); sink += local[n]; next(v); sink += local[3]; }
LEVEL(1, sorted) LEVEL(2, level1) LEVEL(3, level2) LEVEL(4, level3) LEVEL(5, level4)
__attribute__((noinline)) int asking(const void *a, const void *b) { sink += getppid(); return 0; }
__attribute__((noinline)) void handler(int n) { sink += getppid(); }
__attribute__((noinline)) void tripped(void) { kill(getpid(), SIGUSR1); sink++; }
int main(int argc, char **argv) {
	static int v[N];
	static char other[1 << 16];
	if (argc > 1 && argv[1][0] == 's') { // signals are handled on a stack of their own
		stack_t s = {.ss_sp = other, .ss_size = sizeof other};
		struct sigaction a = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
		sigaltstack(&s, 0);
		sigaction(SIGUSR1, &a, 0);
		for (int i = 0; i < 30000; i++) { tripped(); usleep(10000); }
	}
	for (int i = 0; argc > 1 && i < 30000; i++) { qsort(v, 2, sizeof *v, asking); usleep(10000); }
	for (time_t end = time(0) + 300; time(0) < end;) { for (int i = 0; i < N; i++) v[i] = i * 7919 % N; level5(v); }
	return 0;
}`

// TablesMissing reports whether this kernel cannot walk stacks of processes by unwind tables.
func TablesMissing(t testing.TB) bool {
	t.Helper()
	e := probe.NewEnv(kernel.Root{})
	defer e.Close() //nolint:errcheck // only read
	return e.UnwindTablesMissing() != nil
}

// CompileDeep compiles DeepCalls without frame pointers and returns its path. It skips a test where
// the kernel cannot walk stacks by unwind tables.
func CompileDeep(t *testing.T) string {
	t.Helper()
	Needs(t, feature.RawTracepoints)
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	if TablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	return CompileC(t, DeepCalls, "-O2", "-fomit-frame-pointer")
}

// HasChain reports whether frames, innermost first, contain functions in this order, with any
// frames between them.
func HasChain(frames []string, want ...string) bool {
	for _, f := range frames {
		if len(want) > 0 && strings.Contains(f, "`"+want[0]) {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// Start starts a program, returns its process ID, and kills it after the test.
func Start(t *testing.T, path string, args ...string) int {
	t.Helper()
	c := exec.Command(path, args...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill() //nolint:errcheck // it was killed before
		c.Wait()         //nolint:errcheck // it was killed
	})
	return c.Process.Pid
}

// Pipe starts a program and returns the pipes to its standard input and from its standard output.
func Pipe(t *testing.T, c *exec.Cmd) (in io.WriteCloser, out io.Reader) {
	t.Helper()
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if out, err = c.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return in, out
}

// Port returns the port of an address with one.
func Port(t *testing.T, a net.Addr) int {
	t.Helper()
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		t.Fatal(err)
	}
	return int(at.Port())
}

// InlinedCalls is a C program that spends all its time in spin, which is inlined into middle, which
// is inlined into outer. With an argument it waits in nap, which is inlined into rests.
const InlinedCalls = `
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
static inline __attribute__((always_inline)) void spin(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink = sink * 3 + i; }
static inline __attribute__((always_inline)) void middle(unsigned long n) { spin(n); sink++; }
__attribute__((noinline)) void outer(unsigned long n) { middle(n); sink++; }
static inline __attribute__((always_inline)) void nap(void) { usleep(10000); sink++; }
__attribute__((noinline)) void rests(void) { nap(); sink++; }
int main(int argc, char **argv) { while (argc > 1) rests(); for (time_t end = time(0) + 300; time(0) < end;) outer(1000000); return 0; }`
