package store

import (
	"context"
	"slices"
	"time"

	"culprit/measure"
)

// Log stores a document of a kind with its time. Writing is asynchronous: the error is only for a
// read-only archive.
func (s *Store) Log(kind string, at measure.Time, document []byte) error {
	if s.disk.readOnly {
		return errReadOnly
	}
	s.disk.mu.Lock()
	seq := s.disk.logged
	s.disk.logged++
	s.disk.logBytes += int64(len(document))
	s.disk.mu.Unlock()
	// The number distinguishes documents of the same time, also those of an earlier run.
	seq |= uint64(time.Now().UnixNano()) &^ 0xFFFF
	s.disk.enqueue(logKey(kind, at, seq), slices.Clone(document))
	return nil
}

// Logged calls each for the documents of a kind in order of time; a zero interval means all. It
// returns the error of each or of ctx.
func (s *Store) Logged(
	ctx context.Context, kind string, over measure.Interval,
	each func(at measure.Time, document []byte) error,
) error {
	s.disk.settle()
	head := append(append([]byte{kindLog}, kind...), 0)
	from, to := head, bound(head)
	if over != (measure.Interval{}) {
		from = timeKey(slices.Clone(head), over.Start+1)
		to = timeKey(slices.Clone(head), over.End+1)
	}
	var stop error // from each or ctx
	tell := func(key, value []byte) error {
		if stop = ctx.Err(); stop == nil && len(key) == len(head)+16 {
			stop = each(keyTime(key[len(head):]), slices.Clone(value))
		}
		return stop
	}
	_, err := s.disk.walk(from, to, false, tell)
	if err == nil || stop != nil {
		return err
	}
	// A part is corrupt. What follows it is reachable from the end.
	s.disk.noteDamage(firstLine(err))
	var behind []pair
	_, _ = s.disk.walk(from, to, true, func(key, value []byte) error {
		behind = append(behind, pair{slices.Clone(key), slices.Clone(value)})
		return ctx.Err()
	})
	for _, p := range slices.Backward(behind) {
		if err := tell(p.key, p.value); err != nil {
			return err
		}
	}
	return nil
}
