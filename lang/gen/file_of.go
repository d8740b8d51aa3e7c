package gen

import (
	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// fileOf generates the address of the open file with the descriptor A, 0: there is none.
func (b *builder) fileOf(s *ir.Step) error {
	var offs [4]int
	for i, name := range [...][2]string{
		{"task_struct", "files"}, {"files_struct", "fdt"}, {"fdtable", "max_fds"}, {"fdtable", "fd"},
	} {
		off, err := b.offset(name[0], name[1])
		if err != nil {
			return err
		}
		offs[i] = off
	}
	b.task()
	b.mov(asm.R1, asm.R0)
	b.getNumber(asm.R2, s.A)
	b.callSub(b.function("file of", func() {
		none := b.label()
		b.mov(asm.R7, asm.R2)
		b.mov(asm.R3, asm.R1)
		for _, off := range offs[:2] {
			b.kernelWord(off, 8, pathSlot)
			b.ifImm(asm.JEq, asm.R0, 0, none, asm.R1)
			b.mov(asm.R3, asm.R0)
		}
		b.mov(asm.R6, asm.R3)
		b.kernelWord(offs[2], 4, pathSlot)
		b.ifReg(asm.JGE, asm.R7, asm.R0, none) // a negative one is greater, too
		b.mov(asm.R3, asm.R6)
		b.kernelWord(offs[3], 8, pathSlot)
		b.add(asm.LSh.Imm(asm.R7, 3))
		b.mov(asm.R3, asm.R0)
		b.alu(asm.Add, asm.R3, asm.R7)
		b.kernelWord(0, 8, pathSlot)
		b.exit()
		b.bind(none)
		b.movImm(asm.R0, 0)
		b.exit()
	}))
	b.put(s.Dst, asm.R0)
	return nil
}
