package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"culprit/measure"
	"culprit/store"
)

// replay gives the ticks of an archive that culprit recorded on a machine, a minute in memory at a time.
type replay struct {
	s        *store.Store
	sets     []measure.Dataset
	from, to measure.Time
	at       measure.Time // the start of the next stretch
	stretch  []tick
	next     int
}

const stretch = measure.Minute // of what is read at once: an answer has a largest size

func newReplay(dir string) (*replay, error) {
	s, err := store.OpenReadOnly(dir)
	if err != nil {
		return nil, err
	}
	r := &replay{s: s}
	for _, d := range s.Datasets() {
		over := s.Held(d.ID).Over
		if over.Span() <= 0 || d.Query.Step != measure.Second || d.Stat.Kind == measure.Dists || len(d.Query.Where) > 0 {
			continue
		}
		if r.from == 0 || over.Start < r.from {
			r.from = over.Start
		}
		r.to = max(r.to, over.End)
		r.sets = append(r.sets, d)
	}
	if len(r.sets) == 0 {
		return nil, errors.New("the archive holds nothing")
	}
	r.from = r.from / measure.Time(measure.Second) * measure.Time(measure.Second)
	r.at = r.from
	return r, nil
}

func (r *replay) datasets() []measure.Dataset { return r.sets }

func (r *replay) tick() tick {
	for {
		for r.next < len(r.stretch) {
			t := r.stretch[r.next]
			r.next++
			for _, b := range t.recorded {
				if b != nil {
					return t
				}
			}
		}
		if r.at >= r.to {
			return tick{}
		}
		if err := r.read(); err != nil {
			panic(fmt.Errorf("replay: %w", err))
		}
	}
}

// read makes batches of the next stretch. A rate times its measured time is the amount that was recorded, but for rounding. A sparse row has its
// zeros from its first to its last value within a stretch: a scrape would have had them.
func (r *replay) read() error {
	over := measure.Interval{Start: r.at, End: r.at.Add(stretch)}
	r.at = over.End
	r.next, r.stretch = 0, make([]tick, stretch/measure.Second)
	for i := range r.stretch {
		r.stretch[i] = tick{make([]*measure.Batch, len(r.sets)), make([]*measure.Batch, len(r.sets))}
	}
	for d := range r.sets {
		if err := r.fill(d, over.Start, over); err != nil {
			return err
		}
	}
	return nil
}

// fill makes the batches of one dataset over a part of the stretch that begins at start; what is too large an answer becomes two.
func (r *replay) fill(d int, start measure.Time, over measure.Interval) error {
	set := &r.sets[d]
	q := set.Query
	q.Over, q.Step = over, measure.Second
	a, err := r.s.Ask(context.Background(), q)
	if middle := over.Start.Add(over.Span() / 2 / measure.Second * measure.Second); errors.Is(err, measure.ErrTooLarge) && middle > over.Start {
		err = r.fill(d, start, measure.Interval{Start: over.Start, End: middle})
		if err == nil {
			err = r.fill(d, start, measure.Interval{Start: middle, End: over.End})
		}
		return err
	}
	if err != nil {
		return err
	}
	first, last := make([]int, len(a.Series)), make([]int, len(a.Series))
	for i, s := range a.Series {
		first[i] = len(s.Values)
		for c, v := range s.Values {
			if v == v && (v != 0 || !a.Sparse) {
				first[i], last[i] = min(first[i], c), c
			}
		}
	}
	for c, elapsed := range a.Elapsed {
		end := a.Start.Add(a.Step * measure.Span(c+1))
		slot := int(end.Sub(start)/measure.Second) - 1
		if elapsed <= 0 || slot < 0 || slot >= len(r.stretch) {
			continue
		}
		recorded := &measure.Batch{Stat: set.Stat.ID, By: q.By, Over: measure.Interval{Start: end.Add(-elapsed), End: end}, Labels: a.Labels}
		scraped := recorded
		if a.Sparse {
			scraped = new(*recorded)
		}
		for i, s := range a.Series {
			v := s.Values[c]
			if v != v || c < first[i] || c > last[i] {
				continue
			}
			if a.Kind == measure.Delta {
				v /= set.Stat.Unit.Rate(1, elapsed)
				if whole := math.Round(v); math.Abs(v-whole) < 1e-6*math.Max(1, whole) {
					v = whole
				}
			}
			scraped.Keys, scraped.Values = append(scraped.Keys, s.Key...), append(scraped.Values, v)
			if a.Sparse && v != 0 {
				recorded.Keys, recorded.Values = append(recorded.Keys, s.Key...), append(recorded.Values, v)
			}
		}
		r.stretch[slot].recorded[d], r.stretch[slot].scraped[d] = recorded, scraped
	}
	return nil
}
