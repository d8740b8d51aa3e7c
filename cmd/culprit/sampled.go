package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
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

// subjects are the subjects of a remote.Sampling.
//
// table: never changed
var subjects = map[string]sampler.ProfileOf{
	"": sampler.OnCPU, "cpu": sampler.OnCPU, "off-cpu": sampler.OffCPU,
	"run-queue": sampler.RunQueue, "locks": sampler.Locks,
}

// sampleStacks samples stacks. An unknown CPU or control group is a measure.Diagnostic.
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
	before := processTime() + measure.Span(files.Took())
	p := sampler.Profile{
		Of: subjects[q.Of], Hz: q.Hz, CPUs: q.CPUs, Kernel: q.Kernel, User: q.User, Inline: true,
		Times: q.Times && subjects[q.Of] == sampler.OnCPU, For: q.For, Files: files,
		Threads: sampler.ThreadFilter{
			PIDs: q.PIDs, Children: true, TIDs: q.TIDs, Processes: q.Processes, Cgroups: q.Cgroups,
		},
	}
	out := &remote.Sampled{Began: measure.Time(time.Now().UnixNano()), CPUs: cpus}
	result, err := p.Run(ctx)
	if errors.Is(err, fs.ErrNotExist) && len(q.Cgroups) > 0 {
		err = &measure.Diagnostic{Code: "unknown", Message: err.Error()}
	}
	// The kernel's types, tens of megabytes, are garbage after compiling.
	time.AfterFunc(time.Second, debug.FreeOSMemory)
	if err != nil {
		return nil, err
	}
	out.Samples = keptSamples(result.Stacks)
	out.Took, out.Notes, out.Loss = result.Took, result.Notes, result.Loss
	out.Away, out.Untimed = result.Away, result.Untimed
	out.CPU = processTime() + measure.Span(files.Took()) - before
	return out, nil
}

// keptSamples copies the samples of an iteration, whose frames are valid only until it continues.
func keptSamples(stacks iter.Seq[sampler.Sampled]) (kept []remote.Sample) {
	for s := range stacks {
		one := remote.Sample{
			Process: s.Process, User: slices.Clone(s.User), Kernel: slices.Clone(s.Kernel),
			Count: s.Count, State: s.State, Amount: s.Amount,
		}
		for _, t := range s.Times {
			one.Times = append(one.Times, remote.SampleTime(t))
		}
		kept = append(kept, one)
	}
	return kept
}

// profileOfSamples converts the result of a sampling to a profile with its notes.
func profileOfSamples(q web.Sampling, result *remote.Sampled) *web.Sampled {
	truncated, idle := int64(0), int64(0)
	t := profile.FromSamples(func(yield func(profile.Sampled) bool) {
		for _, s := range result.Samples {
			if s.State == idleState {
				idle += s.Amount
				continue
			}
			if len(s.Kernel) >= trace.MaxFrames || len(s.User) >= trace.MaxFrames {
				truncated += s.Count
			}
			if !yield(
				profile.Sampled{
					Process: s.Process,
					User:    s.User,
					Kernel:  s.Kernel,
					State:   s.State,
					Count:   s.Count,
					Amount:  float64(s.Amount),
					Times:   sampleTimes(s.Times),
				},
			) {
				return
			}
		}
	}, profile.SampleTimes{
		Usual: float64(measure.Second) / float64(max(1, q.Hz)), Left: result.Untimed,
	})
	t.Taken = profile.Taken{At: result.Began, Over: result.Took}
	t.Notes = result.Notes
	if truncated > 0 {
		t.Notes = append(
			t.Notes,
			fmt.Sprintf(
				"the stacks of %d samples are cut at %d frames", truncated, trace.MaxFrames,
			),
		)
	}
	if q.OnCPU() {
		t.Seconds = result.Took.Seconds() * float64(result.CPUs)
		t.Taken.Each = measure.Second / measure.Span(max(1, q.Hz))
	} else {
		t.Unit = "ns"
		t.Notes = append(t.Notes, noteWaits(result, idle)...)
	}
	selected := len(q.PIDs)+len(q.TIDs)+len(q.Processes)+len(q.Cgroups) > 0
	if expected := float64(q.Hz) * t.Seconds; !q.Kernel && !q.User && !selected &&
		t.Sum() < 0.9*expected && expected > 20 {
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

// sampleTimes converts times of samples.
func sampleTimes(all []remote.SampleTime) []profile.SampleTime {
	out := make([]profile.SampleTime, len(all))
	for i, t := range all {
		out[i] = profile.SampleTime{At: float64(t.At), TID: t.TID}
	}
	return out
}

// idleState is the State of waits of idle kernel threads.
const idleState = "idle"

// noteWaits returns the notes of a sampling of waits. idle is the time of idle kernel threads, in
// ns, which is left out.
func noteWaits(result *remote.Sampled, idle int64) []string {
	notes := []string{"a wait is counted when it ends: " +
		"one that began before the profile, or ends after it, is in no stack"}
	if idle > 0 {
		notes = append(notes, fmt.Sprintf(
			"%.3f s of idle kernel threads are left out", time.Duration(idle).Seconds(),
		))
	}
	if result.Away > 0 {
		notes = append(notes, fmt.Sprintf(
			"%d threads left a CPU and did not return: that time is in no stack, "+
				"nor is that of threads that never ran", result.Away,
		))
	}
	return notes
}

// processTime returns the CPU time of this process so far; 0: not known. getrusage(2).
func processTime() measure.Span {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return measure.Span(u.Utime.Nano() + u.Stime.Nano())
}
