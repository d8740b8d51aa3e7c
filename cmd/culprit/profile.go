package main

import (
	"context"
	"runtime"
	"slices"
	"time"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/profile"
	"culprit/trace"
	"culprit/trace/sampler"
	"culprit/ui"
	"culprit/view/term"
)

// runProfile samples stacks until q.For has passed or ctx ends. An offline CPU is an error.
func runProfile(ctx context.Context, q term.Profiling) (*term.Profiled, error) {
	// One thread may wait for the kernel while another one reads.
	runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	online, err := proc.OnlineCPUs(kernel.Root{})
	if err != nil {
		return nil, err
	}
	if err := areOnline(q.CPUs, online); err != nil {
		return nil, err
	}
	limitHeap()
	files, end := toolFiles()
	defer end()
	p := sampler.Profile{
		Files: files,
		Of:    profileOf(q.Of),
		Hz:    q.Hz,
		CPUs:  q.CPUs,
		Threads: sampler.ThreadFilter{
			PIDs:      q.PIDs,
			Children:  true,
			TIDs:      q.TIDs,
			Processes: q.Processes,
			Cgroups:   q.Cgroups,
		},
		Kernel:   q.Kernel,
		User:     q.User,
		ByCPU:    q.ByCPU,
		ByThread: q.ByThread,
		ByLeader: slices.Contains(q.By, profile.ByProcess),
		ByCgroup: slices.Contains(q.By, profile.ByContainer),
		Offsets:  q.ByCPU,
		Wakers:   q.Wakers,
		Least:    q.Least,
		Unwind:   q.Unwind,
		Inline:   q.Inline,
		For:      measure.Span(q.For),
		Command:  q.Command,
	}
	if q.Event != "" {
		p.Event = &sampler.Event{Name: q.Event, Every: q.Every}
	}
	if q.Progress != nil {
		p.Progress = func(now sampler.Progress) { q.Progress(term.ProfileProgress(now)) }
	}
	began := measure.Time(time.Now().UnixNano())
	result, err := p.Run(ctx)
	if err != nil {
		return nil, err
	}
	out := &term.Profiled{
		Began:  began,
		Took:   result.Took,
		Unit:   result.Unit,
		Every:  result.Every,
		CPUs:   len(q.CPUs),
		Frames: trace.MaxFrames,
		Away:   result.Away,
		Loss:   result.Loss,
		Notes:  result.Notes,
	}
	if out.CPUs == 0 {
		out.CPUs = len(online)
	}
	out.Stacks = func(yield func(term.ProfiledStack) bool) {
		for s := range result.Stacks {
			one := term.ProfiledStack{
				Process: s.Process,
				Leader:  s.Leader,
				Cgroup:  s.Cgroup,
				PID:     s.PID,
				TID:     s.TID,
				CPU:     s.CPU,
				State:   s.State,
				Kernel:  s.Kernel,
				User:    s.User,
				Count:   s.Count,
				Amount:  s.Amount,
			}
			if s.Waker != nil {
				one.Waker = &term.ProfiledWaker{
					Process: s.Waker.Process,
					PID:     s.Waker.PID,
					Kernel:  s.Waker.Kernel,
					User:    s.Waker.User,
				}
			}
			if !yield(one) {
				return
			}
		}
	}
	return out, nil
}

// profileOf converts the command line's kind of profile to the tracer's.
func profileOf(of term.ProfileOf) sampler.ProfileOf {
	switch of {
	case term.OnEvent:
		return sampler.OnEvent
	case term.OffCPU:
		return sampler.OffCPU
	case term.RunQueue:
		return sampler.RunQueue
	case term.Locks:
		return sampler.Locks
	}
	return sampler.OnCPU
}

// profilePage returns the page of HTML files of profiles; nil: this program was built without it.
func profilePage() *profile.Page {
	script, style := ui.File()
	if script == "" || style == "" {
		return nil
	}
	return &profile.Page{Script: script, Style: style}
}
