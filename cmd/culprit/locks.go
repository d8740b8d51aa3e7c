package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"culprit/dataset"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/trace"
	"culprit/trace/sampler"
	"culprit/view/term"
)

// openLocks measures the waits for locks.
func openLocks(ctx context.Context, q term.Locking) (term.Machine, func(), error) {
	runtime.GOMAXPROCS(
		min(2, runtime.NumCPU()),
	) // one may wait for the kernel while the other reads
	online, err := proc.OnlineCPUs(kernel.Root{})
	if err != nil {
		return nil, nil, err
	}
	if err := areOnline(q.CPUs, online); err != nil {
		return nil, nil, err
	}
	limitHeap()
	t := sampler.LockTable{
		Profile: sampler.Profile{
			CPUs: q.CPUs,
			Who: sampler.Who{
				PIDs:      q.PIDs,
				TIDs:      q.TIDs,
				Processes: q.Processes,
				Cgroups:   q.Cgroups,
			},
			Kernel: q.Kernel,
			User:   q.User,
			Least:  q.Least,
			Unwind: q.Unwind,
		},
		Processes: q.ByProcess,
		Stacks:    q.Stacks,
		Dists:     q.Dists,
	}
	source, err := t.Source()
	if err != nil {
		return nil, nil, err
	}
	// What the compiler read of the kernel's types is garbage now, tens of megabytes.
	time.AfterFunc(100*time.Millisecond, debug.FreeOSMemory)
	ctx, cancel := context.WithCancel(ctx)
	m := &lockMachine{
		scriptMachine: scriptMachine{machine: machine{Catalogue: dataset.New(source)}, source: source, ctx: ctx},
	}
	return m, func() {
		cancel()
		m.end()
	}, nil
}

// areOnline refuses CPUs that are not.
func areOnline(cpus []int, online []int32) error {
	for _, cpu := range cpus {
		if !slices.Contains(online, int32(cpu)) {
			return fmt.Errorf(
				"sample CPU %d: it is not online; these are: %s: %w", cpu,
				strings.Trim(fmt.Sprint(online), "[]"), measure.ErrUnsupported,
			)
		}
	}
	return nil
}

// lockMachine is the statistics of locks. What is told of all of them alike is told once, and what they
// cost is said where it is much.
type lockMachine struct {
	scriptMachine
	cost measure.Span // of its programs, up to the tick before
}

// lockLoss says what is lost of waits where that is lost of a script, whose options nobody can set
// here.
func lockLoss(reason string) string {
	switch reason {
	case trace.LostKeys:
		return "more rows than fit: their waits are missing, or their maximum or distribution is"
	case trace.LostVariables:
		return "more waiting threads than fit"
	case trace.LostStacks:
		return "more stacks than fit: the others are counted as one without frames"
	}
	return reason
}

// reportedLockCost is the share of one CPU from which on it is told what measuring takes.
const reportedLockCost = 0.01

func (l *lockMachine) Watch(
	ctx context.Context, queries []measure.Query, each func(*measure.Tick) error,
) error {
	return l.scriptMachine.Watch(ctx, queries, func(t *measure.Tick) error {
		for i, a := range t.Answers {
			if i > 0 { // one program measures them all
				a.Loss, a.Notes = nil, nil
			}
			for n := range a.Loss {
				a.Loss[n].Reason = lockLoss(a.Loss[n].Reason)
			}
		}
		cost := l.source.ExternalCost()
		if over := t.Over.Span(); over > 0 && len(t.Answers) > 0 {
			if share := float64(cost-l.cost) / float64(over); share > reportedLockCost {
				a := t.Answers[0]
				a.Notes = append(
					a.Notes,
					fmt.Sprintf(
						"measuring the waits took more than %s %% of one CPU; --kernel, --user, --pid, --process and --min 20us make it cheaper",
						costBucket(share),
					),
				)
			}
		}
		l.cost = cost
		return each(t)
	})
}

// costBucket tells a share in steps, in per cent.
func costBucket(share float64) string {
	bucket := 1
	for _, step := range []int{2, 5, 10, 20, 50} {
		if 100*share > float64(step) {
			bucket = step
		}
	}
	return strconv.Itoa(bucket)
}
