package measure

import (
	"math"
	"testing"
)

func TestBucketsPartitionTheNumbers(t *testing.T) {
	for base := uint8(0); base <= 6; base++ {
		for _, v := range []uint64{0, 1, 2, 3, 4, 5, 7, 8, 100, 1023, 1024, 1025,
			1 << 40, 1<<63 + 12345, 1<<64 - 1} {
			b := BucketOf(base, v)
			lo, hi := BucketStart(base, b), BucketStart(base, b+1)
			if v < lo || v >= hi && hi != 1<<64-1 {
				t.Errorf("base %d: %d is in bucket %d = [%d,%d)", base, v, b, lo, hi)
			}
			widest := float64(lo) / float64(uint64(1)<<base)
			if lo >= 1<<base && hi != 1<<64-1 && float64(hi-lo) > widest {
				t.Errorf("base %d: bucket [%d,%d) is too wide", base, lo, hi)
			}
		}
	}
}

func TestDistKeepsCountAndSum(t *testing.T) {
	a, b := Dist{Base: 3}, Dist{Base: 3}
	for v := uint64(0); v < 1000; v++ {
		a.Add(v, 1)
		b.Add(v+1000, 2)
	}
	a.Merge(b)
	if a.Count() != 3000 || a.Sum != 999*500+2*(1000*1000+999*500) {
		t.Errorf("count %d sum %g", a.Count(), a.Sum)
	}
	if q := a.Quantile(0.5); q < 1100 || q > 1400 {
		t.Errorf("median %g", q)
	}
}

// A quantile is interpolated within its bucket: one bucket with all values has a quantile for each
// share, and a quantile never jumps at a bucket's edge.
func TestQuantile(t *testing.T) {
	var d Dist // base 0: buckets [1,2) [2,4) [4,8) [8,16)
	d.Add(4, 3)
	d.Add(8, 1)
	for _, tt := range []struct {
		name  string
		share float64
		want  float64
	}{
		{"start of the first bucket", 0, 4},
		{"a third of the bucket's values", 0.25, 4 + 4.0/3},
		{"two thirds of the bucket's values", 0.5, 4 + 8.0/3},
		{"end of the first bucket", 0.75, 8},
		{"half of the last bucket's value", 0.875, 12},
		{"end of the last bucket", 1, 16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := d.Quantile(tt.share); math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("%g, want %g", got, tt.want)
			}
		})
	}
}

// Buckets of another base count at their starts.
func TestMergeOfAnotherBase(t *testing.T) {
	fine := Dist{Base: 2}
	fine.Add(13, 5) // bucket [12,14)
	fine.Add(20, 7) // bucket [20,24)
	var d Dist
	d.Add(1, 2)
	d.Merge(fine)
	for start, want := range map[uint64]uint64{1: 2, 8: 5, 16: 7} {
		b := BucketOf(0, start)
		if got := d.Counts[b-d.First]; got != want {
			t.Errorf("bucket of %d has %d values, want %d", start, got, want)
		}
	}
	if want := 2.0 + 5*13 + 7*20; d.Sum != want {
		t.Errorf("sum %g, want %g", d.Sum, want)
	}
}

func TestEmptyDist(t *testing.T) {
	var d Dist
	if !math.IsNaN(d.Mean()) || !math.IsNaN(d.Quantile(0.5)) || d.Count() != 0 {
		t.Errorf("mean %g, median %g, count %d", d.Mean(), d.Quantile(0.5), d.Count())
	}
	d.Merge(Dist{Counts: []uint64{0, 0}})
	if len(d.Counts) != 0 {
		t.Errorf("empty buckets are merged: %v", d.Counts)
	}
	d.Add(6, 2)
	d.Add(9, 1)
	if got := d.Mean(); got != 7 {
		t.Errorf("mean of 6, 6 and 9: %g", got)
	}
}

// Values that come in any order are in the bucket of each.
func TestDistGrowsBothWays(t *testing.T) {
	d := Dist{Base: 2}
	for i, v := range []uint64{9, 3, 1 << 20, 0, 9} {
		d.Add(v, uint64(i+1))
	}
	for v, want := range map[uint64]uint64{9: 1 + 5, 3: 2, 1 << 20: 3, 0: 4, 5: 0} {
		if got := d.Counts[BucketOf(2, v)-d.First]; got != want {
			t.Errorf("%d values of %d, want %d", got, v, want)
		}
	}
	if d.First != 0 || d.Count() != 15 {
		t.Errorf("first bucket %d, %d values", d.First, d.Count())
	}
}

// The edges of the buckets of base 2, as the documentation draws them.
func TestBucketEdges(t *testing.T) {
	starts := []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20}
	for b, want := range starts {
		if got := BucketStart(2, int32(b)); got != want {
			t.Errorf("bucket %d starts at %d, want %d", b, got, want)
		}
		if got := BucketOf(2, want); got != int32(b) {
			t.Errorf("%d is in bucket %d, want %d", want, got, b)
		}
	}
	for base := range uint8(7) {
		last := BucketOf(base, 1<<64-1)
		if got := BucketStart(base, last); got == 1<<64-1 {
			t.Errorf("base %d: the last bucket starts at the largest value", base)
		}
		for _, past := range []int32{last + 1, last + 100} {
			if got := BucketStart(base, past); got != 1<<64-1 {
				t.Errorf("base %d: bucket %d starts at %d", base, past, got)
			}
		}
		if got := BucketStart(base, -1); got != 0 {
			t.Errorf("base %d: bucket -1 starts at %d", base, got)
		}
	}
}
