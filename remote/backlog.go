package remote

import (
	"slices"

	"culprit/measure"
)

// Limits of the ticks that wait for an acknowledgment, per run and of all runs together.
const (
	maxBacklogTime  = 60 * measure.Second
	maxBacklogBytes = 32 << 20
	minBacklogTicks = 2 // a run keeps these, whatever their size and age
)

// backlog contains the ticks of a run that are not acknowledged, oldest first. It has no lock of
// its own.
type backlog struct {
	ticks   []*tick
	free    []*tick // acknowledged: their memory is used again
	number  uint64  // of the newest tick
	bytes   int
	dropped uint64 // ticks that exceeded a limit since the last one that was sent
	costs   []measure.Span
	index   map[measure.StatID]int
	stats   []measure.Stat
}

func newBacklog(stats []measure.Stat) *backlog {
	l := &backlog{
		stats: stats,
		costs: make([]measure.Span, len(stats)),
		index: map[measure.StatID]int{},
	}
	for i := range stats {
		l.index[stats[i].ID] = i
	}
	return l
}

// add copies a tick. Batches that the protocol cannot carry are left out: of a statistic or a field
// that the source does not list, or with another number of keys than rows.
func (l *backlog) add(batches []*measure.Batch, source measure.Source) *tick {
	t := &tick{}
	if n := len(l.free); n > 0 {
		t, l.free = l.free[n-1], l.free[:n-1]
	}
	var before []measure.Batch
	if n := len(l.ticks); n > 0 {
		before = l.ticks[n-1].batches
	}
	l.number++
	t.number, t.end, t.size, t.costs = l.number, 0, 100, t.costs[:0]
	if n := len(l.ticks); n > 0 { // for one in which nothing could be measured
		t.end = l.ticks[n-1].end
	}
	n := 0
	for _, b := range batches {
		if !l.carries(b) || n == maxSlots {
			continue
		}
		if n == len(t.batches) {
			t.batches = append(t.batches, measure.Batch{})
		}
		same := &measure.Batch{}
		if n < len(before) {
			same = &before[n]
		}
		t.size += copyBatch(&t.batches[n], same, b)
		if b.Over.Span() > 0 {
			t.end = max(t.end, b.Over.End)
		}
		n++
	}
	t.batches = t.batches[:n]
	l.addCosts(t, source)
	l.ticks = append(l.ticks, t)
	l.bytes += t.size
	return t
}

func (l *backlog) addCosts(t *tick, source measure.Source) {
	m, ok := source.(measure.Meter)
	if !ok {
		return
	}
	for i := range l.stats {
		if c := m.Cost(l.stats[i].ID); c != l.costs[i] {
			l.costs[i] = c
			t.costs = append(t.costs, statCost{i, c})
		}
	}
	if e, ok := source.(measure.ExternalMeter); ok {
		t.outside = e.ExternalCost()
	}
}

// carries reports whether the protocol can carry the batch.
func (l *backlog) carries(b *measure.Batch) bool {
	i, ok := l.index[b.Stat]
	if !ok || len(b.Keys) != b.Rows()*len(b.By) {
		return false
	}
	for _, name := range b.By {
		if _, at := l.stats[i].Field(name); at < 0 {
			return false
		}
	}
	return true
}

// trim drops the oldest ticks while they exceed a limit. excess is the number of bytes by which all
// runs together exceed theirs. Those after the number sent were not sent.
func (l *backlog) trim(excess int, sent uint64) {
	for len(l.ticks) > minBacklogTicks {
		t, newest := l.ticks[0], l.ticks[len(l.ticks)-1]
		if excess <= 0 && newest.end.Sub(t.end) <= maxBacklogTime {
			return
		}
		excess -= t.size
		if t.number > sent {
			l.dropped++
		}
		l.drop(1)
	}
}

// drop removes the n oldest ticks.
func (l *backlog) drop(n int) {
	for _, t := range l.ticks[:n] {
		l.bytes -= t.size
		if len(l.free) < 2 {
			l.free = append(l.free, t)
		}
	}
	l.ticks = slices.Delete(l.ticks, 0, n)
}

// ack removes the ticks up to a number.
func (l *backlog) ack(number uint64) {
	n := 0
	for n < len(l.ticks) && l.ticks[n].number <= number {
		n++
	}
	l.drop(n)
}

// after returns the oldest tick with a higher number; nil: none.
func (l *backlog) after(number uint64) *tick {
	for _, t := range l.ticks {
		if t.number > number {
			return t
		}
	}
	return nil
}
