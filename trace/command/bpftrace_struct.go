package command

import (
	"bytes"
	"encoding/binary"

	"culprit/lang/bpftrace"
	"culprit/lang/check"
)

// ofType returns the bytes of a struct, an array or a member as a value of a type. Bytes that are
// missing are 0.
func ofType(t check.Type, b []byte) bpftrace.Value {
	switch t := t.(type) {
	case *check.Struct:
		v := bpftrace.Value{Names: []string{}, Parts: []bpftrace.Value{}}
		for _, f := range t.Fields() {
			v.Names = append(v.Names, f.Name)
			v.Parts = append(v.Parts, ofType(f.Type, from(b, f.Offset)))
		}
		return v
	case *check.Array:
		n := max(0, t.Len)
		if i, ok := t.Elem.(*check.Int); ok && i.Name == "char" {
			text, _, _ := bytes.Cut(b[:min(int64(len(b)), n)], []byte{0})
			return bpftrace.TextOf(string(text))
		}
		v := bpftrace.Value{List: true, Parts: []bpftrace.Value{}}
		for i := range n {
			v.Parts = append(v.Parts, ofType(t.Elem, from(b, i*t.Elem.Size())))
		}
		return v
	case *check.Pointer:
		return bpftrace.Value{Number: int64(word(b, 8)), Unsigned: true}
	case *check.Int:
		return integerOf(t, b)
	}
	v := bpftrace.Value{List: true, Parts: []bpftrace.Value{}}
	for _, c := range b {
		v.Parts = append(v.Parts, bpftrace.Value{Number: int64(c)})
	}
	return v
}

// integerOf returns an integer, or a bit field, in the first bytes.
func integerOf(t *check.Int, b []byte) bpftrace.Value {
	bits, n := 8*int64(t.Bytes), word(b, int64(t.Bytes))
	if t.Bits > 0 {
		bits, n = int64(t.Bits), n>>t.Shift
	}
	n <<= 64 - bits
	if t.Signed {
		return bpftrace.Value{Number: int64(n) >> (64 - bits)}
	}
	return bpftrace.Value{Number: int64(n >> (64 - bits)), Unsigned: true}
}

// from returns the bytes from an offset on.
func from(b []byte, offset int64) []byte { return b[min(int64(len(b)), max(0, offset)):] }

// word returns the integer in the first n bytes.
func word(b []byte, n int64) uint64 {
	var all [8]byte
	copy(all[:min(8, n)], b)
	return binary.NativeEndian.Uint64(all[:])
}
