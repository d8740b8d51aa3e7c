package dataset

import (
	"slices"

	"culprit/measure"
)

// recordedStat contains one statistic's ticks: cells[t][i] is the value of row i in tick t. A tick
// has the rows known by then; a later row has the value of an absent row there. So a row takes four
// or eight bytes per tick, eight more, and its key. Statistics of one object share the keys: a
// connection is a row in more than ten.
type recordedStat struct {
	st   *measure.Stat
	by   []string
	keys *rows
	// Number of rows while row i has key i, which mostly stays true; otherwise rowKeys and rowOfKey
	// map them.
	sameAsKeys int
	rowKeys    []int32 // the key of each row
	rowOfKey   []int32 // per key 1 + its row, 0 when it has none; may be shorter than keys
	next       int     // the row that most likely comes next
	shape      measure.Shape
	// The rows of the newest answer, which had shape; nil while row i of the answer is row i.
	places  []int32
	cells   []column
	dists   [][]measure.Dist
	elapsed []measure.Span
	loss    []measure.Loss
	notes   []string
}

// column contains the value of each row in a tick, or amounts that are divided by over. Most values
// are counts, or nanoseconds of whole microseconds, which fit into four bytes without loss.
type column struct {
	narrow []float32 // if all values fit
	wide   []float64 // otherwise
	over   measure.Span
}

// columnOf makes a column from cells, which it does not keep. If the values are equal to before's,
// the columns share them.
func columnOf(cells []float64, over measure.Span, before *column) column {
	if before != nil && before.len() == len(cells) {
		same := true
		for i, v := range cells {
			if w := before.at(i); !(v == w || v != v && w != w) {
				same = false
				break
			}
		}
		if same {
			return column{before.narrow, before.wide, over}
		}
	}
	thin := make([]float32, len(cells))
	for i, v := range cells {
		if thin[i] = float32(v); float64(thin[i]) != v && v == v {
			return column{wide: slices.Clone(cells), over: over}
		}
	}
	return column{narrow: thin, over: over}
}

func (c *column) len() int { return len(c.narrow) + len(c.wide) }

func (c *column) at(i int) float64 {
	if c.narrow != nil {
		return float64(c.narrow[i])
	}
	return c.wide[i]
}

func (k *recordedStat) len() int { return max(k.sameAsKeys, len(k.rowKeys)) }

func (k *recordedStat) key(i int) []measure.Label {
	if k.rowKeys != nil {
		i = int(k.rowKeys[i])
	}
	return k.keys.key(i)
}

// row returns the row of a key, and whether it was added.
func (k *recordedStat) row(key []measure.Label) (i int, fresh bool) {
	// Most rows come in the same order in each tick.
	if i = k.next; i < k.len() && equal(k.key(i), key) {
		k.next++
		return i, false
	}
	// another statistic added the key
	if i == k.len() && k.rowKeys == nil && i < k.keys.len() && equal(k.keys.key(i), key) {
		k.sameAsKeys++
		k.next++
		return i, true
	}
	n, _ := k.keys.row(key)
	if k.rowKeys == nil {
		switch {
		case n == k.sameAsKeys:
			k.sameAsKeys++
			k.next = k.sameAsKeys
			return n, true
		case n < k.sameAsKeys:
			k.next = n + 1
			return n, false
		}
		k.rowKeys, k.rowOfKey = make([]int32, k.sameAsKeys), make([]int32, k.keys.len())
		for i := range k.rowKeys {
			k.rowKeys[i], k.rowOfKey[i] = int32(i), int32(i+1)
		}
	}
	if n >= len(k.rowOfKey) {
		k.rowOfKey = append(k.rowOfKey, make([]int32, k.keys.len()-len(k.rowOfKey))...)
	}
	if k.rowOfKey[n] == 0 {
		k.rowKeys = append(k.rowKeys, int32(n))
		k.rowOfKey[n], fresh = int32(len(k.rowKeys)), true
	}
	i = int(k.rowOfKey[n] - 1)
	k.next = i + 1
	return i, fresh
}

// joinTicks merges tick t and the next one, the last.
func (k *recordedStat) joinTicks(t int) {
	one, other := k.elapsed[t], k.elapsed[t+1]
	if k.st.Kind == measure.Dists {
		for i := range k.dists[t] {
			d := &k.dists[t+1][i]
			if len(d.Counts) == 0 {
				d.Base = k.dists[t][i].Base
			}
			d.Merge(k.dists[t][i])
		}
		k.dists = append(k.dists[:t], k.dists[t+1])
	} else {
		cells := make([]float64, k.len())
		for i := range cells {
			a, b := k.cell(i, t, k.st.Sparse), k.cell(i, t+1, k.st.Sparse)
			switch {
			case one <= 0 || a != a:
				cells[i] = b
			case other <= 0 || b != b:
				cells[i] = a
			default: // rates, or states, weighted by their time
				cells[i] = (a*float64(one) + b*float64(other)) / float64(one+other)
			}
		}
		k.cells = append(k.cells[:t], columnOf(cells, 0, nil))
	}
	k.elapsed = append(k.elapsed[:t], one+other)
}

// absentIn returns the value of a row that a tick lacks: 0 if the statistic is sparse and was
// measured, otherwise NaN.
func absentIn(sparse bool, elapsed measure.Span) float64 {
	if sparse && elapsed > 0 {
		return 0
	}
	return measure.NaN
}

// cell returns the value of row i in tick t.
func (k *recordedStat) cell(i, t int, sparse bool) float64 {
	if t < len(k.cells) && i < k.cells[t].len() {
		c := &k.cells[t]
		if c.over > 0 {
			return k.st.Unit.Rate(c.at(i), c.over)
		}
		return c.at(i)
	}
	if t < len(k.elapsed) {
		return absentIn(sparse, k.elapsed[t])
	}
	return measure.NaN
}
