package remotewrite

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"testing"

	"culprit/measure"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

// TestBelow compares below with the sequence itself, one value after the other.
func TestBelow(t *testing.T) {
	for _, share := range []float64{0, 1e-9, 0.1, 0.25, 1. / 3, 0.5, 0.625, 0.999, 1} {
		rounded := math.Round(share*(1<<shareBits)) / (1 << shareBits)
		count := uint64(0)
		for n := range uint64(3000) {
			if got := below(n, share); got != count {
				t.Fatalf("%d of %d values are below %g, want %d", got, n, share, count)
			}
			off := math.Abs(float64(count) - float64(n)*share)
			if limit := 2 + math.Log2(float64(n+1))/3; off >= limit {
				t.Fatalf("%d values of %d below %g: off by %g, limit %g", count, n, share, off, limit)
			}
			if float64(bits.Reverse64(n))/(1<<63)/2 < rounded {
				count++
			}
		}
	}
}

// native decodes a native histogram with Prometheus's own package.
func native(t *testing.T, h prompb.Histogram) *histogram.FloatHistogram {
	t.Helper()
	got := h.ToIntHistogram()
	if err := got.Validate(); err != nil {
		t.Fatalf("Prometheus refuses it: %v", err)
	}
	return got.ToFloat(nil)
}

// quantile is histogram_quantile of Prometheus's own engine.
func quantile(q float64, h *histogram.FloatHistogram) float64 {
	v, _ := promql.HistogramQuantile(q, h, "", posrange.PositionRange{})
	return v
}

// TestNativeQuantiles checks that a receiver finds the quantiles that culprit finds, within the
// resolution of the native buckets, for distributions of several forms and bases.
func TestNativeQuantiles(t *testing.T) {
	forms := map[string]func(r *rand.Rand) float64{
		"log-normal":  func(r *rand.Rand) float64 { return 3e5 * math.Exp(r.NormFloat64()) },
		"two modes":   func(r *rand.Rand) float64 { return []float64{90e3, 8e6}[r.IntN(2)] * (1 + r.Float64()/5) },
		"one value":   func(*rand.Rand) float64 { return 123456 },
		"exponential": func(r *rand.Rand) float64 { return 1e7 * r.ExpFloat64() },
	}
	for name, draw := range forms {
		for _, base := range []uint8{0, 2, 3, 6} {
			t.Run(name+" "+strconv.Itoa(int(base)), func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, uint64(base)))
				r := &row{dist: measure.Dist{Base: base}}
				const n = 20000
				for range n {
					v := draw(random)
					r.dist.Add(uint64(v), 1)
					r.sum += math.Floor(v)
				}
				got := native(t, nativeOf(r, 1e9))
				if got.Count != n || math.Abs(got.Sum-r.sum/1e9) > 1e-9*got.Sum {
					t.Errorf("%v values, sum %v", got.Count, got.Sum)
				}
				resolution := math.Exp2(1/math.Exp2(float64(got.Schema))) - 1
				worst := 0.
				for q := 0.005; q < 1; q += 0.005 {
					v := quantile(q, got) * 1e9
					worst = max(worst, math.Abs(v/quantileOf(&r.dist, q)-1))
					// The rank of a value is off by the few that below is off by.
					lo, hi := quantileOf(&r.dist, q-8./n), quantileOf(&r.dist, q+8./n)
					if v < lo*(1-resolution) || v > hi*(1+resolution) {
						t.Errorf("quantile %g is %g, culprit's are %g to %g", q, v, lo, hi)
					}
				}
				if worst > resolution && base < 6 {
					t.Errorf("off by %.2f %%", 100*worst)
				}
				t.Logf("off by at most %.3f %% of %.2f %%, %d buckets", 100*worst, 100*resolution,
					len(got.PositiveBuckets))
			})
		}
	}
}

// quantileOf is culprit's own quantile for whole numbers: those of a bucket are evenly spread in
// (first-1, last].
func quantileOf(d *measure.Dist, q float64) float64 { return d.Quantile(q) - 1 }

// TestNativeIsMonotone checks that no bucket of a growing distribution shrinks, which a receiver
// would take for a reset.
func TestNativeIsMonotone(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	r := &row{dist: measure.Dist{Base: 3}}
	var before *histogram.FloatHistogram
	for range 400 {
		r.dist.Add(uint64(1e5*math.Exp(2*random.NormFloat64())), uint64(random.IntN(50)))
		got := native(t, nativeOf(r, 1e9))
		if before != nil && got.DetectReset(before) {
			t.Fatal("Prometheus sees a reset")
		}
		before = got
	}
}

// TestSmallNumbers checks that small whole numbers, which have buckets of their own, stay exact.
func TestSmallNumbers(t *testing.T) {
	r := &row{dist: measure.Dist{Base: 2}}
	for v := range uint64(8) {
		r.dist.Add(v, v+10)
	}
	got := native(t, nativeOf(r, 1))
	if got.ZeroCount != 10 {
		t.Errorf("%v zeros", got.ZeroCount)
	}
	it, v := got.PositiveBucketIterator(), 1.
	for it.Next() {
		b := it.At()
		if b.Count == 0 {
			continue
		}
		if b.Count != v+10 || b.Lower >= v || b.Upper < v {
			t.Errorf("%v values in (%v, %v], want %v of %v", b.Count, b.Lower, b.Upper, v+10, v)
		}
		v++
	}
	if v != 8 {
		t.Errorf("%v numbers", v)
	}
}

// TestClassic checks the counts of classic buckets, and that their labels are the same for all
// rows.
func TestClassic(t *testing.T) {
	m := &memory{}
	m.record(t, measure.Dists, measure.Nanoseconds, false, "disk.latency by device,direction")
	all := []uint64{900, 1022, 1023, 1024, 5e6, 80e9}
	d := measure.Dist{Base: 3}
	for _, v := range all {
		d.Add(v, 3)
	}
	for i := range 10 {
		one := tick{at: noon.Add(measure.Span(i+1) * measure.Second), elapsed: measure.Second}
		if i == 4 {
			one.dists = map[string]measure.Dist{"sda|read": d}
		}
		m.ticks = map[measure.StatID][]tick{"disk.latency": append(m.ticks["disk.latency"], one)}
	}
	r, to := receives(t)
	w := m.writer(t, noon, to, measure.Second, func(t *Target, _ *Source) {
		t.Histograms = Classic
	})
	if err := w.round(t.Context(), noon.Add(10*measure.Second)); err != nil {
		t.Fatal(err)
	}
	at := func(name string, more ...string) float64 {
		key := labels.FromStrings(append(more, "__name__", "culprit_disk_latency_seconds"+name,
			"device", "sda", "direction", "read", "instance", "box", "job", "culprit")...).String()
		samples := r.series[key]
		if len(samples) != 7 || samples[0].Value != 0 { // zero, then seconds 5 to 10
			t.Errorf("%s: %v", key, samples)
			return -1
		}
		return samples[6].Value
	}
	for le, want := range map[string]float64{
		"1.023e-06": 9, "2.047e-06": 12, "0.004194303": 12, "0.008388607": 15, "68.719476735": 15,
		"+Inf": 18,
	} {
		if got := at("_bucket", "le", le); got != want {
			t.Errorf("le %s: %v, want %v", le, got, want)
		}
	}
	want := 3 * (900 + 1022 + 1023 + 1024 + 5e6 + 80e9) / 1e9
	if got := at("_sum"); math.Abs(got-want) > 1e-9 {
		t.Errorf("sum %v, want %v", got, want)
	}
	if got := at("_count"); got != 18 || len(r.series) != 30 {
		t.Errorf("count %v, %d series", got, len(r.series))
	}
}
