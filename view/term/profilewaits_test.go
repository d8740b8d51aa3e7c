package term

import (
	"context"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

// waitedBy is a Program that has always the same waits.
func waitedBy(t *testing.T, asked *Profiling) (Program, func() (out, errs string)) {
	t.Helper()
	p, read := sampledBy(t, asked)
	p.Profile = func(_ context.Context, q Profiling) (*Profiled, error) {
		*asked = q
		return &Profiled{
			CPUs:   2,
			Frames: 127,
			Took:   10 * measure.Second,
			Away:   5,
			Loss:   []measure.Loss{{Reason: "buffer full", Events: 3}},
			Stacks: slices.Values([]ProfiledStack{
				{
					Process: "kworker/0:1",
					PID:     9,
					TID:     9,
					CPU:     -1,
					State:   "idle",
					Kernel:  []string{"vmlinux`worker_thread+0x98"},
					Count:   3,
					Amount:  900_000_000,
				},
				{
					Process: "prog",
					PID:     7,
					TID:     8,
					CPU:     -1,
					State:   "sleeping",
					Kernel:  []string{"vmlinux`schedule_timeout+0x2", "vmlinux`pipe_read+0x2f"},
					User:    []string{"prog`awaits+0xd", "prog`main+0x2"},
					Count:   10,
					Amount:  60_000_000,
					Waker: &ProfiledWaker{
						Process: "other",
						PID:     6,
						Kernel:  []string{"vmlinux`try_to_wake_up+0x1", "vmlinux`pipe_write+0x4"},
						User:    []string{"other`posts+0x3"},
					},
				},
				{
					Process: "prog",
					PID:     7,
					TID:     7,
					CPU:     -1,
					State:   "sleeping",
					Kernel:  []string{"vmlinux`do_nanosleep+0x2f"},
					Count:   1,
					Amount:  30_000_000,
					Waker: &ProfiledWaker{
						Process: "innocent",
						PID:     5,
						Kernel: []string{
							"vmlinux`hrtimer_wakeup+0x1",
							"vmlinux`asm_sysvec_apic_timer_interrupt+0x1a",
							"vmlinux`do_sys_poll+0x1",
						},
						User: []string{"innocent`main+0x3"},
					},
				},
				{
					Process: "prog",
					PID:     7,
					TID:     7,
					CPU:     -1,
					State:   "futex",
					User:    []string{"libc.so.6`__lll_lock_wait+0x1", "prog`wants+0xd"},
					Count:   4,
					Amount:  10_000_000,
				},
			}),
		}, nil
	}
	return p, read
}

func TestWaitsWritten(t *testing.T) {
	var q Profiling
	p, read := waitedBy(t, &q)
	args := []string{
		"profile", "--off-cpu", "--wakers", "--format", "folded", "--min", "20us",
		"--process", "prog,other", "--cgroup", "/a", "--thread", "7,8", "--tids",
	}
	if status := Run(t.Context(), p, args); status != 0 {
		t.Fatal(read())
	}
	out, errs := read()
	want := "prog-7/7;do_nanosleep;[sleeping];woken by [interrupt];asm_sysvec_apic_timer_interrupt;hrtimer_wakeup 30000000\n" +
		"prog-7/7;wants;__lll_lock_wait;[futex] 10000000\n" +
		"prog-7/8;main;awaits;pipe_read;schedule_timeout;[sleeping];woken by other;posts;pipe_write;try_to_wake_up 60000000\n"
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	for _, want := range []string{"0.900 s of idle kernel threads", "lost: buffer full (3)", "5 threads left a CPU"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is not said: %s", want, errs)
		}
	}
	if q.Of != OffCPU || !q.Wakers || q.Least != 20*measure.Microsecond || len(q.Processes) != 2 ||
		len(q.Cgroups) != 1 ||
		len(q.TIDs) != 2 ||
		!q.ByThread ||
		q.ByCPU {
		t.Errorf("asked %+v", q)
	}
}

func TestWaitsTable(t *testing.T) {
	var q Profiling
	p, read := waitedBy(t, &q)
	if status := Run(t.Context(), p, []string{"profile", "--locks", "--table", "--idle"}); status != 0 {
		t.Fatal(read())
	}
	out, _ := read()
	for _, want := range []string{
		"    Count indv cuml        nsec Lock or state          Caller\n",
		"        3  90%  90% 300,000,000 idle                   vmlinux`worker_thread+0x98\n",
		"       10   6%  96%   6,000,000 sleeping               vmlinux`pipe_read+0x2f\n",
		"        4   1% 100%   2,500,000 futex                  prog`wants+0xd\n",
		"       18 waits: 18 times waiting for locks, 1.000 s in total, in 10.0 s\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if q.Of != Locks {
		t.Errorf("asked %+v", q)
	}
}

func TestWaitsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--off-cpu", "--locks"},
		{"--off-cpu", "--hz", "99"},
		{"--min", "1ms"},
		{"--wakers"},
		{"--run-queue", "--wakers"},
		{"--off-cpu", "--min", "-1ms"},
		{"--off-cpu", "--min", "soon"},
		{"--off-cpu", "--min", "2h"},
		{"--off-cpu", "--min", "NaN"},
		{"--thread", "-1"},
		{"--process", ""},
		{"--cgroup", ""},
	} {
		var q Profiling
		p, read := waitedBy(t, &q)
		if status := Run(t.Context(), p, append([]string{"profile"}, args...)); status != exitUsage {
			t.Errorf("%v: status %d", args, status)
			t.Log(read())
		}
	}
}
