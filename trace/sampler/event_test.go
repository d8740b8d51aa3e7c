package sampler

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/measure"
	"culprit/trace/probe"
	"culprit/trace/tracetest"
)

// faults touches 700 pages in one function and 300 in another one, ten times, calls malloc as
// often, and reads 20 times.
const faults = `
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#define PAGES(n) char *p = mmap(0, n * 4096L, 3, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0); \
	for (long i = 0; i < n; i++) p[i * 4096] = 1; munmap(p, n * 4096L);
__attribute__((noinline)) int seventy(void) { PAGES(700) return 7; }
__attribute__((noinline)) int thirty(void) { PAGES(300) return 3; }
void *volatile kept;
__attribute__((noinline)) int allocates(void) {
	for (int i = 0; i < 50; i++) { kept = malloc(10); free(kept); }
	return 1;
}
int main(void) {
	char b[8];
	int fd = open("/dev/zero", O_RDONLY), n = 0;
	for (int i = 0; i < 10; i++) n += seventy() + thirty() + allocates();
	for (int i = 0; i < 20; i++) n += read(fd, b, 8);
	return n == 0;
}
`

// Amounts of events are as many as the program causes, whatever the number per sample.
func TestEvents(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	path := tracetest.CompileC(t, faults)
	for _, tt := range []struct {
		name, event string
		every       uint64
		user        bool
		frame       string
		want, slack int64 // slack: what N events per sample leave over, on each CPU
	}{
		{"each", "page-faults", 1, true, "seventy", 7000, 0},
		{"other function", "page-faults", 0, true, "thirty", 3000, 0},
		{"one in ten", "page-faults", 10, true, "seventy", 7000, 100},
		{"minor", "minor-faults", 0, true, "seventy", 7000, 0},
		{"function", "pid$target:libc.so.6:malloc:entry", 1, true, "allocates", 500, 0},
		{"function, one in seven", "pid$target:libc.so.6:malloc:entry", 7, true, "allocates", 500, 60},
		{"system call", "syscall::read:entry", 1, false, "read", 20, 0},
		{"tracepoint", "syscalls:sys_enter_read", 1, false, "read", 20, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			p := Profile{Of: OnEvent, Event: &Event{Name: tt.event, Every: tt.every}, User: tt.user,
				Command: []string{path}}
			got, err := p.Run(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var n int64
			every := int64(max(1, tt.every))
			for s := range got.Stacks {
				if s.Amount != s.Count*every {
					t.Fatalf("%d samples are %d events", s.Count, s.Amount)
				}
				for _, f := range s.User {
					if strings.HasSuffix(strings.Split(f, "+0x")[0], "`"+tt.frame) {
						n += s.Amount
						break
					}
				}
			}
			if n < tt.want-tt.slack || n > tt.want+tt.slack {
				t.Errorf("%d events, want %d; lost %v, notes %q", n, tt.want, got.Loss, got.Notes)
			}
			if got.Unit != tt.event || got.Every != uint64(every) {
				t.Errorf("unit %s, one in %d", got.Unit, got.Every)
			}
		})
	}
}

// Libraries of a command that ends before its maps can be read have names.
func TestShortCommandHasNames(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	path := tracetest.CompileC(t, faults)
	p := Profile{Of: OnEvent, Event: &Event{Name: "page-faults"}, User: true, Command: []string{path}}
	got, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	named, all := int64(0), int64(0)
	for s := range got.Stacks {
		frames := strings.Join(s.User, "\n")
		if strings.Contains(frames, "`seventy") {
			all += s.Count
			if strings.Contains(frames, "`__libc_start") {
				named += s.Count
			}
		}
	}
	// The first samples may be followed before the tables of the library are loaded.
	if all != 7000 || named < all/2 {
		t.Errorf("%d of %d samples have the function of the C library below main", named, all)
	}
}

// Names that are no events have errors that say what to write.
func TestEventNames(t *testing.T) {
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	for _, tt := range []struct{ name, says string }{
		{"page-fault", "did you mean page-faults?"},
		{"page-faults:u", "--event page-faults with --user"},
		{"cpu-clock", "--hz"},
		{"profile-97", "there is no event"},
		{":::profile-97", "no probe"},
		{"profile:::profile-97", "--hz"},
		{"pid$target:a.out:main:entry", "--pid PID"},
		{"nothing", "sched:sched_switch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := (&Event{Name: tt.name}).resolve(env, nil)
			if tt.says == "no probe" {
				if len(e.probes) != 1 || err != nil {
					t.Errorf("%v %v", e.probes, err)
				}
				return
			}
			var d *measure.Diagnostic
			if !errors.As(err, &d) || !strings.Contains(d.Message+"; "+d.Hint, tt.says) {
				t.Errorf("%v, want one that says %q", err, tt.says)
			}
		})
	}
}

// The text of the program that samples one in N events.
func TestEventText(t *testing.T) {
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	for _, tt := range []struct {
		name string
		p    Profile
		want string
	}{
		{"perf", Profile{Event: &Event{Name: "faults", Every: 9}, User: true},
			"software:::page-faults-9 /arg0 == 0/ { @[execname, pid, ustack(127)] = count(); }"},
		{"kernel's own", Profile{Event: &Event{Name: "cs"}, Kernel: true},
			"software:::context-switches-1 { @[execname, pid, stack(127)] = count(); }"},
		{"cache", Profile{Event: &Event{Name: "LLC-load-misses"}, Kernel: true},
			"hardware:::LLC-load-misses-1000000 /arg0 != 0/ { @[execname, pid, stack(127)] = count(); }"},
		{"tracepoint", Profile{Event: &Event{Name: "sched:sched_switch"}, Kernel: true},
			"tracepoint:sched::sched_switch { @[execname, pid, stack(127)] = count(); }"},
		{"counted", Profile{Event: &Event{Name: "syscall::read:entry", Every: 5}, User: true, CPUs: []int{1}},
			"uint64_t seen[uint64_t];\nsyscall::read:entry /(cpu == 1)/ { seen[cpu]++; }\n" +
				"syscall::read:entry /(cpu == 1) && seen[cpu] % 5 == 0/ " +
				"{ @[execname, pid, ustack(127)] = count(); }"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.p.Of = OnEvent
			p, err := tt.p.withEvent(env)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := p.text(env); got != tt.want || err != nil {
				t.Errorf("got\n%s\nwant\n%s\n%v", got, tt.want, err)
			}
		})
	}
}

// A machine without hardware counters gets the reason and what works; one with them gets samples.
func TestHardwareEvent(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	have := false
	for _, pattern := range []string{"cpu", "cpu_core", "armv8*"} {
		found, err := filepath.Glob("/sys/bus/event_source/devices/" + pattern)
		have = have || err == nil && len(found) > 0
	}
	p := Profile{Of: OnEvent, Event: &Event{Name: "cycles"},
		Command: []string{"sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"}}
	got, err := p.Run(t.Context())
	if err != nil {
		if have || !errors.Is(err, measure.ErrUnsupported) ||
			!strings.Contains(err.Error(), "no hardware counters") ||
			!strings.Contains(err.Error(), "page-faults") {
			t.Errorf("counters %v: %v", have, err)
		}
		return
	}
	if got.Unit != "cycles" || got.Every != 1_000_000 {
		t.Errorf("one in %d %s", got.Every, got.Unit)
	}
}

// An ordinary user gets an error that names the rights.
func TestEventWithoutRights(t *testing.T) {
	if os.Getenv("CULPRIT_EVENT_UNPRIVILEGED") != "" {
		p := Profile{Of: OnEvent, Event: &Event{Name: "page-faults"}}
		_, err := p.Run(t.Context())
		if !errors.Is(err, measure.ErrDenied) || !strings.Contains(err.Error(), "CAP_PERFMON") ||
			!strings.Contains(err.Error(), "perf_event_paranoid") {
			t.Errorf("%v", err)
		}
		return
	}
	tracetest.Needs(t, feature.RawTracepoints)
	if os.Getuid() != 0 {
		t.Skip("needs: root")
	}
	c := exec.Command("/proc/self/fd/3", "-test.run=^TestEventWithoutRights$")
	const nobody = 65534
	c.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	c.ExtraFiles = []*os.File{self}
	c.Dir = "/"
	c.Env = append(os.Environ(), "CULPRIT_EVENT_UNPRIVILEGED=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
