// Package ruby knows the structs of Ruby (MRI): where a thread has its frames, and how code has its
// name, file and lines, and methods their classes. It parses bytes of files and memory that others
// have written, and opens nothing.
package ruby

import (
	"fmt"

	"culprit/symbol/interp"
)

// A Layout describes an interpreter in a file. The offsets in structs are those of its version.
type Layout struct {
	Version Version
	Way     Way
	// From and To are the addresses in the file of the function that evaluates instructions:
	// vm_exec_core(). Around and AroundTo are vm_exec(), which calls it; 0: it is not known.
	From, To         uint64
	Around, AroundTo uint64
	// Head is the address in the file of what Way needs.
	Head uint64
	// Storage is where the storage of a thread has its execution context, and Step the size of an
	// entry of the table of storages.
	Storage, Step uint32
}

// A Version is the version of Ruby: the major number << 8, and the minor one.
type Version uint32

// String returns the version as in 3.4.
func (v Version) String() string { return fmt.Sprintf("%d.%d", v>>8, v&0xff) }

// A Way is how a program finds the execution context of a thread, as in package gen.
type Way uint32

// The ways.
const (
	NoWay  Way = iota // there is no table, or the file lacks the variables
	Fixed             // in the storage of the program: Storage before what pthread_self() returns
	Module            // in that of a library, whose number is at Head
	List              // in the list of threads of the virtual machine, whose pointer is at Head
	endWays
)

// offsets are members of structs that differ by version, on x86-64.
type offsets struct {
	Frame uint32 // size of rb_control_frame_t
	// of a thread of 2.7: the list of rb_vm_t, the node, pthread_self(), the execution context
	Threads, Node, ID, Context uint32
	// of rb_iseq_constant_body
	Lines, Local uint32
	Line         uint32 // size of an entry of a table of lines
	PlainLine    bool   // the first line is an int; else it is a Fixnum
	LongString   bool   // the length of a string is always before its characters
	Classes      classes
	Singleton    uint64 // the flag of singleton classes
}

// classes is how a class has its name.
type classes uint32

const (
	noClasses      classes = iota
	classVariables         // in its table of instance variables
	classMembers           // in members
)

// table: never changed
var versions = map[Version]offsets{
	0x207: {Frame: 56, Threads: 312, Node: 0, ID: 72, Context: 32, Lines: 120,
		Local: 176, Line: 8, Classes: classVariables, Singleton: userFlag},
	0x300: {Frame: 56, Lines: 120, Local: 176, Line: 8, Classes: classVariables,
		Singleton: userFlag},
	0x301: {Frame: 64, Lines: 120, Local: 176, Line: 12, Classes: classVariables,
		Singleton: userFlag},
	0x302: {Frame: 64, Lines: 112, Local: 168, Line: 12, PlainLine: true,
		LongString: true, Singleton: userFlag},
	0x303: {Frame: 56, Lines: 112, Local: 168, Line: 12, PlainLine: true,
		LongString: true, Classes: classMembers, Singleton: userFlag},
	0x304: {Frame: 56, Lines: 112, Local: 168, Line: 12, PlainLine: true,
		LongString: true, Classes: classMembers, Singleton: userFlag << 1},
}

// userFlag is FL_USER0 of objects; the others follow.
const userFlag = 1 << 12

// Language implements interp.Layout.
func (l *Layout) Language() interp.Language { return interp.Ruby }

// Why implements interp.Layout.
func (l *Layout) Why() string {
	if _, known := versions[l.Version]; !known {
		return "no table for " + l.Version.String()
	}
	if l.Way == NoWay {
		return "the file does not show where threads are"
	}
	return ""
}

// Numbers implements interp.Layout.
func (l *Layout) Numbers() []uint64 {
	return []uint64{uint64(l.Version), uint64(l.Way), l.From, l.To, l.Around, l.AroundTo, l.Head,
		uint64(l.Storage), uint64(l.Step)}
}

// mostStorage is above the size of the storage that a file has in each thread.
const mostStorage = 1 << 20

// FromNumbers returns the layout that Numbers has returned; nil: a number is out of range.
func FromNumbers(n []uint64) interp.Layout {
	if l := fromNumbers(n); l != nil {
		return l
	}
	return nil
}

func fromNumbers(n []uint64) *Layout {
	const numbers = 9
	if len(n) != numbers || n[0] > 0xffff || n[1] >= uint64(endWays) || n[2] >= n[3] ||
		n[3] > interp.MostAddress || n[4] > n[5] || n[5] > interp.MostAddress ||
		n[6] > interp.MostAddress || n[7] > mostStorage || n[8] > 16 {
		return nil
	}
	return &Layout{Version: Version(n[0]), Way: Way(n[1]), From: n[2], To: n[3], Around: n[4],
		AroundTo: n[5], Head: n[6], Storage: uint32(n[7]), Step: uint32(n[8])}
}

// Kernel implements interp.Layout.
func (l *Layout) Kernel() interp.Kernel {
	o := versions[l.Version]
	way := l.Way
	if l.Why() != "" {
		way = NoWay
	}
	return interp.Kernel{From: l.From, To: l.To, Around: l.Around, AroundTo: l.AroundTo,
		Head: l.Head, Numbers: [interp.KernelNumbers]uint32{uint32(way), l.Storage, l.Step, o.Frame,
			o.Threads, o.Node, o.ID, o.Context}}
}
