package profile

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// pprof's profiles are messages of protocol buffers, usually packed by gzip: profile.proto of github.com/google/pprof, whose
// package profile reads and writes them. Here is what finds out whether bytes are one, and where one is damaged. A message is
// fields, each a key (number<<3 | wire type) and a value; of a Profile
//
//	1 sample_type  2 sample  3 mapping  4 location  5 function  6 string_table  11 period_type  14 default_sample_type

// A wire reads the fields of one message.
type wire struct {
	b   []byte
	all int // bytes of b at first
}

var errWire = errors.New("cut off, or not of protocol buffers")

// at returns where in the message the reader is.
func (w *wire) at() int64 { return int64(w.all - len(w.b)) }

// next returns a field: its number, its wire type, and for one with a length its bytes.
func (w *wire) next() (field int, kind uint64, bytes []byte, err error) {
	key, size := binary.Uvarint(w.b)
	if size <= 0 || key>>3 == 0 || key>>3 > 1<<29 {
		return 0, 0, nil, errWire
	}
	w.b = w.b[size:]
	field, kind = int(key>>3), key&7
	skip := 0
	switch kind {
	case 0:
		if _, skip = binary.Uvarint(w.b); skip <= 0 {
			return 0, 0, nil, errWire
		}
	case 1:
		skip = 8
	case 5:
		skip = 4
	case 2:
		n, size := binary.Uvarint(w.b)
		if size <= 0 || n > uint64(len(w.b)-size) {
			return 0, 0, nil, errWire
		}
		bytes, skip = w.b[size:size+int(n)], size+int(n)
	default:
		return 0, 0, nil, errWire
	}
	if skip > len(w.b) {
		return 0, 0, nil, errWire
	}
	w.b = w.b[skip:]
	return field, kind, bytes, nil
}

// damaged returns where the first field stands that is cut off, or 0.
func damaged(in []byte) int64 {
	w := &wire{b: in, all: len(in)}
	for len(w.b) > 0 {
		at := w.at()
		if _, _, _, err := w.next(); err != nil {
			return at
		}
	}
	return 0
}

// looksOTLP reports whether bytes begin like OpenTelemetry's profiles: its field 1 holds messages, pprof's two numbers.
func looksOTLP(in []byte) bool {
	w := &wire{b: in, all: len(in)}
	field, kind, inner, err := w.next()
	if err != nil || field != 1 || kind != 2 {
		return false
	}
	w = &wire{b: inner, all: len(inner)}
	_, kind, _, err = w.next()
	return err == nil && kind == 2
}

// looksPProf says whether bytes begin like a profile: with a field of its, of the right type, and not like text. Whole: there are no more of them; then sure
// says whether they are one to their end, since a line of text may be a field as well.
func looksPProf(head []byte, whole bool) (looks, sure bool) {
	control := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' && r != 0x1b }
	if len(head) < 2 || bytes.IndexFunc(head[:min(64, len(head))], control) < 0 {
		return false, false // text
	}
	w, amounts := &wire{b: head, all: len(head)}, false // no profile is without a field that says what its amounts are
	for i := 0; len(w.b) > 0; i++ {
		if i == 4 && !whole {
			return true, true
		}
		key, size := binary.Uvarint(w.b)
		if size <= 0 || key>>3 == 0 || key>>3 > 16 {
			return i >= 4 || i > 0 && size == 0, false
		}
		number := key>>3 == 7 || key>>3 == 8 || key>>3 == 9 || key>>3 == 10 || key>>3 == 12 || key>>3 == 14
		list := key>>3 == 13 // of numbers: packed, or one alone
		if number && key&7 != 0 || !number && key&7 != 2 && !(list && key&7 == 0) {
			return i >= 4, false
		}
		if _, _, _, err := w.next(); err != nil {
			looks = i > 0 || !whole && key&7 == 2 && int(key>>3) <= 6 // longer than what is looked at
			return looks, looks && !whole
		}
		amounts = amounts || key>>3 == 1
	}
	return true, amounts || !whole
}
