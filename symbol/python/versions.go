package python

import (
	"encoding/binary"
	"regexp"
	"strconv"

	"culprit/symbol/interp"
)

// Find returns the layout of the interpreter in a file; nil: there is none. path is where a process
// has the file: up to 3.10 only its name has the version.
func Find(f interp.File, path string) interp.Layout {
	if l := find(f, path); l != nil {
		return l
	}
	return nil
}

func find(f interp.File, path string) *Layout {
	from, size, ok := f.Exported("PyEval_EvalFrameEx") // all versions export it
	if !ok {
		return nil
	}
	if at, n, ok := f.Exported("_PyEval_EvalFrameDefault"); ok {
		from, size = at, n
	}
	if size == 0 || from+size < from || from+size > 1<<47 {
		return nil
	}
	l := &Layout{Version: versionOf(f, path), From: from, To: from + size}
	runtime, _, ok := f.Exported("_PyRuntime")
	if !ok || runtime == 0 || runtime > 1<<46 {
		return l
	}
	if l.Version >= debugOffsetsFrom {
		l.useDebugOffsets(f, runtime)
		return l
	}
	if known, ok := versions[l.Version]; ok {
		l.Links, l.Threads, l.Frames, l.Code = known.Links, known.Threads, known.Frames, known.Code
		l.Head = runtime + known.Head
	}
	return l
}

// named is the version in the name of a program or a library.
var named = regexp.MustCompile(`python([23])\.([0-9]{1,2})[^/]*$`)

// versionOf returns the version of an interpreter: what Py_Version has since 3.11, else what the
// name has.
func versionOf(f interp.File, path string) Version {
	if at, size, ok := f.Exported("Py_Version"); ok && size == 8 {
		if b, err := f.Data(at, 8); err == nil {
			return Version(binary.LittleEndian.Uint64(b) >> 16 & 0xffff)
		}
	}
	return VersionOf(path)
}

// VersionOf returns the version in the name of a program or a library; 0: it has none.
func VersionOf(path string) Version {
	m := named.FindStringSubmatch(path)
	if m == nil {
		return 0
	}
	major, _ := strconv.Atoi(m[1]) // digits
	minor, _ := strconv.Atoi(m[2])
	return Version(major<<8 | minor)
}

// versions are the layouts of versions that do not describe themselves, on x86-64. Head is an
// offset in _PyRuntime here.
//
// table: never changed
var versions = map[Version]Layout{
	0x308: {Links: Objects, Head: 32, Threads: objectThreads, Code: oldCode,
		Frames: FrameOffsets{Code: 32, Back: 24, Instruction: 104, Shift: 1}},
	0x309: {Links: Objects, Head: 32, Threads: objectThreads, Code: oldCode,
		Frames: FrameOffsets{Code: 32, Back: 24, Instruction: 104, Shift: 1}},
	0x30a: {Links: Objects, Head: 32, Threads: objectThreads, Code: oldCode,
		Frames: FrameOffsets{Code: 32, Back: 24, Instruction: 96}},
	0x30b: {Links: Entries, Head: 40,
		Threads: ThreadOffsets{First: 16, Next: 8, ID: 152, Frame: 56, InFrame: 8},
		Frames:  FrameOffsets{Code: 32, Back: 48, Instruction: 56, Owner: 68},
		Code: CodeOffsets{Name: 128, File: 112, FirstLine: 72, Lines: 136, Start: 184, ASCII: 48,
			Other: 72}},
	0x30c: {Links: Shims, Head: 40,
		Threads: ThreadOffsets{First: 72, Next: 8, ID: 136, Frame: 56, InFrame: 0},
		Frames:  FrameOffsets{Code: 0, Back: 8, Instruction: 56, Owner: 70},
		Code: CodeOffsets{Name: 128, File: 112, FirstLine: 68, Lines: 136, Start: 192, ASCII: 40,
			Other: 56}},
}

// table: never changed
var (
	objectThreads = ThreadOffsets{First: 8, Next: 8, ID: 176, Frame: 24, InFrame: NoStruct}
	oldCode       = CodeOffsets{Name: 112, File: 104, FirstLine: 40, Lines: 120, ASCII: 48,
		Other: 72}
)

// debugOffsetsFrom is the first version whose _PyRuntime begins with _Py_DebugOffsets.
const debugOffsetsFrom = 0x30d

// debugCookie begins _Py_DebugOffsets.
const debugCookie = "xdebugpy"

// A debugNumbers is where _Py_DebugOffsets of a version has the offsets that are used, as the
// number of a word: pycore_runtime.h in 3.13, pycore_debug_offsets.h in 3.14.
type debugNumbers struct {
	head, interpreterNext, threadsHead                    int
	threadNext, threadFrame, threadID                     int
	frameBack, frameCode, frameInstruction, frameOwner    int
	codeFile, codeName, codeLines, codeFirst, codeAdapted int
	asciiSize                                             int
}

// table: never changed
var debugVersions = map[Version]debugNumbers{
	0x30d: {5, 8, 9, 21, 23, 24, 29, 30, 31, 33, 35, 37, 38, 39, 43, 70},
	0x30e: {5, 8, 9, 24, 26, 27, 32, 33, 34, 36, 40, 42, 43, 44, 48, 80},
}

// debugWords is how many words of _Py_DebugOffsets are read.
const debugWords = 81

// useDebugOffsets sets the offsets of a layout to those that an interpreter describes itself.
// Builds without the global lock have other objects and instructions per thread: they have no
// table.
func (l *Layout) useDebugOffsets(f interp.File, runtime uint64) {
	at, ok := debugVersions[l.Version]
	if !ok {
		return
	}
	b, err := f.Data(runtime, 8*debugWords)
	if err != nil || string(b[:8]) != debugCookie {
		return
	}
	word := func(n int) uint64 { return binary.LittleEndian.Uint64(b[8*n:]) }
	if Version(word(1)>>16) != l.Version || word(2) != 0 {
		return
	}
	fits := true
	offset := func(n int) uint32 {
		v := word(n)
		fits = fits && v < mostOffset
		return uint32(v)
	}
	full := *l
	full.Links, full.Head = Shims, runtime+uint64(offset(at.head))
	full.Threads = ThreadOffsets{NextInterpreter: offset(at.interpreterNext),
		First: offset(at.threadsHead), Next: offset(at.threadNext), ID: offset(at.threadID),
		Frame: offset(at.threadFrame), InFrame: NoStruct}
	full.Frames = FrameOffsets{Code: offset(at.frameCode), Back: offset(at.frameBack),
		Instruction: offset(at.frameInstruction), Owner: offset(at.frameOwner)}
	full.Code = CodeOffsets{Name: offset(at.codeName), File: offset(at.codeFile),
		FirstLine: offset(at.codeFirst), Lines: offset(at.codeLines),
		Start: offset(at.codeAdapted), ASCII: offset(at.asciiSize)}
	full.Code.Other = full.Code.ASCII + 16 // PyCompactUnicodeObject: a length and a pointer more
	if fits && full.Code.inObject() {
		*l = full
	}
}
