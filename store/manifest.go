package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// manifest is what Pebble's manifest says: the tables and the numbers of the log, the next file and
// the last write. The file is a list of edits, the first of which contains all; see the package
// internal/manifest of Pebble, version_edit.go.
type manifest struct {
	comparer string
	minLog   uint64 // the first log whose content is in no table
	nextFile uint64
	lastSeq  uint64
	tables   map[uint64]tableInfo // by number
	deleted  map[uint64]bool      // numbers of tables that are obsolete
}

// tableInfo describes a table. The keys are Pebble's: a key and 8 bytes of sequence number and
// kind.
type tableInfo struct {
	level             int
	num, size         uint64
	smallest, largest []byte
	firstSeq, lastSeq uint64
}

// Tags of the fields of an edit.
const (
	tagComparer = 1
	tagMinLog   = 2
	tagNextFile = 3
	tagLastSeq  = 4
	tagDeleted  = 6
	tagTable    = 100 // without optional fields
	tagTableOpt = 103

	tagOptEnd      = 1
	tagOptPerilous = 64 // optional fields from here on change what a table is
)

var errManifest = errors.New("this program cannot read the manifest")

// fields reads the fields of an edit. After a failure all results are zero.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) number() uint64 {
	v, n := binary.Uvarint(f.b)
	if n <= 0 {
		f.bad, f.b = true, nil
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) bytes() []byte {
	n := f.number()
	if n > uint64(len(f.b)) {
		f.bad, f.b = true, nil
		return nil
	}
	v := f.b[:n]
	f.b = f.b[n:]
	return v
}

// apply applies an edit. The error is errManifest for an edit with a field that culprit's archives
// do not have.
func (m *manifest) apply(edit []byte) error {
	f := &fields{b: edit}
	for len(f.b) > 0 && !f.bad {
		switch tag := f.number(); tag {
		case tagComparer:
			m.comparer = string(f.bytes())
		case tagMinLog:
			m.minLog = f.number()
		case tagNextFile:
			m.nextFile = f.number()
		case tagLastSeq:
			m.lastSeq = f.number()
		case tagDeleted:
			f.number()
			num := f.number()
			delete(m.tables, num)
			m.deleted[num] = true
		case tagTable, tagTableOpt:
			t := tableInfo{level: int(f.number()), num: f.number(), size: f.number()}
			t.smallest, t.largest = f.bytes(), f.bytes()
			t.firstSeq, t.lastSeq = f.number(), f.number()
			for tag == tagTableOpt && !f.bad {
				opt := f.number()
				if opt == tagOptEnd {
					break
				}
				if opt >= tagOptPerilous {
					return errManifest
				}
				f.bytes()
			}
			if f.bad || len(t.smallest) < 8 || len(t.largest) < 8 || t.level > 6 {
				return errManifest
			}
			m.tables[t.num] = t
			delete(m.deleted, t.num) // it was moved to another level
		default:
			return errManifest
		}
	}
	if f.bad {
		return errManifest
	}
	return nil
}

// readManifest reads a manifest. whole is false when parts are missing or cannot be read; then it
// returns what the rest says.
func readManifest(b []byte) (m manifest, whole, torn bool) {
	m = manifest{tables: map[uint64]tableInfo{}, deleted: map[uint64]bool{}}
	r := readRecords(b, 0)
	whole = !r.damaged && len(r.whole) > 0
	for _, edit := range r.whole {
		if m.apply(edit) != nil {
			whole = false
		}
	}
	return m, whole && m.comparer == pebble.DefaultComparer.Name, r.torn
}

// edit encodes the manifest as one edit.
func (m *manifest) edit() []byte {
	var b []byte
	number := func(all ...uint64) {
		for _, v := range all {
			b = binary.AppendUvarint(b, v)
		}
	}
	text := func(v []byte) {
		number(uint64(len(v)))
		b = append(b, v...)
	}
	number(tagComparer)
	text([]byte(pebble.DefaultComparer.Name))
	if m.minLog > 0 {
		number(tagMinLog, m.minLog)
	}
	number(tagNextFile, m.nextFile, tagLastSeq, m.lastSeq)
	for _, t := range m.sorted() {
		number(tagTable, uint64(t.level), t.num, t.size)
		text(t.smallest)
		text(t.largest)
		number(t.firstSeq, t.lastSeq)
	}
	return b
}

func (m *manifest) sorted() []tableInfo {
	var all []tableInfo
	for _, t := range m.tables {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b tableInfo) int {
		return cmp.Or(
			cmp.Compare(a.level, b.level), bytes.Compare(a.smallest, b.smallest),
			cmp.Compare(a.num, b.num),
		)
	})
	return all
}

// untangle moves tables to level 0 that overlap with another one of their level. Below level 0 no
// two tables may overlap.
func (m *manifest) untangle() {
	var last tableInfo
	for _, t := range m.sorted() {
		if t.level > 0 && t.level == last.level && overlaps(last, t) {
			t.level = 0
			m.tables[t.num] = t
			continue
		}
		last = t
	}
}

// overlaps reports whether a reaches b, which begins at or after it.
func overlaps(a, b tableInfo) bool {
	end, trailer := a.largest[:len(a.largest)-8], a.largest[len(a.largest)-8:]
	const exclusive = ^uint64(0) >> 8 // the sequence number of the end of a deleted range
	c := bytes.Compare(end, b.smallest[:len(b.smallest)-8])
	return c > 0 || c == 0 && binary.LittleEndian.Uint64(trailer)>>8 != exclusive
}
