package wire

import (
	"encoding/binary"
	"math"
)

// Values are written as follows. uint and int: variable length, as encoding/binary has them. float:
// 8 bytes, little-endian. string: its length as a uint, then its bytes. list: its length as a uint,
// then its elements. bool: 0 or 1 as a byte.

// AppendUint appends a number of variable length.
func AppendUint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// AppendInt appends a signed number of variable length.
func AppendInt(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

// AppendFloat appends a number of 8 bytes.
func AppendFloat(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

// AppendString appends a length and a text.
func AppendString(b []byte, s string) []byte {
	return append(AppendUint(b, uint64(len(s))), s...)
}

// AppendStrings appends a list of texts.
func AppendStrings(b []byte, list []string) []byte {
	b = AppendUint(b, uint64(len(list)))
	for _, s := range list {
		b = AppendString(b, s)
	}
	return b
}

// AppendBool appends a byte, 0 or 1.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// Decoder reads a payload. After the first error all reads return zero values.
type Decoder struct {
	Rest []byte // what was not read yet
	Err  error  // the first error; nil: none
}

// Fail sets the first error.
func (d *Decoder) Fail(format string, args ...any) {
	if d.Err == nil {
		d.Err = Invalid(format, args...)
	}
	d.Rest = nil
}

// Uint reads what AppendUint has written.
func (d *Decoder) Uint() uint64 {
	v, n := binary.Uvarint(d.Rest)
	if n <= 0 {
		d.Fail("a number is cut")
		return 0
	}
	d.Rest = d.Rest[n:]
	return v
}

// Int reads what AppendInt has written.
func (d *Decoder) Int() int64 {
	v, n := binary.Varint(d.Rest)
	if n <= 0 {
		d.Fail("a number is cut")
		return 0
	}
	d.Rest = d.Rest[n:]
	return v
}

// ID returns a number of 32 bits.
func (d *Decoder) ID() uint32 {
	v := d.Uint()
	if v > math.MaxUint32 {
		d.Fail("the number %d has more than 32 bits", v)
		return 0
	}
	return uint32(v)
}

// Float reads what AppendFloat has written.
func (d *Decoder) Float() float64 {
	raw := d.Bytes(8)
	if raw == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(raw))
}

// Byte reads a byte.
func (d *Decoder) Byte() byte {
	raw := d.Bytes(1)
	if raw == nil {
		return 0
	}
	return raw[0]
}

// Bool reads what AppendBool has written.
func (d *Decoder) Bool() bool {
	v := d.Byte()
	if v > 1 {
		d.Fail("%d is no bool", v)
	}
	return v == 1
}

// Bytes returns the next n bytes, which belong to the payload; nil: there are fewer.
func (d *Decoder) Bytes(n int) []byte {
	if n < 0 || n > len(d.Rest) {
		d.Fail("%d bytes are missing", n-len(d.Rest))
		return nil
	}
	out := d.Rest[:n:n]
	d.Rest = d.Rest[n:]
	return out
}

// String reads what AppendString has written.
func (d *Decoder) String() string { return string(d.Bytes(d.Count(1))) }

// Count returns the length of a list whose elements have at least size bytes each. It is never more
// than the payload can contain.
func (d *Decoder) Count(size int) int {
	n := d.Uint()
	if n > uint64(len(d.Rest)/size) {
		d.Fail("a list of %d does not fit into %d bytes", n, len(d.Rest))
		return 0
	}
	return int(n)
}

// Strings reads what AppendStrings has written; nil: none.
func (d *Decoder) Strings() []string {
	n := d.Count(1)
	if n == 0 {
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = d.String()
	}
	return out
}

// End returns the first error. Bytes that nothing has read are one.
func (d *Decoder) End() error {
	if d.Err == nil && len(d.Rest) > 0 {
		d.Fail("%d bytes follow the end", len(d.Rest))
	}
	return d.Err
}
