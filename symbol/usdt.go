package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"runtime"
	"strconv"
	"strings"
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

// Place of an argument.
type Where uint8

// The places.
const (
	Nowhere    Where = iota // not to be had: see Why
	InConstant              // Number is it
	InRegister              // Register, from bit Shift on
	InMemory                // at Number + Register + Index * Scale
	AtAddress               // Number is it, above where the file is loaded
)

// An Argument is the location of a probe's argument when it fires.
type Argument struct {
	Where  Where
	Size   int // bytes: 1, 2, 4, 8
	Signed bool
	Number int64
	// the whole register: "rax", "x0"; "" none. "pc" means the load address, from which Number
	// counts
	Register string
	Shift    int
	Index    string
	Scale    int64
	Why      string // why it is Nowhere
}

// MostArguments is how many arguments of a probe are parsed.
const MostArguments = 64

// parse parses the arguments of a note as the compiler for a machine (GOARCH) writes them. symbol
// returns the address of a variable of the file. An argument that is not understood is Nowhere.
func (n *textNote) parse(arch string, symbol func(string) (uint64, bool)) []Argument {
	var out []Argument
	for _, text := range splitArguments(n.args) {
		if len(out) == MostArguments {
			break
		}
		out = append(out, parseArgument(text, arch, symbol))
	}
	return out
}

// splitArguments splits at blanks outside of brackets.
func splitArguments(s string) []string {
	var out []string
	depth, from := 0, 0
	cut := func(to int) {
		if to > from {
			out = append(out, s[from:to])
		}
		from = to + 1
	}
	for i := range len(s) {
		switch s[i] {
		case '[', '(':
			depth++
		case ']', ')':
			depth--
		case ' ', '\t':
			if depth <= 0 {
				cut(i)
			}
		}
	}
	cut(len(s))
	return out
}

func parseArgument(text, arch string, symbol func(string) (uint64, bool)) Argument {
	a := Argument{Size: 8}
	where := text
	size, rest, sized := strings.Cut(text, "@")
	if sized {
		where = rest
		digits, signed := strings.CutPrefix(size, "-")
		digits, float := strings.CutSuffix(digits, "f")
		switch n, err := strconv.Atoi(digits); {
		case err != nil || n != 1 && n != 2 && n != 4 && n != 8:
			return a.nowhere("its size isn't one of a number")
		case float:
			a.Size = n
			return a.nowhere("it is a floating-point number, whose register the kernel doesn't " +
				"show")
		default:
			a.Size, a.Signed = n, signed
		}
	}
	if symbol == nil {
		symbol = func(string) (uint64, bool) { return 0, false }
	}
	switch arch {
	case "amd64":
		return a.x86(where, 8, sized, symbol)
	case "386":
		if !sized {
			a.Size = 4
		}
		return a.x86(where, 4, sized, symbol)
	case "arm64":
		return a.arm64(where, sized)
	}
	return a.nowhere("arguments of " + arch + " are not understood")
}

func (a Argument) nowhere(why string) Argument {
	a.Where, a.Why = Nowhere, clean(why[:min(len(why), MostNoteText)])
	return a
}

// x86 parses an operand in AT&T syntax. word is the size of an address in bytes. sized: the
// operand's size is known already.
func (a Argument) x86(
	s string, word int, sized bool, symbol func(string) (uint64, bool),
) Argument {
	switch {
	case s == "":
		return a.nowhere("its place is not known")
	case s[0] == '$':
		n, relative, ok := sum(s[1:], symbol)
		if !ok {
			return a.nowhere("its constant is not understood")
		}
		a.Where, a.Number = InConstant, n
		if relative {
			a.Where = AtAddress
		}
		return a
	case s[0] == '%' && !strings.ContainsRune(s, ':') && !strings.ContainsRune(s, '('):
		whole, size, shift, ok := registerAMD64(s[1:])
		if !ok || size > word || word == 4 && newRegister(whole) {
			return a.nowhere("the kernel doesn't show the register " + s)
		}
		if !sized {
			a.Size = size
		}
		a.Where, a.Register, a.Shift = InRegister, whole, shift
		return a
	case s[0] == '%':
		return a.nowhere("it is in memory of the thread's own (" + s + ")")
	}
	a.Where = InMemory
	number, inside, bracket := strings.Cut(s, "(")
	var relative, ok bool
	if a.Number, relative, ok = sum(number, symbol); !ok {
		return a.nowhere("the address " + s + " is not understood")
	}
	if relative {
		a.Register = "pc"
	}
	if !bracket {
		return a
	}
	inside, closed := strings.CutSuffix(inside, ")")
	if !closed {
		return a.nowhere("the address " + s + " is not understood")
	}
	parts := strings.Split(inside, ",")
	base := strings.TrimSpace(parts[0])
	switch whole, size, shift, ok := registerAMD64(strings.TrimPrefix(base, "%")); {
	case base == "%rip":
		if !relative {
			return a.nowhere("the address " + s + " is not understood")
		}
	case base == "" && len(parts) > 1:
	case !ok || size != word || shift != 0 || relative:
		return a.nowhere("the address " + s + " is not understood")
	default:
		a.Register = whole
	}
	if len(parts) > 3 || base == "%rip" && len(parts) > 1 {
		return a.nowhere("the address " + s + " is not understood")
	}
	if len(parts) > 1 {
		whole, size, _, ok := registerAMD64(strings.TrimPrefix(strings.TrimSpace(parts[1]), "%"))
		if !ok || size != word || whole == "rsp" {
			return a.nowhere("the address " + s + " is not understood")
		}
		a.Index, a.Scale = whole, 1
	}
	if len(parts) > 2 {
		n, err := strconv.Atoi(strings.TrimSpace(parts[2]))
		if err != nil || n != 1 && n != 2 && n != 4 && n != 8 {
			return a.nowhere("the address " + s + " is not understood")
		}
		a.Scale = int64(n)
	}
	return a
}

// newRegister reports whether only 64-bit mode has a register: r8 to r15.
func newRegister(whole string) bool { return whole[1] >= '0' && whole[1] <= '9' }

// sum adds numbers and at most one variable: "-8", "0x10", "counter+4", "4+counter". "" is 0.
func sum(s string, symbol func(string) (uint64, bool)) (n int64, relative, ok bool) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		sign := int64(1)
		if s[0] == '-' || s[0] == '+' {
			if s[0] == '-' {
				sign = -1
			}
			s = s[1:]
		}
		end := strings.IndexAny(s, "+-")
		if end < 0 {
			end = len(s)
		}
		term := strings.TrimSpace(s[:end])
		s = s[end:]
		if term == "" {
			return 0, false, false
		}
		if term[0] >= '0' && term[0] <= '9' {
			v, err := strconv.ParseUint(term, 0, 64)
			if err != nil {
				return 0, false, false
			}
			n += sign * int64(v)
			continue
		}
		name, _, _ := strings.Cut(term, "@") // @GOTPCREL and the like lead elsewhere
		if name != term || relative || sign < 0 {
			return 0, false, false
		}
		addr, found := symbol(name)
		if !found {
			return 0, false, false
		}
		n, relative = n+int64(addr), true
	}
	return n, relative, true
}

// registerAMD64 returns the 64-bit register of which a register is a part, the part's bytes, and
// its lowest bit.
func registerAMD64(name string) (whole string, size, shift int, ok bool) {
	for _, r := range []string{"a", "b", "c", "d"} {
		switch name {
		case "r" + r + "x":
			return "r" + r + "x", 8, 0, true
		case "e" + r + "x":
			return "r" + r + "x", 4, 0, true
		case r + "x":
			return "r" + r + "x", 2, 0, true
		case r + "l":
			return "r" + r + "x", 1, 0, true
		case r + "h":
			return "r" + r + "x", 1, 8, true
		}
	}
	for _, r := range []string{"si", "di", "bp", "sp"} {
		switch name {
		case "r" + r:
			return "r" + r, 8, 0, true
		case "e" + r:
			return "r" + r, 4, 0, true
		case r:
			return "r" + r, 2, 0, true
		case r + "l":
			return "r" + r, 1, 0, true
		}
	}
	digits, found := strings.CutPrefix(name, "r")
	if !found {
		return "", 0, 0, false
	}
	size = 8
	if n := len(digits); n > 0 {
		switch digits[n-1] {
		case 'd':
			digits, size = digits[:n-1], 4
		case 'w':
			digits, size = digits[:n-1], 2
		case 'b', 'l':
			digits, size = digits[:n-1], 1
		}
	}
	switch digits {
	case "8", "9", "10", "11", "12", "13", "14", "15":
		return "r" + digits, size, 0, true
	}
	return "", 0, 0, false
}

// arm64 parses an operand in the syntax of arm64. sized: its size is known already.
func (a Argument) arm64(s string, sized bool) Argument {
	if n, err := strconv.ParseInt(strings.TrimPrefix(s, "#"), 0, 64); err == nil {
		a.Where, a.Number = InConstant, n
		return a
	}
	inside, bracket := strings.CutPrefix(s, "[")
	if !bracket {
		whole, size, ok := registerARM64(s)
		switch {
		case !ok:
			return a.nowhere("the kernel doesn't show the register " + s)
		case whole == "zr":
			a.Where, a.Number = InConstant, 0
			return a
		}
		if !sized {
			a.Size = size
		}
		a.Where, a.Register = InRegister, whole
		return a
	}
	inside, closed := strings.CutSuffix(inside, "]")
	parts := strings.Split(inside, ",")
	base, size, ok := registerARM64(strings.TrimSpace(parts[0]))
	not := a.nowhere("the address " + s + " is not understood")
	if !closed || !ok || size != 8 || base == "zr" || len(parts) > 3 {
		return not
	}
	a.Where, a.Register = InMemory, base
	if len(parts) == 1 {
		return a
	}
	second := strings.TrimSpace(parts[1])
	if n, err := strconv.ParseInt(strings.TrimPrefix(second, "#"), 0, 64); err == nil {
		if len(parts) > 2 {
			return not
		}
		a.Number = n
		return a
	}
	index, size, ok := registerARM64(second)
	if !ok || size != 8 || index == "zr" || index == "sp" {
		return not
	}
	a.Index, a.Scale = index, 1
	if len(parts) == 3 {
		shift, ok := strings.CutPrefix(strings.TrimSpace(parts[2]), "lsl ")
		n, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(shift), "#"))
		if !ok || err != nil || n < 0 || n > 4 {
			return not
		}
		a.Scale = 1 << n
	}
	return a
}

// registerARM64 returns the 64-bit register that a register is or is half of, and its bytes. zr is
// always 0.
func registerARM64(name string) (whole string, size int, ok bool) {
	switch name {
	case "sp":
		return "sp", 8, true
	case "xzr":
		return "zr", 8, true
	case "wzr":
		return "zr", 4, true
	case "fp":
		return "x29", 8, true
	case "lr":
		return "x30", 8, true
	}
	if len(name) < 2 || name[0] != 'x' && name[0] != 'w' || name[1] == '0' && len(name) > 2 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(name[1:], 10, 8)
	if err != nil || n > 30 {
		return "", 0, false
	}
	size = 8
	if name[0] == 'w' {
		size = 4
	}
	return fmt.Sprintf("x%d", n), size, true
}
