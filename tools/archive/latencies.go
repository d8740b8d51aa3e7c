package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"culprit/measure"
	"culprit/store"
)

const latencyRows = 20

// latencies records the last day of a distribution, bench.latency by process, into the directory of
// a server that is started on it afterwards. Each of 20 processes has about 300 values per second
// in two bands: 19 of 20 around 100 us, one around 20 ms.
func latencies(dir string) error {
	const seconds = 24 * 3600
	start := measure.Time(time.Now().Unix()-seconds) * measure.Time(measure.Second)
	st := measure.Stat{
		ID: "bench.latency", Kind: measure.Dists, Unit: measure.Nanoseconds, Sparse: true,
		Fields: []measure.Field{{Name: "process", Type: measure.Word}},
	}
	q := measure.Query{Stat: st.ID, By: []string{"process"}, Step: measure.Second}
	s, err := store.Open(filepath.Join(dir, "archive"), store.Options{})
	if err != nil {
		return err
	}
	id, err := s.Save(measure.Dataset{
		Query: q, Stat: st, Created: start, State: measure.Recording, Creator: "bench",
	})
	if err != nil {
		return err
	}
	b := &measure.Batch{Stat: st.ID, By: q.By, Dists: make([]measure.Dist, latencyRows)}
	for r := range latencyRows {
		b.Labels = append(b.Labels, fmt.Sprintf("process-%d", r))
		b.Keys = append(b.Keys, measure.Label(r))
	}
	rnd := rand.New(rand.NewPCG(3, 5))
	for n := range seconds {
		at := start.Add(measure.Span(n) * measure.Second)
		b.Over = measure.Interval{Start: at, End: at.Add(measure.Second)}
		for r := range b.Dists {
			b.Dists[r] = twoBands(rnd)
		}
		if err := s.Append(b.Over.End, []uint32{id}, []*measure.Batch{b}); err != nil {
			return err
		}
		if n%60 == 59 {
			s.Settle()
		}
	}
	s.Settle()
	if err := s.Close(); err != nil {
		return err
	}
	fmt.Println(q)
	return nil
}

// twoBands returns the distribution of one process and second.
func twoBands(rnd *rand.Rand) measure.Dist {
	d := measure.Dist{Base: 2}
	for range 6 {
		d.Add(uint64(1e5*(1+rnd.Float64())), 40+rnd.Uint64N(20))
	}
	for range 2 {
		d.Add(uint64(2e7*(1+rnd.Float64())), 6+rnd.Uint64N(4))
	}
	return d
}
