package store

import (
	"bytes"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// seeker reads values for a query of many segments, whose keys are nearly sorted. It keeps one
// iterator per kind, because a lookup from the top would read blocks of several tables again. Safe
// for concurrent use.
type seeker struct {
	disk *disk
	from *pebble.Snapshot
	mu   sync.Mutex // guards the fields below
	at   map[byte]*pebble.Iterator
}

// minSeekSegments is how many segments a query must need to use a seeker.
const minSeekSegments = 8

func (s *seeker) get(key, buf []byte) ([]byte, error) {
	value, found, ok := s.lockedSeek(key, buf)
	if !ok {
		return s.disk.getFrom(s.from, key, buf) // to return which value is corrupt
	}
	if !found {
		return nil, nil
	}
	return value, nil
}

func (s *seeker) lockedSeek(key, buf []byte) (value []byte, found, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seek(key, buf)
}

// seek looks for a key; ok is false when that failed. mu is held.
func (s *seeker) seek(key, buf []byte) (value []byte, found, ok bool) {
	it := s.at[key[0]]
	if it == nil {
		var err error
		kind := &pebble.IterOptions{LowerBound: key[:1], UpperBound: bound(key[:1])}
		if it, err = s.from.NewIter(kind); err != nil {
			return nil, false, false
		}
		s.at[key[0]] = it
	}
	if it.SeekGE(key) && bytes.Equal(it.Key(), key) {
		v, err := it.ValueAndErr()
		if err == nil {
			return copied(buf, v), true, true
		}
	} else if it.Error() == nil {
		return nil, false, true
	}
	delete(s.at, key[0])
	_ = it.Close() // the read of the key returns its error
	return nil, false, false
}

func (s *seeker) close() {
	for _, it := range s.at {
		_ = it.Close()
	}
}
