package store

import (
	"slices"

	"culprit/measure"
)

// Rows are folded into the cells of an answer by the goroutine that unpacks them, or by another
// one.

// blockInProgress is a block of ticks that is being folded.
type blockInProgress struct {
	block     *block
	from, to  int               // the range of ticks that are in some cell
	weights   []float64         // per tick: the divisor of amounts for rates
	stretches []stretch         // of the measured ticks that the query selects
	partial   bool              // some tick is partial
	into      []*gathered       // per row; nil: not selected
	several   map[*gathered]int // number of rows of a series in the block; 0 means one
	folding   map[*gathered]*folding
}

// folding is a series some of whose rows in a block are folded already.
type folding struct {
	values []float64
	n      []int // number of values in each mean
	left   int
}

// chunk contains some unpacked rows of a block, one after another.
type chunk struct {
	block  *blockInProgress
	rows   []int32
	values []float64
}

// chunkValues is the approximate number of values of a chunk.
const chunkValues = 32 << 10

// add adds the ticks of a block that are in over.
func (g *gather) add(b *block, over measure.Interval) error {
	if !g.placeTicks(b, over) {
		return nil
	}
	series, several, err := g.match(b)
	if err != nil {
		return err
	}
	if g.sumsOnly {
		return g.addSums(b, series)
	}
	if b.dists != nil {
		g.drain()
		return g.addDists(b, series)
	}
	if b.roll != nil {
		g.drain()
		return g.addRolls(b, series, several)
	}
	if b.fold != nil && len(several) == 0 && g.extremes && !g.partialTick(b) {
		return g.addFolded(b, series)
	}
	l := &blockInProgress{
		block:     b,
		from:      g.from,
		to:        g.to,
		weights:   g.weights,
		stretches: g.stretches,
	}
	if g.full != nil { // the goroutine that folds the block still uses these during the next block
		g.weights, g.stretches, l.into = nil, nil, make([]*gathered, len(series))
	} else {
		l.into = zeroed(&g.into, len(series))
	}
	l.partial = g.partialTick(b)
	for s, rows := range several {
		if l.several == nil {
			l.several, l.folding = map[*gathered]int{}, map[*gathered]*folding{}
		}
		l.several[g.series[s]] = rows
	}
	n := l.to - l.from
	c := g.chunk(l)
	for i, s := range series {
		if s < 0 {
			continue
		}
		l.into[i] = g.series[s]
		at := len(c.values)
		c.values = slices.Grow(c.values, n)[:at+n]
		if err := b.column(i, l.from, l.to, c.values[at:]); err != nil {
			g.addDamage(b, err)
			fillWith(c.values[at:], unknown())
		}
		if c.rows = append(c.rows, int32(i)); len(c.values)+n > chunkValues {
			g.submit(c)
			c = g.chunk(l)
		}
	}
	g.submit(c)
	return nil
}

// partialTick reports whether a selected tick of a block is partial.
func (g *gather) partialTick(b *block) bool {
	return slices.ContainsFunc(b.ticks[g.from:g.to], func(t tick) bool { return t.partial })
}

// addFolded is add for a block each of whose rows is a separate series: rows are folded while they
// are unpacked.
func (g *gather) addFolded(b *block, series []int32) error {
	g.drain()
	weights := g.weights
	if g.set.desc.Stat.Kind != measure.Delta {
		weights = nil
	}
	f := &g.folder
	f.plan(g.stretches, weights)
	l := blockInProgress{
		block:     b,
		from:      g.from,
		to:        g.to,
		weights:   g.weights,
		stretches: g.stretches,
	}
	for i, n := range series {
		if n < 0 {
			continue
		}
		s := g.series[n]
		ok, err := b.fold(i, f)
		if err == nil && ok {
			s.addCells(f)
			continue
		}
		c := &g.spareChunk
		c.values = slices.Grow(c.values[:0], l.to-l.from)[:l.to-l.from]
		if err == nil {
			err = b.column(i, l.from, l.to, c.values)
		}
		if err != nil {
			g.addDamage(b, err)
			fillWith(c.values, unknown())
		}
		g.foldRow(&l, s, c.values)
	}
	b.ticksDone = true
	return nil
}

// addCells adds a folded row to the cells.
func (s *gathered) addCells(f *cellFolder) {
	for k, n := range f.n {
		if n == 0 {
			continue
		}
		s.present = true
		sum, least, most, c := f.sum[k], f.least[k], f.most[k], f.stretches[k].cell
		if s.n[c] > 0 {
			sum, least, most = sum+s.sum[c], min(least, s.least[c]), max(most, s.most[c])
		}
		s.n[c] += n
		s.sum[c], s.least[c], s.most[c] = sum, least, most
	}
}

// foldInBackground starts a goroutine that folds what add unpacks, in the same order, until join.
// At most three chunks are in transit. join returns a panic of the goroutine as a *measure.Fault;
// after a panic, chunks are discarded.
func (g *gather) foldInBackground() (join func() error) {
	full, free, done := make(chan *chunk, chunks), make(chan *chunk, chunks), make(chan struct{})
	for range chunks {
		free <- &chunk{}
	}
	g.full, g.free = full, free
	var fault *measure.Fault
	take := func(c *chunk) {
		defer func() {
			if p := recover(); p != nil {
				fault = measure.Recovered("adding up rows", p)
			}
		}()
		g.foldChunk(c)
	}
	go func() {
		defer close(done)
		for c := range full {
			if fault == nil {
				take(c)
			}
			free <- c
		}
	}()
	return func() error {
		g.full, g.free = nil, nil
		close(full)
		<-done
		if fault != nil {
			return fault
		}
		return nil
	}
}

const chunks = 3

// drain waits until all submitted chunks are folded.
func (g *gather) drain() {
	if g.full == nil {
		return
	}
	var all [chunks]*chunk
	for i := range all {
		all[i] = <-g.free
	}
	for _, c := range all {
		g.free <- c
	}
}

// chunk returns an empty chunk.
func (g *gather) chunk(l *blockInProgress) *chunk {
	c := &g.spareChunk
	if g.full != nil {
		c = <-g.free
	}
	c.block, c.rows, c.values = l, c.rows[:0], c.values[:0]
	return c
}

// submit passes a chunk on to be folded.
func (g *gather) submit(c *chunk) {
	if g.full != nil {
		g.full <- c
	} else {
		g.foldChunk(c)
	}
}

// foldChunk folds the rows of a chunk into cells. It modifies only the block and the values of its
// series.
func (g *gather) foldChunk(c *chunk) {
	l := c.block
	n := l.to - l.from
	fold := g.set.desc.Stat.Fold
	for k, row := range c.rows {
		s, values := l.into[row], c.values[k*n:(k+1)*n]
		rows := l.several[s]
		if rows == 0 {
			g.foldRow(l, s, values)
			continue
		}
		f := l.folding[s]
		if f == nil {
			f = &folding{values: slices.Clone(values), left: rows - 1}
			if fold == measure.Mean {
				f.n = make([]int, n)
				for t, v := range f.values {
					f.n[t] = b2i(v == v)
				}
			}
			l.folding[s] = f
			continue
		}
		foldInto(fold, f.values, f.n, values)
		if f.left--; f.left == 0 {
			g.foldRow(l, s, f.values)
			delete(l.folding, s)
		}
	}
}

// addDamage adds a loss for rows of a block that could not be read.
func (g *gather) addDamage(b *block, err error) {
	g.addLoss(
		measure.Loss{
			Reason: "damaged in the archive: " + err.Error(),
			Events: uint64(len(b.ticks) + len(b.cells)),
		},
	)
}

// foldInto folds the values of a row into those of the previous rows. Absent and unknown count as
// no value; unknown has precedence over absent.
func foldInto(fold measure.Fold, into []float64, n []int, row []float64) {
	if fold == measure.Sum {
		for t, v := range row {
			if v == v {
				if into[t] == into[t] {
					into[t] += v
				} else {
					into[t] = v
				}
			} else if isAbsent(into[t]) {
				into[t] = v
			}
		}
		return
	}
	for t, v := range row {
		if v != v {
			if isAbsent(into[t]) {
				into[t] = v
			}
			continue
		}
		k := b2i(into[t] == into[t])
		if n != nil {
			k = n[t]
		}
		into[t], k = fold.Combine(into[t], k, v)
		if n != nil {
			n[t] = k
		}
	}
}

// stretch is a range of consecutive ticks in one cell.
type stretch struct{ cell, from, to int32 }

// foldRow adds the values of a series over the ticks of a block to its cells.
func (g *gather) foldRow(l *blockInProgress, s *gathered, values []float64) {
	rate := g.set.desc.Stat.Kind == measure.Delta
	for _, st := range l.stretches {
		v := values[int(st.from)-l.from : int(st.to)-l.from]
		if l.partial {
			g.foldGaps(l, s, st, v)
			continue
		}
		var sum, least, most float64
		if rate {
			sum, least, most = extentRates(v, l.weights[st.from:st.to])
		} else {
			sum, least, most = extent(v)
		}
		if sum != sum { // some tick has no value
			g.foldGaps(l, s, st, v)
			continue
		}
		c := st.cell
		s.present = true
		if !g.extremes {
			s.n[c], s.sum[c] = 1, sum
			continue
		}
		if s.n[c] > 0 {
			sum, least, most = sum+s.sum[c], min(least, s.least[c]), max(most, s.most[c])
		}
		s.n[c] += uint32(len(v))
		s.sum[c], s.least[c], s.most[c] = sum, least, most
	}
}

// extentRates returns the sum of amounts, and the least and most of their rates. The sum is NaN
// when an amount is. min and max have no branches; random branches would take twice as long.
func extentRates(v, weights []float64) (sum, least, most float64) {
	weights = weights[:len(v)]
	sum, least = v[0], v[0]/weights[0]
	most = least
	for t := 1; t < len(v); t++ {
		sum += v[t]
		x := v[t] / weights[t]
		least, most = min(least, x), max(most, x)
	}
	return sum, least, most
}

// extent is extentRates for states.
func extent(v []float64) (sum, least, most float64) {
	sum, least, most = v[0], v[0], v[0]
	for _, x := range v[1:] {
		sum += x
		least, most = min(least, x), max(most, x)
	}
	return sum, least, most
}

// foldGaps is foldRow for a stretch in which some tick may have no value.
func (g *gather) foldGaps(l *blockInProgress, s *gathered, st stretch, values []float64) {
	rate := g.set.desc.Stat.Kind == measure.Delta
	c := st.cell
	n, sum, least, most := s.n[c], s.sum[c], 0.0, 0.0
	if g.extremes {
		least, most = s.least[c], s.most[c]
	}
	for i, v := range values {
		t := int(st.from) + i
		if v != v {
			if !isAbsent(v) {
				s.present = true
				// otherwise gather.partialTicks counts it, as for all rows
				if !l.block.ticks[t].partial {
					s.addUnknown(c, l.block.ticks[t].elapsed, 1)
				}
			}
			continue
		}
		if l.block.ticks[t].partial {
			// The value is known although the tick is partial, so undo for this row what
			// partialTicks counts for all rows.
			s.addUnknown(c, -l.block.ticks[t].elapsed, -1)
		}
		sum += v
		if rate && v != 0 {
			v /= l.weights[t]
		}
		if n == 0 {
			least, most = v, v
		} else {
			least, most = min(least, v), max(most, v)
		}
		n++
	}
	s.present = s.present || n > s.n[c]
	s.n[c], s.sum[c] = n, sum
	if g.extremes {
		s.least[c], s.most[c] = least, most
	}
}

func (s *gathered) addUnknown(c int32, span measure.Span, ticks int32) {
	if s.unknown == nil {
		s.unknown = map[int32]unknownTime{}
	}
	l := s.unknown[c]
	s.unknown[c] = unknownTime{l.span + span, l.ticks + ticks}
}

func (g *gather) addDists(b *block, series []int32) error {
	for i, s := range series {
		if s < 0 {
			continue
		}
		into := g.series[s].dists
		err := b.dists(i, func(t int, d *reader) {
			if c := g.cellOf[t]; c >= 0 {
				mergeBuckets(d, &into[c])
				g.series[s].present = true
			}
		})
		if err != nil {
			g.addDamage(b, err)
		}
	}
	return nil
}
