package ruby

import (
	"encoding/binary"
	"math/bits"
)

// A lineTable is where code has its lines. An entry begins with u32 line. Which entry an
// instruction has is in the index (iseq.c, struct succ_index_table): how many entries begin at or
// before it.
//
//	| 6 times u64: 9 counts of 7 bits, for the first 54 instructions |
//	| for each 512 further ones: u32 count before, u32 0, u64: 7 counts of 9 bits, 8 times u64 |
//
// The last 8 words have a bit for each instruction: an entry begins there.
type lineTable struct {
	entries, index uint64 // addresses
	size           uint32 // how many entries
	each           uint32 // size of an entry
}

// line returns the line of an instruction; 0: unknown.
func (r *Reader) line(t *lineTable, instruction uint64) int {
	n := uint64(1)
	if t.size != 1 {
		n = r.entryOf(t.index, instruction)
	}
	if n == 0 || n > uint64(t.size) {
		return 0
	}
	b, ok := r.readAny(t.entries+(n-1)*uint64(t.each), 4)
	if !ok {
		return 0
	}
	line := int32(binary.LittleEndian.Uint32(b))
	if line < 0 || line > mostLine {
		return 0
	}
	return int(line)
}

// entryOf returns the number of the entry of an instruction, from 1 on; 0: unknown.
func (r *Reader) entryOf(index, instruction uint64) uint64 {
	const first, perWord, head = 54, 9, 48
	if instruction < first {
		b, ok := r.read(index+8*(instruction/perWord), 8)
		if !ok {
			return 0
		}
		return word(b, 0) >> (7 * (instruction % perWord)) & 0x7f
	}
	const block, size = 512, 80
	at := instruction - first
	b, ok := r.read(index+head+size*(at/block), size)
	if !ok {
		return 0
	}
	n := uint64(binary.LittleEndian.Uint32(b))
	small, bit := at%block/64, at%64
	if small > 0 {
		n += word(b, 8) >> (9 * (small - 1)) & 0x1ff
	}
	set := word(b, int(16+8*small)) << (63 - bit)
	return n + uint64(bits.OnesCount64(set))
}
