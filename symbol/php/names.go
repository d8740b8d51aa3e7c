package php

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"

	"culprit/symbol/interp"
)

const (
	mostText  = 512     // bytes of the name of a function, or of a class
	mostPath  = 1024    // bytes of a file name
	mostLine  = 1 << 28 // above it there is no line
	mostBytes = 4 << 20 // of all texts that a Reader reads
)

// Types of functions.
const (
	typeUser = 2
	typeEval = 4
)

// What a function without a name is, in the lowest bits of the method of its frame, as in package
// gen. The others are the address of its file name. They are 0 in that of a function with a name.
const (
	kindMask   = 7
	isMain     = 1
	isIncluded = 2
	isEval     = 3
)

// A Reader is an interp.Reader.
type Reader struct {
	mem    io.ReaderAt
	of     offsets
	left   int // bytes of texts that are still read
	buffer []byte
}

// NewReader implements interp.Layout. There is a table.
func (l *Layout) NewReader(mem io.ReaderAt) interp.Reader {
	return &Reader{mem: mem, of: versions[l.Version], left: mostBytes}
}

// Name implements interp.Reader. The instruction of a frame is the line: the program has read it.
func (r *Reader) Name(f interp.Frame) interp.Name {
	var out interp.Name
	if kind := f.Method & kindMask; kind != 0 {
		out = r.unnamed(kind, f.Method&^kindMask, f.Word.Code())
	} else {
		out = r.function(f.Word.Code(), f.Method)
	}
	if at := f.Word.Instruction(); at != interp.UnknownInstruction && out.Function != "" {
		out.Line = int(at)
	}
	return out
}

// unnamed returns the name of code without one, which PHP frees when it returns. A file that
// another one includes has the hash of its name as code: another text may be at its address.
func (r *Reader) unnamed(kind, file, code uint64) interp.Name {
	switch kind {
	case isMain:
		if text, ok := r.text(file, mostPath); ok && file == code {
			return interp.Name{Function: "{main}", File: text}
		}
	case isIncluded:
		if code == noHash {
			return interp.Name{Function: "include"}
		}
		if text, ok := r.text(file, mostPath); ok && hash(text)&hashMask == code {
			return interp.Name{Function: "include", File: text}
		}
	case isEval:
		return interp.Name{Function: "eval", File: "eval()'d code"}
	}
	return interp.Name{}
}

// noHash is the code of an included file of whose name there is no hash, as in package gen.
const noHash = 16

// hashMask is the part of a hash that the code of a frame has.
const hashMask = (interp.MostAddress - 1) &^ 7

// hash returns the hash that PHP calculates of a text (zend_inline_hash_func).
func hash(text string) uint64 {
	h := uint64(5381)
	for i := range len(text) {
		h = h*33 + uint64(text[i])
	}
	return h | 1<<63
}

// function reads a function with a name at an address: a struct zend_op_array. PHP frees copies of
// closures, and others may have their memory: a function with other operations is refused. It is
// read again at the end.
//
//	| u8 type | u24 | u32 flags | u64 name | u64 class |
func (r *Reader) function(code, at uint64) interp.Name {
	const nameAt, classAt = 8, 16
	size := int(r.of.Line) + 4
	m, ok := r.read(at, size)
	if !ok || m[0] != typeUser && m[0] != typeEval || word(m, int(r.of.Opcodes)) != code {
		return interp.Name{}
	}
	before := string(m)
	name, class := word(m, nameAt), word(m, classAt)
	file, line := word(m, int(r.of.File)), binary.LittleEndian.Uint32(m[r.of.Line:])
	if line > mostLine {
		return interp.Name{}
	}
	out := interp.Name{First: int(line)}
	if out.Function, ok = r.text(name, mostText); !ok || out.Function == "" {
		return interp.Name{}
	}
	if class != 0 {
		const nameAt = 8
		m, ok := r.read(class, nameAt+8)
		if !ok {
			return interp.Name{}
		}
		of, ok := r.text(word(m, nameAt), mostText)
		if !ok || of == "" {
			return interp.Name{}
		}
		of, _, _ = strings.Cut(of, "\x00") // of a class without a name its place follows
		out.Function = of + "::" + out.Function
	}
	if out.File, ok = r.text(file, mostPath); !ok || out.File == "" {
		return interp.Name{}
	}
	if m, ok = r.read(at, size); !ok || string(m) != before {
		return interp.Name{}
	}
	return out
}

// text reads a string of at most most bytes; what is beyond is left out: a struct zend_string.
//
//	| u32 references | u32 kind | u64 hash | u64 length | characters |
func (r *Reader) text(at uint64, most int) (string, bool) {
	const kindAt, lengthAt, textAt, kinds, isString = 4, 16, 24, 15, 6
	m, ok := r.read(at, textAt)
	if !ok || binary.LittleEndian.Uint32(m[kindAt:])&kinds != isString {
		return "", false
	}
	n := word(m, lengthAt)
	if n == 0 || n > 1<<30 {
		return "", false
	}
	if m, ok = r.readAny(at+textAt, min(int(n), most)); !ok {
		return "", false
	}
	if r.left -= len(m); r.left < 0 {
		return "", false
	}
	return string(m), true
}

// word returns the 8 bytes at an offset.
func word(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

// read reads memory of the process. The bytes are valid until the next call.
func (r *Reader) read(at uint64, n int) ([]byte, bool) {
	if at&7 != 0 {
		return nil, false
	}
	return r.readAny(at, n)
}

// readAny reads memory at an address that need not be one of a struct.
func (r *Reader) readAny(at uint64, n int) ([]byte, bool) {
	if at == 0 || at > interp.MostAddress {
		return nil, false
	}
	r.buffer = slices.Grow(r.buffer[:0], n)[:n]
	if _, err := r.mem.ReadAt(r.buffer, int64(at)); err != nil {
		return nil, false
	}
	return r.buffer, true
}
