package store

import (
	"slices"

	"culprit/measure"
)

// match returns, per row of a block, its series or -1. in contains the number of rows of series
// with several.
func (g *gather) match(b *block) (series []int32, in map[int32]int, err error) {
	if b.keysID != 0 && b.keysID == g.matchedKeys &&
		(b.alive == nil || g.to-g.from == len(b.ticks)) {
		return g.matched, g.rowsPerSeries, nil
	}
	defer func() {
		g.matchedKeys, g.matched, g.rowsPerSeries = b.keysID, series, in
		if err != nil || b.alive != nil && g.to-g.from < len(b.ticks) {
			g.matchedKeys = 0
		}
	}()
	series = slices.Grow(g.matched[:0], b.rows)[:b.rows]
	if g.distinct(b) {
		return series, nil, g.matchDistinct(b, series)
	}
	mapped, nodes := zeroed(&g.mapped, len(b.texts)), zeroed(&g.nodes, len(b.stacks))
	verdicts := zeroed(&g.verdicts, len(g.terms)*len(b.texts))
	if g.words.at == nil {
		g.words.at = make(map[string]uint32, min(b.rows, 200))
	}
	word := func(w uint32) uint32 {
		if mapped[w] == 0 {
			mapped[w] = 1 + g.words.of(b.texts[w])
		}
		return mapped[w] - 1
	}
	var stack func(n uint32) uint32
	stack = func(n uint32) uint32 {
		if nodes[n] == 0 {
			nd := b.stacks[n]
			if nd.parent >= 0 {
				nd.parent = int32(stack(uint32(nd.parent)))
			}
			nd.symbol, nd.module = word(nd.symbol), word(nd.module)
			nodes[n] = 1 + g.stacks.of(nd)
		}
		return nodes[n] - 1
	}
	if len(g.terms) == 0 && g.stacked == g.wanted &&
		(b.alive == nil || g.to-g.from == len(b.ticks)) {
		g.stacks.addAll(b.stacks, nodes, word) // the query selects all of them
	}
	width := len(g.set.desc.Query.By)
	key := make([]uint32, len(g.columns))
	seen := zeroed(&g.seen, len(g.series))
	narrow := b.alive != nil && g.to-g.from < len(b.ticks)
rows:
	for i := range b.rows {
		series[i] = -1
		if narrow && !b.alive(i, g.from, g.to) {
			continue
		}
		from := b.keys[i*width : (i+1)*width]
		for j, t := range g.terms {
			if g.set.stack[g.at[j]] {
				continue // a stack has no text to compare
			}
			v := &verdicts[j*len(b.texts)+int(from[g.at[j]])]
			if *v == 0 {
				*v = int8(2*b2i(t.Match(b.texts[from[g.at[j]]])) - 1)
			}
			if *v < 0 {
				continue rows
			}
		}
		for j, c := range g.columns {
			if g.set.stack[c] {
				key[j] = stack(from[c])
			} else {
				key[j] = word(from[c])
			}
		}
		n, fresh := g.rows.row(key)
		if g.ranking != nil {
			if n = g.ranking.seriesOf(n); n < 0 {
				continue
			}
		} else if fresh {
			if g.valuesLeft -= g.cells; g.valuesLeft < 0 {
				return nil, nil, errTooLarge
			}
			g.series = append(g.series, g.newSeries())
		}
		series[i] = int32(n)
		for len(seen) <= n {
			seen = append(seen, 0)
		}
		if seen[n]++; seen[n] > 1 {
			if in == nil {
				in = map[int32]int{}
			}
			in[int32(n)] = int(seen[n])
		}
	}
	g.seen = seen
	return series, in, nil
}

// distinct reports whether each row of a block is a separate series, and the gather has no series
// yet. That is the case for queries of the newest minutes without folding, as by the page and by a
// diagnosis each second.
func (g *gather) distinct(b *block) bool {
	for i, c := range g.columns {
		if slices.Contains(g.columns[:i], c) {
			return false
		}
	}
	return b.distinctTexts && g.rows.n == 0 && len(g.words.texts) == 0 && g.stacked == 0 &&
		len(g.columns) == len(g.set.desc.Query.By) &&
		len(g.columns) > 0
}

// matchDistinct is match for a block for which distinct is true. It needs no lookups and allocates
// once.
func (g *gather) matchDistinct(b *block, series []int32) error {
	mapped := zeroed(&g.mapped, len(b.texts))
	verdicts := zeroed(&g.verdicts, len(g.terms)*len(b.texts))
	width := len(g.columns)
	narrow := b.alive != nil && g.to-g.from < len(b.ticks)
	n, words := 0, uint32(0)
rows:
	for i := range b.rows {
		series[i] = -1
		if narrow && !b.alive(i, g.from, g.to) {
			continue
		}
		from := b.keys[i*width : (i+1)*width]
		for j, t := range g.terms {
			v := &verdicts[j*len(b.texts)+int(from[g.at[j]])]
			if *v == 0 {
				*v = int8(2*b2i(t.Match(b.texts[from[g.at[j]]])) - 1)
			}
			if *v < 0 {
				continue rows
			}
		}
		for _, c := range g.columns {
			if w := from[c]; mapped[w] == 0 {
				words++
				mapped[w] = words
			}
		}
		series[i] = int32(n)
		n++
	}
	if g.valuesLeft -= n * g.cells; g.valuesLeft < 0 {
		return errTooLarge
	}
	g.reserve(n)
	g.words.texts = make([]string, words)
	for i, s := range series {
		if s < 0 {
			continue
		}
		from := b.keys[i*width : (i+1)*width]
		for _, c := range g.columns {
			n := mapped[from[c]] - 1
			g.words.texts[n] = b.texts[from[c]]
			g.rows.keys = append(g.rows.keys, n)
		}
		g.rows.n++
		g.series = append(g.series, g.newSeries())
		g.expected--
	}
	return nil
}

// reserve allocates the first n series.
func (g *gather) reserve(n int) {
	g.rows.keys = slices.Grow(g.rows.keys, n*g.rows.width)
	g.series = slices.Grow(g.series, n)
	g.expected = n
	if g.set.desc.Stat.Kind == measure.Dists {
		return
	}
	if n *= g.cells; g.extremes {
		n *= 3
	}
	g.valueSlab = make([]float64, n)
}

func (g *gather) newSeries() *gathered {
	s := &g.seriesSlab.take(1, g.batchSize())[0]
	if g.set.desc.Stat.Kind == measure.Dists {
		s.dists = make([]measure.Dist, g.cells)
		return s
	}
	s.sum = g.values()
	if g.extremes {
		s.least, s.most = g.values(), g.values()
	}
	s.n = g.counts.take(g.cells, g.batchSize())
	return s
}

// batchSize is how many series are allocated at once: most answers have few cells and many series.
func (g *gather) batchSize() int {
	return max(1, g.expected, min(len(g.series), 1000/max(1, g.cells)))
}

// values returns one value per cell.
func (g *gather) values() []float64 {
	if len(g.valueSlab) < g.cells {
		g.valueSlab = make([]float64, g.cells*g.batchSize())
	}
	v := g.valueSlab[:g.cells:g.cells]
	g.valueSlab = g.valueSlab[g.cells:]
	return v
}
