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
