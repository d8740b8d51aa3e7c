package symbol

import (
	"encoding/binary"

	"culprit/symbol/unwind"
	"culprit/symbol/window"
)

// Programs of Go keep frame pointers, except in functions without a frame and in the first and last
// instructions of all others. There the frame pointer is still the caller's, and a walk by it loses
// the caller. The table of functions (.gopclntab) has how far the stack pointer is from where it
// was at the call, for each instruction. Rows are made of the instructions that need one; what has
// the rule of none is walked by frame pointers.
//
//	leaf:  XORQ AX, CX      0    the caller's address is at SP
//	       RET              0
//	other: PUSHQ BP         0
//	       MOVQ SP, BP      8    the caller's frame pointer is at SP, its address above it
//	       SUBQ $16, SP     8
//	       CALL leaf       24    by frame pointer
var (
	// table: never changed
	goNoFrame = unwind.Rule{CFA: unwind.CFASP, Offset: 8}
	// table: never changed
	goPushed = unwind.Rule{CFA: unwind.CFASP, Offset: 16, BP: unwind.BPAtCFA, BPOffset: -16}
)

const (
	// goStepPages is how many pages of the steps are kept: functions with the same steps share
	// them, so they are read in no order. A program of 36 MB, of which 12 are the table, takes 37
	// ms of CPU time with 2 pages, 18 with 16 and 12 with 32.
	goStepPages = 32
	// goSPWrite and goTopFrame are flags of a function (internal/abi, FuncFlag): it changes to
	// another stack, or has no caller.
	goTopFrame, goSPWrite = 1, 2
)

// goRows passes on the rows of a Go program by its function table, in order; none: it has no table
// of a known version. The table, which has megabytes, is read by pages.
func (h *header) goRows(row func(pc uint32, rule unwind.Rule) error) error {
	g := h.goTable()
	if g == nil || g.n == 0 {
		return nil
	}
	if g.at > h.size || g.size > h.size-g.at || 8*g.n+4 > g.size-g.funcs {
		return unwind.ErrMalformed
	}
	open := func(pages int) *window.Window {
		w := window.New(pages)
		w.Over(h.r, int64(g.at), g.size, nil)
		return w
	}
	list, info := open(2), open(2)
	head := list.Bytes(0, 72)
	if head == nil {
		return unwind.ErrMalformed
	}
	le := binary.LittleEndian
	s := goSteps{w: open(goStepPages), pctab: le.Uint64(head[8+8*6:]),
		last: unwind.Rule{CFA: unwind.CFAOther}, row: row}
	flagAt := uint64(37) // behind nine words and funcID
	if le.Uint32(head) == 0xfffffff1 {
		flagAt += 4 // Go 1.20 added startLine
	}
	if s.pctab > g.size {
		return unwind.ErrMalformed
	}
	before, end := uint64(0), uint64(0)
	for i := range g.n {
		entry := list.Bytes(g.funcs+8*i, 12)
		if entry == nil {
			return unwind.ErrMalformed
		}
		start, at := g.text+uint64(le.Uint32(entry)), uint64(le.Uint32(entry[4:]))
		end = g.text + uint64(le.Uint32(entry[8:]))
		if at > g.size-g.funcs || flagAt >= g.size-g.funcs-at || start < before || end < start {
			return unwind.ErrMalformed
		}
		before = start
		f := info.Bytes(g.funcs+at, flagAt+1)
		if f == nil {
			return unwind.ErrMalformed
		}
		pcsp := uint64(le.Uint32(f[16:]))
		if f[flagAt]&(goTopFrame|goSPWrite) != 0 || pcsp == 0 || pcsp >= g.size-s.pctab {
			pcsp = 0
		}
		if err := s.function(pcsp, start, end); err != nil {
			return err
		}
	}
	return s.put(end, unwind.Rule{})
}

// goSteps makes rows of the steps of functions: pairs of a change of the stack pointer's distance
// and the number of bytes for which it holds.
type goSteps struct {
	w     *window.Window
	pctab uint64 // where the steps of all functions begin
	last  unwind.Rule
	row   func(uint32, unwind.Rule) error
}

// put passes on a row unless it is equal to the one before.
func (s *goSteps) put(pc uint64, rule unwind.Rule) error {
	if rule == s.last || pc > 1<<32-1 {
		return nil
	}
	s.last = rule
	return s.row(uint32(pc), rule)
}

// number reads a number of the steps; n 0: there is none.
func (s *goSteps) number(at uint64) (v uint64, n int) {
	if at >= s.w.Size() {
		return 0, 0
	}
	v, n = binary.Uvarint(s.w.Bytes(at, min(binary.MaxVarintLen32, s.w.Size()-at)))
	return v, max(n, 0)
}

// function passes on the rows of a function whose steps begin at pcsp; 0: it has none.
func (s *goSteps) function(pcsp, pc, end uint64) error {
	if pcsp == 0 {
		return s.put(pc, unwind.Rule{})
	}
	distance, at := int64(-1), s.pctab+pcsp
	for first := true; pc < end; first = false {
		change, n := s.number(at)
		if n == 0 || change == 0 && !first {
			return nil
		}
		at += uint64(n)
		length, n := s.number(at)
		if n == 0 || length == 0 || length > end-pc {
			return nil
		}
		at += uint64(n)
		distance += int64(change>>1) ^ -int64(change&1)
		rule := unwind.Rule{}
		switch distance {
		case 0:
			rule = goNoFrame
		case 8:
			rule = goPushed
		}
		if err := s.put(pc, rule); err != nil {
			return err
		}
		pc += length
	}
	return nil
}

// withGo merges the rows of a program's C code, which read passes on in order, with those of its Go
// code, which is contiguous.
func (h *header) withGo(row func(uint32, unwind.Rule) error,
	read func(func(uint32, unwind.Rule) error) error) error {
	g := h.goTable()
	if g == nil || g.n == 0 {
		return read(row)
	}
	begun := false
	end := uint32(0)
	all := func() error {
		begun = true
		return h.goRows(func(pc uint32, rule unwind.Rule) error {
			end = pc
			return row(pc, rule)
		})
	}
	err := read(func(pc uint32, rule unwind.Rule) error {
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
