package command

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"
)

// manyStacks is a program of two threads, each of which makes a system call from every path of
// choices between two functions, in rounds. The argument of the call, less 1,000,000, has a bit per
// choice, so that each stack can be checked. It pauses now and then: culprit must keep up on a busy
// machine.
const manyStacks = `
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>
static int depth, pause_us; static volatile long sink;
__attribute__((noinline)) static void leaf(long p) { syscall(SYS_close, 1000000 + p); sink++; }
static void one(int left, long p); static void zero(int left, long p);
static inline __attribute__((always_inline)) void next(int left, long p) { if (left == 0) leaf(p); else if (p >> (left - 1) & 1) one(left - 1, p); else zero(left - 1, p); sink++; }
__attribute__((noinline)) static void one(int left, long p) { next(left, p); sink++; }
__attribute__((noinline)) static void zero(int left, long p) { next(left, p); sink--; }
static void *all(void *down) {
	for (long p = 0; p < 1L << depth; p++) { next(depth, down ? (1L << depth) - 1 - p : p); if (p % 256 == 0) usleep(pause_us); }
	return 0; }
int main(int argc, char **argv) {
	depth = atoi(argv[1]); pause_us = atoi(argv[3]);
	for (int n = atoi(argv[2]); n > 0; n--) {
		pthread_t a, b; pthread_create(&a, 0, all, 0); pthread_create(&b, 0, all, (void *)1);
		pthread_join(a, 0); pthread_join(b, 0); }
	return 0; }`

// compileManyStacks compiles manyStacks and returns its path.
func compileManyStacks(t *testing.T) string {
	t.Helper()
	tracetest.Needs(t, feature.RawTracepoints)
	return tracetest.CompileC(
		t, manyStacks, "-fno-optimize-sibling-calls", "-fno-ipa-icf", "-pthread",
	)
}

// A pathStack is a stack that was printed: the argument of its call, and the choices on its path,
// outermost first.
type pathStack struct {
	path    int
	choices string
	n       int
	empty   bool
}

// pathStacks reads lines with "path P", the frames of a stack, innermost first, and a number.
func pathStacks(t *testing.T, out string) (all []pathStack) {
	t.Helper()
	frame := regexp.MustCompile(`\b(one|zero)\+`)
	var now *pathStack
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if p, ok := strings.CutPrefix(line, "path "); ok {
			n, err := strconv.Atoi(p)
			if err != nil {
				t.Fatal(line)
			}
			all = append(all, pathStack{path: n - 1_000_000, empty: true})
			now = &all[len(all)-1]
			continue
		}
		if now == nil || line == "" {
			continue
		}
		if n, err := strconv.Atoi(line); err == nil {
			now.n, now = n, nil
			continue
		}
		now.empty = false
		if f := frame.FindStringSubmatch(line); f != nil {
			now.choices = map[string]string{"one": "1", "zero": "0"}[f[1]] + now.choices
		}
	}
	return all
}

// dropped returns how many events had no stack according to the messages.
func dropped(errs string) (n int) {
	for _, m := range regexp.MustCompile(`(\d+) stack drops?`).FindAllStringSubmatch(errs, -1) {
		one, _ := strconv.Atoi(m[1])
		n += one
	}
	return n
}

// TestManyStacks: twice as many stacks as a map of the kernel holds are all counted, each with its
// own frames, in an aggregation and in records.
func TestManyStacks(t *testing.T) {
	path := compileManyStacks(t)
	const depth, rounds = 15, 2
	const at = `syscall::close:entry /pid == $target && arg0 >= 1000000/`
	for _, tt := range []struct {
		name, text string
		rows       int // without lost stacks
	}{
		{"aggregation", at + ` { @[arg0, ustack(40)] = count(); } END { printa("path %d%k\n%@d\n", @); }`,
			1 << depth},
		{"record", at + ` { printf("path %d\n", arg0); ustack(40); printf("1\n"); }`,
			2 * rounds << depth},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := program("%s", tt.text)
			r.Options = append(r.Options, "bufsize=64m")
			r.Commands = []string{fmt.Sprintf("%s %d %d 5000", path, depth, rounds)}
			_, out, errs := traced(t, r, nil)
			counts, rows, events, lost := map[int]int{}, 0, 0, 0
			for _, s := range pathStacks(t, out) {
				counts[s.path] += s.n
				events += s.n
				if s.empty {
					lost += s.n
					continue
				}
				rows++
				if want := fmt.Sprintf("%0*b", depth, s.path); s.choices != want {
					t.Fatalf("path %s has the stack %s", want, s.choices)
				}
			}
			if want := dropped(errs); lost != want {
				t.Errorf("%d events without a stack, %d reported", lost, want)
			}
			if lost == 0 && rows != tt.rows || rows > tt.rows || rows < tt.rows/2 {
				t.Errorf("%d rows with a stack, %d events without; want %d", rows, lost, tt.rows)
			}
			if want := 2 * rounds << depth; events != want || len(counts) != 1<<depth {
				t.Errorf("%d events of %d paths, want %d", events, len(counts), want)
			}
			for p, n := range counts {
				if n != 2*rounds {
					t.Fatalf("path %d was counted %d times", p, n)
				}
			}
		})
	}
}

// TestOtherStacks: of more stacks than are kept, the rarest are in one row, and no event is lost.
func TestOtherStacks(t *testing.T) {
	path := compileManyStacks(t)
	const depth = 17
	r := program("%s", `
		syscall::close:entry /pid == $target && arg0 >= 1000000/ { @[ustack(40)] = count(); @n = count(); }
		END { printa("path 1000000%k\n%@d\n", @); printa("all %@d\n", @n); }`)
	r.Commands = []string{fmt.Sprintf("%s %d 1 500", path, depth)}
	_, out, errs := traced(t, r, nil)
	events, empty := 0, 0
	for _, s := range pathStacks(t, out) {
		events += s.n
		if s.empty {
			empty += s.n
		}
	}
	all := regexp.MustCompile(`all (\d+)`).FindStringSubmatch(out)
	if all == nil || strconv.Itoa(events) != all[1] || events != 2<<depth {
		t.Errorf("%d events in rows, %q in all, want %d", events, all, 2<<depth)
	}
	if want := dropped(errs); empty != want {
		t.Errorf("%d events without a stack, %d reported", empty, want)
	}
	note := regexp.MustCompile(`: (\d+) rare ones with (\d+) events are counted together`).
		FindStringSubmatch(errs)
	other := regexp.MustCompile(`\(other stacks\)\s+(\d+)\n`).FindStringSubmatch(out)
	if note == nil || other == nil || note[2] != other[1] {
		t.Errorf("the row of other stacks is %q, the note %q in %q", other, note, errs)
	}
	if n := strings.Count(out, "(other stacks)"); n != 1 {
		t.Errorf("%d rows of other stacks", n)
	}
}
