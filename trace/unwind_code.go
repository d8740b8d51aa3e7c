package trace

import (
	"encoding/binary"

	"culprit/lang/gen"
	"culprit/symbol"
	"culprit/symbol/interp"
	"culprit/symbol/unwind"
)

// put writes the blocks of a process, the first one last.
func (u *unwinder) put(pid int, p *walked) {
	entries := make([][gen.CodeEntrySize]byte, 0, len(p.code))
	plain := true
	generated := u.generated(p.code)
	for i := range p.code {
		c := &p.code[i]
		how, number := u.how(c)
		bias := c.Bias
		if how == gen.CodeGenerated && generated.how != 0 {
			how, number, bias = generated.how, generated.number, generated.bias
		}
		if how != gen.CodePointers && how != gen.CodeGenerated &&
			(how != gen.CodeTable || !c.Kernel) {
			plain = false
		}
		entries = append(entries, codeEntry(c.Start, c.End, bias, number, how))
	}
	blocks := codeBlocks(entries, p.mm, plain)
	type key struct{ PID, Block uint32 }
	for i := len(blocks) - 1; i >= 0; i-- {
		if err := u.code.Put(key{uint32(pid), uint32(i)}, blocks[i]); err != nil {
			u.forget(pid, max(len(blocks), p.blocks))
			p.blocks = 0
			return // stacks of the process are walked without tables
		}
	}
	for i := len(blocks); i < p.blocks; i++ {
		_ = u.code.Delete(key{uint32(pid), uint32(i)}) // no block refers to it any more
	}
	p.blocks = len(blocks)
}

func (u *unwinder) forget(pid, blocks int) {
	for i := range blocks {
		_ = u.code.Delete([2]uint32{uint32(pid), uint32(i)}) // it may not be there
	}
}

func codeEntry(start, end, bias uint64, table uint32, how uint32) (e [gen.CodeEntrySize]byte) {
	binary.NativeEndian.PutUint64(e[0:], start)
	binary.NativeEndian.PutUint64(e[8:], end)
	binary.NativeEndian.PutUint64(e[16:], bias)
	binary.NativeEndian.PutUint32(e[24:], table)
	binary.NativeEndian.PutUint32(e[28:], how)
	return e
}

// codeBlocks packs entries into blocks. Entries beyond gen.CodeBlocks blocks are left out.
func codeBlocks(entries [][gen.CodeEntrySize]byte, mm uint64, plain bool) [][]byte {
	var out [][]byte
	for first := true; first || len(entries) > 0 && len(out) < gen.CodeBlocks; first = false {
		b := make([]byte, 16, gen.CodeBlock)
		binary.NativeEndian.PutUint64(b, mm)
		if plain {
			binary.NativeEndian.PutUint64(b[8:], gen.CodeKernel)
		}
		n := min(len(entries), gen.CodeEntries)
		chained := len(entries) > n && len(out)+1 < gen.CodeBlocks
		if chained {
			n--
		}
		for _, e := range entries[:n] {
			b = append(b, e[:]...)
		}
		entries = entries[n:]
		if chained {
			e := codeEntry(binary.NativeEndian.Uint64(entries[0][:]), 0, 0, 0, gen.CodeChain)
			b = append(b, e[:]...)
		}
		for len(b) < gen.CodeBlock {
			e := codeEntry(gen.CodeUnused, gen.CodeUnused, 0, 0, gen.CodeNoTable)
			b = append(b, e[:]...)
		}
		out = append(out, b)
	}
	return out
}

// how returns how callers are found in an executable mapping, and the number of its table, or 0.
func (u *unwinder) how(c *symbol.Executed) (how, number uint32) {
	switch {
	case c.Table != nil:
		number, _ := u.tables.numberOf(c.Table)
		if number == 0 {
			return gen.CodeTooMany, 0
		}
		if c.Pointers {
			return gen.CodeMixed, number
		}
		if in := languageOf(c.Table); in != 0 && in != interp.Java &&
			u.addInterpreter(number, c.Table) {
			if in == interp.JavaScript {
				return gen.CodeNode, number
			}
			return gen.CodeInterpreter, number
		}
		return gen.CodeTable, number
	case c.Why == symbol.Generated:
		return gen.CodeGenerated, 0
	case c.Why == symbol.ByPointer:
		return gen.CodePointers, 0
	case c.Why == symbol.TooLarge:
		return gen.CodeTooLarge, 0
	case c.Why == symbol.NotYet:
		return gen.CodeNotYet, 0
	}
	return gen.CodeNoTable, 0
}

// languageOf returns the language of the interpreter in the file of a table; 0: it has none.
func languageOf(t *unwind.Table) interp.Language {
	if t == nil || t.Interpreter == nil {
		return 0
	}
	return t.Interpreter.Language()
}

// A machineCode is how generated code of a process with a virtual machine is walked.
type machineCode struct {
	how, number uint32
	bias        uint64 // of the file of the virtual machine
}

// generated loads the layout of the virtual machine of Java or JavaScript of a process; how 0:
// there is none, or it does not fit. u.mu is locked.
func (u *unwinder) generated(code []symbol.Executed) (m machineCode) {
	for i := range code {
		t := code[i].Table
		how := uint32(0)
		switch languageOf(t) {
		case interp.Java:
			how = gen.CodeHotSpot
		case interp.JavaScript:
			how = gen.CodeV8
		default:
			continue
		}
		number, _ := u.tables.numberOf(t)
		if number != 0 && t.Interpreter.Why() == "" && u.addInterpreter(number, t) {
			return machineCode{how, number, code[i].Bias}
		}
	}
	return m
}
