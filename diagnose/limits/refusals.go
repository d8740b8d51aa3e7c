package limits

import (
	"cmp"
	"slices"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// refusals are the requests that failed because of a limit.
type refusals struct {
	known    bool      // they were counted
	refused  float64   // per second
	requests float64   // in the whole time
	at       []float64 // in each cell
	cells    int       // in which any was refused while the limit was about reached
	rows     []*diagnose.Row
}

// refusalsOf counts the requests that failed because of a limit: by the kernel's own counter, or by
// the calls that failed.
func refusalsOf(l *diagnose.Look, k Kind, owner *diagnose.Row) refusals {
	var s refusals
	span := diagnose.WholePeriod(owner.Table).Known
	for _, source := range k.errors.counters {
		s.of(refusalRows(l, k, source, owner), l.Table(source.query), span)
	}
	if s.refused > 0 || k.errors.failed == nil {
		return s
	}
	s.of(failedCalls(l, k, owner), l.Table(facts.FailedCalls), span)
	return s
}

// failedCalls returns the system calls that fail because of a limit.
func failedCalls(l *diagnose.Look, k Kind, owner *diagnose.Row) []*diagnose.Row {
	if k.errors.failed == nil {
		return nil
	}
	var rows []*diagnose.Row
	for _, r := range l.Table(facts.FailedCalls).Rows {
		if k.errors.failed(l, owner, r) {
			rows = append(rows, r)
		}
	}
	return rows
}

// of adds rows of counted refusals. span is the measured time of the use, in seconds.
func (s *refusals) of(rows []*diagnose.Row, t *diagnose.Table, span float64) {
	if !t.Have() {
		return
	}
	// Tracing stops when it costs too much: seconds without a failed call then prove little.
	known := diagnose.WholePeriod(t).Known
	s.known = s.known || known >= threshold.LeastShare*span
	if s.refused > 0 {
		return
	}
	s.rows, s.at, s.cells = nil, make([]float64, len(t.Seconds)), 0
	for c := range t.Seconds {
		for _, r := range rows {
			s.at[c] += series.AtOrZero(r.Values, c)
		}
		if s.at[c] > 0 {
			s.cells++
		}
	}
	for _, r := range rows {
		if v := r.Part(nil); v > 0 {
			s.rows = append(s.rows, r)
			s.refused += v
			s.requests += v * known
		}
	}
	slices.SortStableFunc(s.rows, func(a, b *diagnose.Row) int {
		return cmp.Compare(b.Part(nil), a.Part(nil))
	})
}

// refusalRows returns the rows of the kernel's counter for an owner. Version 1 control groups, and
// older kernels, count in the group that tried, which may be below the one with the limit.
func refusalRows(l *diagnose.Look, k Kind, s Source, owner *diagnose.Row) []*diagnose.Row {
	if own := k.rowOf(l, s, owner); own.Part(nil) > 0 {
		return []*diagnose.Row{own}
	}
	t := l.Table(s.query)
	if t.Column("cgroup") < 0 {
		return nil
	}
	var below []*diagnose.Row
	for _, r := range t.Rows {
		if g := r.Word("cgroup"); g != "" && facts.Below(g, owner.Word("cgroup")) {
			below = append(below, r)
		}
	}
	return below
}
