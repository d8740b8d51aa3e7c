package store

import (
	"cmp"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// The compactor is the goroutine that packs closed windows into segments, joins segments, and
// deletes expired ones. Its writes become visible in one step: it writes the new segments, changes
// the index in memory, and deletes the old segments. After a crash in between, both exist; load
// detects the old ones by the windows that a segment contains.

// wakeCompactor wakes the compactor unless it is already going to run.
func (s *Store) wakeCompactor() {
	select {
	case s.compactor.wake <- struct{}{}:
	default:
	}
}

func (s *Store) compact() {
	defer close(s.compactor.done)
	for {
		var job func()
		select {
		case <-s.compactor.wake:
		case job = <-s.compactor.jobs:
		case <-s.disk.quit:
			return
		}
		s.runCompactor()
		if job != nil {
			job()
		}
		s.mu.Lock()
		s.work.finished = s.work.started
		s.work.changed.Broadcast()
		s.mu.Unlock()
	}
}

// runCompactor does all pending work.
func (s *Store) runCompactor() {
	s.mu.Lock()
	s.work.started = s.work.requested
	s.mu.Unlock()
	if s.prepareDisk() != nil {
		return
	}
	if s.compactor.stale != nil && s.erase(s.compactor.stale) == nil {
		s.compactor.stale = nil
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
	defer s.compactor.builder.done()
	s.compactor.builder.beginHour(w.newest)
	var fresh []entry
	for _, p := range w.order {
		if len(p.ticks) == 0 {
			continue
		}
		both, err := s.compactor.builder.window(p.set, []*block{p.block(w)})
		if err != nil {
			s.compactor.builder.forget()
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
		s.compactor.builder.forget()
		return err
	}
	s.mu.Lock()
	var orphans []entry // of datasets that were dropped meanwhile
	for _, e := range fresh {
		if d := s.datasets.byID[e.set]; d != nil {
			d.insert(e)
		} else {
			orphans = append(orphans, e)
		}
	}
	// A dropped dataset may have replaced the window by a copy, so it is found by its number.
	s.closedWindows = slices.DeleteFunc(
		slices.Clone(s.closedWindows), func(o *window) bool { return o.seq == w.seq },
	)
	s.mu.Unlock()
	if err := s.erase(orphans); err != nil {
		return err
	}
	return s.disk.remove(frameKeyOf(w.seq), frameKeyOf(w.last+1))
}

func (s *Store) segmentID() uint64 {
	s.compactor.lastID++
	return s.compactor.lastID
}

// writeSegments writes segments, all or none.
func (s *Store) writeSegments(segs []*segment) error {
	err := s.disk.put(segs)
	if err != nil {
		s.compactor.builder.forget()
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
						seg.head, nil,
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
						seg.value(), nil,
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
				slices.Clone(list), func(e entry) bool { return ids[e.id] },
			)
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
