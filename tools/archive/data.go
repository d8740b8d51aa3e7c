package main

import (
	"fmt"
	"math/rand/v2"

	"culprit/measure"
)

// A feed gives the ticks of some datasets, one after the other: the same to every engine.
type feed interface {
	datasets() []measure.Dataset
	// tick gives the batches of the next second, one a dataset, or nothing at the end. They are overwritten by the next.
	tick() tick
}

// tick is what one second brings. A sample is a value that a row has in that second: scraped has them all. recorded is without the zeros of
// sparse rows, which culprit does not record and tells all the same.
type tick struct{ recorded, scraped []*measure.Batch }

func (t tick) samples() (n int) { return values(t.scraped) }

func values(batches []*measure.Batch) (n int) {
	for _, b := range batches {
		if b != nil {
			n += len(b.Values)
		}
	}
	return n
}

const (
	noisyDatasets = 50
	noisyRows     = 100
)

// noisy is 5,000 series that a codec can't foresee much of: two fifths are counts around a level that drifts, each tick some
// per cent off; three tenths are sizes that take steps; three tenths rest, and jump now and then.
type noisy struct {
	at, left measure.Time // of the tick before; ticks left
	rnd      *rand.Rand
	sets     []measure.Dataset
	batches  []*measure.Batch
	level    []float64
}

func newNoisy(start measure.Time, seconds int) *noisy {
	n := &noisy{at: start, left: measure.Time(seconds), rnd: rand.New(rand.NewPCG(7, 11)), level: make([]float64, noisyDatasets*noisyRows)}
	for d := range noisyDatasets {
		st := measure.Stat{ID: measure.StatID(fmt.Sprintf("noisy.s%02d.value", d)), Kind: measure.Delta, Unit: measure.Bytes,
			Fields: []measure.Field{{Name: "row", Type: measure.Word}}}
		if d%10 >= 4 {
			st.Kind = measure.Level
		}
		n.sets = append(n.sets, measure.Dataset{Query: measure.Query{Stat: st.ID, By: []string{"row"}, Step: measure.Second}, Stat: st,
			Created: start, State: measure.Recording, Creator: "bench"})
		b := &measure.Batch{Stat: st.ID, By: []string{"row"}, Values: make([]float64, noisyRows)}
		for r := range noisyRows {
			b.Labels = append(b.Labels, fmt.Sprintf("row-%d", r))
			b.Keys = append(b.Keys, measure.Label(r))
			n.level[d*noisyRows+r] = float64(10 + n.rnd.IntN(100_000)>>n.rnd.IntN(12))
		}
		n.batches = append(n.batches, b)
	}
	return n
}

func (n *noisy) datasets() []measure.Dataset { return n.sets }

func (n *noisy) tick() tick {
	if n.left == 0 {
		return tick{}
	}
	n.left--
	over := measure.Interval{Start: n.at, End: n.at.Add(measure.Second)}
	n.at = over.End
	for d, b := range n.batches {
		b.Over = over
		for r := range b.Values {
			l := &n.level[d*noisyRows+r]
			switch {
			case d%10 < 4:
				*l = max(0, *l+n.rnd.NormFloat64()**l*0.002)
				b.Values[r] = float64(int64(max(0, *l*(1+n.rnd.NormFloat64()*0.05))))
			case d%10 < 7:
				if n.rnd.IntN(3) == 0 {
					*l = max(0, *l+float64(n.rnd.IntN(64)-32))
				}
				b.Values[r] = float64(int64(*l)) * 4096
			default:
				if n.rnd.IntN(200) == 0 {
					*l = float64(n.rnd.IntN(1000))
				}
				b.Values[r] = float64(int64(*l))
			}
		}
	}
	return tick{n.batches, n.batches}
}
