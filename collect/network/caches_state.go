package network

import (
	"time"

	"culprit/measure"
)

// tableState is one table, now and at the previous reading. NaN means not known.
type tableState struct {
	name                    string
	entries, buckets, limit float64
	counted                 bool      // in this reading
	at, lastAt              time.Time // when entries was counted, and the time before
	last                    float64   // entries at lastAt
	refused, collected      sinceBoot
	epoch                   int
	label                   label
}

// sinceBoot is a number that the kernel counts of a table since boot: entries that it refused
// because the table was full, or searches for unused entries.
type sinceBoot struct {
	now, last uint64
	counted   int // how often it was read; the latest two numbers are kept
	fresh     bool
}

// count stores a number since boot.
func (r *sinceBoot) count(n uint64) {
	r.last, r.now, r.fresh = r.now, n, true
	r.counted++
}

// since returns the growth between the latest two readings; NaN if this interval has none.
func (r *sinceBoot) since() float64 {
	fresh := r.fresh
	r.fresh = false
	if !fresh || r.counted < 2 || r.now < r.last {
		return measure.NaN
	}
	return float64(r.now - r.last)
}

// count stores a number of entries.
func (s *tableState) count(entries uint64, now time.Time) {
	s.last, s.lastAt = s.entries, s.at
	s.entries, s.at, s.counted = float64(entries), now, true
}

// countIf is count if the number is known; otherwise the entries become unknown.
func (s *tableState) countIf(known bool, entries uint64, now time.Time) {
	if known {
		s.count(entries, now)
	} else {
		s.entries, s.at, s.counted = measure.NaN, time.Time{}, false
	}
}

// growth returns the change of the entries in an interval of length over. If they are counted less
// often than read, it is the interval's share of the change.
func (s *tableState) growth(over measure.Span) float64 {
	switch took := s.at.Sub(s.lastAt); {
	case !s.counted || s.lastAt.IsZero():
		return measure.NaN
	case took.Seconds() > 1.5*over.Seconds() && took > 0:
		return (s.entries - s.last) * over.Seconds() / took.Seconds()
	}
	return s.entries - s.last
}

// pace limits expensive work to 0.1 % of a CPU: after work of duration t it pauses for 1000 t. It
// uses the shorter of the latest two durations, since one may have been long because other threads
// had the CPU.
type pace struct {
	next  time.Time
	last  time.Duration
	rests bool // the pause is longer than a second: worth a note
}

func (p *pace) due(now time.Time) bool { return !now.Before(p.next) }

// took stores the time since began as the duration.
func (p *pace) took(began time.Time) { p.spent(began, time.Since(began)) }

func (p *pace) spent(began time.Time, took time.Duration) {
	cost := min(took, p.last)
	p.last = took
	p.rests = cost > 2*time.Millisecond
	p.next = began
	if cost > 500*time.Microsecond {
		p.next = began.Add(min(1000*cost, 10*time.Minute))
	}
}
