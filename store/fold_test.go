package store

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"culprit/measure"
)

// A row that is folded while it is unpacked has the same result as one that is expanded to ticks
// first.
func TestFoldedRowsEqualExpandedRows(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var c codec
	pack := packer{codec: &c}
	rows := map[string]func(before float64) float64{
		"counts": func(float64) float64 { return float64(9000 + rnd.IntN(900)) },
		"bytes":  func(float64) float64 { return float64(rnd.IntN(200)) * 4096 },
		"walks":  func(b float64) float64 { return b + float64(rnd.IntN(41)-20) },
		"far":    func(b float64) float64 { return b + float64(rnd.IntN(1<<20)-1<<19) },
		"rests":  func(b float64) float64 { return b + float64(rnd.IntN(9)/8*rnd.IntN(50)) },
		"drops":  func(b float64) float64 { return b + float64(rnd.IntN(9)/8*(rnd.IntN(50)-30)) },
		"zeros":  func(float64) float64 { return float64(rnd.IntN(3) / 2 * rnd.IntN(30)) },
		"loads": func(b float64) float64 {
			return math.Round(b*100+float64(rnd.IntN(9)-4)) / 100
		},
		"rising":   func(b float64) float64 { return b + float64(rnd.IntN(3)) },
		"halves":   func(b float64) float64 { return b + float64(rnd.IntN(9)/8)/2 },
		"same":     func(b float64) float64 { return b },
		"random":   func(float64) float64 { return rnd.NormFloat64() },
		"steps":    func(b float64) float64 { return b + float64(rnd.IntN(9)/8)*rnd.Float64() },
		"huge":     func(b float64) float64 { return b + float64(int64(rnd.IntN(3))<<50) },
		"at times": func(float64) float64 { return math.Round(rnd.NormFloat64()*20) * 8 },
	}
	const ticks = 300
	folded := 0
	for name, next := range rows {
		for round := range 40 {
			v := make([]float64, ticks)
			last := float64(rnd.IntN(1000))
			for i := range v {
				last = next(last)
				v[i] = last
			}
			if round%4 > 1 { // some ticks lack the row
				for i := 0; i < ticks; {
					n := 1 + rnd.IntN(40)
					for ; n > 0 && i < ticks; n-- {
						v[i] = absent()
						i++
					}
					i += 1 + rnd.IntN(60)
				}
			}
			if round%8 == 7 {
				v[rnd.IntN(ticks)] = unknown()
			}
			l := blockInProgress{from: 0, to: ticks, block: &block{ticks: make([]tick, ticks)}}
			for i := range ticks {
				span := measure.Second
				switch round % 3 {
				case 1:
					span += measure.Span(rnd.NormFloat64() * 2e6)
				case 2:
					span += measure.Span(i/50) * 1000
				}
				l.weights = append(l.weights, span.Seconds())
				l.block.ticks[i].elapsed = span
			}
			cells := int32(0)
			for at := int32(rnd.IntN(3)); at < ticks; cells++ {
				to := min(at+1+int32(rnd.IntN(90)), ticks)
				l.stretches = append(l.stretches, stretch{cells, at, to})
				at = to + int32(rnd.IntN(3)/2)
			}
			pack.packRow(v)
			g := &group{}
			long := func([]rowHead) int { return ticks }
			if err := g.open(&c, slices.Clone(pack.finish()), long); err != nil {
				t.Fatal(err)
			}
			for _, kind := range []measure.Kind{measure.Delta, measure.Level} {
				ga := &gather{
					set:           &set{desc: measure.Dataset{Stat: measure.Stat{Kind: kind}}},
					cells:         int(cells),
					extremes:      true,
					gatherBuffers: &gatherBuffers{},
				}
				var f cellFolder
				weights := l.weights
				if kind == measure.Level {
					weights = nil
				}
				f.plan(l.stretches, weights)
				ok, err := g.fold(0, &f)
				if err != nil {
					t.Fatal(name, err)
				}
				if !ok {
					if round%8 != 7 {
						t.Fatalf("%s: not folded", name)
					}
					continue
				}
				folded++
				got, want := ga.newSeries(), ga.newSeries()
				got.addCells(&f)
				ga.foldRow(&l, want, v)
				for c := range want.sum {
					// fractions are added as integers
					near := math.Abs(
						got.sum[c]-want.sum[c],
					) <= 1e-12*float64(
						want.n[c],
					)*(math.Abs(want.least[c])+math.Abs(want.most[c]))
					whole := name == "loads" || name == "halves" || name == "random" ||
						name == "steps" ||
						name == "same" ||
						name == "huge"
					if got.n[c] != want.n[c] || !near || !whole && got.sum[c] != want.sum[c] ||
						got.least[c] != want.least[c] ||
						got.most[c] != want.most[c] ||
						got.present != want.present {
						t.Fatalf(
							"%s, %v, cell %d: %d values, %v, %v to %v; want %d, %v, %v to %v", name,
							kind, c, got.n[c], got.sum[c], got.least[c], got.most[c], want.n[c],
							want.sum[c], want.least[c], want.most[c],
						)
					}
				}
			}
		}
	}
	if folded < 900 {
		t.Errorf("%d rows folded", folded)
	}
}
