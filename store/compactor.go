package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"culprit/measure"
)

// The clerk is the goroutine that makes segments of windows that are closed, joins segments, and lets go of what is too old. What
// it writes becomes visible in one step: first the new is written, then the index in memory changes, then the old is removed. After
// a crash in between both are there, and load tells by the windows that a segment is made of which is the old.

// ring asks the clerk to look around.
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

// work does what there is to do.
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

// archive makes the segments of a window that is closed.
func (s *Store) packWindow(w *window) error {
	s.disk.settle() // its frames are all there
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
	s.closedWindows = slices.DeleteFunc(slices.Clone(s.closedWindows), func(o *window) bool { return o.seq == w.seq }) // another when some of it was dropped meanwhile
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

// put writes segments, all or none.
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
				err = errors.Join(err, b.Set(segmentKey(kindHeader, seg.set, seg.resolution, seg.over.Start, seg.id), seg.head, nil))
			}
			for i, g := range seg.packed {
				err = errors.Join(err, b.Set(seg.groupKey(i), g, nil))
			}
			for _, kind := range []byte{kindIndex, kindIndexAgain} {
				err = errors.Join(err, b.Set(segmentKey(kind, seg.set, seg.resolution, seg.over.Start, seg.id), seg.value(), nil))
			}
			if err != nil {
				return err
			}
		}
		return b.Commit(pebble.NoSync)
	})
}

// sync makes all that was written outlast a power cut.
func (d *disk) sync() error {
	return d.guard(func() error { return d.pebble().LogData(nil, pebble.Sync) })
}

// remove deletes the keys from one up to another.
func (d *disk) remove(from, to []byte) error {
	return d.guard(func() error { return d.pebble().DeleteRange(from, to, pebble.NoSync) })
}

// erase deletes segments that are not in the index any more, and what they alone have of ticks and keys.
func (s *Store) erase(old []entry) error {
	if len(old) == 0 {
		return nil
	}
	return s.disk.erase(old, s.unusedShared(old))
}

// unused gives the keys of ticks and keys that some segments have and no other, and has no other built with them.
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

// erase deletes segments, and other keys.
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
				if err := b.Delete(segmentKey(kind, e.set, e.resolution, e.over.Start, e.id), nil); err != nil {
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

// fewGroups is how many groups are deleted each by itself: what deletes a range has its price in all that is read later.
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

// insert puts an entry where its time is.
func (d *set) insert(e entry) {
	list := &d.index[e.resolution]
	at, _ := slices.BinarySearchFunc(*list, e, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.over.Start, b.over.Start), cmp.Compare(a.id, b.id))
	})
	*list = slices.Insert(slices.Clip(*list), at, e) // a copy: a reader may hold the list
}

// without removes entries.
func (d *set) remove(old []entry) {
	ids := make(map[uint64]bool, len(old))
	for _, e := range old {
		ids[e.id] = true
	}
	for r, list := range d.index {
		if slices.ContainsFunc(list, func(e entry) bool { return ids[e.id] }) {
			d.index[r] = slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return ids[e.id] })
		}
	}
}

const (
	hour = 60 * measure.Minute
	day  = 24 * hour

	// Segments of ticks below this are joined to one an hour: those of datasets with few rows or a long step.
	smallTicks = 64 << 10

	// Segments are joined up to so many bytes of memory that their keys take meanwhile. What has more becomes several, which answer
	// together. Programs on the machine decide how many rows there are and how long their texts and stacks, so no number of rows is a
	// bound; 40,000 rows of threads took 10 MB.
	joinBytes = 5 << 20
)

// joinCost returns how many bytes of memory the keys of a block take while it is joined with others, about: its own, and what a
// keyring of it takes (ringOf).
func (b *block) joinCost(width int) int {
	n := 64*len(b.texts) + 96*len(b.stacks) + (100+12*width)*b.rows
	for _, t := range b.texts {
		n += len(t)
	}
	return n
}

// join joins what small segments an hour or a day has left.
func (s *Store) join() error {
	type work struct {
		set  *set
		old  []entry
		into []uint8 // resolutions of the segments to make
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

// joinParts joins segments of one stretch of time: as many at once as joinBytes allows, in order.
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

// joinOne makes one segment, of each resolution, of segments that were read.
func (s *Store) joinOne(d *set, old []entry, blocks []*block, into []uint8) error {
	if len(old) == 1 && len(into) == 1 { // it would be the same again
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

// leave keeps segments as they are, since one of them can't be read; they are not tried again.
func (s *Store) keepUnjoined(d *set, old []entry, err error) error {
	s.builder.forget()
	if s.disk.writeError() != nil {
		return err
	}
	s.disk.noteDamage(fmt.Sprintf("%s, %s to %s: %v", d.desc.Query, old[0].over.Start, old[len(old)-1].over.End, err))
	s.markDone(d, old)
	return nil
}

// finished takes note that segments are not to be joined with others, until the archive is opened again.
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
func (d *disk) fetch(key, room []byte) ([]byte, error) { return d.getFrom(d.pebble(), key, room) }

// mostBad bounds the keys that are remembered for being damaged.
const maxDamagedKeys = 10_000

// getFrom reads a value, and one that is damaged only once: Pebble looks for the wrong bit by trying each, for up to seconds.
func (d *disk) getFrom(from pebble.Reader, key, room []byte) ([]byte, error) {
	d.mu.Lock()
	err := d.damagedKeys[string(key)]
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	v, err := read(from, key, room)
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

func read(from pebble.Reader, key, room []byte) ([]byte, error) {
	v, closer, err := from.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return copied(room, v), nil
}

// copied gives a copy, in room where that is enough. It is never nil.
func copied(room, v []byte) []byte {
	if cap(room) < len(v) || room == nil {
		room = make([]byte, 0, len(v)+len(v)/8)
	}
	return append(room[:0], v...)
}
