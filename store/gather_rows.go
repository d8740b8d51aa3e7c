package store

import (
	"slices"

	"culprit/measure"
)

// How rows that are unpacked go to the cells of an answer: by one goroutine, or unpacked by one and laid by another.

// lap is a block of ticks on its way into the cells.
type blockInProgress struct {
	block     *block
	from, to  int               // ticks that lie in some cell, and those between
	weights   []float64         // of each tick: what an amount is divided by to be a rate
	stretches []stretch         // of the ticks that are measured and asked for
	partial   bool              // some tick was
	into      []*gathered       // of each row; nil: not asked for
	several   map[*gathered]int // how many rows of the block it has; 0 is one
	folding   map[*gathered]*folding
}

// folding is a series of which some rows of a block are folded already.
type folding struct {
	values []float64
	n      []int // how many values each is the mean of
	left   int
}

// chunk is some rows of a lap, unpacked, one after the other.
type chunk struct {
	block  *blockInProgress
	rows   []int32
	values []float64
}

// chunkValues is how many values a chunk has, about.
const chunkValues = 32 << 10

// add takes the ticks of a block that lie in over.
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
	l := &blockInProgress{block: b, from: g.from, to: g.to, weights: g.weights, stretches: g.stretches}
	if g.full != nil { // who lays it has these still when the next block comes
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

// part says whether some tick of a block that is asked for was partial.
func (g *gather) partialTick(b *block) bool {
	return slices.ContainsFunc(b.ticks[g.from:g.to], func(t tick) bool { return t.partial })
}

// addFolded is add where each row of a block is a series of its own: rows go to their cells as they are unpacked.
func (g *gather) addFolded(b *block, series []int32) error {
	g.drain()
	weights := g.weights
	if g.set.desc.Stat.Kind != measure.Delta {
		weights = nil
	}
	f := &g.folder
	f.plan(g.stretches, weights)
	l := blockInProgress{block: b, from: g.from, to: g.to, weights: g.weights, stretches: g.stretches}
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

// lay adds what a layer has of a row to the cells.
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

// fork has another goroutine lay what add unpacks, in the same order, until join. Three chunks are on their way at
// most. A panic there is returned by join as a *measure.Fault; until then chunks are taken and dropped.
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

// drain waits until all that was handed over is laid.
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

// chunk gives an empty chunk.
func (g *gather) chunk(l *blockInProgress) *chunk {
	c := &g.spareChunk
	if g.full != nil {
		c = <-g.free
	}
	c.block, c.rows, c.values = l, c.rows[:0], c.values[:0]
	return c
}

// hand has a chunk laid.
func (g *gather) submit(c *chunk) {
	if g.full != nil {
		g.full <- c
	} else {
		g.foldChunk(c)
	}
}

// take folds the rows of a chunk, and lays them on the cells. It touches nothing but the lap and the values of its series.
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

// broken tells that rows of a block could not be read.
func (g *gather) addDamage(b *block, err error) {
	g.addLoss(measure.Loss{Reason: "damaged in the archive: " + err.Error(), Events: uint64(len(b.ticks) + len(b.cells))})
}

// foldInto folds the values of a row into those of the rows before. Absent and unknown count as no value; unknown outlasts absent.
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

// stretch is ticks in a line that lie in one cell.
type stretch struct{ cell, from, to int32 }

// lay adds the values of a series over the ticks of a lap to its cells.
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

// extentRates gives the sum of amounts, and the least and most of the rates that they are; the sum is NaN when some amount is. Without
// branches, which are as good as random here: with them it takes twice as long.
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

// layGaps is lay for a stretch in which some tick may have no value.
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
				if !l.block.ticks[t].partial { // else gather.gone has it, as for all rows
					s.addUnknown(c, l.block.ticks[t].elapsed, 1)
				}
			}
			continue
		}
		if l.block.ticks[t].partial {
			// Known after all, so what is counted as gone for all rows is not for this one.
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
