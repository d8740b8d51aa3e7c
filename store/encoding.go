package store

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
)

func appendText(b []byte, s string) []byte {
	b = appendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
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

func zigzag(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }

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
