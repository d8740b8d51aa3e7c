package perl

import (
	"encoding/binary"
	"slices"

	"culprit/symbol/interp"
)

// Find returns the layout of the interpreter in a file; nil: there is none. The program and the
// library of Perl export their functions and variables, for the modules written in C.
func Find(f interp.File, _ string) interp.Layout {
	if l := find(f); l != nil {
		return l
	}
	return nil
}

// mostRunops is above the size of Perl_runops_standard().
const mostRunops = 1 << 16

func find(f interp.File) *Layout {
	at, size, ok := f.Exported("Perl_runops_standard")
	if !ok || size == 0 || size > mostRunops || at > interp.MostAddress-size {
		return nil
	}
	l := &Layout{From: at, To: at + size}
	l.Version, ok = versionOf(f)
	if !ok {
		return nil
	}
	if _, known := versions[l.Version]; known && !l.thread(f) && !l.globals(f) {
		l.Way = NoWay
	}
	return l
}

// versionOf returns the version of Perl in a file; !ok: it is not Perl 5.
func versionOf(f interp.File) (v Version, ok bool) {
	revision, ok := number(f, "PL_revision")
	if !ok {
		return 0, true
	}
	minor, ok := number(f, "PL_version")
	return Version(minor), ok && revision == 5
}

// number returns the value of a variable of one byte.
func number(f interp.File, name string) (n byte, ok bool) {
	at, size, ok := f.Exported(name)
	if !ok || size != 1 {
		return 0, false
	}
	b, err := f.Data(at, 1)
	if err != nil {
		return 0, false
	}
	return b[0], true
}

// thread finds how a thread finds its interpreter; false: Perl was built without threads, or it is
// not known.
func (l *Layout) thread(f interp.File) bool {
	key, _, ok := f.Exported("PL_thr_key")
	if !ok || key > interp.MostAddress {
		return false
	}
	info, ok := contextsOf(f)
	if !ok {
		return false
	}
	l.Way, l.Head = Key, key
	if f.Needs("libc.musl-") {
		l.Way = MuslKey
	}
	// intrpvar.h: the operation is the second member; the statement and the stack of values are
	// before the stack of contexts
	const op, between = 8, 16
	l.Op, l.COP, l.Info = op, info-between, info
	return true
}

// contextsOf returns the offset of the stack of contexts in an interpreter, which differs by how
// Perl was built. Perl_block_gimme() begins with the read of it:
//
//	48 8b MODRM OFFSET         mov OFFSET(%rdi),REGISTER
func contextsOf(f interp.File) (offset uint32, ok bool) {
	const head, most, least = 32, 4096, 64
	at, size, ok := f.Exported("Perl_block_gimme")
	if !ok || size < head {
		return 0, false
	}
	b, err := f.Data(at, head)
	if err != nil {
		return 0, false
	}
	const length, operands, rdi = 7, 0xc7, 0x87 // a member of rdi with an offset of four bytes
	for i := 0; i+length <= len(b); i++ {
		if b[i] != 0x48 || b[i+1] != 0x8b || b[i+2]&operands != rdi {
			continue
		}
		offset = binary.LittleEndian.Uint32(b[i+3:])
		return offset, offset >= least && offset <= most && offset%8 == 0
	}
	return 0, false
}

// globals finds the members of the interpreter that are variables; false: they are not.
func (l *Layout) globals(f interp.File) bool {
	if _, _, threads := f.Exported("PL_thr_key"); threads {
		return false
	}
	var at [3]uint64
	for i, name := range [...]string{"PL_op", "PL_curcop", "PL_curstackinfo"} {
		var ok bool
		if at[i], _, ok = f.Exported(name); !ok || at[i] > interp.MostAddress {
			return false
		}
	}
	head := slices.Min(at[:])
	if slices.Max(at[:])-head > mostOffset {
		return false
	}
	l.Way, l.Head = Globals, head
	l.Op, l.COP, l.Info = uint32(at[0]-head), uint32(at[1]-head), uint32(at[2]-head)
	return true
}
