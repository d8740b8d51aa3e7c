package profile

import (
	"bytes"
	"slices"
	"strings"
)

// functions appends the functions of a line, innermost first: a name can contain inlined functions,
// a->b->c.
func (p *perfLines) functions(out []uint32, b []byte) ([]uint32, bool) {
	address, name, file, ok := parseAnyFrame(b)
	if !ok {
		return out, false
	}
	if name = cutOffset(name); len(name) > 0 && name[0] == '(' {
		return out, true // the name of a process
	}
	if len(name) == 0 {
		name = []byte(" ")
	}
	name = withoutRust(name)
	kind := kindByFile(file)
	module := baseName(file)
	if kind == Inlined || string(file) == "[unknown]" {
		module = nil
	}
	first := len(out)
	for i := 0; ; i++ {
		one, rest, more := cutInlined(name)
		text := p.text[:0]
		switch {
		case string(one) != "[unknown]":
			text = append(text, withoutArguments(one)...)
		case string(file) == "[unknown]" && !p.o.Addresses:
			text = append(text, one...)
		default:
			known := baseName(file)
			if string(file) == "[unknown]" {
				known = []byte("unknown")
			}
			text = append(append(text, '['), known...)
			if p.o.Addresses {
				text = append(append(append(text, " <"...), address...), '>')
			}
			text = append(text, ']')
		}
		replaced(text, ';', ':')
		if p.java && len(text) > 0 && text[0] == 'L' && bytes.IndexByte(text, '/') >= 0 {
			text = text[:copy(text, text[1:])]
		}
		k := kind
		switch {
		case i > 0:
			k = Inlined
			if !bytes.Contains(text, []byte("_[i]")) {
				text = append(text, "_[i]"...)
			}
		case p.o.Marks && kind == Kernel && !bytes.HasPrefix(file, []byte("bpf_prog_")):
			text = append(text, "_[k]"...)
		case p.o.Marks && kind == JIT && !bytes.Contains(text, []byte("_[j]")):
			text = append(text, "_[j]"...)
		}
		out = append(out, p.b.Function(text, module, k))
		p.text = text[:0]
		if !more {
			break
		}
		name = rest
	}
	slices.Reverse(out[first:])
	return out, true
}

// eventUnit returns the unit of an event's period: its name without modifiers, cycles for cycles:u.
// Tracepoints have a colon in their names, sched:sched_switch.
func eventUnit(event string) string {
	name, modifiers, _ := strings.Cut(event, ":")
	if strings.Trim(modifiers, "ukhGHpPSDIWeb") != "" {
		name = event
	}
	switch name {
	case "cpu-clock", "task-clock":
		return "ns"
	case "":
		return "samples"
	}
	return name
}
