package python

// line returns the line of an instruction, with the table of lines of its code object, which begins
// on the line first; 0: unknown.
func (l *Layout) line(table []byte, first int, instruction uint64) int {
	n := 0
	switch {
	case l.Version >= 0x30b:
		n = lineOfLocations(table, first, instruction)
	case l.Version == 0x30a:
		n = lineOfRanges(table, first, 2*instruction)
	default:
		n = lineOfSteps(table, first, 2*instruction)
	}
	if n < 0 || n > mostLine {
		return 0
	}
	return n
}

// lineOfSteps reads co_lnotab, up to 3.9 (Objects/lnotab_notes.txt): pairs of u8, by how many bytes
// the instructions advance, and i8, by how many lines.
func lineOfSteps(table []byte, line int, target uint64) int {
	at := uint64(0)
	for ; len(table) >= 2; table = table[2:] {
		if at += uint64(table[0]); at > target {
			break
		}
		line += int(int8(table[1]))
	}
	return line
}

// lineOfRanges reads co_linetable of 3.10 (Objects/lnotab_notes.txt): pairs of u8, how many bytes
// of instructions a range has, and i8, by how many lines it is after the previous one. -128: the
// range has no line.
func lineOfRanges(table []byte, line int, target uint64) int {
	const none = -128
	end := uint64(0)
	for ; len(table) >= 2; table = table[2:] {
		step := int(int8(table[1]))
		if step != none {
			line += step
		}
		if end += uint64(table[0]); target < end {
			if step == none {
				return 0
			}
			return line
		}
	}
	return 0
}

// lineOfLocations reads co_linetable from 3.11 on (Objects/locations.md). An entry begins with
//
//	| 1 bit 1 | 4 bits kind | 3 bits number of instructions - 1 |
//
// and ends before the next byte with the highest bit.
func lineOfLocations(table []byte, line int, target uint64) int {
	const (
		oneLine0 = 10 // the line is that of the previous entry + kind - oneLine0
		noColumn = 13 // a signed number follows
		long     = 14 // the same, and columns
		none     = 15
	)
	end := uint64(0)
	for i := 0; i < len(table); {
		kind := int(table[i] >> 3 & 15)
		end += uint64(table[i]&7) + 1
		i++
		switch {
		case kind == noColumn || kind == long:
			line += signedNumber(table[i:])
		case kind >= oneLine0 && kind < noColumn:
			line += kind - oneLine0
		}
		if target < end {
			if kind == none {
				return 0
			}
			return line
		}
		for i < len(table) && table[i]&0x80 == 0 {
			i++
		}
	}
	return 0
}

// signedNumber reads a signed variable-length number. Each byte has 6 bits of it, lowest first, and
// bit 6 is set in all bytes but the last. Bit 0 of the number is the sign.
func signedNumber(b []byte) int {
	n := uint32(0)
	for i, shift := 0, 0; i < len(b) && shift < 30; i, shift = i+1, shift+6 {
		n |= uint32(b[i]&0x3f) << shift
		if b[i]&0x40 == 0 {
			break
		}
	}
	if n&1 == 1 {
		return -int(n >> 1)
	}
	return int(n >> 1)
}
