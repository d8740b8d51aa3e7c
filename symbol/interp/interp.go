// Package interp is what interpreters have in common: how a frame of an interpreted function is a
// number in a stack of addresses, and what the package of a language exports. It opens nothing.
package interp

import (
	"encoding/binary"
	"io"
)

// A Language is one that programs are written in and an interpreter evaluates. The numbers are also
// those of package gen.
type Language uint32

// The languages.
const (
	Python Language = 1 + iota
	Ruby
	Perl
	Java
	PHP
	JavaScript
)

// String returns the name of the language.
func (l Language) String() string {
	switch l {
	case Python:
		return "Python"
	case Ruby:
		return "Ruby"
	case Perl:
		return "Perl"
	case Java:
		return "Java"
	case PHP:
		return "PHP"
	case JavaScript:
		return "JavaScript"
	}
	return "interpreter"
}

// A File is the file of an interpreter. What it returns is decided by the owner of the file.
type File interface {
	// Exported returns the address and the size of a symbol that the file exports. It is fast.
	Exported(name string) (addr, size uint64, ok bool)
	// Symbols returns the addresses and sizes of symbols that the file has, exported or not, in the
	// order of the names; 0, 0: the file has no such symbol. The address of a variable of threads
	// is its offset in their storage.
	Symbols(names ...string) [][2]uint64
	// Data returns n bytes of the file at an address.
	Data(addr uint64, n int) ([]byte, error)
	// Function returns the addresses of the function at an address, as the unwind table has it.
	Function(addr uint64) (from, to uint64, ok bool)
	// Relocations calls each with the relocations of the file in their order, until it returns
	// false.
	Relocations(each func(Relocation) bool)
	// ThreadStorage returns the size of the storage that the file has in each thread, rounded up to
	// its alignment, and whether the file is a program, whose storage ends where the pointer of the
	// thread points to.
	ThreadStorage() (size uint64, program bool)
	// Needs reports whether the file needs a library whose name begins with a text.
	Needs(prefix string) bool
	// Code returns the address and the size of the largest segment of code.
	Code() (addr, size uint64)
}

// A Relocation is what the dynamic linker writes to an address of a file.
type Relocation struct {
	Kind   uint32 // R_X86_64_RELATIVE ...
	Symbol uint32
	At     uint64
	Addend uint64
}

// A Layout describes the structs of an interpreter in a file.
type Layout interface {
	// Language returns the language of the interpreter.
	Language() Language
	// Why returns why no frames can be read; "": they can.
	Why() string
	// Numbers returns the layout as numbers, which the FromNumbers of the language reads.
	Numbers() []uint64
	// Kernel returns what a program needs to read frames.
	Kernel() Kernel
	// NewReader returns a Reader of the memory of a process with the interpreter.
	NewReader(mem io.ReaderAt) Reader
}

// A Kernel is a layout as programs use it. The addresses are those of the file.
type Kernel struct {
	// From and To are the function that evaluates code.
	From, To uint64
	// Around and AroundTo are the function that calls it and does nothing else; 0: none.
	Around, AroundTo uint64
	Head             uint64 // where the search for the current thread begins
	// Numbers are offsets in structs, in the order of package gen. The first one is 0 if no frames
	// can be read.
	Numbers [KernelNumbers]uint32
}

// KernelNumbers is how many numbers a Kernel has.
const KernelNumbers = 15

// A Reader reads names of frames out of the memory of a process. Numbers and lengths there are
// decided by the process. Not safe for concurrent use.
type Reader interface {
	// Name returns where a frame is.
	Name(Frame) Name
}

// A Frame is a frame whose name is read.
type Frame struct {
	Word Word
	// Method is the address of what the interpreter knows of the called method besides its code; 0:
	// not known.
	Method uint64
}

// A Word is a frame of an interpreter in a stack of addresses: the code object that runs, and which
// of its instructions. No address has its two highest bits, 01.
//
//	| 2 bits 01 | 18 bits instruction | 44 bits address of the code object / 8 |
//
// With the code object 0 it is no frame, and the instruction is a Why.
type Word uint64

// Bits of a Word.
const (
	codeBits        = 44
	instructionBits = 18
	// UnknownInstruction is the instruction of a frame of which only the code object is known.
	UnknownInstruction = 1<<instructionBits - 1
	// InCode is the least instruction that is an offset in compiled code, plus InCode. Functions
	// may be inlined there.
	InCode = 1 << (instructionBits - 1)
)

// NewWord returns the word of a frame.
func NewWord(code, instruction uint64) Word {
	return Word(1<<62 | min(instruction, UnknownInstruction)<<codeBits | code>>3&(1<<codeBits-1))
}

// IsWord reports whether a number in a stack of addresses is a Word.
func IsWord(pc uint64) bool { return pc>>62 == 1 }

// Code returns the address of the code object; 0: the word is a Why.
func (w Word) Code() uint64 { return uint64(w) & (1<<codeBits - 1) << 3 }

// Instruction returns which instruction runs.
func (w Word) Instruction() uint64 { return uint64(w) >> codeBits & UnknownInstruction }

// A Why is why a stack has no frames of an interpreter from here on.
type Why uint64

// The reasons.
const (
	WhyNoTable    Why = 1 + iota // see Layout.Why
	WhyNoThread                  // the interpreter does not have the thread
	WhyThreads                   // it has too many threads to find it
	WhyUnreadable                // a page with a frame is not in memory, or the heap is invalid
	WhyRegexp                    // the frame is one of a regular expression, which has no name
)

// Why returns the reason of a word without a code object.
func (w Word) Why() Why { return Why(w.Instruction()) }

// A Name is where a frame is. Function "": it cannot be read.
type Name struct {
	Function string // qualified if it can be
	File     string // as the program was given it
	First    int    // line on which the function begins
	Line     int    // line of the instruction; 0: unknown
	Caller   *Name  // the function into which this one is inlined; nil: it is not inlined
}

// MostAddress is above every address of a process.
const MostAddress = 1 << 47

// Text returns numbers of a layout as bytes.
func Text(numbers []uint64) []byte {
	var b []byte
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

// NumbersOf returns the numbers that Text has made bytes of; nil: there are not at most most.
func NumbersOf(text []byte, most int) []uint64 {
	if len(text) == 0 || len(text)%8 != 0 || len(text) > 8*most {
		return nil
	}
	var out []uint64
	for at := 0; at < len(text); at += 8 {
		out = append(out, binary.LittleEndian.Uint64(text[at:]))
	}
	return out
}
