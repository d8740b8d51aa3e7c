package format

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// Function is an aggregating function.
type Function uint8

// The aggregating functions, in the order of lang/check.
const (
	Count Function = iota
	Sum
	Min
	Max
	Avg
	Stddev
	Quantize
	Lquantize
	Llquantize
)

// An Aggregation is the state of one @name at a moment.
type Aggregation struct {
	Name    string // without the @; "" for the aggregation without a name
	Func    Function
	Buckets Buckets          // for Quantize, Lquantize and Llquantize
	Normal  uint64           // the divisor of values when they are printed; 0 and 1: none
	Rows    []AggregationRow // in any order; printing sorts a copy
	Printed bool             // a printa has printed it: it is not printed at the end
}

// An AggregationRow is the value of an aggregation for one key.
type AggregationRow struct {
	Key []Value // all rows of an aggregation have keys of the same kinds and sizes
	// Data is the value. Count, Sum, Min, Max: one number. Avg: count and sum. Stddev: count, sum,
	// the low and the high half of the sum of squares. Distributions: one count per bucket.
	Data   []int64
	PerCPU [][]int64 // the same per CPU, by its number; printed with the option aggpercpu
}

// size returns how many numbers a value has.
func (a *Aggregation) size() int {
	switch a.Func {
	case Avg:
		return 2
	case Stddev:
		return 4
	case Quantize, Lquantize, Llquantize:
		return a.Buckets.Len()
	}
	return 1
}

// sound returns the value, padded or truncated to the size of the function.
func (a *Aggregation) sound(data []int64) []int64 {
	if n := a.size(); len(data) < n {
		return append(slices.Clone(data), make([]int64, n-len(data))...)
	}
	return data
}

// Clear does what clear() does: keys stay, values become those of an empty aggregation. As in
// dtrace, the minimum of nothing is the greatest number, and the maximum is the lowest.
func (a *Aggregation) Clear() {
	for _, r := range a.Rows {
		a.clear(r.Data)
		for _, one := range r.PerCPU {
			a.clear(one)
		}
	}
}

func (a *Aggregation) clear(data []int64) {
	clear(data)
	if len(data) > 0 {
		data[0] = a.nothing()
	}
}

func (a *Aggregation) nothing() int64 {
	switch a.Func {
	case Min:
		return math.MaxInt64
	case Max:
		return math.MinInt64
	}
	return 0
}

// Truncate does what trunc() does: it keeps the n rows of the greatest values or, when n is
// negative, the -n rows of the lowest. The sort options are ignored. It leaves the rows in that
// order.
func (a *Aggregation) Truncate(n int64) {
	rows := a.weighed()
	plain := Style{}
	least := n < 0
	slices.SortFunc(rows, func(x, y weighed) int {
		c := cmp.Or(compareWeights(x.weight, y.weight), plain.compareKeys(x.Key, y.Key))
		if least {
			return c
		}
		return -c
	})
	keep := uint64(n)
	if least {
		keep = -keep
	}
	kept := make([]AggregationRow, 0, min(uint64(len(rows)), keep))
	for _, r := range rows[:cap(kept)] {
		kept = append(kept, r.AggregationRow)
	}
	a.Rows = kept
}

// A weight is the sort key of a row's value. For a distribution it is the sum over all counts, each
// times the label of its bucket, then the count of the bucket of 0.
type weight struct {
	hi   int64 // a 128-bit number
	lo   uint64
	zero int64
}

type weighed struct {
	AggregationRow
	weight weight
}

// weighed returns the rows with their weights, each computed once.
func (a *Aggregation) weighed() []weighed {
	out := make([]weighed, len(a.Rows))
	for i, r := range a.Rows {
		r.Data = a.sound(r.Data)
		out[i] = weighed{r, a.weigh(r.Data)}
	}
	return out
}

func (a *Aggregation) weigh(data []int64) weight {
	switch a.Func {
	case Avg:
		return whole(average(data, 1))
	case Stddev:
		return weight{lo: deviation(data, 1)}
	case Quantize, Lquantize, Llquantize:
		return a.Buckets.weigh(data)
	}
	return whole(data[0])
}

func whole(n int64) weight { return weight{hi: n >> 63, lo: uint64(n)} }

// add adds n times the value u, negative when minus is set.
func (w *weight) add(u uint64, minus bool, n int64) {
	hi, lo := bits.Mul64(u, magnitude(n))
	if minus != (n < 0) {
		var carry uint64
		lo, carry = bits.Add64(^lo, 1, 0)
		hi = ^hi + carry
	}
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, lo, 0)
	w.hi += int64(hi) + int64(carry)
}

// weigh computes the weight as dtrace does: values are the labels of buckets. Below the base of
// lquantize that is base-1, after its last step the limit plus 1.
func (b Buckets) weigh(counts []int64) weight {
	var w weight
	put := func(v, n int64) {
		w.add(magnitude(v), v < 0, n)
		if v == 0 {
			w.zero = n
		}
	}
	switch b.form {
	case linear:
		for i, n := range counts {
			switch {
			case i == 0:
				put(b.base-1, n)
			case i > int(b.levels):
				put(b.base+b.levels*b.step+1, n)
			default:
				put(b.base+int64(i-1)*b.step, n)
			}
		}
	case logLinear:
		zero := b.zero()
		w.zero = counts[zero]
		for i, n := range counts {
			if n == 0 || i == zero {
				continue
			}
			if near, _, ok := b.magnitude(max(i-zero, zero-i)); ok {
				w.add(near, i < zero, n)
			}
		}
	default:
		for i, n := range counts {
			put(b.quantValue(i), n)
		}
	}
	return w
}

func compareWeights(a, b weight) int {
	return cmp.Or(order(a.hi, b.hi), order(a.lo, b.lo), order(a.zero, b.zero))
}

// compareKeys compares keys by their elements, beginning at SortKeyPos and wrapping around.
func (s *Style) compareKeys(a, b []Value) int {
	n := len(a)
	if c := cmp.Compare(n, len(b)); c != 0 {
		return c
	}
	from := s.SortKeyPos
	if from < 0 || from >= n {
		from = 0
	}
	for i := range n {
		at := (from + i) % n
		if c := a[at].compare(b[at]); c != 0 {
			return c
		}
	}
	return 0
}

// sorted returns the rows in the order of printing: by value, then key; with SortKey only by key.
func (s *Style) sorted(a *Aggregation) []weighed {
	rows := greatest(a.weighed(), s.Rows, func(x, y weighed) int {
		return cmp.Or(compareWeights(x.weight, y.weight), s.compareKeys(x.Key, y.Key))
	})
	slices.SortStableFunc(rows, func(x, y weighed) int {
		c := 0
		if !s.SortKey {
			c = compareWeights(x.weight, y.weight)
		}
		if c == 0 {
			c = s.compareKeys(x.Key, y.Key)
		}
		if s.SortRev {
			return -c
		}
		return c
	})
	return rows
}

// average returns the mean of avg()'s data.
func average(data []int64, normal uint64) int64 {
	if data[0] == 0 {
		return 0
	}
	return normalized(data[1], normal) / data[0]
}

// deviation returns the standard deviation of stddev()'s data: the root of the mean of squares
// minus the square of the mean, in integers. With a normal of n the squares are divided by n twice.
func deviation(data []int64, normal uint64) uint64 {
	count := uint64(data[0])
	if count == 0 {
		return 0
	}
	normal = max(normal, 1)
	hi, lo := uint64(data[3]), uint64(data[2])
	for _, by := range []uint64{normal, normal, count} {
		var rest uint64
		hi, rest = hi/by, hi%by
		lo, _ = bits.Div64(rest, lo, by)
	}
	mean := magnitude(normalized(data[1], normal) / int64(count))
	if int64(count) < 0 {
		mean = 0
	}
	squareHi, squareLo := bits.Mul64(mean, mean)
	lo, borrow := bits.Sub64(lo, squareLo, 0)
	hi, borrow = bits.Sub64(hi, squareHi, borrow)
	if borrow != 0 { // rounding made the mean of squares smaller than the square of the mean
		return 0
	}
	return root(hi, lo)
}

// root returns the integer square root of a 128-bit number.
func root(hi, lo uint64) uint64 {
	var r uint64
	for bit := uint64(1) << 63; bit != 0; bit >>= 1 {
		try := r | bit
		h, l := bits.Mul64(try, try)
		if h < hi || h == hi && l <= lo {
			r = try
		}
	}
	return r
}

// value appends the value of a row in a table.
func (s *Style) value(dst []byte, a *Aggregation, data []int64) []byte {
	data = a.sound(data)
	wide := field{width: 16}
	switch a.Func {
	case Quantize, Lquantize, Llquantize:
		return s.distribution(dst, a.Buckets, data, a.Normal)
	case Avg:
		return wide.signed(append(dst, ' '), average(data, a.Normal))
	case Stddev:
		return wide.unsigned(append(dst, ' '), 'u', deviation(data, a.Normal))
	}
	return wide.signed(append(dst, ' '), normalized(data[0], a.Normal))
}

// Aggregations appends the output of aggregations at the end of a program: all rows of those that
// no printa has printed. The order is that of the list, the order of first use in the program; with
// SortRev it is reversed.
func (s *Style) Aggregations(dst []byte, all []*Aggregation) []byte {
	all = slices.Clone(all)
	if s.SortRev {
		slices.Reverse(all)
	}
	for _, a := range all {
		if !a.Printed {
			dst = s.table(dst, a)
		}
	}
	return dst
}

// Table appends the output of printa(@a) or printa(@a, @b, ...): an empty line, then a line per key
// with the values of the aggregations side by side.
func (s *Style) Table(dst []byte, all ...*Aggregation) []byte {
	dst = append(dst, '\n')
	if len(all) == 1 {
		all[0].Printed = all[0].Printed || len(all[0].Rows) > 0
		return s.table(dst, all[0])
	}
	for _, r := range s.join(all) {
		for _, v := range r.key {
			dst = s.datum(dst, v, false)
		}
		for i, a := range all {
			dst = s.value(dst, a, r.data[i])
			dst = s.cpus(dst, a, r.perCPU[i])
			a.Printed = true
		}
		dst = append(dst, '\n')
	}
	return dst
}

func (s *Style) cpus(dst []byte, a *Aggregation, each [][]int64) []byte {
	if !s.PerCPU {
		return dst
	}
	for cpu, data := range each {
		dst = append(dst, "\n    [CPU "...)
		dst = field{}.signed(dst, int64(cpu))
		dst = append(dst, ']')
		dst = s.value(dst, a, data)
	}
	return dst
}

// table appends the rows of one aggregation.
func (s *Style) table(dst []byte, a *Aggregation) []byte {
	rows := s.sorted(a)
	hist := s.Hist && (a.Func == Count || a.Func == Sum)
	pack := s.Pack && (a.Func == Quantize || a.Func == Lquantize)
	var all scale
	first, last := 0, 0
	if len(rows) > 0 && (hist || pack) {
		keys := 0
		for _, v := range rows[0].Key {
			keys += packedWidth(v) + 1
		}
		if hist {
			for _, r := range rows {
				all.add(r.Data[0])
			}
			width, what := keys, "key"
			if width == 0 {
				width, what = 16, "value"
			}
			dst = quantHeader(dst, width, what)
		} else {
			for i := range a.Rows {
				a.Rows[i].Data = a.sound(a.Rows[i].Data)
			}
			first, last = packedRange(a.Buckets, a.Rows)
			dst = packedHeader(dst, a.Buckets, keys, first, last)
		}
	}
	for _, r := range rows {
		for _, v := range r.Key {
			dst = s.datum(dst, v, hist || pack)
		}
		switch {
		case hist:
			dst = s.line(append(dst, ' '), r.Data[0], a.Normal, &all)
		case pack:
			dst = s.packed(dst, a.Buckets, r.Data, first, last)
		default:
			dst = s.value(dst, a, r.Data)
			dst = s.cpus(dst, a, r.PerCPU)
			dst = append(dst, '\n')
		}
	}
	return dst
}

// packedWidth returns the width of an element of a key beside a bar.
func packedWidth(v Value) int {
	if v.Kind == Int {
		switch v.Size {
		case 1:
			return 3
		case 2:
			return 5
		case 4:
			return 8
		}
	}
	return 16
}

// A joined row is a key with its values in several aggregations.
type joined struct {
	key     []Value
	data    [][]int64
	perCPU  [][][]int64
	weights []weight
}

// join merges aggregations: a row for each key of any of them, 0 where one lacks it. Rows are
// sorted by the values of the aggregation at SortPos, then of those after it, wrapping around, then
// by key; with SortKey the key comes first.
func (s *Style) join(all []*Aggregation) []joined {
	type source struct {
		weighed
		from int
	}
	var rows []source
	for i, a := range all {
		for _, r := range a.weighed() {
			rows = append(rows, source{r, i})
		}
	}
	slices.SortStableFunc(rows, func(x, y source) int { return s.compareKeys(x.Key, y.Key) })
	var out []joined
	for i, r := range rows {
		if i == 0 || s.compareKeys(rows[i-1].Key, r.Key) != 0 {
			j := joined{
				key:     r.Key,
				data:    make([][]int64, len(all)),
				perCPU:  make([][][]int64, len(all)),
				weights: make([]weight, len(all)),
			}
			for k, a := range all {
				j.data[k] = make([]int64, a.size())
			}
			out = append(out, j)
		}
		j := &out[len(out)-1]
		j.data[r.from], j.perCPU[r.from], j.weights[r.from] = r.Data, r.PerCPU, r.weight
	}
	first := s.SortPos
	if first < 0 || first >= len(all) {
		first = 0
	}
	byValue := func(x, y joined) int {
		c := 0
		for k := 0; c == 0 && k < len(all); k++ {
			at := (first + k) % len(all)
			c = compareWeights(x.weights[at], y.weights[at])
		}
		return cmp.Or(c, s.compareKeys(x.key, y.key))
	}
	out = greatest(out, s.Rows, byValue)
	slices.SortStableFunc(out, func(x, y joined) int {
		c := 0
		if s.SortKey {
			c = s.compareKeys(x.key, y.key)
		}
		c = cmp.Or(c, byValue(x, y))
		if s.SortRev {
			return -c
		}
		return c
	})
	return out
}
