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
