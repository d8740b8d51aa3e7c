package sampler

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/trace/tracetest"
)

// Samples of a program show the shares of its two functions.
func TestProfileShares(t *testing.T) {
	spinShares(t)
	p := Profile{Hz: 997, Threads: ThreadFilter{PIDs: []int{os.Getpid()}}, User: true}
	var one, other, all int64
	for deadline := time.Now().Add(2 * time.Minute); one+other < 200; {
		if time.Now().After(deadline) {
			t.Fatalf("%d samples of the functions, %d of all", one+other, all)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		got, err := p.Run(ctx)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		for s := range got.Stacks {
			if s.PID != os.Getpid() || len(s.Kernel) > 0 {
				t.Fatalf("a sample that was not asked for: %+v", s)
			}
			all += s.Count
			switch {
			case len(s.User) == 0:
			case strings.Contains(s.User[0], "spinSeventy"):
				one += s.Count
			case strings.Contains(s.User[0], "spinThirty"):
				other += s.Count
			}
		}
	}
	checkShares(t, float64(one), float64(other))
}

func TestProfileText(t *testing.T) {
	for want, p := range map[string]Profile{
		"profile-99 { @[execname, pid, stack(127), ustack(127)] = count(); }":                                              {Hz: 99},
		"profile-997 /(cpu == 2 || cpu == 3) && (pid == 7) && arg0 != 0/ { @[execname, pid, cpu, stack(127)] = count(); }": {Hz: 997, CPUs: []int{2, 3}, Threads: ThreadFilter{PIDs: []int{7}}, Kernel: true, ByCPU: true},
		"profile-99 { @[execname, pid, stack(127), ustack(127), timestamp, tid] = count(); }":                              {Hz: 99, Times: true},
		"profile-9 /arg0 == 0/ { @[execname, pid, ustack(127)] = count(); }":                                               {Hz: 9, User: true},
	} {
		if got, err := p.text(nil); got != want || err != nil {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Nothing is counted after the end, even when reading the counts takes longer than the profile.
func TestProfileEnds(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	cpus, err := proc.OnlineCPUs(kernel.Root{})
	if err != nil {
		t.Fatal(err)
	}
	const hz, seconds = 499, 1.5
	p := Profile{
		Hz:    hz,
		For:   measure.Span(seconds * float64(measure.Second)),
		hooks: profileHooks{beforeRead: func() { time.Sleep(3 * time.Second) }},
	}
	got, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for s := range got.Stacks {
		n += s.Count
	}
	if most := hz * got.Took.Seconds() * float64(len(cpus)); float64(n) > 1.1*most ||
		got.Took.Seconds() > 2*seconds {
		t.Errorf("%d samples in %.1f s, of %.0f that were due", n, got.Took.Seconds(), most)
	}
}
