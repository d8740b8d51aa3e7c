package sampler

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/trace"
	"culprit/trace/probe"
	"culprit/trace/tracetest"
)

// stubLoop calls a function of another file all the time: half of its samples are in the stub.
const stubLoop = `
#include <time.h>
int fastf(int);
int main(void) {
	int x = 1;
	for (time_t t = time(0); time(0) < t + 300;)
		for (int i = 0; i < 10000000; i++)
			x = fastf(x);
	return x == 3;
}`

// stubProgram returns a program that calls a function of a library through a stub.
func stubProgram(t *testing.T) string {
	t.Helper()
	lib := tracetest.CompileC(t, "int fastf(int x) { return x + 1; }", "-O2", "-shared", "-fPIC")
	dir := filepath.Dir(lib)
	if err := os.Rename(lib, filepath.Join(dir, "libfastf.so")); err != nil {
		t.Fatal(err)
	}
	return tracetest.CompileC(
		t, stubLoop, "-O2", "-L"+dir, "-lfastf", "-Wl,--no-as-needed", "-lfastf", "-Wl,-rpath,"+dir,
	)
}

// ustack() and ufunc() name functions as a profile does: in generated code, in a stripped file, in
// stubs and in a Go program.
func TestOneNameInProfileAndStacks(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	for _, tt := range []struct {
		name string
		path func(*testing.T) string
		want string // a function that has many samples
	}{
		{"generated code", func(t *testing.T) string { return tracetest.CompileC(t, generatedLeaves, "-DNAMED") }, `^framed$`},
		{"stripped file", func(t *testing.T) string { return tracetest.CompileC(t, leafCalls, "-O2", "-s") }, `^work.\[work\+0x[0-9a-f]+\]$`},
		{"stubs", stubProgram, `^work.fastf@plt$`},
		{"Go", func(t *testing.T) string { return goProgram(t, goLeaves, "-ldflags=-s -w") }, `^work.main\.leaf$`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pid := tracetest.Start(t, tt.path(t))
			t.Cleanup(func() {
				os.Remove(fmt.Sprintf("/tmp/perf-%d.map", pid)) //nolint:errcheck // few have one
			})
			profile := Profile{
				Hz:      499,
				User:    true,
				Threads: ThreadFilter{PIDs: []int{pid}},
				For:     measure.Span(3 * time.Second),
			}
			got, err := profile.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			of := map[string]int64{}
			all := int64(0)
			for s := range got.Stacks {
				if len(s.User) > 0 {
					of[s.User[0]] += s.Count
					all += s.Count
				}
			}
			maps.DeleteFunc(of, func(_ string, n int64) bool { return n < all/20 })
			names := slices.Sorted(maps.Keys(of))
			if !slices.ContainsFunc(names, regexp.MustCompile(tt.want).MatchString) {
				t.Errorf("the profile has %v, want %s", of, tt.want)
			}
			for _, what := range []string{"ufunc(arg1)", "ustack(1)"} {
				out := runScript(
					t,
					`profile-499 /pid == $target && arg1/ { @[`+what+`] = count(); n++; } profile-499 /n >= 400/ { exit(0); }`,
					pid,
				)
				for _, name := range names {
					if !regexp.MustCompile(`(?m)^ *` + regexp.QuoteMeta(name) + `(\+0x[0-9a-f]+)?( |$)`).
						MatchString(out) {
						t.Errorf("the profile has %s, which %s has not: %.1500s", name, what, out)
					}
				}
				if strings.Contains(out, "_init") {
					t.Errorf("%s has _init: %.1500s", what, out)
				}
			}
		})
	}
}

// goProgram builds a program of Go.
func goProgram(t *testing.T, text string, flags ...string) string {
	t.Helper()
	compiler, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs: tool go")
	}
	dir := t.TempDir()
	source, out := filepath.Join(dir, "main.go"), filepath.Join(dir, "work")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(
		compiler,
		append(append([]string{"build", "-o", out}, flags...), source)...)
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%.2000s", err, b)
	}
	return out
}

// runScript runs a script about a process until it exits, and returns what it printed.
func runScript(t *testing.T, text string, pid int) string {
	t.Helper()
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	env.Processes = []int{pid}
	c, err := trace.Compile(trace.Script{Text: text, Mode: syntax.Mode{Last: syntax.PartName},
		Options: check.Options{
			Target: int64(pid),
			All:    map[string]string{"quiet": ""},
		}}, env, gen.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := trace.Load(c, env)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out strings.Builder
	w := bufio.NewWriter(&out)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	printer := trace.NewPrinter(s, w, trace.Streams{Err: os.Stderr, Name: "culprit"})
	if _, err := s.Run(ctx, printer, nil); err != nil {
		t.Fatal(err)
	}
	w.Flush() //nolint:errcheck // it is memory
	return out.String()
}
