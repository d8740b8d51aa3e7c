package php

import (
	"encoding/binary"
	"regexp"
	"strconv"

	"culprit/symbol/interp"
)

// Find returns the layout of the interpreter in a file; nil: there is none. The programs and the
// library of PHP export their functions and variables, for modules.
func Find(f interp.File, _ string) interp.Layout {
	if l := find(f); l != nil {
		return l
	}
	return nil
}

// mostEvaluator is above the size of execute_ex().
const mostEvaluator = 1 << 24

func find(f interp.File) *Layout {
	at, size, ok := f.Exported("execute_ex")
	if !ok || size == 0 || size > mostEvaluator || at > interp.MostAddress-size {
		return nil
	}
	if _, _, ok := f.Exported("zend_get_executed_scope"); !ok {
		return nil
	}
	l := &Layout{From: at, To: at + size}
	if !l.build(f) {
		return nil
	}
	if !l.Threads {
		l.Head = currentCall(f)
	}
	return l
}

// buildID is what modules are compared with: the version, threads or not, and debugging.
var buildID = regexp.MustCompile(`\x00API([0-9]{8}),(N?TS)(,debug)?\x00`)

// build reads the version and how PHP was built: false: it is not found. The build ID is among the
// constants, which follow the code.
func (l *Layout) build(f interp.File) bool {
	const page, chunk, longest, most = 4096, 256 << 10, 32, 32 << 20
	code, size := f.Code()
	if code > interp.MostAddress || size > interp.MostAddress {
		return false
	}
	from := (code + size + page - 1) &^ (page - 1)
	var b []byte
	for at, n := from, chunk; at < from+most && n > 0; {
		more, err := f.Data(at, n)
		if err != nil { // the last part is smaller
			n /= 2
			continue
		}
		at += uint64(n)
		b = append(b[max(0, len(b)-longest):], more...)
		if m := buildID.FindSubmatch(b); m != nil {
			version, _ := strconv.Atoi(string(m[1])) // digits
			l.Version, l.Threads, l.Debug = Version(version), string(m[2]) == "TS", m[3] != nil
			return true
		}
	}
	return false
}

// currentCall returns the address of the pointer to the current call, in the variable
// executor_globals; 0: not found. zend_get_executed_scope() begins with the read of it:
//
//	48 8d 05 OFFSET            lea OFFSET(%rip),%rax     # executor_globals
//	48 8b 80 OFFSET            mov OFFSET(%rax),%rax
//
// or with one instruction:
//
//	48 8b 05 OFFSET            mov OFFSET(%rip),%rax     # executor_globals + ...
func currentCall(f interp.File) uint64 {
	const head, length = 32, 7
	globals, size, ok := f.Exported("executor_globals")
	if !ok || globals > interp.MostAddress || size > 1<<20 {
		return 0
	}
	at, n, ok := f.Exported("zend_get_executed_scope")
	if !ok || n < head {
		return 0
	}
	b, err := f.Data(at, head)
	if err != nil {
		return 0
	}
	if string(b[:4]) == "\xf3\x0f\x1e\xfa" { // endbr64
		b, at = b[4:], at+4
	}
	pointer := at + length + offset(b[3:])
	switch string(b[:3]) {
	case "\x48\x8d\x05":
		if pointer != globals || string(b[length:length+3]) != "\x48\x8b\x80" {
			return 0
		}
		pointer += offset(b[length+3:])
	case "\x48\x8b\x05":
	default:
		return 0
	}
	if pointer < globals || pointer-globals >= size || pointer%8 != 0 {
		return 0
	}
	return pointer
}

// offset reads an offset of an instruction.
func offset(b []byte) uint64 { return uint64(int64(int32(binary.LittleEndian.Uint32(b)))) }
