package store

import (
	"math"
	"slices"

	"culprit/measure"
)

// block is a stretch of one dataset, ready to be read: ticks, keys of rows, and the rows' values over the ticks.
type block struct {
	ticks  []tick
	cells  []cellInfo // of a rollup, which has no ticks
	texts  []string   // words of the keys
	once   bool       // each of them is there once
	stacks []node     // of fields that hold stacks
	keys   []uint32   // row after row, as many as the dataset has fields: words, or nodes
	rows   int
	// column lays row i on the ticks from one up to another; values are amounts or states, absent() or unknown(). Rows are asked for in order.
	column func(i, from, to int, out []float64) error
	// stays gives row i as a column; nil where there are none.
	stays func(i int) *runs
	// fold takes row i to the cells without laying it on ticks, as far as it can; nil where nothing can.
	fold func(i int, f *layer) (bool, error)
	// alive says whether some tick from one up to another had row i; nil where that takes as long as to look at the values.
	alive func(i, from, to int) bool
	// roll gives the cells of row i of a rollup.
	roll func(i int, out *[rollColumns][]float64) error
	// dists tells the distributions of row i; nil for other kinds.
	dists func(i int, each func(tick int, d *reader)) error
	// warm unpacks what column is to tell, when that is little; nil where it does not help. Another goroutine may then go on with the block.
	warm  func()
	free  func()     // gives the room that groups took back, when nothing is asked for any more; nil: there is none
	room  *clockRoom // of the ticks; nil: they have none that can be used again
	laid  bool       // nothing looks at the ticks any more
	loss  []tickLoss
	notes []string
	runs  []noteRun // which ticks bore which

	version byte   // of the segment that it was read from
	ring    uint64 // number of its keys on disk, 0: none; they are those of each block with that number
}

// at gives the time of a tick, or the end of a cell.
func (b *block) at(i int) measure.Time {
	if b.cells != nil {
		return b.cells[i].at
	}
	return b.ticks[i].at
}

// block gives the part as a block, good as long as the part does not change.
func (p *part) block(w *window) *block {
	b := &block{ticks: p.ticks, texts: w.words.texts, once: true, stacks: p.stacks.nodes, keys: p.rows.keys, rows: p.rows.n, loss: p.loss, notes: p.notes, runs: p.runs}
	b.stays = p.whole
	b.alive = func(i, from, to int) bool { return p.alive(i, from, to) }
	b.column = func(i, from, to int, out []float64) error {
		p.dense(i, from, to, out)
		return nil
	}
	if p.set.desc.Stat.Kind == measure.Dists {
		b.dists = func(i int, each func(int, *reader)) error {
			c := p.whole(i)
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

// gather makes an answer of blocks: it filters and folds the rows of each tick, then folds the ticks of each cell.
type gather struct {
	query   measure.Query
	set     *set
	start   measure.Time
	step    measure.Span
	cells   int
	columns []int // of the dataset, for each field of the query
	terms   []measure.Term
	at      []int // column of each term
	room    int   // values that the answer may still take

	elapsed []measure.Span // of each cell
	ticks   []uint32       // measured ticks of each cell
	gone    []lacking      // of each cell: what its partial ticks were
	partial bool           // some tick was

	words  words
	stacks trie
	rows   table
	loss   []measure.Loss
	notes  []string
	floors [3]measure.Time // where each resolution begins
	wide   bool            // some cell is of several ticks, so least and most are kept
	bounds bool            // least and most of folded rows came from rollups
	rough  bool            // so did values that are exact only tick by tick
	sums   bool            // of the cells the sums alone are kept

	stacked, wanted int // fields of stacks, of the dataset and of the query

	ring   uint64 // of the newest block whose rows were matched, 0: not to be told again; how many rows each of their series has
	folded map[int32]int

	from, to int         // ticks of a block that lie in some cell, and those between
	full     chan *chunk // to be laid by another goroutine; nil: there is none
	free     chan *chunk
	slab     []float64 // room for values of series
	due      int       // series that are known to come
	pick     *pick     // the rows that are series of their own; nil: all
	*gatherRoom
}

// lacking is a part of a cell of which it is unknown what a row was.
type lacking struct {
	span  measure.Span
	ticks int32
}

// gathered is one series, one value a cell.
type gathered struct {
	sum, least, most []float64 // least and most are nil where a cell is of one tick at most
	n                []uint32  // ticks that had a value
	off              map[int32]lacking
	dists            []measure.Dist
	there            bool // some tick asked for had the row
}

func newGather(q measure.Query, d *set, start measure.Time, step measure.Span, cells, room int, from *gatherRoom) *gather {
	g := &gather{gatherRoom: from, query: q, set: d, start: start, step: step, cells: cells, room: room,
		elapsed: make([]measure.Span, cells), ticks: make([]uint32, cells), gone: make([]lacking, cells)}
	g.rows = table{width: len(q.By), keys: from.keys[:0], slots: from.slots[:0]}
	g.words.at = from.texts
	g.sums = d.desc.Stat.Kind == measure.Delta && d.desc.Stat.Fold == measure.Sum && slices.Contains(d.stack, true)
	for _, f := range q.By {
		c := slices.Index(d.desc.Query.By, f)
		g.columns = append(g.columns, c)
		g.wanted += b2i(d.stack[c])
	}
	for _, is := range d.stack {
		g.stacked += b2i(is)
	}
	for _, t := range q.Where {
		if c := slices.Index(d.desc.Query.By, t.Field); c >= 0 { // else the dataset's own predicate has it
			g.terms, g.at = append(g.terms, t), append(g.at, c)
		}
	}
	return g
}

// cell gives the cell of a time, or -1.
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

// match gives for each row of a block its series, or -1; in how many rows of the block each series has.
func (g *gather) match(b *block) (series []int32, in map[int32]int, err error) {
	if b.ring != 0 && b.ring == g.ring && (b.alive == nil || g.to-g.from == len(b.ticks)) {
		return g.matched, g.folded, nil
	}
	defer func() {
		g.ring, g.matched, g.folded = b.ring, series, in
		if err != nil || b.alive != nil && g.to-g.from < len(b.ticks) {
			g.ring = 0
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
	if len(g.terms) == 0 && g.stacked == g.wanted && (b.alive == nil || g.to-g.from == len(b.ticks)) {
		g.stacks.follow(b.stacks, nodes, word) // all of them are wanted
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
				continue // there is no text to compare
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
		if g.pick != nil {
			if n = g.pick.seriesOf(n); n < 0 {
				continue
			}
		} else if fresh {
			if g.room -= g.cells; g.room < 0 {
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

// distinct says whether each row of a block is a series of its own, of which none is known yet: so it is where the newest minutes are asked for without
// folding, as the page does each second and a diagnosis all the while.
func (g *gather) distinct(b *block) bool {
	for i, c := range g.columns {
		if slices.Contains(g.columns[:i], c) {
			return false
		}
	}
	return b.once && g.rows.n == 0 && len(g.words.texts) == 0 && g.stacked == 0 && len(g.columns) == len(g.set.desc.Query.By) && len(g.columns) > 0
}

// matchDistinct is match where distinct says so. Nothing is looked for, and room is made at once.
func (g *gather) matchDistinct(b *block, series []int32) error {
	mapped, verdicts := zeroed(&g.mapped, len(b.texts)), zeroed(&g.verdicts, len(g.terms)*len(b.texts))
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
	if g.room -= n * g.cells; g.room < 0 {
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
		g.due--
	}
	return nil
}

// reserve makes room for the first n series.
func (g *gather) reserve(n int) {
	g.rows.keys = slices.Grow(g.rows.keys, n*g.rows.width)
	g.series = slices.Grow(g.series, n)
	g.due = n
	if g.set.desc.Stat.Kind == measure.Dists {
		return
	}
	if n *= g.cells; g.wide {
		n *= 3
	}
	g.slab = make([]float64, n)
}

func (g *gather) newSeries() *gathered {
	s := &g.made.take(1, g.ahead())[0]
	if g.set.desc.Stat.Kind == measure.Dists {
		s.dists = make([]measure.Dist, g.cells)
		return s
	}
	s.sum = g.values()
	if g.wide {
		s.least, s.most = g.values(), g.values()
	}
	s.n = g.counts.take(g.cells, g.ahead())
	return s
}

// ahead is for how many series room is made at once: most answers have few cells and many series.
func (g *gather) ahead() int { return max(1, g.due, min(len(g.series), 1000/max(1, g.cells))) }

// values gives room for a value of each cell.
func (g *gather) values() []float64 {
	if len(g.slab) < g.cells {
		g.slab = make([]float64, g.cells*g.ahead())
	}
	v := g.slab[:g.cells:g.cells]
	g.slab = g.slab[g.cells:]
	return v
}

// widen begins to keep least and most: a cell gets its second tick.
func (g *gather) widen() {
	g.drain()
	g.wide = true
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

// clock lays the ticks of a block on the cells, those in over only.
func (g *gather) clock(b *block, over measure.Interval) (any bool) {
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
		if g.ticks[c] > 0 && !g.wide && !g.sums {
			g.widen()
		}
		g.elapsed[c] += t.elapsed
		g.ticks[c]++
		if t.partial {
			g.partial = true
			g.gone[c].span += t.elapsed
			g.gone[c].ticks++
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
		if n := len(g.stretches); n > 0 && g.stretches[n-1].cell == c && g.stretches[n-1].to == int32(t) {
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
		if g.ticks[c]+cell.ticks > 1 && !g.wide && !g.sums {
			g.widen()
		}
		g.elapsed[c] += cell.elapsed
		g.ticks[c] += cell.ticks
		g.gone[c].span += cell.gone.span
		g.gone[c].ticks += cell.gone.ticks
		g.partial = g.partial || cell.gone.ticks > 0
	}
	for _, l := range b.loss {
		if at := b.at(int(l.tick)); at > over.Start && at <= over.End && g.cell(at) >= 0 {
			g.addLoss(l.loss)
		}
	}
	for _, r := range b.runs {
		for t := r.first; t <= r.last; t++ {
			if at := b.at(int(t)); at > over.Start && at <= over.End && g.cell(at) >= 0 {
				g.note(b.notes[r.note])
				break
			}
		}
	}
	return any
}

// weight gives what an amount of an interval is divided by to be a rate.
func (d *set) weight(span measure.Span) float64 {
	if d.desc.Stat.Unit == measure.Nanoseconds {
		return float64(span)
	}
	return span.Seconds()
}

func (g *gather) addLoss(l measure.Loss) {
	for i := range g.loss {
		if g.loss[i].Reason == l.Reason {
			g.loss[i].Events += l.Events
			return
		}
	}
	g.loss = append(g.loss, l)
}

func (g *gather) note(n string) {
	if !slices.Contains(g.notes, n) {
		g.notes = append(g.notes, n)
	}
}

// answer makes the answer of what was gathered.
func (g *gather) answer() *measure.Answer {
	st := &g.set.desc.Stat
	if g.rough {
		g.note("rows were folded from rollups: the " + st.Fold.String() + " is of their means over a minute or an hour")
	} else if g.bounds && (g.pick == nil || len(g.query.By) < len(g.set.desc.Query.By)) { // else only the rest is folded
		g.note("rows were folded from rollups: min and max are bounds, the true ones lie between")
	}
	a := &measure.Answer{Query: g.query, Kind: st.Kind, Unit: st.AnswerUnit(), Sparse: st.Sparse, Start: g.start, Step: g.step,
		Elapsed: g.elapsed, Labels: g.words.texts, Stacks: st.Stacks(g.query.By), Loss: g.loss, Notes: g.notes}
	for _, n := range g.stacks.nodes {
		a.Frames = append(a.Frames, measure.Frame{Symbol: g.words.texts[n.symbol], Module: g.words.texts[n.module], Offset: n.offset, Parent: n.parent})
	}
	a.Series = make([]measure.Series, 0, len(g.series))
	keys := make([]measure.Label, len(g.rows.keys))
	for i, k := range g.rows.keys {
		keys[i] = measure.Label(k)
	}
	w := g.rows.width
	if g.pick != nil {
		g.answerRest(a)
	}
	for i, s := range g.series {
		if !s.there || g.pick != nil && i == g.pick.rest {
			continue
		}
		row := i
		if g.pick != nil {
			row = g.pick.rows[i]
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
		if g.wide {
			out.SetRange(s.least, s.most)
		}
	}
	g.keys, g.slots, g.texts = g.rows.keys, g.rows.slots, g.words.at
	return a
}

// finish makes the sums of a series its values: rates over the measured time of the cell, means of levels over the ticks where they
// were there. A sparse row that a measured tick had not was 0 in it.
func (g *gather) finish(s *gathered) {
	st := &g.set.desc.Stat
	extremes := func(c int, least, most float64) {
		if g.wide {
			s.least[c], s.most[c] = min(s.least[c], least), max(s.most[c], most)
		}
	}
	for c := range s.sum {
		span, ticks := g.elapsed[c], int64(g.ticks[c])
		if g.partial || s.off != nil {
			o := s.off[int32(c)]
			span -= g.gone[c].span + o.span
			ticks -= int64(g.gone[c].ticks + o.ticks)
		}
		n := int64(s.n[c])
		switch {
		case n == 0 && st.Sparse && ticks > 0:
			s.sum[c] = 0
			extremes(c, 0, 0) // they were 0 before
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
