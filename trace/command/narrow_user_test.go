package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"
)

// narrowCalls is a 32-bit program without a C library, whose every call is known.
const narrowCalls = `
struct pair { const char *name; int n; };
struct pair now;
int table[4] = { 10, 20, 30, 40 };
volatile char keep;
__attribute__((noinline)) int added(int a, int b, const char *s, struct pair *p, long long wide, char c, short d, unsigned e) {
	__asm__ volatile(""); return a + b + p->n; }
__attribute__((noinline)) struct pair *pair(int i) {
	now.name = i & 1 ? "second" : "first"; now.n = i & 1 ? -2 : 1; keep = now.name[0]; return &now; }
__attribute__((noinline)) int outer(int i) {
	int n = added(i, -7, "text of 32 bits", pair(i), 0x100000002LL, 'x', -3, 0xfffffff0u);
	__asm__ volatile(""); return n; }
__attribute__((noinline)) void tick(int i, const char *s) {
	int from = i & 3, back = from - 4; signed char c = -5;
	__asm__ volatile("990: nop\n .pushsection .note.stapsdt,\"\",\"note\"\n .balign 4\n"
		".4byte 992f-991f, 994f-993f, 3\n 991: .asciz \"stapsdt\"\n 992: .balign 4\n"
		"993: .4byte 990b\n .4byte _.stapsdt.base\n .4byte 0\n .asciz \"narrow\"\n .asciz \"tick\"\n"
		".asciz \"-4@%0 4@%1 -4@(%2,%3,4) -4@(%4,%5,4) -1@%6 -4@$-9\"\n 994: .balign 4\n .popsection\n"
		".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n .weak _.stapsdt.base\n"
		".hidden _.stapsdt.base\n _.stapsdt.base: .space 1\n .size _.stapsdt.base,1\n .popsection\n"
		:: "r"(i), "m"(s), "r"(table), "r"(from), "r"(table + 4), "r"(back), "m"(c)); }
void _start(void) {
	for (int i = 0; i < 100; i++) { outer(i); tick(i, pair(i)->name); }
	__asm__ volatile("int $0x80" :: "a"(1), "b"(0)); }`

// narrowWork compiles narrowCalls and returns its path. It skips a test where that is impossible.
func narrowWork(t *testing.T, flags ...string) string {
	t.Helper()
	tracetest.Needs(t, feature.Uprobe)
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature 32-bit processes")
	}
	work := tracetest.CompileC(t, narrowCalls,
		append([]string{"-m32", "-nostdlib", "-nostartfiles"}, flags...)...)
	if err := exec.Command(work).Run(); err != nil {
		t.Skip("needs: kernel feature 32-bit processes")
	}
	return work
}

// Functions of 32-bit programs: arguments are on the stack, pointers have four bytes.
func TestPidProviderOf32Bits(t *testing.T) {
	for name, flags := range map[string][]string{
		"fixed": {"-static"}, "moved": {"-fPIE", "-pie", "-Wl,--no-dynamic-linker"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs := traceCommand(t, narrowWork(t, flags...), `
				pid$target:a.out:added:entry {
					@a["words", (int)arg1, arg4, arg5, (char)arg6, (int)(short)arg7] = count();
					@b["last", arg8] = count();
					@s["arg0"] = sum(arg0);
					@t["texts", copyinstr(arg2), copyinstr(*(uint32_t *)copyin(arg3, 4)),
						*(int *)copyin(arg3 + 4, 4)] = count();
					@u[ustack()] = count();
				}
				pid$target:a.out:added:return { @s["arg1"] = sum((int)arg1); }
				pid$target:a.out:outer: { @o["offset", probename == "entry" ? "entry" : "other"] = sum(probename == "0"); }`)
			matches(
				t, out, `words -7 2 1 120 -3 100`, `last 4294967280 100`, `arg0 4950`,
				`texts text of 32 bits first 1 50`, `texts text of 32 bits second -2 50`, `arg1 4200`,
				`offset entry 0`, `offset other 100`, "work`added work`outer\\+0x[0-9a-f]+ work`_start",
			)
			if errs != "" {
				t.Error(errs)
			}
		})
	}
}

// Static probes of 32-bit programs: registers, memory, an index below 0, constants.
func TestUSDTOf32Bits(t *testing.T) {
	work := narrowWork(t, "-static")
	out, errs := traceCommand(t, work, `
		narrow$target:::tick { @["tick", copyinstr(arg1), args[2], args[3], (int)args[4], args[5]] = sum(args[0]); }`)
	matches(
		t, out, `tick first 10 10 -5 -9 1200`, `tick first 30 30 -5 -9 1250`,
		`tick second 20 20 -5 -9 1225`, `tick second 40 40 -5 -9 1275`,
	)
	if errs != "" {
		t.Error(errs)
	}
}

// Probes by file fire in 32-bit processes.
func TestFileProbesOf32Bits(t *testing.T) {
	work := narrowWork(t, "-static")
	out, errs := traceCommand(t, work, `
		uprobe:`+work+`:added: { @a["uprobe", (int)arg1] = count(); }
		uretprobe:`+work+`:outer: { @b["uretprobe", 0] = sum((int)arg1); }
		usdt:`+work+`:narrow:tick { @c["usdt", args[5]] = count(); }`)
	matches(t, out, `uprobe -7 100`, `uretprobe 0 4200`, `usdt -9 100`)
	if errs != "" {
		t.Error(errs)
	}
}

// Go has the arguments of 32-bit programs on the stack, as C has them.
func TestPidProviderOf32BitGo(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	tool, err := exec.LookPath("go")
	if err != nil || runtime.GOARCH != "amd64" {
		t.Skip("needs: tool go")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module narrow\n\ngo 1.22\n",
		"main.go": `package main

//go:noinline
func added(a, b int) int { return a + b }

func main() {
	sum := 0
	for i := range 1000 {
		sum += added(i, 2*i)
	}
	if sum != 1498500 {
		panic(sum)
	}
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	work := filepath.Join(dir, "narrow")
	c := exec.Command(tool, "build", "-o", work, ".")
	c.Dir, c.Env = dir, append(os.Environ(), "GOARCH=386", "CGO_ENABLED=0", "GOFLAGS=")
	if b, err := c.CombinedOutput(); err != nil {
		t.Skipf("needs: tool go for 386: %s", b)
	}
	// When a signal arrives before the probed instruction has run, the kernel fires the probe once
	// more, for bpftrace too: so the number of entries is not exact.
	out, errs := traceCommand(t, work, `
		pid$target:a.out:main.added:entry {
			@a["least"] = min(arg0); @b["most"] = max(arg1); @s["twice"] = sum(arg1 - 2 * arg0);
		}
		pid$target:a.out:main.added:return { @n["return"] = count(); }`)
	matches(t, out, `return 1000`, `least 0`, `most 1998`, `twice 0`)
	if errs != "" {
		t.Error(errs)
	}
}
