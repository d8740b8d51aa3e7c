package store

// Stacks have many rows, most are folded into few, and no view shows the least and most of single
// ticks. So only the sums of their cells are gathered, which can be added row by row.

// addSums adds the ticks or cells of a block.
func (g *gather) addSums(b *block, series []int32) error {
	g.drain()
	f := &g.folder
	f.plan(g.stretches, nil)
	var row rolled
	for i, n := range series {
		if n < 0 {
			continue
		}
		s := g.series[n]
		switch {
		case b.roll != nil:
			row.reset(len(b.cells))
			if err := b.roll(i, &row.columns); err != nil {
				g.addDamage(b, err)
				continue
			}
			for c, cell := range g.cellOf {
				if v := row.columns[rollSum][c]; cell >= 0 && v == v {
					s.addSum(cell, b.cells[c].ticks-uint32(row.columns[rollMissing][c]), v)
				}
			}
			continue
		case b.runsOf != nil:
			f.sumRuns(b.runsOf(i))
		default:
			ok, err := b.fold(i, f)
			if err != nil {
				g.addDamage(b, err)
				continue
			}
			if !ok {
				if err := g.sumColumn(b, i, s); err != nil {
					g.addDamage(b, err)
				}
				continue
			}
		}
		for k, n := range f.n {
			if n > 0 {
				s.addSum(f.stretches[k].cell, n, f.sum[k])
			}
		}
	}
	return nil
}

// addSum adds the sum of a row over n ticks to a cell.
func (s *gathered) addSum(cell int32, n uint32, sum float64) {
	s.present = true
	s.n[cell] += n
	s.sum[cell] += sum
}

// sumColumn adds a row with unknown values, which no sum contains.
func (g *gather) sumColumn(b *block, i int, s *gathered) error {
	c := &g.spareChunk
	n := g.to - g.from
	if cap(c.values) < n {
		c.values = make([]float64, n)
	}
	c.values = c.values[:n]
	if err := b.column(i, g.from, g.to, c.values); err != nil {
		return err
	}
	for t, v := range c.values {
		cell := g.cellOf[g.from+t]
		switch {
		case cell < 0 || isAbsent(v):
		case v == v:
			s.addSum(cell, 1, v)
		default:
			s.present = true
		}
	}
	return nil
}

// sumRuns folds a row of a window: the number of values and the sum of each stretch.
func (f *cellFolder) sumRuns(c *runs) {
	clear(f.n)
	clear(f.sum)
	k := 0
	for i, v := range c.values {
		if v != v {
			continue
		}
		from, to := int32(c.starts[i]), int32(maxTicks)
		if i+1 < len(c.starts) {
			to = int32(c.starts[i+1])
		}
		for k > 0 && f.stretches[k-1].to > from {
			k--
		}
		for ; k < len(f.stretches) && f.stretches[k].from < to; k++ {
			st := &f.stretches[k]
			if n := min(to, st.to) - max(from, st.from); n > 0 {
				f.n[k] += uint32(n)
				f.sum[k] += v * float64(n)
			}
		}
	}
}
