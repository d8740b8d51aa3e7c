package irtest

import (
	"encoding/binary"
	"fmt"

	"culprit/lang/check"
	"culprit/lang/ir"
)

func bytesOf[T any](n int, v T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// at returns the script's memory at a place; nil for thread-local memory that the thread lacks.
func (m *Machine) at(p ir.Mem, size int) []byte {
	var all []byte
	off := p.Off
	switch p.Base {
	case ir.InScratch:
		all = m.scratch
	case ir.InGlobals:
		all = m.Globals
	case ir.InLiteral:
		all = m.literals
	case ir.InSelf:
		if m.Self[m.TID] == nil {
			m.Self[m.TID] = make([]byte, m.Program.Self)
		}
		all = m.Self[m.TID]
	case ir.InValue:
		for _, v := range m.values {
			if v.Address == m.regs[p.Reg] {
				all = v.Data
			}
		}
		if all == nil {
			panic(fmt.Sprintf("%v is no element", p))
		}
	}
	return all[off : off+size]
}

// address returns the address of a place, for reading.
func (m *Machine) address(p ir.Mem) uint64 {
	off := uint64(p.Off)
	switch p.Base {
	case ir.InScratch:
		return scratchAt + off
	case ir.InGlobals:
		return globalsAt + off
	case ir.InLiteral:
		return literalsAt + off
	case ir.InSelf:
		m.at(p, 0)
		return selfAt + off
	}
	return m.regs[p.Reg] + off
}

// read returns up to n bytes at an address, fewer where the memory ends; none: the address is
// invalid.
func (m *Machine) read(space check.Space, address uint64, n int) []byte {
	own := []Segment{
		{scratchAt, m.scratch},
		{globalsAt, m.Globals},
		{selfAt, m.Self[m.TID]},
		{literalsAt, m.literals},
	}
	for _, v := range m.values {
		own = append(own, Segment(*v))
	}
	in := append(own, m.Kernel...)
	if space == check.User {
		in = m.User
	}
	for _, s := range in {
		if address >= s.Address && address-s.Address < uint64(len(s.Data)) {
			off := int(address - s.Address)
			return s.Data[off:min(len(s.Data), off+n)]
		}
	}
	return nil
}

// poke returns the n bytes at an address, if a program may write there.
func (m *Machine) poke(address uint64, n int) []byte {
	for _, s := range []Segment{
		{scratchAt, m.scratch[:m.Program.This]},
		{scratchAt + uint64(m.Program.Alloca.Off), m.scratch[m.Program.Alloca.Off:][:m.Program.Alloca.Size]},
		{globalsAt, m.Globals},
	} {
		if address >= s.Address && address+uint64(n) <= s.Address+uint64(len(s.Data)) {
			return s.Data[address-s.Address:][:n]
		}
	}
	return nil
}

// number reads a number of len(b) bytes.
func number(b []byte, signed bool) uint64 {
	var v [8]byte
	copy(v[:], b)
	return extend(binary.LittleEndian.Uint64(v[:]), len(b), signed)
}

func extend(v uint64, size int, signed bool) uint64 {
	shift := 64 - 8*size
	if signed {
		return uint64(int64(v) << shift >> shift)
	}
	return v << shift >> shift
}

func putNumber(b []byte, v uint64) {
	var all [8]byte
	binary.LittleEndian.PutUint64(all[:], v)
	copy(b, all[:])
}
