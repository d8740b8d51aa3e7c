package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/measure"
)

// How often a session reads records and its own state, unless its options set other intervals.
const (
	drainEach  = 100 * time.Millisecond
	statusEach = time.Second
	// cleanEach is drainEach of scripts with speculation(), whose numbers are free again only when
	// the record of commit() or discard() is read: dtrace's default of cleanrate, 101 Hz.
	cleanEach = time.Second / 101
)

// drainInterval returns how often a session reads records. An interval of more than a second would
// only lose more of them.
func drainInterval(options map[string]string, speculates bool) time.Duration {
	each := cmp.Or(time.Duration(check.OptionSpan(options["switchrate"])), drainEach)
	if speculates {
		clean := cmp.Or(time.Duration(check.OptionSpan(options["cleanrate"])), cleanEach)
		each = min(each, clean)
	}
	return min(max(each, time.Millisecond), time.Second)
}

// Run runs the script until it exits, the context ends, or over is closed, and calls the listener.
// It returns the status of exit(). It fails when a program cannot be run or the kernel's maps
// cannot be read; the error is an *ErrBudget when the script was over its budget.
func (s *Session) Run(
	ctx context.Context, l Listener, over <-chan struct{},
) (status int, failed error) {
	d := &delivery{
		session: s,
		to:      l,
		alone: over == nil && !s.attached.probes.HasLinks() &&
			!slices.ContainsFunc(s.programs.runs, func(r run) bool { return r.every > 0 }),
	}
	defer func() { status = d.status }()
	if s.HasOption("destructive") {
		// Before its first command, package os starts a process to try what the kernel has (pidfd).
		// It does so here, before the script can trace it.
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Release() //nolint:errcheck // it holds nothing
		}
	}
	if err := s.special("BEGIN"); err != nil {
		return 0, err
	}
	if !s.programs.ended() {
		if err := s.programs.setState(gen.Active); err != nil {
			return 0, fmt.Errorf("enable the clauses: %w", err)
		}
		s.aggs.watching = s.attached.probes.HasLinks()
		if s.OnStart != nil {
			s.OnStart()
		}
		var budget *ErrBudget
		if err := s.wait(ctx, d, over); errors.As(err, &budget) { // its data is still reported
			defer func() { failed = errors.Join(failed, budget) }()
		} else if err != nil {
			return 0, err
		}
	}
	return 0, s.stop(d)
}

// stop ends the clauses, delivers what they recorded, and fires END.
func (s *Session) stop(d *delivery) error {
	if err := s.reportMissed(d); err != nil {
		return err
	}
	// This comes first, because to detach the programs takes a while.
	if err := s.programs.setState(gen.Draining); err != nil {
		return fmt.Errorf("stop the clauses: %w", err)
	}
	s.aggs.startWaitIdle()
	s.detach()
	if s.records.ring != nil {
		s.attached.detaching.Wait() // a program that still runs may write records
	}
	// All earlier records are delivered before those of END.
	if err := s.drain(d, true); err != nil {
		return err
	}
	if err := s.special("END"); err != nil {
		return err
	}
	if err := s.drain(d, true); err != nil {
		return err
	}
	if err := s.reportDrops(d); err != nil {
		return err
	}
	return d.to.End()
}

// wait runs the ticks and drains until the end.
func (s *Session) wait(ctx context.Context, d *delivery, over <-chan struct{}) error {
	now := time.Now()
	each := drainInterval(
		s.script.Program.Options.All, s.programs.maps.Maps[gen.MapSpec] != nil,
	)
	drain, status := now.Add(each), now.Add(statusEach)
	s.programs.startTicks(now)
	drains := s.drainsStacks()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !s.programs.ended() {
		next := drain
		if r := s.programs.nextTick(); r != nil && r.next.Before(next) {
			next = r.next
		}
		if drains && s.stacks.fill.next.Before(next) {
			next = s.stacks.fill.next
		}
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return s.endTicks(d)
		case <-over:
			return s.endTicks(d)
		case f := <-s.calls:
			f()
		case <-timer.C:
		}
		now = time.Now()
		switch fired, err := s.ticks(now); {
		case err != nil:
			return err
		case fired > 0:
			drain = now // output of a tick is printed without delay
		}
		if !drain.After(now) {
			if err := s.drain(d, false); err != nil {
				return err
			}
			drain = now.Add(each)
		}
		if drains && !s.stacks.fill.next.After(now) {
			if err := s.checkStacks(now); err != nil {
				return err
			}
		}
		if !status.After(now) {
			if err := s.checkStatus(d, measure.Span(now.Sub(status)+statusEach)); err != nil {
				return err
			}
			status = now.Add(statusEach)
		}
	}
	return nil
}

// checkStatus does what a session does once per second: it reports losses, opens newly mapped
// files, and compares the cost with the budget. It was last called over ago.
func (s *Session) checkStatus(d *delivery, over measure.Span) error {
	if err := errors.Join(s.reportDrops(d), s.reportMissed(d)); err != nil {
		return err
	}
	s.symbols.openMappedFiles()
	if s.EachSecond != nil {
		if err := s.EachSecond(); err != nil {
			return err
		}
	}
	return s.checkBudget(over)
}
