package remotewrite

import (
	"math"
	"slices"
	"strconv"

	"culprit/measure"

	"github.com/prometheus/prometheus/prompb"
)

// Native histograms
//
// A recorded distribution has 2^Base equal buckets per power of two, in the statistic's own unit. A
// native histogram has 2^schema buckets per power of two whose bounds are powers of two themselves,
// in the base unit: bucket i is (2^((i-1)/2^schema), 2^(i/2^schema)]. The bounds differ: 1 ns is no
// power of two in seconds. So the values of a recorded bucket are divided among the native buckets
// that it overlaps, as if they were evenly spread, which is also how a quantile is interpolated.
//
//	recorded, Base 2   |        112 us        |         128 us         |        160 us
//	native, schema 5     |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |
//
// At each native bound the number of smaller values is what interpolation in the recorded bucket
// says, but for a few of them (see below). Between two bounds, which differ by 2^(1/2^schema), a
// receiver interpolates. With schema = Base+3 a quantile is off by less than 9 % / 2^Base: 2.2 %
// for Base 2, and by far less where values are spread.
const (
	moreSchema = 3 // schema - Base
	maxSchema  = 8
	// zeroThreshold is Prometheus's default: only zeros are in the zero bucket.
	zeroThreshold = 0x1p-128
)

// schemaOf returns the schema for distributions of a base.
func schemaOf(base uint8) int32 { return min(int32(base)+moreSchema, maxSchema) }

// nativeOf returns the counter of a row as a native histogram. Its counts only grow, as the
// distribution's do.
func nativeOf(r *row, per float64) prompb.Histogram {
	d := &r.dist
	h := prompb.Histogram{
		Sum: r.sum / per, Schema: schemaOf(d.Base), ZeroThreshold: zeroThreshold,
		Count: &prompb.Histogram_CountInt{CountInt: d.Count()},
	}
	var zeros uint64
	b := bucketList{h: &h}
	for i, n := range d.Counts {
		if n == 0 {
			continue
		}
		bucket := d.First + int32(i)
		// The values are whole numbers: those of the bucket are in (lo, hi].
		lo := float64(measure.BucketStart(d.Base, bucket)) - 1
		hi := float64(measure.BucketStart(d.Base, bucket+1)) - 1
		if hi == 0 {
			zeros = n
			continue
		}
		first := indexOf(hi/per, h.Schema)
		if hi-lo > 1 {
			first = indexOf(math.Nextafter(lo/per, math.Inf(1)), h.Schema)
		}
		var before uint64
		for at := first; before < n; at++ {
			upTo := n
			if bound := upperBound(at, h.Schema) * per; bound < hi && hi-lo > 1 {
				upTo = below(n, (bound-lo)/(hi-lo))
			}
			b.add(at, upTo-before)
			before = upTo
		}
	}
	h.ZeroCount = &prompb.Histogram_ZeroCountInt{ZeroCountInt: zeros}
	b.end()
	return h
}

// upperBound returns the upper bound of a native bucket.
func upperBound(index, schema int32) float64 {
	return math.Exp2(float64(index) / float64(int32(1)<<schema))
}

// indexOf returns the native bucket of a value above 0.
func indexOf(v float64, schema int32) int32 {
	i := int32(math.Ceil(math.Log2(v) * float64(int32(1)<<schema)))
	for upperBound(i, schema) < v { // Log2 rounds
		i++
	}
	for upperBound(i-1, schema) >= v {
		i--
	}
	return i
}

// shareBits is the precision of a share in below.
const shareBits = 24

// below returns how many of n values in a bucket are in its lower share (0 to 1). It grows with n,
// and differs from n*share by less than 2 + log2(n)/3. Value number i has the place of i in the
// sequence of van der Corput, which fills each part of the bucket evenly: 0, 1/2, 1/4, 3/4, 1/8 ...
// (the binary digits of i, mirrored at the point). The values below share are those of a few binary
// intervals, one per binary digit 1 of share, such as [0, 1/2) and [1/2, 5/8) for 5/8. In an
// interval of length 2^-k is each value whose last k digits are those of its start, mirrored.
func below(n uint64, share float64) uint64 {
	s := uint64(math.Round(math.Max(0, math.Min(share, 1)) * (1 << shareBits)))
	if s == 1<<shareBits {
		return n
	}
	var count, start uint64 // start: the mirrored digits of the interval's start
	for k := range uint64(shareBits) {
		if s>>(shareBits-1-k)&1 == 0 {
			continue
		}
		// The numbers start, start + 2^(k+1), start + 2*2^(k+1) ... below n.
		if n > start {
			count += (n-start-1)>>(k+1) + 1
		}
		start |= 1 << k
	}
	return count
}

// bucketList appends counts to a native histogram, in the order of buckets.
type bucketList struct {
	h     *prompb.Histogram
	index int32 // of the newest bucket
	count uint64
	sent  int64 // of the bucket before
	any   bool
}

// add adds n values to a bucket that is not before the newest one.
func (b *bucketList) add(index int32, n uint64) {
	if n == 0 {
		return
	}
	if b.any && index == b.index {
		b.count += n
		return
	}
	if b.any {
		b.end()
	}
	spans := &b.h.PositiveSpans
	switch {
	case !b.any:
		*spans = append(*spans, prompb.BucketSpan{Offset: index, Length: 1})
	case index == b.index+1:
		(*spans)[len(*spans)-1].Length++
	default:
		*spans = append(*spans, prompb.BucketSpan{Offset: index - b.index - 1, Length: 1})
	}
	b.index, b.count, b.any = index, n, true
}

// end appends the newest bucket. Each count is the difference to that of the bucket before.
func (b *bucketList) end() {
	if !b.any {
		return
	}
	n := int64(b.count)
	b.h.PositiveDeltas = append(b.h.PositiveDeltas, n-b.sent)
	b.sent = n
}

// difference returns the values that a has and b has not; a contains b.
func difference(a, b measure.Dist) measure.Dist {
	out := measure.Dist{Base: a.Base, First: a.First, Counts: slices.Clone(a.Counts)}
	if a.Base != b.Base {
		return out
	}
	for i, n := range b.Counts {
		if j := int(b.First-a.First) + i; j >= 0 && j < len(out.Counts) {
			out.Counts[j] -= min(n, out.Counts[j])
		}
	}
	return out
}

// classicBounds returns the upper bounds of classic buckets, in the statistic's own unit: one less
// than powers of two, which are bounds of recorded buckets of every base. So all counts are exact.
// They are the same for all rows and hosts: 1 us to 69 s for times, else 1 to 2^40.
func classicBounds(unit measure.Unit) (all []float64) {
	from, to, by := 1, 40, 3
	if unit == measure.Nanoseconds {
		from, to, by = 10, 36, 1
	}
	for i := from; i <= to; i += by {
		all = append(all, math.Exp2(float64(i))-1)
	}
	return all
}

// classic appends a sample to each series of a row: the buckets, +Inf, the sum and the count.
func (b *builder) classic(at measure.Time) {
	d, bounds := &b.r.dist, classicBounds(b.m.Unit)
	var sum uint64
	next := 0
	for i, bound := range bounds {
		for next < len(d.Counts) &&
			float64(measure.BucketStart(d.Base, d.First+int32(next)+1))-1 <= bound {
			sum += d.Counts[next]
			next++
		}
		b.float(i, at, float64(sum))
	}
	count := float64(d.Count())
	b.float(len(bounds), at, count)
	b.float(len(bounds)+1, at, b.m.value(b.r.sum))
	b.float(len(bounds)+2, at, count)
}

// classicLabels returns the labels of series i of a row.
func classicLabels(all []prompb.Label, m *metric, i int) []prompb.Label {
	bounds := classicBounds(m.Unit)
	switch i {
	case len(bounds) + 1:
		return with(all, m.name+"_sum", prompb.Label{})
	case len(bounds) + 2:
		return with(all, m.name+"_count", prompb.Label{})
	}
	le := "+Inf"
	if i < len(bounds) {
		le = strconv.FormatFloat(bounds[i]/m.unit.Per, 'g', -1, 64)
	}
	return with(all, m.name+"_bucket", prompb.Label{Name: "le", Value: le})
}
