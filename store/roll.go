package store

import (
	"math"

	"culprit/measure"
)

// A rollup has six columns per row, with one value per cell. All six are absent when the cell has
// nothing of the row.
const (
	rollSum     = iota // of the amounts or states
	rollLeast          // of the rates or states of single ticks
	rollMost           // of the rates or states of single ticks
	rollMissing        // measured ticks of the cell without a value
	// Nanoseconds of non-partial ticks in which the row is unknown, minus those of partial ticks in
	// which it is known. A cell counts its partial ticks as unknown for all rows.
	rollOffSpan
	rollOffTick // the same as a number of ticks
	rollColumns
)

// cellInfo is one cell of a rollup.
type cellInfo struct {
	at      measure.Time // its end
	elapsed measure.Span // measured
	ticks   uint32       // measured
	partial unknownTime  // its partial ticks
}

// rolled is one row of a rollup in progress.
type rolled struct {
	columns [rollColumns][]float64
}

func (r *rolled) reset(cells int) {
	for i := range r.columns {
		c := r.columns[i]
		if cap(c) < cells {
			c = make([]float64, cells)
		}
		r.columns[i] = c[:cells]
		fillWith(r.columns[i], absent())
	}
}

// rollTicks returns the cells of ticks, and the cell of each tick; -1 when it was not measured.
func rollTicks(ticks []tick, span measure.Span) (cells []cellInfo, cellOf []int32) {
	cellOf = make([]int32, len(ticks))
	for i, t := range ticks {
		cellOf[i] = -1
		if t.elapsed <= 0 {
			continue
		}
		end := measure.Time((slotOf(t.at, span) + 1) * int64(span))
		if n := len(cells); n == 0 || cells[n-1].at != end {
			cells = append(cells, cellInfo{at: end})
		}
		c := &cells[len(cells)-1]
		cellOf[i] = int32(len(cells) - 1)
		c.elapsed += t.elapsed
		c.ticks++
		if t.partial {
			c.partial.span += t.elapsed
			c.partial.ticks++
		}
	}
	return cells, cellOf
}

func plus(v *float64, d float64) {
	if *v != *v {
		*v = 0
	}
	*v += d
}

// rollPlan describes how the ticks of a block become cells, the same for all its rows.
type rollPlan struct {
	stretches []stretch // of measured ticks
	weights   []float64 // per tick; nil when values are states
	partial   bool      // some tick is partial
}

func planRoll(d *set, b *block, cellOf []int32) (p rollPlan) {
	for t, at := range b.ticks {
		if d.desc.Stat.Kind == measure.Delta {
			p.weights = append(p.weights, d.weight(at.elapsed))
		}
		p.partial = p.partial || at.partial
		c := cellOf[t]
		if n := len(p.stretches); n > 0 && p.stretches[n-1].cell == c &&
			p.stretches[n-1].to == int32(t) {
			p.stretches[n-1].to++
		} else if c >= 0 {
			p.stretches = append(p.stretches, stretch{c, int32(t), int32(t) + 1})
		}
	}
	return p
}

// ticks rolls up the values of a row over ticks.
func (r *rolled) ticks(values []float64, ticks []tick, p *rollPlan, cells []cellInfo) {
	for _, st := range p.stretches {
		c, v := st.cell, values[st.from:st.to]
		if !p.partial {
			var sum, least, most float64
			if p.weights != nil {
				sum, least, most = extentRates(v, p.weights[st.from:st.to])
			} else {
				sum, least, most = extent(v)
			}
			if sum == sum { // each tick has a value
				r.add(c, len(v), sum, least, most, cells)
				continue
			}
		}
		for i, v := range v {
			t := int(st.from) + i
			partial := ticks[t].partial
			if v != v {
				if !isAbsent(v) && !partial {
					plus(&r.columns[rollOffSpan][c], float64(ticks[t].elapsed))
					plus(&r.columns[rollOffTick][c], 1)
				}
				continue
			}
			if partial {
				plus(&r.columns[rollOffSpan][c], -float64(ticks[t].elapsed))
				plus(&r.columns[rollOffTick][c], -1)
			}
			x := v
			if p.weights != nil && v != 0 {
				x = v / p.weights[t]
			}
			r.add(c, 1, v, x, x, cells)
		}
	}
}

// add adds ticks to a cell.
func (r *rolled) add(c int32, ticks int, sum, least, most float64, cells []cellInfo) {
	missing := &r.columns[rollMissing][c]
	if *missing != *missing {
		r.columns[rollSum][c], r.columns[rollLeast][c], r.columns[rollMost][c] = sum, least, most
		*missing = float64(int(cells[c].ticks) - ticks)
		return
	}
	*missing -= float64(ticks)
	r.columns[rollSum][c] += sum
	if least < r.columns[rollLeast][c] {
		r.columns[rollLeast][c] = least
	}
	if most > r.columns[rollMost][c] {
		r.columns[rollMost][c] = most
	}
}

// outward rounds a rate to 24 bits, away from the values that it bounds. The rate of an amount uses
// all 53 bits of a number and would dominate the size of rollups.
func outward(v float64, to int) float64 {
	f := float32(v)
	if v != v || float64(f) == v || math.IsInf(float64(f), 0) {
		return v
	}
	if (float64(f) < v) == (to > 0) {
		f = math.Nextafter32(f, float32(math.Inf(to)))
	}
	return float64(f)
}

// cells adds the cells of another rollup of the row: cell i is added to cell into[i]. rollMissing
// is recomputed for the resulting cells.
func (r *rolled) cells(of *[rollColumns][]float64, into []int32, theirs, ours []cellInfo) {
	for i, c := range into {
		if s := of[rollSum][i]; s == s {
			had := float64(theirs[i].ticks) - of[rollMissing][i]
			if m := &r.columns[rollMissing][c]; *m != *m {
				*m = float64(ours[c].ticks) - had
				r.columns[rollSum][c] = s
				r.columns[rollLeast][c], r.columns[rollMost][c] = of[rollLeast][i], of[rollMost][i]
			} else {
				*m -= had
				r.columns[rollSum][c] += s
				r.columns[rollLeast][c] = min(r.columns[rollLeast][c], of[rollLeast][i])
				r.columns[rollMost][c] = max(r.columns[rollMost][c], of[rollMost][i])
			}
		}
		if o := of[rollOffTick][i]; o == o {
			plus(&r.columns[rollOffSpan][c], of[rollOffSpan][i])
			plus(&r.columns[rollOffTick][c], o)
		}
	}
}

// mostOf returns the most where none is stored, of n ticks. The rate of a single tick was rounded
// down and up.
func mostOf(least, n float64, rate bool) float64 {
	if !rate || n != 1 {
		return least
	}
	return float64(math.Nextafter32(float32(least), float32(math.Inf(1))))
}

// restore fills in the values that segments before version 4 omit.
func restore(columns *[rollColumns][]float64, cells []cellInfo, rate bool) {
	for c, sum := range columns[rollSum] {
		if sum != sum {
			continue
		}
		least, most := &columns[rollLeast][c], &columns[rollMost][c]
		n := float64(cells[c].ticks) - columns[rollMissing][c]
		if isAbsent(*least) {
			*least = sum / n
		}
		if isAbsent(*most) {
			*most = mostOf(*least, n, rate)
		}
	}
}
