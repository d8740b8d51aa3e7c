package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"culprit/measure"
)

// maxValues limits the values of one answer. Each takes 28 bytes while the answer is made.
const maxValues = 8 << 20

// maxValuesBeforeTop limits the values of an answer with Query.Top before only the largest rows are
// gathered: 28 MB.
const maxValuesBeforeTop = 1 << 20

// limits are maxValuesBeforeTop and maxValues; tests use smaller ones.
type limits struct{ beforeTop, values int }

var errTooLarge = errors.New(
	"the answer would be too large: ask for fewer rows, a larger step or a shorter time")

// minParallelValues is how many values segments must contain to use a second goroutine.
const minParallelValues = 10_000

// Ask answers q from the recorded data. The error is ErrUnclear when no dataset covers q,
// ErrTooLarge when the answer exceeds maxValues.
func (s *Store) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	a, err := s.ask(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", q, err)
	}
	return a, nil
}

func (s *Store) ask(ctx context.Context, q measure.Query) (a *measure.Answer, err error) {
	buffers, _ := s.buffers.Get().(*gatherBuffers)
	if buffers == nil {
		buffers = &gatherBuffers{}
	}
	defer func() {
		if p := recover(); p != nil {
			// the buffers are in an unknown state and are not reused
			a, err = nil, measure.Recovered("answering a query", p)
			return
		}
		buffers.release()
		s.buffers.Put(buffers)
	}()
	limit := s.limits.values
	if q.Top > 0 {
		limit = s.limits.beforeTop
	}
	g, err := s.gatherRows(ctx, q, limit, buffers, nil)
	if q.Top > 0 && errors.Is(err, errTooLarge) {
		g, err = s.gatherLargest(ctx, q, buffers)
	}
	if errors.Is(err, errTooLarge) && !errors.Is(err, measure.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", err, measure.ErrTooLarge)
	}
	if err != nil {
		return nil, err
	}
	return g.answer(), nil
}

// gatherRows gathers the rows of a query, at most limit values; with pick, the rows that it
// selects.
func (s *Store) gatherRows(
	ctx context.Context, q measure.Query, limit int, buffers *gatherBuffers, pick *ranking,
) (*gather, error) {
	j, err := s.prepare(q, limit, buffers, pick)
	if err != nil {
		return nil, err
	}
	defer j.close()
	if err := j.read(ctx); err != nil {
		return nil, err
	}
	return j.gather, nil
}

// job is a query whose data in memory has been gathered and whose segments have not.
type job struct {
	store    *Store
	gather   *gather
	needed   []entry
	pieces   []measure.Interval // per needed segment: the time that it answers
	snapshot *pebble.Snapshot   // nil only if no segment is needed
	seeker   *seeker            // nil: few segments
}

// prepare gathers the data in memory and pins the needed segments. After an error nothing is
// pinned. Windows may change once the lock is released, so they are read under it.
func (s *Store) prepare(
	q measure.Query, limit int, buffers *gatherBuffers, pick *ranking,
) (*job, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g, over, err := s.newGather(q, limit, buffers)
	if err == nil && pick != nil {
		err = g.useRanking(pick)
	}
	if err != nil {
		return nil, err
	}
	j := &job{store: s, gather: g}
	for _, p := range g.plan(over) {
		for _, e := range g.set.segmentsFor(p) {
			j.needed, j.pieces = append(j.needed, e), append(j.pieces, p.over)
		}
	}
	for _, w := range s.windows() {
		if p := w.parts[g.set.desc.ID]; p != nil {
			if err := g.add(p.block(w), over); err != nil {
				return nil, err
			}
		}
	}
	if len(j.needed) > 0 {
		j.snapshot = s.disk.pebble().NewSnapshot()
	}
	return j, nil
}

// close releases what prepare pinned.
func (j *job) close() {
	if j.seeker != nil {
		j.seeker.close()
	}
	if j.snapshot != nil {
		_ = j.snapshot.Close()
	}
}

// read gathers the segments. When it returns or panics, the goroutines that it started have ended.
func (j *job) read(ctx context.Context) (err error) {
	s, g := j.store, j.gather
	get := func(key, buf []byte) ([]byte, error) { return s.disk.getFrom(j.snapshot, key, buf) }
	if len(j.needed) >= minSeekSegments {
		j.seeker = &seeker{disk: s.disk, from: j.snapshot, at: map[byte]*pebble.Iterator{}}
		get = j.seeker.get
	}
	read := func(i int, last *block) (*block, error) {
		return s.cache.read(&s.codec, j.needed[i], get, g.set, j.pieces[i], last)
	}
	values := uint64(0)
	for _, e := range j.needed {
		values += e.samples
	}
	next := readInOrder(read)
	if values > minParallelValues {
		laid := g.foldInBackground()
		defer func() {
			if broken := laid(); broken != nil {
				err = broken
			}
		}()
		ahead, stop := readInBackground(len(j.needed), read)
		defer stop()
		next = ahead
	}
	for i, e := range j.needed {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := next(i)
		var fault *measure.Fault
		if errors.As(err, &fault) {
			return err
		}
		if err != nil {
			g.addLoss(
				measure.Loss{
					Reason: fmt.Sprintf(
						"damaged in the archive, %s to %s: %v", e.over.Start, e.over.End, err,
					),
					Events: e.samples,
				},
			)
			continue
		}
		if err := g.add(b, j.pieces[i]); err != nil {
			return err
		}
		if b.release != nil {
			b.release()
		}
	}
	return nil
}

// readInOrder reads one segment after another.
func readInOrder(read func(i int, last *block) (*block, error)) func(i int) (*block, error) {
	var last *block
	return func(i int) (*block, error) {
		b, err := read(i, last)
		if err == nil {
			last = b
		}
		return b, err
	}
}

// readInBackground reads the first n segments in another goroutine, two or three ahead of next.
// stop ends that goroutine and waits for it. A panic in it becomes the error of the segment, a
// *measure.Fault.
func readInBackground(
	n int, read func(i int, last *block) (*block, error),
) (next func(i int) (*block, error), stop func()) {
	type opened struct {
		b   *block
		err error
	}
	blocks, done := make(chan opened, 2), make(chan struct{})
	one := readInOrder(read)
	open := func(i int) (o opened) {
		defer func() {
			if p := recover(); p != nil {
				o = opened{err: measure.Recovered("reading a segment", p)}
			}
		}()
		b, err := one(i)
		if err == nil && b.preload != nil {
			b.preload()
		}
		return opened{b, err}
	}
	go func() {
		defer close(blocks)
		for i := range n {
			select {
			case blocks <- open(i):
			case <-done:
				return
			}
		}
	}()
	next = func(int) (*block, error) {
		o := <-blocks
		return o.b, o.err
	}
	stop = func() {
		close(done)
		for range blocks { // until the goroutine has returned
		}
	}
	return next, stop
}

// newGather finds the dataset and the grid of an answer. mu is held.
func (s *Store) newGather(
	q measure.Query, limit int, buffers *gatherBuffers,
) (*gather, measure.Interval, error) {
	over := q.Over
	if s.closed {
		return nil, over, errClosed
	}
	d, err := s.choose(q)
	if err != nil {
		return nil, over, err
	}
	step, notes := q.Step, []string(nil)
	if step < d.step() {
		if step > 0 {
			notes = append(
				notes, fmt.Sprintf("recorded each %s, which is the step of the answer", d.step()),
			)
		}
		step = d.step()
	}
	held := s.heldTime(d)
	if over.Start == 0 {
		over.Start = floor(held.Start, step)
	}
	if over.End == 0 {
		over.End = max(held.End, over.Start)
	}
	over.End = max(over.End, over.Start)
	floors := s.resolutionStarts(d)
	if coarse := coarsest(floors, over); coarse > 0 &&
		(step%coarse != 0 || floor(over.Start, coarse) != over.Start) {
		step = (max(step, coarse) + coarse - 1) / coarse * coarse
		over.Start = floor(over.Start, coarse)
		notes = append(notes, fmt.Sprintf(
			"what is older is kept in steps of %s only: the step of the answer is %s", coarse, step,
		))
	}
	cells := (int64(over.Span()) + int64(step) - 1) / int64(step)
	if cells > maxValues {
		return nil, over, fmt.Errorf("%d cells: %w: %w", cells, errTooLarge, measure.ErrTooLarge)
	}
	g := newGather(q, d, over.Start, step, int(cells), limit, buffers)
	g.notes, g.floors = notes, floors
	return g, over, nil
}

// resolutionStarts returns the start of each resolution, ticks in memory included; MaxInt64 for an
// empty one.
func (s *Store) resolutionStarts(d *set) (out [3]measure.Time) {
	for r := range out {
		out[r] = math.MaxInt64
		if list := d.index[r]; len(list) > 0 {
			out[r] = list[0].over.Start
		}
	}
	for _, w := range s.windows() {
		if p := w.parts[d.desc.ID]; p != nil && len(p.ticks) > 0 {
			out[inTicks] = min(out[inTicks], p.ticks[0].at.Add(-d.step()))
		}
	}
	return out
}

// coarsest returns the span of the rollups that alone contain a part of the time; 0 when ticks
// contain all of it.
func coarsest(floors [3]measure.Time, over measure.Interval) (span measure.Span) {
	finer := floors[inTicks]
	for _, r := range []uint8{inMinutes, inHours} {
		// A rollup's first cell begins before the first tick in it.
		if from := floors[r]; from < math.MaxInt64 {
			if until := floor(finer, spanOf(r)); from < until && over.Start < until &&
				over.End > from {
				span = spanOf(r)
			}
			finer = min(finer, from)
		}
	}
	return span
}

func floor(t measure.Time, step measure.Span) measure.Time {
	return t - measure.Time((int64(t)%int64(step)+int64(step))%int64(step))
}

// choose returns the dataset that covers the query and most of its time; among equals the one with
// the fewest fields.
func (s *Store) choose(q measure.Query) (*set, error) {
	var best *set
	var bestSpan measure.Span
	var others []string
	for _, d := range s.datasets.byID {
		if d.desc.Query.Stat != q.Stat {
			continue
		}
		if !d.desc.Query.Covers(q) {
			others = append(others, d.desc.Query.String())
			continue
		}
		held := s.heldTime(d)
		if q.Over.Start != 0 {
			held.Start = max(held.Start, q.Over.Start)
		}
		if q.Over.End != 0 {
			held.End = min(held.End, q.Over.End)
		}
		span := max(0, held.Span())
		if best == nil || span > bestSpan || span == bestSpan && d.simpler(best) {
			best, bestSpan = d, span
		}
	}
	switch {
	case best != nil:
		return best, nil
	case others != nil:
		slices.Sort(others)
		return nil, fmt.Errorf(
			"no dataset has all that it needs; recorded is: %s: %w", others[0], measure.ErrUnclear,
		)
	}
	return nil, measure.ErrNeverRecorded
}

// simpler reports whether d has fewer fields than o, or as many and a smaller ID.
func (d *set) simpler(o *set) bool {
	if n, m := len(d.desc.Query.By), len(o.desc.Query.By); n != m {
		return n < m
	}
	return d.desc.ID < o.desc.ID
}

// addLoss adds l to all, or to the loss of the same reason in it.
func addLoss(all []measure.Loss, l measure.Loss) []measure.Loss {
	same := func(o measure.Loss) bool { return o.Reason == l.Reason }
	if i := slices.IndexFunc(all, same); i >= 0 {
		all[i].Events += l.Events
		return all
	}
	return append(all, l)
}

// Held describes what the archive contains of a dataset.
func (s *Store) Held(id uint32) measure.Stored {
	s.mu.RLock()
	defer s.mu.RUnlock()
	d := s.datasets.byID[id]
	if d == nil {
		return measure.Stored{}
	}
	h := measure.Stored{Over: s.heldTime(d), Rows: d.rows}
	for r, list := range d.index {
		for _, e := range list {
			h.Disk += int64(e.bytes)
			if r == inTicks {
				h.Samples += e.samples
			}
		}
	}
	for _, w := range s.windows() {
		if p := w.parts[id]; p != nil {
			for i := range p.cols {
				h.Memory += int64(10*cap(p.cols[i].values) + 96)
			}
			h.Memory += int64(4*cap(p.rows.keys) + cap(p.blob) + 16*cap(p.log))
			for _, l := range p.loss {
				h.Loss = addLoss(h.Loss, l.loss)
			}
		}
	}
	return h
}
