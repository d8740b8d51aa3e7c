package store

import (
	"slices"

	"culprit/measure"
)

// addRolls adds the cells of a rollup. The result is exact for a series of one row. For folded
// rows, sums of amounts are exact, and the least and most are bounds, which boundsOnly records.
func (g *gather) addRolls(b *block, series []int32, several map[int32]int) error {
	type folding struct {
		row  rolled
		left int
	}
	var open map[int32]*folding
	var row rolled
	for i, s := range series {
		if s < 0 {
			continue
		}
		row.reset(len(b.cells))
		if err := b.roll(i, &row.columns); err != nil {
			g.addDamage(b, err)
			row.reset(len(b.cells))
			for c, cell := range b.cells {
				row.columns[rollOffSpan][c] = float64(cell.elapsed - cell.partial.span)
				row.columns[rollOffTick][c] = float64(int32(cell.ticks) - cell.partial.ticks)
			}
		}
		rows := several[s]
		if rows == 0 {
			g.addRollRow(b, g.series[s], &row)
			continue
		}
		f := open[s]
		if f == nil {
			if open == nil {
				open = map[int32]*folding{}
			}
			f = &folding{left: rows}
			f.row.reset(len(b.cells))
			open[s] = f
		}
		g.foldRolls(b, &f.row, &row, f.left == rows)
		if f.left--; f.left == 0 {
			g.addRollRow(b, g.series[s], &f.row)
			delete(open, s)
		}
	}
	return nil
}

// foldRolls folds a row into the previous ones. The least of a sum is at least the sum of the
// leasts; a row that some ticks lack counts as 0 there.
func (g *gather) foldRolls(b *block, into, row *rolled, first bool) {
	g.boundsOnly = true
	fold := g.set.desc.Stat.Fold
	for c := range b.cells {
		sum, missing := row.columns[rollSum][c], row.columns[rollMissing][c]
		least, most := row.columns[rollLeast][c], row.columns[rollMost][c]
		if off := row.columns[rollOffTick][c]; off == off &&
			(first || into.columns[rollOffTick][c] == into.columns[rollOffTick][c]) {
			// The folded row is unknown only where all rows are.
			into.columns[rollOffTick][c] = lesser(into.columns[rollOffTick][c], off)
			into.columns[rollOffSpan][c] = lesser(
				into.columns[rollOffSpan][c], row.columns[rollOffSpan][c],
			)
		} else if sum == sum {
			into.columns[rollOffTick][c], into.columns[rollOffSpan][c] = absent(), absent()
		}
		if sum != sum {
			continue
		}
		if fold == measure.Sum && missing > 0 {
			least, most = min(least, 0), max(most, 0)
		}
		is := &into.columns
		if is[rollSum][c] != is[rollSum][c] {
			is[rollSum][c], is[rollMissing][c] = sum, missing
			is[rollLeast][c], is[rollMost][c] = least, most
			continue
		}
		if fold == measure.Sum {
			is[rollSum][c] += sum
			is[rollMissing][c] = min(is[rollMissing][c], missing)
			is[rollLeast][c] += least
			is[rollMost][c] += most
			continue
		}
		g.approximate = true
		// Folds the means over the cell, because single ticks are not stored. The row with more
		// ticks determines the weight.
		n, m := float64(b.cells[c].ticks)-is[rollMissing][c], float64(b.cells[c].ticks)-missing
		mean, _ := fold.Combine(is[rollSum][c]/n, 1, sum/m)
		is[rollMissing][c] = min(is[rollMissing][c], missing)
		is[rollSum][c] = mean * max(n, m)
		switch fold {
		case measure.Max:
			is[rollLeast][c] = max(is[rollLeast][c], least)
			is[rollMost][c] = max(is[rollMost][c], most)
		case measure.Min:
			is[rollLeast][c] = min(is[rollLeast][c], least)
			is[rollMost][c] = min(is[rollMost][c], most)
		default:
			is[rollLeast][c] = min(is[rollLeast][c], least)
			is[rollMost][c] = max(is[rollMost][c], most)
		}
	}
}

func lesser(a, b float64) float64 {
	if a != a || b < a {
		return b
	}
	return a
}

func (g *gather) addRollRow(b *block, s *gathered, row *rolled) {
	for i := range b.cells {
		c := g.cellOf[i]
		if c < 0 {
			continue
		}
		if off := row.columns[rollOffTick][i]; off == off {
			s.present = true
			s.addUnknown(c, measure.Span(row.columns[rollOffSpan][i]), int32(off))
		}
		sum := row.columns[rollSum][i]
		if sum != sum {
			continue
		}
		s.present = true
		s.sum[c] += sum
		before := s.n[c]
		s.n[c] += b.cells[i].ticks - uint32(row.columns[rollMissing][i])
		if !g.extremes {
			continue
		}
		least, most := row.columns[rollLeast][i], row.columns[rollMost][i]
		if before == 0 {
			s.least[c], s.most[c] = least, most
		} else {
			s.least[c], s.most[c] = min(s.least[c], least), max(s.most[c], most)
		}
	}
}

// piece is a time range that one resolution answers.
type piece struct {
	over       measure.Interval
	resolution uint8
}

// plan divides a time range among resolutions so that no tick counts twice. Ticks in memory are
// always added.
func (g *gather) plan(over measure.Interval) (pieces []piece) {
	d, floors := g.set, g.floors
	fits := func(r uint8) bool {
		span := spanOf(r)
		return g.step%span == 0 && floor(g.start, span) == g.start
	}
	// Folded rows are exact only tick by tick, but distributions merge exactly in any order. A sum
	// over more ticks than can be read in a second or two comes from rollups.
	exact := len(g.query.By) < len(d.desc.Query.By) && !g.sumsOnly &&
		d.desc.Stat.Kind != measure.Dists
	if exact {
		var samples uint64
		for _, e := range d.index[inTicks] {
			if e.over.End > over.Start && e.over.Start < over.End {
				samples += e.samples
			}
		}
		exact = samples < maxExact || d.desc.Stat.Fold != measure.Sum
	}
	at := over.Start
	use := func(r uint8, until measure.Time) {
		if until > at {
			pieces = append(pieces, piece{measure.Interval{Start: at, End: until}, r})
			at = until
		}
	}
	if fits(inMinutes) && (!exact || at < floors[inTicks]) {
		ticksFrom := over.End // ticks answer from here on
		if exact {
			ticksFrom = min(over.End, max(at, floors[inTicks]))
		}
		ticksFrom = floor(ticksFrom, measure.Minute)
		if list := d.index[inHours]; fits(inHours) && len(list) > 0 {
			// The hours end where none is complete yet, and where the query selects part of one.
			use(inHours, floor(min(list[len(list)-1].over.End, ticksFrom), hour))
		}
		use(inMinutes, ticksFrom)
	}
	use(inTicks, over.End)
	return slices.Clip(pieces)
}

// maxExact is the most values that a query reads for the sake of exact extremes.
const maxExact = 300e6

// segmentsFor returns the segments of a piece. A piece of hours includes the minutes that are not
// part of an hour yet.
func (d *set) segmentsFor(p piece) (out []entry) {
	for _, e := range d.index[p.resolution] {
		if e.over.End > p.over.Start && e.over.Start < p.over.End {
			out = append(out, e)
		}
	}
	if p.resolution == inHours {
		for _, e := range d.index[inMinutes] {
			if !e.joins && e.over.End > p.over.Start && e.over.Start < p.over.End {
				out = append(out, e)
			}
		}
	}
	return out
}
