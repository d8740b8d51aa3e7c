package hotspot

const (
	mostLines = 4 << 10 // bytes of a table of lines
	mostLine  = 1 << 28 // above it there is no line
	// zeroFree is the release from which on no byte of a number is 0, which ends a table.
	zeroFree = 20
)

// lines reads the table of lines of a method; nil: it cannot be read.
func (r *Reader) lines(at uint64) []byte {
	for n := mostLines; n > 1; n /= 2 {
		if r.left < n {
			continue
		}
		if b, ok := r.read(at, n); ok { // else no memory follows
			end := 0
			for end < len(b) && b[end] != 0 {
				if b[end] != 0xff {
					end++
					continue
				}
				rest := b[end+1:]
				_, more := r.number(rest)
				_, last := r.number(rest[more:])
				if more == 0 || last == 0 {
					break
				}
				end += 1 + more + last
			}
			r.left -= end
			return append([]byte(nil), b[:min(end, len(b))]...)
		}
	}
	return nil
}

// line returns the line of an instruction; 0: unknown. The table is a list of the differences to
// the entry before, in the order of the compiler (compressedStream.hpp,
// CompressedLineNumberReadStream):
//
//	| 5 bits instruction, 3 bits line |
//	| 0xff | signed number: instruction | signed number: line |
func (r *Reader) line(table []byte, instruction uint64) int {
	at, line, best, found := int64(0), int64(0), int64(-1), int64(0)
	for len(table) > 0 {
		if table[0] != 0xff {
			at, line = at+int64(table[0]>>3), line+int64(table[0]&7)
			table = table[1:]
		} else {
			a, n := r.number(table[1:])
			b, m := r.number(table[1+n:])
			if n == 0 || m == 0 {
				break
			}
			at, line = at+unfold(a), line+unfold(b)
			table = table[1+n+m:]
		}
		if at <= int64(instruction) && at > best {
			best, found = at, line
		}
	}
	if found < 0 || found > mostLine {
		return 0
	}
	return int(found)
}

// unfold returns a signed number: 0, -1, 1, -2 ... are stored as 0, 1, 2, 3.
func unfold(n uint32) int64 { return int64(int32(n>>1) ^ -int32(n&1)) }

// number reads a number of 1 to 5 bytes (UNSIGNED5), each with 6 bits more. Bytes of 192 and above
// are followed by another one. n is its size; 0: it is not whole.
func (r *Reader) number(b []byte) (value uint32, n int) {
	const most, low, shift = 5, 192, 6
	excluded := uint32(0)
	if r.at[release] >= zeroFree {
		excluded = 1
	}
	for n < most && n < len(b) {
		one := uint32(b[n]) - excluded
		value += one << (shift * n)
		n++
		if one < low-excluded || n == most {
			return value, n
		}
	}
	return 0, 0
}
