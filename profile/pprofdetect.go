package profile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
)

// A pprof profile is a protobuf message, usually packed by gzip: profile.proto of
// github.com/google/pprof, whose package profile reads and writes it. This file detects whether
// bytes are such a message, and where one is damaged. A message is a sequence of fields, each a key
// (number<<3 | wire type) and a value. The fields of a Profile:
//
//	1 sample_type  2 sample  3 mapping  4 location  5 function  6 string_table  11 period_type
//	14 default_sample_type

// A wire reads the fields of one message.
type wire struct {
	b   []byte
	all int // length of the message
}

var errWire = errors.New("cut off, or not of protocol buffers")

// at returns the reader's position in the message.
func (w *wire) at() int64 { return int64(w.all - len(w.b)) }

// next returns a field: its number, its wire type, and its bytes if it has a length. The error says
// that it is damaged.
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

// damaged returns the position of the first field that is cut off, or 0.
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

// looksOTLP reports whether bytes begin like a profile of OpenTelemetry: its field 1 contains
// messages, pprof's two numbers.
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

// looksPProf reports whether bytes begin like a profile: with one of its fields, of the right type,
// and not like text. whole means that there are no more bytes. Then sure reports whether they are a
// profile to their end, since a line of text may look like a field too.
func looksPProf(head []byte, whole bool) (looks, sure bool) {
	control := func(r rune) bool { return r < ' ' && !strings.ContainsRune("\n\t\r\x1b", r) }
	if len(head) < 2 || bytes.IndexFunc(head[:min(64, len(head))], control) < 0 {
		return false, false // text
	}
	w, amounts := &wire{b: head,
		all: len(head)}, false // each profile has a field that defines its amounts
	for i := 0; len(w.b) > 0; i++ {
		if i == 4 && !whole {
			return true, true
		}
		key, size := binary.Uvarint(w.b)
		if size <= 0 || key>>3 == 0 || key>>3 > 16 {
			return i >= 4 || i > 0 && size == 0, false
		}
		number := key>>3 == 7 || key>>3 == 8 || key>>3 == 9 || key>>3 == 10 || key>>3 == 12 ||
			key>>3 == 14
		list := key>>3 == 13 // a list of numbers: packed or single
		if number && key&7 != 0 || !number && key&7 != 2 && !(list && key&7 == 0) {
			return i >= 4, false
		}
		if _, _, _, err := w.next(); err != nil {
			looks = i > 0 ||
				!whole && key&7 == 2 && int(key>>3) <= 6 // the field is longer than head
			return looks, looks && !whole
		}
		amounts = amounts || key>>3 == 1
	}
	return true, amounts || !whole
}
