package gen

import (
	"culprit/lang/check"

	"github.com/cilium/ebpf/asm"
)

// plainText makes a constant the result.
func (m *pathMaker) plainText(text string) {
	for i := range len(text) {
		m.storeImm(asm.R6, m.area().result+i, int64(text[i]), 1, asm.R0)
	}
}

// special generates the text of a file without a path.
func (m *pathMaker) special(finish label) {
	if m.part == check.PathDirectory || m.part == check.PathMount {
		m.plainText("<none>")
		m.movImm(asm.R0, 0)
		m.exit()
		return
	}
	m.ends(m.hayTop())
	m.of(wordDentry, "dentry", "d_sb")
	m.mov(asm.R3, asm.R0)
	m.member("super_block", "s_magic")
	m.mov(asm.R7, asm.R0)
	m.of(wordDentry, "dentry", "d_inode")
	m.mov(asm.R9, asm.R0)
	for _, k := range [...]struct {
		magic int64
		text  func()
	}{
		{magicPipe, func() { m.numbered(); m.prepend("pipe:[") }},
		{magicSock, func() { m.numbered(); m.prepend("socket:[") }},
		{magicAnon, func() { m.ownName(); m.prepend("anon_inode:") }},
		{magicPidfd, func() { m.prepend("anon_inode:[pidfd]") }},
		{magicNS, func() { m.numbered(); m.prepend(":["); m.namespace() }},
	} {
		other := m.label()
		m.ifImm(asm.JNE, asm.R7, k.magic, other, asm.R0)
		k.text()
		m.jump(finish)
		m.bind(other)
	}
	// A file in memory, such as that of memfd_create.
	if m.part == check.PathWhole {
		m.prepend(deletedMark)
	}
	m.ownName()
	if m.part == check.PathWhole {
		m.prepend("/")
	}
	m.jump(finish)
}

// ownName puts the name of the dentry before the text.
func (m *pathMaker) ownName() {
	none := m.label()
	nameAt := m.at("dentry", "d_name")
	m.getWord(asm.R3, wordDentry)
	m.kernelWord(nameAt+m.at("qstr", "len"), 4, pathSlot)
	m.mov(asm.R8, asm.R0)
	m.getWord(asm.R3, wordDentry)
	m.kernelWord(nameAt+m.at("qstr", "name"), 8, pathSlot)
	m.mov(asm.R3, asm.R0)
	m.mov(asm.R1, asm.R8)
	m.putName(none, false)
	m.bind(none)
}

// numbered puts the number of the inode at r9 before the text, and a bracket behind it.
func (m *pathMaker) numbered() {
	m.prepend("]")
	m.mov(asm.R3, asm.R9)
	m.member("inode", "i_ino")
	m.setWord(wordNum, asm.R0)
	m.callLocal("path digits", func() {
		m.mov(asm.R6, asm.R1)
		m.movImm(asm.R7, 0) // loop keeps it
		over := m.label()
		m.loop(20, func(next label, outs []label) {
			m.getWord(asm.R7, wordLeft)
			m.add(asm.Sub.Imm(asm.R7, 1))
			m.within(asm.R7, m.hayTop(), outs[0])
			m.setWord(wordLeft, asm.R7)
			m.alu(asm.Add, asm.R7, asm.R6)
			m.getWord(asm.R1, wordNum)
			m.mov(asm.R2, asm.R1)
			m.add(asm.Mod.Imm(asm.R2, 10))
			m.add(asm.Add.Imm(asm.R2, '0'))
			m.store(asm.R7, m.area().hay, asm.R2, 1)
			m.add(asm.Div.Imm(asm.R1, 10))
			m.setWord(wordNum, asm.R1)
			m.ifImm(asm.JEq, asm.R1, 0, outs[0], asm.R0)
		}, over)
		m.bind(over)
		m.movImm(asm.R0, 0)
		m.exit()
	})
}

// callLocal calls a function with the work area in r1.
func (m *pathMaker) callLocal(name string, body func()) {
	m.mov(asm.R1, asm.R6)
	m.callSub(m.function(name, body))
}

// namespace puts the kind of a namespace before the text. The inode is at r9.
func (m *pathMaker) namespace() {
	none := m.label()
	m.mov(asm.R3, asm.R9)
	m.member("inode", "i_private")
	m.mov(asm.R3, asm.R0)
	m.member("ns_common", "ops")
	m.mov(asm.R3, asm.R0)
	m.member("proc_ns_operations", "name")
	m.mov(asm.R3, asm.R0)
	m.lift(asm.R1, asm.R10, pathSpan)
	m.movImm(asm.R2, 32)
	m.store(asm.R10, pathSlot-8, asm.R3, 8)
	m.call(asm.FnProbeReadKernelStr)
	m.ifImm(asm.JSLT, asm.R0, 1, none, asm.R1)
	m.mov(asm.R1, asm.R0)
	m.add(asm.Sub.Imm(asm.R1, 1))
	m.load(asm.R3, asm.R10, pathSlot-8, 8, false)
	m.putName(none, false)
	m.bind(none)
}
