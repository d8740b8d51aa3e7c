package store

import (
	"encoding/binary"
	"math"
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
		more := int(n) + 64 - len(f.w.definedWords)
		f.w.definedWords = append(f.w.definedWords, make([]uint32, more)...)
	}
	if f.w.definedWords[n] != f.epoch {
		f.w.definedWords[n] = f.epoch
		f.newWords = appendUvarint(f.newWords, uint64(n))
		f.newWords = appendText(f.newWords, f.w.words.texts[n])
		f.count++
	}
	return uint64(n)
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
