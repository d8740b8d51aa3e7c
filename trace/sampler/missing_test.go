package sampler

import (
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/measure"
	"culprit/trace"
	"culprit/trace/tracetest"
)

// leafCalls is a C program that spends its time in a leaf. 70 % of the time one function calls it,
// and 30 % another. The leaf is C, or assembler without a frame and unwind information.
const leafCalls = `
#include <time.h>
volatile unsigned long sink;
#ifdef BY_HAND
unsigned long leaf(unsigned long x, long n);
__asm__(".text\n.globl leaf\n.type leaf,@function\nleaf:\n mov %rdi,%rax\n.Lagain:\n imul $0x2545f491,%rax,%rax\n inc %rax\n dec %rsi\n jnz .Lagain\n ret\n.size leaf,.-leaf\n");
#else
__attribute__((noinline)) unsigned long leaf(unsigned long x, long n) { while (n-- > 0) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; } return x; }
#endif
__attribute__((noinline)) unsigned long seventy(unsigned long x) { x = leaf(x, 7000) + 1; sink = x; return x; }
__attribute__((noinline)) unsigned long thirty(unsigned long x) { x = leaf(x, 3000) + 2; sink = x; return x; }
__attribute__((noinline)) void loop(time_t end) { unsigned long x = 1; while (time(0) < end) for (int i = 0; i < 1000; i++) x = thirty(seventy(x)); sink = x; }
int main(void) { loop(time(0) + 300); return 0; }`

// A stack has the caller of a leaf, or else a mark that it may be missing, whatever information on
// frames was stripped from the program. A stack with the caller has no mark.
func TestProfileMissingCallers(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	if runtime.GOARCH != "amd64" || tracetest.TablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	bare := []string{
		"-O2",
		"-fno-asynchronous-unwind-tables",
		"-fno-unwind-tables",
		"-fno-exceptions",
	}
	for _, tt := range []struct {
		name   string
		flags  []string
		strip  []string // arguments of objcopy
		named  bool     // functions have names
		marked bool     // stacks may be marked
	}{
		{name: "unwind tables", flags: []string{"-O2"}, named: true},
		{name: "no tables, no frame pointers", flags: append(slices.Clone(bare), "-fomit-frame-pointer"), named: true},
		{name: "no tables, frame pointers but in leaves", flags: append(slices.Clone(bare), "-fno-omit-frame-pointer", "-momit-leaf-frame-pointer"), named: true},
		{name: "no tables, not optimised", flags: append(slices.Clone(bare), "-O0"), named: true},
		{name: "no tables, static", flags: append(slices.Clone(bare), "-static"), named: true},
		{name: "leaf in assembler", flags: []string{"-O2", "-DBY_HAND"}, named: true},
		{name: "leaf in assembler, stripped", flags: []string{"-O2", "-DBY_HAND", "-s"}, marked: true},
		{name: "tables removed", flags: []string{"-O2"}, strip: []string{"-R", ".eh_frame", "-R", ".eh_frame_hdr"}, named: true},
		{name: "tables and symbols removed", flags: []string{"-O2"}, strip: []string{"-R", ".eh_frame", "-R", ".eh_frame_hdr", "-S"}, marked: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := tracetest.CompileC(t, leafCalls, tt.flags...)
			if tt.strip != nil {
				strip := exec.Command("objcopy", append(tt.strip, path)...)
				if out, err := strip.CombinedOutput(); err != nil {
					t.Skipf("needs: tool objcopy: %v: %s", err, out)
				}
			}
			pid := tracetest.Start(t, path)
			p := Profile{
				Hz:      997,
				User:    true,
				Threads: ThreadFilter{PIDs: []int{pid}},
				For:     measure.Span(3 * time.Second),
			}
			var all, whole, marked, silent, seventy, thirty int64
			var odd []string
			// others may have the CPUs
			for deadline := time.Now().Add(time.Minute); all < 100 && time.Now().Before(deadline); {
				got, err := p.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for s := range got.Stacks {
					if len(s.User) == 0 ||
						!strings.HasPrefix(s.User[0], "work`") && s.User[0] != "[work]" {
						continue
					}
					all += s.Count
					main := false
					if tt.named {
						main = strings.Contains(s.User[0], "`main") ||
							tracetest.HasChain(s.User, "loop", "main")
						if strings.Contains(s.User[0], "`leaf") {
							main = tracetest.HasChain(s.User, "leaf", "seventy", "loop", "main") ||
								tracetest.HasChain(s.User, "leaf", "thirty", "loop", "main")
						}
					} else { // leaf, its caller, loop, main
						all := strings.Join(s.User, " ")
						main = len(s.User) >= 6 && (strings.Contains(all, "libc.so.6`__libc_start") ||
							strings.Contains(all, "`[libc.so.6"))
					}
					mark := slices.ContainsFunc(s.User, func(f string) bool {
						return f == trace.MissingFrame ||
							strings.HasPrefix(f, "[unwinding stopped") ||
							strings.HasPrefix(f, "[no unwind table")
					})
					switch {
					case main && !mark:
						whole += s.Count
					case mark:
						marked += s.Count
						odd = s.User
					default:
						silent += s.Count
						t.Logf("%d: %q", s.Count, s.User)
					}
					if tracetest.HasChain(s.User, "seventy") {
						seventy += s.Count
					} else if tracetest.HasChain(s.User, "thirty") {
						thirty += s.Count
					}
				}
			}
			t.Logf(
				"of %d samples %d are whole, %d marked, %d neither; %d by seventy, %d by thirty; marked as %q",
				all, whole, marked, silent, seventy, thirty, odd,
			)
			if all < 100 {
				t.Fatalf("%d samples", all)
			}
			if float64(silent) > 0.005*float64(all) {
				t.Errorf("%d of %d samples lack a caller and have no mark", silent, all)
			}
			if !tt.marked && float64(whole) < 0.98*float64(all) {
				t.Errorf("%d of %d samples are whole; others as %q", whole, all, odd)
			}
			if share := float64(seventy) / float64(seventy+thirty); tt.named &&
				(share < 0.5 || share > 0.87) {
				t.Errorf("the function that takes 70 %% of the time has %.1f %%", 100*share)
			}
		})
	}
}
