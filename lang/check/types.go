package check

import "fmt"

// A Type is the type of a value in a D program: *Int, *Float, *Pointer, *Array, *Struct, *Func, *Bytes, String, Void, Stack
// or Symbol. Types of the kernel and of the text are the same here: typedefs, qualifiers and enumerations are resolved,
// their names are kept for messages. Two types are the same when Same says so, not by identity.
type Type interface {
	Size() int64    // bytes; 0 where it has none: Void, *Func, an array without length, a struct that is only named
	String() string // as C writes it
}

// An Int is an integer, an enumeration or a truth value.
type Int struct {
	Bytes  int8 // 1, 2, 4 or 8
	Signed bool
	Name   string // "int", "uint64_t", "enum pid_type"
	Enum   []EnumValue
	Bits   int8 // of a bit field: how many; 0: all of Bytes
	Shift  int8 // of a bit field: how many bits stand below it, once loaded
}

// An EnumValue is a name of an enumeration.
type EnumValue struct {
	Name  string
	Value int64
}

// A Float is a number that D can carry about, and not compute with.
type Float struct {
	Bytes int8
	Name  string
}

// Space says in whose memory an address lies. The address alone does not tell.
type Space uint8

// The spaces.
const (
	Kernel Space = iota // the kernel's memory: a bad address is a fault
	User                // the memory of the process at hand
	Typed               // an object that the verifier knows, as arguments of BTF-typed probes are: loads can't fail
	Own                 // memory of the script: a variable, a string, what alloca or copyin gave
)

// A Pointer leads to values of another type.
type Pointer struct {
	Elem  Type
	Space Space
	raw   bool // the verifier does not follow it: per CPU, or of another memory
}

// An Array is a row of values. In expressions it is the address of its first, as in C.
type Array struct {
	Elem Type
	Len  int64 // -1: not told
}

// A Struct is a struct or union. Fields of the kernel's are made when they are asked for.
type Struct struct {
	Name   string // "" for one without a name
	Union  bool
	Bytes  int64
	Only   bool // only named: no member is known
	Fields func() []StructMember
}

// A StructMember is a member of a struct. Those of anonymous members stand in their places among the others.
type StructMember struct {
	Name   string
	Offset int64 // bytes from the start; of a bit field: of the integer that holds it
	Type   Type
	union  bool // of an anonymous union
}

// A Func is a function, of which D can take the address.
type Func struct {
	Result Type
	Params []Type
	More   bool
}

// Bytes are a value that is kept as it is: what tracemem and print take.
type Bytes struct{ Len int64 }

// The types that have only one value each.
type (
	StringType struct{}           // string of D: at most strsize bytes, the rest zero
	VoidType   struct{}           // nothing
	StackType  struct{ Of Space } // stack() or ustack(), as a key or a value; a 32-bit id in records
	SymbolType struct {           // func(), sym(), mod() and their twins of user space: an address that is told by name
		Of   Space
		Part SymbolPart
	}
)

// SymbolPart says what of an address is told.
type SymbolPart uint8

// The parts of a symbol.
const (
	SymbolName     SymbolPart = iota // sym, usym: module`name
	SymbolFunction                   // func, ufunc: module`name, without the offset
	SymbolModule                     // mod, umod
	SymbolAddress                    // uaddr: module`name+offset
)

// Size gives bytes, as Type says.
func (t *Int) Size() int64 { return int64(t.Bytes) }

// Size gives bytes, as Type says.
func (t *Float) Size() int64 { return int64(t.Bytes) }

// Size gives bytes, as Type says.
func (t *Pointer) Size() int64 { return 8 }

// Size gives bytes, as Type says.
func (t *Array) Size() int64 { return max(0, t.Len) * t.Elem.Size() }

// Size gives bytes, as Type says.
func (t *Struct) Size() int64 { return t.Bytes }

// Size gives bytes, as Type says.
func (t *Func) Size() int64 { return 0 }

// Size gives bytes, as Type says.
func (t *Bytes) Size() int64 { return t.Len }

// Size gives bytes, as Type says.
func (StringType) Size() int64 { return 0 } // strsize, which is an option
// Size gives bytes, as Type says.
func (VoidType) Size() int64 { return 0 }

// Size gives bytes, as Type says.
func (StackType) Size() int64 { return 4 }

// Size gives bytes, as Type says.
func (SymbolType) Size() int64 { return 8 }

// String gives the type as C writes it.
func (t *Int) String() string { return t.Name }

// String gives the type as C writes it.
func (t *Float) String() string { return t.Name }

// String gives the type as C writes it.
func (t *Pointer) String() string { return t.Elem.String() + " *" }

// String gives the type as C writes it.
func (t *Array) String() string {
	if t.Len < 0 {
		return t.Elem.String() + " []"
	}
	return fmt.Sprintf("%v [%d]", t.Elem, t.Len)
}

// String gives the type as C writes it.
func (t *Struct) String() string {
	word, name := "struct", t.Name
	if t.Union {
		word = "union"
	}
	if name == "" {
		name = "(anonymous)"
	}
	return word + " " + name
}

// String gives the type as C writes it.
func (t *Func) String() string { return t.Result.String() + " ()" }

// String gives the type as C writes it.
func (t *Bytes) String() string { return fmt.Sprintf("char [%d]", t.Len) }

// String gives the type as C writes it.
func (StringType) String() string { return "string" }

// String gives the type as C writes it.
func (VoidType) String() string { return "void" }

// String gives the type as C writes it.
func (t StackType) String() string {
	if t.Of == User {
		return "ustack"
	}
	return "stack"
}

// String gives the type as C writes it.
func (t SymbolType) String() string { return "symbol" }
