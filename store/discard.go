package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"culprit/measure"
)

// Discard deletes what a dataset contains of a time. It deletes exactly the ticks in it, and each
// minute that it touches. Hours are recomputed from the remaining minutes, or deleted when minutes
// have expired. It returns an error for an unknown dataset and when the disk cannot be written.
func (s *Store) Discard(id uint32, over measure.Interval) error {
	s.mu.Lock()
	d := s.datasets.byID[id]
	if d == nil || s.closed {
		s.mu.Unlock()
		return fmt.Errorf("discard of dataset %d: there is none: %w", id, measure.ErrUnclear)
	}
	if s.disk.readOnly {
		s.mu.Unlock()
		return errReadOnly
	}
	if s.window != nil && s.window.parts[id] != nil {
		s.closedWindows, s.window = append(slices.Clip(s.closedWindows), s.window), nil
	}
	s.mu.Unlock()
	if err := s.runInCompactor(func() error { return s.discard(d, over) }); err != nil {
		return fmt.Errorf("discard of dataset %d: %w", id, err)
	}
	return nil
}

// runInCompactor has the compactor call f after all closed windows are on disk, and returns its
// error.
func (s *Store) runInCompactor(f func() error) error {
	done := make(chan error, 1)
	job := func() {
		err := s.disk.writeError()
		if err == nil {
			err = f()
		}
		done <- err
	}
	select {
	case s.compactor.jobs <- job:
	case <-s.disk.quit:
		return errClosed
	}
	select {
	case err := <-done:
		return err
	case <-s.compactor.done:
		return errClosed
	}
}

// discard is Discard, run by the compactor.
func (s *Store) discard(d *set, over measure.Interval) error {
	defer s.compactor.builder.done()
	s.compactor.builder.forget()
	defer s.compactor.builder.forget() // what was built may not have been written
	touches := func(e entry) bool { return e.over.Start < over.End && e.over.End > over.Start }
	var old, fresh []entry
	var segs []*segment
	put := func(resolution uint8, of entry, blocks []*block) error {
		seg, err := s.compactor.builder.build(d, resolution, blocks)
		if seg == nil || err != nil {
			return err
		}
		seg.first, seg.last = of.first, of.last
		seg.joins, seg.done = of.joins, of.done
		segs, fresh = append(segs, seg), append(fresh, seg.entry)
		return nil
	}
	hours := map[int64]bool{}
	s.mu.RLock()
	index := d.index
	s.mu.RUnlock()
	for resolution := range uint8(len(index)) {
		span := spanOf(resolution)
		for _, e := range index[resolution] {
			if !touches(e) {
				continue
			}
			old = append(old, e)
			b, err := e.read(&s.codec, s.disk.fetch, d, nil)
			if err != nil {
				continue // it cannot be read, so nothing readable is lost
			}
			b = b.filter(func(at measure.Time) bool {
				gone := at > over.Start && at.Add(-span) < over.End
				if resolution == inTicks {
					gone = at > over.Start && at <= over.End
				}
				if gone && resolution == inHours {
					hours[slotOf(at, hour)] = true
				}
				return !gone
			})
			if err := put(resolution, e, []*block{b}); err != nil {
				return err
			}
		}
	}
	// The remaining minutes of the deleted hours. Where nothing of an hour was deleted on disk, no
	// joined minute exists.
	for slot := range hours {
		var blocks []*block
		var of entry
		inside := func(at measure.Time) bool {
			return slotOf(at, hour) == slot &&
				!(at > over.Start && at.Add(-measure.Minute) < over.End)
		}
		for _, e := range index[inMinutes] {
			if e.joins && slotOf(e.over.Start+1, hour) == slot {
				b, err := e.read(&s.codec, s.disk.fetch, d, nil)
				if err == nil {
					blocks, of = append(blocks, b.filter(inside)), e
				}
			}
		}
		of.joins, of.done = false, false
		if err := put(inHours, of, blocks); err != nil {
			return err
		}
	}
	if err := s.writeSegments(segs); err != nil {
		return err
	}
	s.mu.Lock()
	d.remove(old)
	for _, e := range fresh {
		d.insert(e)
	}
	s.mu.Unlock()
	if err := s.erase(old); err != nil {
		return err
	}
	return s.disk.sync()
}

// filter returns the block with only the ticks or cells that are wanted.
func (b *block) filter(wanted func(at measure.Time) bool) *block {
	out := &block{texts: b.texts, stacks: b.stacks, keys: b.keys, rows: b.rows}
	n := len(b.ticks) + len(b.cells)
	var from []int
	into := make([]int32, n)
	for i := range n {
		into[i] = -1
		if wanted(b.at(i)) {
			into[i] = int32(len(from))
			from = append(from, i)
			if b.cells != nil {
				out.cells = append(out.cells, b.cells[i])
			} else {
				out.ticks = append(out.ticks, b.ticks[i])
			}
		}
	}
	if b.cells != nil && out.cells == nil {
		out.cells = []cellInfo{}
	}
	for _, l := range b.loss {
		if into[l.tick] >= 0 {
			out.loss = append(out.loss, tickLoss{into[l.tick], l.loss})
		}
	}
	out.takeNotes(b, into, false)
	pick := func(all, to []float64) {
		for i, f := range from {
			to[i] = all[f]
		}
	}
	all := make([]float64, n)
	if b.column != nil {
		out.column = func(i, first, last int, to []float64) error {
			err := b.column(i, 0, n, all)
			for k, f := range from[first:last] {
				to[k] = all[f]
			}
			return err
		}
	}
	if b.roll != nil {
		var row rolled
		out.roll = func(i int, to *[rollColumns][]float64) error {
			row.reset(n)
			err := b.roll(i, &row.columns)
			for k := range row.columns {
				pick(row.columns[k], to[k])
			}
			return err
		}
	}
	if b.dists != nil {
		out.dists = func(i int, each func(int, *reader)) error {
			return b.dists(i, func(t int, d *reader) {
				if into[t] >= 0 {
					each(int(into[t]), d)
				}
			})
		}
	}
	return out
}

// Drop deletes a dataset and all its data. Its ID is not used again. It returns an error for an
// unknown dataset and when the disk cannot be written.
func (s *Store) Drop(id uint32) error {
	s.mu.Lock()
	d := s.datasets.byID[id]
	if d == nil || s.closed {
		s.mu.Unlock()
		return fmt.Errorf("drop dataset %d: there is none: %w", id, measure.ErrUnclear)
	}
	if s.disk.readOnly {
		s.mu.Unlock()
		return errReadOnly
	}
	if s.window != nil {
		if p := s.window.parts[id]; p != nil {
			delete(s.window.parts, id)
			s.window.order = slices.DeleteFunc(s.window.order, func(o *part) bool { return o == p })
		}
	}
	delete(s.datasets.byID, id)
	s.datasets.byStat[d.desc.Query.Stat] = slices.DeleteFunc(
		s.datasets.byStat[d.desc.Query.Stat], func(o *set) bool { return o == d },
	)
	next := s.datasets.next
	s.mu.Unlock()
	err := s.runInCompactor(func() error {
		value := binary.BigEndian.AppendUint32(nil, next)
		if err := s.disk.save([]pair{{metaKey("next"), value}}); err != nil {
			return err
		}
		old := slices.Concat(d.index[:]...)
		return s.disk.deleteDataset(id, old, s.unusedShared(old))
	})
	if err != nil {
		return fmt.Errorf("drop dataset %d: %w", id, err)
	}
	return nil
}

// deleteDataset deletes a dataset's description, its segments, and other keys.
func (d *disk) deleteDataset(id uint32, old []entry, others [][]byte) error {
	return d.guard(func() error {
		b := d.pebble().NewBatch()
		defer b.Close()
		err := errors.Join(
			b.Delete(datasetKey(kindDataset, id), nil),
			b.Delete(datasetKey(kindDatasetAgain, id), nil),
		)
		for _, kind := range []byte{kindIndex, kindIndexAgain, kindHeader, kindGroupOld} {
			if err == nil {
				from := binary.BigEndian.AppendUint32([]byte{kind}, id)
				err = b.DeleteRange(from, bound(from), nil)
			}
		}
		for i := range old {
			err = errors.Join(err, old[i].deleteGroups(b))
		}
		for _, k := range others {
			err = errors.Join(err, b.Delete(k, nil))
		}
		if err != nil {
			return err
		}
		return b.Commit(pebble.Sync)
	})
}
