package v8

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"

	"culprit/symbol/interp"
)

const (
	mostText  = 1024     // bytes of the name of a function or a script
	mostBytes = 16 << 20 // of strings and of sources that a Reader reads
	mostLines = 1 << 20  // of sources
)

// A Reader is an interp.Reader. The code object of a frame is a SharedFunctionInfo.
type Reader struct {
	mem       io.ReaderAt
	at        *[slots]uint16
	functions map[uint64]*function
	scripts   map[uint64]*script
	left      int // bytes that are still read
	lines     int // lines of sources that are still found
	buffer    []byte
}

// A function is what is known of one.
type function struct {
	name   interp.Name
	script *script
	table  []byte // positions of instructions in the source
}

// anonymous is the name of a function that has none.
const anonymous = "(anonymous)"

// Name implements interp.Reader.
func (r *Reader) Name(f interp.Frame) interp.Name {
	at, instruction := f.Word.Code(), f.Word.Instruction()
	fn, known := r.functions[at]
	if !known {
		if fn = r.function(at); fn == nil {
			fn = &function{}
		}
		r.functions[at] = fn
	}
	out := fn.name
	if instruction != interp.UnknownInstruction && fn.script != nil {
		if position, ok := positionOf(fn.table, instruction); ok {
			out.Line = r.line(fn.script, position)
		}
	}
	return out
}

// A chain has the words that lead from a SharedFunctionInfo to its names. A heap that changes while
// it is read has another one afterwards.
type chain struct {
	kind               uint64 // its Map
	name, script, data uint64
}

// chain reads the chain of a SharedFunctionInfo. !ok: there is none at the address.
func (r *Reader) chain(at uint64) (c chain, ok bool) {
	if kind, ok := r.typeOf(at + tag); !ok || kind != r.at[typeShare] {
		return c, false
	}
	for _, one := range [...]struct {
		into *uint64
		at   uint64
	}{
		{&c.kind, 0},
		{&c.name, uint64(r.at[shareName])},
		{&c.script, uint64(r.at[shareScript])},
		{&c.data, uint64(r.at[shareData])},
	} {
		if *one.into, ok = r.word(at + one.at); !ok {
			return c, false
		}
	}
	return c, true
}

// function reads the function of a SharedFunctionInfo; nil: there is none at the address, or it has
// changed meanwhile.
func (r *Reader) function(at uint64) *function {
	c, ok := r.chain(at)
	if !ok {
		return nil
	}
	fn, position := &function{}, -1
	switch kind, ok := r.typeOf(c.name); {
	case ok && kind == r.at[typeScope]:
		fn.name.Function, position = r.scope(c.name)
	case ok && kind < firstNoString:
		fn.name.Function = r.text(c.name)
	}
	if !plain(fn.name.Function) {
		return nil
	}
	if fn.name.Function == "" {
		fn.name.Function = anonymous
	}
	if fn.script = r.scriptOf(c.script); fn.script != nil {
		fn.name.File = fn.script.name
		if position >= 0 {
			fn.name.First = r.line(fn.script, position)
		}
		fn.table = r.table(c.data)
	}
	if again, ok := r.chain(at); !ok || again.kind != c.kind || again.name != c.name ||
		again.script != c.script {
		return nil
	}
	return fn
}

// Bits of the flags of a ScopeInfo (ScopeFlags), and the words before those that a layout has.
const (
	scopeSaved        = 1 << 10 // a word about the variable of a class
	scopeFunction     = 3 << 12 // the name of the function
	scopeInferred     = 1 << 14 // what it is probably called
	scopeEarly        = 5       // the first variable, if the position precedes it
	scopeManyLocals   = 75      // from as many on their names are in one other object
	scopePositionAt   = 3       // if it precedes the variables
	mostScopeVariable = 1 << 16
)

// scope reads a ScopeInfo: the name of its function, or what it is probably called, and where in
// the source it begins; -1: not known.
func (r *Reader) scope(at uint64) (name string, position int) {
	at -= tag
	position = -1
	first, count := uint64(r.at[localFirst]), uint64(r.at[localCount])
	word := func(n uint64) uint64 {
		w, _ := r.word(at + 8 + 8*n) // 0: no name
		return w
	}
	flags := word(0)
	if flags&(1<<32-1) == 0 {
		flags >>= 32 // a number
	}
	locals, isNumber := number(word(count))
	if !isNumber || locals < 0 || locals > mostScopeVariable {
		return "", -1
	}
	if first >= scopeEarly {
		position = positionIn(word(scopePositionAt))
	}
	next := first
	if _, counted := number(word(next)); counted && locals > 0 {
		next++ // of a module: the number of its variables
	}
	if locals < scopeManyLocals {
		next += 2 * uint64(locals)
	} else {
		next += 1 + uint64(locals)
	}
	if flags&scopeSaved != 0 {
		next++
	}
	if flags&scopeFunction != 0 {
		name = r.text(word(next))
		next += 2
	}
	if flags&scopeInferred != 0 {
		if name == "" {
			name = r.text(word(next))
		}
		next++
	}
	if first < scopeEarly {
		position = positionIn(word(next))
	}
	return name, position
}

// positionIn returns a position in a source; -1: the word has none.
func positionIn(word uint64) int {
	if n, ok := number(word); ok && n >= 0 && n < mostPosition {
		return n
	}
	return -1
}

// typeOf returns the instance type of the object at an address with a tag.
func (r *Reader) typeOf(at uint64) (kind uint16, ok bool) {
	if at&tagMask != tag {
		return 0, false
	}
	described, ok := r.word(at - tag)
	if !ok || described&tagMask != tag {
		return 0, false
	}
	b, ok := r.read(described-tag+uint64(r.at[instanceType]), 2)
	if !ok {
		return 0, false
	}
	return binary.LittleEndian.Uint16(b), true
}

// Words of the heap are addresses of objects plus tag, or numbers in their upper half.
const (
	tag     = 1
	tagMask = 7
)

// number returns the number in a word; !ok: it is an object.
func number(word uint64) (n int, ok bool) {
	return int(int32(word >> 32)), word&(1<<32-1) == 0
}

// plain reports whether a text has no control characters.
func plain(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f })
}

// word reads 8 bytes.
func (r *Reader) word(at uint64) (w uint64, ok bool) {
	b, ok := r.read(at, 8)
	if !ok {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b), true
}

// read reads memory of the process. The bytes are valid until the next call.
func (r *Reader) read(at uint64, n int) ([]byte, bool) {
	if at == 0 || at >= interp.MostAddress {
		return nil, false
	}
	r.buffer = slices.Grow(r.buffer[:0], n)[:n]
	if _, err := r.mem.ReadAt(r.buffer, int64(at)); err != nil {
		return nil, false
	}
	return r.buffer, true
}
