package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"culprit/measure"
)

// The compactor is the goroutine that packs closed windows into segments, joins segments, and
// deletes expired ones. Its writes become visible in one step: it writes the new segments, changes
// the index in memory, and deletes the old segments. After a crash in between, both exist; load
// detects the old ones by the windows that a segment contains.

// wakeCompactor wakes the compactor unless it is already going to run.
func (s *Store) wakeCompactor() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Store) compact() {
	defer close(s.compactorDone)
	for {
		var job func()
		select {
		case <-s.wake:
		case job = <-s.jobs:
		case <-s.disk.quit:
			return
		}
		s.runCompactor()
		if job != nil {
			job()
		}
		s.mu.Lock()
		s.finished = s.started
		s.finishedChanged.Broadcast()
		s.mu.Unlock()
	}
}

// runCompactor does all pending work.
func (s *Store) runCompactor() {
	s.mu.Lock()
	s.started = s.requested
	s.mu.Unlock()
	if s.prepareDisk() != nil {
		return
	}
	if s.stale != nil && s.erase(s.stale) == nil {
		s.stale = nil
	}
	for s.disk.writeError() == nil {
		s.mu.RLock()
		var w *window
		if len(s.closedWindows) > 0 {
			w = s.closedWindows[0]
		}
		s.mu.RUnlock()
		if w == nil {
			break
		}
		if err := s.packWindow(w); err != nil {
			s.disk.fail(err)
			return
		}
	}
	if s.disk.writeError() == nil {
		if err := s.join(); err != nil {
			s.disk.fail(err)
		}
		if err := s.retainLog(); err != nil {
			s.disk.fail(err)
		}
		if err := s.retain(); err != nil {
			s.disk.fail(err)
		}
	}
}

// packWindow stores a closed window as segments.
func (s *Store) packWindow(w *window) error {
	s.disk.settle() // all its frames are written
	defer s.builder.done()
	s.builder.beginHour(w.newest)
	var fresh []entry
	for _, p := range w.order {
		if len(p.ticks) == 0 {
			continue
		}
		both, err := s.builder.window(p.set, []*block{p.block(w)})
		if err != nil {
			s.builder.forget()
			return err
		}
		for _, seg := range both {
			seg.first, seg.last = w.seq, w.seq
			fresh = append(fresh, seg.entry)
		}
		if err := s.writeSegments(both); err != nil {
			return err
		}
	}
	if err := s.disk.sync(); err != nil {
		s.builder.forget()
		return err
	}
	s.mu.Lock()
	var orphans []entry // of datasets that were dropped meanwhile
	for _, e := range fresh {
		if d := s.sets[e.set]; d != nil {
			d.insert(e)
		} else {
			orphans = append(orphans, e)
		}
	}
	// A dropped dataset may have replaced the window by a copy, so it is found by its number.
	s.closedWindows = slices.DeleteFunc(
		slices.Clone(s.closedWindows),
		func(o *window) bool { return o.seq == w.seq },
	)
	s.mu.Unlock()
	if err := s.erase(orphans); err != nil {
		return err
	}
	return s.disk.remove(frameKeyOf(w.seq), frameKeyOf(w.last+1))
}

func (s *Store) segmentID() uint64 {
	s.lastID++
	return s.lastID
}

// writeSegments writes segments, all or none.
func (s *Store) writeSegments(segs []*segment) error {
	err := s.disk.put(segs)
	if err != nil {
		s.builder.forget()
	}
	return err
}

func (d *disk) put(segs []*segment) error {
	return d.guard(func() error {
		b := d.pebble().NewBatch()
		defer b.Close()
		for _, seg := range segs {
			var err error
			for _, p := range seg.shared {
				err = errors.Join(err, b.Set(p.key, p.value, nil))
			}
			if seg.head != nil {
				err = errors.Join(
					err,
					b.Set(
						segmentKey(kindHeader, seg.set, seg.resolution, seg.over.Start, seg.id),
						seg.head,
						nil,
					),
				)
			}
			for i, g := range seg.packed {
				err = errors.Join(err, b.Set(seg.groupKey(i), g, nil))
			}
			for _, kind := range []byte{kindIndex, kindIndexAgain} {
				err = errors.Join(
					err,
					b.Set(
						segmentKey(kind, seg.set, seg.resolution, seg.over.Start, seg.id),
						seg.value(),
						nil,
					),
				)
			}
			if err != nil {
				return err
			}
		}
		return b.Commit(pebble.NoSync)
	})
}

// sync makes all earlier writes durable.
func (d *disk) sync() error {
	return d.guard(func() error { return d.pebble().LogData(nil, pebble.Sync) })
}

// remove deletes the keys in [from, to).
func (d *disk) remove(from, to []byte) error {
	return d.guard(func() error { return d.pebble().DeleteRange(from, to, pebble.NoSync) })
}

// erase deletes segments that are no longer in the index, and the ticks and keys that only they
// use.
func (s *Store) erase(old []entry) error {
	if len(old) == 0 {
		return nil
	}
	return s.disk.erase(old, s.unusedShared(old))
}

// unusedShared returns the Pebble keys of ticks and row keys that only these segments use. The
// builder will not use them for later segments.
func (s *Store) unusedShared(old []entry) (keys [][]byte) {
	type own struct {
		kind byte
		id   uint64
	}
	gone := map[own]bool{}
	for i := range old {
		if e := &old[i]; e.clock != 0 {
			gone[own{kindClock, e.clockID()}], gone[own{kindKeys, e.keysID()}] = true, true
		}
	}
	used := func(list []entry) {
		for i := range list {
			if e := &list[i]; e.clock != 0 {
				delete(gone, own{kindClock, e.clockID()})
				delete(gone, own{kindKeys, e.keysID()})
			}
		}
	}
	s.mu.RLock()
	for _, d := range s.sets {
		for _, list := range d.index {
			used(list)
		}
	}
	used(s.undescribed)
	s.mu.RUnlock()
	ids := map[uint64]bool{}
	for o := range gone {
		keys = append(keys, ownKey(o.kind, o.id))
		if o.kind == kindClock {
			keys = append(keys, ownKey(kindClockAgain, o.id))
		}
		ids[o.id] = true
	}
	s.builder.forgetShared(ids)
	return keys
}

// erase deletes segments and other keys.
func (d *disk) erase(old []entry, others [][]byte) error {
	return d.guard(func() error {
		b := d.pebble().NewBatch()
		defer b.Close()
		for _, k := range others {
			if err := b.Delete(k, nil); err != nil {
				return err
			}
		}
		for _, e := range old {
			for _, kind := range []byte{kindIndex, kindIndexAgain, kindHeader} {
				key := segmentKey(kind, e.set, e.resolution, e.over.Start, e.id)
				if err := b.Delete(key, nil); err != nil {
					return err
				}
			}
			if err := e.deleteGroups(b); err != nil {
				return err
			}
		}
		return b.Commit(pebble.NoSync)
	})
}

// maxSingleDeletes is how many groups are deleted one by one. A range deletion makes later reads
// more expensive.
const maxSingleDeletes = 8

func (e *entry) deleteGroups(b *pebble.Batch) error {
	if e.groups > maxSingleDeletes {
		from := e.groupsKey()
		return b.DeleteRange(from, bound(from), nil)
	}
	for n := range int(e.groups) {
		if err := b.Delete(e.groupKey(n), nil); err != nil {
			return err
		}
	}
	return nil
}

// insert adds an entry in the order of time.
func (d *set) insert(e entry) {
	list := &d.index[e.resolution]
	at, _ := slices.BinarySearchFunc(*list, e, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.over.Start, b.over.Start), cmp.Compare(a.id, b.id))
	})
	*list = slices.Insert(slices.Clip(*list), at, e) // a copy: a reader may hold the list
}

// remove removes entries.
func (d *set) remove(old []entry) {
	ids := make(map[uint64]bool, len(old))
	for _, e := range old {
		ids[e.id] = true
	}
	for r, list := range d.index {
		if slices.ContainsFunc(list, func(e entry) bool { return ids[e.id] }) {
			d.index[r] = slices.DeleteFunc(
				slices.Clone(list),
				func(e entry) bool { return ids[e.id] },
			)
		}
	}
}

const (
	hour = 60 * measure.Minute
	day  = 24 * hour

	// Segments of ticks below this size are joined to one per hour. They belong to datasets with
	// few rows or a long step.
	smallTicks = 64 << 10

	// joinBytes limits the memory that the keys of joined segments take meanwhile. Larger segments
	// become several that are read together. The number of rows is no limit, because programs on
	// the machine decide how long texts and stacks are: 40,000 rows of threads took 10 MB.
	joinBytes = 5 << 20
)

// joinCost estimates the bytes of memory that the keys of a block take while it is joined: its own
// and those of mergeKeys.
func (b *block) joinCost(width int) int {
	n := 64*len(b.texts) + 96*len(b.stacks) + (100+12*width)*b.rows
	for _, t := range b.texts {
		n += len(t)
	}
	return n
}

// join joins the small segments of past hours and days.
func (s *Store) join() error {
	type work struct {
		set  *set
		old  []entry
		into []uint8 // resolutions of the new segments
	}
	var todo []work
	s.mu.RLock()
	newest := s.newest
	for _, d := range s.sets {
		for resolution, span := range []measure.Span{hour, hour, day} {
			list := d.index[resolution]
			for i := 0; i < len(list); {
				slot := slotOf(list[i].over.Start+1, span)
				var old []entry
				var bytes uint64
				for ; i < len(list) && slotOf(list[i].over.Start+1, span) == slot; i++ {
					if !list[i].done {
						old = append(old, list[i])
						bytes += list[i].bytes
					}
				}
				end := measure.Time((slot + 1) * int64(span))
				if len(old) == 0 || newest < end.Add(windowSpan) || newest < s.distrustClockUntil {
					continue
				}
				if resolution == inTicks && bytes > smallTicks {
					continue
				}
				into := []uint8{uint8(resolution)}
				if resolution == inMinutes {
					into = append(into, inHours)
				}
				if len(old) > 1 || resolution == inMinutes {
					todo = append(todo, work{d, old, into})
				}
			}
		}
	}
	s.mu.RUnlock()
	if len(todo) > 0 {
		s.builder.beginHour(newest)
	}
	for _, t := range todo {
		if err := s.joinParts(t.set, t.old, t.into); err != nil {
			return err
		}
	}
	return nil
}

// joinParts joins the segments of one hour or day in order, as many at a time as joinBytes allows.
func (s *Store) joinParts(d *set, old []entry, into []uint8) error {
	from, cost := 0, 0
	var blocks []*block
	for i, e := range old {
		b, err := e.read(&s.codec, s.disk.fetch, d, nil)
		if err != nil {
			if err := s.keepUnjoined(d, old[from:i+1], err); err != nil {
				return err
			}
			from, cost, blocks = i+1, 0, nil
			continue
		}
		more := b.joinCost(len(d.stack))
		if len(blocks) > 0 && cost+more > joinBytes {
			if err := s.joinOne(d, old[from:i:i], blocks, into); err != nil {
				return err
			}
			from, cost, blocks = i, 0, nil
		}
		cost += more
		blocks = append(blocks, b)
	}
	if len(blocks) == 0 {
		return nil
	}
	return s.joinOne(d, old[from:], blocks, into)
}

// joinOne makes one segment of each resolution from segments that were read.
func (s *Store) joinOne(d *set, old []entry, blocks []*block, into []uint8) error {
	if len(old) == 1 && len(into) == 1 { // the result would be the same segment
		s.markDone(d, old)
		return nil
	}
	defer s.builder.done()
	var fresh []entry
	var segs []*segment
	for _, resolution := range into {
		seg, err := s.builder.build(d, resolution, blocks)
		if err != nil {
			return s.keepUnjoined(d, old, err)
		}
		if seg == nil {
			continue
		}
		seg.joins = resolution == into[0]
		seg.done = seg.joins
		seg.first, seg.last = old[0].first, old[0].last
		for _, e := range old {
			seg.first, seg.last = min(seg.first, e.first), max(seg.last, e.last)
		}
		segs = append(segs, seg)
		fresh = append(fresh, seg.entry)
	}
	if err := s.writeSegments(segs); err != nil {
		return err
	}
	if err := s.disk.sync(); err != nil {
		s.builder.forget()
		return err
	}
	s.mu.Lock()
	d.remove(old)
	for _, e := range fresh {
		d.insert(e)
	}
	s.mu.Unlock()
	return s.erase(old)
}

// keepUnjoined keeps segments as they are because one of them cannot be read. They are not tried
// again.
func (s *Store) keepUnjoined(d *set, old []entry, err error) error {
	s.builder.forget()
	if s.disk.writeError() != nil {
		return err
	}
	s.disk.noteDamage(
		fmt.Sprintf(
			"%s, %s to %s: %v",
			d.desc.Query,
			old[0].over.Start,
			old[len(old)-1].over.End,
			err,
		),
	)
	s.markDone(d, old)
	return nil
}

// markDone marks segments as not to be joined until the archive is opened again.
func (s *Store) markDone(d *set, old []entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range d.index[old[0].resolution] {
		if slices.ContainsFunc(old, func(o entry) bool { return o.id == e.id }) {
			d.index[old[0].resolution] = slices.Clone(d.index[old[0].resolution])
			d.index[old[0].resolution][i].done = true
		}
	}
}

// get reads a value.
func (d *disk) get(key []byte) ([]byte, error) { return d.fetch(key, nil) }

// fetch is a getter.
func (d *disk) fetch(key, buf []byte) ([]byte, error) { return d.getFrom(d.pebble(), key, buf) }

// maxDamagedKeys limits the keys remembered as corrupt.
const maxDamagedKeys = 10_000

// getFrom reads a value. A corrupt one is read only once: Pebble searches for the wrong bit by
// trying each, for up to seconds.
func (d *disk) getFrom(from pebble.Reader, key, buf []byte) ([]byte, error) {
	d.mu.Lock()
	err := d.damagedKeys[string(key)]
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	v, err := read(from, key, buf)
	if err != nil && pebble.IsCorruptionError(err) {
		err = errors.New(firstLine(err))
		d.mu.Lock()
		if len(d.damagedKeys) < maxDamagedKeys {
			d.damagedKeys[string(key)] = err
		}
		d.mu.Unlock()
	}
	return v, err
}

func read(from pebble.Reader, key, buf []byte) ([]byte, error) {
	v, closer, err := from.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return copied(buf, v), nil
}

// copied returns a copy of v, in buf if that is large enough. It is never nil.
func copied(buf, v []byte) []byte {
	if cap(buf) < len(v) || buf == nil {
		buf = make([]byte, 0, len(v)+len(v)/8)
	}
	return append(buf[:0], v...)
}
