package gen

import (
	"culprit/lang/check"

	"github.com/cilium/ebpf/asm"
)

// A request to a device transfers pages. Pages of the page cache belong to a file:
//
//	request -> bio -> bio_vec -> page -> address_space -> inode -> dentry
//
// Others belong to none that is known: those of direct I/O, of the file system's own data, of swap,
// and below encryption. The request has no mount. The path is that of the file in a mount of its
// file system in culprit's mount namespace.

// bioVecSize is the size of a struct bio_vec.
const bioVecSize = 16

// requestPath are the members from a request to its file. Each has its names in newer and in older
// kernels.
//
// table: never changed
var requestPath = [][][2]string{
	{{"request", "bio"}},
	{{"request", "cmd_flags"}},
	{{"bio", "bi_io_vec"}},
	{{"bio", "bi_iter"}},
	{{"bvec_iter", "bi_idx"}},
	{{"bio_vec", "bv_page"}},
	{{"page", "compound_info"}, {"page", "compound_head"}},
	{{"folio", "mapping"}, {"page", "mapping"}},
	{{"address_space", "host"}},
	{{"inode", "i_mapping"}},
	{{"inode", "i_dentry"}},
	{{"dentry", "d_alias"}, {"dentry", "d_u"}},
	{{"super_block", "s_root"}},
	{{"super_block", "s_mounts"}},
	{{"mount", "mnt_next_for_sb"}, {"mount", "mnt_instance"}},
	{{"mount", "mnt_ns"}},
	{{"mnt_namespace", "ns"}},
	{{"ns_common", "inum"}},
}

// learnRequest finds the offsets of the members. It returns the names that this kernel has, by the
// first name, and false if it lacks one.
func (m *pathMaker) learnRequest() (has map[[2]string][2]string, ok bool) {
	has = map[[2]string][2]string{}
	for _, names := range requestPath {
		for _, name := range names {
			if off, err := m.offset(name[0], name[1]); err == nil {
				m.offs[name], has[names[0]] = off, name
				break
			}
		}
		if _, ok := has[names[0]]; !ok {
			return nil, false
		}
	}
	return has, true
}

// beginsAtRequest sets the words from the struct request at r7. It jumps to noFile if it has no
// file, and to lost if the file has no mount.
func (m *pathMaker) beginsAtRequest(noFile, lost label) {
	has, ok := m.learnRequest()
	if !ok {
		m.jump(noFile)
		return
	}
	at := func(typ, member string) int { return m.offs[has[[2]string{typ, member}]] }
	word := func(off, size int) { // of the struct at r0
		m.mov(asm.R3, asm.R0)
		m.kernelWord(off, size, pathSlot)
	}
	some := func(off int) {
		word(off, 8)
		m.ifImm(asm.JEq, asm.R0, 0, noFile, asm.R1)
	}
	m.mov(asm.R0, asm.R7)
	word(at("request", "cmd_flags"), 4)
	m.add(asm.And.Imm(asm.R0, 255)) // REQ_OP_MASK
	m.ifImm(asm.JGT, asm.R0, 1, noFile, asm.R1)
	m.mov(asm.R0, asm.R7)
	some(at("request", "bio"))
	m.mov(asm.R7, asm.R0)
	word(at("bio", "bi_iter")+at("bvec_iter", "bi_idx"), 4)
	m.mov(asm.R9, asm.R0)
	m.add(asm.Mul.Imm(asm.R9, bioVecSize))
	m.mov(asm.R0, asm.R7)
	some(at("bio", "bi_io_vec"))
	m.alu(asm.Add, asm.R0, asm.R9)
	some(at("bio_vec", "bv_page"))
	m.headPage(at("page", "compound_info"))
	some(at("folio", "mapping"))
	m.mov(asm.R9, asm.R0)
	m.mov(asm.R1, asm.R0)
	m.add(asm.And.Imm(asm.R1, 3)) // anonymous memory, or of a driver
	m.ifImm(asm.JNE, asm.R1, 0, noFile, asm.R2)
	some(at("address_space", "host"))
	m.mov(asm.R7, asm.R0)
	word(at("inode", "i_mapping"), 8)
	m.ifReg(asm.JNE, asm.R0, asm.R9, noFile) // not a page of a file at all
	m.mov(asm.R0, asm.R7)
	some(at("inode", "i_dentry"))
	m.aluImm(asm.Sub, asm.R0, int64(at("dentry", "d_alias")), asm.R1)
	m.setWord(wordDentry, asm.R0)
	m.mov(asm.R3, asm.R0)
	m.member("dentry", "d_sb")
	m.mov(asm.R3, asm.R0)
	m.member("super_block", "s_magic")
	m.ifImm(asm.JEq, asm.R0, magicDevice, noFile, asm.R1)
	m.zeroWord(wordMount)
	m.zeroWord(wordTop)
	switch m.part {
	case check.PathWhole, check.PathDirectory, check.PathMount:
		m.findMount(at, has[[2]string{"mount", "mnt_next_for_sb"}][1] == "mnt_instance", lost)
		m.top()
	}
	m.zeroWord(wordRoot)
	m.zeroWord(wordRootMnt)
	m.empty()
}

// headPage leaves the first page of the folio of the page in r0 there. Bit 0 of the word marks a
// later page; the rest is the address of the first, or in Linux 7 the mask that makes it of the
// page's own address.
func (m *pathMaker) headPage(off int) {
	head, mask := m.label(), m.label()
	const leastMask = -1 << 32 // a folio has at most 64 million pages; no page has such an address
	m.mov(asm.R9, asm.R0)
	m.mov(asm.R3, asm.R0)
	m.kernelWord(off, 8, pathSlot)
	m.mov(asm.R1, asm.R0)
	m.add(asm.And.Imm(asm.R1, 1))
	m.ifImm(asm.JEq, asm.R1, 0, head, asm.R2)
	m.ifImm(asm.JSGT, asm.R0, leastMask, mask, asm.R2)
	m.mov(asm.R9, asm.R0)
	m.add(asm.Sub.Imm(asm.R9, 1))
	m.jump(head)
	m.bind(mask)
	m.alu(asm.And, asm.R9, asm.R0)
	m.bind(head)
	m.mov(asm.R0, asm.R9)
}

// findMount finds a mount of the dentry's file system in culprit's mount namespace: one of the
// whole file system, or else the last one. It jumps to lost if there is none.
func (m *pathMaker) findMount(at func(typ, member string) int, list bool, lost label) {
	n := mostNames
	if !m.k.Loop {
		n = mostNamesOld
	}
	if m.k.Mounts == 0 {
		m.jump(lost)
		return
	}
	over, found := m.label(), m.label()
	next := at("mount", "mnt_next_for_sb")
	m.of(wordDentry, "dentry", "d_sb")
	m.mov(asm.R7, asm.R0)
	m.aluImm(asm.Add, asm.R0, int64(at("super_block", "s_mounts")), asm.R1)
	m.setWord(wordRootMnt, asm.R0) // head of the list
	m.mov(asm.R3, asm.R7)
	m.kernelWord(at("super_block", "s_root"), 8, pathSlot)
	m.setWord(wordRoot, asm.R0)
	m.getWord(asm.R3, wordRootMnt)
	m.kernelWord(0, 8, pathSlot)
	m.setWord(wordNum, asm.R0)
	m.loop(n, func(again label, outs []label) {
		over, found := outs[0], outs[1]
		m.getWord(asm.R9, wordNum)
		m.ifImm(asm.JEq, asm.R9, 0, over, asm.R1)
		if list { // its words are members of the mounts, and its head is one, too
			m.getWord(asm.R1, wordRootMnt)
			m.ifReg(asm.JEq, asm.R9, asm.R1, over)
			m.aluImm(asm.Sub, asm.R9, int64(next), asm.R1)
		}
		m.mov(asm.R3, asm.R9)
		m.kernelWord(next, 8, pathSlot)
		m.setWord(wordNum, asm.R0)
		m.mov(asm.R3, asm.R9)
		m.kernelWord(at("mount", "mnt_ns"), 8, pathSlot)
		m.mov(asm.R3, asm.R0)
		m.kernelWord(at("mnt_namespace", "ns")+at("ns_common", "inum"), 4, pathSlot)
		m.movImm(asm.R1, int64(m.k.Mounts))
		m.ifReg(asm.JNE, asm.R0, asm.R1, again)
		m.setWord(wordMount, asm.R9)
		m.mov(asm.R3, asm.R9)
		m.kernelWord(m.at("mount", "mnt")+m.at("vfsmount", "mnt_root"), 8, pathSlot)
		m.getWord(asm.R1, wordRoot)
		m.ifReg(asm.JEq, asm.R0, asm.R1, found)
	}, over, found)
	m.bind(over)
	m.getWord(asm.R1, wordMount)
	m.ifImm(asm.JEq, asm.R1, 0, lost, asm.R0)
	m.bind(found)
}
