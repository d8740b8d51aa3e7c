package irtest

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"path"
	"strconv"
	"strings"

	"culprit/lang/check"
	"culprit/lang/ir"
)

// call executes a subroutine, as defined in lang/ir's calls.go.
func (m *Machine) call(s *ir.Step) *fault {
	reg := func(r ir.Reg, absent int64) int64 {
		if r == ir.None {
			return absent
		}
		return int64(m.regs[r])
	}
	a := reg(s.A, 0)
	give := func(v uint64) { m.regs[s.Dst] = v }
	text := func(t string) { setText(m.at(s.Mem, s.Size), t, s.Size-1) }
	found := func(t string, ok bool) {
		text(t)
		give(0)
		if ok {
			give(1)
		}
	}
	read := func(address int64, n int) ([]byte, *fault) {
		got := m.read(s.Space, uint64(address), n)
		if len(got) < n {
			return nil, &fault{ir.FaultBadAddr, uint64(address)}
		}
		return got, nil
	}
	switch s.Sub {
	case check.SubStrlen:
		give(uint64(len(m.textAt(s.From))))
	case check.SubStrjoin:
		text(m.textAt(s.From) + m.textAt(s.From2))
	case check.SubLltostr:
		text(lltostr(a, int(reg(s.B, 10))))
	case check.SubStrtoll:
		give(uint64(strtoll(m.textAt(s.From), int(reg(s.A, 10)))))
	case check.SubBasename:
		text(basename(m.textAt(s.From)))
	case check.SubDirname:
		text(dirname(m.textAt(s.From)))
	case check.SubCleanpath:
		text(cleanpath(m.textAt(s.From)))
	case check.SubTolower:
		text(mapASCII(m.textAt(s.From), 'A', 'Z'))
	case check.SubToupper:
		text(mapASCII(m.textAt(s.From), 'a', 'z'))
	case check.SubSubstr:
		text(substr(m.textAt(s.From), a, s.B != ir.None, reg(s.B, 0)))
	case check.SubIndex:
		give(uint64(index(m.textAt(s.From), m.textAt(s.From2), reg(s.A, 0))))
	case check.SubRindex:
		t := m.textAt(s.From)
		give(uint64(rindex(t, m.textAt(s.From2), reg(s.A, int64(len(t))))))
	case check.SubStrchr, check.SubStrrchr:
		t := m.textAt(s.From)
		i := strings.IndexByte(t, byte(a))
		if s.Sub == check.SubStrrchr {
			i = strings.LastIndexByte(t, byte(a))
		}
		if byte(a) == 0 {
			i = len(t)
		}
		if i < 0 {
			found("", false)
		} else {
			found(t[i:], true)
		}
	case check.SubStrstr:
		t := m.textAt(s.From)
		if i := strings.Index(t, m.textAt(s.From2)); i >= 0 {
			found(t[i:], true)
		} else {
			found("", false)
		}
	case check.SubStrtok:
		found(m.strtok(s))
	case check.SubInetNtoa:
		got, failed := read(a, 4)
		if failed != nil {
			return failed
		}
		text(netip.AddrFrom4([4]byte(got)).String())
	case check.SubInetNtoa6:
		got, failed := read(a, 16)
		if failed != nil {
			return failed
		}
		text(ntop6([16]byte(got), s.N == 0))
	case check.SubInetNtop:
		n := map[int64]int{2: 4, 10: 16}[a] // AF_INET, AF_INET6
		if n == 0 {
			return &fault{ir.FaultIllOp, 0}
		}
		got, failed := read(reg(s.B, 0), n)
		if failed != nil {
			return failed
		}
		if n == 4 {
			text(netip.AddrFrom4([4]byte(got)).String())
		} else {
			text(ntop6([16]byte(got), false))
		}
	case check.SubLinkNtop:
		n := map[int64]int{1: 6, 32: 20}[a] // ARPHRD_ETHER, ARPHRD_INFINIBAND
		if n == 0 {
			return &fault{ir.FaultIllOp, 0}
		}
		got, failed := read(reg(s.B, 0), n)
		if failed != nil {
			return failed
		}
		var parts []string
		for _, b := range got {
			parts = append(parts, fmt.Sprintf("%02x", b))
		}
		text(strings.Join(parts, ":"))
	case check.SubHtons, check.SubNtohs:
		give(uint64(bits.ReverseBytes16(uint16(a))))
	case check.SubHtonl, check.SubNtohl:
		give(uint64(bits.ReverseBytes32(uint32(a))))
	case check.SubHtonll, check.SubNtohll:
		give(bits.ReverseBytes64(uint64(a)))
	case check.SubRand:
		m.random = m.random*6364136223846793005 + 1442695040888963407
		give(m.random >> 32)
	case check.SubProgenyof:
		give(0)
		if uint32(a) == m.PID {
			give(1)
		}
	case check.SubBcopy:
		n := reg(s.C, 0)
		if n == 0 {
			return nil
		}
		if n < 0 || n > int64(m.Program.Scratch+m.Program.Globals) {
			return &fault{ir.FaultBadSize, uint64(n)}
		}
		to := m.poke(uint64(reg(s.B, 0)), int(n))
		if to == nil {
			if m.poke(uint64(reg(s.B, 0)), 1) != nil {
				return &fault{ir.FaultBadSize, uint64(n)}
			}
			return &fault{ir.FaultBadAddr, uint64(reg(s.B, 0))}
		}
		got, failed := read(a, int(n))
		if failed != nil {
			return failed
		}
		copy(to, append([]byte(nil), got...))
	default:
		panic(fmt.Sprintf("subroutine %d", s.Sub))
	}
	return nil
}

// act executes copyout and copyoutstr.
func (m *Machine) act(s *ir.Step) *fault {
	var from []byte
	switch check.ActionKind(s.N) {
	case check.Copyout:
		n := int(m.regs[s.C])
		if from = m.read(s.Space, m.regs[s.A], n); len(from) < n {
			return &fault{ir.FaultBadAddr, m.regs[s.A]}
		}
	case check.Copyoutstr:
		text := m.textAt(s.From) + "\x00"
		from = []byte(text[:min(uint64(len(text)), m.regs[s.C])])
	}
	if len(from) == 0 {
		return nil
	}
	to := m.read(check.User, m.regs[s.B], len(from))
	if len(to) < len(from) {
		return &fault{ir.FaultBadAddr, m.regs[s.B]}
	}
	copy(to, from)
	return nil
}

// mapASCII converts letters to those of the other case.
func mapASCII(s string, from, to byte) string {
	b := []byte(s)
	for i, c := range b {
		if c >= from && c <= to {
			b[i] ^= 0x20
		}
	}
	return string(b)
}

// lltostr formats numbers as DTrace does: signed only in base 10.
func lltostr(v int64, base int) string {
	switch {
	case base == 10:
		return strconv.FormatInt(v, 10)
	case base == 16:
		return "0x" + strconv.FormatUint(uint64(v), 16)
	case base == 8:
		return "0" + strconv.FormatUint(uint64(v), 8)
	case base < 2 || base > 36:
		return ""
	}
	return strconv.FormatUint(uint64(v), base)
}

// strtoll parses the number at the start of a string, as strtoll(3) does.
func strtoll(s string, base int) int64 {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	if base == 16 && len(s) > 2 && (s[:2] == "0x" || s[:2] == "0X") {
		s = s[2:]
	}
	var v uint64
	for i := 0; i < len(s); i++ {
		d := strings.IndexByte("0123456789abcdefghijklmnopqrstuvwxyz", s[i]|0x20&-(s[i]>>6&1))
		if d < 0 || d >= base {
			break
		}
		v = v*uint64(base) + uint64(d)
	}
	if negative {
		v = -v
	}
	return int64(v)
}

// ntop6 formats an IPv6 address, with an IPv4 address in it in dotted form; bare: only that.
func ntop6(b [16]byte, bare bool) string {
	a := netip.AddrFrom16(b)
	old := [12]byte(b[:12]) == [12]byte{} && (b[12] != 0 || b[13] != 0 || b[14] != 0 || b[15] > 1)
	switch four := netip.AddrFrom4([4]byte(b[12:])).String(); {
	case bare && (old || a.Is4In6()):
		return four
	case old:
		return "::" + four
	}
	return a.String()
}

func basename(s string) string {
	if s == "" {
		return "."
	}
	s = strings.TrimRight(s, "/")
	if s == "" {
		return "/"
	}
	return s[strings.LastIndexByte(s, '/')+1:]
}

func dirname(s string) string {
	t := strings.TrimRight(s, "/")
	if t == "" {
		if s == "" {
			return "."
		}
		return "/"
	}
	i := strings.LastIndexByte(t, '/')
	if i < 0 {
		return "."
	}
	if t = strings.TrimRight(t[:i], "/"); t == "" {
		return "/"
	}
	return t
}

// cleanpath removes //, /./ and name/../ from a path.
func cleanpath(s string) string {
	if s == "" {
		return ""
	}
	return path.Clean(s)
}

// substr is Perl's, which DTrace follows: a negative at counts from the end, and a negative n omits
// that many at the end.
func substr(s string, at int64, counted bool, n int64) string {
	if !counted {
		n = 1 << 32
	}
	if at < 0 {
		at += int64(len(s))
		if at < 0 && at+n > 0 {
			n += at
			at = 0
		}
	}
	if at < 0 || at >= int64(len(s)) {
		return ""
	}
	s = s[at:]
	if n < 0 {
		n += int64(len(s))
	}
	return s[:max(0, min(n, int64(len(s))))]
}

// index is Perl's.
func index(s, t string, from int64) int64 {
	from = max(0, from)
	if from >= int64(len(s)) {
		if t == "" {
			return int64(len(s))
		}
		return -1
	}
	if i := strings.Index(s[from:], t); i >= 0 {
		return from + int64(i)
	}
	return -1
}

// rindex is Perl's.
func rindex(s, t string, from int64) int64 {
	if from < 0 {
		if t == "" {
			return 0
		}
		return -1
	}
	from = min(from, int64(len(s)))
	return int64(strings.LastIndex(s[:min(from+int64(len(t)), int64(len(s)))], t))
}

// strtok continues in the string at From.
func (m *Machine) strtok(s *ir.Step) (string, bool) {
	state := m.at(s.From, 8+m.Program.StrSize)
	all := m.textAt(ir.Mem{Base: s.From.Base, Reg: s.From.Reg, Off: s.From.Off + 8})
	ends := m.textAt(s.From2)
	at := int(binary.NativeEndian.Uint64(state)) - 1
	rest := all[min(at, len(all)):]
	start := strings.TrimLeft(rest, ends)
	at = len(all) - len(start)
	token := start
	if i := strings.IndexAny(start, ends); i >= 0 && ends != "" {
		token = start[:i]
	}
	binary.NativeEndian.PutUint64(state, uint64(at+len(token))+1)
	return token, token != ""
}
