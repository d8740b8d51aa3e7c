package store

import (
	"github.com/cockroachdb/pebble/v2"
)

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
	for _, d := range s.datasets.byID {
		for _, list := range d.index {
			used(list)
		}
	}
	used(s.datasets.undescribed)
	s.mu.RUnlock()
	ids := map[uint64]bool{}
	for o := range gone {
		keys = append(keys, ownKey(o.kind, o.id))
		if o.kind == kindClock {
			keys = append(keys, ownKey(kindClockAgain, o.id))
		}
		ids[o.id] = true
	}
	s.compactor.builder.forgetShared(ids)
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
