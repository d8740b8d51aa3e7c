package dataset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"culprit/measure"
)

// byBudget is the actor of changes that enforce the budget.
const byBudget = "budget"

// A suspended group is resumed after a pause. The pause doubles each time the group exceeds the
// budget again.
const (
	firstPause = 10 * time.Minute
	maxPause   = 4 * time.Hour
)

// budget limits the cost of recording.
type budget struct {
	share     float64 // of one CPU; 0: no limit
	suspended map[string]*suspension
	since     time.Time // of the last change: a mean must cover one state only
}

// suspension is a suspended group of datasets.
type suspension struct {
	ids   []uint32
	until time.Time
	next  time.Duration // the pause after the next suspension
}

// SetBudget limits the cost of recording to a share of one CPU, a mean over a minute; 0: no limit.
// Above it, the most expensive group of statistics is suspended and reported. A group is read
// together, as all of tcp.flow. It is resumed later. Call before Run.
func (s *Set) SetBudget(share float64) { s.budget.share = share }

// Budget returns the argument of SetBudget.
func (s *Set) Budget() float64 { return s.budget.share }

// groupOf returns the group of a statistic: its object. Traced statistics are not read with the
// counters of their object, so they form another group.
func groupOf(st *measure.Stat) string {
	group := string(st.ID)
	if i := strings.LastIndexByte(group, '.'); i > 0 {
		group = group[:i]
	}
	if st.Traced {
		group += " (traced)"
	}
	return group
}

// enforceBudget enforces the budget until the context ends.
func (s *Set) enforceBudget(ctx context.Context) {
	t := time.NewTicker(usageInterval)
	defer t.Stop()
	s.budget.suspended, s.budget.since = map[string]*suspension{}, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.checkBudget(time.Now())
		}
	}
}

// checkBudget compares the cost of recording with the budget, and suspends or resumes groups.
func (s *Set) checkBudget(at time.Time) {
	b := &s.budget
	for group, r := range b.suspended {
		if r.ids == nil || at.Before(r.until) {
			continue
		}
		for _, id := range r.ids {
			// destroyed meanwhile, or its statistic is gone
			if err := s.Resume(byBudget, id); err != nil {
				continue
			}
		}
		r.ids, b.since = nil, at
		s.setProblem("budget "+group, "")
	}
	if at.Sub(b.since) < usagePeriod {
		return
	}
	groups, ids, all := map[string]float64{}, map[string][]uint32{}, 0.0
	for _, d := range s.Datasets() {
		if u := s.Usage(d.ID); u.CPU > 0 {
			g := groupOf(&d.Stat)
			groups[g] += u.CPU
			ids[g] = append(ids[g], d.ID)
			all += u.CPU
		}
	}
	if all <= b.share {
		for group, r := range b.suspended { // resumed, and within the budget
			if r.ids == nil {
				delete(b.suspended, group)
			}
		}
		return
	}
	worst := ""
	for g, cost := range groups {
		if worst == "" || cost > groups[worst] || cost == groups[worst] && g < worst {
			worst = g
		}
	}
	r := b.suspended[worst]
	if r == nil {
		r = &suspension{next: firstPause}
		b.suspended[worst] = r
	}
	r.until, r.ids, b.since = at.Add(r.next), nil, at
	for _, id := range ids[worst] {
		if err := s.Suspend(byBudget, id); err == nil {
			r.ids = append(r.ids, id)
		}
	}
	r.next = min(2*r.next, maxPause)
	s.setProblem(
		"budget "+worst,
		fmt.Sprintf(
			"recording took %.1f %% of a CPU, more than the %.3g %% that it may take: "+
				"%s, which took %.1f %%, is not recorded until %s UTC",
			all*100,
			b.share*100,
			worst,
			groups[worst]*100,
			r.until.UTC().Format("15:04:05"),
		),
	)
}

// resumeSuspended resumes what the budget of an earlier run suspended.
func (s *Set) resumeSuspended() error {
	changes, err := s.Changes(context.Background(), measure.Interval{})
	if err != nil {
		return err
	}
	last := map[uint32]measure.Change{}
	for _, c := range changes {
		if c.Action == "suspended" || c.Action == "resumed" {
			last[c.Dataset] = c
		}
	}
	for _, d := range slices.Clone(s.Datasets()) {
		if c := last[d.ID]; d.State == measure.Suspended && c.Actor == byBudget &&
			c.Action == "suspended" {
			if err := s.Resume(byBudget, d.ID); err != nil {
				s.setProblem("budget", err.Error())
			}
		}
	}
	return nil
}
