package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"

	"culprit/measure"
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
