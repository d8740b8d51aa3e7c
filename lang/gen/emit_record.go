package gen

import (
	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// emit writes a record to the ring buffer.
func (b *builder) emit(s *ir.Step) {
	rec := &b.p.Records[s.N]
	kept := b.label()
	m := s.Mem
	b.time()
	base, off := b.place(m, asm.R4, true, kept)
	at := func(n int) (asm.Register, int) {
		if base != asm.R9 { // a call may be in between
			base, off = b.place(m, asm.R4, true, kept)
		}
		return base, off + n
	}
	r, o := at(0)
	b.store(r, o, asm.R0, 8)
	b.storeImm(r, o+8, int64(s.N), 4, asm.R1)
	b.probeID(asm.R1)
	r, o = at(12)
	b.store(r, o, asm.R1, 4)
	b.call(asm.FnGetSmpProcessorId)
	r, o = at(16)
	b.store(r, o, asm.R0, 4)
	b.ids()
	r, o = at(20)
	b.store(r, o, asm.R0, 4)
	b.movImm(asm.R4, wake(rec))
	if wake(rec) == ringQuiet {
		// User space polls now and then; wake it when much data is waiting, and again each time as
		// much has been added. The threshold is wider than one record, because another CPU may
		// write in between.
		few := b.label()
		b.mapPtr(asm.R1, MapRing)
		b.movImm(asm.R2, 0) // BPF_RB_AVAIL_DATA
		b.call(asm.FnRingbufQuery)
		b.movImm(asm.R4, ringQuiet)
		b.ifImm(asm.JLT, asm.R0, ringMany, few, asm.R1)
		b.add(asm.And.Imm(asm.R0, ringMany-1))
		b.ifImm(asm.JGE, asm.R0, int64(max(ringMany/16, 4*rec.Size)), few, asm.R1)
		b.movImm(asm.R4, ringWake)
		b.bind(few)
	}
	b.mapPtr(asm.R1, MapRing)
	b.address(asm.R2, m, true, kept)
	b.movImm(asm.R3, int64(rec.Size))
	b.call(asm.FnRingbufOutput)
	b.ifImm(asm.JEq, asm.R0, 0, kept, asm.R1)
	b.drop(ir.DropRecord)
	b.bind(kept)
}

const (
	ringQuiet = 1        // BPF_RB_NO_WAKEUP
	ringWake  = 2        // BPF_RB_FORCE_WAKEUP
	ringMany  = 32 << 10 // bytes waiting to be read
)

// wake returns the flags for a record: wake user space at once when the script ends.
func wake(r *ir.Record) int64 {
	for _, a := range r.Actions {
		if a.Action.Action.Kind == check.Exit {
			return ringWake
		}
	}
	return ringQuiet
}
