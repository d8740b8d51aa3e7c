package measure

import "math/bits"

// Dist is a distribution of non-negative integers in log-linear buckets. Each power of two is
// divided into 2^Base equal buckets, so a value is known within a relative error of 2^-Base. Values
// below 2^Base are exact.
//
//	Base 2:  0 1 2 3 | 4 5 6 7 | 8-9 10-11 12-13 14-15 | 16-19 ...
//	bucket   0 1 2 3   4 5 6 7   8   9     10    11      12
//
// The zero Dist is empty and of Base 0.
type Dist struct {
	Base   uint8    // 0..6
	First  int32    // the bucket number of Counts[0]
	Counts []uint64 // values in each bucket
	Sum    float64  // of the exact values, in the statistic's unit
}

// BucketOf returns the bucket of value v.
func BucketOf(base uint8, v uint64) int32 {
	if v < 1<<base {
		return int32(v)
	}
	power := bits.Len64(v) - 1 - int(base) // v>>power is in [2^base, 2^(base+1))
	return int32(power<<base) + int32(v>>power)
}

// BucketStart returns the smallest value of a bucket, which ends before the start of the next. Past
// the last bucket of 64-bit values it returns the largest value.
func BucketStart(base uint8, bucket int32) uint64 {
	if bucket < 2<<base {
		return uint64(max(bucket, 0))
	}
	power := int(bucket>>base) - 1
	if power+int(base) > 63 {
		return 1<<64 - 1
	}
	return (uint64(bucket)&(1<<base-1) | 1<<base) << power
}

// Add counts n values of v.
func (d *Dist) Add(v, n uint64) {
	d.count(BucketOf(d.Base, v), n)
	d.Sum += float64(v) * float64(n)
}

func (d *Dist) count(bucket int32, n uint64) {
	switch {
	case len(d.Counts) == 0:
		d.First, d.Counts = bucket, append(d.Counts, 0)
	case bucket < d.First:
		d.Counts = append(make([]uint64, d.First-bucket), d.Counts...)
		d.First = bucket
	}
	for int(bucket-d.First) >= len(d.Counts) {
		d.Counts = append(d.Counts, 0)
	}
	d.Counts[bucket-d.First] += n
}

// Merge adds all values of o. If o has another Base, each of its buckets counts at its start.
func (d *Dist) Merge(o Dist) {
	for i, n := range o.Counts {
		if n == 0 {
			continue
		}
		b := o.First + int32(i)
		if o.Base != d.Base {
			b = BucketOf(d.Base, BucketStart(o.Base, b))
		}
		d.count(b, n)
	}
	d.Sum += o.Sum
}

// Count returns the number of values.
func (d *Dist) Count() uint64 {
	var n uint64
	for _, c := range d.Counts {
		n += c
	}
	return n
}

// Mean returns Sum/Count; NaN when d is empty.
func (d *Dist) Mean() float64 {
	if n := d.Count(); n > 0 {
		return d.Sum / float64(n)
	}
	return NaN
}

// Quantile returns the value below which the share q (0 to 1) of the values lies, interpolated
// linearly within a bucket; NaN when d is empty.
func (d *Dist) Quantile(q float64) float64 {
	total := d.Count()
	if total == 0 {
		return NaN
	}
	want, seen := q*float64(total), 0.0
	for i, c := range d.Counts {
		if c > 0 && seen+float64(c) >= want {
			lo := float64(BucketStart(d.Base, d.First+int32(i)))
			hi := float64(BucketStart(d.Base, d.First+int32(i)+1))
			return lo + (hi-lo)*(want-seen)/float64(c)
		}
		seen += float64(c)
	}
	return float64(BucketStart(d.Base, d.First+int32(len(d.Counts))))
}
