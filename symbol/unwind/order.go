package unwind

import (
	"encoding/binary"
	"iter"
	"math"

	"culprit/symbol/window"
)

// order passes on the rows of parts, which come in the order of their addresses, and the end of
// each part where no other begins. Of two rows for one address the later one counts. A row that is
// equal to the one before is left out.
func (f *Reader) order(parts iter.Seq[framePart]) error {
	var last Row // not given yet, if there is one
	pending, given, rule := false, 0, uint16(0)
	flush := func() error {
		if !pending {
			return nil
		}
		if given++; given >= mostRows {
			return ErrTooLong
		}
		pending, rule = false, last.Rule
		return f.give(last)
	}
	put := func(r Row) error {
		if pending && last.PC == r.PC {
			pending = false
		}
		if pending && last.Rule == r.Rule || !pending && given > 0 && rule == r.Rule {
			return nil
		}
		if err := flush(); err != nil {
			return err
		}
		last, pending = r, true
		return nil
	}
	reached, begun := uint32(0), false
	var rows []Row
	for p := range parts {
		if p.from < reached {
			continue // said twice
		}
		c, _, ok := f.entry(uint64(p.at))
		if !ok {
			continue
		}
		d, ok, err := f.describe(c)
		if err != nil || !ok || d.from != p.from {
			continue // the header names another one
		}
		if begun && d.from != reached {
			if err := put(Row{reached, 0}); err != nil {
				return err
			}
		}
		rows, begun = f.rows(rows[:0], &d), true
		for _, r := range rows {
			if err := put(r); err != nil {
				return err
			}
		}
		reached = d.to
	}
	if begun {
		if err := put(Row{reached, 0}); err != nil {
			return err
		}
	}
	return flush()
}

// A Header is .eh_frame_hdr: the parts of .eh_frame by address.
type Header struct {
	parts iter.Seq[framePart]
}

// ReadHeader reads the head of .eh_frame_hdr, loaded at addr, in the form that all linkers
// write (Linux Standard Base); nil: it has another form, or is not of the section at frames with
// size bytes.
func ReadHeader(w *window.Window, addr, frames, size uint64) *Header {
	b := w.Bytes(0, 12)
	// version; from its own place, plain, from the header; of 32 bits each
	if b == nil || string(b[:4]) != "\x01\x1b\x03\x3b" {
		return nil
	}
	le := binary.LittleEndian
	number := func(b []byte) uint64 { return uint64(int64(int32(le.Uint32(b)))) }
	if addr+4+number(b[4:]) != frames {
		return nil
	}
	n := uint64(le.Uint32(b[8:]))
	if n == 0 || n > (w.Size()-12)/8 {
		return nil
	}
	return &Header{parts: func(yield func(framePart) bool) {
		for i := range n {
			b := w.Bytes(12+8*i, 8)
			if b == nil {
				return
			}
			from, at := addr+number(b), addr+number(b[4:])-frames
			if from <= math.MaxUint32 && at < size && !yield(framePart{uint32(from), uint32(at)}) {
				return
			}
		}
	}}
}
