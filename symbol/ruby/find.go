package ruby

import (
	"encoding/binary"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"culprit/symbol/interp"
)

// Relocations of x86-64 (System V ABI, AMD64 supplement).
const (
	relocationModule   = 16 // R_X86_64_DTPMOD64
	relocationRelative = 8  // R_X86_64_RELATIVE
)

// Find returns the layout of the interpreter in a file; nil: there is none. Most distributions
// strip the symbols from the library of Ruby: what it does not export is found by its code.
func Find(f interp.File, _ string) interp.Layout {
	if l := find(f); l != nil {
		return l
	}
	return nil
}

func find(f interp.File) *Layout {
	at, size, ok := f.Exported("ruby_version")
	if !ok || size == 0 || size > 32 {
		return nil
	}
	b, err := f.Data(at, int(size))
	if err != nil {
		return nil
	}
	l := &Layout{Version: versionOf(string(b))}
	if l.Version == 0 || !l.evaluator(f) {
		return nil
	}
	if _, known := versions[l.Version]; known {
		l.thread(f)
	}
	return l
}

// release is the number of a version.
var release = regexp.MustCompile(`^([0-9]{1,2})\.([0-9]{1,2})\.[0-9]+\x00$`)

// versionOf returns the version that ruby_version has; 0: it is none.
func versionOf(text string) Version {
	m := release.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	major, _ := strconv.Atoi(m[1]) // digits
	minor, _ := strconv.Atoi(m[2])
	return Version(major<<8 | minor)
}

// evaluator finds the functions vm_exec_core() and vm_exec(); false: not the first.
func (l *Layout) evaluator(f interp.File) bool {
	const core, around = 0, 1
	named := f.Symbols("vm_exec_core", "vm_exec", "rb_vm_exec")
	l.From, l.To = named[core][0], named[core][0]+named[core][1]
	for _, s := range named[around:] {
		if s[1] > 0 {
			l.Around, l.AroundTo = s[0], s[0]+s[1]
		}
	}
	if l.From == l.To {
		l.From, l.To = byInstructions(f)
	}
	if l.From == l.To { // the compiler has made one function of them
		l.From, l.To, l.Around, l.AroundTo = l.Around, l.AroundTo, 0, 0
	}
	if l.From >= l.To || l.To > interp.MostAddress {
		return false
	}
	if l.Around == l.AroundTo {
		l.Around, l.AroundTo = callerOf(f, l.From)
	}
	if l.Around > l.AroundTo || l.AroundTo > interp.MostAddress || l.Around == l.From {
		l.Around, l.AroundTo = 0, 0
	}
	return true
}

// leastInstructions is less than how many instructions every version has, and more than entries are
// in another table of code: that of regular expressions has 98.
const leastInstructions = 150

// mostEvaluator is above the size of the function that evaluates instructions.
const mostEvaluator = 256 << 10

// byInstructions returns the function that evaluates instructions. It has a table of where the code
// of each instruction begins, all in this function: a run of relocations. Looking a function up is
// expensive, so that it is done only for addresses that are near each other.
func byInstructions(f interp.File) (from, to uint64) {
	var last [leastInstructions]uint64 // where the last of the run are, in any order
	next, n := uint64(0), 0
	f.Relocations(func(r interp.Relocation) bool {
		if r.At != next || r.Kind != relocationRelative {
			n = 0
		}
		next = r.At + 8
		last[n%len(last)] = r.Addend
		if n++; n < len(last) || r.Kind != relocationRelative {
			return true
		}
		low, high := slices.Min(last[:]), slices.Max(last[:])
		if high-low >= mostEvaluator {
			return true
		}
		a, z, ok := f.Function(low)
		if !ok || high >= z {
			return true
		}
		from, to = a, z
		return false
	})
	return from, to
}

// mostCode is how many bytes of code are searched for a call.
const mostCode = 16 << 20

// callerOf returns the largest function that calls the one at an address.
func callerOf(f interp.File, callee uint64) (from, to uint64) {
	const chunk, call, length = 1 << 20, 0xe8, 5
	start, size := f.Code()
	size = min(size, mostCode)
	for at := uint64(0); at+length <= size; at += chunk {
		b, err := f.Data(start+at, int(min(size-at, chunk+length-1)))
		if err != nil {
			break
		}
		for i := 0; i+length <= len(b); i++ {
			next := start + at + uint64(i) + length
			if b[i] != call || next+offset(b[i+1:]) != callee {
				continue
			}
			if a, z, ok := f.Function(next - length); ok && z-a > to-from {
				from, to = a, z
			}
		}
	}
	return from, to
}

// offset reads an offset of an instruction.
func offset(b []byte) uint64 { return uint64(int64(int32(binary.LittleEndian.Uint32(b)))) }

// thread finds how the execution context of a thread is found.
func (l *Layout) thread(f interp.File) {
	if l.Version < 0x300 {
		if at, _, ok := f.Exported("ruby_current_vm_ptr"); ok {
			l.Way, l.Head = List, at
		}
		return
	}
	size, program := f.ThreadStorage()
	at := f.Symbols("ruby_current_ec")[0]
	if program {
		if at[1] == 8 && at[0] <= size-8 && size <= mostStorage {
			l.Way, l.Storage = Fixed, uint32(size-at[0])
		}
		return
	}
	slot, storage, ok := moduleOf(f)
	if !ok || storage > mostStorage {
		return
	}
	l.Way, l.Head, l.Storage, l.Step = Module, slot, uint32(storage), 16
	if f.Needs("libc.musl-") {
		l.Step = 8
	}
}

// moduleOf returns where the dynamic linker writes the number of the module whose storage has
// ruby_current_ec, and the offset of it there. rb_errinfo(), which all versions export, begins with
// the read of it:
//
//	66 48 8d 3d OFFSET         data16 lea OFFSET(%rip),%rdi
//	66 66 48 e8 OFFSET         data16 data16 rex.W call __tls_get_addr
//
// At the address are the number of the module and the offset.
func moduleOf(f interp.File) (slot, storage uint64, ok bool) {
	at, size, ok := f.Exported("rb_errinfo")
	if !ok {
		return 0, 0, false
	}
	const length = 8
	b, err := f.Data(at, int(min(size, 128)))
	if err != nil {
		return 0, 0, false
	}
	i := strings.Index(string(b), "\x66\x48\x8d\x3d")
	if i < 0 || i+length > len(b) {
		return 0, 0, false
	}
	slot = at + uint64(i) + length + offset(b[i+4:])
	found, named := false, false
	f.Relocations(func(r interp.Relocation) bool {
		if r.At == slot && r.Kind == relocationModule {
			found, named = true, r.Symbol != 0
		}
		return !found
	})
	if !found {
		return 0, 0, false
	}
	if named {
		storage = f.Symbols("ruby_current_ec")[0][0]
		return slot, storage, true
	}
	if b, err = f.Data(slot+8, 8); err != nil {
		return 0, 0, false
	}
	return slot, binary.LittleEndian.Uint64(b), true
}
