package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"culprit/kernel"
	"culprit/measure"
	"culprit/trace"
	"culprit/view/term"
)

// profiled samples stacks.
func profiled(ctx context.Context, q term.Profiling) (*term.Profiled, error) {
	runtime.GOMAXPROCS(min(2, runtime.NumCPU())) // one may wait for the kernel while the other reads
	online, err := kernel.Root{}.OnlineCPUs()
	if err != nil {
		return nil, err
	}
	for _, cpu := range q.CPUs {
		if !slices.Contains(online, int32(cpu)) {
			return nil, fmt.Errorf("sample CPU %d: it is not online; these are: %s: %w", cpu, strings.Trim(fmt.Sprint(online), "[]"), measure.ErrUnsupported)
		}
	}
	ctx, stop := context.WithTimeout(ctx, q.For)
	defer stop()
	p := trace.Profile{Hz: q.Hz, CPUs: q.CPUs, PIDs: q.PIDs, Kernel: q.Kernel, User: q.User, ByCPU: q.ByCPU}
	got, err := p.Run(ctx)
	if err != nil {
		return nil, err
	}
	out := &term.Profiled{Took: got.Took, CPUs: len(q.CPUs), Frames: trace.ProfileFrames, Loss: got.Loss, Notes: got.Notes}
	if out.CPUs == 0 {
		out.CPUs = len(online)
	}
	for _, s := range got.Stacks {
		out.Stacks = append(out.Stacks, term.ProfiledStack(s))
	}
	return out, nil
}
