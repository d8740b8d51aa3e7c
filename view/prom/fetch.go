package prom

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"culprit/export"
	"culprit/measure"
)

const (
	day = 24 * 60 * measure.Minute

	// budget is the number of cells per row above which longer cells are used where they give the
	// same answer: 3 hours at one second.
	budget = 11000

	// maxCells is the number of cells per query above which it is refused, whatever the number of
	// rows: two months of seconds.
	maxCells = 5_000_000

	// A request to the reader has firstChunk cells until the number of rows is known. Then it has
	// as many as return about chunkValues values, at most chunk. So a query that is too large is
	// refused before its values are in memory.
	firstChunk, chunkValues, chunk = 300, 1_000_000, 4096
)

// steps are the lengths of cells. Each divides the hour, so that cells end at midnight.
// table: a constant that Go cannot express
var steps = []measure.Span{
	measure.Second, 2 * measure.Second, 5 * measure.Second, 10 * measure.Second,
	15 * measure.Second, 30 * measure.Second, measure.Minute, 2 * measure.Minute,
	5 * measure.Minute, 10 * measure.Minute, 15 * measure.Minute, 30 * measure.Minute,
	60 * measure.Minute,
}

// coarser are the resolutions that an archive may still have after it deleted the finer ones.
// table: a constant that Go cannot express
var coarser = []measure.Span{measure.Minute, 60 * measure.Minute}

// errTooMuch is the error of a query that would load more values than maxSamples.
var errTooMuch = errors.New("query would load too many samples: " +
	"ask for a shorter time, fewer rows, or a longer step")

// stretch is a part of the queried time in cells of one length.
type stretch struct {
	start   measure.Time
	step    measure.Span
	elapsed []measure.Span
}

func (s *stretch) end() measure.Time { return s.start.Add(s.step * measure.Span(len(s.elapsed))) }

// table is the answer for one metric: stretches in order of time, and the rows with their cells.
type table struct {
	cell      measure.Span // interval between the samples to be made
	now       measure.Time
	stretches []stretch
	rows      []*row
	index     map[string]int
	loss      []measure.Loss
	notes     []string
}

// row is one combination of labels. values[s] and dists[s] belong to stretch s; nil means no value.
type row struct {
	key    []string
	values [][]float64
	dists  [][]measure.Dist
	before float64        // amounts from midnight to the first stretch
	past   []measure.Dist // likewise
}

// asker queries a reader and counts the values that it returns.
type asker struct {
	reader measure.Reader
	now    measure.Time
	left   int // values that may still be loaded
}

// fetch returns the rows of the metric over an interval, in cells of the given length, or in longer
// ones where the archive has no shorter ones. choose selects the values of a series. The error is
// errTooMuch or the reader's.
func (k *asker) fetch(ctx context.Context, m *metric, terms []measure.Term, over measure.Interval,
	cell measure.Span, choose choice,
) (*table, error) {
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
	sums := m.shape == export.Counter || m.shape == export.Histogram
	if sums && len(t.stretches) > 0 && len(t.rows) > 0 {
		if err := k.lead(ctx, t, m, terms); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// into queries an interval in cells of one length and appends the answers to the table. A reader
// may answer in longer cells where it has no others. Then the query is repeated for whole cells of
// that length, so that none is cut.
func (k *asker) into(ctx context.Context, t *table, m *metric, terms []measure.Term,
	over measure.Interval, cell measure.Span, choose choice,
) error {
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

// ask makes one query. A reader without data returns an answer without rows, so each error is a
// failure.
func (k *asker) ask(ctx context.Context, m *metric, terms []measure.Term, over measure.Interval,
	cell measure.Span,
) (*measure.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q := measure.Query{Stat: m.stat.ID, By: m.by, Where: terms, Over: over, Step: cell}
	return k.reader.Ask(ctx, q)
}

// add appends an answer as a stretch.
func (t *table) add(a *measure.Answer, choose choice) {
	n, skip := len(t.stretches), 0
	if n > 0 && a.Start < t.stretches[n-1].end() { // no time occurs twice
		late := t.stretches[n-1].end().Sub(a.Start)
		skip = min(int((late+a.Step-1)/a.Step), len(a.Elapsed))
	}
	start := a.Start.Add(a.Step * measure.Span(skip))
	t.stretches = append(t.stretches, stretch{start, a.Step, a.Elapsed[skip:]})
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
		values, dists := choose.of(s), s.Dists()
		r.values = append(r.values, values[min(skip, len(values)):])
		r.dists = append(r.dists, dists[min(skip, len(dists)):])
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

// older looks for longer cells before the first measured cell, and prepends them to the table. It
// reports whether the search is done. Longer cells can contain something there for three reasons:
//   - the archive deleted the shorter ones: then they are used;
//   - the recording began in the middle of a long cell: then no cell before it is measured;
//   - the queried time begins in a gap, and the long cell at its start reaches back before the gap:
//     then the shorter cells still exist.
func (k *asker) older(ctx context.Context, t *table, m *metric, terms []measure.Term,
	over measure.Interval, choose choice,
) (done bool, err error) {
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
		wide := measure.Interval{Start: from, End: to}
		if err := k.into(ctx, head, m, terms, wide, c, choose); err != nil {
			return true, err
		}
		if found && !head.measured(from, whole) || !head.measured(from, to) {
			continue
		}
		finerExists, err := k.finerBeside(ctx, m, terms, over,
			measure.Interval{Start: from, End: to}, append([]measure.Span{step}, coarser[:i]...))
		if err != nil || finerExists {
			return true, err
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

// finerBeside reports whether the parts of the interval wide outside of over were measured in cells
// of one of the finer lengths, the first of which is the shortest that is wanted.
func (k *asker) finerBeside(ctx context.Context, m *metric, terms []measure.Term,
	over, wide measure.Interval, finer []measure.Span,
) (bool, error) {
	for _, cell := range finer {
		for _, beside := range []measure.Interval{
			{Start: wide.Start, End: over.Start}, {Start: over.End, End: wide.End},
		} {
			beside.Start = floor(beside.Start, cell)
			if beside.Start >= beside.End || cell < finer[0] {
				continue
			}
			a, err := k.ask(ctx, m, terms, beside, cell)
			if err != nil {
				return false, err
			}
			measured := func(e measure.Span) bool { return e > 0 }
			if a.Step == cell && slices.ContainsFunc(a.Elapsed, measured) {
				return true, nil
			}
		}
	}
	return false, nil
}

// measured reports whether a cell between two times was measured.
func (t *table) measured(from, to measure.Time) bool {
	for _, s := range t.stretches {
		for i, e := range s.elapsed {
			start := s.start.Add(s.step * measure.Span(i))
			if e > 0 && start >= from && start.Add(s.step) <= to {
				return true
			}
		}
	}
	return false
}

// cut removes the cells that end at the given time or earlier.
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

// prepend inserts the stretches of an earlier table, up to a time, before those of t.
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

// lead sets what each row gathered between the midnight before the first stretch and that stretch.
// So the value of a counter at a time does not depend on the start of the query. It queries hours,
// then minutes, then cells.
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
			start := a.Start.Add(a.Step * measure.Span(i))
			return i < len(a.Elapsed) && start >= at && start.Add(a.Step) <= to
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

// amount returns the amount, in the statistic's own unit, from which a reader computed a rate. A
// product that is a whole number but for rounding becomes that number: amounts are counts, and
// their sum must not depend on the cells.
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

// floor returns the greatest multiple of s that is not after t.
func floor(t measure.Time, s measure.Span) measure.Time {
	r := t % measure.Time(s)
	if r < 0 {
		r += measure.Time(s)
	}
	return t - r
}
