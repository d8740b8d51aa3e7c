package jfr

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// A cursor reads values of a chunk. After the first error it returns zeros.
type cursor struct {
	c   *chunk
	at  int // position in the chunk
	end int // of the event
	err error
}

func (r *cursor) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &Error{r.c.at + int64(r.at), fmt.Sprintf(format, args...)}
	}
	r.at = r.end
}

func (r *cursor) bytes(n int64) []byte {
	if n < 0 || n > int64(r.end-r.at) {
		r.fail("a value of %d bytes, and there are %d", n, r.end-r.at)
		return nil
	}
	r.at += int(n)
	return r.c.b[r.at-int(n) : r.at]
}

// long reads an integer. Compressed ones have 7 bits per byte, lowest first, in at most 9 bytes:
// the ninth has 8 bits. Others have the given number of bytes, the most significant one first.
func (r *cursor) long(size int) int64 {
	if !r.c.compressed {
		var v int64
		for _, c := range r.bytes(int64(size)) {
			v = v<<8 | int64(c)
		}
		return v
	}
	var v uint64
	for i := range 9 {
		if r.at >= r.end {
			r.fail("an integer is cut off")
			return 0
		}
		c := r.c.b[r.at]
		r.at++
		if i == 8 {
			return int64(v | uint64(c)<<56)
		}
		if v |= uint64(c&0x7f) << (7 * i); c < 0x80 {
			break
		}
	}
	return int64(v)
}

func (r *cursor) int() int64 {
	v := r.long(4)
	if v < math.MinInt32 || v > math.MaxUint32 {
		r.fail("the integer %d", v)
		return 0
	}
	return v
}

// count reads the length of a list. Each element takes at least a byte, or has no fields.
func (r *cursor) count() int {
	n := r.int()
	if n < 0 || n > int64(r.end-r.at) {
		r.fail("a list of %d values in %d bytes", n, r.end-r.at)
		return 0
	}
	return int(n)
}

func (r *cursor) byte() byte {
	b := r.bytes(1)
	if b == nil {
		return 0
	}
	return b[0]
}

func (r *cursor) float32() float64 {
	b := r.bytes(4)
	if b == nil {
		return 0
	}
	return float64(math.Float32frombits(binary.BigEndian.Uint32(b)))
}

func (r *cursor) float64() float64 {
	b := r.bytes(8)
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b))
}

// The encodings of a string.
const (
	stringNull = iota
	stringEmpty
	stringConstant // its key among the constants of java.lang.String
	stringUTF8
	stringChars // code units of UTF-16, as integers
	stringLatin1
)

// text reads a string. depth is the number of strings that refer to it.
func (r *cursor) text(depth int) string {
	switch kind := r.byte(); kind {
	case stringNull, stringEmpty:
		return ""
	case stringConstant:
		key := r.long(8)
		at, ok := r.c.strings[key]
		if !ok || depth > 0 || r.err != nil {
			return ""
		}
		constant := cursor{c: r.c, at: at, end: len(r.c.b)}
		return constant.text(depth + 1)
	case stringUTF8:
		return string(r.bytes(r.int()))
	case stringChars:
		return r.chars()
	case stringLatin1:
		b := r.bytes(r.int())
		out := make([]byte, 0, len(b))
		for _, c := range b {
			out = utf8.AppendRune(out, rune(c))
		}
		return string(out)
	default:
		r.fail("a string of encoding %d", kind)
	}
	return ""
}

// skipText passes a string.
func (r *cursor) skipText() {
	switch kind := r.byte(); kind {
	case stringNull, stringEmpty:
	case stringConstant:
		r.long(8)
	case stringUTF8, stringLatin1:
		r.bytes(r.int())
	case stringChars:
		for range r.count() {
			r.long(2)
		}
	default:
		r.fail("a string of encoding %d", kind)
	}
}
