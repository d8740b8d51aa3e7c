package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/syntax"
	"culprit/symbol"
	"culprit/trace/probe"
	"culprit/trace/tracetest"
)

// aliased is a program whose functions have several names each.
const aliased = `
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) long _IO_work(long n) { __asm__ volatile(""); return n + 1; }
extern __typeof(_IO_work) work __attribute__((weak, alias("_IO_work")));
extern __typeof(_IO_work) __libc_work __attribute__((alias("_IO_work")));
__attribute__((noinline)) long __only(long n) { __asm__ volatile(""); return n + 2; }
extern __typeof(__only) ___only __attribute__((alias("__only")));
__attribute__((noinline)) static long inner(long n) { __asm__ volatile(""); return n + 3; }
extern __typeof(_IO_work) _outer __attribute__((alias("inner")));
int main(int argc, char **argv) {
	long sum = 0;
	for (int i = 0; i < 100; i++) sum += _IO_work(i) + __only(i) + inner(i);
	if (argc > 1) { printf("up\n"); fflush(stdout); pause(); }
	return sum == 1;
}`

// running starts a program, waits until its main runs, and returns its process.
func running(t *testing.T, path string) int {
	t.Helper()
	c := exec.Command(path, "wait")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill() //nolint:errcheck // it was started here
		c.Wait()         //nolint:errcheck // it was killed
	})
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	return c.Process.Pid
}

// listedNames returns the functions of the probes that a description of a process matches.
func listedNames(t *testing.T, e *probe.Env, pid int, module, function string) []string {
	t.Helper()
	var out []string
	part := func(s string) syntax.Name { return syntax.Name{Text: s} }
	d := &syntax.Probe{
		Parts:    4,
		Provider: part("pid" + strconv.Itoa(pid)),
		Module:   part(module),
		Function: part(function),
		Name:     part("entry"),
	}
	if err := e.List(d, func(l probe.Listed) { out = append(out, l.Function) }); err != nil {
		t.Errorf("%s:%s: %v", module, function, err)
	}
	slices.Sort(out)
	return out
}

// A function with several names has the name by which a description matches it.
func TestNameAsAsked(t *testing.T) {
	for _, file := range []struct {
		name  string
		flags []string
	}{{name: "symtab"}, {name: "dynsym", flags: []string{"-rdynamic", "-s"}}, {name: "static-pie", flags: []string{"-static-pie"}}} {
		t.Run(file.name, func(t *testing.T) {
			pid := running(t, tracetest.CompileC(t, aliased, file.flags...))
			e := probe.NewEnv(kernel.Root{})
			defer e.Close()
			for _, tt := range []struct{ ask, want string }{
				{"work", "work"}, {"_IO_work", "_IO_work"}, {"__libc_work", "__libc_work"},
				{"*work", "work"}, {"_*work", "_IO_work"}, {"__*work", "__libc_work"}, {"*_work", "_IO_work"}, {"wor?", "work"},
				{"__only", "__only"}, {"___only", "___only"}, {"*_only", "__only"}, {"[_]__only", "___only"}, {"_outer", "_outer"},
			} {
				if got := listedNames(t, e, pid, "a.out", tt.ask); !slices.Equal(
					got, []string{tt.want},
				) {
					t.Errorf("%s is called %v, want %s", tt.ask, got, tt.want)
				}
			}
		})
	}
}

// Every name of a function in the machine's libc is the name of a probe.
func TestNameAsAskedOfLibc(t *testing.T) {
	pid := running(t, tracetest.CompileC(t, aliased))
	e := probe.NewEnv(kernel.Root{})
	defer e.Close()
	any := listedNames(t, e, pid, "libc.so.6", "")
	codes, err := symbol.NewProcesses(kernel.Root{}).Code(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range codes {
		defer c.Close()
	}
	n := 0
	for _, c := range codes {
		if c.Name != "libc.so.6" {
			continue
		}
		funcs, err := c.Functions()
		if err != nil {
			t.Fatal(err)
		}
		// those that choose a function when the program starts
		at, named := map[uint64]bool{}, map[string]bool{}
		for _, f := range funcs {
			at[f.Start] = at[f.Start] || f.Indirect
		}
		for _, f := range funcs {
			named[f.Name] = named[f.Name] || at[f.Start]
		}
		for _, f := range funcs {
			if named[f.Name] || f.Size == 0 {
				continue
			}
			n++
			for _, name := range listedNames(t, e, pid, "libc.so.6", f.Name) {
				if name != f.Name {
					t.Errorf("%s is called %s", f.Name, name)
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("libc has %d functions", n)
	}
	for _, name := range []string{"fread", "fwrite", "fputs", "puts", "close", "socket", "calloc", "snprintf"} {
		if !slices.Contains(any, name) {
			t.Errorf("%s is not among the functions that are listed", name)
		}
	}
}

// Two names of one function are two probes, each with its own name, and both fire.
func TestTwoNamesOfOneFunction(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	out, _ := traceCommand(t, tracetest.CompileC(t, aliased), `
		pid$target:a.out:work:entry, pid$target:a.out:_IO_work:entry, pid$target:a.out:work:return { @[probefunc, probename, probefunc == "work"] = count(); }
		pid$target:a.out:*only:entry { @[probefunc, probename, 2] = count(); }`)
	got := strings.Join(strings.Fields(out), " ")
	for _, line := range []string{"work entry 1 100", "_IO_work entry 0 100", "work return 1 100", "__only entry 2 100"} {
		if !strings.Contains(" "+got+" ", " "+line+" ") {
			t.Errorf("printed %q, want %q in it", got, line)
		}
	}
}

// Several functions of one name in a file are one probe, which fires at each of them, once.
func TestFunctionsOfOneName(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"one.c": `__attribute__((noinline)) static long helper(long n) { __asm__ volatile("" : "+r"(n)); return n + 1; }
			long one(long n) { long r = helper(n); __asm__ volatile("" : "+r"(r)); return r; }`,
		"two.c": `__attribute__((noinline)) static long helper(long n) { __asm__ volatile("" : "+r"(n)); return n + 2; }
			long two(long n) { long r = helper(n); __asm__ volatile("" : "+r"(r)); return r; }`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	work := tracetest.CompileC(t, `long one(long), two(long);
		int main(void) { long s = 0; for (int i = 0; i < 100; i++) { s += one(i); if (i % 2) s += two(i); } return s == 1; }`, filepath.Join(dir, "one.c"), filepath.Join(dir, "two.c"))
	for _, tt := range []struct{ name, description string }{
		{"literal", "helper:entry"},
		{"pattern", "help*:entry"},
		{"return", "helper:return"},
		{"offset", "helper:0"},
		{"both", "helper:entry,pid$target:a.out:one:entry"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, _ := traceCommand(
				t, work,
				"pid$target:a.out:"+tt.description+` /probefunc == "helper"/ { @ = count(); }`,
			)
			if strings.TrimSpace(out) != "150" {
				t.Errorf("it fired %s times, want 150", strings.TrimSpace(out))
			}
		})
	}
}

// A USDT probe has the name of its function by which a description matches it.
func TestUSDTNameAsAsked(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	work := tracetest.CompileC(
		t,
		strings.Replace(
			notes, "int main(",
			`extern __typeof(work) _IO_work __attribute__((alias("work"))); int main(`, 1,
		),
	)
	out, _ := traceCommand(
		t, work,
		`app$target::work:guarded,app$target::_IO_work:guarded,app$target::_*:mem,app$target:::twice { @[probefunc, probename] = count(); }`,
	)
	matches(
		t, out, `(^| )work guarded 100`, `_IO_work guarded 100`, `_IO_work mem 100`,
		`(^| )work twice 200`,
	)
}
