package trace

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
)

// aggregates are the aggregations of a session, in the order of check.Program.Aggs.
type aggregates struct {
	all      []*Aggregate
	watching bool       // the clauses of attached programs run, or did
	over     bool       // only END can still run
	idle     chan error // receives when no attached program runs any more; nil: not waiting
	cut      time.Time  // rows that were added later are not in the last reading
}

// collect reads what was added to aggregations since the last call. Values that programs add
// meanwhile are left for the next call. During one delivery of records an aggregation is read once,
// so that printa() and clear() of one firing see the same rows.
func (s *Session) collect(all ...*Aggregate) error {
	if s.aggs.over {
		if err := s.aggs.waitIdle(); err != nil {
			return err
		}
		for _, a := range all {
			if err := a.take(a.inner); err != nil {
				return err
			}
		}
		return nil
	}
	type change struct {
		a          *Aggregate
		old, fresh *ebpf.Map
		err        error
	}
	var due []*change
	var failed error
	for _, a := range all {
		if s.records.delivering && a.pass == s.records.pass ||
			slices.ContainsFunc(due, func(c *change) bool { return c.a == a }) {
			continue
		}
		fresh, err := a.spareMap()
		if err != nil {
			failed = err
			break
		}
		due = append(due, &change{a: a, old: a.inner, fresh: fresh})
	}
	// Each replacement waits some milliseconds until no program runs that began before it. They
	// wait side by side.
	var waiting sync.WaitGroup
	for i, c := range due {
		change := func() { c.err = errors.Join(c.a.placed(), c.a.replace(c.fresh)) }
		if i == len(due)-1 {
			change()
			break
		}
		waiting.Go(change)
	}
	waiting.Wait()
	for _, c := range due {
		if c.err == nil {
			c.a.inner, c.a.spare, c.a.pass = c.fresh, c.old, s.records.pass
			c.err = c.a.take(c.old) // rows that could not be read stay in the map
		} else {
			c.a.spare = c.fresh
		}
		failed = errors.Join(failed, c.err)
	}
	return failed
}

// startWaitIdle is called when all clauses but END are stopped. It starts to wait until no attached
// program runs any more.
func (s *aggregates) startWaitIdle() {
	s.over = true
	if len(s.all) == 0 {
		return
	}
	done, watched := make(chan error, 1), s.watching
	s.idle = done
	go func() {
		var failed error
		if watched {
			failed = s.all[0].replace(s.all[0].inner) // by itself: this only waits for programs
		}
		for _, a := range s.all {
			failed = errors.Join(failed, a.placed())
		}
		done <- failed
	}()
}

// waitIdle waits until no attached program runs any more.
func (s *aggregates) waitIdle() error {
	if s.idle == nil {
		return nil
	}
	err := <-s.idle
	s.idle = nil
	return err
}

// Gather reads all aggregations that have readers, up to one moment. It fails when a map cannot be
// read.
func (s *Session) Gather() error {
	var read []*Aggregate
	for _, a := range s.aggs.all {
		if len(a.taps) > 0 || a.counts != nil {
			read = append(read, a)
		}
	}
	s.aggs.cut = time.Now()
	if s.stacks.frames != nil {
		s.stacks.frames.ids.turned = false
	}
	return s.collect(read...)
}
