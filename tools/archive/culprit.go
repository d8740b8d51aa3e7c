package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"culprit/measure"
	"culprit/store"
)

// archive is culprit's own.
type archive struct {
	s      *store.Store
	dir    string
	sets   []measure.Dataset
	ids    []uint32
	sums   [][2]uint64  // after each tick: recorded values, and samples
	last   measure.Time // of the newest tick
	waited uint64       // recorded values when what was due was last awaited
	some   []uint32
	part   []*measure.Batch
}

func openArchive(dir string, sets []measure.Dataset, o store.Options) (engine, error) {
	s, err := store.Open(dir, o)
	if err != nil {
		return nil, err
	}
	a := &archive{s: s, dir: dir, sets: sets}
	for _, d := range sets {
		d.ID = 0
		id, err := s.Save(d)
		if err != nil {
			return nil, err
		}
		a.ids = append(a.ids, id)
	}
	return a, nil
}

func (a *archive) put(at measure.Time, t tick) error {
	a.some, a.part = a.some[:0], a.part[:0]
	for i, b := range t.recorded {
		if b != nil {
			a.some, a.part = append(a.some, a.ids[i]), append(a.part, b)
		}
	}
	if err := a.s.Append(at, a.some, a.part); err != nil {
		return err
	}
	a.last = at
	sums := a.newest()
	sums[0], sums[1] = sums[0]+uint64(values(t.recorded)), sums[1]+uint64(t.samples())
	a.sums = append(a.sums, sums)
	// The ticks of five minutes come within a second here: what is due is awaited, or the newest would not fit into memory.
	if len(a.sums)%60 == 0 || sums[0]-a.waited > 400_000 {
		a.s.Settle()
		a.waited = sums[0]
	}
	return nil
}

// newest gives recorded values and samples of all ticks.
func (a *archive) newest() (sums [2]uint64) {
	if len(a.sums) > 0 {
		sums = a.sums[len(a.sums)-1]
	}
	return sums
}

// held gives how many recorded values are in segments.
func (a *archive) held() (n uint64) {
	for _, id := range a.ids {
		n += a.s.Held(id).Samples
	}
	return n
}

// settle has all made into segments, and makes sure that it is there: a comparison in which one side leaves out is none.
func (a *archive) settle() error {
	// Six minutes later comes a tick of one dataset without rows, so that all before it is due.
	at := a.last.Add(6 * measure.Minute)
	none := &measure.Batch{Stat: a.sets[0].Stat.ID, By: a.sets[0].Query.By, Over: measure.Interval{Start: at.Add(-measure.Second), End: at}}
	if err := a.s.Append(at, a.ids[:1], []*measure.Batch{none}); err != nil {
		return err
	}
	a.s.Settle()
	if held, all := a.held(), a.newest()[0]; held != all {
		return fmt.Errorf("the archive holds %d of %d values in segments", held, all)
	}
	return nil
}

// size gives the bytes of Pebble's tables and the samples in them, and the bytes of the whole directory, with the log, and all samples.
func (a *archive) size() (tables, whole space) {
	_ = filepath.Walk(a.dir, func(name string, i os.FileInfo, err error) error {
		if err == nil && i.Mode().IsRegular() {
			whole.Bytes += i.Size()
			if filepath.Ext(name) == ".sst" {
				tables.Bytes += i.Size()
			}
		}
		return nil
	})
	tables.Samples, whole.Samples = a.newest()[1], a.newest()[1]
	return tables, whole
}

func (a *archive) close() error { return a.s.Close() }

// ask gives at most 1,500 columns of each row, with the least and the greatest second of each column.
func (a *archive) ask(from, to measure.Time, datasets int) (cells int, err error) {
	return a.askStep(from, to, datasets, max(measure.Second, (to.Sub(from)/1500+measure.Second-1)/measure.Second*measure.Second))
}

func (a *archive) askStep(from, to measure.Time, datasets int, step measure.Span) (cells int, err error) {
	for d := range datasets {
		q := a.sets[d].Query
		q.Over, q.Step = measure.Interval{Start: from, End: to}, step
		answer, err := a.s.Ask(context.Background(), q)
		if err != nil {
			return 0, err
		}
		for i := range answer.Series {
			cells += len(answer.Series[i].Values)
		}
	}
	if cells == 0 {
		return 0, fmt.Errorf("the archive found nothing")
	}
	return cells, nil
}
