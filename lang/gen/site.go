package gen

import (
	"encoding/binary"
	"fmt"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// A table describes the probes of a program. It is a read-only element with rows of equal size: u32
// id, u32 0, and the texts that clauses use, zero-filled. For system calls, u16s by their number
// come first: the row, from 1; 0: not traced.
type table struct {
	name    string
	numbers int // number of u16
	first   int // offset of the rows
	row     int // bytes of a row
	text    map[check.BuiltinVar]field
}

// A field is a text of a row.
type field struct{ off, size int }

// part returns a probe's text.
func part(pr *check.Probe, which check.BuiltinVar) string {
	switch which {
	case check.BuiltinProbeProv:
		return pr.Provider
	case check.BuiltinProbeMod:
		return pr.Module
	case check.BuiltinProbeFunc:
		return pr.Function
	}
	return pr.Name
}

// textBuiltins returns the builtins that depend only on the probe.
func textBuiltins() [4]check.BuiltinVar {
	return [...]check.BuiltinVar{
		check.BuiltinProbeProv,
		check.BuiltinProbeMod,
		check.BuiltinProbeFunc,
		check.BuiltinProbeName,
	}
}

// identify determines the current probe, and leaves if it is none of ours.
func (b *builder) identify() error {
	syscalls := b.site == check.SiteSyscallEntry || b.site == check.SiteSyscallReturn
	if len(b.probes) == 1 {
		if syscalls {
			b.number()
			own := b.label()
			if p := b.probes[0]; p.Compat > 0 && b.k.Compat {
				b.ifImm(asm.JEq, asm.R0, int64(p.Compat), own, asm.R1)
			}
			b.ifImm(asm.JNE, asm.R0, int64(b.probes[0].Key), b.leave, asm.R1)
			b.bind(own)
		}
		return nil
	}
	b.makeTable(syscalls)
	t := &b.table
	if syscalls {
		b.number()
		b.ifImm(asm.JGE, asm.R0, int64(t.numbers), b.leave, asm.R1)
		b.mapValue(asm.R1, t.name, 0)
		b.add(asm.LSh.Imm(asm.R0, 1))
		b.alu(asm.Add, asm.R1, asm.R0)
		b.load(asm.R0, asm.R1, 0, 2, false)
		b.ifImm(asm.JEq, asm.R0, 0, b.leave, asm.R1)
		b.add(asm.Sub.Imm(asm.R0, 1))
	} else {
		if !b.k.Cookies {
			return fmt.Errorf("a program of several probes: %w", measure.ErrUnsupported)
		}
		b.code.Cookies = true
		b.load(asm.R1, asm.R10, slotCtx, 8, false)
		b.call(asm.FnGetAttachCookie)
	}
	b.ifImm(asm.JGE, asm.R0, int64(len(b.probes)), b.leave, asm.R1)
	b.aluImm(asm.Mul, asm.R0, int64(t.row), asm.R1)
	b.mapValue(asm.R1, t.name, t.first)
	b.alu(asm.Add, asm.R1, asm.R0)
	b.store(asm.R10, slotRow, asm.R1, 8)
	return nil
}

// makeTable makes the table of the probes.
func (b *builder) makeTable(syscalls bool) {
	t := &b.table
	t.name = fmt.Sprintf("probes%d", b.probes[0].ID)
	t.row = 8
	t.text = map[check.BuiltinVar]field{}
	for _, which := range textBuiltins() {
		if !b.asksFor(which) {
			continue
		}
		size := 0
		for _, pr := range b.probes {
			size = max(size, round8(len(part(pr, which))+1))
		}
		size = min(size, b.p.StrSize)
		t.text[which] = field{t.row, size}
		t.row += size
	}
	if syscalls {
		for _, pr := range b.probes {
			t.numbers = max(t.numbers, int(pr.Key)+1, int(pr.Compat)+1)
		}
		t.first = round8(2 * t.numbers)
	}
	value := make([]byte, t.first+t.row*len(b.probes))
	for i, pr := range b.probes {
		if syscalls {
			binary.NativeEndian.PutUint16(value[2*pr.Key:], uint16(i+1))
			if pr.Compat > 0 {
				binary.NativeEndian.PutUint16(value[2*pr.Compat:], uint16(i+1))
			}
		}
		row := value[t.first+i*t.row:]
		binary.NativeEndian.PutUint32(row, pr.ID)
		for which, f := range t.text {
			copy(row[f.off:f.off+f.size-1], part(pr, which))
		}
	}
	b.code.Maps = map[string]*ebpf.MapSpec{t.name: {
		Name: "culprit_probes", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(value)),
		MaxEntries: 1, Flags: flagReadOnly,
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: value}},
	}}
}

// asksFor reports whether a clause reads a text of the probe.
func (b *builder) asksFor(which check.BuiltinVar) bool {
	for _, n := range b.clauses {
		for _, bl := range b.p.Clauses[n].Blocks {
			for i := range bl.Steps {
				if s := &bl.Steps[i]; s.Op == ir.OpBuiltinStr && s.Which == which {
					return true
				}
			}
		}
	}
	return false
}

// probeID leaves the id of the probe in dst.
func (b *builder) probeID(dst asm.Register) {
	if len(b.probes) == 1 {
		b.movImm(dst, int64(b.probes[0].ID))
		return
	}
	b.load(dst, asm.R10, slotRow, 8, false)
	b.load(dst, dst, 0, 4, false)
}
