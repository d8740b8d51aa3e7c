// Package python knows the structs of CPython: where an interpreter has its threads, how a thread
// links its frames, and how a code object has its name, file and lines. It parses bytes of files
// and memory that others have written, and opens nothing.
package python

import (
	"fmt"

	"culprit/symbol/interp"
)

// A Layout describes the structs of one build of CPython. All offsets are in bytes from the start
// of a struct. It is a property of the file of the interpreter.
type Layout struct {
	Version Version
	Links   Links
	// From and To are the addresses in the file of the function that evaluates byte code.
	From, To uint64
	// Head is the address in the file of the pointer to the first interpreter; 0 with NoTable.
	Head    uint64
	Threads ThreadOffsets
	Frames  FrameOffsets
	Code    CodeOffsets
}

// A Version is the version of CPython: the major number << 8, and the minor one. 0: not known.
type Version uint32

// String returns the version as in 3.11.
func (v Version) String() string { return fmt.Sprintf("%d.%d", v>>8, v&0xff) }

// Links are how the frames of a thread belong to calls of the evaluator.
type Links uint32

// The ways of linking frames.
const (
	NoTable Links = iota // the structs of the version are not known
	Objects              // up to 3.10: frame objects; each is of one call
	Entries              // 3.11: the last frame of a call has is_entry
	Shims                // from 3.12 on: behind the last frame of a call is a frame without code
	endLinks
)

// Language implements interp.Layout.
func (l *Layout) Language() interp.Language { return interp.Python }

// Why implements interp.Layout.
func (l *Layout) Why() string {
	switch {
	case l.Links != NoTable:
		return ""
	case l.Version == 0:
		return "version not known"
	}
	return "no table for " + l.Version.String()
}

// ThreadOffsets are members of PyInterpreterState and PyThreadState.
type ThreadOffsets struct {
	NextInterpreter uint32
	First           uint32 // of an interpreter
	Next            uint32
	ID              uint32 // what pthread_self() returns
	Frame           uint32 // the current frame, or the struct that has it
	// InFrame is where the struct at Frame has the current frame; NoStruct: Frame is the frame.
	InFrame uint32
}

// NoStruct is the value of ThreadOffsets.InFrame from 3.13 on, and up to 3.10.
const NoStruct = 1<<32 - 1

// FrameOffsets are members of a frame.
type FrameOffsets struct {
	Code, Back  uint32
	Instruction uint32 // a pointer, with Objects an int
	Owner       uint32 // a byte: with Entries is_entry, with Shims the owner
	Shift       uint32 // with Objects: 1 if Instruction counts bytes, 0 if it counts instructions
}

// CodeOffsets are members of PyCodeObject and of the objects that it points to.
type CodeOffsets struct {
	Name      uint32 // the qualified name from 3.11 on
	File      uint32
	FirstLine uint32
	Lines     uint32
	Start     uint32 // of the instructions; 0 with Objects
	// ASCII and Other are the sizes of the structs before the characters of a str, with and without
	// ASCII characters alone.
	ASCII, Other uint32
}

// layoutNumbers is how many numbers a Layout has.
const layoutNumbers = 5 + 6 + 5 + 7

// Numbers implements interp.Layout.
func (l *Layout) Numbers() []uint64 {
	out := []uint64{uint64(l.Version), uint64(l.Links), l.From, l.To, l.Head}
	for _, p := range l.offsets() {
		out = append(out, uint64(*p))
	}
	return out
}

func (l *Layout) offsets() []*uint32 {
	t, f, c := &l.Threads, &l.Frames, &l.Code
	return []*uint32{&t.NextInterpreter, &t.First, &t.Next, &t.ID, &t.Frame, &t.InFrame, &f.Code,
		&f.Back, &f.Instruction, &f.Owner, &f.Shift, &c.Name, &c.File, &c.FirstLine, &c.Lines,
		&c.Start, &c.ASCII, &c.Other}
}

// mostOffset is above every offset in a struct of CPython.
const mostOffset = 1 << 20

// FromNumbers returns the layout that Numbers has returned; nil: a number is out of range.
func FromNumbers(numbers []uint64) interp.Layout {
	if l := fromNumbers(numbers); l != nil {
		return l
	}
	return nil
}

func fromNumbers(numbers []uint64) *Layout {
	if len(numbers) != layoutNumbers {
		return nil
	}
	l := &Layout{From: numbers[2], To: numbers[3], Head: numbers[4]}
	if numbers[0] > 0xffff || numbers[1] >= uint64(endLinks) || l.From >= l.To ||
		l.To > interp.MostAddress || l.Head > interp.MostAddress {
		return nil
	}
	l.Version, l.Links = Version(numbers[0]), Links(numbers[1])
	for i, p := range l.offsets() {
		n := numbers[5+i]
		if n >= mostOffset && (p != &l.Threads.InFrame || n != NoStruct) {
			return nil
		}
		*p = uint32(n)
	}
	if l.Frames.Shift > 1 || !l.Code.inObject() {
		return nil
	}
	return l
}

// Kernel implements interp.Layout.
func (l *Layout) Kernel() interp.Kernel {
	t, f := &l.Threads, &l.Frames
	return interp.Kernel{From: l.From, To: l.To, Head: l.Head,
		Numbers: [interp.KernelNumbers]uint32{uint32(l.Links), t.NextInterpreter, t.First, t.Next,
			t.ID, t.Frame, t.InFrame, f.Code, f.Back, f.Instruction, f.Owner, f.Shift,
			l.Code.Start}}
}

// inObject reports whether all members lie in what is read of a code object and of a str.
func (c *CodeOffsets) inObject() bool {
	return max(c.Name, c.File, c.FirstLine, c.Lines)+8 <= codeBytes &&
		max(c.ASCII, c.Other) <= codeBytes
}
