package gen

import (
	"culprit/lang/check"

	"github.com/cilium/ebpf/asm"
)

// names decides what the text of the file is: it jumps to special if the file has no path, because
// its file system has none; it adds the mark of a deleted file; and for a mount it goes there.
func (m *pathMaker) names(special label) {
	path, linked := m.label(), m.label()
	m.of(wordDentry, "dentry", "d_op")
	m.ifImm(asm.JEq, asm.R0, 0, path, asm.R1)
	m.mov(asm.R3, asm.R0)
	m.member("dentry_operations", "d_dname")
	m.ifImm(asm.JEq, asm.R0, 0, path, asm.R1)
	m.of(wordDentry, "dentry", "d_parent")
	m.getWord(asm.R1, wordDentry)
	m.ifReg(asm.JNE, asm.R0, asm.R1, special)
	m.getWord(asm.R0, wordTop) // a mounted file of such a file system has a path
	m.ifReg(asm.JNE, asm.R0, asm.R1, special)
	m.bind(path)
	switch m.part {
	case check.PathWhole:
		m.getWord(asm.R3, wordDentry)
		m.kernelWord(m.at("dentry", "d_hash")+m.at("hlist_bl_node", "pprev"), 8, pathSlot)
		m.ifImm(asm.JNE, asm.R0, 0, linked, asm.R1)
		m.of(wordDentry, "dentry", "d_parent")
		m.getWord(asm.R1, wordDentry)
		m.ifReg(asm.JEq, asm.R0, asm.R1, linked)
		m.prepend(deletedMark)
		m.getWord(asm.R1, wordLeft)
		m.setWord(wordSafe, asm.R1)
		m.setWord(wordFirst, asm.R1)
	case check.PathMount:
		// The process sees the mount that contains its root as /.
		same := m.label()
		m.getWord(asm.R1, wordTop)
		m.getWord(asm.R2, wordMount)
		m.getWord(asm.R3, wordRootMnt)
		m.ifReg(asm.JNE, asm.R2, asm.R3, same)
		m.getWord(asm.R1, wordRoot)
		m.bind(same)
		m.setWord(wordDentry, asm.R1)
	}
	m.bind(linked)
}

// walk adds names until the root. It jumps to full when there is no space for more, or when there
// are too many; and for the file of a request to lost, when the mount does not contain it.
func (m *pathMaker) walk(done, full, lost label) {
	n := mostNames
	if !m.k.Loop {
		n = mostNamesOld
	}
	m.loop(n, func(next label, outs []label) {
		done, full, lost := outs[0], outs[1], outs[0]
		if m.request {
			lost = outs[2]
		}
		inside, name := m.label(), m.label()
		m.getWord(asm.R9, wordDentry)
		m.getWord(asm.R7, wordMount)
		m.getWord(asm.R1, wordTop)
		m.getWord(asm.R2, wordRoot)
		m.ifReg(asm.JNE, asm.R9, asm.R2, inside)
		m.getWord(asm.R2, wordRootMnt)
		m.ifReg(asm.JEq, asm.R7, asm.R2, done)
		m.bind(inside)
		m.ifReg(asm.JNE, asm.R9, asm.R1, name)
		m.mov(asm.R3, asm.R7)
		m.member("mount", "mnt_parent")
		m.ifImm(asm.JEq, asm.R0, 0, full, asm.R1)
		m.ifReg(asm.JEq, asm.R0, asm.R7, done)
		m.setWord(wordMount, asm.R0)
		m.mov(asm.R3, asm.R7)
		m.member("mount", "mnt_mountpoint")
		m.setWord(wordDentry, asm.R0)
		m.top()
		m.jump(next)
		m.bind(name)
		m.oneName(next, done, full, lost)
	}, done, full, lost)
}

// oneName adds the name of the dentry at r9, and goes to its parent. The addresses in the words are
// those of the dentry; r7 is free.
func (m *pathMaker) oneName(next, done, full, lost label) {
	parentAt, nameAt := m.at("dentry", "d_parent"), m.at("dentry", "d_name")
	lenAt, textAt := nameAt+m.at("qstr", "len"), nameAt+m.at("qstr", "name")
	add, begun := m.label(), m.label()
	length, text := pathSpan+spanMost-16, pathSpan+spanMost-8
	lo := min(parentAt, lenAt, textAt)
	hi := max(parentAt+8, lenAt+4, textAt+8)
	m.mov(asm.R3, asm.R9)
	if hi-lo <= spanMost {
		at := m.span(lo, hi, full)
		length, text = at(lenAt), at(textAt)
		m.load(asm.R7, asm.R10, at(parentAt), 8, false)
	} else { // the order of the members is random
		m.kernelWord(parentAt, 8, pathSlot)
		m.mov(asm.R7, asm.R0)
		m.mov(asm.R3, asm.R9)
		m.kernelWord(lenAt, 4, pathSlot)
		m.store(asm.R10, length, asm.R0, 4)
		m.mov(asm.R3, asm.R9)
		m.kernelWord(textAt, 8, pathSlot)
		m.store(asm.R10, text, asm.R0, 8)
	}
	m.ifImm(asm.JEq, asm.R7, 0, full, asm.R1)
	m.ifReg(asm.JEq, asm.R7, asm.R9, lost) // the root of a file system that is not mounted here
	if m.part == check.PathDirectory {
		m.getWord(asm.R1, wordSkip)
		m.ifImm(asm.JEq, asm.R1, 0, add, asm.R0)
		m.zeroWord(wordSkip)
		m.setWord(wordDentry, asm.R7)
		m.jump(next)
	}
	m.bind(add)
	m.getWord(asm.R1, wordCut)
	m.ifImm(asm.JNE, asm.R1, 0, begun, asm.R0)
	m.setWord(wordCut, asm.R9)
	m.bind(begun)
	m.load(asm.R1, asm.R10, length, 4, false)
	m.load(asm.R3, asm.R10, text, 8, false)
	m.putName(full, m.part != check.PathName)
	m.setWord(wordDentry, asm.R7)
	if m.part == check.PathName {
		m.jump(done)
		return
	}
	m.getWord(asm.R1, wordLeft)
	m.ifImm(asm.JLT, asm.R1, int64(len(dots)), next, asm.R0)
	m.setWord(wordSafe, asm.R1)
}

// nameMost is the kernel's NAME_MAX, and enough for the names of all file systems without paths.
const nameMost = 255

// putName puts r1 bytes at the address r3 before the text, with a slash before them. It jumps to
// full if they do not fit.
func (m *pathMaker) putName(full label, slash bool) {
	top := m.hayTop()
	m.within(asm.R1, nameMost, full)
	m.getWord(asm.R4, wordLeft)
	m.within(asm.R4, top, full)
	m.mov(asm.R2, asm.R1)
	m.alu(asm.Sub, asm.R4, asm.R2)
	if slash {
		m.add(asm.Sub.Imm(asm.R4, 1))
	}
	m.within(asm.R4, top, full) // negative: it does not fit
	m.store(asm.R10, pathSlot, asm.R4, 8)
	m.mov(asm.R1, asm.R6)
	m.alu(asm.Add, asm.R1, asm.R4)
	m.add(asm.Add.Imm(asm.R1, int32(m.area().hay)))
	if slash {
		m.storeImm(asm.R1, 0, '/', 1, asm.R0)
		m.add(asm.Add.Imm(asm.R1, 1))
	}
	m.call(asm.FnProbeReadKernel)
	m.ifImm(asm.JNE, asm.R0, 0, full, asm.R1)
	m.load(asm.R4, asm.R10, pathSlot, 8, false)
	m.setWord(wordLeft, asm.R4)
}

// hayTop returns the highest position of the text's end in the hay.
func (m *pathMaker) hayTop() int { return m.area().hay - 1 }

// prepend puts a text before the text. It leaves out what does not fit.
func (m *pathMaker) prepend(text string) {
	full := m.label()
	m.getWord(asm.R1, wordLeft)
	m.within(asm.R1, m.hayTop(), full)
	m.add(asm.Sub.Imm(asm.R1, int32(len(text))))
	m.within(asm.R1, m.hayTop(), full)
	m.setWord(wordLeft, asm.R1)
	m.alu(asm.Add, asm.R1, asm.R6)
	for i := range len(text) {
		m.storeImm(asm.R1, m.area().hay+i, int64(text[i]), 1, asm.R0)
	}
	m.bind(full)
}

// cutOff marks a text whose beginning is missing. If not even the first name fits, the text is the
// end of that name.
func (m *pathMaker) cutOff(done label) {
	some, fits, failed := m.label(), m.label(), m.label()
	nameAt := m.at("dentry", "d_name")
	m.getWord(asm.R1, wordSafe)
	m.setWord(wordLeft, asm.R1)
	m.getWord(asm.R2, wordFirst)
	m.ifReg(asm.JNE, asm.R1, asm.R2, some)
	m.getWord(asm.R3, wordCut)
	m.ifImm(asm.JEq, asm.R3, 0, failed, asm.R1)
	m.kernelWord(nameAt+m.at("qstr", "len"), 4, pathSlot)
	m.within(asm.R0, nameMost, failed)
	m.mov(asm.R7, asm.R0) // bytes of the name to show
	m.movImm(asm.R8, 0)   // bytes before them
	m.getWord(asm.R1, wordLeft)
	m.add(asm.Sub.Imm(asm.R1, int32(len(dots))))
	m.within(asm.R1, m.hayTop(), failed)
	m.ifReg(asm.JLE, asm.R7, asm.R1, fits)
	m.mov(asm.R8, asm.R7)
	m.alu(asm.Sub, asm.R8, asm.R1)
	m.mov(asm.R7, asm.R1)
	m.bind(fits)
	m.getWord(asm.R3, wordCut)
	m.kernelWord(nameAt+m.at("qstr", "name"), 8, pathSlot)
	m.mov(asm.R3, asm.R0)
	m.alu(asm.Add, asm.R3, asm.R8)
	m.mov(asm.R1, asm.R7)
	m.putName(failed, false)
	m.bind(failed)
	m.bind(some)
	m.prepend(dots)
	m.jump(done)
}

// rootOnly adds the slash of a text without names.
func (m *pathMaker) rootOnly(finish label) {
	m.getWord(asm.R1, wordLeft)
	m.getWord(asm.R2, wordEnd)
	m.ifReg(asm.JNE, asm.R1, asm.R2, finish)
	m.prepend("/")
	m.jump(finish)
}

// keep copies the text to the result, and returns.
func (m *pathMaker) keep() {
	none := m.label()
	m.getWord(asm.R3, wordLeft)
	m.getWord(asm.R2, wordEnd)
	m.within(asm.R3, m.hayTop(), none)
	m.alu(asm.Sub, asm.R2, asm.R3)
	m.within(asm.R2, m.hayTop(), none)
	m.alu(asm.Add, asm.R3, asm.R6)
	m.add(asm.Add.Imm(asm.R3, int32(m.area().hay)))
	m.lift(asm.R1, asm.R6, m.area().result)
	m.call(asm.FnProbeReadKernel)
	m.bind(none)
	m.movImm(asm.R0, 0)
	m.exit()
}
