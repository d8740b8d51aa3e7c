package store

import (
	"errors"
	"fmt"
	"math"

	"culprit/measure"
)

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
