package facts

import (
	"slices"

	"culprit/diagnose"
	"culprit/measure"
)

// HTTPPace is the answers of a server in some time, by how long they took.
type HTTPPace struct {
	Quick, Slow, Long measure.Dist // in ns, with the base of the recording
}

// Pace returns the answers of each cell. Slow ones took from or longer, long ones to or longer, in
// seconds. A bucket that contains from or to counts as the quicker kind.
func (s *HTTPServer) Pace(t *diagnose.Table, from, to float64) []HTTPPace {
	all := make([]HTTPPace, len(t.Seconds))
	for _, r := range s.LatencyRows {
		for c := range all {
			d := r.Dist(c)
			for i, n := range d.Counts {
				if n == 0 {
					continue
				}
				bucket := d.First + int32(i)
				start := float64(measure.BucketStart(d.Base, bucket)) / 1e9
				kind := &all[c].Quick
				switch {
				case start >= to:
					kind = &all[c].Long
				case start >= from:
					kind = &all[c].Slow
				}
				if len(kind.Counts) == 0 {
					kind.Base = d.Base
				}
				kind.Merge(measure.Dist{Base: d.Base, First: bucket, Counts: []uint64{n}})
			}
		}
	}
	return all
}

// PaceOf returns the answers of the cells in mask; nil: of all.
func PaceOf(all []HTTPPace, mask []bool) HTTPPace {
	var sum HTTPPace
	for c := range all {
		if mask == nil || mask[c] {
			sum.add(&all[c])
		}
	}
	return sum
}

// PaceWithin returns for each cell the answers of the cells within span around it. Cells that are
// longer than span stay as they are.
func PaceWithin(t *diagnose.Table, all []HTTPPace, span measure.Span) []HTTPPace {
	if t.Step <= 0 {
		return all
	}
	around := int(span / t.Step / 2)
	out := slices.Clone(all)
	for c := range all {
		out[c] = PaceOf(all[max(c-around, 0):min(c+around+1, len(all))], nil)
	}
	return out
}

// SecondsWithin returns the measured time that PaceWithin counts for cell c, in seconds.
func SecondsWithin(t *diagnose.Table, c int, span measure.Span) float64 {
	around := 0
	if t.Step > 0 {
		around = int(span / t.Step / 2)
	}
	sum := 0.0
	for _, s := range t.Seconds[max(c-around, 0):min(c+around+1, len(t.Seconds))] {
		sum += s
	}
	return sum
}

// add adds the answers of o. The base is that of the first distribution with values.
func (p *HTTPPace) add(o *HTTPPace) {
	for _, d := range []struct{ to, of *measure.Dist }{
		{&p.Quick, &o.Quick}, {&p.Slow, &o.Slow}, {&p.Long, &o.Long},
	} {
		if len(d.to.Counts) == 0 {
			d.to.Base = d.of.Base
		}
		d.to.Merge(*d.of)
	}
}

// Share returns the share of slow answers, without those that are long; 0 without answers.
func (p *HTTPPace) Share() float64 {
	slow, quick := float64(p.Slow.Count()), float64(p.Quick.Count())
	if slow == 0 {
		return 0
	}
	return slow / (slow + quick)
}

// LongShare returns the share of long answers; 0 without answers.
func (p *HTTPPace) LongShare() float64 {
	long := float64(p.Long.Count())
	if long == 0 {
		return 0
	}
	return long / (long + float64(p.Slow.Count()+p.Quick.Count()))
}
