package export

import (
	"cmp"
	"slices"
)

// MaxSeries is the most series that a scrape has, and that remote write sends at a time.
const MaxSeries = 4000

// Width is how many series a metric has.
type Width struct {
	Metric string
	Series int
	Bound  int  // as in Entry
	Keep   bool // as in Entry
}

// Budget chooses the metrics that an export omits, so that MaxSeries and the bounds of the table
// hold. The zero value is ready. It is used by one goroutine.
type Budget struct {
	omitted map[string]bool // by the newest Choose
}

// Choose returns the metrics to omit: those above their bound, and while there are more than
// MaxSeries in sum, the widest ones. Metrics to keep are the last to go. What was omitted before
// returns only when a tenth of the limit is free, so that a metric does not come and go.
func (b *Budget) Choose(widths []Width) map[string]bool {
	order := slices.Clone(widths)
	slices.SortFunc(order, func(a, b Width) int {
		return cmp.Or(keepOrder(a.Keep)-keepOrder(b.Keep), cmp.Compare(b.Series, a.Series),
			cmp.Compare(a.Metric, b.Metric))
	})
	omitted, total := map[string]bool{}, 0
	limit := func(w Width, most int) int {
		if b.omitted[w.Metric] {
			return most - most/10
		}
		return most
	}
	for _, w := range order {
		if w.Series > limit(w, w.Bound) {
			omitted[w.Metric] = true
		} else {
			total += w.Series
		}
	}
	for _, w := range order {
		if !omitted[w.Metric] && w.Series > 0 && total > limit(w, MaxSeries) {
			omitted[w.Metric] = true
			total -= w.Series
		}
	}
	b.omitted = omitted
	return omitted
}

func keepOrder(keep bool) int {
	if keep {
		return 1
	}
	return 0
}
