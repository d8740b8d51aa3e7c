package gen

import (
	"fmt"

	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// The name of an open file is found as the kernel's d_path() finds it: from the file's dentry
// upwards, at the root of a mount on to the dentry that it is mounted on, until the root of the
// process. The text is built from its end, in the hay of the work area:
//
//	| free: left bytes | /name/name | " (deleted)" | 0 ... |
//
// The kernel's function itself may be called in few kinds of programs only, so the dentries are
// read as memory. Nothing locks them: a rename at the same time may show names of before and after.

// The words of the work area while a name is built.
const (
	wordDentry  = 1 + iota
	wordMount   // struct mount of the dentry
	wordTop     // root dentry of that mount
	wordRoot    // root of the process: its dentry
	wordRootMnt // and its struct mount
	wordLeft
	wordSafe  // left after the last name that left space for dots
	wordEnd   // position of the text's end
	wordSkip  // 1: the next name does not belong to the text
	wordNum   // number to write
	wordFirst // left before the first name
	wordCut   // dentry of the first name; 0: not there yet
)

// mostNames is the highest number of names and mounts that a path can have. Without bpf_loop the
// verifier follows each of them.
const (
	mostNames    = 256
	mostNamesOld = 64
)

// shortest is the least length of a text, so that a mark fits in it. A shorter strsize cuts the
// text afterwards.
const shortest = 31

// dots begin a path whose first directories are missing.
const dots = "..."

// deletedMark follows the path of a file that has no name any more, as in /proc/PID/fd.
const deletedMark = " (deleted)"

// Numbers of file systems whose files have no path: the kernel's linux/magic.h.
const (
	magicPipe  = 0x50495045
	magicSock  = 0x534f434b
	magicAnon  = 0x09041934
	magicNS    = 0x6e736673
	magicPidfd = 0x50494446

	magicDevice = 0x62646576 // the pages of devices, with the data of file systems themselves
)

// A pathMaker generates the function for one part of a file's name.
type pathMaker struct {
	*builder
	part check.PathPart
	file bool // the operand is a struct file, which may be NULL
	// the operand is a struct request, which may be NULL; neither: it is a struct path
	request bool
	offs    map[[2]string]int
}

// path generates the name of a file: of the struct path or struct file at the address A.
func (b *builder) path(s *ir.Step, none label) error {
	m := &pathMaker{
		builder: b,
		part:    check.PathPart(s.N) &^ (check.PathOfFile | check.PathOfRequest),
		file:    check.PathPart(s.N)&check.PathOfFile != 0,
		request: check.PathPart(s.N)&check.PathOfRequest != 0,
		offs:    map[[2]string]int{},
	}
	if err := m.learn(); err != nil {
		return err
	}
	b.task()
	b.mov(asm.R3, asm.R0)
	b.getNumber(asm.R2, s.A)
	if m.file {
		b.aluImm(asm.Add, asm.R2, int64(m.at("file", "f_path")), asm.R1)
	}
	b.lift(asm.R1, asm.R9, b.lay.text)
	b.callSub(b.function(fmt.Sprint("path", s.N), m.make))
	if !m.file && !m.request {
		good := b.label()
		b.ifImm(asm.JEq, asm.R0, 0, good, asm.R1)
		b.badAddress(s)
		b.bind(good)
	}
	b.keepText(s, none)
	return nil
}

// learn finds the offsets of all members.
func (m *pathMaker) learn() error {
	for _, name := range [][2]string{
		{"file", "f_path"}, {"path", "mnt"}, {"path", "dentry"},
		{"task_struct", "fs"}, {"fs_struct", "root"},
		{"dentry", "d_parent"}, {"dentry", "d_name"}, {"dentry", "d_hash"}, {"dentry", "d_op"},
		{"dentry", "d_sb"}, {"dentry", "d_inode"}, {"qstr", "len"}, {"qstr", "name"},
		{"hlist_bl_node", "pprev"}, {"dentry_operations", "d_dname"},
		{"mount", "mnt"}, {"mount", "mnt_parent"}, {"mount", "mnt_mountpoint"},
		{"vfsmount", "mnt_root"}, {"super_block", "s_magic"}, {"inode", "i_ino"},
		{"inode", "i_private"}, {"ns_common", "ops"}, {"proc_ns_operations", "name"},
		{"super_block", "s_type"}, {"file_system_type", "name"},
	} {
		off, err := m.offset(name[0], name[1])
		if err != nil {
			return err
		}
		m.offs[name] = off
	}
	return nil
}

func (m *pathMaker) at(typ, member string) int { return m.offs[[2]string{typ, member}] }

// slots of the function's stack, below those of loop.
const (
	pathSlot = -24 // of single words
	pathSpan = -96 // of several members
	spanMost = 64
)

// limit returns the highest length of the text in bytes.
func (m *pathMaker) limit() int { return max(m.p.StrMost, shortest) }

// member reads a word of a struct at the address in r3 into r0; 0 if the address is invalid.
func (m *pathMaker) member(typ, name string) { m.kernelWord(m.at(typ, name), 8, pathSlot) }

// of reads a word of a struct whose address is in a word of the work area.
func (m *pathMaker) of(word int, typ, name string) {
	m.getWord(asm.R3, word)
	m.member(typ, name)
}

// span reads the bytes from offset lo to hi of the struct at the address in r3, and returns where
// they are on the stack. It jumps to fail if the address is invalid.
func (m *pathMaker) span(lo, hi int, fail label) (at func(off int) int) {
	m.aluImm(asm.Add, asm.R3, int64(lo), asm.R1)
	m.lift(asm.R1, asm.R10, pathSpan)
	m.movImm(asm.R2, int64(hi-lo))
	m.call(asm.FnProbeReadKernel)
	m.ifImm(asm.JNE, asm.R0, 0, fail, asm.R1)
	return func(off int) int { return pathSpan + off - lo }
}

// make generates the function: r1 the work area, r2 the address of the struct path, r3 the thread.
// r0: 0, or 1 if there is no file at the address.
func (m *pathMaker) make() {
	noFile, special, full, done, finish := m.label(), m.label(), m.label(), m.label(), m.label()
	lost := m.label()
	m.mov(asm.R6, asm.R1)
	m.mov(asm.R7, asm.R2)
	m.mov(asm.R8, asm.R3)
	m.clearResult()
	if m.request {
		m.beginsAtRequest(noFile, lost)
	} else {
		m.begins(noFile)
	}
	if m.part == check.PathType {
		m.fileSystem()
		m.bind(noFile)
		m.plainText("<none>")
		m.movImm(asm.R0, 0)
		m.exit()
		return
	}
	m.names(special)
	m.walk(done, full, lost)
	m.bind(full)
	m.cutOff(done)
	m.bind(done)
	m.rootOnly(finish)
	m.bind(special)
	m.special(finish)
	m.bind(finish)
	m.keep()
	m.bind(lost)
	if m.request {
		m.plainText("<unknown>")
		m.movImm(asm.R0, 0)
		m.exit()
	}
	m.bind(noFile)
	if m.file || m.request {
		m.plainText("<none>")
	}
	m.movImm(asm.R0, 1)
	m.exit()
}

// begins sets the words from the struct path at r7 and the thread at r8. It jumps to noFile if
// there is none.
func (m *pathMaker) begins(noFile label) {
	m.mov(asm.R3, asm.R7)
	m.place(0, wordDentry, wordMount, noFile)
	m.getWord(asm.R1, wordDentry)
	m.ifImm(asm.JEq, asm.R1, 0, noFile, asm.R0)
	if m.part == check.PathType {
		return
	}
	m.top()
	noRoot := m.label()
	m.zeroWord(wordRoot)
	m.zeroWord(wordRootMnt)
	m.mov(asm.R3, asm.R8)
	m.member("task_struct", "fs")
	m.mov(asm.R3, asm.R0)
	m.place(m.at("fs_struct", "root"), wordRoot, wordRootMnt, noRoot)
	m.bind(noRoot)
	m.empty()
}

// empty begins with a text without names.
func (m *pathMaker) empty() {
	skip := 0
	if m.part == check.PathDirectory {
		skip = 1
	}
	m.storeImm(asm.R6, m.word(wordSkip), int64(skip), 8, asm.R0)
	m.zeroWord(wordCut)
	m.ends(m.limit())
}

// fileSystem makes the type of the file system the result.
func (m *pathMaker) fileSystem() {
	m.of(wordDentry, "dentry", "d_sb")
	m.mov(asm.R3, asm.R0)
	m.member("super_block", "s_type")
	m.mov(asm.R3, asm.R0)
	m.member("file_system_type", "name")
	m.mov(asm.R3, asm.R0)
	m.lift(asm.R1, asm.R6, m.area().result)
	m.movImm(asm.R2, int64(m.p.StrSize))
	m.call(asm.FnProbeReadKernelStr)
	m.movImm(asm.R0, 0)
	m.exit()
}

// place reads the struct path at an offset from r3 to two words: the dentry and the struct mount.
// It jumps to fail if the address is invalid.
func (m *pathMaker) place(off, dentry, mount int, fail label) {
	dentryAt, mntAt := off+m.at("path", "dentry"), off+m.at("path", "mnt")
	at := m.span(min(dentryAt, mntAt), max(dentryAt, mntAt)+8, fail)
	m.load(asm.R0, asm.R10, at(dentryAt), 8, false)
	m.setWord(dentry, asm.R0)
	m.load(asm.R0, asm.R10, at(mntAt), 8, false)
	m.aluImm(asm.Sub, asm.R0, int64(m.at("mount", "mnt")), asm.R1)
	m.setWord(mount, asm.R0)
}

// top sets the root of the mount from its struct mount.
func (m *pathMaker) top() {
	m.getWord(asm.R3, wordMount)
	m.kernelWord(m.at("mount", "mnt")+m.at("vfsmount", "mnt_root"), 8, pathSlot)
	m.setWord(wordTop, asm.R0)
}

// ends begins an empty text that ends at a position of the hay.
func (m *pathMaker) ends(at int) {
	for _, w := range [...]int{wordLeft, wordSafe, wordEnd, wordFirst} {
		m.storeImm(asm.R6, m.word(w), int64(at), 8, asm.R0)
	}
}

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
