package web

import (
	"testing"

	"culprit/measure"
)

// The rows beyond the top become one row only if rows add up. A sum of means, of maxima or of
// overlapping kinds would be a wrong number.
func TestRestWhereRowsAddUp(t *testing.T) {
	for kind := measure.Delta; kind <= measure.Dists; kind++ {
		for fold := measure.Sum; fold <= measure.Min; fold++ {
			for _, overlaps := range []bool{false, true} {
				name := kind.String() + " " + fold.String()
				if overlaps {
					name += " overlapping"
				}
				t.Run(name, func(t *testing.T) {
					st := &measure.Stat{ID: "some.thing", Kind: kind, Fold: fold,
						Fields: []measure.Field{{Name: "kind", Overlaps: overlaps}}}
					s, err := shape(threeRows(kind), st, 1, nil)
					if err != nil {
						t.Fatal(err)
					}
					adds := fold == measure.Sum && kind != measure.Dists && !overlaps
					if got := s.rest != nil; got != adds || s.left > 0 != adds {
						t.Errorf("rest %v of %d rows, want one: %v", s.rest, s.left, adds)
					}
				})
			}
		}
	}
}

// threeRows returns an answer of one second with three rows of the values 5, 3 and 2, in each kind.
func threeRows(kind measure.Kind) *measure.Answer {
	a := &measure.Answer{
		Query: measure.Query{Stat: "some.thing", By: []string{"kind"}}, Kind: kind,
		Step: measure.Second, Elapsed: []measure.Span{measure.Second}, Labels: []string{"a", "b", "c"},
	}
	for i, v := range []float64{5, 3, 2} {
		s := measure.Series{Key: []measure.Label{measure.Label(i)}}
		if kind == measure.Dists {
			d := measure.Dist{}
			d.Add(uint64(v)*1e6, 1)
			s.SetDists([]measure.Dist{d})
		} else {
			s.Values = []float64{v}
		}
		a.Series = append(a.Series, s)
	}
	return a
}
