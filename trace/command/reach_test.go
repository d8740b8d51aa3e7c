package command

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"
)

// indirect calls strlen and memcpy of libc, which choose a function for the CPU, 555 times.
const indirect = `#include <string.h>
char from[4096], to[4096];
volatile unsigned long sink;
int main(void) {
	size_t (*volatile length)(const char *) = strlen;
	void *(*volatile copy)(void *, const void *, size_t) = memcpy;
	for (int i = 0; i < 100; i++) from[i] = 'x';
	for (int i = 0; i < 555; i++) { sink += length(from); copy(to, from, 64); }
	return 0;
}`

// Functions of libc that choose another one for the CPU are probed where they are called, by the
// name by which they are known.
func TestIndirectFunctions(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	work := tracetest.CompileC(t, indirect, "-fno-builtin")
	const both = `pid$target:libc:%s:entry { @[probefunc] = count(); }
		uprobe:libc:%s: /pid == $target/ { @u[probefunc, "file"] = count(); }`
	for _, name := range []string{"strlen", "memcpy"} {
		t.Run(name, func(t *testing.T) {
			out, errs := traceCommand(t, work, fmt.Sprintf(both, name, name))
			if strings.Contains(errs, "skipped because") {
				t.Logf("the kernel puts no probe on the function that this CPU needs: %s", errs)
				return
			}
			matches(t, out, name+" 555", name+" file 555")
		})
	}
	t.Run("bpftrace", func(t *testing.T) {
		out, messages, err := runBpftrace(t, BpftraceRequest{
			Program: `uprobe:libc:strlen /pid == cpid/ { @[func] = count(); }`, Command: work,
		})
		if err != nil || !strings.Contains(out, "@[strlen]: 555\n") &&
			!strings.Contains(messages, "skipped") {
			t.Errorf("printed %s%s %v", out, messages, err)
		}
	})
	t.Run("a pattern that matches both", func(t *testing.T) {
		out, _ := traceCommand(t, work, `pid$target:libc:*strlen*:entry { @ = count(); }`)
		if strings.Contains(out, "1110") {
			t.Errorf("calls are counted twice: %s", out)
		}
	})
}

// A file may have several functions of one name: each is counted once.
func TestFunctionsOfOneNameByFile(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	const one = `__attribute__((noinline)) static int same(int x) { __asm__ volatile(""); return x + %d; }
int %s(int x) { return same(x); }
`
	dir := t.TempDir()
	other := filepath.Join(dir, "other.c")
	if err := os.WriteFile(other, fmt.Appendf(nil, one, 1, "second"), 0o600); err != nil {
		t.Fatal(err)
	}
	work := tracetest.CompileC(t, fmt.Sprintf(one, 2, "first")+`int second(int);
int main(void) {
	int sum = 0;
	for (int i = 0; i < 500; i++) { sum += first(i); if (i < 70) sum += second(i); }
	return sum == 1;
}`, other)
	out, _ := traceCommand(t, work, fmt.Sprintf(`uprobe:%s:same: { @["u"] = count(); }
		uretprobe:%s:same: { @["r"] = count(); } pid$target:a.out:same:entry { @["p"] = count(); }`,
		work, work))
	matches(t, out, "p 570", "r 570", "u 570")
}

// Provider file, and pid* without a process, count what uprobe and uretprobe count.
func TestFunctionsByFile(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	work := tracetest.CompileC(t, `
__attribute__((noinline)) int step(int x) { __asm__ volatile(""); return x * 2; }
int main(void) {
	int sum = 0;
	for (int i = 0; i < 321; i++) sum += step(i);
	return sum == 1;
}`)
	r := program(`file:%s:step:entry, pid*:%s:step:return { @[probeprov, probename] = count(); }
		file:%s:step:return { @r[probefunc] = sum(arg1); } uprobe:%s:step: { @u["uprobe"] = count(); }
		BEGIN { system("%s"); } file:%s:main:return { exit(0); }`,
		work, work, work, work, work, work)
	r.Options = append(r.Options, "destructive")
	_, out, errs, err := session(t.Context(), t, r)
	if err != nil {
		t.Fatal(err, errs)
	}
	matches(t, out, "file entry 321", "file return 321", "step 102720", "uprobe 321")

	t.Chdir(filepath.Dir(work))
	for _, tt := range []struct{ probe, says string }{
		{"file:" + work + ":step:leave", "have the probes entry and return, not leave"},
		{"file:" + work + ":stpe:entry", "did you mean step?"},
		{"uprobe:" + work + ":step:entry", "leave the last part empty: uprobe:" + work + ":step:"},
		{"uprobe:" + work + ":step:return", "last part empty: uretprobe:" + work + ":step:"},
		{"pid*:lib*:step:entry", "pid* requires a file"},
		{"pid*::step:entry", "pid* names no process"},
		{"file:./" + filepath.Base(work) + ":nosuch:entry", "has no function nosuch"},
	} {
		t.Run(tt.probe, func(t *testing.T) {
			_, _, _, err := session(t.Context(), t, program("%s { }", tt.probe))
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}

// A library that a process loads later is named by its path.
func TestLibraryLoadedLater(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	library := tracetest.CompileC(t,
		`int plug(int x) { return x * 2; } int other(int x) { return -x; }`, "-shared", "-fPIC")
	work := tracetest.CompileC(t, fmt.Sprintf(`#include <dlfcn.h>
int main(void) {
	void *lib = dlopen("%s", RTLD_NOW);
	int (*plug)(int) = dlsym(lib, "plug"), (*other)(int) = dlsym(lib, "other"), sum = 0;
	for (int i = 0; i < 777; i++) { sum += plug(i); if (i < 333) sum += other(i); }
	return sum == 1;
}`, library), "-ldl")
	out, _ := traceCommand(t, work, fmt.Sprintf(
		`pid$target:%s:plug:entry { @[probefunc] = count(); }
		pid$target:%s:other:return { @["returns"] = count(); }`, library, library))
	matches(t, out, "plug 777", "returns 333")
	for _, tt := range []struct{ name, probe, says string }{
		{"no such file", "/nonexistent/libplug.so:plug", "no such file or directory"},
		{"no such function", library + ":plgu", "did you mean plug?"},
		{"only its name", "libplug:plug", "loads later by its path"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := program(`pid$target:%s:entry { }`, tt.probe)
			r.Commands = []string{work}
			_, _, _, err := session(t.Context(), t, r)
			if err == nil || !strings.Contains(err.Error(), tt.says) ||
				!strings.Contains(err.Error(), "column 1") {
				t.Errorf("%v, want %q with a position", err, tt.says)
			}
		})
	}
}

// The file of a process in a container is named by the path that the process uses.
func TestFileOfAContainer(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	work := tracetest.CompileC(t, `#include <unistd.h>
__attribute__((noinline)) int step(int x) { __asm__ volatile(""); return x + 1; }
int main(void) {
	char c;
	while (read(0, &c, 1) == 1) step(c);
	return 0;
}`, "-static")
	root := t.TempDir()
	text, err := os.ReadFile(work)
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "hidden"), text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func() (cmd *exec.Cmd, in io.WriteCloser) {
		cmd = exec.Command("/hidden")
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Cloneflags: syscall.CLONE_NEWNS}
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			cmd.Wait() //nolint:errcheck // it ends when its input does
		})
		return cmd, in
	}
	for _, text := range []string{
		`uprobe:/hidden:step: { @ = count(); }`, `pid$target:/hidden:step:entry { @ = count(); }`,
		`pid$target:a.out:step:entry { @ = count(); }`,
	} {
		t.Run(text, func(t *testing.T) {
			cmd, in := run()
			r := program("%s", text)
			r.Processes = []int{cmd.Process.Pid}
			r.begun = func() {
				in.Write(make([]byte, 444)) //nolint:errcheck // what it does not get is not counted
				in.Close()                  // so it ends, and the script with it
			}
			_, out, errs := traced(t, r, nil)
			if strings.TrimSpace(out) != "444" {
				t.Errorf("printed %q, messages %q", out, errs)
			}
		})
	}
	t.Run("bpftrace", func(t *testing.T) {
		cmd, in := run()
		done := make(chan struct{})
		go func() { // it does not report when its probes exist
			for {
				select {
				case <-done:
					return
				case <-time.After(20 * time.Millisecond):
					in.Write([]byte{0}) //nolint:errcheck // it is repeated
				}
			}
		}()
		out, messages, err := runBpftrace(t, BpftraceRequest{
			Program: `uprobe:/hidden:step { printf("%s\n", func); exit(); }`, PID: cmd.Process.Pid,
		})
		close(done)
		if err != nil || !strings.Contains(out, "step\n") {
			t.Errorf("printed %s%s %v", out, messages, err)
		}
	})
}

// shop is a class of C++ whose functions are called 300, 200 and 100 times.
const shop = `#include <string>
namespace shop {
struct Cart {
	int n = 0;
	__attribute__((noinline)) int add(int i) { asm volatile(""); n += i; return n; }
	__attribute__((noinline)) int add(const char *s) { asm volatile(""); n += *s; return n; }
	template <class T> __attribute__((noinline)) T get(T x) { asm volatile(""); return x + n; }
};
}
int main() {
	shop::Cart cart;
	for (int i = 0; i < 300; i++) {
		cart.add(i);
		if (i % 3) cart.add("x");
		if (i < 100) cart.get<long>(3);
	}
	return cart.n == 1;
}`

// Functions of C++ are named as in their source, with or without parameters.
func TestNamesOfCPlusPlus(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	compiler, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("needs: tool g++")
	}
	dir := t.TempDir()
	source, work := filepath.Join(dir, "shop.cc"), filepath.Join(dir, "shop")
	if err := os.WriteFile(source, []byte(shop), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, "-O1", "-o", work, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const number, text, long = "shop::Cart::add\\(int\\) 300",
		"shop::Cart::add\\(char const\\*\\) 200", "long shop::Cart::get<long>\\(long\\) 100"
	for _, tt := range []struct {
		name string
		want []string
	}{
		{"shop::Cart::add", []string{number, text}},
		{"shop::Cart::add(int)", []string{number}},
		{"shop::Cart::add(char const*)", []string{text}},
		{"shop::Cart::get<long>(long)", []string{long}},
		{"shop::Cart::get*", []string{long}},
		{"*Cart*", []string{number, text, long}},
		{"_ZN4shop4Cart3addEi", []string{"_ZN4shop4Cart3addEi 300"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errs := traceCommand(t, work, fmt.Sprintf(
				`pid$target:a.out:%s:entry { @[probefunc] = count(); }`, tt.name))
			if n := strings.Count(strings.TrimSpace(out), "\n") + 1; n != len(tt.want) {
				t.Errorf("printed %d rows, want %d: %s%s", n, len(tt.want), out, errs)
			}
			matches(t, out, tt.want...)
		})
	}
	t.Run("list", func(t *testing.T) {
		r := Request{Parts: []Part{{'n', "pid$target:a.out:*Cart*:entry"}}, List: true,
			Commands: []string{work}}
		if _, out, _, err := session(t.Context(), t, r); err != nil ||
			!strings.Contains(out, " shop::Cart::add(int) entry\n") {
			t.Errorf("printed %s %v", out, err)
		}
	})
}
