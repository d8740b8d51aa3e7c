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
	"culprit/trace/sampler"
	"culprit/view/term"
)

// openLocks returns a machine whose statistics are the waits for locks. The caller calls the
// function that ends it. An offline CPU is an error.
func openLocks(ctx context.Context, q term.Locking) (term.Machine, func(), error) {
	// One thread may wait for the kernel while another one reads.
	runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	online, err := proc.OnlineCPUs(kernel.Root{})
	if err != nil {
		return nil, nil, err
	}
	if err := areOnline(q.CPUs, online); err != nil {
		return nil, nil, err
	}
	limitHeap()
	files, _ := toolFiles() // it ends with this process
	t := sampler.LockTable{
		Profile: sampler.Profile{
			Files: files,
			CPUs:  q.CPUs,
			Threads: sampler.ThreadFilter{
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
	// The kernel's types, tens of megabytes, are garbage after compiling.
	time.AfterFunc(100*time.Millisecond, debug.FreeOSMemory)
	ctx, cancel := context.WithCancel(ctx)
	m := &lockMachine{
		scriptMachine: scriptMachine{
			machine: machine{Catalogue: dataset.New(source)},
			source:  source,
			ctx:     ctx,
		},
	}
	return m, func() {
		cancel()
		m.end()
	}, nil
}

// areOnline returns an error if one of cpus is not online.
func areOnline(cpus []int, online []int32) error {
	for _, cpu := range cpus {
		if !slices.Contains(online, int32(cpu)) {
			return fmt.Errorf(
				"sample CPU %d: it is not online; online CPUs are %s: %w", cpu,
				strings.Trim(fmt.Sprint(online), "[]"), measure.ErrUnsupported,
			)
		}
	}
	return nil
}

// A lockMachine has the statistics of locks. It reports losses and notes once, since one program
// measures all statistics, and adds a note if the program is expensive.
type lockMachine struct {
	scriptMachine
	cost measure.Span // CPU time of the program up to the previous tick
}

// reportedLockCost is the share of one CPU above which a note reports the cost.
const reportedLockCost = 0.01

// Watch reports the answers of each tick. It starts the program.
func (l *lockMachine) Watch(
	ctx context.Context, queries []measure.Query, each func(*measure.Tick) error,
) error {
	return l.scriptMachine.Watch(ctx, queries, func(t *measure.Tick) error {
		for i, a := range t.Answers {
			if i > 0 {
				a.Loss, a.Notes = nil, nil
			}
		}
		cost := l.source.ExternalCost()
		if over := t.Over.Span(); over > 0 && len(t.Answers) > 0 {
			if share := float64(cost-l.cost) / float64(over); share > reportedLockCost {
				a := t.Answers[0]
				a.Notes = append(
					a.Notes,
					fmt.Sprintf(
						"measuring the waits took more than %s %% of one CPU; "+
							"--kernel, --user, --pid, --process and --min 20us make it cheaper",
						costBucket(share),
					),
				)
			}
		}
		l.cost = cost
		return each(t)
	})
}

// costBucket rounds a share of a CPU down to 1, 2, 5, 10, 20 or 50 percent, so that the note seldom
// changes.
func costBucket(share float64) string {
	bucket := 1
	for _, step := range []int{2, 5, 10, 20, 50} {
		if 100*share > float64(step) {
			bucket = step
		}
	}
	return strconv.Itoa(bucket)
}
