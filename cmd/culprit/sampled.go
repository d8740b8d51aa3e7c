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
	"culprit/remote"
	"culprit/symbol"
	"culprit/trace"
	"culprit/trace/sampler"
	"culprit/view/web"
)

// stackSampler returns a function that samples the stacks of this machine for a request of the
// page. files reads files of processes; nil: this process does.
func stackSampler(
	files *symbol.Files,
) func(context.Context, remote.Sampling) (*remote.Sampled, error) {
	return func(ctx context.Context, q remote.Sampling) (*remote.Sampled, error) {
		return sampleStacks(ctx, q, files)
	}
}

// sampleStacks samples stacks. An unknown CPU is a measure.Diagnostic.
func sampleStacks(
	ctx context.Context, q remote.Sampling, files *symbol.Files,
) (*remote.Sampled, error) {
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
	before := processTime() + measure.Span(files.Took())
	p := sampler.Profile{
		Hz: q.Hz, CPUs: q.CPUs, Kernel: q.Kernel, User: q.User, Inline: true, Files: files,
	}
	out := &remote.Sampled{Began: measure.Time(time.Now().UnixNano()), CPUs: cpus}
	result, err := p.Run(ctx)
	// The kernel's types, tens of megabytes, are garbage after compiling.
	time.AfterFunc(time.Second, debug.FreeOSMemory)
	if err != nil {
		return nil, err
	}
	for s := range result.Stacks {
		out.Samples = append(out.Samples, remote.Sample{
			Process: s.Process, User: s.User, Kernel: s.Kernel, Count: s.Count,
		})
	}
	out.Took, out.Notes, out.Loss = result.Took, result.Notes, result.Loss
	out.CPU = processTime() + measure.Span(files.Took()) - before
	return out, nil
}

// profileOfSamples converts the result of a sampling to a profile with its notes.
func profileOfSamples(q web.Sampling, result *remote.Sampled) *web.Sampled {
	truncated := int64(0)
	t := profile.FromSamples(func(yield func(profile.Sampled) bool) {
		for _, s := range result.Samples {
			if len(s.Kernel) >= trace.MaxFrames || len(s.User) >= trace.MaxFrames {
				truncated += s.Count
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
	t.Seconds = result.Took.Seconds() * float64(result.CPUs)
	t.Taken = profile.Taken{
		At:   result.Began,
		Over: result.Took,
		Each: measure.Second / measure.Span(max(1, q.Hz)),
	}
	t.Notes = result.Notes
	if truncated > 0 {
		t.Notes = append(
			t.Notes,
			fmt.Sprintf(
				"the stacks of %d samples are cut at %d frames", truncated, trace.MaxFrames,
			),
		)
	}
	if expected := float64(q.Hz) * t.Seconds; !q.Kernel && !q.User && t.Sum() < 0.9*expected &&
		expected > 20 {
		t.Notes = append(
			t.Notes,
			fmt.Sprintf(
				"%.0f of %.0f expected samples: the kernel takes none while a CPU sleeps "+
					"without ticks, a virtual machine does not run, or sampling costs too much",
				t.Sum(), expected,
			),
		)
	}
	for _, l := range result.Loss {
		t.Notes = append(t.Notes, fmt.Sprintf("lost: %s (%d)", l.Reason, l.Events))
	}
	return &web.Sampled{Tree: t, CPU: result.CPU}
}

// processTime returns the CPU time of this process so far; 0: not known. getrusage(2).
func processTime() measure.Span {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return measure.Span(u.Utime.Nano() + u.Stime.Nano())
}
