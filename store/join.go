package store

import (
	"fmt"
	"slices"

	"culprit/measure"
)

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
	for _, d := range s.datasets.byID {
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
		s.compactor.builder.beginHour(newest)
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
	defer s.compactor.builder.done()
	var fresh []entry
	var segs []*segment
	for _, resolution := range into {
		seg, err := s.compactor.builder.build(d, resolution, blocks)
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
		s.compactor.builder.forget()
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
	s.compactor.builder.forget()
	if s.disk.writeError() != nil {
		return err
	}
	s.disk.noteDamage(
		fmt.Sprintf(
			"%s, %s to %s: %v", d.desc.Query, old[0].over.Start, old[len(old)-1].over.End, err,
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
