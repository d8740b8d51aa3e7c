package measure

import "testing"

func TestBucketsPartitionTheNumbers(t *testing.T) {
	for base := uint8(0); base <= 6; base++ {
		for _, v := range []uint64{0, 1, 2, 3, 4, 5, 7, 8, 100, 1023, 1024, 1025, 1 << 40, 1<<63 + 12345, 1<<64 - 1} {
			b := BucketOf(base, v)
			lo, hi := BucketStart(base, b), BucketStart(base, b+1)
			if v < lo || v >= hi && hi != 1<<64-1 {
				t.Errorf("base %d: %d is in bucket %d = [%d,%d)", base, v, b, lo, hi)
			}
			if lo >= 1<<base && hi != 1<<64-1 && float64(hi-lo) > float64(lo)/float64(uint64(1)<<base) {
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
