package store

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"culprit/measure"
)

// load reads descriptions, the index and frames. It reports corrupt data through Problems and keeps
// the rest.
func (s *Store) load() error {
	for _, kind := range []byte{kindDataset, kindDatasetAgain} {
		whole := s.disk.salvage(prefix(kind), func(key, value []byte) {
			var d measure.Dataset
			if err := json.Unmarshal(value, &d); err != nil {
				s.disk.noteDamage(fmt.Sprintf("dataset %x: %v", key[1:], err))
			} else if s.datasets.byID[d.ID] == nil {
				s.register(newSet(d))
				s.datasets.next = max(s.datasets.next, d.ID+1)
			}
		})
		if whole && len(s.datasets.byID) > 0 && len(s.disk.damages) == 0 {
			break
		}
	}
	if next, err := s.disk.get(metaKey("next")); err == nil && len(next) == 4 {
		s.datasets.next = max(s.datasets.next, binary.BigEndian.Uint32(next))
	}
	s.loadIndex()
	return s.loadFrames()
}

// loadFrames replays the frames that are not in segments yet.
func (s *Store) loadFrames() error {
	var u *unframer
	replay := func(key, value []byte) error {
		seq := frameSeq(key)
		s.nextFrame = max(s.nextFrame, seq+1)
		h, r, err := openFrame(&s.codec, value)
		if err != nil {
			s.disk.noteDamage(fmt.Sprintf("frame %d: %v", seq, err))
			if u != nil {
				u.valid = false
			}
			return nil
		}
		if u == nil || u.w.seq != h.window {
			u = &unframer{w: newWindow(h.window, slotOf(h.at, windowSpan))}
			if s.window != nil {
				s.closedWindows = append(s.closedWindows, s.window)
			}
			s.window = u.w
		} else if seq != u.w.last+1 {
			u.valid = false // a frame omits what has not changed since the previous one
		}
		u.w.last, u.w.newest = seq, max(u.w.newest, h.at)
		s.newest = h.at
		if !u.valid && !h.key {
			for id := range u.w.parts {
				s.addPendingLoss(s.datasets.byID[id], "not on disk when the program ended", 0)
			}
			return nil
		}
		err = u.frame(h, r, s.datasets.byID)
		s.datasets.next = max(s.datasets.next, u.most+1) // as for segments
		if err != nil {
			s.disk.noteDamage(fmt.Sprintf("frame %d of %s: %v", seq, h.at, err))
		}
		return nil
	}
	// After damage, reading continues a little further on, because damage affects a block of some
	// frames. Each attempt may take Pebble a second, so the distance doubles. Frames behind a
	// larger hole are read from the end.
	from, end := prefix(kindFrame), bound(prefix(kindFrame))
	for skip := uint64(1); ; skip *= 2 {
		n, err := s.disk.walk(from, end, false, replay)
		if err == nil {
			break
		}
		s.disk.noteDamage(firstLine(err))
		if n > 0 {
			skip = 1
		}
		from = frameKeyOf(max(s.nextFrame, frameSeq(from)) + skip)
		if skip < 16 {
			continue
		}
		var behind []pair
		_, _ = s.disk.walk(from, end, true, func(key, value []byte) error {
			behind = append(behind, pair{slices.Clone(key), slices.Clone(value)})
			return nil
		})
		for _, p := range slices.Backward(behind) {
			if err := replay(p.key, p.value); err != nil {
				return err
			}
		}
		break
	}
	s.forgetArchived()
	return nil
}

// loadIndex reads the index. After a crash two segments may contain the same windows; the one with
// more windows stays.
func (s *Store) loadIndex() {
	known := map[uint64]bool{}
	for _, kind := range []byte{kindIndex, kindIndexAgain} {
		whole := s.disk.salvage(prefix(kind), func(key, value []byte) {
			e, err := readEntry(key, value)
			if err != nil {
				s.disk.noteDamage(fmt.Sprintf("index entry %x: %v", key, err))
				return
			}
			if known[e.id] {
				return
			}
			known[e.id] = true
			// also for a dataset whose description is corrupt: its ID is not used again
			s.datasets.next = max(s.datasets.next, e.set+1)
			s.compactor.lastID = max(s.compactor.lastID, e.id)
			s.nextFrame = max(s.nextFrame, e.last+1)
			if d := s.datasets.byID[e.set]; d != nil {
				d.index[e.resolution] = append(d.index[e.resolution], e)
				s.newest = max(s.newest, e.over.End)
			} else if whole := len(s.disk.damages) == 0; whole {
				s.compactor.stale = append(s.compactor.stale, e)
			} else {
				s.datasets.undescribed = append(s.datasets.undescribed, e)
			}
		})
		if whole && len(s.disk.damages) == 0 { // a table may be left out
			break
		}
	}
	for _, d := range s.datasets.byID {
		for resolution := range d.index {
			slices.SortFunc(d.index[resolution], func(a, b entry) int {
				return cmp.Or(cmp.Compare(a.over.Start, b.over.Start), cmp.Compare(a.id, b.id))
			})
			if old := superseded(d.index[resolution]); old != nil {
				d.remove(old)
				s.compactor.stale = append(s.compactor.stale, old...)
			}
		}
	}
}

// superseded returns the entries whose windows are contained in a later segment.
func superseded(list []entry) (old []entry) {
	byID := slices.Clone(list)
	slices.SortFunc(byID, func(a, b entry) int { return int(b.id) - int(a.id) })
	for i, e := range byID {
		// A joined segment has a larger ID than its parts, and its parts start on the same day.
		if slices.ContainsFunc(byID[:i], func(o entry) bool {
			if o.joins == e.joins && o.first == e.first && o.last == e.last && o.over == e.over {
				// written twice, because it was unknown whether the first write succeeded
				return true
			}
			return o.joins && o.first <= e.first && o.last >= e.last &&
				o.over.Start <= e.over.Start &&
				o.over.End >= e.over.End
		}) {
			old = append(old, e)
		}
	}
	return old
}

// forgetArchived removes from the windows what segments contain already: a crash prevented the
// deletion of their frames.
func (s *Store) forgetArchived() {
	for _, w := range s.windows() {
		some := false
		for id, p := range w.parts {
			if slices.ContainsFunc(
				p.set.index[inTicks], func(e entry) bool { return e.first == w.seq && !e.joins },
			) {
				some = true
				delete(w.parts, id)
				w.order = slices.DeleteFunc(w.order, func(o *part) bool { return o == p })
			}
		}
		if some && w == s.window { // The window was closed, so later ticks must not use its number.
			s.closedWindows, s.window = append(s.closedWindows, w), nil
		}
	}
}

// windows returns the windows in memory, oldest first.
func (s *Store) windows() []*window {
	if s.window == nil {
		return s.closedWindows
	}
	return append(slices.Clone(s.closedWindows), s.window)
}

// heldTime returns the time from the start of the oldest tick to the end of the newest. Where only
// rollups exist, it begins and ends with their cells. A cell that contains the first or last tick
// does not extend it.
func (s *Store) heldTime(d *set) (over measure.Interval) {
	take := func(o measure.Interval, cell measure.Span) {
		switch {
		case over == (measure.Interval{}):
			over = o
			return
		case cell == 0:
			over.Start, over.End = min(over.Start, o.Start), max(over.End, o.End)
			return
		}
		if o.Start < floor(over.Start, cell) {
			over.Start = o.Start
		}
		if o.End > floor(over.End.Add(cell-1), cell) {
			over.End = o.End
		}
	}
	for _, w := range s.windows() {
		if p := w.parts[d.desc.ID]; p != nil && len(p.ticks) > 0 {
			take(
				measure.Interval{
					Start: p.ticks[0].at.Add(-d.step()),
					End:   p.ticks[len(p.ticks)-1].at,
				},
				0,
			)
		}
	}
	for r, list := range d.index {
		for _, e := range list {
			take(e.over, spanOf(uint8(r)))
		}
	}
	return over
}
