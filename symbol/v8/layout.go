// Package v8 knows the heap of V8, the virtual machine of JavaScript in Node.js: how functions have
// their names, scripts and lines. Node.js exports constants about it for debuggers (v8dbg_*). The
// package parses bytes of files and memory that others have written, and opens nothing.
package v8

import (
	"io"

	"culprit/symbol/interp"
)

// A slot is a number of a Layout.
type slot int

// The slots: offsets in objects, and instance types of objects.
const (
	ready         slot = iota // 1: frames can be read
	functionShare             // of JSFunction: its SharedFunctionInfo
	bytecodeData              // of BytecodeArray: where the bytecode begins
	regexpMarker              // what frames of regular expressions have for a context; 0: not known

	instanceType  // of Map
	shareName     // of SharedFunctionInfo: its name or its ScopeInfo
	shareScript   // of SharedFunctionInfo: its Script, or what has it
	shareData     // of SharedFunctionInfo: its BytecodeArray, or what has it
	scriptSource  // of Script
	scriptName    // of Script
	scriptEnds    // of Script: where its lines end
	stringLength  // of String
	oneByteChars  // of SeqOneByteString
	twoByteChars  // of SeqTwoByteString
	consFirst     // of ConsString
	consSecond    // of ConsString
	slicedParent  // of SlicedString
	slicedOffset  // of SlicedString
	thinActual    // of ThinString
	externalData  // of ExternalString: the address of its bytes
	arrayLength   // of FixedArray
	arrayData     // of FixedArray
	localCount    // of ScopeInfo: the number of its word with the number of its variables
	localFirst    // of ScopeInfo: the number of its word with the first variable
	codeBytecode  // of Code: the BytecodeArray it was compiled from
	positions     // of BytecodeArray: the table of positions in the source
	typeShare     // instance types
	typeScope     //
	typeScript    //
	typeBytecode  //
	typeCode      //
	typeArray     // of FixedArray
	typePositions // of a table of positions
	slots
)

// A Layout describes V8 in a file.
type Layout struct {
	// Entry and EntryEnd are the code in which interpreted functions run, Handlers and HandlersEnd
	// the code for instructions that it jumps to.
	Entry, EntryEnd       uint64
	Handlers, HandlersEnd uint64
	At                    [slots]uint16
}

// Language implements interp.Layout.
func (l *Layout) Language() interp.Language { return interp.JavaScript }

// Why implements interp.Layout.
func (l *Layout) Why() string {
	if l.At[ready] == 0 {
		return "the file does not describe V8 as Node.js 18 to 24 do"
	}
	return ""
}

// Numbers implements interp.Layout.
func (l *Layout) Numbers() []uint64 {
	out := []uint64{l.Entry, l.EntryEnd, l.Handlers, l.HandlersEnd}
	for _, n := range l.At {
		out = append(out, uint64(n))
	}
	return out
}

// addresses is how many numbers of a Layout are addresses.
const addresses = 4

// FromNumbers returns the layout that Numbers has returned; nil: a number is out of range.
func FromNumbers(n []uint64) interp.Layout {
	if l := fromNumbers(n); l != nil {
		return l
	}
	return nil
}

func fromNumbers(n []uint64) *Layout {
	if len(n) != addresses+int(slots) || n[0] > n[1] || n[2] > n[3] || n[1] > interp.MostAddress ||
		n[3] > interp.MostAddress {
		return nil
	}
	l := &Layout{Entry: n[0], EntryEnd: n[1], Handlers: n[2], HandlersEnd: n[3]}
	for i, one := range n[addresses:] {
		if one > 1<<16-1 {
			return nil
		}
		l.At[i] = uint16(one)
	}
	return l
}

// Kernel implements interp.Layout.
func (l *Layout) Kernel() interp.Kernel {
	k := interp.Kernel{From: l.Entry, To: l.EntryEnd, Around: l.Handlers, AroundTo: l.HandlersEnd}
	for i := range k.Numbers[:regexpMarker+1] {
		k.Numbers[i] = uint32(l.At[i])
	}
	return k
}

// NewReader implements interp.Layout.
func (l *Layout) NewReader(mem io.ReaderAt) interp.Reader {
	return &Reader{mem: mem, at: &l.At, functions: map[uint64]*function{},
		scripts: map[uint64]*script{}, left: mostBytes, lines: mostLines}
}
