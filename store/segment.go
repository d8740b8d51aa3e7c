package store

import (
	"encoding/binary"
	"fmt"
	"slices"

	"culprit/measure"
)

// The resolutions of segments.
const (
	inTicks   = 0 // as recorded
	inMinutes = 1
	inHours   = 2
)

func spanOf(resolution uint8) measure.Span {
	return []measure.Span{0, measure.Minute, 60 * measure.Minute}[resolution]
}

const (
	segmentVersion = 5
	slotsFrom      = 5 // first version with groups ordered by time
	wideFrom       = 4 // first version whose rollups have columns over all rows of a group
	// first version with ticks and keys as separate values; before, the header contains them
	ownFrom = 3
	// first version that stores equal columns of a rollup adjacently and omits a most that follows
	// from the least
	rollsFrom  = 2
	ownVersion = 1 // of separate values of ticks and keys

	// A group is closed at this many bytes before compression, or this many rows: a query of one
	// row unpacks one group.
	groupBytes = 32 << 10
	groupRows  = 256
)

// entry is the index entry of a segment: what decides whether a query needs it.
type entry struct {
	set         uint32
	resolution  uint8
	joins       bool // it was made by joining
	done        bool // it will not be joined
	id          uint64
	over        measure.Interval // of its ticks or cells
	first, last uint64           // windows that it contains
	ticks       uint32           // or cells
	rows        uint32
	groups      uint32
	samples     uint64
	bytes       uint64
	clock, keys uint32 // its ID minus the IDs of its ticks and keys; 0: they are in its header
	version     uint8  // of the segment; 0: its header contains it
}

// clockID and keysID return the IDs of the ticks and the keys, which several segments may share.
func (e *entry) clockID() uint64 { return e.id - uint64(e.clock) }

func (e *entry) keysID() uint64 { return e.id - uint64(e.keys) }

// segment is a segment that is being written.
type segment struct {
	entry
	head   []byte
	packed [][]byte // the groups
	shared []pair   // ticks and keys that no earlier segment has
}

const entryVersion = 3 // 2 lacks the segment's version, 1 also the IDs of ticks and keys

func (e *entry) value() []byte {
	b := []byte{entryVersion, byte(b2i(e.joins))}
	b = binary.AppendVarint(b, int64(e.over.End))
	for _, v := range []uint64{
		e.first, e.last, uint64(e.ticks), uint64(e.rows), uint64(e.groups),
		e.samples, e.bytes, uint64(e.clock), uint64(e.keys), uint64(e.version),
	} {
		b = appendUvarint(b, v)
	}
	return b
}

func readEntry(key, value []byte) (e entry, err error) {
	if len(key) != segmentKeyLen {
		return e, errCorrupt
	}
	e.set, e.resolution = binary.BigEndian.Uint32(key[1:]), key[5]
	e.over.Start, e.id = keyTime(key[6:]), binary.BigEndian.Uint64(key[14:])
	r := &reader{b: value}
	version := r.byte()
	if r.err == nil && (version < 1 || version > entryVersion) {
		return e, fmt.Errorf("unknown version %d of an index entry", version)
	}
	e.joins = r.byte()&1 != 0
	e.done = e.joins
	e.over.End = measure.Time(r.varint())
	e.first, e.last = r.uvarint(), r.uvarint()
	e.ticks, e.rows, e.groups = uint32(r.uvarint()), uint32(r.uvarint()), uint32(r.uvarint())
	e.samples, e.bytes = r.uvarint(), r.uvarint()
	if version > 1 {
		e.clock, e.keys = uint32(r.uvarint()), uint32(r.uvarint())
	}
	if version > 2 {
		v := r.uvarint()
		if r.err == nil && (v < ownFrom || v > segmentVersion) {
			return e, fmt.Errorf("unknown version %d of a segment", v)
		}
		e.version = uint8(v)
	}
	if r.err == nil &&
		(e.resolution > inHours || e.over.End < e.over.Start || e.ticks > maxSegmentTicks) {
		r.fail()
	}
	return e, r.err
}

// maxSegmentTicks limits the ticks of a segment.
const maxSegmentTicks = 1 << 20

// appendTicks appends the ticks of a block, or its cells:
//
//	uvarint count, varint unit; then of each: varint at - previous - unit,
//	varint elapsed - unit, u8 flags;
//	a cell has also: uvarint ticks, varint time and uvarint ticks that were partial
func appendTicks(b []byte, unit measure.Span, ticks []tick, cells []cellInfo) []byte {
	b = appendUvarint(b, uint64(len(ticks)+len(cells)))
	b = binary.AppendVarint(b, int64(unit))
	last := measure.Time(0)
	for _, t := range ticks {
		b = binary.AppendVarint(b, int64(t.at.Sub(last)-unit))
		last = t.at
	}
	for _, t := range ticks {
		b = binary.AppendVarint(b, int64(t.elapsed-unit))
	}
	for _, t := range ticks {
		b = append(b, byte(b2i(t.partial)))
	}
	for _, c := range cells {
		b = binary.AppendVarint(b, int64(c.at.Sub(last)-unit))
		last = c.at
		b = binary.AppendVarint(b, int64(c.elapsed-unit))
		b = appendUvarint(b, uint64(c.ticks))
		b = binary.AppendVarint(b, int64(c.partial.span))
		b = appendUvarint(b, uint64(c.partial.ticks))
	}
	return b
}

func readTicks(r *reader, b *block, rolled bool) {
	n := r.count()
	if n > maxSegmentTicks {
		r.fail()
		return
	}
	unit := measure.Span(r.varint())
	at := measure.Time(0)
	if rolled {
		b.cells = make([]cellInfo, n)
		for i := range b.cells {
			at += measure.Time(r.varint()) + measure.Time(unit)
			c := &b.cells[i]
			c.at, c.elapsed, c.ticks = at, measure.Span(r.varint())+unit, uint32(r.uvarint())
			c.partial = unknownTime{measure.Span(r.varint()), int32(r.uvarint())}
		}
		return
	}
	b.ticks = slices.Grow(b.ticks[:0], n)[:n]
	for i := range b.ticks {
		at += measure.Time(r.near()) + measure.Time(unit)
		b.ticks[i].at = at
	}
	for i := range b.ticks {
		b.ticks[i].elapsed = measure.Span(r.near()) + unit
	}
	for i, partial := range r.bytes(uint64(n)) {
		b.ticks[i].partial = partial != 0
	}
}

// appendClock appends the ticks of a block, or its cells, with their losses and notes.
func appendClock(h []byte, unit measure.Span, b *block) []byte {
	h = appendTicks(h, unit, b.ticks, b.cells)
	h = appendUvarint(h, uint64(len(b.loss)))
	for _, l := range b.loss {
		h = appendUvarint(h, uint64(l.tick))
		h = appendText(h, l.loss.Reason)
		h = appendUvarint(h, l.loss.Events)
	}
	h = appendUvarint(h, uint64(len(b.notes)))
	for _, n := range b.notes {
		h = appendText(h, n)
	}
	h = appendUvarint(h, uint64(len(b.noteRuns)))
	for _, r := range b.noteRuns {
		h = appendUvarint(h, uint64(r.note))
		h = appendUvarint(h, uint64(r.first))
		h = appendUvarint(h, uint64(r.last-r.first))
	}
	return h
}

// header returns the value that lists the number of rows of each group.
func (s *segment) header(rows []int) []byte {
	h := appendUvarint([]byte{segmentVersion, s.resolution}, uint64(len(rows)))
	for _, n := range rows {
		h = appendUvarint(h, uint64(n))
	}
	return h
}

// Limits of the decompressed bytes of headers, keys and ticks.
const (
	maxHeader = 64 << 20
	maxClock  = 16 << 20
)

func clockHead(resolution uint8) []byte { return []byte{ownVersion, resolution} }

func keysHead() []byte { return []byte{ownVersion} }
