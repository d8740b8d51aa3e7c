package dataset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"culprit/measure"
)

// Window keeps a stretch of measurement in memory and answers questions from it: any query whose statistic was recorded
// with the fields that it needs. One cell a tick. It is a measure.Reader; safe for several goroutines, also while it is being filled.
type Window struct {
	catalogue *Catalogue

	mu        sync.RWMutex // guards all below
	ticks     []measure.Interval
	stats     map[measure.StatID]*recordedStat
	keys      map[string]*rows // by the fields: of all statistics that have the same
	words     map[string]measure.Label
	texts     []string
	labelMaps [maxLabelMaps]labelMap // from the dictionaries that answers came with, the latest first
	stack     forest

	// Of the row or tick at hand.
	key   []measure.Label
	cells []float64
}

// kept is one statistic's ticks: cells[t][i] is the value of row i in tick t. A tick holds the rows known by then; a row that
// came later, or was absent, has the statistic's value of an absent row there. So a row costs four or eight bytes a tick, eight more, and its key,
// which the statistics of one thing have in common: a connection is a row in more than ten.
type recordedStat struct {
	st         *measure.Stat
	by         []string
	keys       *rows
	sameAsKeys int     // rows, as long as row i has key i, which mostly stays so; else list and at tell
	rowKeys    []int32 // the key of each row
	rowOfKey   []int32 // of each key 1 + its row, 0 when it has none; as long as it must
	next       int     // the row that is likely to come next
	shape      measure.Shape
	places     []int32 // of the rows that came last, which had the shape: where each went; as long as each i went to row i, nil
	cells      []column
	dists      [][]measure.Dist
	elapsed    []measure.Span
	loss       []measure.Loss
	notes      []string
}

// column is what a tick has for each row: its values, or amounts that over makes rates of. Most are counts, or microseconds in nanoseconds, which
// take four bytes without losing a bit.
type column struct {
	narrow []float32 // when all of them can be told so
	wide   []float64 // else
	over   measure.Span
}

// columnOf makes a column of cells, which it does not keep; before's, when they are the same, which are only read.
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

// row gives the row of a key, and whether it has just been made.
func (k *recordedStat) row(key []measure.Label) (i int, fresh bool) {
	// Rows come in the same order tick after tick, but for some.
	if i = k.next; i < k.len() && equal(k.key(i), key) {
		k.next++
		return i, false
	}
	if i == k.len() && k.rowKeys == nil && i < k.keys.len() && equal(k.keys.key(i), key) { // known by another statistic
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

func newWindow(c *Catalogue) *Window {
	return &Window{catalogue: c, stats: map[measure.StatID]*recordedStat{}, keys: map[string]*rows{}, words: map[string]measure.Label{}}
}

// forest is the stacks of a window: labels of fields that are stacks are indices into all.
type forest struct {
	all  []measure.Frame
	at   map[measure.Frame]measure.Label
	from []measure.Frame // that same is of: the answers' own
	same []measure.Label // frame of the answers -> frame of ours
}

// ours gives our frame of one of an answer's.
func (f *forest) ours(frames []measure.Frame, at measure.Label) measure.Label {
	if len(f.from) > 0 && (len(frames) < len(f.from) || &frames[0] != &f.from[0] && !slices.Equal(frames[:len(f.from)], f.from)) { // another dictionary
		f.same = f.same[:0]
	}
	f.from = frames
	if int(at) >= len(frames) {
		at, frames = 0, []measure.Frame{{Parent: -1}} // the empty stack
	}
	for int(at) >= len(f.same) {
		f.same = append(f.same, noLabel)
	}
	if f.same[at] != noLabel {
		return f.same[at]
	}
	// Callers first: they have smaller numbers, or none.
	one := frames[at]
	if one.Parent >= 0 && int(one.Parent) < int(at) {
		one.Parent = int32(f.ours(frames, measure.Label(one.Parent)))
	} else {
		one.Parent = -1
	}
	n, ok := f.at[one]
	if !ok {
		if f.at == nil {
			f.at = map[measure.Frame]measure.Label{}
		}
		n = measure.Label(len(f.all))
		f.at[one] = n
		f.all = append(f.all, one)
	}
	f.same[at] = n
	return n
}

// Record watches the queries for n ticks, or until the context ends, and gives what it saw, also when there was an error.
// progress, if not nil, is called after each tick with the number of ticks so far. With the last tick it returns: what the sources hold - two files and more of
// each process, programs in the kernel - they let go of when the context ends, so that nobody waits for that who waits for the answer.
func (c *Catalogue) Record(ctx context.Context, queries []measure.Query, n int, progress func(tick int)) (*Window, error) {
	w := newWindow(c)
	if len(queries) == 0 {
		return w, fmt.Errorf("record: no query")
	}
	var asked []measure.Query
	for _, q := range queries {
		if err := c.Check(q); err != nil {
			return w, err
		}
		asked = merge(asked, q, queries[0].Step)
	}
	for i := range asked {
		asked[i].Where = nil // what is recorded answers other questions too
	}
	whole := ctx
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	full := make(chan struct{})
	source, runs := c.owner[asked[0].Stat], map[int][]measure.Query{}
	for _, q := range asked {
		runs[c.owner[q.Stat]] = append(runs[c.owner[q.Stat]], q)
	}
	for beside, queries := range runs {
		if beside != source {
			go w.recordOther(ctx, beside, queries)
		}
	}
	f := newFolder(c, source, runs[source])
	f.reuse = true
	ended := make(chan error, 1)
	go func() {
		ended <- c.sources[source].Run(ctx, runs[source], measure.SinkFunc(func(batches []*measure.Batch) error {
			if len(w.ticks) >= n {
				return nil // it has not seen yet that it is over
			}
			w.add(widest(batches), func(take func(*measure.Answer, *measure.Batch)) { f.eachAnswer(batches, take) })
			if progress != nil {
				progress(len(w.ticks))
			}
			if len(w.ticks) >= n {
				stop()
				close(full)
				<-whole.Done() // see Record
			}
			return nil
		}))
	}()
	select {
	case <-full:
		return w, nil
	case err := <-ended:
		if err != nil {
			err = fmt.Errorf("record: %w", err)
		}
		return w, err
	}
}

// besideAfter is after which part of a step sources beside the first one begin: reading all counters of a machine takes 20 to 60 ms.
const otherDelay = 10

// beside records what another source than the first has, until the context ends: each of its readings in the tick in which most of it was. What it gives
// later is not waited for.
func (w *Window) recordOther(ctx context.Context, source int, queries []measure.Query) {
	// It must not hold up the first one's first reading, from where on the time is counted that somebody waits.
	began := time.NewTimer(queries[0].Step.AsDuration() / otherDelay)
	defer began.Stop()
	select {
	case <-ctx.Done():
		return
	case <-began.C:
	}
	f := newFolder(w.catalogue, source, queries)
	f.reuse = true
	err := w.catalogue.sources[source].Run(ctx, queries, measure.SinkFunc(func(batches []*measure.Batch) error {
		if ctx.Err() != nil {
			return nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		over := widest(batches)
		middle := over.Start.Add(over.Span() / 2)
		cell := slices.IndexFunc(w.ticks, func(t measure.Interval) bool { return middle < t.End })
		if cell < 0 {
			cell = len(w.ticks)
		}
		f.eachAnswer(batches, func(a *measure.Answer, b *measure.Batch) {
			k := w.statOf(a)
			for len(k.elapsed) < cell {
				k.elapsed, k.cells, k.dists = append(k.elapsed, 0), append(k.cells, column{}), append(k.dists, nil)
			}
			w.addAnswer(a, b)
			if n := len(k.elapsed) - 1; n > cell { // the ticks of the first source took longer, or it has overtaken them
				k.joinTicks(n - 1)
			}
		})
		return nil
	}))
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range queries {
		k := w.statOf(&measure.Answer{Query: q, Stacks: w.catalogue.Stat(q.Stat).Stacks(q.By)})
		k.notes = append(k.notes, err.Error())
	}
}

// Ticks gives the measured intervals, oldest first.
func (w *Window) Ticks() []measure.Interval {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return slices.Clone(w.ticks)
}

// add adds a tick: answers gives take each answer of it.
func (w *Window) add(over measure.Interval, answers func(take func(*measure.Answer, *measure.Batch))) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticks = append(w.ticks, over)
	answers(w.addAnswer)
}

// of gives what is kept of an answer's statistic. w.mu is held.
func (w *Window) statOf(a *measure.Answer) *recordedStat {
	k := w.stats[a.Query.Stat]
	if k == nil {
		fields := strings.Join(a.Query.By, "\x00")
		if w.keys[fields] == nil {
			w.keys[fields] = newRows(len(a.Query.By))
		}
		k = &recordedStat{st: w.catalogue.Stat(a.Query.Stat), by: a.Query.By, keys: w.keys[fields]}
		w.stats[a.Query.Stat] = k
	}
	return k
}

// take takes an answer of the latest tick. Its rows are those of the batch as they are, when there is one. w.mu is held.
func (w *Window) addAnswer(a *measure.Answer, b *measure.Batch) {
	k := w.statOf(a)
	k.elapsed = append(k.elapsed, a.Elapsed[0])
	for _, l := range a.Loss {
		k.loss = addLoss(k.loss, l)
	}
	for _, note := range a.Notes {
		if !slices.Contains(k.notes, note) {
			k.notes = append(k.notes, note)
		}
	}
	k.next = 0
	if a.Kind == measure.Dists {
		w.takeDists(k, a)
		return
	}
	absent := absentIn(a.Sparse, a.Elapsed[0])
	w.cells = w.cells[:0]
	for range k.len() {
		w.cells = append(w.cells, absent)
	}
	over := measure.Span(0)
	if b == nil {
		_, shape := a.Column()
		w.placeRows(k, a, shape, len(a.Series), func(i int) ([]measure.Label, float64) { return a.Series[i].Key, a.Series[i].Values[0] })
	} else {
		values := b.Values
		if a.Kind == measure.Delta {
			if over = b.Over.Span(); over <= 0 {
				values = slices.Clone(values)
				k.st.Unit.Rates(values, over)
			}
		}
		w.placeRows(k, a, b.Shape, len(values), func(i int) ([]measure.Label, float64) { return b.Key(i), values[i] })
	}
	cells := w.cells
	var before *column
	if n := len(k.cells); n > 0 {
		before = &k.cells[n-1]
	}
	k.cells = append(k.cells, columnOf(cells, over, before))
}

// put puts n rows of an answer, of a shape or of none (0), into w.cells. w.mu is held.
func (w *Window) placeRows(k *recordedStat, a *measure.Answer, shape measure.Shape, n int, row func(int) ([]measure.Label, float64)) {
	if shape != 0 && shape == k.shape {
		for i := range n {
			_, v := row(i)
			if k.places != nil {
				i = int(k.places[i])
			}
			w.cells[i] = v
		}
		return
	}
	k.shape = shape
	places, straight := k.places[:0], true
	for i := range n {
		key, v := row(i)
		at, fresh := k.row(w.ours(a, key))
		if fresh {
			w.cells = append(w.cells, v)
		} else {
			w.cells[at] = v
		}
		if straight && at != i {
			straight = false
			for j := range i {
				places = append(places, int32(j))
			}
		}
		if !straight {
			places = append(places, int32(at))
		}
	}
	if k.places = places; straight {
		k.places = nil
	}
}

// join makes tick t and the one after it, the last, one.
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
			default: // rates, or states, each as long as it was
				cells[i] = (a*float64(one) + b*float64(other)) / float64(one+other)
			}
		}
		k.cells = append(k.cells[:t], columnOf(cells, 0, nil))
	}
	k.elapsed = append(k.elapsed[:t], one+other)
}

func (w *Window) takeDists(k *recordedStat, a *measure.Answer) {
	dists := make([]measure.Dist, k.len(), k.len()+len(a.Series))
	for _, s := range a.Series {
		if i, fresh := k.row(w.ours(a, s.Key)); fresh {
			dists = append(dists, s.Dists()[0])
		} else {
			dists[i] = s.Dists()[0]
		}
	}
	k.dists = append(k.dists, dists)
}

// ours gives a key of an answer in our own labels, good until the next call.
func (w *Window) ours(a *measure.Answer, key []measure.Label) []measure.Label {
	same := w.labelMap(a.Labels)
	w.key = w.key[:0]
	for i, l := range key {
		if i < len(a.Stacks) && a.Stacks[i] {
			w.key = append(w.key, w.stack.ours(a.Frames, l))
			continue
		}
		if same[l] == noLabel {
			same[l] = w.word(a.Labels[l])
		}
		w.key = append(w.key, same[l])
	}
	return w.key
}

// absentIn is the value of a row that a tick has not: 0 where the statistic was measured and is sparse, else unknown.
func absentIn(sparse bool, elapsed measure.Span) float64 {
	if sparse && elapsed > 0 {
		return 0
	}
	return measure.NaN
}

// cell gives the value of row i in tick t.
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

// way is what is known of a dictionary.
type labelMap struct {
	from []string        // as far as it went when it was last looked at. It only grows, or another takes its place
	same []measure.Label // of each label of from ours, or noLabel as long as nobody asked
}

// mostWays is one for each source that is recorded at once, and some.
const maxLabelMaps = 4

// way gives what is known of a dictionary: a label for each of its labels. w.mu is held.
func (w *Window) labelMap(labels []string) []measure.Label {
	if len(labels) == 0 {
		return nil
	}
	if f := &w.labelMaps[0]; len(f.from) == len(labels) && &f.from[0] == &labels[0] {
		return f.same
	}
	grown := func(same func(from []string) bool) int {
		return slices.IndexFunc(w.labelMaps[:], func(f labelMap) bool { return len(f.from) > 0 && len(f.from) <= len(labels) && same(f.from) })
	}
	at := grown(func(from []string) bool { return &from[0] == &labels[0] })
	if at < 0 { // a dictionary that has grown into other memory has its words compared, that once
		at = grown(func(from []string) bool { return slices.Equal(from, labels[:len(from)]) })
	}
	var f labelMap
	if at >= 0 {
		f = w.labelMaps[at]
	} else {
		at = maxLabelMaps - 1
	}
	f.same = slices.Grow(f.same, len(labels)-len(f.from))
	for len(f.same) < len(labels) {
		f.same = append(f.same, noLabel)
	}
	f.from = labels
	copy(w.labelMaps[1:], w.labelMaps[:at])
	w.labelMaps[0] = f
	return f.same
}

const noLabel = ^measure.Label(0)

func (w *Window) word(s string) measure.Label {
	l, ok := w.words[s]
	if !ok {
		l = measure.Label(len(w.texts))
		w.words[s] = l
		w.texts = append(w.texts, s)
	}
	return l
}

func addLoss(all []measure.Loss, l measure.Loss) []measure.Loss {
	for i := range all {
		if all[i].Reason == l.Reason {
			all[i].Events += l.Events
			return all
		}
	}
	return append(all, l)
}

// question is a query that the window can answer.
type windowQuery struct {
	st       *measure.Stat
	k        *recordedStat
	p        plan
	from, to int // ticks
}

// question finds what answers a query. w.mu is held.
func (w *Window) prepare(q measure.Query) (*windowQuery, error) {
	if err := w.catalogue.Check(q); err != nil {
		return nil, err
	}
	k := w.stats[q.Stat]
	if k == nil {
		return nil, fmt.Errorf("ask %s: it was not recorded: %w", q.Stat, measure.ErrUnclear)
	}
	p, ok := planFor(q, k.by)
	if !ok {
		return nil, fmt.Errorf("ask %s: it was recorded without a field of the question: %w", q, measure.ErrUnclear)
	}
	from, to := 0, len(w.ticks)
	if q.Over != (measure.Interval{}) {
		for from < to && w.ticks[from].End <= q.Over.Start {
			from++
		}
		for to > from && w.ticks[to-1].End > q.Over.End {
			to--
		}
	}
	return &windowQuery{w.catalogue.Stat(q.Stat), k, p, from, to}, nil
}

// outline makes the answer to a question but for its series. w.mu is held.
func (w *Window) outline(q measure.Query, x *windowQuery) *measure.Answer {
	a := &measure.Answer{Query: q, Kind: x.st.Kind, Unit: x.st.AnswerUnit(), Sparse: x.st.Sparse,
		Labels: w.texts[:len(w.texts):len(w.texts)], // shared: texts only grow
		Loss:   slices.Clone(x.k.loss), Notes: slices.Clone(x.k.notes)}
	if a.Stacks = x.st.Stacks(q.By); a.Stacks != nil {
		a.Frames = w.stack.all[:len(w.stack.all):len(w.stack.all)] // shared, as texts
	}
	if x.to > x.from {
		a.Start = w.ticks[x.from].Start
		a.Step = w.ticks[x.to-1].End.Sub(a.Start) / measure.Span(x.to-x.from)
	}
	a.Elapsed = slices.Clone(x.k.elapsed[min(x.from, len(x.k.elapsed)):min(x.to, len(x.k.elapsed))])
	for len(a.Elapsed) < x.to-x.from { // a source that began later, or that another one has overtaken
		a.Elapsed = append(a.Elapsed, 0)
	}
	return a
}

// plain says whether the rows are answered as they were recorded.
func (x *windowQuery) plain() bool { return x.p.plain && x.st.Kind != measure.Dists }

func finite(v float64) bool { return v-v == 0 }

// Outline implements measure.Outliner: for rows that are answered as they were recorded.
func (w *Window) Outline(_ context.Context, q measure.Query) (a *measure.Answer, rows int, numbers bool, ok bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	x, err := w.prepare(q)
	if err != nil || !x.plain() {
		return nil, 0, false, false
	}
	rows = x.k.len()
	for i := 0; i < rows && !numbers; i++ {
		for t := x.from; t < x.to && !numbers; t++ {
			numbers = t < len(x.k.elapsed) && x.k.elapsed[t] > 0 && finite(x.k.cell(i, t, x.st.Sparse))
		}
	}
	return w.outline(q, x), rows, numbers, true
}

// Ask implements measure.Reader. Query.Over may narrow the window to the ticks that end within it; Query.Step is ignored.
func (w *Window) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	x, err := w.prepare(q)
	if err != nil {
		return nil, err
	}
	a, st, k, p, from, to := w.outline(q, x), x.st, x.k, x.p, x.from, x.to
	if x.plain() {
		w.copyRows(a, k, st, from, to)
		return a, nil
	}
	table := newRows(len(q.By))
	var counts [][]int
	key := make([]measure.Label, len(q.By))
	for i := range k.len() {
		row := k.key(i)
		if !p.wants(row, w.texts) {
			continue
		}
		for j, c := range p.columns {
			key[j] = row[c]
		}
		n, fresh := table.row(key)
		if fresh {
			a.Series = append(a.Series, measure.Series{})
			counts = append(counts, make([]int, to-from))
			if st.Kind == measure.Dists {
				a.Series[n].SetDists(make([]measure.Dist, to-from))
			} else {
				a.Series[n].Values = slices.Repeat([]float64{measure.NaN}, to-from)
			}
		}
		if st.Kind == measure.Dists {
			for t := from; t < to && t < len(k.dists); t++ {
				if i >= len(k.dists[t]) {
					continue
				}
				d := &a.Series[n].Dists()[t-from]
				if len(d.Counts) == 0 {
					d.Base = k.dists[t][i].Base
				}
				d.Merge(k.dists[t][i])
			}
			continue
		}
		values := a.Series[n].Values
		for t := from; t < to; t++ {
			values[t-from], counts[n][t-from] = st.Fold.Combine(values[t-from], counts[n][t-from], k.cell(i, t, st.Sparse))
		}
	}
	for i := range a.Series {
		a.Series[i].Key = slices.Clone(table.key(i))
	}
	return a, nil
}

// copied gives the rows of a statistic as they were recorded: two slices, however many rows. The keys are the window's own, which only grow.
func (w *Window) copyRows(a *measure.Answer, k *recordedStat, st *measure.Stat, from, to int) {
	n, cells := k.len(), to-from
	values := make([]float64, n*cells)
	a.Series = make([]measure.Series, n)
	for i := range a.Series {
		row := values[i*cells : (i+1)*cells : (i+1)*cells]
		for t := range row {
			row[t] = k.cell(i, from+t, st.Sparse)
		}
		a.Series[i].Key, a.Series[i].Values = k.key(i), row
	}
}
