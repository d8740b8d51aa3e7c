package unwind

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"culprit/symbol/window"
)

// Bounds of what is read of .eh_frame.
const (
	mostRows = 1 << 22
	// MostBytes is how large a section may be.
	MostBytes  = 48 << 20
	mostParts  = 1 << 20 // of a section without a header
	mostCommon = 1 << 12 // kept at once
	mostStates = 64      // remembered within one another
	// Pages is how many pages of a section are in memory at once.
	Pages = 16
)

// ErrTooLong is the error of a table that is longer than it can be, or than is read.
var ErrTooLong = errors.New("table longer than it can be")

// ErrMalformed is the error of a section whose entries are not understood.
var ErrMalformed = errors.New("malformed unwind table")

// A common is a CIE: what several functions share.
type common struct {
	code, data int64 // factors
	encoding   byte  // of pointers
	augmented  bool
	start      frameState
}

// A described is an FDE: how to unwind one range of code. Its instructions are valid until another
// one is read.
type described struct {
	from, to uint32
	steps    cursor
	of       *common
}

// A Reader reads a section by pages and passes on its rows.
type Reader struct {
	w      *window.Window
	addr   uint64 // where the section is loaded
	debug  bool   // it is .debug_frame, which says a few things otherwise
	give   func(Row) error
	rules  []Rule
	number map[Rule]uint16
	recent [256]recentRule
	kept   []frameState       // buffer of remembered states
	common map[uint64]*common // by place; nil: can't be read
}

// A framePart is an FDE: the start of its code, and its offset in the section.
type framePart struct{ from, at uint32 }

// NewReader returns a Reader of the section that w is over, which is loaded at addr. debug: it is
// .debug_frame. It passes each row to give.
func NewReader(w *window.Window, addr uint64, debug bool, give func(Row) error) *Reader {
	return &Reader{w: w, addr: addr, debug: debug, give: give, rules: []Rule{{}},
		number: map[Rule]uint16{{}: 0}, common: map[uint64]*common{}}
}

// Parse parses the bytes of .eh_frame, loaded at addr, or of .debug_frame. With an error,
// what came before it counts.
func Parse(b []byte, addr uint64, debug bool) (*Table, error) {
	w := window.New(Pages)
	w.Over(bytes.NewReader(b), 0, uint64(len(b)), nil)
	t := &Table{}
	f := NewReader(w, addr, debug, func(r Row) error {
		t.Rows = append(t.Rows, r)
		return nil
	})
	err := f.Read(nil)
	t.Rules = f.rules
	return t, err
}

// Read passes on the rows of the section in the order of addresses. header is .eh_frame_hdr, which
// has that order; nil: the section is read twice. With an error other than ErrTooLong, what came
// before it counts.
func (f *Reader) Read(header *Header) error {
	if header != nil {
		return f.order(header.parts)
	}
	all, err := f.find()
	slices.SortStableFunc(all, func(a, b framePart) int { return cmp.Compare(a.from, b.from) })
	if e := f.order(slices.Values(all)); e != nil {
		return e
	}
	return err
}

// find finds the FDEs of the section, in its order.
func (f *Reader) find() (parts []framePart, err error) {
	for at := uint64(0); at+4 <= f.w.Size(); {
		c, next, ok := f.entry(at)
		if !ok {
			return parts, ErrMalformed
		}
		if c.left() == 0 {
			if !f.debug {
				return parts, nil // the terminator
			}
			at = next
			continue
		}
		place := at
		at = next
		d, ok, err := f.describe(c)
		if err != nil {
			return parts, err
		}
		if ok {
			if len(parts) == mostParts {
				return nil, ErrTooLong
			}
			parts = append(parts, framePart{d.from, uint32(place)})
		}
	}
	return parts, nil
}

// refers interprets the word after the length of an entry: the entry is a CIE, or its CIE is at
// cie.
func (f *Reader) refers(id uint64, place, width int) (isCommon bool, cie int) {
	if f.debug {
		return id == math.MaxUint32 && width == 4 || id == math.MaxUint64,
			int(min(id, math.MaxInt32))
	}
	if id > uint64(place) {
		return false, -1
	}
	return id == 0, place - int(id)
}

// entry returns the entry at an offset, after its length, and where the next one begins. It is
// valid until the next call.
func (f *Reader) entry(at uint64) (c cursor, next uint64, ok bool) {
	b := f.w.Bytes(at, 4)
	if b == nil {
		return c, 0, false
	}
	n, head, width := uint64(binary.LittleEndian.Uint32(b)), uint64(4), 4
	if n == math.MaxUint32 {
		if b = f.w.Bytes(at, 12); b == nil {
			return c, 0, false
		}
		n, head = binary.LittleEndian.Uint64(b[4:]), 12
		if f.debug {
			width = 8
		}
	}
	if b = f.w.Bytes(at+head, n); b == nil {
		return c, 0, false
	}
	return cursor{b: b, from: int(at + head), end: len(b), width: width}, at + head + n, true
}

// cie reads the CIE at an offset; nil: it is not understood. With fresh, what was read before is no
// longer valid.
func (f *Reader) cie(at int) (u *common, fresh bool) {
	if u, ok := f.common[uint64(at)]; ok {
		return u, false
	}
	if len(f.common) >= mostCommon {
		clear(f.common)
	}
	u = nil
	if at >= 0 {
		u = f.readCommon(uint64(at))
	}
	f.common[uint64(at)] = u
	return u, true
}

func (f *Reader) readCommon(at uint64) *common {
	c, _, ok := f.entry(at)
	if !ok || c.left() == 0 {
		return nil
	}
	id := c.fixed(c.width)
	if isCommon, _ := f.refers(id, int(at), c.width); !isCommon {
		return nil
	}
	version := c.byte()
	augmentation := c.text()
	u := &common{start: frameState{cfa: CFAOther}}
	if version >= 4 {
		if address, segment := c.byte(), c.byte(); address != 8 || segment != 0 {
			return nil
		}
	}
	u.code, u.data = int64(c.uleb()), c.sleb()
	register := uint64(0)
	if version == 1 {
		register = uint64(c.byte())
	} else {
		register = c.uleb()
	}
	if c.bad || register != dwarfPC || version == 0 || version == 2 || version > 4 {
		return nil
	}
	rest := c
	if augmentation != "" {
		if augmentation[0] != 'z' {
			return nil
		}
		u.augmented = true
		n := c.uleb()
		if c.bad || n > uint64(c.left()) {
			return nil
		}
		rest = c
		rest.at += int(n)
		c.end = rest.at
		for _, letter := range augmentation[1:] {
			switch letter {
			case 'R':
				u.encoding = c.byte()
			case 'P':
				c.pointer(c.byte(), 0)
			case 'L':
				c.byte()
			case 'S', 'B':
			default:
				return nil
			}
		}
		if c.bad {
			return nil
		}
	}
	if !f.run(rest, u, &u.start, frameState{cfa: CFAOther}, nil) {
		return nil
	}
	return u
}

// describe reads an FDE; !ok: the entry is none, or is of no use.
func (f *Reader) describe(c cursor) (d described, ok bool, err error) {
	place := c.from
	id := c.fixed(c.width)
	isCommon, cie := f.refers(id, place, c.width)
	if isCommon {
		return d, false, nil
	}
	u, fresh := f.cie(cie)
	if u == nil {
		return d, false, nil // of others more may be known
	}
	if fresh {
		b := f.w.Bytes(uint64(c.from), uint64(c.end))
		if b == nil {
			return d, false, ErrMalformed
		}
		c.b = b
	}
	from := c.pointer(u.encoding, f.addr)
	// a length has the form of a pointer, and nothing to add
	size := c.pointer(u.encoding&0x0f, f.addr)
	if u.augmented {
		n := c.uleb()
		if n > uint64(c.left()) {
			return d, false, ErrMalformed
		}
		c.at += int(n)
	}
	if c.bad {
		return d, false, ErrMalformed
	}
	if from == 0 || size == 0 || from > math.MaxUint32 || size > math.MaxUint32 ||
		from+size > math.MaxUint32 {
		return d, false, nil // of code that the linker left out; or beyond what a row holds
	}
	return described{uint32(from), uint32(from + size), c, u}, true, nil
}

// rows appends the rows of a range of code to out.
func (f *Reader) rows(out []Row, d *described) []Row {
	state := d.of.start
	pc, from, to := uint64(d.from), uint64(d.from), uint64(d.to)
	row := func(s *frameState) bool {
		if pc >= to {
			return true
		}
		rule := f.ruleOf(s)
		n := len(out)
		switch {
		case n > 0 && out[n-1].PC == uint32(pc):
			out[n-1].Rule = rule
		case n > 0 && out[n-1].Rule == rule:
		default:
			out = append(out, Row{uint32(pc), rule})
		}
		return len(out) < mostRows
	}
	good := f.run(d.steps, d.of, &state, d.of.start,
		func(s *frameState, by uint64, absolute bool) bool {
			if !row(s) {
				return false
			}
			if absolute {
				by -= min(by, pc)
			}
			pc = min(pc+min(by, to-from), to)
			return true
		})
	if !good {
		state = frameState{}
	}
	row(&state)
	return out
}

// A recentRule is a state and the number of its rule.
type recentRule struct {
	of     frameState
	number uint16
	known  bool
}

// ruleOf returns the number of the rule of a state. Functions have few states, and nearly all share
// them.
func (f *Reader) ruleOf(s *frameState) uint16 {
	h := uint32(s.cfa) ^ uint32(s.off)*0x9e3779b1 ^ uint32(s.bp.off)*0x85ebca6b ^ uint32(
		s.bp.how)<<5 ^ uint32(s.pc.off)*0xc2b2ae35 ^ uint32(s.plt)<<3
	r := &f.recent[h>>24]
	if !r.known || r.of != *s {
		*r = recentRule{*s, f.numberOf(s.rule()), true}
	}
	return r.number
}

// numberOf returns the number of a rule.
func (f *Reader) numberOf(r Rule) uint16 {
	n, ok := f.number[r]
	if !ok {
		if len(f.rules) == math.MaxUint16 {
			return f.numberOf(Rule{CFA: CFAOther}) // which was among the first
		}
		if len(f.rules) == 1 && r.CFA != CFAOther {
			f.numberOf(Rule{CFA: CFAOther})
		}
		n = uint16(len(f.rules))
		f.rules = append(f.rules, r)
		f.number[r] = n
	}
	return n
}

// Rule returns the rule that a row names.
func (f *Reader) Rule(r Row) Rule { return f.rules[r.Rule] }
