package store

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"culprit/measure"
)

// retain deletes expired segments, and the oldest ones while the archive exceeds its size. The
// directories of damaged files are part of the size.
func (s *Store) retain() error {
	damaged, err := s.retainDamaged()
	if err != nil {
		return err
	}
	return s.retainTo(s.options.Size - damaged)
}

func (s *Store) retainTo(size int64) error {
	keep := []measure.Span{s.options.KeepTicks, s.options.KeepMinutes, s.options.KeepHours}
	s.mu.Lock()
	total := s.documents
	for _, d := range s.datasets.byID {
		for _, list := range d.index {
			for i := range list {
				total += int64(list[i].bytes) + entryOverhead
			}
		}
	}
	var old, all []entry
	large := total > size
	for _, d := range s.datasets.byID {
		for resolution := range d.index {
			for i := range d.index[resolution] {
				e := d.index[resolution][i]
				waits := resolution == inMinutes && !e.done // until its hours exist
				if !waits && s.newest >= s.distrustClockUntil &&
					s.newest.Sub(e.over.End) > keep[resolution] {
					old = append(old, e)
					total -= int64(e.bytes) + entryOverhead
				} else if large {
					all = append(all, e)
				}
			}
		}
	}
	if total > size {
		slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.over.End, b.over.End) })
		for _, e := range all {
			if total <= size {
				break
			}
			total -= int64(e.bytes) + entryOverhead
			old = append(old, e)
		}
	}
	for _, d := range s.datasets.byID {
		others := func(e entry) bool { return e.set != d.desc.ID }
		mine := slices.DeleteFunc(slices.Clone(old), others)
		if len(mine) > 0 {
			d.remove(mine)
		}
	}
	s.mu.Unlock()
	return s.erase(old)
}

// entryOverhead is the approximate size in bytes of a segment's keys and index entry.
const entryOverhead = 200

// logShare is the fraction (1/32) of the archive's size that documents of one kind may take.
const logShare = 32

// retainLog deletes documents older than KeepHours, and the oldest of a kind that exceeds its
// share. It keeps the newest of each kind. It runs once an hour, and after many new documents.
func (s *Store) retainLog() error {
	s.mu.RLock()
	newest, quiet := s.newest, s.distrustClockUntil
	s.mu.RUnlock()
	limit := s.options.Size / logShare
	s.disk.mu.Lock()
	last := s.compactor.logCheckedAt
	due := newest != 0 &&
		(last == 0 || newest.Sub(last) >= hour || s.disk.logBytes >= limit/16)
	if due {
		// documents that arrive from here on may be counted twice, but none is missed
		s.disk.logBytes = 0
	}
	s.disk.mu.Unlock()
	if !due {
		return nil
	}
	s.disk.settle()
	s.compactor.logCheckedAt = newest
	type kind struct {
		head, last []byte
		bytes      int64
	}
	var kinds []*kind
	_, err := s.disk.walk(
		prefix(kindLog),
		bound(prefix(kindLog)),
		false,
		func(key, value []byte) error {
			n := bytes.IndexByte(key, 0)
			if n < 0 || len(key) != n+1+16 {
				return nil
			}
			if len(kinds) == 0 || !bytes.Equal(kinds[len(kinds)-1].head, key[:n+1]) {
				kinds = append(kinds, &kind{head: bytes.Clone(key[:n+1])})
			}
			k := kinds[len(kinds)-1]
			k.last = append(k.last[:0], key...)
			k.bytes += int64(len(key) + len(value))
			return nil
		},
	)
	if err != nil {
		s.disk.noteDamage(firstLine(err)) // data that cannot be counted stays
		return nil
	}
	var all int64
	for _, k := range kinds {
		goal := k.bytes
		if goal > limit {
			// delete somewhat more than necessary, so that not each new document exceeds the limit
			goal = limit - limit/8
		}
		var until []byte
		_, err := s.disk.walk(k.head, k.last, false, func(key, value []byte) error {
			old := newest >= quiet && newest.Sub(keyTime(key[len(k.head):])) > s.options.KeepHours
			if !old && k.bytes <= goal {
				return errStop
			}
			k.bytes -= int64(len(key) + len(value))
			until = append(until[:0], key...)
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			s.disk.noteDamage(firstLine(err))
		}
		all += k.bytes
		if until != nil {
			if err := s.disk.remove(k.head, append(until, 0)); err != nil {
				return err
			}
		}
	}
	s.mu.Lock()
	s.documents = all
	s.mu.Unlock()
	return nil
}

var errStop = errors.New("enough")
