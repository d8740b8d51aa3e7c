package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// openTable opens a table and reads its footer, its properties and its indexes. The caller closes
// it.
func openTable(on vfs.FS, path string) (r *sstable.Reader, err error) {
	defer func() { // Pebble trusts what has a checksum
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	f, err := on.Open(path)
	if err != nil {
		return nil, err
	}
	from, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	o := pebble.Options{}
	o.EnsureDefaults()
	if r, err = sstable.NewReader(context.Background(), from, o.MakeReaderOptions()); err != nil {
		return nil, errors.Join(err, from.Close())
	}
	if _, err = r.Layout(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// checkTable returns an error when a table cannot be read. deep: it reads every block.
func checkTable(on vfs.FS, path string, deep bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	r, err := openTable(on, path)
	if err != nil {
		return err
	}
	if deep {
		err = r.ValidateBlockChecksums()
	}
	return errors.Join(err, r.Close())
}

// tableRow is a key of a table with its value. The key is Pebble's, with its sequence number.
type tableRow struct {
	key   sstable.InternalKey
	value []byte
}

// seenKeys are the keys, with their sequence numbers, that some tables contain, as hashes. No two
// tables may contain the same one: Pebble's iterators return it twice.
type seenKeys struct {
	seed maphash.Seed
	keys map[uint64]bool
}

func newSeenKeys() *seenKeys {
	return &seenKeys{maphash.MakeSeed(), map[uint64]bool{}}
}

// add adds a key and reports whether it was new. To nil, each is new.
func (s *seenKeys) add(k sstable.InternalKey) bool {
	if s == nil {
		return true
	}
	var h maphash.Hash
	h.SetSeed(s.seed)
	_, _ = h.Write(k.UserKey) // never fails
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(k.Trailer)))
	sum := h.Sum64()
	was := s.keys[sum]
	s.keys[sum] = true
	return !was
}

// addTable adds the keys of a table, as far as they can be read.
func (s *seenKeys) addTable(on vfs.FS, path string) {
	defer func() { _ = recover() }() // checkTable reports it
	r, err := openTable(on, path)
	if err != nil {
		return
	}
	defer r.Close() //nolint:errcheck // only read
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return
	}
	defer it.Close() //nolint:errcheck // checkTable reports it
	for kv := it.First(); kv != nil; kv = it.Next() {
		s.add(kv.K)
	}
}

// errNothing means that a table contains nothing that can be read, or that others do not contain.
var errNothing = errors.New("nothing in it can be read")

// copyTable writes what can be read of a table, without the keys in seen, to another one and
// describes that. whole is false when some of it could not be read. The error is errNothing when
// there is nothing to write; otherwise the one cannot be opened or the other cannot be written.
func copyTable(
	on vfs.FS, from, to string, seen *seenKeys,
) (t tableInfo, whole bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	r, err := openTable(on, from)
	if err != nil {
		return t, false, err
	}
	defer r.Close() //nolint:errcheck // only read
	format, err := r.TableFormat()
	if err != nil {
		return t, false, err
	}
	f, err := on.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return t, false, err
	}
	o := pebbleOptions(&opening{}, false, false)
	o.EnsureDefaults()
	w := sstable.NewRawWriter(
		objstorageprovider.NewFileWritable(f), o.MakeWriterOptions(6, format),
	)
	whole, err = copyRows(r, w, seen)
	if err == nil {
		var deletions bool
		deletions, err = copyDeletions(r, w)
		whole = whole && deletions
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return t, false, errors.Join(err, on.Remove(to))
	}
	meta, err := w.Metadata()
	if err == nil && !meta.HasPointKeys && !meta.HasRangeDelKeys {
		err = errNothing
	}
	if err != nil {
		return t, whole, errors.Join(err, on.Remove(to))
	}
	return describe(meta), whole, nil
}

// copyRows copies all rows up to the first that cannot be read, then those from the end back to it.
func copyRows(r *sstable.Reader, w sstable.RawWriter, seen *seenKeys) (whole bool, err error) {
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return false, nil //nolint:nilerr // deletions may be readable
	}
	defer it.Close() //nolint:errcheck // what it reports was met before
	last := tableRow{}
	kv := it.First()
	for ; kv != nil; kv = it.Next() {
		v, _, err := kv.Value(nil)
		if err != nil {
			break
		}
		if seen.add(kv.K) {
			if err := w.Add(kv.K, v, false); err != nil {
				return false, err
			}
		}
		last.key = kv.K.Clone()
	}
	if kv == nil && it.Error() == nil {
		return true, nil
	}
	var behind []tableRow
	for kv := it.Last(); kv != nil; kv = it.Prev() {
		v, _, err := kv.Value(nil)
		if err != nil || last.key.UserKey != nil &&
			compareKeys(kv.K, last.key) <= 0 {
			break
		}
		if !seen.add(kv.K) {
			continue
		}
		behind = append(behind, tableRow{kv.K.Clone(), slices.Clone(v)})
	}
	for _, e := range slices.Backward(behind) {
		if err := w.Add(e.key, e.value, false); err != nil {
			return false, err
		}
	}
	return false, nil
}

// copyDeletions copies the deleted ranges.
func copyDeletions(r *sstable.Reader, w sstable.RawWriter) (whole bool, err error) {
	it, err := r.NewRawRangeDelIter(
		context.Background(), sstable.NoFragmentTransforms, sstable.NoReadEnv,
	)
	if err != nil {
		return false, nil //nolint:nilerr // the rows were copied
	}
	if it == nil {
		return true, nil
	}
	defer it.Close()
	span, err := it.First()
	for ; err == nil && span != nil; span, err = it.Next() {
		if err := w.EncodeSpan(*span); err != nil {
			return false, err
		}
	}
	return err == nil, nil
}

// compareKeys orders keys as a table does: of equal ones the newest is first.
func compareKeys(a, b sstable.InternalKey) int {
	return cmp.Or(bytes.Compare(a.UserKey, b.UserKey), cmp.Compare(b.Trailer, a.Trailer))
}

// describe returns the description of a new table, for level 0.
func describe(meta *sstable.WriterMetadata) tableInfo {
	t := tableInfo{
		size:     meta.Size,
		firstSeq: uint64(meta.SmallestSeqNum),
		lastSeq:  uint64(meta.LargestSeqNum),
	}
	low, high := meta.SmallestPoint, meta.LargestPoint
	if meta.HasRangeDelKeys {
		if !meta.HasPointKeys ||
			compareKeys(meta.SmallestRangeDel, low) < 0 {
			low = meta.SmallestRangeDel
		}
		if !meta.HasPointKeys ||
			compareKeys(meta.LargestRangeDel, high) > 0 {
			high = meta.LargestRangeDel
		}
	}
	t.smallest, t.largest = make([]byte, low.Size()), make([]byte, high.Size())
	low.Encode(t.smallest)
	high.Encode(t.largest)
	return t
}
