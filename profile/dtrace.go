package profile

import (
	"bytes"
	"slices"
)

// dtraceLines reads aggregations keyed by stack() or ustack() that DTrace prints: frames, innermost
// first, then the count.
//
//	genunix`kmem_cache_free+0xce
//	unix`sys_syscall+0x17a
//	  1
//
// A kernel stack followed by a user stack is one stack. Text before the first empty line that has
// no count is the heading.
type dtraceLines struct {
	b       *Builder
	o       Options
	frames  map[string][]uint32 // by line
	kept    int                 // bytes of the keys
	stack   []uint32            // innermost first
	started int                 // line of the first frame
	block   bool                // after the heading: a stack or an empty line was read
	wrong   skipped
}

// keptLines is the size of the cache of lines, in bytes; then it is cleared.
const keptLines = 8 << 20

func newDTrace(o Options) *dtraceLines {
	return &dtraceLines{b: o.builder(), o: o, frames: map[string][]uint32{}}
}

func (d *dtraceLines) line(b []byte, n int) error {
	b = bytes.TrimSpace(b)
	if isDTraceNoise(b) {
		return nil
	}
	if len(b) == 0 {
		if !d.block { // the heading
			d.stack, d.block = d.stack[:0], true
		}
		return nil
	}
	if isDigits(b) {
		d.block = true
		d.endStack(parseCount(b), n)
		return nil
	}
	if len(d.stack) == 0 {
		d.started = n
	}
	known, ok := d.frames[string(b)]
	if !ok {
		known = d.functions(nil, b)
		if d.kept += len(b) + 64; d.kept > keptLines {
			clear(d.frames)
			d.kept = 0
		}
		d.frames[string(b)] = known
	}
	d.stack = append(d.stack, known...)
	return nil
}

// isDTraceNoise reports whether a line is neither a frame nor a count: the command, dtrace's own
// messages, the heading of its table, the probe that printed, an interrupt, a gap in pasted output.
func isDTraceNoise(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	if b[0] == '#' || string(b) == "..." || string(b) == "[...]" || string(b) == "--" ||
		string(b) == "^C" ||
		bytes.HasPrefix(b, []byte("dtrace: ")) {
		return true
	}
	w := perfWords{b: b}
	first, _ := w.next()
	second, _ := w.next()
	third, _ := w.next()
	if string(first) == "CPU" && string(second) == "ID" {
		return true
	}
	return isDigits(first) && isDigits(second) && bytes.IndexByte(third, ':') >= 0
}

// endStack ends a stack with its count.
func (d *dtraceLines) endStack(count float64, n int) {
	if len(d.stack) == 0 {
		d.wrong.skip(n, "a count without a stack")
		return
	}
	slices.Reverse(d.stack)
	if d.o.Offsets { // the place of the interrupt doesn't make it another function
		last := len(d.stack) - 1
		f := d.b.tree.Functions[d.stack[last]]
		d.stack[last] = d.b.Function(cutAnyOffset([]byte(f.Name)), []byte(f.Module), f.Kind)
	}
	d.b.Stack(d.stack, count)
	d.stack = d.stack[:0]
}

// cutAnyOffset removes the last + and all after it from a name, as stack collapsers do.
func cutAnyOffset(b []byte) []byte {
	if i := bytes.LastIndexByte(b, '+'); i > 0 {
		return b[:i]
	}
	return b
}

// bccProcess returns the process below a stack printed by bcc's tools: -                app (77).
func bccProcess(b []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(b, []byte("- "))
	i := bytes.LastIndex(rest, []byte(" ("))
	if !ok || i <= 0 || rest[len(rest)-1] != ')' || !isDigits(rest[i+2:len(rest)-1]) {
		return nil, false
	}
	return bytes.TrimSpace(rest[:i]), true
}

// stapFrame parses a frame of SystemTap: 0xffffffff81000000 : work+0x10/0x20 [app].
func stapFrame(b []byte) (name, module []byte, ok bool) {
	address, rest, ok := bytes.Cut(b, []byte(" : "))
	if !ok || !bytes.HasPrefix(address, []byte("0x")) || !isHex(address[2:]) {
		return nil, nil, false
	}
	rest = bytes.TrimSpace(bytes.TrimSuffix(rest, []byte(" (inexact)")))
	if i := bytes.LastIndex(rest, []byte(" [")); i > 0 && rest[len(rest)-1] == ']' {
		rest, module = bytes.TrimSpace(rest[:i]), baseName(rest[i+2:len(rest)-1])
	}
	if i := bytes.LastIndexByte(rest, '/'); i > 0 && bytes.HasPrefix(rest[i+1:], []byte("0x")) &&
		isHex(rest[i+3:]) {
		rest = rest[:i]
	}
	if rest = cutOffset(rest); len(rest) == 0 || bytes.HasPrefix(rest, []byte("0x")) {
		rest = append(append([]byte{'['}, firstNonEmpty(module, []byte("unknown"))...), ']')
	}
	return rest, module, true
}

func firstNonEmpty(a, b []byte) []byte {
	if len(a) > 0 {
		return a
	}
	return b
}

// functions appends the functions of a frame, innermost first.
func (d *dtraceLines) functions(out []uint32, b []byte) []uint32 {
	if name, ok := bccProcess(b); ok {
		return append(out, d.b.Function(replaced(slices.Clone(name), ';', ':'), nil, Process))
	}
	if name, module, ok := stapFrame(b); ok {
		kind := Code
		if string(module) == "kernel" {
			kind = Kernel
		}
		return append(out, d.b.Function(replaced(slices.Clone(name), ';', ':'), module, kind))
	}
	frame := b
	offset := []byte(nil)
	if i := bytes.LastIndexByte(frame, '+'); i > 0 {
		frame, offset = frame[:i], frame[i:]
	}
	if i := bytes.Index(frame, []byte("::")); i >= 0 { // arguments and template parameters of C++
		if j := bytes.LastIndexAny(frame[i+2:], "(<"); j >= 0 {
			frame = frame[:i+2+j]
		}
	}
	module, name, both := bytes.Cut(frame, []byte("`"))
	if both {
		name = withoutRust(bytes.TrimRight(name, " "))
		frame = append(append(slices.Clone(module), '`'), name...)
	} else {
		module = nil
	}
	if d.o.Offsets {
		frame = append(slices.Clone(frame), offset...)
	}
	if len(frame) == 0 {
		frame = []byte("-")
	}
	for i := 0; ; i++ {
		one, rest, more := cutInlined(frame)
		text := replaced(slices.Clone(one), ';', ':')
		if !both || i > 0 { // of Java
			text = bytes.TrimPrefix(text, []byte("L"))
		}
		kind := Code
		switch {
		case i > 0:
			kind = Inlined
			text = append(text, "_[i]"...)
		case string(module) == "vmlinux" || string(module) == "unix" || string(module) == "genunix":
			kind = Kernel
		}
		out = append(out, d.b.Function(text, module, kind))
		if !more {
			break
		}
		frame = rest
	}
	slices.Reverse(out)
	return out
}

func (d *dtraceLines) end(lines int) (*Tree, error) {
	if len(d.stack) > 0 && d.block {
		return nil, &ParseError{Line: d.started,
			What: "the stack that begins here has no count: the input is cut off"}
	}
	t := d.b.Tree()
	if t.Sum() == 0 && d.wrong.lines == 0 {
		return nil, &ParseError{Line: max(1, lines), What: "no stacks in it"}
	}
	return d.wrong.report(t, lines)
}
