package engine

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"testing"

	"culprit/measure"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/prompb"
)

// latencies returns n latencies in nanoseconds, the same each time: two modes, and zeros.
func latencies(seed, n int) (all []uint64) {
	x := uint64(seed)
	for i := range n {
		x = x*6364136223846793005 + 1442695040888963407
		u := float64(x>>11) / (1 << 53)
		v := 80e3 * math.Exp(u)
		if i%5 == 0 {
			v = 3e6 * (1 + u)
		}
		if i%50 == 0 {
			v = 0
		}
		all = append(all, uint64(v))
	}
	return all
}

// asNative returns values in nanoseconds as a native histogram in seconds of schema 5, by the
// definition of its buckets.
func asNative(values []uint64, at int64) prompb.Histogram {
	counts, zeros, sum := map[int32]int64{}, uint64(0), 0.
	for _, v := range values {
		sum += float64(v) / 1e9
		if v == 0 {
			zeros++
			continue
		}
		counts[int32(math.Ceil(math.Log2(float64(v)/1e9)*32))]++
	}
	h := prompb.Histogram{
		Schema: 5, Sum: sum, Timestamp: at, ZeroThreshold: 0x1p-128,
		Count:     &prompb.Histogram_CountInt{CountInt: uint64(len(values))},
		ZeroCount: &prompb.Histogram_ZeroCountInt{ZeroCountInt: zeros},
	}
	last, before := int32(0), int64(0)
	for i, index := range slices.Sorted(maps.Keys(counts)) {
		offset := index - last - 1
		if i == 0 {
			offset = index
		}
		h.PositiveSpans = append(h.PositiveSpans, prompb.BucketSpan{Offset: offset, Length: 1})
		h.PositiveDeltas = append(h.PositiveDeltas, counts[index]-before)
		last, before = index, counts[index]
	}
	return h
}

// sendNative sends the counter of a distribution: sample i has the values of all before it.
func sendNative(
	t *testing.T, address, device string, at func(i int) int64, samples [][]uint64,
) {
	t.Helper()
	series := prompb.TimeSeries{Labels: []prompb.Label{
		{Name: "__name__", Value: "culprit_disk_latency_seconds"},
		{Name: "device", Value: device}, {Name: "direction", Value: "read"},
		{Name: "instance", Value: "db1"}, {Name: "job", Value: "culprit"},
	}}
	var all []uint64
	for i, more := range samples {
		all = append(all, more...)
		series.Histograms = append(series.Histograms, asNative(all, at(i)))
	}
	w := prompb.WriteRequest{Timeseries: []prompb.TimeSeries{series}}
	body, err := w.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(address+"/api/v1/write", "application/x-protobuf",
		bytes.NewReader(s2.EncodeSnappy(nil, body)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		t.Fatalf("remote write: %s", res.Status)
	}
}

// TestDistributions reads native and classic histograms of a real Prometheus, and compares them
// with the values that they were made of.
func TestDistributions(t *testing.T) {
	address, end, dists := startPrometheus(t), floor(now(), 15*second), [][]uint64{nil}
	const n = 9
	for i := 1; i < n; i++ {
		dists = append(dists, latencies(i, 100*i)) // each cell has another number of values
	}
	dists[4] = nil // a quiet interval
	at := func(i int) int64 { return int64(end)/1e6 - int64(n-1-i)*15_000 }
	sendNative(t, address, "sda", at, dists)
	heart := simulated{
		map[string]string{"__name__": "culprit_sched_load", "window": "1m"}, []float64{1, 1},
	}
	labels, one := map[string]string{"instance": "db1"}, func(map[string]string) float64 { return 1 }
	send(t, address, []simulated{heart}, labels, end, n+4, one)
	send(t, address, classicSeries(dists), labels, end, n, one)

	c, err := New(Options{URL: address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h, err := c.Open(t.Context(), "db1", []measure.Stat{
		*statOf(t, "disk.latency"), *statOf(t, "tcp.connect.latency"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		query string
		base  uint8
		near  float64 // part of the values that may be in the next bucket
	}{
		{`disk.latency by device where direction = "read"`, nativeBase, 0.03},
		{"tcp.connect.latency", classicBase, 0},
	} {
		t.Run(tt.query, func(t *testing.T) {
			q, err := measure.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			q.Step = 15 * measure.Second
			q.Over = measure.Interval{Start: end.Add(-10 * 15 * second), End: end}
			a, err := h.Ask(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			checkDists(t, a, dists, tt.base, tt.near)

			// Cells that begin between samples: each gets its share, and no value is lost.
			q.Step = 20 * second
			q.Over = measure.Interval{Start: end.Add(-155 * second), End: end.Add(5 * second)}
			if a, err = h.Ask(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, d := range a.Series[0].Dists() {
				got = append(got, int(d.Count()))
			}
			sum := 0
			for _, n := range got {
				sum += n
			}
			if sum < 3200-4 || sum > 3200+4 || len(got) != 8 || got[7] != 800 {
				t.Errorf("in cells of 20 s there are %v values, in all %d of 3200", got, sum)
			}
		})
	}
}

// checkDists compares an answer of one row, in cells of a sample interval, with the values.
func checkDists(t *testing.T, a *measure.Answer, want [][]uint64, base uint8, near float64) {
	t.Helper()
	if len(a.Series) != 1 || len(a.Elapsed) != 10 {
		t.Fatalf("%d rows of %d cells", len(a.Series), len(a.Elapsed))
	}
	for c, d := range a.Series[0].Dists() {
		i := c - (10 - len(want)) // the sample at the end of the cell
		if measured := a.Elapsed[c] == 15*second; measured != (i > 0) {
			t.Errorf("cell %d: measured %v", c, a.Elapsed[c])
		}
		var values []uint64
		if i >= 0 {
			values = slices.Sorted(slices.Values(want[i]))
		}
		sum := 0.
		for _, v := range values {
			sum += float64(v)
		}
		if d.Count() != uint64(len(values)) || math.Abs(d.Sum-sum) > 1e-6*sum+1 {
			t.Errorf("cell %d: %d values, sum %g, want %d and %g", c, d.Count(), d.Sum, len(values),
				sum)
			continue
		}
		exact := measure.Dist{Base: base}
		for _, v := range values {
			exact.Add(v, 1)
		}
		if d.Base != base {
			t.Fatalf("base %d, want %d", d.Base, base)
		}
		const lowest = 1024 // the first classic bucket ends before it
		for b := measure.BucketOf(base, lowest); b < 200; b++ {
			got, want := countBelow(&d, b), countBelow(&exact, b)
			if math.Abs(got-want) > near*float64(len(values)) {
				t.Errorf("cell %d: %g values below %d, want %g of %d", c, got,
					measure.BucketStart(base, b), want, len(values))
			}
		}
	}
}

// countBelow returns how many values are in buckets before one.
func countBelow(d *measure.Dist, bucket int32) (n float64) {
	for i, count := range d.Counts {
		if d.First+int32(i) < bucket {
			n += float64(count)
		}
	}
	return n
}

// classicSeries returns the series of a classic histogram of the values.
func classicSeries(samples [][]uint64) (all []simulated) {
	const name = "culprit_tcp_connect_latency_seconds"
	bounds := []float64{math.Inf(1)}
	for i := 10; i <= 36; i++ {
		bounds = append(bounds, math.Exp2(float64(i))-1)
	}
	for _, bound := range bounds {
		s := simulated{Labels: map[string]string{
			"__name__": name + "_bucket", "le": fmt.Sprint(bound / 1e9),
		}}
		sum := 0.
		for _, values := range samples {
			for _, v := range values {
				if float64(v) <= bound {
					sum++
				}
			}
			s.Values = append(s.Values, sum)
		}
		all = append(all, s)
	}
	sums := simulated{Labels: map[string]string{"__name__": name + "_sum"}}
	sum := 0.
	for _, values := range samples {
		for _, v := range values {
			sum += float64(v) / 1e9
		}
		sums.Values = append(sums.Values, sum)
	}
	return append(all, sums)
}

// TestDistCell: the values of a bucket are divided by overlap, and rounding loses none.
func TestDistCell(t *testing.T) {
	var d distCell
	d.add(2, 15, 31, 16)   // 16..31 are four buckets
	d.add(2, -1, 0, 3)     // zeros
	d.add(2, 99, 99.5, .4) // less than a value, in one bucket
	got := d.dist(2)
	want := map[uint64]uint64{0: 3, 16: 4, 20: 4, 24: 4, 28: 4}
	for i, n := range got.Counts {
		start := measure.BucketStart(2, got.First+int32(i))
		if n != want[start] {
			t.Errorf("%d values from %d, want %d", n, start, want[start])
		}
	}
	if got.Count() != 19 {
		t.Errorf("%d values", got.Count())
	}
}

// TestHostileHistograms: bounds and counts that no server sends cost neither memory nor a panic.
func TestHostileHistograms(t *testing.T) {
	inf, nan := model.FloatString(math.Inf(1)), model.FloatString(math.NaN())
	bad := &model.SampleHistogram{Count: 5, Sum: nan, Buckets: model.HistogramBuckets{
		{Lower: -inf, Upper: inf, Count: 1}, {Lower: nan, Upper: nan, Count: 1},
		{Lower: 5, Upper: 1, Count: 1}, {Lower: 1, Upper: 1e300, Count: inf},
		{Lower: 0, Upper: 1e300, Count: 1},
	}}
	st := statOf(t, "disk.latency")
	m, err := metricOf(st, measure.Query{Stat: st.ID})
	if err != nil {
		t.Fatal(err)
	}
	q := measure.Query{Stat: st.ID, Step: 15 * second}
	q.Over.End = measure.Time(30 * second)
	d := &distTable{
		table: newTable(st, q, &m, nil, 15*second), base: nativeBase, rows: map[string]*distRow{},
	}
	err = d.read(model.Matrix{{
		Metric: model.Metric{model.MetricNameLabel: model.LabelValue(m.name)},
		Histograms: []model.SampleHistogramPair{
			{Timestamp: 0, Histogram: &model.SampleHistogram{}}, {Timestamp: 15000, Histogram: bad},
			{Timestamp: 30000, Histogram: nil},
		},
	}, {
		Metric: model.Metric{
			model.MetricNameLabel: model.LabelValue(m.name + "_bucket"), "le": "NaN",
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, dist := range d.answer().Series[0].Dists() {
		if len(dist.Counts) > 64*4 {
			t.Errorf("%d buckets", len(dist.Counts))
		}
	}
}
