package store

import (
	"math"
	"slices"

	"culprit/measure"
)

// block is a readable range of one dataset: ticks, keys of rows, and the values of the rows over
// the ticks. Its functions are nil when they don't apply to the source of the block.
type block struct {
	ticks         []tick
	cells         []cellInfo // of a rollup, which has no ticks
	texts         []string   // words of the keys
	distinctTexts bool       // no two texts are equal
	stacks        []node     // of fields that contain stacks
	keys          []uint32   // row after row, one per field of the dataset: words, or nodes
	rows          int
	// column writes the values of row i in the ticks [from, to) to out: amounts or states, absent()
	// or unknown(). Callers ask for rows in order.
	column func(i, from, to int, out []float64) error
	// runsOf returns row i as runs; nil when the block has none.
	runsOf func(i int) *runs
	// fold folds row i into cells without expanding it to ticks; false when it cannot. nil when it
	// never can.
	fold func(i int, f *cellFolder) (bool, error)
	// alive reports whether some tick in [from, to) has row i; nil when that is as expensive as
	// reading the values.
	alive func(i, from, to int) bool
	// roll returns the cells of row i of a rollup.
	roll func(i int, out *[rollColumns][]float64) error
	// dists calls each for the distributions of row i; nil for other kinds.
	dists func(i int, each func(tick int, d *reader)) error
	// preload unpacks small groups ahead of column, so that another goroutine can continue with the
	// block; nil when that does not help.
	preload func()
	// returns the buffers of groups after the last read; nil: there are none
	release      func()
	clockBuffers *clockBuffers // of the ticks; nil: they have no reusable buffers
	ticksDone    bool          // nothing refers to the ticks any more
	loss         []tickLoss
	notes        []string
	noteRuns     []noteRun // which ticks have which note

	version byte   // of the segment that it was read from
	keysID  uint64 // ID of its keys on disk, 0: none; blocks with equal IDs have equal keys
}

// at returns the time of a tick, or the end of a cell.
func (b *block) at(i int) measure.Time {
	if b.cells != nil {
		return b.cells[i].at
	}
	return b.ticks[i].at
}

// block returns the part as a block, valid while the part does not change.
func (p *part) block(w *window) *block {
	b := &block{
		ticks:         p.ticks,
		texts:         w.words.texts,
		distinctTexts: true,
		stacks:        p.stacks.nodes,
		keys:          p.rows.keys,
		rows:          p.rows.n,
		loss:          p.loss,
		notes:         p.notes,
		noteRuns:      p.noteRuns,
	}
	b.runsOf = p.runsOf
	b.alive = func(i, from, to int) bool { return p.alive(i, from, to) }
	b.column = func(i, from, to int, out []float64) error {
		p.dense(i, from, to, out)
		return nil
	}
	if p.set.desc.Stat.Kind == measure.Dists {
		b.dists = func(i int, each func(int, *reader)) error {
			c := p.runsOf(i)
			for j, start := range c.starts {
				end := len(p.ticks)
				if j+1 < len(c.starts) {
					end = int(c.starts[j+1])
				}
				if isAbsent(c.values[j]) {
					continue
				}
				for t := int(start); t < end; t++ {
					each(t, p.distAt(c.values[j]))
				}
			}
			return nil
		}
	}
	return b
}

// gather makes an answer from blocks: it filters and folds the rows of each tick, then folds the
// ticks of each cell.
type gather struct {
	query      measure.Query
	set        *set
	start      measure.Time
	step       measure.Span
	cells      int
	columns    []int // per field of the query: its column in the dataset
	terms      []measure.Term
	at         []int // column of each term
	valuesLeft int   // how many more values the answer may have

	elapsed      []measure.Span // per cell
	ticks        []uint32       // measured ticks per cell
	partialTicks []unknownTime  // per cell: the time and number of its partial ticks
	partial      bool           // some tick is partial

	words       words
	stacks      trie
	rows        table
	loss        []measure.Loss
	notes       []string
	floors      [3]measure.Time // start of each resolution
	extremes    bool            // some cell has several ticks, so the least and most are stored
	boundsOnly  bool            // the least and most of folded rows came from rollups
	approximate bool            // values that are exact only tick by tick came from rollups
	sumsOnly    bool            // only the sums of cells are stored

	stacked, wanted int // number of fields of stacks, in the dataset and in the query

	matchedKeys   uint64 // keysID of the block whose rows were matched last; 0: match again
	rowsPerSeries map[int32]int

	from, to  int         // the range of a block's ticks that are in some cell
	full      chan *chunk // chunks for the other goroutine to fold; nil: there is none
	free      chan *chunk
	valueSlab []float64 // unused part of an allocation for values of series
	expected  int       // number of series still to be allocated
	ranking   *ranking  // the rows that are separate series; nil: all
	*gatherBuffers
}

// unknownTime is the part of a cell in which the state of a row is unknown.
type unknownTime struct {
	span  measure.Span
	ticks int32
}

// gathered is one series, one value per cell.
type gathered struct {
	sum, least, most []float64 // least and most are nil when no cell has more than one tick
	n                []uint32  // ticks that have a value
	unknown          map[int32]unknownTime
	dists            []measure.Dist
	present          bool // some tick of the query has the row
}

func newGather(
	q measure.Query, d *set, start measure.Time, step measure.Span, cells, values int,
	from *gatherBuffers,
) *gather {
	g := &gather{
		gatherBuffers: from,
		query:         q,
		set:           d,
		start:         start,
		step:          step,
		cells:         cells,
		valuesLeft:    values,
		elapsed:       make([]measure.Span, cells),
		ticks:         make([]uint32, cells),
		partialTicks:  make([]unknownTime, cells),
	}
	g.rows = table{width: len(q.By), keys: from.keys[:0], slots: from.slots[:0]}
	g.words.at = from.texts
	g.sumsOnly = d.desc.Stat.Kind == measure.Delta && d.desc.Stat.Fold == measure.Sum &&
		slices.Contains(d.stack, true)
	for _, f := range q.By {
		c := slices.Index(d.desc.Query.By, f)
		g.columns = append(g.columns, c)
		g.wanted += b2i(d.stack[c])
	}
	for _, is := range d.stack {
		g.stacked += b2i(is)
	}
	for _, t := range q.Where {
		// otherwise the dataset's own predicate contains the term
		if c := slices.Index(d.desc.Query.By, t.Field); c >= 0 {
			g.terms, g.at = append(g.terms, t), append(g.at, c)
		}
	}
	return g
}

// cell returns the cell of a time, or -1.
func (g *gather) cell(at measure.Time) int {
	if at <= g.start {
		return -1
	}
	c := int64(at.Sub(g.start)-1) / int64(g.step)
	if c >= int64(g.cells) {
		return -1
	}
	return int(c)
}

// keepExtremes starts storing the least and most, because a cell gets its second tick.
func (g *gather) keepExtremes() {
	g.drain()
	g.extremes = true
	rate := g.set.desc.Stat.Kind == measure.Delta
	for _, s := range g.series {
		s.least, s.most = g.values(), g.values()
		for c, n := range s.n {
			if n == 0 {
				continue
			}
			v := s.sum[c]
			if rate && v != 0 {
				v /= g.set.weight(g.elapsed[c])
			}
			s.least[c], s.most[c] = v, v
		}
	}
}

// placeTicks assigns the ticks of a block that are in over to cells.
func (g *gather) placeTicks(b *block, over measure.Interval) (any bool) {
	g.cellOf, g.weights = g.cellOf[:0], g.weights[:0]
	var elapsed measure.Span
	var weight float64
	last, until := -1, measure.Time(0) // the newest cell and its end
	for _, t := range b.ticks {
		if t.elapsed != elapsed {
			elapsed, weight = t.elapsed, g.set.weight(t.elapsed)
		}
		c := -1
		if t.at > over.Start && t.at <= over.End && t.elapsed > 0 {
			if c = last; c < 0 || t.at > until || t.at <= until.Add(-g.step) {
				if c = g.cell(t.at); c >= 0 {
					last, until = c, g.start.Add(measure.Span(c+1)*g.step)
				}
			}
		}
		g.cellOf = append(g.cellOf, int32(c))
		g.weights = append(g.weights, weight)
		if c < 0 {
			continue
		}
		any = true
		if g.ticks[c] > 0 && !g.extremes && !g.sumsOnly {
			g.keepExtremes()
		}
		g.elapsed[c] += t.elapsed
		g.ticks[c]++
		if t.partial {
			g.partial = true
			g.partialTicks[c].span += t.elapsed
			g.partialTicks[c].ticks++
		}
	}
	g.stretches, g.from, g.to = g.stretches[:0], 0, 0
	for t, c := range g.cellOf {
		if c >= 0 {
			if g.to == 0 {
				g.from = t
			}
			g.to = t + 1
		}
		if n := len(g.stretches); n > 0 && g.stretches[n-1].cell == c &&
			g.stretches[n-1].to == int32(t) {
			g.stretches[n-1].to++
		} else if c >= 0 {
			g.stretches = append(g.stretches, stretch{c, int32(t), int32(t) + 1})
		}
	}
	for _, cell := range b.cells {
		c := -1
		if cell.at > over.Start && cell.at <= over.End {
			c = g.cell(cell.at)
		}
		g.cellOf = append(g.cellOf, int32(c))
		if c < 0 {
			continue
		}
		any = true
		if g.ticks[c]+cell.ticks > 1 && !g.extremes && !g.sumsOnly {
			g.keepExtremes()
		}
		g.elapsed[c] += cell.elapsed
		g.ticks[c] += cell.ticks
		g.partialTicks[c].span += cell.partial.span
		g.partialTicks[c].ticks += cell.partial.ticks
		g.partial = g.partial || cell.partial.ticks > 0
	}
	for _, l := range b.loss {
		if at := b.at(int(l.tick)); at > over.Start && at <= over.End && g.cell(at) >= 0 {
			g.addLoss(l.loss)
		}
	}
	for _, r := range b.noteRuns {
		for t := r.first; t <= r.last; t++ {
			if at := b.at(int(t)); at > over.Start && at <= over.End && g.cell(at) >= 0 {
				g.note(b.notes[r.note])
				break
			}
		}
	}
	return any
}

// weight returns the divisor that makes the amount of an interval a rate.
func (d *set) weight(span measure.Span) float64 {
	if d.desc.Stat.Unit == measure.Nanoseconds {
		return float64(span)
	}
	return span.Seconds()
}

func (g *gather) addLoss(l measure.Loss) {
	g.loss = addLoss(g.loss, l)
}

func (g *gather) note(n string) {
	if !slices.Contains(g.notes, n) {
		g.notes = append(g.notes, n)
	}
}

// answer returns the answer from what was gathered.
func (g *gather) answer() *measure.Answer {
	st := &g.set.desc.Stat
	if g.approximate {
		g.note(
			"rows were folded from rollups: the " + st.Fold.String() +
				" is of their means over a minute or an hour",
		)
		// otherwise only the remaining rows are folded
	} else if g.boundsOnly && (g.ranking == nil || len(g.query.By) < len(g.set.desc.Query.By)) {
		g.note("rows were folded from rollups: min and max are bounds, the true ones lie between")
	}
	a := &measure.Answer{
		Query:   g.query,
		Kind:    st.Kind,
		Unit:    st.AnswerUnit(),
		Sparse:  st.Sparse,
		Start:   g.start,
		Step:    g.step,
		Elapsed: g.elapsed,
		Labels:  g.words.texts,
		Stacks:  st.Stacks(g.query.By),
		Loss:    g.loss,
		Notes:   g.notes,
	}
	for _, n := range g.stacks.nodes {
		a.Frames = append(a.Frames, measure.Frame{
			Symbol: g.words.texts[n.symbol],
			Module: g.words.texts[n.module],
			Offset: n.offset,
			Parent: n.parent,
		})
	}
	a.Series = make([]measure.Series, 0, len(g.series))
	keys := make([]measure.Label, len(g.rows.keys))
	for i, k := range g.rows.keys {
		keys[i] = measure.Label(k)
	}
	w := g.rows.width
	if g.ranking != nil {
		g.answerRest(a)
	}
	for i, s := range g.series {
		if !s.present || g.ranking != nil && i == g.ranking.restSeries {
			continue
		}
		row := i
		if g.ranking != nil {
			row = g.ranking.rows[i]
		}
		a.Series = append(a.Series, measure.Series{})
		out := &a.Series[len(a.Series)-1]
		out.Key = keys[row*w : (row+1)*w : (row+1)*w]
		if st.Kind == measure.Dists {
			out.SetDists(s.dists)
			continue
		}
		g.finish(s)
		out.Values = s.sum
		if g.extremes {
			out.SetRange(s.least, s.most)
		}
	}
	g.keys, g.slots, g.texts = g.rows.keys, g.rows.slots, g.words.at
	return a
}

// finish converts the sums of a series to values: rates over the measured time of the cell, means
// of levels over the ticks that have them. A sparse row that a measured tick lacks was 0 in it.
func (g *gather) finish(s *gathered) {
	st := &g.set.desc.Stat
	extremes := func(c int, least, most float64) {
		if g.extremes {
			s.least[c], s.most[c] = min(s.least[c], least), max(s.most[c], most)
		}
	}
	for c := range s.sum {
		span, ticks := g.elapsed[c], int64(g.ticks[c])
		if g.partial || s.unknown != nil {
			o := s.unknown[int32(c)]
			span -= g.partialTicks[c].span + o.span
			ticks -= int64(g.partialTicks[c].ticks + o.ticks)
		}
		n := int64(s.n[c])
		switch {
		case n == 0 && st.Sparse && ticks > 0:
			s.sum[c] = 0
			extremes(c, 0, 0) // it was 0 in those ticks
			continue
		case n == 0:
			s.sum[c] = math.NaN()
			extremes(c, math.NaN(), math.NaN())
			continue
		case st.Sparse && n < ticks:
			extremes(c, 0, 0)
		}
		switch {
		case st.Kind == measure.Delta:
			s.sum[c] = st.Unit.Rate(s.sum[c], span)
		case st.Sparse && ticks > 0:
			s.sum[c] /= float64(ticks)
		default:
			s.sum[c] /= float64(n)
		}
	}
}
