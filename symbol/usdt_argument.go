package symbol

import (
	"fmt"
	"strconv"
	"strings"
)

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
