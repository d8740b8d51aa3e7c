package heat

import (
	"fmt"
	"math"
	"testing"

	"culprit/measure"
)

func times(v, n uint64) measure.Dist {
	d := measure.Dist{Base: 2}
	d.Add(v, n)
	return d
}

func both(x, y measure.Dist) measure.Dist { x.Merge(y); return x }

// TestRank has two bands: the process "slow" makes most of the slow requests, "quick" nearly all
// others. The process "rare" has four events.
func TestRank(t *testing.T) {
	during := answer([]measure.Span{1}, map[string][]measure.Dist{
		"slow":  {both(times(50_000, 5), times(40_000_000, 90))},
		"quick": {both(times(50_000, 1900), times(40_000_000, 10))},
		"rare":  {times(40_000_000, 4)},
	})
	around := answer([]measure.Span{1}, map[string][]measure.Dist{
		"slow":  {both(times(50_000, 2), times(40_000_000, 60))},
		"quick": {times(50_000, 8000)},
	})
	r := Rank(Rectangle{30e6, 60e6}, []*measure.Answer{during}, []*measure.Answer{around})
	if r.Inside != 104 || r.Outside != 1905+8062 || r.Rare != 1 || r.More != 0 {
		t.Fatalf("%+v", r)
	}
	slow := Share{"slow", 90, 67, 90./104 - 67./9967}
	quick := Share{"quick", 10, 9900, 10./104 - 9900./9967}
	for i, want := range []Share{slow, quick} {
		got := r.Values[i]
		if math.Abs(got.Score-want.Score) > 1e-12 {
			t.Errorf("%s has score %v, want %v", got.Value, got.Score, want.Score)
		}
		got.Score = want.Score
		if got != want {
			t.Errorf("%d is %+v, want %+v", i, got, want)
		}
	}
	if r.Best() != r.Values[0].Score {
		t.Errorf("best %v", r.Best())
	}
}

// TestRankCountsWholeBuckets: a bucket belongs to the rectangle by its smallest value.
func TestRankCountsWholeBuckets(t *testing.T) {
	a := answer([]measure.Span{1}, map[string][]measure.Dist{"x": {times(1024, 10)}})
	for _, tt := range []struct {
		name      string
		low, high float64
		inside    uint64
	}{
		{"low at its start", 1024, 2048, 10}, {"low above its start", 1025, 2048, 0},
		{"high at its start", 512, 1024, 0}, {"high just above its start", 512, 1025, 10},
	} {
		r := Rank(Rectangle{tt.low, tt.high}, []*measure.Answer{a}, nil)
		if r.Inside != tt.inside || r.Outside != 10-tt.inside {
			t.Errorf("%s: %d inside, %d outside", tt.name, r.Inside, r.Outside)
		}
	}
}

func TestRankKeepsTheLargestDifferences(t *testing.T) {
	in, out := map[string][]measure.Dist{}, map[string][]measure.Dist{}
	for i := range 40 {
		name := fmt.Sprint("p", i)
		in[name], out[name] = []measure.Dist{times(1000, 10)}, []measure.Dist{times(1000, 10)}
	}
	in["up"], out["down"] = []measure.Dist{times(1000, 400)}, []measure.Dist{times(1000, 400)}
	r := Rank(Rectangle{0, 1e6}, []*measure.Answer{answer([]measure.Span{1}, in)},
		[]*measure.Answer{answer([]measure.Span{1}, out)})
	if len(r.Values) != MaxRanked || r.More != 42-MaxRanked {
		t.Fatalf("%d values, %d more", len(r.Values), r.More)
	}
	if first, last := r.Values[0], r.Values[MaxRanked-1]; first.Value != "up" || first.Score != 0.5 ||
		last.Value != "down" || last.Score != -0.5 {
		t.Errorf("first %+v, last %+v", first, last)
	}
}

func TestRankOfTooFewEvents(t *testing.T) {
	for n, ranked := range map[uint64]int{MinEvents - 1: 0, MinEvents: 1} {
		a := answer([]measure.Span{1}, map[string][]measure.Dist{"x": {times(1000, n)}})
		if r := Rank(Rectangle{0, 1e9}, []*measure.Answer{a}, nil); len(r.Values) != ranked {
			t.Errorf("%d events: %d values ranked", n, len(r.Values))
		}
	}
	if r := Rank(Rectangle{0, 1}, nil, nil); r.Best() != 0 || len(r.Values) != 0 {
		t.Errorf("nothing: %+v", r)
	}
}
