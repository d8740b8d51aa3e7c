package trace

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/symbol"
	"culprit/trace/probe"
)

// deepCalls spends 70 % of its time in one function and 30 % in another, both called back by the C library's qsort, below functions whose
// frames are of all sizes.
const deepCalls = `
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
#define LEVEL(n, next) __attribute__((noinline)) void level##n(int *v) { char room[40 + n * 16]; memset(room, n, sizeof room); sink += room[n]; next(v); sink += room[3]; }
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

// tablesMissing reports whether this kernel has no way to walk the stacks of processes by tables.
func tablesMissing(t testing.TB) bool {
	t.Helper()
	e := probe.NewEnv(kernel.Root{})
	defer e.Close() //nolint:errcheck // only read
	return e.UnwindTablesMissing() != nil
}

// TestFramePointersAreTold: a script that looks at stacks of processes says so where the kernel is too old for unwind tables,
// and names the version; nowhere else.
func TestFramePointersAreTold(t *testing.T) {
	needs(t, feature.RawTracepoints)
	for _, test := range []struct {
		name, text, unwind string
		told               bool
	}{
		{"user stack", "profile-9 { @[ustack()] = count(); }", "", true},
		{"kernel stack", "profile-9 { @[stack()] = count(); }", "", false},
		{"asked for", "profile-9 { @[ustack()] = count(); }", "fp", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := probe.NewEnv(kernel.Root{})
			defer e.Close() //nolint:errcheck // only read
			script := Script{Text: test.text}
			if test.unwind != "" {
				script.Options.All = map[string]string{"unwind": test.unwind}
			}
			c, err := Compile(script, e, gen.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := Load(c, e)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			said := strings.Join(s.caveats(), "")
			if want := test.told && tablesMissing(t); strings.Contains(said, "frame pointers") != want {
				t.Errorf("said %q, on a kernel where tables are missing: %v", said, tablesMissing(t))
			}
			if want := feature.HashOnDemand.Since(kernel.Root{}); test.told && want != "" && !strings.Contains(said, "6.1 brought it") {
				t.Errorf("said %q: %s", said, want)
			}
		})
	}
}

// deep gives that program without frame pointers.
func deep(t *testing.T) string {
	t.Helper()
	needs(t, feature.RawTracepoints)
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	if tablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	return compiled(t, deepCalls, "-O2", "-fomit-frame-pointer")
}

// chain says whether frames, the innermost first, have functions in an order, whatever is between them.
func chain(frames []string, want ...string) bool {
	for _, f := range frames {
		if len(want) > 0 && strings.Contains(f, "`"+want[0]) {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// started runs a program until the test is over.
func started(t *testing.T, path string, args ...string) int {
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

// TestProfileWithoutFramePointers: the stacks of a program that has none are whole, through the C library, and shares are right; also of a
// program that nothing was known of before its first sample.
func TestProfileWithoutFramePointers(t *testing.T) {
	path := deep(t)
	for _, known := range []bool{true, false} {
		pid := started(t, path)
		p := Profile{Hz: 997, User: true}
		if known {
			p.Who.PIDs = []int{pid}
		}
		var seventy, thirty, whole, before, all int64
		var odd []string
		for deadline := time.Now().Add(2 * time.Minute); whole < 300; {
			if time.Now().After(deadline) {
				t.Fatalf("%d whole stacks of %d; others as %q", whole, all, odd)
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			got, err := p.Run(ctx)
			stop()
			if err != nil {
				t.Fatal(err)
			}
			for s := range got.Stacks {
				if s.PID != pid || len(s.User) == 0 {
					continue
				}
				if strings.HasPrefix(s.User[len(s.User)-1], "[followed by frame pointers") {
					before += s.Count
					continue
				}
				all += s.Count
				if !chain(s.User, "compare", "sorted", "level1", "level2", "level3", "level4", "level5", "main", "__libc_start", "_start") {
					odd = s.User
					continue
				}
				whole += s.Count
				switch {
				case strings.Contains(s.User[0], "`seventy"):
					seventy += s.Count
				case strings.Contains(s.User[0], "`thirty"):
					thirty += s.Count
				}
			}
		}
		if float64(whole) < 0.98*float64(all) { // the C library is at work by itself at times, and before main
			t.Errorf("%d of %d stacks are whole; others as %q", whole, all, odd)
		}
		if known && before > 0 {
			t.Errorf("%d samples of a process that was named came before its tables", before)
		}
		if share := float64(seventy) / float64(seventy+thirty); share < 0.55 || share > 0.85 { // more than five standard deviations
			t.Errorf("the function that takes 70%% of the time has %.1f%% of %d samples", 100*share, seventy+thirty)
		}
	}
}

// TestStackWithoutFramePointers: so is ustack() of a script, at a system call and at a function's first instruction; -x unwind=fp says that
// it shall not be.
func TestStackWithoutFramePointers(t *testing.T) {
	path := deep(t)
	whole := regexp.MustCompile("(?s)work`asking(\\+0x[0-9a-f]+)?\n.*libc.*`qsort.*work`main\\+0x[0-9a-f]+\n.*`__libc_start.*work`_start")
	for _, text := range []string{`syscall::getppid:entry /pid == $target/ { @[ustack(), ustackdepth] = count(); n++; } syscall::getppid:entry /n == 20/ { exit(0); }`,
		`pid$target:a.out:asking:entry { @[ustack(), ustackdepth] = count(); n++; } pid$target:a.out:asking:entry /n == 20/ { exit(0); }`} {
		if strings.HasPrefix(text, "pid") && feature.Uprobe.Have(kernel.Root{}) != nil {
			continue
		}
		r := program("%s", text)
		r.Processes = []int{started(t, path, "ask")}
		_, out, errs := traced(t, r, nil)
		if !whole.MatchString(out) {
			t.Errorf("%s printed %q and said %q", text, out, errs)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if words := strings.Fields(lines[len(lines)-1]); len(words) != 2 || words[0] != strconv.Itoa(len(lines)-1) || words[1] != "20" {
			t.Errorf("%s: one stack of %d frames, 20 times, is %q", text, len(lines)-1, lines)
		}
		r.Options = append(r.Options, "unwind=fp")
		if _, out, _ := traced(t, r, nil); strings.HasPrefix(text, "syscall") && whole.MatchString(out) {
			t.Errorf("%s followed frame pointers where there are none: %q", text, out)
		}
	}
}

// TestStackOfSignalHandler: a stack goes on from a signal's handler to what it interrupted.
func TestStackOfSignalHandler(t *testing.T) {
	r := program("%s", `syscall::getppid:entry /pid == $target/ { @[ustack()] = count(); n++; } syscall::getppid:entry /n == 20/ { exit(0); }`)
	r.Processes = []int{started(t, deep(t), "signal")}
	_, out, errs := traced(t, r, nil)
	if !regexp.MustCompile("(?s)work`handler\\+0x[0-9a-f]+\n.*`kill.*work`tripped\\+0x[0-9a-f]+\n.*work`main\\+0x[0-9a-f]+\n.*work`_start").MatchString(out) {
		t.Errorf("printed %q and said %q", out, errs)
	}
}

// TestWalksAreTaken: the verifier takes programs that walk stacks, at each site where they can.
func TestWalksAreTaken(t *testing.T) {
	needs(t, feature.RawTracepoints)
	if tablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	for _, text := range []string{
		`profile-97 { @[ustack(127), ustackdepth, ucaller] = count(); }`,
		`profile-97 { self->n++; @[execname, ustack(3), stack(127), self->n] = quantize(self->n); }`,
		`syscall::getppid:entry, syscall::getppid:return { @[ustack(), stack()] = count(); }`,
		`sdt:sched::sched_switch { printf("%s", execname); ustack(); }`,
		`sched:::on-cpu, sched:::off-cpu { @[ustack()] = count(); }`,
		`io:::start { @[ustack()] = count(); }`,
	} {
		env := probe.NewEnv(kernel.Root{})
		c, err := Compile(Script{Text: text, Mode: syntax.Mode{Last: syntax.PartName}, Options: check.Options{All: map[string]string{"unwind": "tables"}}}, env, gen.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		s, err := Load(c, env)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if s.unwinder == nil {
			t.Errorf("%s: walks no stacks by tables", text)
		}
		s.Close()
		env.Close()
	}
}

// TestRowPages: a place is found in the blocks as in the table, wherever pages end and however many rows they have.
func TestRowPages(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, density := range []int{1, 3, 40, 3000, 20000} {
		var rows []symbol.UnwindRow
		numbers := []uint16{0, 1, 2, 3, 4, 5, 6, 7}
		pc := uint32(random.IntN(5000))
		for range 3000 {
			rule := uint16(random.IntN(len(numbers)))
			if random.IntN(10) == 0 {
				rule = 0
			}
			rows = append(rows, symbol.UnwindRow{PC: pc, Rule: rule})
			pc += uint32(1 + random.IntN(density))
		}
		rows = append(rows, symbol.UnwindRow{PC: pc, Rule: 0})
		var blocks [][gen.RowsBlock]byte
		at := map[uint32]int{}
		pages := rowPages{give: func(page uint32, block *[gen.RowsBlock]byte) error {
			if _, twice := at[page]; twice {
				t.Fatal("a page is there twice")
			}
			at[page] = len(blocks)
			blocks = append(blocks, *block)
			return nil
		}}
		for _, r := range rows {
			if err := pages.add(r.PC, numbers[r.Rule]); err != nil {
				t.Fatal(err)
			}
		}
		if err := pages.end(); err != nil {
			t.Fatal(err)
		}
		table := symbol.UnwindTable{Rows: rows}
		for i := range numbers {
			table.Rules = append(table.Rules, symbol.UnwindRule{Offset: int32(i)})
		}
		for range 20000 {
			pc := random.Uint32N(pc + 5000)
			want := uint16(table.Find(uint64(pc)).Offset)
			if got, chained := rowAt(at, blocks, pc); got != want && chained < gen.RowsBlocks-1 {
				t.Fatalf("density %d, at %#x: rule %d, want %d", density, pc, got, want)
			}
		}
	}
}

// rowAt looks a place up as the programs do.
func rowAt(at map[uint32]int, blocks [][gen.RowsBlock]byte, pc uint32) (rule uint16, n int) {
	for n = range gen.RowsBlocks {
		i, ok := at[pc>>gen.RowsPageBits<<4|uint32(n)]
		if !ok {
			return 0, n
		}
		last := 0
		for j := range gen.RowsEntries {
			if uint32(binary.NativeEndian.Uint16(blocks[i][4*j:])) <= pc&(gen.RowsPage-1) {
				last = j
			}
		}
		if rule = binary.NativeEndian.Uint16(blocks[i][4*last+2:]); rule != gen.RowsChain {
			return rule, n
		}
	}
	return 0, gen.RowsBlocks
}

// TestCodeBlocks: stretches of memory are in the blocks, with where to go on at the end of each.
func TestCodeBlocks(t *testing.T) {
	for _, n := range []int{0, 1, gen.CodeEntries, gen.CodeEntries + 1, 200, 10000} {
		var entries [][gen.CodeEntrySize]byte
		for i := range n {
			entries = append(entries, codeEntry(uint64(100*i), uint64(100*i+50), 0, uint32(i), gen.CodeTable))
		}
		blocks := codeBlocks(entries, 7, n == 1)
		if len(blocks) > gen.CodeBlocks || len(blocks) == 0 {
			t.Fatalf("%d blocks", len(blocks))
		}
		var starts []uint64
		for i, b := range blocks {
			if len(b) != gen.CodeBlock || binary.NativeEndian.Uint64(b) != 7 {
				t.Fatalf("block of %d bytes: % x", len(b), b[:16])
			}
			for at := gen.CodeHead; at < len(b); at += gen.CodeEntrySize {
				start, how := binary.NativeEndian.Uint64(b[at:]), binary.NativeEndian.Uint32(b[at+28:])
				switch {
				case how == gen.CodeChain:
					if at+gen.CodeEntrySize != len(b) || i+1 == len(blocks) || start != binary.NativeEndian.Uint64(blocks[i+1][gen.CodeHead:]) {
						t.Fatalf("a way to the next block at %d of block %d of %d", at, i, len(blocks))
					}
				case start != gen.CodeUnused:
					starts = append(starts, start)
				}
			}
		}
		if !slices.IsSorted(starts) || len(starts) != min(n, gen.CodeBlocks*(gen.CodeEntries-1)+1) {
			t.Errorf("%d of %d entries", len(starts), n)
		}
	}
}

// TestStoppedFrames: each reason has words of its own, and no address of a process is one.
func TestStoppedFrames(t *testing.T) {
	seen := map[string]bool{}
	for s := gen.StopNotYet; s <= gen.StopLong; s++ {
		text := stoppedFrame(s, "libfoo.so")
		if seen[text] || text == stoppedFrame(0, "") || strings.ContainsAny(text, ";\n") {
			t.Errorf("%d: %q", s, text)
		}
		seen[text] = true
		if e, ok := gen.EndingOf(s.Frame()); !ok || e != (gen.Ending{Stop: s}) {
			t.Errorf("%#x tells %+v, not %d", s.Frame(), e, s)
		}
		if e, ok := gen.EndingOf(s.Frame() | 127); !ok || e != (gen.Ending{Stop: s, Doubt: 127}) {
			t.Errorf("%#x with a doubt tells %+v, not %d", s.Frame(), e, s)
		}
	}
	for _, address := range []uint64{0, 0x400000, 1<<47 - 1, 1<<56 - 1, 0xffffffffff600000} {
		if isPseudo(address) {
			t.Errorf("%#x is an address", address)
		}
	}
}

// TestWantedAgain: a process that was looked at a moment ago stays among those that are wanted, so that programs wake nobody for it, until it is
// looked at again; one that has become another program by exec() is looked at at once.
func TestWantedAgain(t *testing.T) {
	needs(t, feature.RawTracepoints)
	if tablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	c, err := Compile(Script{Text: `profile-97 /pid == -1/ { @[ustack()] = count(); }`, Mode: syntax.Mode{Last: syntax.PartName}, Options: check.Options{All: map[string]string{"unwind": "tables"}}}, env, gen.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(c, env)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := s.unwinder
	u.close() // it is looked by hand
	s.unwinder = nil
	pid := uint64(os.Getpid())
	there := func() bool {
		var mm uint64
		return u.wanted.Lookup(pid, &mm) == nil
	}
	for _, mm := range []uint64{1, 2} {
		for _, early := range []bool{false, true} {
			if err := u.wanted.Put(pid, mm); err != nil {
				t.Fatal(err)
			}
			if due := u.look(); due.IsZero() == early || there() != early {
				t.Errorf("of %d, looked at a moment ago %v: due at %v, still wanted %v", mm, early, due, there())
			}
		}
		for due := u.look(); !due.IsZero(); due = u.look() {
			time.Sleep(time.Until(due))
		}
		if there() {
			t.Errorf("of %d: it is still wanted when it was looked at again", mm)
		}
	}
}
