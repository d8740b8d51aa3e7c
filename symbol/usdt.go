package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"runtime"
)

// A Note is one place of a static probe in a program (USDT): SystemTap's .note.stapsdt or DTrace's
// .note.usdt.
type Note struct {
	Provider, Name string // as they are in the file: __ is -
	Address        uint64 // of the instruction
	Semaphore      uint64 // of the 16 bits that say how many watch; 0: there are none
	// not the probe: what asks whether somebody watches, and wants a 1 at the address in its
	// argument
	Enabled   bool
	Arguments []Argument
	// Types are those of the arguments as D has them, and Map which of Arguments each is; nil: the
	// file doesn't tell.
	Types []string
	Map   []int
}

// A textNote is a note as it is in the file.
type textNote struct {
	Note
	args string // as the compiler wrote them: "-4@%edi 8@-16(%rbp)"
}

const (
	maxProbeNotes = 4 << 20 // bytes of notes about probes
	typeStapsdt   = 3
	typeProbe     = 1
	typeEnabled   = 2
)

// readNotes reads the static probes of a file in the order of its notes. The error is that of the
// file, or ErrTooLong.
func readNotes(h *header) ([]Note, error) {
	list := &noteList{described: map[[2]string]typedProbe{}}
	for i := range h.secs {
		if h.nameOf(&h.secs[i]) == ".stapsdt.base" {
			list.base = h.secs[i].addr
		}
	}
	left := uint64(maxProbeNotes)
	for i := range h.secs {
		s := &h.secs[i]
		name := h.nameOf(s)
		if s.kind != uint32(elf.SHT_NOTE) || name != ".note.stapsdt" && name != ".note.usdt" {
			continue
		}
		b, err := h.readBounded(s, left)
		if err != nil {
			return nil, err
		}
		left -= uint64(len(b))
		eachNote(b, func(owner string, kind uint32, desc []byte) {
			list.add(h.wide, owner, kind, desc)
		})
	}
	arch := runtime.GOARCH
	if h.class() == I386 {
		arch = "386"
	}
	return list.finish(arch, h.variables)
}

// A noteList is the static probes of a file.
type noteList struct {
	base      uint64 // address of section .stapsdt.base; 0: there is none
	all       []textNote
	described map[[2]string]typedProbe // by provider and name
	cut       bool                     // there are more than MostNotes
}

// add adds a note if it is one of a probe.
func (l *noteList) add(wide bool, owner string, kind uint32, desc []byte) {
	var n textNote
	ok := false
	switch {
	case owner == "stapsdt" && kind == typeStapsdt:
		n, ok = parseStapsdt(desc, wide, l.base)
	case owner == "usdt" && (kind == typeProbe || kind == typeEnabled):
		n, ok = parseUSDT(desc, kind == typeEnabled)
	case owner == "prov" && kind == typeProbe:
		parseProvider(desc, l.described)
	}
	switch {
	case !ok || len(n.Provider) > MostNoteText || len(n.Name) > MostNoteText:
	case len(l.all) == MostNotes:
		l.cut = true
	default:
		n.Provider, n.Name = clean(n.Provider), clean(n.Name)
		l.all = append(l.all, n)
	}
}

// finish adds types and arguments. variables returns the addresses of variables of the file by
// name, as far as it has them.
func (l *noteList) finish(arch string, variables func(map[string]bool) map[string]uint64) (
	[]Note, error) {
	if l.cut {
		return nil, ErrTooLong
	}
	names := map[string]bool{}
	for i := range l.all {
		l.all[i].parse(arch, func(name string) (uint64, bool) {
			if len(name) <= maxVariable && len(names) < MostNotes {
				names[name] = true
			}
			return 0, false
		})
	}
	var known map[string]uint64
	if len(names) > 0 {
		known = variables(names)
	}
	out := make([]Note, 0, len(l.all))
	operands := 0
	for i := range l.all {
		n := &l.all[i]
		n.Arguments = n.parse(arch, func(name string) (uint64, bool) {
			addr, ok := known[name]
			return addr, ok
		})
		if d, ok := l.described[[2]string{n.Provider, n.Name}]; ok && !n.Enabled &&
			n.Semaphore == 0 {
			n.Types, n.Map = d.types, d.from
		}
		if operands += len(n.Arguments) + len(n.Types); operands > MostOperands {
			return nil, ErrTooLong
		}
		out = append(out, n.Note)
	}
	return out, nil
}

// eachNote calls each with every note of a section.
func eachNote(b []byte, each func(owner string, kind uint32, desc []byte)) {
	for len(b) >= 12 {
		le := binary.LittleEndian
		name, desc, kind := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), le.Uint32(b[8:])
		b = b[12:]
		from := (name + 3) &^ 3
		if from > uint64(len(b)) || desc > uint64(len(b))-from {
			return
		}
		owner, _, _ := bytes.Cut(b[:name], []byte{0})
		each(string(owner), kind, b[from:from+desc])
		b = b[min(uint64(len(b)), from+(desc+3)&^3):]
	}
}

// texts reads n strings that end with NUL.
func texts(b []byte, n int) (out []string, rest []byte, ok bool) {
	for range n {
		text, after, found := bytes.Cut(b, []byte{0})
		if !found || len(text) > 1<<16 {
			return nil, nil, false
		}
		out = append(out, string(text))
		b = after
	}
	return out, b, true
}

// parseStapsdt parses a note of SystemTap: three addresses, provider, name, arguments. The second
// address is that of section .stapsdt.base at link time; a later move of the program moves both.
func parseStapsdt(b []byte, wide bool, base uint64) (n textNote, ok bool) {
	word := 4
	if wide {
		word = 8
	}
	if len(b) < 3*word {
		return n, false
	}
	read := func(i int) uint64 {
		if wide {
			return binary.LittleEndian.Uint64(b[8*i:])
		}
		return uint64(binary.LittleEndian.Uint32(b[4*i:]))
	}
	n.Address, n.Semaphore = read(0), read(2)
	if was := read(1); base != 0 && was != 0 {
		n.Address += base - was
		if n.Semaphore != 0 {
			n.Semaphore += base - was
		}
	}
	t, _, ok := texts(b[3*word:], 3)
	if !ok || t[0] == "" || t[1] == "" {
		return n, false
	}
	n.Provider, n.Name, n.args = t[0], t[1], t[2]
	return n, true
}

// parseUSDT parses a note of DTrace: the address, that of the function's name, provider, name, a
// byte with the number of arguments, and the arguments.
func parseUSDT(b []byte, enabled bool) (n textNote, ok bool) {
	if len(b) < 16 {
		return n, false
	}
	n.Address, n.Enabled = binary.LittleEndian.Uint64(b), enabled
	t, rest, ok := texts(b[16:], 2)
	if !ok || t[0] == "" || t[1] == "" || len(rest) < 1 {
		return n, false
	}
	n.Provider, n.Name = t[0], t[1]
	args, _, ok := texts(rest[1:], 1)
	if !ok {
		return n, false
	}
	n.args = args[0]
	return n, true
}

// A typedProbe is the types that DTrace knows of a probe's arguments.
type typedProbe struct {
	types []string
	from  []int
}

// parseProvider parses DTrace's description of a provider: its name, five stabilities of four
// bytes, the number of probes. Each probe, aligned to four, has a name, a byte with the number of
// arguments of the code and their types, a byte with the number of those of D, and for each of
// these its type and the index of the code's argument.
func parseProvider(b []byte, into map[[2]string]typedProbe) {
	name, _, ok := texts(b, 1)
	if !ok {
		return
	}
	at := (len(name[0])+1+3)&^3 + 20
	if at+4 > len(b) {
		return
	}
	count := binary.LittleEndian.Uint32(b[at:])
	at += 4
	for range count {
		if at >= len(b) || len(into) >= MostNotes {
			return
		}
		probe, rest, ok := texts(b[at:], 1)
		if !ok || len(rest) < 1 {
			return
		}
		_, rest, ok = texts(rest[1:], int(rest[0]))
		if !ok || len(rest) < 1 {
			return
		}
		d := typedProbe{types: []string{}, from: []int{}}
		n := int(rest[0])
		rest = rest[1:]
		for range n {
			t, after, ok := texts(rest, 1)
			if !ok || len(after) < 1 {
				return
			}
			d.types = append(d.types, clean(t[0][:min(len(t[0]), MostNoteText)]))
			d.from = append(d.from, int(after[0]))
			rest = after[1:]
		}
		into[[2]string{name[0], probe[0]}] = d
		at = (len(b) - len(rest) + 3) &^ 3
	}
}
