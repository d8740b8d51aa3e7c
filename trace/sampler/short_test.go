package sampler

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/measure"
	"culprit/trace/tracetest"
)

// shortWork is a C program that starts one process after the other, each with some work.
const shortWork = `
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
volatile unsigned long sink;
__attribute__((noinline)) void midwork(double s) {
	unsigned long x = 1;
	for (clock_t e = clock() + (clock_t)(s * CLOCKS_PER_SEC); clock() < e;)
		for (int i = 0; i < 10000; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
	sink = x;
}
int main(int argc, char **argv) {
	if (argc > 2) {
		midwork(atof(argv[1]));
		return 0;
	}
	for (time_t t = time(0); time(0) < t + 60;) {
		if (fork() == 0) {
			execl(argv[0], "work", argv[1], "child", NULL);
			_exit(1);
		}
		wait(0);
	}
	return 0;
}`

// Functions of processes that ended before the profile was read have names, and callers by the
// tables of their files.
func TestProfileOfShortProcesses(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	if tracetest.TablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	path := tracetest.CompileC(t, shortWork)
	for _, tt := range []struct {
		seconds string
		named   float64 // the least share
	}{{"0.02", 0.97}, {"0.1", 0.97}} {
		c := exec.Command(path, tt.seconds)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			c.Process.Kill() //nolint:errcheck // it was killed before
			c.Wait()         //nolint:errcheck // it was killed
		})
		p := Profile{
			Hz:      299,
			User:    true,
			Threads: ThreadFilter{Processes: []string{"work"}},
			For:     measure.Span(3 * time.Second),
		}
		got, err := p.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var named, own, walked, all int64
		for s := range got.Stacks {
			if len(s.User) == 0 || s.PID == c.Process.Pid {
				continue
			}
			all += s.Count
			names := strings.Join(s.User, " ")
			if !strings.Contains(names, "[unknown]") {
				named += s.Count
			}
			if strings.Contains(names, "`midwork") {
				own += s.Count
			}
			if tracetest.HasChain(s.User, "midwork", "main", "__libc_start") {
				walked += s.Count
			}
		}
		c.Process.Kill() //nolint:errcheck // it may have ended
		t.Logf("%s s each: of %d samples %d have names, %d midwork, %d of them its callers",
			tt.seconds, all, named, own, walked)
		// the first ones come before the tables
		if walked < own/2 {
			t.Errorf("processes of %s s: %d of %d stacks have callers", tt.seconds, walked, own)
		}
		// the rest is the loader and the C library
		if own < all/2 {
			t.Errorf("processes of %s s: %d of %d samples have midwork", tt.seconds, own, all)
		}
		if all < 50 || float64(named) < tt.named*float64(all) {
			t.Errorf(
				"processes of %s s: %d of %d samples have names; the notes are %q", tt.seconds,
				named, all, got.Notes,
			)
		}
	}
}
