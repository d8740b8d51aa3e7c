package trace

import (
	"errors"
	"slices"
	"sync"
	"time"

	"culprit/lang/ir"
	"culprit/measure"
)

// sourceUsage is what a source has lost and cost since its start.
type sourceUsage struct {
	mu      sync.Mutex // guards the other fields
	lost    losses
	inside  measure.Span  // CPU time of reading, in this process
	outside time.Duration // run time of the script's programs, in all processes
}

// SetLossReasons replaces the reasons of losses. Call it before Live.
func (s *Source) SetLossReasons(reasons LossReasons) { s.lossReasons = reasons }

func (s *Source) lose(change func(*losses)) {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	change(&s.usage.lost)
}

// Losses returns what the script lost since it began, by reason.
func (s *Source) Losses() []measure.Loss {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	out := append(
		s.usage.lost.list(true, true, s.lossReasons),
		LossOf(
			"records that were written faster than they were read: bufsize allows more",
			s.usage.lost.dropped[ir.DropRecord],
		)...)
	return append(
		out,
		LossOf(
			"records that did not fit into a speculation: specsize allows more",
			s.usage.lost.dropped[ir.DropHeld],
		)...)
}

// Notes returns a note on what could not be attached, or nil.
func (s *Source) Notes() []string {
	if a := s.session.Attachment(); len(a.Skipped) > 0 {
		return []string{a.String()}
	}
	return nil
}

// tidy reads the cost of the script, and discards rows of aggregations without a reader, which
// would fill the kernel's maps.
func (s *Source) tidy() error {
	var idle []*Aggregate
	for _, a := range s.session.aggs.all {
		if a.unkept && len(a.taps) == 0 {
			idle = append(idle, a)
		}
	}
	return errors.Join(s.account(), s.session.collect(idle...))
}

// account reads the run time of the script's programs.
func (s *Source) account() error {
	if s.session.costs.counting == nil {
		return nil
	}
	all, err := s.session.Costs()
	if err != nil {
		return err
	}
	sum := time.Duration(0)
	for _, c := range all {
		sum += c.Time
	}
	s.usage.mu.Lock()
	s.usage.outside = max(s.usage.outside, sum)
	s.usage.mu.Unlock()
	return nil
}

// Cost returns the CPU time charged to a statistic: an equal share, per statistic, of the CPU time
// of reading and of the script's programs. It returns 0 for an unknown statistic.
func (s *Source) Cost(id measure.StatID) measure.Span {
	if !slices.ContainsFunc(s.stats, func(st measure.Stat) bool { return st.ID == id }) {
		return 0
	}
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	return (s.usage.inside + measure.Span(s.usage.outside)) / measure.Span(len(s.stats))
}

// ExternalCost returns the run time of the script's programs, summed over all processes that they
// ran in.
func (s *Source) ExternalCost() measure.Span {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	return measure.Span(s.usage.outside)
}
