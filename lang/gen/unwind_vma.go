package gen

import (
	"github.com/cilium/ebpf/asm"
)

// This file generates the search for the mapping of an address in the kernel's own list of a
// process's mappings. So stacks of a process that user space has not loaded yet are walked by the
// tables of files that are known from other processes.

// Layout of a node of the kernel's maple tree (include/linux/maple_tree.h), 64 bits. Nodes are 256
// bytes and aligned to their size; the low bits of a pointer to one have its type.
const (
	maplePivots  = 8 // pivot i is the last address of slot i
	maplePivotsN = 15
	mapleSlots   = 128 // of maple_range_64 and maple_leaf_64
	mapleSlotsA  = 80  // of maple_arange_64, which has 9 pivots
	mapleInner   = 2   // types below are leaves
	mapleArange  = 3
	mapleLevels  = 8
)

// A vmaLayout has the offsets of the members that the search reads.
type vmaLayout struct {
	root                                        int // of mm_struct
	start, end, mm, flags, pgoff, file, ops     int // of vm_area_struct
	inode                                       int // of file
	super, number, size, seconds, nanos, device int // of inode; device of super_block
}

// vmaLayout returns the offsets; !ok: this kernel has another list of mappings.
func (b userWalk) vmaLayout() (l vmaLayout, ok bool) {
	ok = true
	at := func(typ string, members ...string) int {
		for _, m := range members {
			if off, err := b.offset(typ, m); err == nil {
				return off
			}
		}
		ok = false
		return 0
	}
	l.root = at("mm_struct", "mm_mt") + at("maple_tree", "ma_root")
	const vma = "vm_area_struct"
	l.start, l.end, l.mm = at(vma, "vm_start"), at(vma, "vm_end"), at(vma, "vm_mm")
	l.flags, l.pgoff = at(vma, "vm_flags"), at(vma, "vm_pgoff")
	l.file, l.ops = at(vma, "vm_file"), at(vma, "vm_ops")
	l.inode = at("file", "f_inode")
	l.super, l.number, l.size = at("inode", "i_sb"), at("inode", "i_ino"), at("inode", "i_size")
	// a struct timespec64 before Linux 6.11
	l.seconds = at("inode", "i_mtime_sec", "__i_mtime", "i_mtime")
	l.nanos = l.seconds + 8
	if off, err := b.offset("inode", "i_mtime_nsec"); err == nil {
		l.nanos = off
	}
	l.device = at("super_block", "s_dev")
	if at("maple_range_64", "slot") != mapleSlots || at("maple_arange_64", "slot") != mapleSlotsA {
		return l, false
	}
	return l, ok
}

// Results of the function vma.
const (
	vmaFound   = iota
	vmaNowhere // no code is mapped there
	vmaUnknown // code of a file that is not in MapFiles
)

// makeVMA makes the function that finds the mapping of the address of the walk at r1, and stores it
// in the state, as findMapping does.
//
//	long vma(struct walk *w) {
//		node = w->mm->mm_mt.ma_root;
//		for (level = 0; level < LEVELS; level++) {
//			i = the number of pivots of node before the first that is >= w->look;
//			slot = node->slot[i];
//			if (the type of node is a leaf) goto leaf;
//			node = slot;
//		}
//		return NOWHERE;
//		leaf: vma = slot; ...                    // useVMA
//	}
func (b userWalk) makeVMA() {
	l, _ := b.vmaLayout() // the caller has checked it
	again, leaf, nowhere := b.label(), b.label(), b.label()
	b.mov(asm.R6, asm.R1)
	b.load(asm.R7, asm.R6, walkLook, 8, false)
	b.load(asm.R3, asm.R6, walkMM, 8, false)
	b.kernelWord(l.root, 8, -8)
	b.mov(asm.R8, asm.R0)
	b.movImm(asm.R9, 0)
	b.bind(again)
	b.searchNode(nowhere)
	b.mov(asm.R1, asm.R8)
	b.mov(asm.R8, asm.R0)
	b.add(asm.RSh.Imm(asm.R1, 3))
	b.add(asm.And.Imm(asm.R1, 15))
	b.ifImm(asm.JLT, asm.R1, mapleInner, leaf, asm.R2)
	b.add(asm.Add.Imm(asm.R9, 1))
	b.ifImm(asm.JLT, asm.R9, mapleLevels, again, asm.R2)
	b.bind(nowhere)
	b.movImm(asm.R0, vmaNowhere)
	b.exit()
	b.bind(leaf)
	b.useVMA(&l, nowhere)
}

// searchNode leaves in r0 the slot for the address r7 of the node r8 of a maple tree. Pivots are
// the last bytes of pages, and those that are not used are 0: so the search compares pages, without
// branches, and 0 - 1 is above all pages. It reads beyond the pivots of maple_arange_64: there are
// addresses of the kernel, which are above all pages too.
//
//	pivot = node->pivot;                     // copied into the state
//	for (i = 0; i < 15 && (pivot[i] - 1) >> 12 < look >> 12; i++);
//	slot = type == ARANGE ? node->arange.slot : node->range.slot;
//	return slot[i];
func (b userWalk) searchNode(failed label) {
	plain := b.label()
	b.lift(asm.R1, asm.R6, walkNode)
	b.movImm(asm.R2, 8*maplePivotsN)
	b.mov(asm.R3, asm.R8)
	b.add(asm.And.Imm(asm.R3, -256))
	b.add(asm.Add.Imm(asm.R3, maplePivots))
	b.call(asm.FnProbeReadKernel)
	b.ifImm(asm.JNE, asm.R0, 0, failed, asm.R1)
	b.mov(asm.R4, asm.R7)
	b.add(asm.RSh.Imm(asm.R4, 12))
	b.movImm(asm.R3, 0) // i
	b.movImm(asm.R2, 1) // 1: all pivots so far are before the address
	for i := range maplePivotsN {
		b.load(asm.R1, asm.R6, walkNode+8*i, 8, false)
		b.add(asm.Sub.Imm(asm.R1, 1))
		b.add(asm.RSh.Imm(asm.R1, 12))
		b.alu(asm.Sub, asm.R1, asm.R4)
		b.add(asm.RSh.Imm(asm.R1, 63))
		b.alu(asm.And, asm.R2, asm.R1)
		b.alu(asm.Add, asm.R3, asm.R2)
	}
	b.add(asm.LSh.Imm(asm.R3, 3))
	b.mov(asm.R1, asm.R8)
	b.add(asm.And.Imm(asm.R1, -256))
	b.alu(asm.Add, asm.R3, asm.R1)
	b.mov(asm.R1, asm.R8)
	b.add(asm.RSh.Imm(asm.R1, 3))
	b.add(asm.And.Imm(asm.R1, 15))
	b.ifImm(asm.JNE, asm.R1, mapleArange, plain, asm.R2)
	b.add(asm.Add.Imm(asm.R3, mapleSlotsA-mapleSlots))
	b.bind(plain)
	b.kernelWord(mapleSlots, 8, -8)
}

// useVMA continues with the vm_area_struct r8, which may be anything if the tree changed meanwhile:
//
//	if (vma->vm_mm != w->mm || !(vma->vm_flags & VM_EXEC)) return NOWHERE;
//	w->start = vma->vm_start; w->size = vma->vm_end - vma->vm_start;
//	if (look - w->start >= w->size) return NOWHERE;
//	if (!vma->vm_file && !vma->vm_ops) {     // code of a JIT compiler
//		w->how = GENERATED; w->bias = 0;
//		return FOUND;
//	}
//	key = vma->vm_file ? of its inode : {};  // {}: the vDSO
//	f = lookup(files, &key);
//	if (!f) {
//		record = {pid, vma->vm_start, key};
//		bpf_ringbuf_output(wake, &record, 56, 0);
//		return UNKNOWN;
//	}
//	w->bias = vma->vm_start - (vma->vm_pgoff << 12) + f->delta;
//	w->table = f->table; w->how = f->how;
//	return FOUND;
func (b userWalk) useVMA(l *vmaLayout, nowhere label) {
	mapped, known := b.label(), b.label()
	word := func(off int) {
		b.mov(asm.R3, asm.R8)
		b.kernelWord(off, 8, -8)
	}
	word(l.mm)
	b.load(asm.R1, asm.R6, walkMM, 8, false)
	b.ifReg(asm.JNE, asm.R0, asm.R1, nowhere)
	word(l.flags)
	b.add(asm.And.Imm(asm.R0, 4)) // VM_EXEC
	b.ifImm(asm.JEq, asm.R0, 0, nowhere, asm.R1)
	word(l.start)
	b.mov(asm.R9, asm.R0)
	word(l.end)
	b.alu(asm.Sub, asm.R0, asm.R9)
	b.alu(asm.Sub, asm.R7, asm.R9)
	b.ifReg(asm.JGE, asm.R7, asm.R0, nowhere)
	b.store(asm.R6, walkStart, asm.R9, 8)
	b.store(asm.R6, walkSize, asm.R0, 8)
	word(l.file)
	b.mov(asm.R7, asm.R0)
	b.ifImm(asm.JNE, asm.R7, 0, mapped, asm.R1)
	word(l.ops)
	b.ifImm(asm.JNE, asm.R0, 0, mapped, asm.R1)
	b.movImm(asm.R1, CodeGenerated<<32)
	b.store(asm.R6, walkTable, asm.R1, 8)
	b.storeImm(asm.R6, walkBias, 0, 8, asm.R1)
	b.movImm(asm.R0, vmaFound)
	b.exit()
	b.bind(mapped)
	b.fileKey(l)
	b.mapPtr(asm.R1, MapFiles)
	b.lift(asm.R2, asm.R10, vmaKey)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JNE, asm.R0, 0, known, asm.R1)
	b.load(asm.R1, asm.R6, walkPID, 8, false)
	b.store(asm.R10, vmaKey-16, asm.R1, 8)
	b.store(asm.R10, vmaKey-8, asm.R9, 8)
	b.mapPtr(asm.R1, MapWake)
	b.lift(asm.R2, asm.R10, vmaKey-16)
	b.movImm(asm.R3, FileSeen)
	b.movImm(asm.R4, 0)
	b.call(asm.FnRingbufOutput)
	b.movImm(asm.R0, vmaUnknown)
	b.exit()
	b.bind(known)
	b.load(asm.R7, asm.R0, 8, 8, false)
	b.store(asm.R6, walkTable, asm.R7, 8)
	b.load(asm.R7, asm.R0, 0, 8, false)
	b.alu(asm.Add, asm.R9, asm.R7)
	word(l.pgoff)
	b.add(asm.LSh.Imm(asm.R0, 12))
	b.alu(asm.Sub, asm.R9, asm.R0)
	b.store(asm.R6, walkBias, asm.R9, 8)
	b.movImm(asm.R0, vmaFound)
	b.exit()
}

// vmaKey is where the function vma has a key of MapFiles on its stack.
const vmaKey = -16 - FileKey

// fileKey writes the key of the file r7 on the stack; zeros for none.
//
//	inode = file->f_inode;
//	key = {inode->i_sb->s_dev, inode->i_ino, inode->i_size, inode->i_mtime};
func (b userWalk) fileKey(l *vmaLayout) {
	done := b.label()
	for at := 0; at < FileKey; at += 8 {
		b.storeImm(asm.R10, vmaKey+at, 0, 8, asm.R1)
	}
	b.ifImm(asm.JEq, asm.R7, 0, done, asm.R1)
	b.mov(asm.R3, asm.R7)
	b.kernelWord(l.inode, 8, -8)
	b.mov(asm.R7, asm.R0)
	b.mov(asm.R3, asm.R7)
	b.kernelWord(l.super, 8, -8)
	b.mov(asm.R3, asm.R0)
	b.kernelWord(l.device, 4, -8)
	b.store(asm.R10, vmaKey, asm.R0, 8)
	for i, off := range [...]int{l.number, l.size, l.seconds} {
		b.mov(asm.R3, asm.R7)
		b.kernelWord(off, 8, -8)
		b.store(asm.R10, vmaKey+8*(i+1), asm.R0, 8)
	}
	b.mov(asm.R3, asm.R7)
	b.kernelWord(l.nanos, 4, -8)
	b.store(asm.R10, vmaKey+32, asm.R0, 8)
	b.bind(done)
}
