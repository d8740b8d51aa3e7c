package prom

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"culprit/measure"
)

const (
	day = 24 * 60 * measure.Minute

	// budget is how many cells a row has at most where a coarser cell gives the same answer: 3 hours at one second.
	budget = 11000

	// maxCells is how many cells a question may have, rows or no rows: two months of seconds.
	maxCells = 5_000_000

	// A question to the reader has firstChunk cells as long as the number of rows isn't known, then as many as make about
	// chunkValues values, at most chunk: so that too much is noticed before it is in memory.
	firstChunk, chunkValues, chunk = 300, 1_000_000, 4096
)

// steps are the lengths of cells, each a part of the hour and of the day, so that cells end at midnight.
// table: a constant that Go cannot spell as one
var steps = []measure.Span{
	measure.Second, 2 * measure.Second, 5 * measure.Second, 10 * measure.Second, 15 * measure.Second, 30 * measure.Second,
	measure.Minute, 2 * measure.Minute, 5 * measure.Minute, 10 * measure.Minute, 15 * measure.Minute, 30 * measure.Minute, 60 * measure.Minute,
}

// coarser are the resolutions that an archive may still have of a time of which it has no finer one.
var coarser = []measure.Span{measure.Minute, 60 * measure.Minute} // table: a constant that Go cannot spell as one

// errTooMuch says that a question would bring more values into memory than is allowed.
var errTooMuch = errors.New("query would load too many samples: ask for a shorter time, fewer rows, or a longer step")

// stretch is a part of the time that was asked for, in cells of one length.
type stretch struct {
	start   measure.Time
	step    measure.Span
	elapsed []measure.Span
}

func (s *stretch) end() measure.Time { return s.start.Add(s.step * measure.Span(len(s.elapsed))) }

// table is what a reader told of one metric: stretches in order of time, and rows that have cells in each.
type table struct {
	cell      measure.Span // length between the samples to be made
	now       measure.Time
	stretches []stretch
	rows      []*row
	index     map[string]int
	loss      []measure.Loss
	notes     []string
}

// row is one combination of labels. values[s] and dists[s] belong to stretch s; nil = nothing there.
type row struct {
	key    []string
	values [][]float64
	dists  [][]measure.Dist
	before float64        // amounts from midnight to the first stretch
	past   []measure.Dist // likewise
}

// asker asks a reader for rows and counts what it gets.
type asker struct {
	reader measure.Reader
	now    measure.Time
	left   int // values that may still be had
}

// fetch gives the rows of the statistic over the time in cells of the given length, or longer ones where the shorter are gone.
// choose picks the values of a series: the means, or the least or greatest in a cell.
func (k *asker) fetch(ctx context.Context, m *metric, terms []measure.Term, over measure.Interval, cell measure.Span, choose func(*measure.Series) []float64) (*table, error) {
	if over.Span()/cell > maxCells {
		return nil, errTooMuch
	}
	t := &table{cell: cell, now: k.now, index: map[string]int{}}
	if err := k.into(ctx, t, m, terms, over, cell, choose); err != nil {
		return nil, err
	}
	for {
		done, err := k.older(ctx, t, m, terms, over, choose)
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
	}
	if (m.shape == counter || m.shape == distribution) && len(t.stretches) > 0 && len(t.rows) > 0 {
		if err := k.lead(ctx, t, m, terms); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// into asks for a time in cells of one length, and appends what comes to the table. A reader that has a part of it in longer cells
// only may answer in these: then it is asked for whole ones, so that none is cut in two.
func (k *asker) into(ctx context.Context, t *table, m *metric, terms []measure.Term, over measure.Interval, cell measure.Span, choose func(*measure.Series) []float64) error {
	n := firstChunk
	for at := over.Start; at < over.End; {
		to := min(at.Add(cell*measure.Span(n)), over.End)
		if int(over.End.Sub(at)/cell)*len(t.rows) > k.left {
			return errTooMuch
		}
		a, err := k.ask(ctx, m, terms, measure.Interval{Start: at, End: to}, cell)
		if err == nil && a.Step > cell {
			long := a.Step
			at, to = floor(at, long), -floor(-to, long)
			a, err = k.ask(ctx, m, terms, measure.Interval{Start: at, End: to}, long)
		}
		if err != nil {
			return err
		}
		if len(a.Elapsed) > 0 && a.Step > 0 {
			t.add(a, choose)
			if k.left -= len(a.Elapsed) * len(a.Series); k.left < 0 {
				return errTooMuch
			}
		}
		at = to
		n = min(max(chunkValues/max(len(a.Series), 1), 64), chunk)
	}
	return nil
}

// ask asks one question. Nothing held is an answer without rows, so each error is one.
func (k *asker) ask(ctx context.Context, m *metric, terms []measure.Term, over measure.Interval, cell measure.Span) (*measure.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return k.reader.Ask(ctx, measure.Query{Stat: m.stat.ID, By: m.by, Where: terms, Over: over, Step: cell})
}

// add appends an answer as a stretch.
func (t *table) add(a *measure.Answer, choose func(*measure.Series) []float64) {
	n, skip := len(t.stretches), 0
	if n > 0 && a.Start < t.stretches[n-1].end() { // never tell a time twice
		skip = min(int((t.stretches[n-1].end().Sub(a.Start)+a.Step-1)/a.Step), len(a.Elapsed))
	}
	t.stretches = append(t.stretches, stretch{a.Start.Add(a.Step * measure.Span(skip)), a.Step, a.Elapsed[skip:]})
	for _, l := range a.Loss {
		if !slices.Contains(t.loss, l) {
			t.loss = append(t.loss, l)
		}
	}
	for _, s := range a.Notes {
		if !slices.Contains(t.notes, s) {
			t.notes = append(t.notes, s)
		}
	}
	key := make([]string, len(a.Query.By))
	for i := range a.Series {
		s := &a.Series[i]
		for j, l := range s.Key {
			key[j] = a.Labels[l]
		}
		r := t.row(key)
		for len(r.values) < n {
			r.values, r.dists = append(r.values, nil), append(r.dists, nil)
		}
		values, dists := choose(s), s.Dists()
		r.values, r.dists = append(r.values, values[min(skip, len(values)):]), append(r.dists, dists[min(skip, len(dists)):])
	}
	for _, r := range t.rows {
		for len(r.values) <= n {
			r.values, r.dists = append(r.values, nil), append(r.dists, nil)
		}
	}
}

func keyText(key []string) string { return strings.Join(key, "\xff") }

func (t *table) row(key []string) *row {
	text := keyText(key)
	i, ok := t.index[text]
	if !ok {
		i = len(t.rows)
		t.index[text] = i
		t.rows = append(t.rows, &row{key: slices.Clone(key)})
	}
	return t.rows[i]
}

// older looks whether the time before the first measured cell is held in longer cells, and if so puts them before the others.
// It says when there is nothing more to look for. Longer cells may hold something there for three reasons. The shorter ones were
// dropped for their age: then they are wanted. The recording began in the middle of one: then no other is measured before. The
// time asked for begins in a gap, and the one that holds its start reaches back before the gap: then the shorter are still there.
func (k *asker) older(ctx context.Context, t *table, m *metric, terms []measure.Term, over measure.Interval, choose func(*measure.Series) []float64) (done bool, err error) {
	step := t.cell
	if len(t.stretches) > 0 {
		step = t.stretches[0].step
	}
	first, found := over.End, false
	for _, s := range t.stretches {
		if c := slices.IndexFunc(s.elapsed, func(e measure.Span) bool { return e > 0 }); c >= 0 {
			first, found = s.start.Add(s.step*measure.Span(c)), true
			break
		}
	}
	for i, c := range coarser {
		if c <= step || first.Sub(over.Start) < min(c, coarser[0]) {
			continue
		}
		head := &table{cell: t.cell, now: t.now, index: map[string]int{}}
		from, whole, to := floor(over.Start, c), floor(first, c), -floor(-first, c)
		if err := k.into(ctx, head, m, terms, measure.Interval{Start: from, End: to}, c, choose); err != nil {
			return true, err
		}
		if found && !head.measured(from, whole) || !head.measured(from, to) {
			continue
		}
		for _, finer := range append([]measure.Span{step}, coarser[:i]...) {
			for _, beside := range []measure.Interval{{Start: from, End: over.Start}, {Start: over.End, End: to}} {
				beside.Start = floor(beside.Start, finer)
				if beside.Start >= beside.End || finer < step {
					continue
				}
				a, err := k.ask(ctx, m, terms, beside, finer)
				if err != nil {
					return true, err
				}
				if a.Step == finer && slices.ContainsFunc(a.Elapsed, func(e measure.Span) bool { return e > 0 }) {
					return true, nil
				}
			}
		}
		if !head.measured(whole, to) {
			to = whole
		}
		t.cut(to)
		t.prepend(head, to)
		return false, nil
	}
	return true, nil
}

// measured says whether a cell between two times was measured.
func (t *table) measured(from, to measure.Time) bool {
	for _, s := range t.stretches {
		for i, e := range s.elapsed {
			if e > 0 && s.start.Add(s.step*measure.Span(i)) >= from && s.start.Add(s.step*measure.Span(i+1)) <= to {
				return true
			}
		}
	}
	return false
}

// cut forgets the cells that end at the time or earlier.
func (t *table) cut(by measure.Time) {
	for n := range t.stretches {
		s := &t.stretches[n]
		gone := min(max(int(by.Sub(s.start)/s.step), 0), len(s.elapsed))
		s.start, s.elapsed = s.start.Add(s.step*measure.Span(gone)), s.elapsed[gone:]
		for _, r := range t.rows {
			if r.values[n] != nil {
				r.values[n] = r.values[n][gone:]
			}
			if r.dists[n] != nil {
				r.dists[n] = r.dists[n][gone:]
			}
		}
	}
}

// prepend puts the stretches of an earlier table, up to a time, before those of this one.
func (t *table) prepend(head *table, to measure.Time) {
	n := len(head.stretches)
	for i := range head.stretches {
		s := &head.stretches[i]
		s.elapsed = s.elapsed[:min(max(int(to.Sub(s.start)/s.step), 0), len(s.elapsed))]
	}
	for _, r := range t.rows {
		r.values = append(make([][]float64, n, n+len(r.values)), r.values...)
		r.dists = append(make([][]measure.Dist, n, n+len(r.dists)), r.dists...)
	}
	for _, h := range head.rows {
		r := t.row(h.key)
		for len(r.values) < n+len(t.stretches) {
			r.values, r.dists = append(r.values, nil), append(r.dists, nil)
		}
		copy(r.values, h.values)
		copy(r.dists, h.dists)
	}
	t.stretches = append(head.stretches, t.stretches...)
	for _, l := range head.loss {
		if !slices.Contains(t.loss, l) {
			t.loss = append(t.loss, l)
		}
	}
	for _, s := range head.notes {
		if !slices.Contains(t.notes, s) {
			t.notes = append(t.notes, s)
		}
	}
}

// lead gives each row what it gathered between the midnight before the first stretch and that stretch, so that the value of a
// counter at a time is the same whatever time was asked for. It asks in hours, then in minutes, then in cells.
func (k *asker) lead(ctx context.Context, t *table, m *metric, terms []measure.Term) error {
	end := t.stretches[0].start
	at := floor(end, day)
	for _, c := range []measure.Span{60 * measure.Minute, measure.Minute, t.stretches[0].step} {
		to := floor(end, c)
		if to <= at {
			continue
		}
		a, err := k.ask(ctx, m, terms, measure.Interval{Start: at, End: to}, c)
		if err != nil {
			return err
		}
		inside := func(i int) bool {
			return i < len(a.Elapsed) && a.Start.Add(a.Step*measure.Span(i)) >= at && a.Start.Add(a.Step*measure.Span(i+1)) <= to
		}
		key := make([]string, len(a.Query.By))
		for i := range a.Series {
			s := &a.Series[i]
			for j, l := range s.Key {
				key[j] = a.Labels[l]
			}
			n, ok := t.index[keyText(key)]
			if !ok {
				continue
			}
			r := t.rows[n]
			for i, v := range s.Values {
				if v == v && inside(i) {
					r.before += m.amount(v, a.Elapsed[i])
				}
			}
			for i, d := range s.Dists() {
				if len(d.Counts) > 0 && inside(i) {
					r.past = append(r.past, d)
				}
			}
		}
		at = to
	}
	return nil
}

// amount gives back the amount in the statistic's own unit of which a reader made a rate. Where the product is a whole number
// but for the last bits, it is that number: amounts are counted, and sums of them must be the same however they are cut.
func (m *metric) amount(rate float64, elapsed measure.Span) float64 {
	v := rate * elapsed.Seconds()
	if m.stat.Unit == measure.Nanoseconds {
		v = rate * float64(elapsed)
	}
	if r := math.Round(v); math.Abs(v-r) <= 8*0x1p-52*math.Abs(v) {
		return r
	}
	return v
}

// floor gives the multiple of the span at or before t.
func floor(t measure.Time, s measure.Span) measure.Time {
	r := t % measure.Time(s)
	if r < 0 {
		r += measure.Time(s)
	}
	return t - r
}
