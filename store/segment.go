package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"

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
func (e *entry) keysID() uint64  { return e.id - uint64(e.keys) }

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

// openHeader parses a header that contains ticks and keys. It returns a block without values and
// the number of rows of each group.
func openHeader(c *codec, value []byte, resolution uint8, stack []bool) (*block, []int, error) {
	if len(value) < 2 || value[1] != resolution {
		return nil, nil, errCorrupt
	}
	if value[0] != 1 && (value[0] != rollsFrom || resolution == inTicks) {
		return nil, nil, fmt.Errorf("unknown version %d of a segment", value[0])
	}
	plain, err := c.decompress(nil, value[2:], maxHeader)
	if err != nil {
		return nil, nil, err
	}
	r := &reader{b: plain}
	b := &block{version: value[0]}
	readClock(r, b, resolution)
	readKeys(r, stack, b)
	groups := readGroups(r, b.rows)
	return b, groups, r.err
}

func readClock(r *reader, b *block, resolution uint8) {
	readTicks(r, b, resolution != inTicks)
	ticks := len(b.ticks) + len(b.cells)
	for range r.count() {
		l := tickLoss{tick: int32(r.uvarint())}
		l.loss.Reason = r.text()
		l.loss.Events = r.uvarint()
		if l.tick < 0 || int(l.tick) >= ticks {
			r.fail()
			break
		}
		b.loss = append(b.loss, l)
	}
	for range r.count() {
		b.notes = append(b.notes, r.text())
	}
	for range r.count() {
		note, first, more := r.uvarint(), r.uvarint(), r.uvarint()
		if note >= uint64(len(b.notes)) || first >= uint64(ticks) || more >= uint64(ticks)-first {
			r.fail()
			break
		}
		b.noteRuns = append(b.noteRuns, noteRun{int32(note), int32(first), int32(first + more)})
	}
}

// readGroups reads the number of rows of each group; their sum must be all.
func readGroups(r *reader, all int) []int {
	groups := make([]int, r.count())
	rows := 0
	for i := range groups {
		n := r.uvarint()
		if n > uint64(all) {
			r.fail()
			break
		}
		groups[i] = int(n)
		rows += int(n)
	}
	if rows != all {
		r.fail()
	}
	return groups
}

// openOwn decompresses ticks or keys that are a separate value. head is what precedes them.
func openOwn(c *codec, value, head []byte, limit uint64, buf []byte) (*reader, error) {
	if len(value) < len(head) || !bytes.Equal(value[1:len(head)], head[1:]) {
		return nil, errCorrupt
	}
	if value[0] != head[0] {
		return nil, fmt.Errorf("unknown version %d of ticks or keys", value[0])
	}
	plain, err := c.decompress(buf, value[len(head):], limit)
	return &reader{b: plain}, err
}

// headerless reports whether a segment has no header, because it has at most one group.
func (e *entry) headerless() bool { return e.version > 0 && e.groups <= 1 }

// open reads a segment without its groups. It returns a block without values and the number of rows
// of each group. last is the block opened before, or nil.
func (e *entry) open(c *codec, get getter, d *set, last *block) (*block, []int, error) {
	b := &block{version: e.version}
	var value []byte
	if !e.headerless() {
		var err error
		key := segmentKey(kindHeader, e.set, e.resolution, e.over.Start, e.id)
		if value, err = must(get, key, nil); err != nil {
			return nil, nil, err
		}
		if e.clock == 0 {
			return openHeader(c, value, e.resolution, d.stack)
		}
		if len(value) < 2 || value[1] != e.resolution || e.version != 0 && value[0] != e.version {
			return nil, nil, errCorrupt
		}
		if b.version = value[0]; b.version < ownFrom || b.version > segmentVersion {
			return nil, nil, fmt.Errorf("unknown version %d of a segment", value[0])
		}
	}
	if err := e.openClock(c, get, b); err != nil {
		return nil, nil, err
	}
	if b.keysID = e.keysID(); last != nil && last.keysID == b.keysID {
		b.texts, b.stacks, b.keys, b.rows = last.texts, last.stacks, last.keys, last.rows
	} else if err := e.openKeys(c, get, d, b); err != nil {
		return nil, nil, err
	}
	if e.headerless() {
		if b.rows != int(e.rows) || b.rows > 0 && e.groups == 0 {
			return nil, nil, errCorrupt
		}
		return b, []int{b.rows}[:e.groups], nil
	}
	r := &reader{b: value[2:]}
	groups := readGroups(r, b.rows)
	return b, groups, r.err
}

func (e *entry) openKeys(c *codec, get getter, d *set, b *block) error {
	own, err := must(get, ownKey(kindKeys, e.keysID()), nil)
	if err != nil {
		return err
	}
	r, err := openOwn(c, own, keysHead(), maxHeader, nil)
	if err != nil {
		return err
	}
	readKeys(r, d.stack, b)
	return r.err
}

// openClock reads the ticks, or their copy if they are corrupt.
func (e *entry) openClock(c *codec, get getter, b *block) error {
	err := e.openOneClock(c, get, b, kindClock)
	if err != nil {
		again := block{version: b.version}
		if e.openOneClock(c, get, &again, kindClockAgain) == nil {
			*b, err = again, nil
		}
	}
	return err
}

func (e *entry) openOneClock(c *codec, get getter, b *block, kind byte) error {
	b.clockBuffers = c.clockBuffers()
	own, err := must(get, ownKey(kind, e.clockID()), b.clockBuffers.value)
	if err != nil {
		return err
	}
	b.clockBuffers.value = own
	r, err := openOwn(c, own, clockHead(e.resolution), maxClock, b.clockBuffers.plain)
	if err != nil {
		return err
	}
	b.clockBuffers.plain, b.ticks = r.b, b.clockBuffers.ticks[:0]
	defer func() { b.clockBuffers.ticks = b.ticks }()
	if readClock(r, b, e.resolution); r.err == nil && len(b.ticks)+len(b.cells) != int(e.ticks) {
		r.fail()
	}
	return r.err
}

func clockHead(resolution uint8) []byte { return []byte{ownVersion, resolution} }
func keysHead() []byte                  { return []byte{ownVersion} }

// maxPreloaded is the most groups of a segment that preload unpacks.
const maxPreloaded = 4

// getter reads the value of a key; nil when there is none. It uses the caller's buf if that is
// large enough.
type getter func(key, buf []byte) ([]byte, error)

var errMissing = errors.New("missing")

func must(get getter, key, buf []byte) ([]byte, error) {
	v, err := get(key, buf)
	if err == nil && v == nil {
		err = errMissing
	}
	return v, err
}

// read opens a segment: ticks and keys at once, groups when their rows are read. last is the block
// read before, or nil.
func (e *entry) read(c *codec, get getter, d *set, last *block) (*block, error) {
	b, groups, err := e.open(c, get, d, last)
	if err != nil {
		return nil, err
	}
	starts := make([]int, len(groups)+1)
	for i, n := range groups {
		starts[i+1] = starts[i] + n
	}
	ticks, per := len(b.ticks), 1
	if e.resolution != inTicks {
		ticks, per = len(b.cells), rollColumns
	}
	fetch := func(n int, buf []byte) ([]byte, error) {
		return must(get, e.groupKey(n), buf)
	}
	if d.desc.Stat.Kind == measure.Dists {
		b.readDists(c, starts, ticks, fetch)
		return b, nil
	}
	type opened struct {
		group *group
		err   error
	}
	unpack := func(n int) (o opened) {
		g := c.group()
		value, err := fetch(n, g.value)
		if err == nil {
			g.value, o.group = value, g
			err = g.open(c, value, func([]rowHead) int { return ticks })
		}
		if err == nil && len(o.group.heads) != groups[n]*per {
			err = errCorrupt
		}
		o.err = err
		return o
	}
	var early []opened // groups that preload has unpacked
	if e.resolution == inTicks && len(groups) <= maxPreloaded {
		b.preload = func() {
			for n := range groups {
				early = append(early, unpack(n))
			}
		}
	}
	at, now, late := -1, opened{}, opened{}
	b.release = func() {
		for _, o := range append(early, late) {
			if o.group != nil {
				c.groupPool.Put(o.group)
			}
		}
		if b.ticksDone && b.clockBuffers != nil {
			c.clockPool.Put(b.clockBuffers)
		}
	}
	find := func(i int) (open *group, row int, err error) {
		if n := sort.SearchInts(starts, i+1) - 1; n != at {
			at = n
			if n < len(early) {
				now = early[n]
			} else {
				if late.group != nil {
					c.groupPool.Put(late.group)
				}
				late = unpack(n)
				now = late
			}
		}
		return now.group, (i - starts[at]) * per, now.err
	}
	if e.resolution == inTicks {
		var all []float64
		b.column = func(i, from, to int, out []float64) error {
			open, row, err := find(i)
			if err != nil {
				return err
			}
			if from == 0 && to == ticks {
				return open.row(row, out)
			}
			all = slices.Grow(all[:0], ticks)[:ticks]
			err = open.row(row, all)
			copy(out, all[from:to])
			return err
		}
		b.fold = func(i int, f *cellFolder) (bool, error) {
			open, row, err := find(i)
			if err != nil {
				return true, err
			}
			return open.fold(row, f)
		}
		return b, nil
	}
	if b.version >= wideFrom {
		at, broken := -1, error(nil)
		var g rollGroup
		kind := d.rollKind()
		b.roll = func(i int, out *[rollColumns][]float64) error {
			if n := sort.SearchInts(starts, i+1) - 1; n != at {
				at = n
				var value []byte
				if value, broken = fetch(n, g.packed.value); broken == nil {
					g.packed.value = value
					broken = g.open(c, value, groups[n], ticks)
				}
			}
			if broken == nil {
				g.row(i-starts[at], kind, b.cells, out)
			}
			return broken
		}
		return b, nil
	}
	next := d.desc.Stat.Kind == measure.Delta && b.version >= rollsFrom
	b.roll = func(i int, out *[rollColumns][]float64) error {
		open, row, err := find(i)
		apart := 1
		if err == nil && b.version >= rollsFrom {
			row, apart = row/rollColumns, len(open.heads)/rollColumns
		}
		for k := 0; k < rollColumns && err == nil; k++ {
			err = open.row(row+k*apart, out[k])
		}
		if err == nil {
			restore(out, b.cells, next)
		}
		return err
	}
	return b, nil
}

// A group of distributions is compressed as a whole. Per row it contains:
//
//	uvarint entries, { uvarint tick - previous - 1 (the first: tick), length, bytes }
type distGroup struct {
	rows int
	b    []byte
}

func (g *distGroup) row(entries []distEntry) {
	g.b = appendUvarint(g.b, uint64(len(entries)))
	last := -1
	for _, e := range entries {
		g.b = appendUvarint(g.b, uint64(e.tick-last-1))
		g.b = appendUvarint(g.b, uint64(len(e.bytes)))
		g.b = append(g.b, e.bytes...)
		last = e.tick
	}
	g.rows++
}

type distEntry struct {
	tick  int
	bytes []byte
}

func (b *block) readDists(
	c *codec,
	starts []int,
	ticks int,
	fetch func(n int, buf []byte) ([]byte, error),
) {
	at, rows, broken := -1, [][]distEntry(nil), error(nil)
	open := func(n int) ([][]distEntry, error) {
		value, err := fetch(n, nil)
		if err != nil {
			return nil, err
		}
		plain, err := c.decompress(nil, value, maxGroup)
		if err != nil {
			return nil, err
		}
		return readDistGroup(plain, starts[n+1]-starts[n], ticks)
	}
	b.dists = func(i int, each func(int, *reader)) error {
		n := sort.SearchInts(starts, i+1) - 1
		if n != at {
			at = n
			rows, broken = open(n)
		}
		if broken != nil {
			return broken
		}
		for _, e := range rows[i-starts[n]] {
			each(e.tick, &reader{b: e.bytes})
		}
		return nil
	}
}

func readDistGroup(plain []byte, rows, ticks int) ([][]distEntry, error) {
	r := &reader{b: plain}
	if rows > len(plain) {
		return nil, errCorrupt
	}
	out := make([][]distEntry, rows)
	for i := range out {
		n := r.count()
		out[i] = slices.Grow(out[i], min(n, ticks))
		last := -1
		for range n {
			gap := r.uvarint()
			if gap >= uint64(ticks) || last+1+int(gap) >= ticks {
				return nil, errCorrupt
			}
			last += 1 + int(gap)
			out[i] = append(out[i], distEntry{last, r.bytes(r.uvarint())})
		}
	}
	return out, r.err
}
