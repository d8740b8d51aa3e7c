// Package hotspot knows the structs of HotSpot, the virtual machine of Java: where it keeps
// compiled code, and how methods have their names, files and lines. HotSpot describes its structs
// in tables that it exports. The package parses bytes of files and memory that others have written,
// and opens nothing.
package hotspot

import (
	"io"

	"culprit/symbol/interp"
)

// A slot is a number of a Layout.
type slot int

// The slots. Those up to stubsLimit are also those of package gen, in its order. A shift is by how
// many bits a number of 8 bytes is shifted left and right to get a smaller one.
const (
	ready         slot = iota // 1: frames can be read
	vectorLength              // of GrowableArray
	vectorData                //
	heapLow                   // of CodeHeap: where its code begins
	heapHigh                  //
	segmapLow                 // the map of its segments
	segmentShift              // log2 of the size of a segment
	blockSize                 // size of HeapBlock, which precedes a CodeBlob
	blockUsed                 // of HeapBlock: whether it has a CodeBlob
	blobName                  // of CodeBlob
	blobFrame                 // size of its frame in words
	blobComplete              // how far from its begin the code has made its frame
	completeShift             //
	blobCode                  // where its code begins: an address, or an offset from the CodeBlob
	codeShift                 // 0: it is an address
	nmethodMethod             // of nmethod: its Method
	verifiedEntry             // where code begins that has checked the receiver's class
	verifiedShift             // 0: it is an address; else an offset from the code
	methodConst               // of Method: its ConstMethod
	constSize                 // size of ConstMethod, which precedes the bytecode
	headerSize                // of CodeBlob: the size of its struct
	headerShift               //
	nmethodSize               // size of nmethod
	stubsBuffer               // of StubQueue: where the interpreter begins
	stubsLimit                // of StubQueue: its size

	constPool   // of ConstMethod
	constName   // the number of its name in the pool
	constCode   // bytes of the bytecode
	constFlags  //
	poolHolder  // of ConstantPool: the class
	poolSize    // of ConstantPool, which precedes its entries
	klassName   // of Klass
	symbolSize  // of Symbol: bytes of its text
	symbolText  //
	sourceName  // the number of the name of the file in the pool
	sourceOwner // 1: it is in ConstantPool, else in InstanceKlass
	release     // of Java, such as 17

	inlining    // 1: the slots below are known
	immutable   // of nmethod: the address of data that does not change; 0: it has them itself
	descriptors // of nmethod: where in its data its PcDescs begin
	afterThem   // and end
	scopeData   // of nmethod: the address of scopes; 0: they follow the PcDescs
	metadata    // of nmethod: where its list of methods begins; 0: see mutable
	mutable     // of CodeBlob: the address of data that changes
	relocations // of CodeBlob: how many bytes precede the list of methods there
	descriptor  // size of PcDesc
	codeOffset  // of PcDesc: the offset in the code
	scopeOffset // of PcDesc: the offset of the scope
	slots
)

// kernelSlots is how many slots a program needs.
const kernelSlots = int(stubsLimit) + 1

// A Layout describes HotSpot in a file.
type Layout struct {
	// Heaps and Interpreter are addresses in the file: of the pointers to the list of heaps with
	// code, and to the code of the interpreter.
	Heaps, Interpreter uint64
	At                 [slots]uint16 // mostly offsets in structs
}

// Language implements interp.Layout.
func (l *Layout) Language() interp.Language { return interp.Java }

// Why implements interp.Layout.
func (l *Layout) Why() string {
	if l.At[ready] == 0 {
		return "libjvm.so does not describe its structs as Java 11 to 25 do"
	}
	return ""
}

// Numbers implements interp.Layout.
func (l *Layout) Numbers() []uint64 {
	out := []uint64{l.Heaps, l.Interpreter}
	for _, n := range l.At {
		out = append(out, uint64(n))
	}
	return out
}

// FromNumbers returns the layout that Numbers has returned; nil: a number is out of range.
func FromNumbers(n []uint64) interp.Layout {
	if l := fromNumbers(n); l != nil {
		return l
	}
	return nil
}

func fromNumbers(n []uint64) *Layout {
	if len(n) != 2+int(slots) || n[0] > interp.MostAddress || n[1] > interp.MostAddress {
		return nil
	}
	l := &Layout{Heaps: n[0], Interpreter: n[1]}
	for i, one := range n[2:] {
		if one > 1<<16-1 {
			return nil
		}
		l.At[i] = uint16(one)
	}
	return l
}

// Kernel implements interp.Layout. Two slots share a number. From is where the pointer to the code
// of the interpreter is.
func (l *Layout) Kernel() interp.Kernel {
	k := interp.Kernel{Head: l.Heaps, From: l.Interpreter, To: l.Interpreter}
	if l.Why() != "" {
		return k
	}
	for i, n := range l.At[:kernelSlots] {
		k.Numbers[i/2] |= uint32(n) << (16 * (i % 2))
	}
	return k
}

// NewReader implements interp.Layout.
func (l *Layout) NewReader(mem io.ReaderAt) interp.Reader {
	return &Reader{mem: mem, at: &l.At, methods: map[uint64]*method{},
		texts: map[uint64]string{}, left: mostBytes}
}
