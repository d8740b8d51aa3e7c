package trace

import (
	"errors"
	"slices"
	"time"
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
			if err := a.take(a.kernel.inner); err != nil {
				return err
			}
		}
		return nil
	}
	var due []*Aggregate
	var maps []*replacedMap
	for _, a := range all {
		if s.records.delivering && a.pass == s.records.pass || slices.Contains(due, a) {
			continue
		}
		due, maps = append(due, a), append(maps, &a.kernel)
	}
	done, failed := replaceAll(maps)
	for i, a := range due {
		if done[i] {
			a.pass = s.records.pass
			failed = errors.Join(failed, a.take(a.kernel.spare)) // unread rows stay in the map
		}
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
			// By itself: this only waits for programs.
			failed = s.all[0].kernel.replace(s.all[0].kernel.inner)
		}
		for _, a := range s.all {
			failed = errors.Join(failed, a.kernel.placed())
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
