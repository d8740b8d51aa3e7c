package store

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

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
