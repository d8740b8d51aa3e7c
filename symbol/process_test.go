package symbol

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"culprit/kernel"
)

// deep is a function to be found by its address.
//
//go:noinline
func deep() uintptr {
	var pcs [1]uintptr
	runtime.Callers(1, pcs[:])
	return pcs[0]
}

// TestOwnFunctions: the addresses of this program's own functions have the names of Go's
// runtime.
func TestOwnFunctions(t *testing.T) {
	ps := NewProcesses(kernel.Root{})
	me := filepath.Base(os.Args[0])
	for _, f := range []any{deep, TestOwnFunctions, NewProcesses, (*Processes).Place, fmt.Sprintf,
		strings.Repeat, runtime.GC} {
		pc := reflect.ValueOf(f).Pointer()
		want := runtime.FuncForPC(pc).Name()
		p := ps.Place(os.Getpid(), uint64(pc))
		if p.Name != want || p.Offset != 0 || p.Module != me {
			t.Errorf("%x: %v, want %s`%s", pc, p, me, want)
		}
		if p := ps.Place(os.Getpid(), uint64(pc)+1); p.Name != want || p.Offset != 1 ||
			!strings.HasSuffix(p.String(), "+0x1") {
			t.Errorf("%x: %v", pc+1, p)
		}
	}
	pc := deep()
	if p := ps.Stack(os.Getpid(), []uint64{uint64(pc), uint64(pc)}); !strings.HasSuffix(p[1].Name,
		".deep") || p[0].String() != p[1].String() {
		t.Errorf("stack: %v", p)
	}
	for _, addr := range []uint64{0, 1, 1 << 62, 1<<64 - 1} {
		if p := ps.Place(os.Getpid(), addr); p.String() != fmt.Sprintf("%#x", addr) {
			t.Errorf("%x: %v", addr, p)
		}
	}
	if notes := ps.Notes(); len(notes) > 0 {
		t.Errorf("notes: %q", notes)
	}
	// A process that there is not.
	if p := ps.Place(1<<22+1, 0x1234); p.String() != "0x1234" {
		t.Errorf("nobody: %v", p)
	}
	if notes := ps.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "one process") {
		t.Errorf("notes: %q", notes)
	}
}

func TestVDSO(t *testing.T) {
	o := readVDSO()
	if len(o.syms) == 0 {
		b, _ := os.ReadFile("/proc/self/maps")
		if bytes.Contains(b, []byte("[vdso]")) {
			t.Fatal("no symbols")
		}
		t.Skip("needs: kernel feature vDSO")
	}
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	maps, _ := ParseMaps(b)
	for _, m := range maps {
		if m.Path == "[vdso]" {
			p := NewProcesses(kernel.Root{}).Place(os.Getpid(), m.Start+o.syms[0].addr+3)
			if p.Module != "[vdso]" || p.Name == "" || p.Offset != 3 {
				t.Errorf("%v", p)
			}
		}
	}
}

// A child prints addresses, one a line with the name that they should have, and waits.
type child struct {
	cmd   *exec.Cmd
	names map[string]uint64
}

func start(t *testing.T, cmd *exec.Cmd) child {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // it ends with its input
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := child{cmd, map[string]uint64{}}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		var addr uint64
		if _, err := fmt.Sscanf(lines.Text(), "%x ", &addr); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		_, name, _ := strings.Cut(lines.Text(), " ")
		c.names[name] = addr
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(c.names) == 0 {
		t.Fatal("the child printed nothing")
	}
	return c
}

const cplusplus = `
#include <cstdio>
#include <string>
#include <dlfcn.h>
namespace ns { template <class T> struct box { T x; __attribute__((noinline)) T get(
	int n) { return x + n; } };
__attribute__((noinline)) int twice(const std::string &s) { return 2 * s.size(); } }
static __attribute__((noinline)) int hidden(int n) { return n * 3; }
int table[16] = {1};
int zeroes[100000];
extern "C" __attribute__((noinline)) int plain(int n) { return n; }
int main() {
	auto get = &ns::box<int>::get;
	std::printf("%lx ns::box<int>::get\n", *(unsigned long *)&get);
	std::printf("%lx ns::twice\n", (unsigned long)&ns::twice);
	std::printf("%lx hidden\n", (unsigned long)&hidden);
	std::printf("%lx plain\n", (unsigned long)&plain);
	std::printf("%lx table\n", (unsigned long)&table);
	std::printf("%lx zeroes\n", (unsigned long)&zeroes[0]);
	std::printf("%lx main\n", (unsigned long)&main);
	std::printf("%lx !malloc\n", (unsigned long)dlsym(RTLD_DEFAULT, "malloc"));
	std::printf("ready\n");
	std::fflush(stdout);
	return std::getchar() + ns::box<int>{1}.get(1) + ns::twice("x") + hidden(1) + plain(1) +
		table[3] + zeroes[1];
}
`

// plainly is the program as the compiler makes it by itself, which several tests want.
//
// table: compiled once, never changed
var plainly struct {
	once sync.Once
	text []byte
}

// copied returns a copy of that program's file.
func copied(t *testing.T, name string) string {
	t.Helper()
	plainly.once.Do(func() {
		text, err := os.ReadFile(build(t, "plain"))
		if err != nil {
			t.Fatal(err)
		}
		plainly.text = text
	})
	if len(plainly.text) == 0 {
		t.Skip("needs: tool g++")
	}
	bin := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(bin, plainly.text, 0o700); err != nil {
		t.Fatal(err)
	}
	return bin
}

// build compiles the program; the flags are those of the compiler.
func build(t *testing.T, name string, flags ...string) string {
	t.Helper()
	compiler, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("needs: tool g++")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.cc"), []byte(cplusplus), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, name)
	cmd := exec.Command(compiler, append([]string{"-O1", "-rdynamic", "-o", bin,
		filepath.Join(dir, "x.cc")}, flags...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

func (c child) check(t *testing.T, ps *Processes, module string, hidden bool) {
	t.Helper()
	for name, addr := range c.names {
		in, want := module, name
		if real, ok := strings.CutPrefix(name, "!"); ok {
			want, in = real, "libc.so.6"
		}
		p := ps.Place(c.cmd.Process.Pid, addr)
		if name == "hidden" && !hidden {
			if p.Name == want {
				t.Errorf("%s was found in a stripped program", name)
			}
			continue
		}
		if p.Name != want || p.Offset != 0 || p.Module != in {
			t.Errorf("%s at %x: %v", name, addr, p)
		}
		if p := ps.Place(c.cmd.Process.Pid, addr+1); p.Name != want || p.Offset != 1 {
			t.Errorf("%s at %x+1: %v", name, addr, p)
		}
	}
}

// TestCPlusPlus: functions, variables, and those of a library, in programs that are loaded anywhere
// and in such that are loaded where they say, with their own symbols and with those alone that
// others link to.
func TestCPlusPlus(t *testing.T) {
	for _, c := range []struct {
		name   string
		flags  []string
		hidden bool
	}{
		{"pie", []string{"-pie", "-fPIE"}, true},
		{"nopie", []string{"-no-pie", "-fno-pie"}, true},
		{"stripped", []string{"-s"}, false},
		{"noid", []string{"-Wl,--build-id=none", "-Wl,-z,noseparate-code"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bin := build(t, c.name, c.flags...)
			ps := NewProcesses(kernel.Root{})
			start(t, exec.Command(bin)).check(t, ps, c.name, c.hidden)
		})
	}
}

// TestDeletedAndEnded: a program whose file is gone, and after that one that is gone itself, keep
// their names.
func TestDeletedAndEnded(t *testing.T) {
	bin := copied(t, "gone")
	c := start(t, exec.Command(bin))
	if err := os.Remove(bin); err != nil {
		t.Fatal(err)
	}
	ps := NewProcesses(kernel.Root{})
	c.check(t, ps, "gone", true)
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait()
	for _, p := range ps.procs {
		p.checked, p.read = time.Time{}, time.Time{}
	}
	c.check(t, ps, "gone", true)
	if notes := ps.Notes(); len(notes) > 0 {
		t.Errorf("notes: %q", notes)
	}
}

// TestSharedFiles: the symbols of a file are read once, under whatever name, and again when its
// owner changed. A copy is another file: it shares nothing.
func TestSharedFiles(t *testing.T) {
	bin := copied(t, "one")
	ps := NewProcesses(kernel.Root{})
	start(t, exec.Command(bin)).check(t, ps, "one", true)
	n, bytes := len(ps.used), ps.bytes
	link := filepath.Join(filepath.Dir(bin), "two")
	if err := os.Link(bin, link); err != nil {
		t.Fatal(err)
	}
	start(t, exec.Command(link)).check(t, ps, "two", true)
	if len(ps.used) != n || ps.bytes != bytes {
		t.Errorf("%d objects of %d bytes became %d of %d", n, bytes, len(ps.used), ps.bytes)
	}
	start(t, exec.Command(copied(t, "three"))).check(t, ps, "three", true)
	if len(ps.used) != n+1 {
		t.Errorf("of a copy %d objects became %d", n, len(ps.used))
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(bin, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	start(t, exec.Command(link)).check(t, ps, "two", true)
	if len(ps.used) != n+2 {
		t.Errorf("of a file with a new owner %d objects became %d", n+1, len(ps.used))
	}
}

// TestContainer: a program that sees another root is looked for below it.
func TestContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root (another root directory)")
	}
	bin := build(t, "inside", "-static")
	root := t.TempDir()
	text, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "inside"), text, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/inside")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	c := start(t, cmd)
	delete(c.names, "!malloc")
	ps := NewProcesses(kernel.Root{})
	c.check(t, ps, "inside", true)
	f, _, err := openBelow(fmt.Sprintf("/proc/%d/root", cmd.Process.Pid), "/inside")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// TestGoStripped: a program of Go without symbols still has the table of its own stack traces.
func TestGoStripped(t *testing.T) {
	compiler, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs: tool go")
	}
	dir := t.TempDir()
	text := `package main
import ("fmt"; "os"; "reflect")
//go:noinline
func deep() int { return 7 }
func main() {
	fmt.Printf("%x main.deep\n%x fmt.Printf\nready\n", reflect.ValueOf(deep).Pointer(),
		reflect.ValueOf(fmt.Printf).Pointer())
	os.Stdin.Read(make([]byte, 1)); deep()
}`
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "stripped")
	cmd := exec.Command(compiler, "build", "-ldflags=-s -w", "-o", bin, filepath.Join(dir, "x.go"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	start(t, exec.Command(bin)).check(t, NewProcesses(kernel.Root{}), "stripped", true)
}

// TestCompiled: code that a just-in-time compiler made has the names that it wrote down, also those
// it wrote later.
func TestCompiled(t *testing.T) {
	code, err := syscall.Mmap(-1, 0, 8192, syscall.PROT_READ|syscall.PROT_EXEC,
		syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(code) }()
	at := uint64(reflect.ValueOf(code).Pointer())
	name := fmt.Sprintf("/tmp/perf-%d.map", os.Getpid())
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Remove(name)
	ps := NewProcesses(kernel.Root{})
	if p := ps.Place(os.Getpid(), at); p.String() != fmt.Sprintf("%#x", at) {
		t.Errorf("nothing written: %v", p)
	}
	write(fmt.Sprintf("%x 100 first\n%x 10 render /app/page.js:12\n%x 100 unfinis", at, at+0x100,
		at+0x200))
	ps.procs[os.Getpid()].jit.due = time.Time{}
	for add, want := range map[uint64]string{0: "first", 0xff: "first+0xff",
		0x105: "render /app/page.js:12+0x5", 0x110: fmt.Sprintf("%#x", at+0x110),
		0x200: fmt.Sprintf("%#x", at+0x200)} {
		if p := ps.Place(os.Getpid(), at+add); p.String() != want {
			t.Errorf("%x: %v, want %s", add, p, want)
		}
	}
	write(fmt.Sprintf("%x 100 first\n%x 10 render\n%x 100 later\x1b[31m\n%x 8 again\n", at,
		at+0x100, at+0x200, at))
	ps.procs[os.Getpid()].jit.due = time.Time{}
	if p := ps.Place(os.Getpid(), at+0x203); p.String() != "later?[31m+0x3" {
		t.Errorf("%v", p)
	}
	if p := ps.Place(os.Getpid(), at+2); p.String() != "again+0x2" {
		t.Errorf("%v", p)
	}
}

// TestNumberAgain: another process with a number that is known is another process.
func TestNumberAgain(t *testing.T) {
	dir := t.TempDir()
	proc := filepath.Join(dir, "7")
	if err := os.Mkdir(proc, 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(start int, file string) {
		for name, text := range map[string]string{
			"stat": fmt.Sprintf("7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 %d 100\n",
				start),
			"maps":   "400000-401000 r-xp 00000000 fd:01 12345678 /nowhere/" + file + "\n",
			"status": "NSpid:\t7\t3\n"} {
			if err := os.WriteFile(filepath.Join(proc, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(100, "old")
	ps := NewProcesses(kernel.Root{Proc: dir})
	if p := ps.Place(7, 0x400010); p.String() != "old`0x400010" {
		t.Errorf("%v", p)
	}
	if ps.insideOf(ps.procs[7]) != 3 || ps.procs[7].start != 100 {
		t.Errorf("%+v", ps.procs[7])
	}
	put(200, "new")
	ps.procs[7].checked = time.Time{}
	if p := ps.Place(7, 0x400010); p.String() != "new`0x400010" {
		t.Errorf("%v", p)
	}
	ps.Forget(7)
	if len(ps.procs) != 0 {
		t.Error("not forgotten")
	}
}

func TestShrink(t *testing.T) {
	ps := NewProcesses(kernel.Root{})
	for i := range 10 {
		o := &object{text: make([]byte, 10<<20), buildID: fmt.Sprint(i)}
		ps.objects[fileKey{ino: uint64(i)}] = o
		ps.tick++
		ps.used[o] = ps.tick
		ps.bytes += o.size()
		ps.shrink(o)
		if ps.bytes > ps.limits.symbols {
			t.Fatalf("%d bytes", ps.bytes)
		}
	}
	if ps.objects[fileKey{ino: 9}] == nil || ps.objects[fileKey{ino: 0}] != nil ||
		len(ps.objects) != len(ps.used) {
		t.Errorf("%d objects, %d used", len(ps.objects), len(ps.used))
	}
}
