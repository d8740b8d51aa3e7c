package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"culprit/measure"
)

// A frame is one Append as it is written to disk: the differences from the previous frame. Once a
// minute a frame is a key frame, which refers to no earlier one. docs/FORMATS.md draws the bytes.
const (
	frameVersion = 1

	frameKey        = 1 // flags of a frame: refers to no earlier frame
	frameCompressed = 2

	partPartial = 1 // flags of a part
	partNoted   = 2 // its notes are those of the previous tick

	// Tokens of the rows of the previous tick, in their order: a number of consecutive rows and
	// what happened to them.
	tokenSame  = 0
	tokenGone  = 1
	tokenAdded = 2 // an integer is added to each
	tokenNew   = 3 // each has a new value
)

// framer makes frames. It reuses its slices.
type framer struct {
	codec    *codec
	w        *window
	key      bool
	epoch    uint32
	newWords []byte // the words that this frame defines
	count    int
	body     []byte
	section  []byte // of the current part
	token    []byte // values of the current run of tokens
	kind     int
	run      int
	out      []byte
}

// start begins the frame of a tick.
func (f *framer) start(w *window, at measure.Time) {
	f.w, f.newWords, f.body, f.count = w, f.newWords[:0], f.body[:0], 0
	f.key = w.epoch == 0 || at.Sub(w.keyFrameAt) >= measure.Minute || at < w.keyFrameAt
	if f.key {
		w.epoch++
		w.keyFrameAt = at
	}
	f.epoch = w.epoch
}

// addWord defines a word unless this epoch has done so, and returns its number.
func (f *framer) addWord(n uint32) uint64 {
	for int(n) >= len(f.w.definedWords) {
		f.w.definedWords = append(f.w.definedWords, make([]uint32, int(n)+64-len(f.w.definedWords))...)
	}
	if f.w.definedWords[n] != f.epoch {
		f.w.definedWords[n] = f.epoch
		f.newWords = appendUvarint(f.newWords, uint64(n))
		f.newWords = appendText(f.newWords, f.w.words.texts[n])
		f.count++
	}
	return uint64(n)
}

func appendText(b []byte, s string) []byte {
	b = appendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// part ends the current tick of a part and appends it to the frame. It returns an estimate of the
// memory that the tick took, in bytes.
func (f *framer) part(p *part) (grown int) {
	t := int32(len(p.ticks) - 1)
	info := &p.ticks[t]
	info.partial = p.failed && p.looked
	p.open = false
	p.endNotes()
	if p.rowsOverLimit > 0 {
		p.addLoss(
			measure.Loss{
				Reason: "more rows in a tick than the archive takes",
				Events: p.rowsOverLimit,
			},
		)
	}
	if p.rowsOverMemory > 0 {
		p.addLoss(
			measure.Loss{
				Reason: "memory was short, and this dataset has more than its share of it: " +
					"new rows were left out",
				Events: p.rowsOverMemory,
			},
		)
	}
	whole := p.epoch != f.epoch // also when the key frame did not contain the dataset
	p.epoch = f.epoch
	b := appendUvarint(f.section[:0], uint64(info.elapsed))
	var flags byte
	if info.partial {
		flags |= partPartial
	}
	if !whole && t > 0 && slices.Equal(p.notesNow, p.notesBefore) {
		flags |= partNoted
	}
	b = append(b, flags)
	b = f.losses(b, p, t)
	if flags&partNoted == 0 {
		b = appendUvarint(b, uint64(len(p.notesNow)))
		for _, n := range p.notesNow {
			b = appendText(b, p.notes[n])
		}
	}

	// The rows of the previous tick.
	f.token, f.kind, f.run = f.token[:0], 0, 0
	dists := p.set.desc.Stat.Kind == measure.Dists
	tokens := len(b)
	kept := p.live[:0]
	for _, row := range p.live {
		c := &p.state[row]
		if c.seen != t {
			grown += p.push(row, t, absent())
			if !whole {
				b = f.next(b, tokenGone)
			}
			continue
		}
		kept = append(kept, row)
		was, is := math.Float64bits(c.before), math.Float64bits(c.now)
		if was == is {
			if !whole {
				b = f.next(b, tokenSame)
			}
			continue
		}
		grown += p.push(row, t, c.now)
		if !whole {
			d, exact := wholeDifference(c.before, c.now)
			switch {
			case dists && p.sameDist(c.before, c.now):
				c.now = c.before
				b = f.next(b, tokenSame)
			case dists:
				b = f.next(b, tokenNew)
				f.token = p.appendDist(f.token, c.now)
			case exact:
				b = f.next(b, tokenAdded)
				f.token = binary.AppendVarint(f.token, d)
			default:
				b = f.next(b, tokenNew)
				f.token = appendValue(f.token, c.now)
			}
		}
		c.before = c.now
	}
	p.live = kept
	b = f.flush(b)
	if whole {
		b = b[:tokens]
	}
	b = appendUvarint(b, 0) // the end of the tokens

	// The new rows.
	if whole {
		b = appendUvarint(b, uint64(len(p.live)+len(p.came)))
		for _, row := range p.live {
			b = f.came(b, p, row, dists)
		}
	} else {
		b = appendUvarint(b, uint64(len(p.came)))
	}
	for _, row := range p.came {
		c := &p.state[row]
		grown += p.push(row, t, c.now)
		b = f.came(b, p, row, dists)
	}
	p.live = append(p.live, p.came...)
	f.section = b
	f.body = appendUvarint(f.body, uint64(p.set.desc.ID))
	f.body = appendUvarint(f.body, uint64(len(b)))
	f.body = append(f.body, b...)
	return grown
}

func (f *framer) came(b []byte, p *part, row uint32, dists bool) []byte {
	c := &p.state[row]
	c.before = c.now
	defined := c.keyDefinedIn == f.epoch
	b = appendUvarint(b, uint64(row)<<1|uint64(b2i(!defined)))
	if !defined {
		c.keyDefinedIn = f.epoch
		for j, k := range p.rows.key(int(row)) {
			if p.set.stack[j] {
				b = f.node(b, p, k)
			} else {
				b = appendUvarint(b, f.addWord(k))
			}
		}
	}
	if dists {
		return p.appendDist(b, c.now)
	}
	return appendValue(b, c.now)
}

// node appends a stack: the nodes that this epoch has not defined, outermost first.
func (f *framer) node(b []byte, p *part, n uint32) []byte {
	for len(p.definedNodes) < len(p.stacks.nodes) {
		p.definedNodes = append(p.definedNodes, 0)
	}
	var chain []uint32
	for at := int32(n); at >= 0 && p.definedNodes[at] != f.epoch; at = p.stacks.nodes[at].parent {
		p.definedNodes[at] = f.epoch
		chain = append(chain, uint32(at))
	}
	b = appendUvarint(b, uint64(n))
	b = appendUvarint(b, uint64(len(chain)))
	for i := len(chain) - 1; i >= 0; i-- {
		nd := p.stacks.nodes[chain[i]]
		b = appendUvarint(b, uint64(chain[i]))
		b = appendUvarint(b, uint64(nd.parent+1))
		b = appendUvarint(b, f.addWord(nd.symbol))
		b = appendUvarint(b, f.addWord(nd.module))
		b = appendUvarint(b, nd.offset)
	}
	return b
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (f *framer) losses(b []byte, p *part, t int32) []byte {
	first := len(p.loss)
	for first > 0 && p.loss[first-1].tick == t {
		first--
	}
	b = appendUvarint(b, uint64(len(p.loss)-first))
	for _, l := range p.loss[first:] {
		b = appendText(b, l.loss.Reason)
		b = appendUvarint(b, l.loss.Events)
	}
	return b
}

// next counts a row. Consecutive rows of one kind share a token.
func (f *framer) next(b []byte, kind int) []byte {
	if f.run > 0 && kind != f.kind {
		// The values of a token follow it, so the previous token must be complete before this one's
		// first value.
		b = f.flush(b)
	}
	f.kind = kind
	f.run++
	return b
}

func (f *framer) flush(b []byte) []byte {
	if f.run > 0 {
		b = appendUvarint(b, uint64(f.run)<<2|uint64(f.kind))
		b = append(b, f.token...)
	}
	f.token, f.run = f.token[:0], 0
	return b
}

// finish returns the bytes of the frame, valid until the next start.
func (f *framer) finish(at measure.Time) []byte {
	var flags byte
	if f.key {
		flags |= frameKey
	}
	b := append(f.out[:0], frameVersion, flags)
	b = appendUvarint(b, f.w.seq)
	b = binary.AppendVarint(b, int64(at))
	head := len(b)
	b = appendUvarint(b, uint64(f.count))
	b = append(b, f.newWords...)
	b = append(b, f.body...)
	f.out = b
	if len(b)-head >= 16<<10 {
		packed := f.codec.compress(append([]byte(nil), b[:head]...), b[head:])
		packed[1] |= frameCompressed
		return packed
	}
	return b
}

// wholeDifference returns now-before if both are integers and the sum is exact.
func wholeDifference(before, now float64) (int64, bool) {
	const limit = 1 << 53
	if !(before > -limit && before < limit && now > -limit && now < limit) {
		return 0, false
	}
	a, b := int64(before), int64(now)
	if float64(a) != before || float64(b) != now || now == 0 && math.Signbit(now) {
		return 0, false
	}
	return b - a, true
}

// appendValue appends a float64: integers as varints, other numbers as their reversed bits.
func appendValue(b []byte, v float64) []byte {
	if d, ok := wholeDifference(0, v); ok && d > -1<<48 && d < 1<<48 {
		return appendUvarint(b, zigzag(d)<<1)
	}
	// Simple fractions have zero low bits.
	return appendUvarint(append(b, 1), bits.Reverse64(math.Float64bits(v)))
}

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

func appendUvarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

var errCorrupt = errors.New("corrupt data")

// reader parses bytes. After the first error all results are zero and err is set.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = errCorrupt
	}
	r.b = nil
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 { return unzigzag(r.uvarint()) }

// near is varint, optimized for numbers of one byte.
func (r *reader) near() int64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := unzigzag(uint64(r.b[0]))
		r.b = r.b[1:]
		return v
	}
	return r.varint()
}

// next returns the first number in b and the rest of b; nil for the rest when there is no number.
// In long loops it is faster than a reader, which writes to memory at each step.
func next(b []byte) (uint64, []byte) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), b[1:]
	}
	return nextLong(b)
}

func nextLong(b []byte) (uint64, []byte) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil
	}
	return v, b[n:]
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// bytes returns the next n bytes without copying them.
func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) text() string { return string(r.bytes(r.uvarint())) }

// count reads a number of items of at least one byte each.
func (r *reader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) value() float64 {
	u := r.uvarint()
	if u&1 == 0 {
		return float64(unzigzag(u >> 1))
	}
	if u != 1 {
		r.fail()
		return 0
	}
	v := math.Float64frombits(bits.Reverse64(r.uvarint()))
	if v != v {
		return unknown()
	}
	return v
}

// frameHead is the header of a frame.
type frameHead struct {
	key    bool
	window uint64
	at     measure.Time
}

func openFrame(c *codec, b []byte) (frameHead, *reader, error) {
	r := &reader{b: b}
	version, flags := r.byte(), r.byte()
	h := frameHead{key: flags&frameKey != 0, window: r.uvarint(), at: measure.Time(r.varint())}
	if r.err != nil {
		return h, r, r.err
	}
	if version != frameVersion {
		return h, r, fmt.Errorf("unknown version %d of a frame", version)
	}
	if flags&frameCompressed != 0 {
		plain, err := c.decompress(nil, r.b, maxFrame)
		if err != nil {
			return h, r, err
		}
		r.b = plain
	}
	return h, r, nil
}

// maxFrame limits the decompressed bytes of a frame.
const maxFrame = 64 << 20

// unframer replays the frames of one window.
type unframer struct {
	w     *window
	words map[uint64]uint32 // word in the frames -> word in the window
	parts map[uint32]*unframedPart
	valid bool   // all frames since the newest key frame were read
	most  uint32 // the largest dataset ID, unknown datasets included
}

type unframedPart struct {
	live   []uint64
	rows   map[uint64]int // row in the frames -> row in the part
	before map[uint64]float64
	broken bool // a tick since the newest key frame could not be read
	nodes  map[uint64]uint32
}

// frame adds a frame to the window. After an error the window contains the ticks that could be
// read.
func (u *unframer) frame(h frameHead, r *reader, sets map[uint32]*set) error {
	if h.key {
		u.words, u.parts, u.valid = map[uint64]uint32{}, map[uint32]*unframedPart{}, true
	}
	if !u.valid {
		return errCorrupt
	}
	for range r.count() {
		n := r.uvarint()
		u.words[n] = u.w.words.of(r.text())
	}
	var broken error
	for len(r.b) > 0 && r.err == nil {
		id := r.uvarint()
		section := &reader{b: r.bytes(r.uvarint())}
		if r.err == nil {
			if u.part(h, id, section, sets); section.err != nil {
				broken = fmt.Errorf("dataset %d: %w", id, section.err)
			}
		}
	}
	if r.err != nil {
		u.valid = false
	}
	return errors.Join(r.err, broken)
}

func (u *unframer) part(h frameHead, id uint64, r *reader, sets map[uint32]*set) {
	d := sets[uint32(id)]
	if id < math.MaxUint32 {
		u.most = max(u.most, uint32(id))
	}
	if d == nil || id > math.MaxUint32 {
		return // the dataset was dropped
	}
	p := u.w.part(d)
	up := u.parts[uint32(id)]
	if up == nil {
		up = &unframedPart{
			rows:   map[uint64]int{},
			before: map[uint64]float64{},
			nodes:  map[uint64]uint32{},
		}
		u.parts[uint32(id)] = up
	}
	if h.key {
		up.broken = false
	}
	if n := len(p.ticks); up.broken || n > 0 && p.ticks[n-1].at >= h.at || n >= maxTicks {
		r.fail()
		return
	}
	defer func() { up.broken = r.err != nil }()
	p.begin(h.at)
	t := &p.ticks[len(p.ticks)-1]
	t.elapsed = measure.Span(r.uvarint())
	if t.elapsed < 0 {
		r.fail()
		t.elapsed = 0
	}
	flags := r.byte()
	partial := flags&partPartial != 0
	p.failed, p.looked = partial, true
	for range r.count() {
		reason := r.text()
		p.addLoss(measure.Loss{Reason: reason, Events: r.uvarint()})
	}
	if flags&partNoted != 0 {
		p.notesNow = append(p.notesNow, p.notesBefore...)
	} else {
		for range r.count() {
			p.note(r.text())
		}
	}
	dists := d.desc.Stat.Kind == measure.Dists
	kept := up.live[:0:0]
	at := 0
	for r.err == nil {
		token := r.uvarint()
		if token == 0 {
			break
		}
		n := token >> 2
		if n > uint64(len(up.live)-at) {
			r.fail()
			break
		}
		for _, row := range up.live[at : at+int(n)] {
			v := up.before[row]
			switch token & 3 {
			case tokenGone:
				continue
			case tokenAdded:
				v += float64(r.varint())
			case tokenNew:
				if dists {
					v = p.readDist(r)
				} else {
					v = r.value()
				}
			}
			kept = append(kept, row)
			up.before[row] = v
			if r.err == nil {
				p.put(up.rows[row], false, v)
			}
		}
		at += int(n)
	}
	if at != len(up.live) && !h.key {
		r.fail()
	}
	width := p.rows.width
	key := make([]uint32, width)
	for range r.count() {
		head := r.uvarint()
		row := head >> 1
		if head&1 != 0 {
			for j := range key {
				if d.stack[j] {
					key[j] = u.node(r, up, p)
				} else {
					key[j] = u.word(r)
				}
			}
		}
		var v float64
		if dists {
			v = p.readDist(r)
		} else {
			v = r.value()
		}
		if r.err != nil {
			break
		}
		fresh := false
		if head&1 != 0 {
			up.rows[row], fresh = p.rows.row(key)
			p.extra += 4*width + 104
		}
		i, ok := up.rows[row]
		if !ok {
			r.fail()
			break
		}
		p.put(i, fresh, v)
		up.before[row] = v
		kept = append(kept, row)
	}
	up.live = kept
	p.extra += p.endTick()
}

// endTick ends the current tick as framer.part does, without a frame.
func (p *part) endTick() (grown int) {
	t := int32(len(p.ticks) - 1)
	p.ticks[t].partial = p.failed && p.looked
	p.open = false
	p.endNotes()
	kept := p.live[:0]
	for _, row := range p.live {
		c := &p.state[row]
		if c.seen != t {
			grown += p.cols[row].push(t, absent())
			continue
		}
		kept = append(kept, row)
		grown += p.cols[row].push(t, c.now)
		c.before = c.now
	}
	for _, row := range p.came {
		c := &p.state[row]
		grown += p.cols[row].push(t, c.now)
		c.before = c.now
		kept = append(kept, row)
	}
	p.live = kept
	return grown
}

func (u *unframer) word(r *reader) uint32 {
	n, ok := u.words[r.uvarint()]
	if !ok {
		r.fail()
	}
	return n
}

func (u *unframer) node(r *reader, up *unframedPart, p *part) uint32 {
	n := r.uvarint()
	for range r.count() {
		name, parent := r.uvarint(), int32(-1)
		if from := r.uvarint(); from > 0 {
			i, ok := up.nodes[from-1]
			if !ok {
				r.fail()
			}
			parent = int32(i)
		}
		symbol, module := u.word(r), u.word(r)
		offset := r.uvarint()
		if r.err == nil {
			up.nodes[name] = p.stacks.of(node{parent, symbol, module, offset})
		}
	}
	i, ok := up.nodes[n]
	if !ok {
		r.fail()
	}
	return i
}
