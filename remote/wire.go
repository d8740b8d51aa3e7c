package remote

import (
	"encoding/binary"
	"math"
)

// Values are written as follows. uint and int: variable length, as encoding/binary has them. float:
// 8 bytes, little-endian. string: its length as a uint, then its bytes. list: its length as a uint,
// then its elements. bool: 0 or 1 as a byte.

func appendUint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }
func appendInt(b []byte, v int64) []byte   { return binary.AppendVarint(b, v) }

func appendFloat(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

func appendString(b []byte, s string) []byte {
	return append(appendUint(b, uint64(len(s))), s...)
}

func appendStrings(b []byte, list []string) []byte {
	b = appendUint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// decoder reads a payload. After the first error all reads return zero values.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = invalid(format, args...)
	}
	d.b = nil
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("a number is cut")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("a number is cut")
		return 0
	}
	d.b = d.b[n:]
	return v
}

// id returns a number of 32 bits.
func (d *decoder) id() uint32 {
	v := d.uint()
	if v > math.MaxUint32 {
		d.fail("the number %d has more than 32 bits", v)
		return 0
	}
	return uint32(v)
}

func (d *decoder) float() float64 {
	raw := d.bytes(8)
	if raw == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(raw))
}

func (d *decoder) byte() byte {
	raw := d.bytes(1)
	if raw == nil {
		return 0
	}
	return raw[0]
}

func (d *decoder) bool() bool {
	v := d.byte()
	if v > 1 {
		d.fail("%d is no bool", v)
	}
	return v == 1
}

// bytes returns the next n bytes, which belong to the payload; nil: there are fewer.
func (d *decoder) bytes(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.fail("%d bytes are missing", n-len(d.b))
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) string() string { return string(d.bytes(d.count(1))) }

// count returns the length of a list whose elements have at least size bytes each. It is never more
// than the payload can contain.
func (d *decoder) count(size int) int {
	n := d.uint()
	if n > uint64(len(d.b)/size) {
		d.fail("a list of %d does not fit into %d bytes", n, len(d.b))
		return 0
	}
	return int(n)
}

func (d *decoder) strings() []string {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = d.string()
	}
	return out
}

// end returns the first error. Bytes that nothing has read are one.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail("%d bytes follow the end", len(d.b))
	}
	return d.err
}
