package v8

import (
	"encoding/binary"

	"culprit/symbol/interp"
)

// Frames of functions have their slots at these offsets from the frame pointer, as package gen has
// them.
const (
	contextAt  = -8
	functionAt = -16
	arrayAt    = -32
	offsetAt   = -40
)

// prefix begins the names of the constants that V8 exports for debuggers.
const prefix = "v8dbg_"

// A constant is where a slot comes from: the first of some constants that the file has.
type constant struct {
	slot  slot
	names []string
}

// table: never changed. The names of a member end with its type, which differs between versions.
var constants = [...]constant{
	{functionShare, []string{"class_JSFunction__shared__SharedFunctionInfo"}},
	{bytecodeData, []string{"class_BytecodeArray__data__uintptr_t"}},
	{instanceType, []string{"class_Map__instance_type__uint16_t"}},
	{shareName, []string{"class_SharedFunctionInfo__name_or_scope_info__Object",
		"class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
		"class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_"}},
	{shareScript, []string{"class_SharedFunctionInfo__script_or_debug_info__HeapObject",
		"class_SharedFunctionInfo__script__Tagged_HeapObject_"}},
	{scriptSource, []string{"class_Script__source__Object"}},
	{scriptName, []string{"class_Script__name__Object"}},
	{scriptEnds, []string{"class_Script__line_ends__Object"}},
	{stringLength, []string{"class_String__length__int32_t"}},
	{oneByteChars, []string{"class_SeqOneByteString__chars__char"}},
	{twoByteChars, []string{"class_SeqTwoByteString__chars__char"}},
	{consFirst, []string{"class_ConsString__first__String"}},
	{consSecond, []string{"class_ConsString__second__String"}},
	{slicedParent, []string{"class_SlicedString__parent__String"}},
	{slicedOffset, []string{"class_SlicedString__offset__SMI"}},
	{thinActual, []string{"class_ThinString__actual__String"}},
	{externalData, []string{"class_ExternalString__resource__Object"}},
	{arrayLength, []string{"class_FixedArrayBase__length__SMI"}},
	{arrayData, []string{"class_FixedArray__data__uintptr_t"}},
	{localCount, []string{"scopeinfo_idx_ncontextlocals"}},
	{localFirst, []string{"scopeinfo_idx_first_vars"}},
	{typeShare, []string{"type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE"}},
	{typeScope, []string{"type_ScopeInfo__SCOPE_INFO_TYPE"}},
	{typeScript, []string{"type_Script__SCRIPT_TYPE"}},
	{typeBytecode, []string{"type_BytecodeArray__BYTECODE_ARRAY_TYPE"}},
	{typeCode, []string{"type_Code__CODE_TYPE"}},
	{typeArray, []string{"type_FixedArray__FIXED_ARRAY_TYPE"}},
	{typePositions, []string{"type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE",
		"type_ByteArray__BYTE_ARRAY_TYPE"}},
}

// table: never changed. V8 is not one of those that culprit knows if these differ.
var required = map[string]int32{
	"TaggedSize": 8, "SmiTag": 0, "SmiTagMask": 1, "SmiShiftSize": 31, "HeapObjectTag": 1,
	"HeapObjectTagMask": 3, "off_fp_context": contextAt, "off_fp_function": functionAt,
	"off_fp_bytecode_array": arrayAt, "off_fp_bytecode_offset": offsetAt, "FirstNonstringType": 128,
	"StringRepresentationMask": 7, "StringEncodingMask": 8, "SeqStringTag": 0, "ConsStringTag": consString,
	"ExternalStringTag": externalString, "SlicedStringTag": slicedString, "ThinStringTag": thinString,
	"OneByteStringTag": 8,
}

// What the constants lack, by whether a BytecodeArray has a wrapper. It has from V8 12 on.
const (
	wrapper              = "class_BytecodeArray__wrapper__Tagged_BytecodeWrapper_"
	shareDataAt          = 8
	positionsAt          = 32
	positionsWithWrapper = 24
	codeBytecodeAt       = 16
	codeBytecodeWrapped  = 8
)

// Find returns the layout of V8 in a file; nil: it has none.
func Find(f interp.File, _ string) interp.Layout {
	if _, ok := constantOf(f, "TaggedSize"); !ok {
		return nil
	}
	return find(f)
}

// constantOf returns a constant that a file exports.
func constantOf(f interp.File, name string) (n int32, ok bool) {
	at, size, ok := f.Exported(prefix + name)
	if !ok || size != 4 {
		return 0, false
	}
	b, err := f.Data(at, 4)
	if err != nil {
		return 0, true // 0: it is in no bytes of the file
	}
	return int32(binary.LittleEndian.Uint32(b)), true
}

func find(f interp.File) *Layout {
	l := &Layout{}
	for name, want := range required {
		if n, ok := constantOf(f, name); !ok || n != want {
			return l
		}
	}
	for i := range constants {
		found := false
		for _, name := range constants[i].names {
			n, ok := constantOf(f, name)
			if !ok {
				continue
			}
			if n <= 0 || n > 1<<16-1 {
				return l
			}
			l.At[constants[i].slot], found = uint16(n), true
			break
		}
		if !found {
			return l
		}
	}
	l.At[externalData] += 8 // it follows the resource that has it
	l.At[shareData], l.At[positions], l.At[codeBytecode] = shareDataAt, positionsAt, codeBytecodeAt
	if _, ok := constantOf(f, wrapper); ok {
		l.At[positions], l.At[codeBytecode] = positionsWithWrapper, codeBytecodeWrapped
	}
	if n, ok := constantOf(f, "frametype_IrregexpFrame"); ok && n > 0 && n < 1<<8 {
		l.At[regexpMarker] = uint16(n << 1)
	}
	l.code(f)
	l.At[ready] = 1
	return l
}

// code finds the code of the interpreter. It is no export: without symbols interpreted functions
// have no frames. Handlers follow each other.
func (l *Layout) code(f interp.File) {
	at := f.Symbols("Builtins_InterpreterEntryTrampoline", "Builtins_WideHandler",
		"Builtins_AbortExtraWideHandler")
	entry, first, last := at[0], at[1], at[2]
	if entry[0] == 0 || entry[1] > mostEntry || first[0] == 0 || first[0] > last[0] ||
		last[0]-first[0] > mostHandlers || last[1] > mostEntry || last[0] >= interp.MostAddress ||
		entry[0] >= interp.MostAddress {
		return
	}
	l.Entry, l.EntryEnd = entry[0], entry[0]+entry[1]
	l.Handlers, l.HandlersEnd = first[0], last[0]+last[1]
}

// Bounds of the code of the interpreter.
const (
	mostEntry    = 1 << 16
	mostHandlers = 16 << 20
)
