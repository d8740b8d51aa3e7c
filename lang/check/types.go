package check

import "fmt"

// A Type is the type of a value in a D program: *Int, *Float, *Pointer, *Array, *Struct, *Func,
// *Bytes, String, Void, Stack or Symbol. It represents types of the kernel and of the text alike:
// typedefs, qualifiers and enumerations are resolved, their names are kept for messages. Compare
// types with Same, not by identity.
type Type interface {
	// bytes; 0 for types without a size: Void, *Func, an array without length, a struct that is
	// only named
	Size() int64
	String() string // in the notation of C
}

// An Int is an integer, an enumeration or a truth value.
type Int struct {
	Bytes  int8 // 1, 2, 4 or 8
	Signed bool
	Name   string // "int", "uint64_t", "enum pid_type"
	Enum   []EnumValue
	Bits   int8 // of a bit field: its number of bits; 0: all of Bytes
	Shift  int8 // of a bit field: the number of bits below it in the loaded integer
}

// An EnumValue is a name of an enumeration.
type EnumValue struct {
	Name  string
	Value int64
}

// A Float is a floating-point number. D can copy it, but not compute with it.
type Float struct {
	Bytes int8
	Name  string
}

// Space is the memory that an address refers to. The address alone does not determine it.
type Space uint8

// The spaces.
const (
	Kernel Space = iota // the kernel's memory: an invalid address is a fault
	User                // the memory of the current process
	// an object known to the verifier, such as an argument of a BTF-typed probe: loads can't fail
	Typed
	// memory of the script: a variable, a string, the result of alloca or copyin
	Own
)

// A Pointer points to values of another type.
type Pointer struct {
	Elem  Type
	Space Space
	raw   bool // the verifier does not follow it: per-CPU, or another address space
}

// An Array is a sequence of values. In expressions it is the address of its first, as in C.
type Array struct {
	Elem Type
	Len  int64 // -1: not given
}

// A Struct is a struct or union. Fields of kernel structs are computed at the first call.
type Struct struct {
	Name   string // "" for one without a name
	Union  bool
	Bytes  int64
	Only   bool // only named: no member is known
	Fields func() []StructMember
}

// A StructMember is a member of a struct. Members of anonymous members are listed among the others.
type StructMember struct {
	Name   string
	Offset int64 // bytes from the start; of a bit field: of the integer that contains it
	Type   Type
	union  bool // of an anonymous union
}

// A Func is a function type. D can only take its address.
type Func struct {
	Result Type
	Params []Type
	More   bool
}

// Bytes are a value of raw bytes: the data of tracemem and print.
type Bytes struct{ Len int64 }

// The types without parameters, or with only a space.
type (
	StringType struct{} // a string of D: at most strsize bytes, the rest zero
	VoidType   struct{} // nothing
	// stack() or ustack(), as a key or a value; a 32-bit id in records
	StackType struct{ Of Space }
	// func(), sym(), mod() and their counterparts for processes: an address that is printed as a
	// symbol
	SymbolType struct {
		Of   Space
		Part SymbolPart
	}
)

// SymbolPart is the part of a symbol that is printed.
type SymbolPart uint8

// The parts of a symbol.
const (
	SymbolName     SymbolPart = iota // sym, usym: module`name
	SymbolFunction                   // func, ufunc: module`name, without the offset
	SymbolModule                     // mod, umod
	SymbolAddress                    // uaddr: module`name+offset
)

// Size returns the size in bytes.
func (t *Int) Size() int64 { return int64(t.Bytes) }

// Size returns the size in bytes.
func (t *Float) Size() int64 { return int64(t.Bytes) }

// Size returns the size in bytes.
func (t *Pointer) Size() int64 { return 8 }

// Size returns the size in bytes.
func (t *Array) Size() int64 { return max(0, t.Len) * t.Elem.Size() }

// Size returns the size in bytes.
func (t *Struct) Size() int64 { return t.Bytes }

// Size returns the size in bytes.
func (t *Func) Size() int64 { return 0 }

// Size returns the size in bytes.
func (t *Bytes) Size() int64 { return t.Len }

// Size returns 0: the size is the option strsize.
func (StringType) Size() int64 { return 0 }

// Size returns the size in bytes.
func (VoidType) Size() int64 { return 0 }

// Size returns the size in bytes.
func (StackType) Size() int64 { return 4 }

// Size returns the size in bytes.
func (SymbolType) Size() int64 { return 8 }

// String returns the type in the notation of C.
func (t *Int) String() string { return t.Name }

// String returns the type in the notation of C.
func (t *Float) String() string { return t.Name }

// String returns the type in the notation of C.
func (t *Pointer) String() string { return t.Elem.String() + " *" }

// String returns the type in the notation of C.
func (t *Array) String() string {
	if t.Len < 0 {
		return t.Elem.String() + " []"
	}
	return fmt.Sprintf("%v [%d]", t.Elem, t.Len)
}

// String returns the type in the notation of C.
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

// String returns the type in the notation of C.
func (t *Func) String() string { return t.Result.String() + " ()" }

// String returns the type in the notation of C.
func (t *Bytes) String() string { return fmt.Sprintf("char [%d]", t.Len) }

// String returns the type in the notation of C.
func (StringType) String() string { return "string" }

// String returns the type in the notation of C.
func (VoidType) String() string { return "void" }

// String returns the type in the notation of C.
func (t StackType) String() string {
	if t.Of == User {
		return "ustack"
	}
	return "stack"
}

// String returns the type in the notation of C.
func (t SymbolType) String() string { return "symbol" }
