package store

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
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

// readStream returns the bytes of a stream. It decompresses into buf if that is large enough.
func readStream(c *codec, r *reader, buf *[]byte) []byte {
	n := r.uvarint()
	b := r.bytes(n >> 1)
	if n&1 == 0 || r.err != nil {
		return b
	}
	plain, err := c.decompress(*buf, b, maxGroup)
	if err != nil {
		r.fail()
		return nil
	}
	*buf = plain
	return plain
}

// group is a group that is being read.
type group struct {
	heads         []rowHead
	planes        [8][]byte
	value         []byte    // the bytes it was read from
	streamBuffers [9][]byte // for decompressed streams

	// Buffers for one row.
	words      []uint64
	runLengths []int32
	numbers    []int64
	floating   []float64
}

// rowHead describes a row whose values are not unpacked yet.
type rowHead struct {
	flags   byte
	width   uint8
	scale   uint8
	all     int // number of values, absent ones included
	n       int // number of known values
	offset  [8]int32
	divisor uint64
	base    int64
	present []byte // runs, as of appendRuns
	unknown []byte
	rest    []byte
}

// open parses the bytes of a group of columns and keeps b. long returns the length of the next
// column, given the heads of the previous ones.
func (g *group) open(c *codec, b []byte, long func(before []rowHead) int) error {
	r := &reader{b: b}
	rows := r.uvarint()
	heads := &reader{b: readStream(c, r, &g.streamBuffers[8])}
	for k := range g.planes {
		g.planes[k] = readStream(c, r, &g.streamBuffers[k])
	}
	if r.err != nil || rows > uint64(len(heads.b)) {
		return errCorrupt
	}
	g.heads = slices.Grow(g.heads[:0], int(rows))
	var offset [8]int32
	for range rows {
		h := rowHead{}
		if !h.open(&reader{b: heads.bytes(heads.uvarint())}, long(g.heads)) || heads.err != nil {
			return errCorrupt
		}
		h.offset = offset
		stored := h.n
		if h.flags&modeMask == modeFloats || h.flags&rowDelta != 0 {
			stored--
		}
		for k := range h.width {
			offset[k] += int32(stored)
			if int(offset[k]) > len(g.planes[k]) {
				return errCorrupt
			}
		}
		g.heads = append(g.heads, h)
	}
	return nil
}

func (h *rowHead) open(r *reader, ticks int) bool {
	h.flags = r.byte()
	h.all, h.n = ticks, ticks
	if h.flags&rowFull == 0 {
		h.present, h.n = readRuns(r, h.n)
	}
	if h.flags&rowUnknown != 0 {
		h.unknown, h.n = readRuns(r, h.n)
	}
	mode := h.flags & modeMask
	if r.err != nil || (h.n == 0) != (mode == modeNone) ||
		h.flags&rowDelta != 0 && mode != modePlanes {
		return false
	}
	switch mode {
	case modeNone, modeSame, modeSteps:
	case modeRuns, modePlanes:
		h.scale, h.divisor = r.byte(), r.uvarint()
		if int(h.scale) >= len(powers) || h.divisor == 0 || h.divisor > 1<<54 {
			return false
		}
		if mode == modePlanes {
			h.base, h.width = r.varint(), r.byte()
		}
	case modeFloats:
		h.base, h.width = int64(bits.Reverse64(r.uvarint())), 8
	default:
		return false
	}
	h.rest = r.b
	return r.err == nil && h.width <= 8
}

// readRuns skips what appendRuns wrote for n values and returns how many satisfied the condition.
func readRuns(r *reader, n int) (runs []byte, yes int) {
	start := r.b
	count := r.count()
	is, at := false, 0
	for range count {
		k := r.uvarint()
		if k > uint64(n-at) {
			r.fail()
			return nil, 0
		}
		if is {
			yes += int(k)
		}
		at += int(k)
		is = !is
	}
	if is {
		yes += n - at
	}
	if r.err != nil {
		return nil, 0
	}
	return start[:len(start)-len(r.b)], yes
}

// spread moves the first yes values of out to the positions in runs and sets the others to other. n
// is the resulting length.
func spread(runs []byte, out []float64, yes, n int, other float64) {
	r := reader{b: runs}
	count := int(r.uvarint())
	lengths := make([]int, 0, 64)
	at := 0
	for range count {
		k := int(r.uvarint())
		lengths = append(lengths, k)
		at += k
	}
	lengths = append(lengths, n-at)
	is := len(lengths)%2 == 0
	for i := len(lengths) - 1; i >= 0; i-- {
		k := lengths[i]
		if is {
			copy(out[n-k:n], out[yes-k:yes])
			yes -= k
		} else {
			for j := n - k; j < n; j++ {
				out[j] = other
			}
		}
		n -= k
		is = !is
	}
}

// known unpacks the known values of row i.
func (g *group) known(i int, out []float64) error {
	h := &g.heads[i]
	r := reader{b: h.rest}
	switch h.flags & modeMask {
	case modeSame:
		fillWith(out, r.value())
	case modeRuns:
		g.runs(h, &r, out)
	case modeSteps:
		h.steps(&r, out)
	case modePlanes:
		g.whole(h, out)
	case modeFloats:
		g.floats(h, out)
	}
	return r.err
}

// row unpacks row i into out, which has one element per tick.
func (g *group) row(i int, out []float64) error {
	h := &g.heads[i]
	if err := g.known(i, out[:h.n]); err != nil {
		return err
	}
	present := h.n
	if h.flags&rowUnknown != 0 {
		if h.flags&rowFull == 0 {
			pr := reader{b: h.present}
			_, present = readRuns(&pr, h.all)
		} else {
			present = h.all
		}
		spread(h.unknown, out, h.n, present, unknown())
	}
	if h.flags&rowFull == 0 {
		spread(h.present, out, present, h.all, absent())
	}
	return nil
}

func fillWith(out []float64, v float64) {
	for j := range out {
		out[j] = v
	}
}

// lengths returns the run lengths and integers of a row of modeRuns; false when they are corrupt.
func (g *group) lengths(h *rowHead, r *reader) ([]int32, []int64, bool) {
	runs, left := r.uvarint(), uint64(h.n)
	if runs < 1 || runs > left || runs > uint64(len(r.b))+1 {
		return nil, nil, false
	}
	if uint64(cap(g.runLengths)) < runs {
		g.runLengths, g.numbers = make([]int32, 2*runs), make([]int64, 2*runs)
	}
	lengths, numbers := g.runLengths[:runs], g.numbers[:runs]
	b := r.b
	for i := range lengths[1:] {
		var n uint64
		if len(b) > 0 && b[0] < 0x80 { // nearly all take one byte
			n, b = uint64(b[0]), b[1:]
		} else {
			v, k := binary.Uvarint(b)
			if k <= 0 {
				return nil, nil, false
			}
			n, b = v, b[k:]
		}
		if n > left {
			return nil, nil, false
		}
		left -= n
		lengths[i] = int32(n)
	}
	lengths[runs-1] = int32(left)
	first, k := binary.Varint(b)
	if k <= 0 {
		return nil, nil, false
	}
	v, by := first, int64(h.divisor)
	b = b[k:]
	numbers[0] = v
	for i := range numbers[1:] {
		var d uint64
		if len(b) > 0 && b[0] < 0x80 {
			d, b = uint64(b[0]), b[1:]
		} else {
			u, k := binary.Uvarint(b)
			if k <= 0 {
				return nil, nil, false
			}
			d, b = u, b[k:]
		}
		v += unzigzag(d) * by
		numbers[i+1] = v
	}
	return lengths, numbers, true
}

func (g *group) runs(h *rowHead, r *reader, out []float64) {
	lengths, numbers, ok := g.lengths(h, r)
	if !ok {
		r.fail()
		return
	}
	p := powers[h.scale]
	for i, n := range lengths {
		f := float64(numbers[i])
		if h.scale > 0 {
			f /= p
		}
		to := out[:n]
		for j := range to {
			to[j] = f
		}
		out = out[n:]
	}
}

func (h *rowHead) steps(r *reader, out []float64) {
	runs := r.uvarint()
	if runs < 1 || runs > uint64(len(out)) {
		r.fail()
		return
	}
	values := *r
	for range runs - 1 {
		values.uvarint()
	}
	at := 0
	for i := range runs {
		n := uint64(len(out) - at)
		if i+1 < runs {
			n = r.uvarint()
		}
		v := values.value()
		if n > uint64(len(out)-at) || values.err != nil {
			r.fail()
			return
		}
		fillWith(out[at:at+int(n)], v)
		at += int(n)
	}
}

// bytes returns the values of a row, combined from their byte planes.
func (g *group) bytes(h *rowHead, n int) []uint64 {
	if cap(g.words) < n {
		g.words = make([]uint64, n)
	}
	w := g.words[:n]
	if h.width == 0 {
		clear(w)
	}
	for k := range int(h.width) {
		p := g.planes[k][h.offset[k]:][:n]
		if k == 0 {
			for i, b := range p {
				w[i] = uint64(b)
			}
			continue
		}
		shift := 8 * k
		for i, b := range p {
			w[i] |= uint64(b) << shift
		}
	}
	return w
}

// units returns the integers of a row of modePlanes, in units of its divisor relative to its base.
func (g *group) units(h *rowHead) []int64 {
	if cap(g.numbers) < h.n {
		g.numbers = make([]int64, h.n)
	}
	out := g.numbers[:h.n]
	if h.flags&rowDelta == 0 {
		switch n := len(out); h.width {
		case 1:
			for i, b := range g.planes[0][h.offset[0]:][:n] {
				out[i] = int64(b)
			}
		case 2:
			high := g.planes[1][h.offset[1]:][:n]
			for i, b := range g.planes[0][h.offset[0]:][:n] {
				out[i] = int64(b) | int64(high[i])<<8
			}
		default:
			for i, u := range g.bytes(h, n) {
				out[i] = int64(u)
			}
		}
		return out
	}
	v := int64(0)
	out[0] = 0
	rest := out[1:]
	switch n := len(rest); h.width {
	case 1:
		for i, b := range g.planes[0][h.offset[0]:][:n] {
			v += unzigzag(uint64(b))
			rest[i] = v
		}
	case 2:
		high := g.planes[1][h.offset[1]:][:n]
		for i, b := range g.planes[0][h.offset[0]:][:n] {
			v += unzigzag(uint64(b) | uint64(high[i])<<8)
			rest[i] = v
		}
	default:
		for i, u := range g.bytes(h, n) {
			v += unzigzag(u)
			rest[i] = v
		}
	}
	return out
}

// whole unpacks integers. The narrow widths are unpacked in one pass because nearly all rows have
// them.
func (g *group) whole(h *rowHead, out []float64) {
	if h.flags&rowDelta != 0 {
		v, by := h.base, int64(h.divisor)
		out[0] = float64(v)
		rest := out[1:]
		n := len(rest)
		switch h.width {
		case 1:
			for i, b := range g.planes[0][h.offset[0]:][:n] {
				v += unzigzag(uint64(b)) * by
				rest[i] = float64(v)
			}
		case 2:
			high := g.planes[1][h.offset[1]:][:n]
			for i, b := range g.planes[0][h.offset[0]:][:n] {
				v += unzigzag(uint64(b)|uint64(high[i])<<8) * by
				rest[i] = float64(v)
			}
		default:
			for i, u := range g.bytes(h, n) {
				v += unzigzag(u) * by
				rest[i] = float64(v)
			}
		}
	} else {
		n := len(out)
		switch h.width {
		case 1:
			for i, b := range g.planes[0][h.offset[0]:][:n] {
				out[i] = float64(h.base + int64(uint64(b)*h.divisor))
			}
		case 2:
			high := g.planes[1][h.offset[1]:][:n]
			for i, b := range g.planes[0][h.offset[0]:][:n] {
				out[i] = float64(h.base + int64((uint64(b)|uint64(high[i])<<8)*h.divisor))
			}
		case 3:
			high, top := g.planes[1][h.offset[1]:][:n], g.planes[2][h.offset[2]:][:n]
			for i, b := range g.planes[0][h.offset[0]:][:n] {
				u := uint64(b) | uint64(high[i])<<8 | uint64(top[i])<<16
				out[i] = float64(h.base + int64(u*h.divisor))
			}
		default:
			for i, u := range g.bytes(h, n) {
				out[i] = float64(h.base + int64(u*h.divisor))
			}
		}
	}
	if h.scale > 0 {
		p := powers[h.scale]
		for i := range out {
			out[i] /= p
		}
	}
}

func (g *group) floats(h *rowHead, out []float64) {
	u := uint64(h.base)
	out[0] = math.Float64frombits(u)
	for i, x := range g.bytes(h, len(out)-1) {
		u ^= x
		out[i+1] = math.Float64frombits(u)
	}
}
