package heat

import (
	"cmp"
	"math"
	"slices"

	"culprit/measure"
)

// Rectangle is a part of a heat map: the values from Low up to, not including, High. Values are
// known by their buckets, so a bucket belongs to the rectangle if its smallest value does.
type Rectangle struct{ Low, High float64 }

func (r Rectangle) contains(base uint8, bucket int32) bool {
	v := float64(measure.BucketStart(base, bucket))
	return v >= r.Low && v < r.High
}

// Share compares one value of a field inside and outside of a rectangle.
type Share struct {
	Value           string
	Inside, Outside uint64 // events with this value
	// Score is the share of the events inside that have the value, minus that share outside: from
	// -1 to 1. 0: the value is as frequent inside as outside.
	Score float64
}

// Ranking contains the values of one field, the highest score first.
type Ranking struct {
	Inside, Outside uint64 // all events
	Values          []Share
	Rare            int // values left out: fewer than MinEvents events
	More            int // values left out: their scores are closest to 0
}

// MinEvents is the smallest number of events, inside and outside together, of a ranked value. Fewer
// say little about a share.
const MinEvents = 5

// MaxRanked is the largest number of ranked values of a field.
const MaxRanked = 12

// Rank ranks the values of a field. during has the answers about the time of the rectangle, around
// those about the rest of the time; both are broken down by the field alone, or by nothing. Events
// of during whose value is outside of the rectangle count as outside. Among equal scores the value
// with more events inside is first.
func Rank(r Rectangle, during, around []*measure.Answer) Ranking {
	values := map[string]*Share{}
	out := Ranking{}
	count := func(a *measure.Answer, timeInside bool) {
		for i := range a.Series {
			v := ""
			if len(a.Query.By) > 0 {
				v = a.Label(i, 0)
			}
			s := values[v]
			if s == nil {
				s = &Share{Value: v}
				values[v] = s
			}
			for _, d := range a.Series[i].Dists() {
				for b, n := range d.Counts {
					if timeInside && r.contains(d.Base, d.First+int32(b)) {
						s.Inside += n
						out.Inside += n
					} else {
						s.Outside += n
						out.Outside += n
					}
				}
			}
		}
	}
	for _, a := range during {
		count(a, true)
	}
	for _, a := range around {
		count(a, false)
	}
	for _, s := range values {
		if s.Inside+s.Outside < MinEvents {
			out.Rare++
			continue
		}
		s.Score = share(s.Inside, out.Inside) - share(s.Outside, out.Outside)
		out.Values = append(out.Values, *s)
	}
	out.limit()
	return out
}

func share(n, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// limit sorts the values and keeps those with the largest differences.
func (r *Ranking) limit() {
	slices.SortFunc(r.Values, func(x, y Share) int {
		return cmp.Or(-cmp.Compare(math.Abs(x.Score), math.Abs(y.Score)),
			-cmp.Compare(x.Inside, y.Inside), cmp.Compare(x.Value, y.Value))
	})
	if n := len(r.Values); n > MaxRanked {
		r.More, r.Values = n-MaxRanked, r.Values[:MaxRanked]
	}
	slices.SortFunc(r.Values, func(x, y Share) int {
		return cmp.Or(-cmp.Compare(x.Score, y.Score), -cmp.Compare(x.Inside, y.Inside),
			cmp.Compare(x.Value, y.Value))
	})
}

// Best returns the highest score; 0 if no value is more frequent inside.
func (r *Ranking) Best() float64 {
	if len(r.Values) == 0 {
		return 0
	}
	return max(0, r.Values[0].Score)
}
