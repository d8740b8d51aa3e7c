package collect

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"culprit/measure"
)

// shortages are the collectors that a lack of a resource keeps from reading. Safe for concurrent
// use.
type shortages struct {
	mu  sync.Mutex // guards the field below
	now map[*running]string
}

// set records why a collector reads nothing. short is false when the reason is no shortage, or when
// it reads.
func (s *shortages) set(r *running, why string, short bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !short {
		delete(s.now, r)
		return
	}
	if s.now == nil {
		s.now = map[*running]string{}
	}
	s.now[r] = why
}

// maxNamed limits the statistics that one problem names.
const maxNamed = 4

// someOf lists the first statistics and the number of the others.
func someOf(ids []string) string {
	named := ids[:min(len(ids), maxNamed)]
	more := ""
	if rest := len(ids) - len(named); rest > 0 {
		more = fmt.Sprintf(" and %d more", rest)
	}
	return strings.Join(named, ", ") + more
}

// Problems implements measure.ProblemReporter: one problem for each reason of a
// shortage, with the statistics that are not measured while it lasts, and one for each reading that
// has not ended for long.
func (s *Source) Problems() []measure.Problem {
	s.shortages.mu.Lock()
	defer s.shortages.mu.Unlock()
	stats := map[string][]string{}
	for r, why := range s.shortages.now {
		for _, st := range r.out.stats {
			stats[why] = append(stats[why], string(st.ID))
		}
	}
	var out []measure.Problem
	for why, ids := range stats {
		slices.Sort(ids)
		ids = slices.Compact(ids)
		out = append(out, measure.Problem{
			Key: "shortage: " + why,
			Text: fmt.Sprintf("not measured for now: %s: %s; culprit tries again at each tick",
				someOf(ids), why),
		})
	}
	out = append(out, s.stuck.problems()...)
	slices.SortFunc(out, func(a, b measure.Problem) int { return strings.Compare(a.Key, b.Key) })
	return out
}
