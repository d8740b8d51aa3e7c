package hotspot

import (
	"encoding/binary"

	"culprit/symbol/interp"
)

const (
	mostScopes      = 128     // methods that are inlined into one another
	mostInlined     = 16      // of them that are named: the outermost
	mostDescriptors = 1 << 24 // bytes of the PcDescs of a method
	mostScope       = 15      // bytes of what is read of a scope: three numbers
)

// A scope is a method in compiled code and the instruction that runs: the compiled one, or one that
// is inlined.
type scope struct{ method, bci uint64 }

// compiled returns the name of the innermost method at an offset in compiled code to which a call
// returns. HotSpot records there which methods are inlined. Where it has no such record, the method
// that was compiled stands alone.
func (r *Reader) compiled(blob, offset uint64) interp.Name {
	switch r.blob(blob) {
	case "[nmethod]", "[native nmethod]":
	default:
		return interp.Name{}
	}
	method, ok := r.pointer(blob + uint64(r.at[nmethodMethod]))
	if !ok {
		return interp.Name{}
	}
	var out *interp.Name
	all := r.scopes(blob, offset, method)
	all = all[max(0, len(all)-mostInlined):]
	for i := len(all) - 1; i >= 0; i-- {
		n := r.named(all[i].method, all[i].bci)
		if n.Function == "" {
			out = nil
			break
		}
		n.Caller = out
		out = &n
	}
	if again, ok := r.pointer(blob + uint64(r.at[nmethodMethod])); !ok || again != method {
		return interp.Name{} // it was replaced meanwhile
	}
	if out == nil {
		return r.named(method, interp.UnknownInstruction)
	}
	return *out
}

// scopes returns the methods at an offset in the code of a method, innermost first; nil: there is
// no record of exactly this offset. A scope begins with three numbers:
//
//	| offset of the scope around it, 0: none | number of its method | instruction + 1 |
func (r *Reader) scopes(blob, offset, method uint64) (out []scope) {
	at, data, list := r.records(blob, offset)
	if at == 0 {
		return nil
	}
	for range mostScopes {
		b := r.some(data+at, mostScope)
		outer, n := r.number(b)
		number, m := r.number(b[n:])
		bci, k := r.number(b[n+m:])
		if n == 0 || m == 0 || k == 0 || number == 0 {
			return nil
		}
		of, ok := r.pointer(list + 8*(uint64(number)-1))
		if !ok {
			return nil
		}
		one := scope{of, interp.UnknownInstruction}
		if bci > 0 && bci <= 1<<16 {
			one.bci = uint64(bci) - 1
		}
		out = append(out, one)
		if outer == 0 {
			break
		}
		if uint64(outer) >= at { // those around it are written before it
			return nil
		}
		at = uint64(outer)
	}
	if out[len(out)-1].method != method {
		return nil
	}
	return out
}

// records returns the offset of the scope at an offset in the code, and where the scopes and the
// list of methods begin; 0: there is no scope.
func (r *Reader) records(blob, offset uint64) (scope, scopes, list uint64) {
	if r.at[inlining] == 0 {
		return 0, 0, 0
	}
	from, ok1 := r.int(blob + uint64(r.at[descriptors]))
	to, ok2 := r.int(blob + uint64(r.at[afterThem]))
	base, ok := blob, true
	if r.at[immutable] != 0 {
		base, ok = r.pointer(blob + uint64(r.at[immutable]))
		scopes = base + to
	} else {
		scopes, ok = r.pointer(blob + uint64(r.at[scopeData]))
	}
	if !ok || !ok1 || !ok2 || from > to || to-from > mostDescriptors {
		return 0, 0, 0
	}
	if r.at[mutable] != 0 {
		list, ok1 = r.pointer(blob + uint64(r.at[mutable]))
		n, is := r.int(blob + uint64(r.at[relocations]))
		list, ok2 = list+n, is
	} else {
		n, is := r.int(blob + uint64(r.at[metadata]))
		list, ok1 = blob+n, is
	}
	if !ok1 || !ok2 {
		return 0, 0, 0
	}
	return r.find(base+from, to-from, offset), scopes, list
}

// find returns the offset of the scope in the PcDesc of an offset in the code; 0: there is none.
// PcDescs are sorted; the first one has the offset -1.
func (r *Reader) find(at, size, offset uint64) uint64 {
	each := uint64(r.at[descriptor])
	if each == 0 {
		return 0
	}
	low, high := uint64(0), size/each
	for low < high {
		middle := (low + high) / 2
		got, ok := r.int(at + middle*each + uint64(r.at[codeOffset]))
		switch got := int64(int32(uint32(got))); {
		case !ok:
			return 0
		case got == int64(offset):
			scope, _ := r.int(at + middle*each + uint64(r.at[scopeOffset]))
			return scope & (1<<31 - 1)
		case got < int64(offset):
			low = middle + 1
		default:
			high = middle
		}
	}
	return 0
}

// int reads 4 bytes.
func (r *Reader) int(at uint64) (n uint64, ok bool) {
	b, ok := r.read(at, 4)
	if !ok {
		return 0, false
	}
	return uint64(binary.LittleEndian.Uint32(b)), true
}

// some reads n bytes, or as many as there are, at least one; nil: there are none.
func (r *Reader) some(at uint64, n int) []byte {
	for ; n > 0; n /= 2 {
		if b, ok := r.read(at, n); ok {
			return b
		}
	}
	return nil
}
