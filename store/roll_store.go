package store

import (
	"math"

	"culprit/measure"
)

// On disk, a group of a rollup has eight columns over all its rows. The first three have one entry
// per cell of each row, row after row. The others have one entry per cell in which the row has a
// sum.
const (
	keptSum = iota
	keptOffSpan
	keptOffTick
	keptMissing
	// Of rates: how far the least is below the mean of a tick, and the most above it. Absent: 0, or
	// derived from the others.
	keptLeastPart
	keptMostPart
	keptLeast // what is not such a part
	keptMost
	keptColumns

	keptWide = keptMissing // columns before this one have all cells
)

// partScale is the part that represents the mean itself: extremes of rates are stored with this
// resolution, rounded outward.
const partScale = 1 << 16

// rollKind is what the encoding of rollups depends on.
type rollKind struct {
	rate bool
	zero bool    // a row that a tick lacks was 0 in it, and rows add up
	unit float64 // the divisor that makes the amount of one step a rate
}

func (d *set) rollKind() rollKind {
	st := &d.desc.Stat
	return rollKind{
		st.Kind == measure.Delta,
		st.Sparse && st.Fold == measure.Sum,
		d.weight(d.step()),
	}
}

// appendTo appends the row to the stored columns.
func (r *rolled) appendTo(kept *[keptColumns][]float64, k rollKind, cells []cellInfo) {
	for c, sum := range r.columns[rollSum] {
		off := r.columns[rollOffTick][c]
		kept[keptSum] = append(kept[keptSum], sum)
		kept[keptOffSpan] = append(kept[keptOffSpan], r.columns[rollOffSpan][c])
		kept[keptOffTick] = append(kept[keptOffTick], off)
		if sum != sum {
			continue
		}
		missing := r.columns[rollMissing][c]
		e := extremes{
			sum:   sum,
			n:     float64(cells[c].ticks) - missing,
			zeros: k.zero && missing-float64(cells[c].partial.ticks)-orZero(off) > 0,
		}
		e.least, e.most = r.columns[rollLeast][c], r.columns[rollMost][c]
		if e.zeros {
			e.least, e.most = min(e.least, 0), max(e.most, 0)
		}
		e.pack(k)
		kept[keptMissing] = append(kept[keptMissing], missing)
		kept[keptLeastPart] = append(kept[keptLeastPart], e.leastPart)
		kept[keptMostPart] = append(kept[keptMostPart], e.mostPart)
		kept[keptLeast] = append(kept[keptLeast], e.least)
		kept[keptMost] = append(kept[keptMost], e.most)
	}
}

func orZero(v float64) float64 {
	if v != v {
		return 0
	}
	return v
}

// extremes are the least and most of the ticks in one cell of a row.
type extremes struct {
	sum, n              float64
	zeros               bool // it was 0 in some tick
	least, most         float64
	leastPart, mostPart float64
}

// above returns the rate that is part/partScale times the mean of a tick; below the mean times
// partScale/part.
func (e *extremes) above(k rollKind, part float64) float64 {
	return part * (e.sum / (e.n * k.unit * partScale))
}
func (e *extremes) below(k rollKind, part float64) float64 {
	return e.sum / (e.n * k.unit) * partScale / part
}

// pack clears what unpack can derive and converts extremes of rates to parts.
func (e *extremes) pack(k rollKind) {
	e.leastPart, e.mostPart = absent(), absent()
	if !k.rate {
		mean := e.sum / e.n
		other := e.least
		if e.zeros {
			other = mean
			if e.least == 0 {
				e.least = absent()
			}
		}
		if same(e.most, other) {
			e.most = absent()
			if !e.zeros && same(e.least, mean) {
				e.least = absent()
			}
		}
		return
	}
	least, most := e.least, e.most
	e.least, e.most = absent(), absent()
	if most != 0 || math.Signbit(most) {
		enough := func(p float64) bool { return e.above(k, p) >= most }
		if p, ok := partOf(most, most*e.n*k.unit/e.sum, enough); ok &&
			e.above(k, p) <= most*(1+1.5/partScale) {
			e.mostPart = p
			if below := e.above(k, p-1); e.n == 1 && !e.zeros && below <= least && least <= most {
				return
			}
		} else {
			e.most = outward(most, 1)
		}
	}
	if least != 0 || math.Signbit(least) || e.n == 1 && !e.zeros && !isAbsent(e.mostPart) {
		enough := func(p float64) bool { return e.below(k, p) <= least }
		if p, ok := partOf(least, e.sum/(e.n*k.unit)/least, enough); ok &&
			e.below(k, p) >= least*(1-1.5/partScale) {
			e.leastPart = p
		} else {
			e.least = outward(least, -1)
		}
	}
}

// partOf returns the least integer for which enough holds, near a ratio of a bound to the mean;
// false when it cannot be stored.
func partOf(bound, ratio float64, enough func(p float64) bool) (p float64, ok bool) {
	if !(bound > 0) || !(ratio > 0.25 && ratio < 1<<24) {
		return 0, false
	}
	p = math.Ceil(ratio * partScale)
	for enough(p - 1) {
		p--
	}
	for !enough(p) {
		p++
	}
	return p, true
}

func same(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// unpack restores what pack cleared.
func (e *extremes) unpack(k rollKind) {
	if !k.rate {
		mean := e.sum / e.n
		if isAbsent(e.least) {
			e.least = mean
			if e.zeros {
				e.least = 0
			}
		}
		if isAbsent(e.most) {
			e.most = e.least
			if e.zeros {
				e.most = mean
			}
		}
		return
	}
	once := e.n == 1 && !e.zeros && !isAbsent(e.mostPart)
	switch {
	case !isAbsent(e.leastPart):
		e.least = e.below(k, e.leastPart)
	case !isAbsent(e.least):
	case once:
		e.least = e.above(k, e.mostPart-1)
	default:
		e.least = 0
	}
	switch {
	case !isAbsent(e.mostPart):
		e.most = e.above(k, e.mostPart)
	case isAbsent(e.most):
		e.most = 0
	}
}

// rollGroup is a group of a rollup that is being read.
type rollGroup struct {
	columns [keptColumns][]float64
	packed  group
	from    []int // per row, and after the last: number of sums before it
}

// maxRollGroup limits the cells of all rows of a group.
const maxRollGroup = 1 << 21

// open parses the bytes of a group of the given number of rows.
func (g *rollGroup) open(c *codec, b []byte, rows, cells int) error {
	if rows*cells > maxRollGroup {
		return errCorrupt
	}
	all := rows * cells
	open := &g.packed
	err := open.open(c, b, func(heads []rowHead) int {
		if len(heads) < keptWide {
			return all
		}
		return heads[keptSum].n
	})
	if err != nil {
		return err
	}
	if len(open.heads) != keptColumns {
		return errCorrupt
	}
	for k := range g.columns {
		n := open.heads[k].all
		if cap(g.columns[k]) < n {
			g.columns[k] = make([]float64, n)
		}
		g.columns[k] = g.columns[k][:n]
		if err := open.row(k, g.columns[k]); err != nil {
			return err
		}
	}
	g.from = g.from[:0]
	n := 0
	for i, v := range g.columns[keptSum] {
		if i%cells == 0 {
			g.from = append(g.from, n)
		}
		n += b2i(v == v)
	}
	return nil
}

// row returns the cells of a row.
func (g *rollGroup) row(i int, k rollKind, cells []cellInfo, out *[rollColumns][]float64) {
	at, n := i*len(cells), g.from[i]
	for c := range cells {
		sum, off := g.columns[keptSum][at+c], g.columns[keptOffTick][at+c]
		out[rollSum][c], out[rollOffTick][c] = sum, off
		out[rollOffSpan][c] = g.columns[keptOffSpan][at+c]
		if sum != sum {
			out[rollMissing][c], out[rollLeast][c], out[rollMost][c] = absent(), absent(), absent()
			continue
		}
		missing := g.columns[keptMissing][n]
		e := extremes{
			sum:   sum,
			n:     float64(cells[c].ticks) - missing,
			zeros: k.zero && missing-float64(cells[c].partial.ticks)-orZero(off) > 0,
		}
		e.leastPart, e.mostPart = g.columns[keptLeastPart][n], g.columns[keptMostPart][n]
		e.least, e.most = g.columns[keptLeast][n], g.columns[keptMost][n]
		e.unpack(k)
		out[rollMissing][c], out[rollLeast][c], out[rollMost][c] = missing, e.least, e.most
		n++
	}
}
