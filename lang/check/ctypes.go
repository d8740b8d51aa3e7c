package check

import (
	"culprit/lang/syntax"
)

// intType makes an integer type.
func intType(bytes int8, signed bool, name string) *Int {
	return &Int{Bytes: bytes, Signed: signed, Name: name}
}

// The integer types of expressions.
//
// table: types that nothing changes
var (
	tInt    = intType(4, true, "int")
	tUint   = intType(4, false, "unsigned int")
	tLong   = intType(8, true, "long")
	tUlong  = intType(8, false, "unsigned long")
	tChar   = intType(1, true, "char")
	tInt32  = intType(4, true, "int32_t")
	tInt64  = intType(8, true, "int64_t")
	tUint32 = intType(4, false, "uint32_t")
	tUint64 = intType(8, false, "uint64_t")
	tString = StringType{}
	tVoid   = VoidType{}
)

// basics are the types of C by kind. A plain char is signed.
//
// table: kind to type
var basics = map[syntax.BasicKind]Type{
	syntax.KindVoid: tVoid, syntax.KindBool: intType(1, false, "_Bool"), syntax.KindChar: tChar,
	syntax.KindSChar:  intType(1, true, "signed char"),
	syntax.KindUChar:  intType(1, false, "unsigned char"),
	syntax.KindShort:  intType(2, true, "short"),
	syntax.KindUShort: intType(2, false, "unsigned short"),
	syntax.KindInt:    tInt, syntax.KindUInt: tUint, syntax.KindLong: tLong,
	syntax.KindULong:     tUlong,
	syntax.KindLongLong:  intType(8, true, "long long"),
	syntax.KindULongLong: intType(8, false, "unsigned long long"),
	syntax.KindFloat:     &Float{4, "float"}, syntax.KindDouble: &Float{8, "double"},
	syntax.KindLongDouble: &Float{16, "long double"}, syntax.KindString: tString,
}

// typedefs are D's own names of types, which need no BTF.
//
// table: name to type
var typedefs = map[string]Type{
	"int8_t": intType(1, true, "int8_t"), "int16_t": intType(2, true, "int16_t"), "int32_t": tInt32,
	"int64_t":  tInt64,
	"intptr_t": intType(8, true, "intptr_t"), "intmax_t": intType(8, true, "intmax_t"),
	"ptrdiff_t": intType(8, true, "ptrdiff_t"), "ssize_t": intType(8, true, "ssize_t"),
	"uint8_t": intType(1, false, "uint8_t"), "uint16_t": intType(2, false, "uint16_t"),
	"uint32_t": tUint32, "uint64_t": tUint64,
	"uintptr_t": intType(8, false, "uintptr_t"), "uintmax_t": intType(8, false, "uintmax_t"),
	"size_t":  intType(8, false, "size_t"),
	"uchar_t": intType(1, false, "uchar_t"), "ushort_t": intType(2, false, "ushort_t"),
	"uint_t": intType(4, false, "uint_t"), "ulong_t": intType(8, false, "ulong_t"),
	"u_char": intType(1, false, "u_char"), "u_short": intType(2, false, "u_short"),
	"u_int": intType(4, false, "u_int"), "u_long": intType(8, false, "u_long"),
	"longlong_t": intType(8, true, "longlong_t"), "u_longlong_t": intType(8, false, "u_longlong_t"),
	"offset_t": intType(8, true, "offset_t"),
	"hrtime_t": intType(8, true, "hrtime_t"), "time_t": intType(8, true, "time_t"),
	"clock_t": intType(8, true, "clock_t"), "off_t": intType(8, true, "off_t"),
	"pid_t": intType(4, true, "pid_t"), "id_t": intType(4, false, "id_t"),
	"uid_t": intType(4, false, "uid_t"), "gid_t": intType(4, false, "gid_t"),
	"zoneid_t":      intType(4, true, "zoneid_t"),
	"processorid_t": intType(4, true, "processorid_t"), "chipid_t": intType(4, true, "chipid_t"),
	"lgrp_id_t": intType(4, true, "lgrp_id_t"),
	"psetid_t":  intType(4, true, "psetid_t"), "taskid_t": intType(4, true, "taskid_t"),
	"projid_t": intType(4, true, "projid_t"), "poolid_t": intType(4, true, "poolid_t"),
	"ctid_t":  intType(4, true, "ctid_t"),
	"major_t": intType(4, false, "major_t"), "minor_t": intType(4, false, "minor_t"),
	"dev_t": intType(4, false, "dev_t"), "ino_t": intType(8, false, "ino_t"),
	"mode_t": intType(4, false, "mode_t"), "nlink_t": intType(4, false, "nlink_t"),
	"caddr_t": &Pointer{Elem: tChar}, "daddr_t": intType(8, true, "daddr_t"),
	"paddr_t": intType(8, false, "paddr_t"), "pgcnt_t": intType(8, false, "pgcnt_t"),
	"bool":    intType(1, false, "bool"),
	"wchar_t": intType(4, true, "wchar_t"), "boolean_t": intType(4, true, "boolean_t"),
	"tid_t":    intType(4, true, "tid_t"),
	"ipaddr_t": intType(4, false, "ipaddr_t"), "in_port_t": intType(2, false, "in_port_t"),
}

// isInt returns t as an integer type.
func isInt(t Type) (*Int, bool) {
	i, ok := t.(*Int)
	return i, ok
}

// isChar reports whether a type is a character type of text.
func isChar(t Type) bool {
	i, ok := t.(*Int)
	return ok && i.Bytes == 1 && i.Bits == 0 && i.Enum == nil && i.Name != "_Bool" &&
		i.Name != "bool"
}

// isText reports whether a type is an array of characters.
func isText(t Type) bool {
	a, ok := t.(*Array)
	return ok && isChar(a.Elem)
}

// promoted returns the type that C promotes a small integer to.
func promoted(t *Int) *Int {
	switch {
	case t.Bits > 0 && (t.Bits < 32 || t.Bits == 32 && t.Signed), t.Bytes < 4:
		return tInt
	case t.Bytes == 4 && t.Signed:
		return tInt
	case t.Bytes == 4:
		return tUint
	case t.Signed:
		return tLong
	}
	return tUlong
}

// common returns the type of an operation on two integers. It has the name of the wider one. Types
// smaller than int stay small, by D's guide and unlike C: two char make a char.
func common(a, b *Int) *Int {
	if a.Bytes < 4 && b.Bytes < 4 && a.Bits == 0 && b.Bits == 0 && a.Enum == nil && b.Enum == nil {
		if a.Bytes > b.Bytes || a.Bytes == b.Bytes && !a.Signed {
			return a
		}
		return b
	}
	p, q := promoted(a), promoted(b)
	keep := func(p, t *Int) *Int {
		if p.Bytes == t.Bytes && p.Signed == t.Signed && t.Bits == 0 && t.Enum == nil {
			return t
		}
		return p
	}
	if p.Bytes > q.Bytes || p.Bytes == q.Bytes && !p.Signed {
		return keep(p, a)
	}
	return keep(q, b)
}

// wide returns the 64-bit type used to compute with an integer type.
func wide(t *Int) *Int {
	if promoted(t).Signed {
		return tLong
	}
	return tUlong
}

// Same reports whether two types are equal, ignoring the names of integers and the spaces of
// pointers.
func Same(a, b Type) bool { return same(a, b, 0) }

func same(a, b Type, depth int) bool {
	if a == b || depth > 16 {
		return true
	}
	switch a := a.(type) {
	case *Int:
		b, ok := b.(*Int)
		return ok && a.Bytes == b.Bytes && a.Signed == b.Signed && a.Bits == b.Bits
	case *Float:
		b, ok := b.(*Float)
		return ok && a.Bytes == b.Bytes
	case *Pointer:
		b, ok := b.(*Pointer)
		return ok && same(a.Elem, b.Elem, depth+1)
	case *Array:
		b, ok := b.(*Array)
		return ok && a.Len == b.Len && same(a.Elem, b.Elem, depth+1)
	case *Struct:
		b, ok := b.(*Struct)
		return ok && a.Name != "" && a.Name == b.Name && a.Union == b.Union &&
			(a.Bytes == b.Bytes || a.Only || b.Only)
	case *Func:
		b, ok := b.(*Func)
		if !ok || len(a.Params) != len(b.Params) || !same(a.Result, b.Result, depth+1) {
			return false
		}
		for i := range a.Params {
			if !same(a.Params[i], b.Params[i], depth+1) {
				return false
			}
		}
		return true
	case *Bytes:
		b, ok := b.(*Bytes)
		return ok && a.Len == b.Len
	}
	return false
}
