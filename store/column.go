package store

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A group contains some rows of a segment, each a column of float64 over the same ticks. It is read
// as a whole and unpacked row by row. docs/FORMATS.md draws the bytes.
const (
	modeNone = 0 // no tick has a value
	modeSame = 1 // all values are equal
	modeRuns = 2 // integers in runs
	// integers, byte by byte: the lowest bytes of all rows are adjacent, then the next
	modePlanes = 3
	modeFloats = 4 // the bits that differ from the previous value, byte by byte
	modeSteps  = 5 // other numbers in runs
	modeMask   = 7

	rowFull    = 1 << 3 // each tick has the row
	rowUnknown = 1 << 4 // some value could not be measured
	rowDelta   = 1 << 5 // of modePlanes: differences from the previous value, not from the least
)

// maxGroup limits the decompressed bytes of a group.
const maxGroup = 64 << 20

// powers are the decimal scales tried before a number counts as a fraction: counts, hundredths
// (load, pressure), thousandths and so on.
var powers = [...]float64{1, 10, 100, 1000, 1e4, 1e5, 1e6}

// packer packs rows into groups. It reuses its slices.
type packer struct {
	codec  *codec
	rows   int
	heads  []byte
	planes [8][]byte
	size   int

	head  []byte
	known []float64
	whole []int64
	out   []byte
}

// packRuns is packRow for a column given as runs; false when it has too many runs.
func (g *packer) packRuns(c *runs, ticks int) (present int, ok bool) {
	if n := len(c.starts); n == 0 || c.starts[0] != 0 || !worthRuns(n, ticks) {
		return 0, false
	}
	for _, v := range c.values {
		if v != v {
			return 0, false
		}
	}
	h := append(g.head[:0], rowFull)
	if len(c.values) == 1 {
		h[0] |= modeSame
		h = appendValue(h, c.values[0])
	} else {
		scale, whole := g.asWhole(c.values)
		divisor := uint64(0)
		if whole {
			for i, v := range g.whole[1:] {
				if divisor = gcd(divisor, magnitude(v-g.whole[i])); divisor == 1 {
					break
				}
			}
			h[0] |= modeRuns
			divisor = max(divisor, 1)
			h = appendUvarint(append(h, byte(scale)), divisor)
		} else {
			h[0] |= modeSteps
		}
		h = appendUvarint(h, uint64(len(c.values)))
		for i, start := range c.starts[1:] {
			h = appendUvarint(h, uint64(start-c.starts[i]))
		}
		if whole {
			h = binary.AppendVarint(h, g.whole[0])
			for i, v := range g.whole[1:] {
				h = binary.AppendVarint(h, (v-g.whole[i])/int64(divisor))
			}
		} else {
			for _, v := range c.values {
				h = appendValue(h, v)
			}
		}
	}
	g.endRow(h)
	return ticks, true
}

// packRow appends a column and returns how many ticks have the row.
func (g *packer) packRow(values []float64) (present int) {
	h := append(g.head[:0], 0)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	known, gaps, lost := values, 0, 0
	if sum != sum { // otherwise each tick has a value
		known = g.known[:0]
		for _, v := range values {
			if v == v {
				known = append(known, v)
			} else if isAbsent(v) {
				gaps++
			} else {
				lost++
			}
		}
		g.known = known
	}
	if gaps > 0 {
		h = appendRuns(h, values, func(v float64) bool { return !isAbsent(v) })
	} else {
		h[0] |= rowFull
	}
	if lost > 0 {
		h[0] |= rowUnknown
		present := values
		if gaps > 0 {
			present = make([]float64, 0, len(values))
			for _, v := range values {
				if !isAbsent(v) {
					present = append(present, v)
				}
			}
		}
		h = appendRuns(h, present, func(v float64) bool { return v == v })
	}
	switch runs := runsOf(known); {
	case len(known) == 0:
	case runs == 1:
		h[0] |= modeSame
		h = appendValue(h, known[0])
	default:
		h = g.values(h, known, runs)
	}
	g.endRow(h)
	return len(values) - gaps
}

// endRow appends the row whose head is h.
func (g *packer) endRow(h []byte) {
	g.head = h
	before := len(g.heads)
	g.heads = appendUvarint(g.heads, uint64(len(h)))
	g.heads = append(g.heads, h...)
	g.size += len(g.heads) - before
	g.rows++
}

// runsOf counts the runs of equal values. It stops counting once runs are not worth storing.
func runsOf(v []float64) int {
	runs := b2i(len(v) > 0)
	for from := 1; from < len(v) && worthRuns(runs, len(v)); from += 16 {
		for i := from; i < min(from+16, len(v)); i++ {
			runs += b2i(math.Float64bits(v[i]) != math.Float64bits(v[i-1]))
		}
	}
	return runs
}

// worthRuns reports whether a column with this many runs is stored as runs.
func worthRuns(runs, values int) bool { return runs*5 <= values*2 || runs == 1 }

// appendRuns appends how many consecutive values don't satisfy the condition, then how many do, and
// so on to the end.
func appendRuns(h []byte, values []float64, yes func(float64) bool) []byte {
	count, at := 0, len(h)
	is, start := false, 0
	var tail []byte
	for i, v := range values {
		if yes(v) != is {
			tail = appendUvarint(tail, uint64(i-start))
			count++
			is, start = !is, i
		}
	}
	h = appendUvarint(h[:at], uint64(count))
	return append(h, tail...)
}

func (g *packer) values(h []byte, known []float64, runs int) []byte {
	scale, whole := g.asWhole(known)
	few := worthRuns(runs, len(known))
	if !whole {
		if few {
			h[0] |= modeSteps
			h = appendUvarint(h, uint64(runs))
			h = appendLengths(h, known)
			for i, v := range known {
				if i == 0 || math.Float64bits(v) != math.Float64bits(known[i-1]) {
					h = appendValue(h, v)
				}
			}
			return h
		}
		h[0] |= modeFloats
		var before uint64
		for i, v := range known {
			u := math.Float64bits(v)
			x := u ^ before
			before = u
			if i == 0 {
				h = appendUvarint(h, bits.Reverse64(x))
				continue
			}
			for k := range g.planes {
				g.planes[k] = append(g.planes[k], byte(x>>(8*k)))
			}
		}
		g.size += 8 * (len(known) - 1)
		return h
	}
	ints := g.whole
	least, most, plain, delta := ints[0], ints[0], 0, 0
	var divisor uint64
	for i, v := range ints[1:] {
		d := v - ints[i]
		least, most = min(least, v), max(most, v)
		delta += bits.Len64(zigzag(d))
		if divisor != 1 {
			divisor = gcd(divisor, magnitude(d))
		}
	}
	divisor = max(divisor, 1)
	h = append(h, byte(scale))
	h = appendUvarint(h, divisor)
	if few {
		h[0] |= modeRuns
		h = appendUvarint(h, uint64(runs))
		h = appendLengths(h, known)
		h = binary.AppendVarint(h, ints[0])
		for i, v := range ints[1:] {
			if v != ints[i] {
				h = binary.AppendVarint(h, (v-ints[i])/int64(divisor))
			}
		}
		return h
	}
	middle := least/2 + most/2
	for _, v := range ints {
		plain += bits.Len64(zigzag(v - middle))
	}
	h[0] |= modePlanes
	var widest uint64
	if delta < plain {
		h[0] |= rowDelta
		h = binary.AppendVarint(h, ints[0])
		for i := len(ints) - 1; i > 0; i-- {
			u := zigzag((ints[i] - ints[i-1]) / int64(divisor))
			ints[i] = int64(u)
			widest |= u
		}
		ints = ints[1:]
	} else {
		h = binary.AppendVarint(h, least)
		for i, v := range ints {
			u := uint64(v-least) / divisor
			ints[i] = int64(u)
			widest |= u
		}
	}
	width := (bits.Len64(widest) + 7) / 8
	h = append(h, byte(width))
	for k := range width {
		p := g.planes[k]
		for _, u := range ints {
			p = append(p, byte(uint64(u)>>(8*k)))
		}
		g.planes[k] = p
	}
	g.size += width * len(ints)
	return h
}

func appendLengths(h []byte, known []float64) []byte {
	start := 0
	for i := 1; i < len(known); i++ {
		if math.Float64bits(known[i]) != math.Float64bits(known[i-1]) {
			h = appendUvarint(h, uint64(i-start))
			start = i
		}
	}
	return h
}

// asWhole stores the values as integers in g.whole and returns their decimal scale; false when one
// is not such a number of at most 52 bits.
func (g *packer) asWhole(known []float64) (scale int, ok bool) {
	const limit = 1 << 52
scales:
	for scale, p := range powers {
		ints := g.whole[:0]
		for _, v := range known {
			x := v
			if scale > 0 {
				x = math.Round(v * p)
			}
			if !(x > -limit && x < limit) {
				return 0, false
			}
			n := int64(x)
			if math.Float64bits(float64(n)/p) != math.Float64bits(v) {
				continue scales
			}
			ints = append(ints, n)
		}
		g.whole = ints
		return scale, true
	}
	return 0, false
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return uint64(-v)
	}
	return uint64(v)
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// finish returns the bytes of the group, valid until the next call, and starts a new group.
func (g *packer) finish() []byte {
	b := appendUvarint(g.out[:0], uint64(g.rows))
	b = g.stream(b, g.heads)
	for k := range g.planes {
		b = g.stream(b, g.planes[k])
		g.planes[k] = g.planes[k][:0]
	}
	g.out, g.heads, g.rows, g.size = b, g.heads[:0], 0, 0
	return b
}

// stream appends a length and bytes, compressed if that is shorter.
func (g *packer) stream(b, plain []byte) []byte {
	if len(plain) > 24 {
		at := len(b)
		packed := g.codec.compress(nil, plain)
		if len(packed) < len(plain) {
			b = appendUvarint(b[:at], uint64(len(packed))<<1|1)
			return append(b, packed...)
		}
	}
	b = appendUvarint(b, uint64(len(plain))<<1)
	return append(b, plain...)
}
