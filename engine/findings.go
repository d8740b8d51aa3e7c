package engine

import (
	"context"
	"fmt"
	"slices"

	"culprit/fleet"
	"culprit/measure"
)

// findingPoints is the number of times at which findings of a range are read, at most.
const findingPoints = 1440

// FindingsAt is the findings of a host within the step before a time, the most severe first.
type FindingsAt struct {
	At       measure.Time
	Findings []fleet.Finding
}

// Findings returns the times with findings, oldest first: one per minute, or per step of a range of
// more than a day. Its server sends rule, culprit, severity and confidence, and no texts. The error
// is ErrTooLarge or that of the engine.
func (h *Host) Findings(ctx context.Context, over measure.Interval) ([]FindingsAt, error) {
	step := measure.Minute
	step *= max(1, (over.Span()/findingPoints+step-1)/step)
	query := fmt.Sprintf("max_over_time(%s{%s}[%ds])", findingMetric, h.client.only(h.name),
		step/measure.Second)
	// Each point has the step before it: the last one may end after the range.
	start := floor(over.Start, step).Add(step)
	end := max(start, floor(over.End.Add(step-1), step))
	found, _, err := h.client.steps(ctx, query, measure.Interval{Start: start, End: end}, step)
	if err != nil {
		return nil, err
	}
	if len(found) > maxFindings {
		return nil, fmt.Errorf("%d findings are more than %d: choose a shorter time: %w",
			len(found), maxFindings, measure.ErrTooLarge)
	}
	at := map[measure.Time][]fleet.Finding{}
	for _, s := range found {
		for _, v := range s.Values {
			if value := float64(v.Value); isNumber(value) {
				at[timeOf(v)] = append(at[timeOf(v)], findingOf(s.Metric, value))
			}
		}
	}
	out := make([]FindingsAt, 0, len(at))
	for t, findings := range at {
		fleet.SortFindings(findings)
		out = append(out, FindingsAt{min(t, over.End), findings})
	}
	slices.SortFunc(out, func(a, b FindingsAt) int { return int(a.At.Sub(b.At)) })
	return out, nil
}
