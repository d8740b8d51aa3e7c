// Package perl knows the structs of Perl: where a thread has its frames, and where subs have their
// names and files. It parses bytes of files and memory that others have written, and opens nothing.
package perl

import (
	"fmt"

	"culprit/symbol/interp"
)

// A Layout describes an interpreter in a file. The offsets in structs are those of its version.
type Layout struct {
	Version Version
	Way     Way
	// From and To are the addresses in the file of the function that runs operations:
	// Perl_runops_standard().
	From, To uint64
	// Head is the address in the file of the key of interpreters, or of the first of their members
	// that are variables.
	Head uint64
	// Op, COP and Info are the offsets of members of an interpreter: the operation and the
	// statement that run, and the stack of contexts.
	Op, COP, Info uint32
}

// A Version is the second number of a version of Perl 5: 36. 0: it is before 5.16.
type Version uint32

// String returns the version as in 5.36.
func (v Version) String() string {
	if v == 0 {
		return "versions before 5.16"
	}
	return fmt.Sprintf("5.%d", uint32(v))
}

// A Way is how a program finds the interpreter of a thread, as in package gen.
type Way uint32

// The ways.
const (
	NoWay   Way = iota // there is no table, or the file lacks the variables
	Key                // by the key at Head, in a thread of glibc
	MuslKey            // in a thread of musl
	Globals            // Perl was built without threads: its members are variables
	endWays
)

// slots are where a thread has its values by key: struct pthread, specific_1stblock[0].data in
// glibc on x86-64, and tsd in musl.
//
// table: never changed
var slots = map[Way]uint32{Key: 784 + 8, MuslKey: 128}

// offsets are members of structs that differ by version, on x86-64.
type offsets struct {
	Context    uint32 // size of a context
	Sub, Eval  uint32 // of it: the code of a sub, and of an eval
	Type       uint32 // of a stack of contexts: why it was begun
	Top        bool   // it has the index of its last complete sub
	NameInBody bool   // the body of a stash has its name; else it is behind its buckets
}

// table: never changed
var versions = map[Version]offsets{
	28: {Context: 96, Sub: 64, Eval: 80, Type: 40},
	30: {Context: 96, Sub: 64, Eval: 80, Type: 40},
	32: {Context: 104, Sub: 72, Eval: 88, Type: 44, Top: true},
	34: {Context: 104, Sub: 72, Eval: 88, Type: 44, Top: true},
	36: {Context: 104, Sub: 72, Eval: 88, Type: 44, Top: true, NameInBody: true},
	38: {Context: 104, Sub: 72, Eval: 88, Type: 44, Top: true, NameInBody: true},
	40: {Context: 104, Sub: 72, Eval: 88, Type: 44, Top: true, NameInBody: true},
}

// Language implements interp.Layout.
func (l *Layout) Language() interp.Language { return interp.Perl }

// Why implements interp.Layout.
func (l *Layout) Why() string {
	if _, known := versions[l.Version]; !known {
		return "no table for " + l.Version.String()
	}
	if l.Way == NoWay {
		return "the file does not show where interpreters are"
	}
	return ""
}

// Numbers implements interp.Layout.
func (l *Layout) Numbers() []uint64 {
	return []uint64{uint64(l.Version), uint64(l.Way), l.From, l.To, l.Head, uint64(l.Op),
		uint64(l.COP), uint64(l.Info)}
}

// mostOffset is above the offset of a member of an interpreter. Variables of Perl may be as far
// from each other.
const mostOffset = 1 << 20

// FromNumbers returns the layout that Numbers has returned; nil: a number is out of range.
func FromNumbers(n []uint64) interp.Layout {
	if l := fromNumbers(n); l != nil {
		return l
	}
	return nil
}

func fromNumbers(n []uint64) *Layout {
	const numbers = 8
	if len(n) != numbers || n[0] > 0xff || n[1] >= uint64(endWays) || n[2] >= n[3] ||
		n[3] > interp.MostAddress || n[4] > interp.MostAddress || n[5] > mostOffset ||
		n[6] > mostOffset || n[7] > mostOffset {
		return nil
	}
	return &Layout{Version: Version(n[0]), Way: Way(n[1]), From: n[2], To: n[3], Head: n[4],
		Op: uint32(n[5]), COP: uint32(n[6]), Info: uint32(n[7])}
}

// Kernel implements interp.Layout.
func (l *Layout) Kernel() interp.Kernel {
	o := versions[l.Version]
	way, top := l.Way, uint32(0)
	if l.Why() != "" {
		way = NoWay
	}
	if o.Top {
		top = 1
	}
	return interp.Kernel{From: l.From, To: l.To, Head: l.Head,
		Numbers: [interp.KernelNumbers]uint32{uint32(way), slots[way], l.Op, l.COP, l.Info, o.Type,
			top, o.Context, o.Sub, o.Eval}}
}
