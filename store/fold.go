package store

import "math"

// cellFolder folds a row of a segment into cells without expanding it to ticks. For each stretch of
// ticks it computes what the cell needs.
type cellFolder struct {
	stretches    []stretch
	weights      []float64 // per tick: the divisor of amounts for rates; nil: values are states
	leastWeight  []float64 // per stretch: the smallest of its weights
	mostWeight   []float64 // per stretch: the largest of its weights
	equalWeights bool      // the weights are equal within each stretch, or nil

	// Of the current row, per stretch.
	n                []uint32 // number of values
	sum, least, most []float64
}

// plan prepares for the ticks of a block.
func (f *cellFolder) plan(stretches []stretch, weights []float64) {
	f.stretches, f.weights, f.equalWeights = stretches, weights, true
	f.leastWeight, f.mostWeight = f.leastWeight[:0], f.mostWeight[:0]
	if weights != nil {
		for _, st := range stretches {
			light, heavy := weights[st.from], weights[st.from]
			for _, w := range weights[st.from+1 : st.to] {
				light, heavy = min(light, w), max(heavy, w)
			}
			f.leastWeight, f.mostWeight = append(f.leastWeight, light), append(f.mostWeight, heavy)
			f.equalWeights = f.equalWeights && light == heavy
		}
	}
	if n := len(stretches); cap(f.n) < n {
		f.n = make([]uint32, n)
		all := make([]float64, 3*n)
		f.sum, f.least, f.most = all[:n:n], all[n:2*n:2*n], all[2*n:]
	}
	n := len(stretches)
	f.n, f.sum, f.least, f.most = f.n[:n], f.sum[:n], f.least[:n], f.most[:n]
}

// foldConstant folds a row that has one value in all ticks.
func (f *cellFolder) foldConstant(v float64) {
	for k, st := range f.stretches {
		n := st.to - st.from
		f.n[k], f.sum[k], f.least[k], f.most[k] = uint32(n), v*float64(n), v, v
		if f.weights != nil {
			a, b := v/f.leastWeight[k], v/f.mostWeight[k]
			f.least[k], f.most[k] = min(a, b), max(a, b)
		}
	}
}

// foldFloats folds a row that has a value in each tick.
func (f *cellFolder) foldFloats(v []float64) {
	for k, st := range f.stretches {
		f.n[k] = uint32(st.to - st.from)
		if f.weights != nil {
			f.sum[k], f.least[k], f.most[k] = extentRates(
				v[st.from:st.to], f.weights[st.from:st.to],
			)
		} else {
			f.sum[k], f.least[k], f.most[k] = extent(v[st.from:st.to])
		}
	}
}

// foldSparse folds the known values of a row that only some ticks have. runs are rowHead.present.
func (f *cellFolder) foldSparse(runs []byte, ticks int, known []float64) {
	clear(f.n)
	r := reader{b: runs}
	count := int(r.uvarint())
	k, at := 0, 0
	for i := range count + 1 {
		n := ticks - at
		if i < count {
			n = int(r.uvarint())
		}
		if i&1 == 1 {
			for k < len(f.stretches) && int(f.stretches[k].to) <= at {
				k++
			}
			for j := k; j < len(f.stretches) && int(f.stretches[j].from) < at+n; j++ {
				from, to := max(int(f.stretches[j].from), at), min(int(f.stretches[j].to), at+n)
				f.piece(j, from, known[from-at:to-at])
			}
			known = known[n:]
		}
		at += n
	}
}

// piece folds values of consecutive ticks that are in one stretch.
func (f *cellFolder) piece(k, from int, v []float64) {
	var sum, least, most float64
	if f.weights != nil {
		sum, least, most = extentRates(v, f.weights[from:from+len(v)])
	} else {
		sum, least, most = extent(v)
	}
	if f.n[k] > 0 {
		sum, least, most = f.sum[k]+sum, min(f.least[k], least), max(f.most[k], most)
	}
	f.n[k] += uint32(len(v))
	f.sum[k], f.least[k], f.most[k] = sum, least, most
}

// maxExactInt limits integers so that their sum over all ticks of a segment is exact.
const maxExactInt = 1 << 42

// numbers are integers that represent (base + number * by) / scale.
type numbers struct {
	base, by int64
	scale    float64
}

func (n *numbers) of(u int64) float64 {
	v := float64(n.base + u*n.by)
	if n.scale != 1 {
		v /= n.scale
	}
	return v
}

// sum returns the sum of numbers, given their sum, least and most; false when it would not be
// exact.
func (n *numbers) sum(count, sum, least, most int64) (float64, bool) {
	low, high := n.base+least*n.by, n.base+most*n.by
	v := float64(count*n.base + sum*n.by)
	if n.scale != 1 {
		v /= n.scale
	}
	return v, low > -maxExactInt && high < maxExactInt && least > -maxExactInt &&
		most < maxExactInt &&
		low <= high
}

// foldInts folds a row that has an integer in each tick; false when they are too large for that.
func (f *cellFolder) foldInts(num numbers, u []int64) bool {
	for k, st := range f.stretches {
		v := u[st.from:st.to]
		sum, least, most := int64(0), v[0], v[0]
		for _, x := range v {
			sum += x
			least = min(least, x)
			most = max(most, x)
		}
		var exact bool
		if f.sum[k], exact = num.sum(int64(len(v)), sum, least, most); !exact {
			return false
		}
		f.n[k] = uint32(len(v))
		f.least[k], f.most[k] = num.of(least), num.of(most)
		switch {
		case f.weights == nil:
		case f.leastWeight[k] == f.mostWeight[k]:
			f.least[k] /= f.leastWeight[k]
			f.most[k] /= f.leastWeight[k]
		default:
			f.rates(k, num, v, least, most)
		}
	}
	return true
}

// rates computes the lowest and highest rate of amounts whose ticks have different lengths. The
// lengths are nearly equal, so few amounts have to be divided: only an amount close to the smallest
// can have the lowest rate, unless it is negative.
func (f *cellFolder) rates(k int, num numbers, v []int64, least, most int64) {
	weights := f.weights[f.stretches[k].from:f.stretches[k].to]
	near := f.mostWeight[k] / f.leastWeight[k] * (1 + 1e-9)
	low, high := num.of(least), num.of(most)
	if low < 0 { // division may reverse their order
		low, high = math.Inf(1), math.Inf(-1)
	} else {
		low, high = low*near, high/near
	}
	// Back to stored numbers, with a margin of one for rounding.
	upTo, from := num.below(low), num.above(high)
	lowest, highest := math.Inf(1), math.Inf(-1)
	for t, x := range v {
		if x <= upTo || x >= from {
			r := num.of(x) / weights[t]
			lowest, highest = min(lowest, r), max(highest, r)
		}
	}
	f.least[k], f.most[k] = lowest, highest
}

// below returns a number not less than any whose value is at most v. above returns one not greater
// than any whose value is at least v.
func (n *numbers) below(v float64) int64 {
	return clamp(math.Ceil((v*n.scale-float64(n.base))/float64(n.by))) + 1
}
func (n *numbers) above(v float64) int64 {
	return clamp(math.Floor((v*n.scale-float64(n.base))/float64(n.by))) - 1
}

func clamp(v float64) int64 { return int64(max(-1<<62, min(1<<62, v))) }

// foldRuns folds a row of integers in runs of the given lengths. It requires equalWeights.
func (f *cellFolder) foldRuns(num numbers, lengths []int32, u []int64) bool {
	k, at := 0, int32(0)
	var count, sum, least, most int64
	for i, n := range lengths {
		x := u[i]
		for end := at + n; at < end && k < len(f.stretches); {
			st := &f.stretches[k]
			if at < st.from {
				at = min(end, st.from)
				continue
			}
			to := min(end, st.to)
			if count == 0 {
				least, most = x, x
			} else {
				least, most = min(least, x), max(most, x)
			}
			count += int64(to - at)
			sum += int64(to-at) * x
			at = to
			if at < st.to {
				continue
			}
			var exact bool
			if f.sum[k], exact = num.sum(count, sum, least, most); !exact {
				return false
			}
			f.n[k], f.least[k], f.most[k] = uint32(count), num.of(least), num.of(most)
			if f.weights != nil {
				f.least[k] /= f.leastWeight[k]
				f.most[k] /= f.leastWeight[k]
			}
			k++
			count, sum = 0, 0
		}
	}
	return true
}

// fold folds row i into the cells; false when the row has to be expanded to ticks for that.
func (g *group) fold(i int, f *cellFolder) (bool, error) {
	h := &g.heads[i]
	if h.flags&rowUnknown != 0 {
		return false, nil
	}
	mode, full := h.flags&modeMask, h.flags&rowFull != 0
	r := reader{b: h.rest}
	switch {
	case mode == modeNone:
		clear(f.n)
		return true, nil
	case !full:
	case mode == modeSame:
		v := r.value()
		f.foldConstant(v)
		return r.err == nil && v == v, r.err
	case mode == modePlanes:
		if f.foldInts(numbers{h.base, int64(h.divisor), powers[h.scale]}, g.units(h)) {
			return true, nil
		}
	case mode == modeRuns && f.equalWeights:
		lengths, values, ok := g.lengths(h, &r)
		if !ok {
			return true, errCorrupt
		}
		if f.foldRuns(numbers{0, 1, powers[h.scale]}, lengths, values) {
			return true, nil
		}
	}
	if cap(g.floating) < h.n {
		g.floating = make([]float64, h.n)
	}
	known := g.floating[:h.n]
	if err := g.known(i, known); err != nil {
		return true, err
	}
	if full {
		f.foldFloats(known)
	} else {
		f.foldSparse(h.present, h.all, known)
	}
	for k, n := range f.n {
		if n > 0 && f.sum[k] != f.sum[k] {
			return false, nil
		}
	}
	return true, nil
}
