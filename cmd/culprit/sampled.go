package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/profile"
	"culprit/trace"
	"culprit/trace/sampler"
	"culprit/view/web"
)

// sampled samples this machine for somebody who looks at the server's page.
func sampled(ctx context.Context, q web.Sampling) (*web.Sampled, error) {
	online, err := proc.OnlineCPUs(kernel.Root{})
	if err != nil {
		return nil, err
	}
	for _, cpu := range q.CPUs {
		if !slices.Contains(online, int32(cpu)) {
			return nil, &measure.Diagnostic{
				Code:    "unknown",
				Message: fmt.Sprintf("CPU %d is not online", cpu),
			}
		}
	}
	cpus := len(q.CPUs)
	if cpus == 0 {
		cpus = len(online)
	}
	ctx, stop := context.WithTimeout(ctx, time.Duration(q.For))
	defer stop()
	before := processTime()
	p := sampler.Profile{Hz: q.Hz, CPUs: q.CPUs, Kernel: q.Kernel, User: q.User, Inline: true}
	began := measure.Time(time.Now().UnixNano())
	got, err := p.Run(ctx)
	// What the compiler read of the kernel's types is garbage now, tens of megabytes.
	time.AfterFunc(time.Second, debug.FreeOSMemory)
	if err != nil {
		return nil, err
	}
	cut := int64(0)
	t := profile.FromSamples(func(yield func(profile.Sampled) bool) {
		for s := range got.Stacks {
			if len(s.Kernel) >= trace.MaxFrames || len(s.User) >= trace.MaxFrames {
				cut += s.Count
			}
			if !yield(
				profile.Sampled{
					Process: s.Process,
					User:    s.User,
					Kernel:  s.Kernel,
					Count:   s.Count,
					Amount:  float64(s.Count),
				},
			) {
				return
			}
		}
	})
	t.Seconds = got.Took.Seconds() * float64(cpus)
	t.Taken = profile.Taken{
		At:   began,
		Over: got.Took,
		Each: measure.Second / measure.Span(max(1, q.Hz)),
	}
	t.Notes = got.Notes
	if cut > 0 {
		t.Notes = append(
			t.Notes,
			fmt.Sprintf("the stacks of %d samples are cut at %d frames", cut, trace.MaxFrames),
		)
	}
	if due := float64(q.Hz) * t.Seconds; !q.Kernel && !q.User && t.Sum() < 0.9*due && due > 20 {
		t.Notes = append(
			t.Notes,
			fmt.Sprintf("%.0f of %.0f expected samples: the kernel takes none while a CPU sleeps "+
				"without ticks, a virtual machine does not run, or sampling costs too much", t.Sum(), due),
		)
	}
	for _, l := range got.Loss {
		t.Notes = append(t.Notes, fmt.Sprintf("lost: %s (%d)", l.Reason, l.Events))
	}
	return &web.Sampled{Tree: t, CPU: processTime() - before}, nil
}

// processTime gives the CPU time that this process has taken; 0: not known.
func processTime() measure.Span {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return measure.Span(u.Utime.Nano() + u.Stime.Nano())
}
