package symbol

import "encoding/binary"

// Programs of Go keep frame pointers, except in functions without a frame and in the first and last
// instructions of all others. There the frame pointer is still the caller's, and a walk by it loses
// the caller. The table of functions (.gopclntab) has how far the stack pointer is from where it was
// at the call, for each instruction. Rows are made of the instructions that need one; what has the
// rule of none is walked by frame pointers.
//
//	leaf:  XORQ AX, CX      0    the caller's address is at SP
//	       RET              0
//	other: PUSHQ BP         0
//	       MOVQ SP, BP      8    the caller's frame pointer is at SP, its address above it
//	       SUBQ $16, SP     8
//	       CALL leaf       24    by frame pointer
var (
	goNoFrame = UnwindRule{CFA: CFASP, Offset: 8}                              // table: never changed
	goPushed  = UnwindRule{CFA: CFASP, Offset: 16, BP: BPAtCFA, BPOffset: -16} // table: never changed
)

const (
	// maxGoTable is the size of a .gopclntab up to which it is read.
	maxGoTable = 48 << 20
	// goSPWrite and goTopFrame are flags of a function (internal/abi, FuncFlag): it changes to
	// another stack, or has no caller.
	goTopFrame, goSPWrite = 1, 2
)

// goRows returns the rows of a program of Go by its table of functions, in order, and where its code
// begins and ends; nil: it has no such table of a known version.
func (h *header) goRows(row func(pc uint32, rule UnwindRule) error) error {
	g := h.goTable()
	if g == nil || g.size > maxGoTable || g.n == 0 {
		return nil
	}
	b, err := h.read(g.at, g.size)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	pctab := le.Uint64(b[8+8*6:])
	flagAt := uint64(37) // behind nine words and funcID
	if le.Uint32(b) == 0xfffffff1 {
		flagAt += 4 // Go 1.20 added startLine
	}
	if pctab > g.size || 8*g.n+4 > g.size-g.funcs {
		return errUnwind
	}
	funcs := b[g.funcs:]
	last := UnwindRule{CFA: CFAOther}
	put := func(pc uint64, rule UnwindRule) error {
		if rule == last || pc > 1<<32-1 {
			return nil
		}
		last = rule
		return row(uint32(pc), rule)
	}
	before := uint64(0)
	for i := range g.n {
		start, end := g.text+uint64(le.Uint32(funcs[8*i:])), g.text+uint64(le.Uint32(funcs[8*i+8:]))
		at := uint64(le.Uint32(funcs[8*i+4:]))
		if at > uint64(len(funcs)) || flagAt >= uint64(len(funcs))-at || start < before || end < start {
			return errUnwind
		}
		before = start
		f := funcs[at:]
		if f[flagAt]&(goTopFrame|goSPWrite) != 0 {
			err = put(start, UnwindRule{})
		} else if pcsp := pctab + uint64(le.Uint32(f[16:])); pcsp > pctab && pcsp < g.size {
			err = goFunction(b[pcsp:], start, end, put)
		} else {
			err = put(start, UnwindRule{})
		}
		if err != nil {
			return err
		}
		if i == g.n-1 {
			return put(end, UnwindRule{})
		}
	}
	return nil
}

// goFunction reads the table of a function, which has pairs of how the distance of the stack pointer
// changes and for how many bytes it holds then.
func goFunction(table []byte, pc, end uint64, put func(uint64, UnwindRule) error) error {
	distance := int64(-1)
	for first := true; pc < end; first = false {
		change, n := binary.Uvarint(table)
		if n <= 0 || change == 0 && !first {
			return nil
		}
		table = table[n:]
		length, n := binary.Uvarint(table)
		if n <= 0 || length == 0 || length > end-pc {
			return nil
		}
		table = table[n:]
		distance += int64(change>>1) ^ -int64(change&1)
		rule := UnwindRule{}
		switch distance {
		case 0:
			rule = goNoFrame
		case 8:
			rule = goPushed
		}
		if err := put(pc, rule); err != nil {
			return err
		}
		pc += length
	}
	return nil
}

// withGo merges the rows of a program's C code, which come from read in order, with those of its
// code of Go, which lies in one piece.
func (h *header) withGo(row func(uint32, UnwindRule) error, read func(func(uint32, UnwindRule) error) error) error {
	g := h.goTable()
	if g == nil || g.n == 0 {
		return read(row)
	}
	begun := false
	end := uint32(0)
	all := func() error {
		begun = true
		return h.goRows(func(pc uint32, rule UnwindRule) error {
			end = pc
			return row(pc, rule)
		})
	}
	err := read(func(pc uint32, rule UnwindRule) error {
		if uint64(pc) >= g.text && !begun {
			if err := all(); err != nil {
				return err
			}
		}
		if begun && pc < end {
			return nil
		}
		return row(pc, rule)
	})
	if err == nil && !begun {
		err = all()
	}
	return err
}
