package perfdata

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// The features that are read, in bits of the header.
//
// table: tools/perf/util/header.h
const (
	featBuildID   = 2
	featRelease   = 4
	featArch      = 6
	featEventDesc = 12
	mostFeatures  = 256
)

// features reads the sections that follow the data. A cut off or foreign section is no error: the
// samples were read.
func (r *reader) features(bits [4]uint64) error {
	var present []int
	for i := range mostFeatures {
		if bits[i/64]>>(i%64)&1 != 0 {
			present = append(present, i)
		}
	}
	table, err := r.take(16 * len(present))
	if err != nil {
		r.file.Cut = true
		return ignoreEnd(err)
	}
	for i, id := range present {
		s := sectionAt(table[16*i:])
		if !slices.Contains(readFeatures(), id) {
			continue
		}
		if s.offset < uint64(r.at) || s.size > maxHead {
			continue // in another order than perf writes them
		}
		if err := r.skip(int64(s.offset) - r.at); err != nil {
			r.file.Cut = true
			return ignoreEnd(err)
		}
		b, err := r.take(int(s.size))
		if err != nil {
			r.file.Cut = true
			return ignoreEnd(err)
		}
		r.feature(id, b)
	}
	return nil
}

// readFeatures returns the features that feature reads.
func readFeatures() []int { return []int{featBuildID, featRelease, featArch, featEventDesc} }

// feature reads one section.
func (r *reader) feature(id int, b []byte) {
	switch id {
	case featBuildID:
		for len(b) >= recordHead {
			size := int(binary.LittleEndian.Uint16(b[6:]))
			if size < recordHead || size > len(b) {
				return
			}
			r.buildID(b[:size])
			b = b[size:]
		}
	case featRelease:
		r.file.KernelRelease, _ = text(b)
	case featArch:
		r.file.Machine, _ = text(b)
	case featEventDesc:
		r.names(b)
	}
}

// names reads the names of the events: their number, the size of an attribute, and for each the
// attribute, the number of its ids, its name and its ids.
func (r *reader) names(b []byte) {
	if len(b) < 8 {
		return
	}
	count, size := binary.LittleEndian.Uint32(b), int(binary.LittleEndian.Uint32(b[4:]))
	b = b[8:]
	for i := 0; i < int(min(count, maxEvents)) && i < len(r.file.Events); i++ {
		if size < 0 || len(b) < size+4 {
			return
		}
		ids := int(binary.LittleEndian.Uint32(b[size:]))
		name, n := text(b[size+4:])
		if n == 0 || ids < 0 || ids > len(b)/8 || len(b) < size+4+n+8*ids {
			return
		}
		r.file.Events[i].Name = name
		b = b[size+4+n+8*ids:]
	}
}

// text reads a text with its length, and returns the bytes that it takes; 0: it is cut off.
func text(b []byte) (string, int) {
	if len(b) < 4 {
		return "", 0
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n < 0 || n > len(b)-4 {
		return "", 0
	}
	return cString(b[4:][:n]), n + 4
}

// cString returns the bytes before the first zero.
func cString(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}

// buildID reads the build ID of a file: the head of a record, a process, 20 bytes with their number
// behind them, and the name.
func (r *reader) buildID(b []byte) {
	const fixed = recordHead + 4 + 24
	if len(b) <= fixed {
		return
	}
	id := b[recordHead+4:][:20]
	if misc := binary.LittleEndian.Uint16(b[4:]); misc&miscBuildIDSize != 0 {
		id = id[:min(int(b[recordHead+24]), 20)]
	}
	r.charge(len(b) + 100)
	r.world.identified[cString(b[fixed:])] = hex.EncodeToString(id)
}
