package connection

import (
	"iter"
	"math/bits"
)

// fileSet is a set of file numbers. It never has numbers above fileMost.
type fileSet struct {
	bits []uint64
	n    int
}

const fileMost = 1 << 20

func (s *fileSet) has(fd int32) bool { return s.below(fd) && s.bits[fd/64]>>(fd%64)&1 != 0 }

// below reports whether there may be numbers from fd on.
func (s *fileSet) below(fd int32) bool { return int(fd) < 64*len(s.bits) }

func (s *fileSet) add(fd int32) {
	if fd > fileMost || s.has(fd) {
		return
	}
	for !s.below(fd) {
		s.bits = append(s.bits, 0)
	}
	s.bits[fd/64] |= 1 << (fd % 64)
	s.n++
}

func (s *fileSet) remove(fd int32) {
	if s.has(fd) {
		s.bits[fd/64] &^= 1 << (fd % 64)
		s.n--
	}
}

func (s *fileSet) clear() { *s = s.emptied() }

// emptied returns an empty set in the same memory.
func (s *fileSet) emptied() fileSet { return fileSet{bits: s.bits[:0]} }

// all returns the numbers in ascending order.
func (s *fileSet) all() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for i, w := range s.bits {
			for ; w != 0; w &= w - 1 {
				if !yield(int32(64*i + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// inodeSet finds searched sockets by inode; several may have the same one.
type inodeSet struct {
	refs []inodeRef
	mask uint32
}

type inodeRef struct {
	inode uint32 // 0: empty
	ref   int32
}

func (s *inodeSet) reset(n int) {
	size := 64
	for size < 2*n {
		size *= 2
	}
	if size > len(s.refs) || size < len(s.refs)/8 {
		s.refs = make([]inodeRef, size)
	} else {
		clear(s.refs)
	}
	s.mask = uint32(len(s.refs) - 1)
}

func (s *inodeSet) add(inode uint32, ref int32) {
	at := s.hash(inode)
	for s.refs[at].inode != 0 {
		at = (at + 1) & s.mask
	}
	s.refs[at] = inodeRef{inode, ref}
}

func (s *inodeSet) hash(inode uint32) uint32 { return inode * 0x9e3779b1 >> 7 & s.mask }

// first returns the index of the first socket with the inode, -1: none. after returns the next.
func (s *inodeSet) first(inode uint32) int32 { return s.from(s.hash(inode), inode) }

func (s *inodeSet) after(at int32, inode uint32) int32 {
	return s.from((uint32(at)+1)&s.mask, inode)
}

func (s *inodeSet) from(at, inode uint32) int32 {
	for ; s.refs[at].inode != 0; at = (at + 1) & s.mask {
		if s.refs[at].inode == inode {
			return int32(at)
		}
	}
	return -1
}
