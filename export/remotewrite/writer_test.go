package remotewrite

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/measure"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
)

// writer returns a writer whose clock is at a given time. change changes its target.
func (m *memory) writer(t testing.TB, now measure.Time, to string, step measure.Span,
	change ...func(*Target, *Source),
) *Writer {
	t.Helper()
	target, source := Target{URL: to, Interval: step}, Source{Reader: m, Datasets: m.datasets}
	for _, c := range change {
		c(&target, &source)
	}
	if err := target.Check(); err != nil {
		t.Fatal(err)
	}
	r, err := target.Open("box", "test")
	if err != nil {
		t.Fatal(err)
	}
	w := New(source, r)
	w.now = func() time.Time { return now.AsTime() }
	w.begin(now)
	if err := w.load(); err != nil {
		t.Fatal(err)
	}
	return w
}

// through writes what m recorded between two times.
func through(t *testing.T, m *memory, to string, step measure.Span, from, end measure.Time,
) *Writer {
	t.Helper()
	w := m.writer(t, from, to, step, func(t *Target, _ *Source) { t.Token = "secret" })
	for now := from; w.from < end; now = min(now.Add(90*measure.Second), end) {
		if err := w.round(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// grown returns the increase of a counter, over resets, like increase().
func grown(samples []prompb.Sample) (sum float64) {
	before := 0.0
	for i, p := range samples {
		switch {
		case value.IsStaleNaN(p.Value):
			continue
		case i == 0:
		case p.Value < before:
			sum += p.Value
		default:
			sum += p.Value - before
		}
		before = p.Value
	}
	return sum
}

// TestWriterSendsEverything checks that counters increase by exactly what was counted, over
// gaps, rows that appear and disappear, and midnight; and that gauges have each sample.
func TestWriterSendsEverything(t *testing.T) {
	m := world(t)
	from, end := midnight.Add(-1200*measure.Second), midnight.Add(1140*measure.Second)
	for _, step := range []measure.Span{measure.Second, 15 * measure.Second} {
		r, to := receives(t)
		w := through(t, m, to, step, from, end)
		if len(w.Problems()) != 0 || w.Lost() != 0 || r.auth != "Bearer secret" {
			t.Errorf("%q, %d lost, %q", w.Problems(), w.Lost(), r.auth)
		}
		if got := r.units["culprit_net_device_bytes_total"] + ", " + r.units["culprit_memory_size_bytes"]; got != "COUNTER bytes, GAUGE bytes" {
			t.Errorf("described as %s", got)
		}
		want, gauges := map[string]float64{}, 0
		for _, tick := range m.ticks["net.device.bytes"] {
			if tick.at > from && tick.at <= end {
				for k, v := range tick.rows {
					f := strings.Split(k, "|")
					own := labels.FromStrings("__name__", "culprit_net_device_bytes_total",
						"device", f[1], "direction", f[2], "instance", "box", "job", "culprit")
					if f[0] != "" {
						own = labels.NewBuilder(own).Set("netns", f[0]).Labels()
					}
					want[own.String()] += v
				}
			}
		}
		for _, tick := range m.ticks["memory.size"] {
			if tick.at <= from || tick.at > end || step > measure.Second {
				continue
			}
			key := labels.FromStrings("__name__", "culprit_memory_size_bytes", "instance", "box", "job", "culprit", "kind", "free").
				String()
			if !slices.ContainsFunc(r.series[key], func(p prompb.Sample) bool {
				return p.Timestamp == ms(tick.at) && p.Value == tick.rows["free"]
			}) {
				t.Fatalf("%s has no %v at %d", key, tick.rows["free"], ms(tick.at))
			}
			gauges++
		}
		for key, sum := range want {
			if got := grown(r.series[key]); got != sum {
				t.Errorf("%v: %s gained %v of %v", step, key, got, sum)
			}
		}
		if len(want) < 6 || step == measure.Second && gauges < 2000 {
			t.Errorf("%d counters, %d gauges: too few to show anything", len(want), gauges)
		}
		for key, samples := range r.series {
			if strings.Contains(key, "process") || strings.Contains(key, "per_second") {
				t.Errorf("%s is written", key)
			}
			if slices.ContainsFunc(samples, func(p prompb.Sample) bool {
				return math.IsNaN(p.Value) && !value.IsStaleNaN(p.Value)
			}) {
				t.Errorf("%s has a value that is none", key)
			}
		}
		// A gap ends each row.
		gap := ms(midnight.Add(-595 * measure.Second))
		for key, samples := range r.series {
			i := slices.IndexFunc(samples, func(p prompb.Sample) bool {
				return p.Timestamp >= gap-20000 && value.IsStaleNaN(p.Value)
			})
			if strings.Contains(key, "memory") && (i < 0 || samples[i].Timestamp > gap+20000) {
				t.Errorf("%s goes on over the gap", key)
			}
		}
	}
}

// TestWriterWhenRefused checks that samples that the receiver can't accept now are sent later, and
// that of a rejected request only the series that the receiver does not take are lost.
func TestWriterWhenRefused(t *testing.T) {
	m := world(t)
	from := midnight.Add(-1200 * measure.Second)
	end := from.Add(5 * measure.Minute)
	good, to := receives(t)
	through(t, m, to, measure.Second, from, end)
	r, to := receives(t)
	r.refuse = func(n int) int { return map[int]int{2: 503}[n] }
	r.bad = `device="eth2"`
	w := through(t, m, to, measure.Second, from, end)
	lost := uint64(0)
	for key, samples := range good.series {
		if strings.Contains(key, r.bad) {
			lost += uint64(len(samples))
			if len(r.series[key]) > 0 {
				t.Errorf("the test accepts %s", key)
			}
			continue
		}
		if fmt.Sprint(samples) != fmt.Sprint(r.series[key]) { // NaN is not equal to itself
			t.Errorf("%s: %d of %d samples", key, len(r.series[key]), len(samples))
		}
	}
	if lost < 250 || w.Lost() != lost {
		t.Errorf("%d lost, want %d", w.Lost(), lost)
	}
	before := r.asked
	r.refuse = func(int) int { return 400 }
	for range 4 {
		if err := w.round(t.Context(), w.from.Add(measure.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.asked - before; n > 2*maxSplits+10 {
		t.Errorf("%d requests to a receiver that rejects all", n)
	}
	r.refuse = nil
	if err := w.round(t.Context(), w.from.Add(measure.Minute)); err != nil {
		t.Fatal(err)
	}
	got := w.Problems()
	if len(got) != 1 || got[0].Key != "remote write 127.0.0.1 rejected" ||
		!strings.Contains(got[0].Text, "the receiver rejected ") ||
		!strings.Contains(got[0].Text, ": 400 Bad Request out of order") ||
		strings.Contains(got[0].Text, "and more") {
		t.Errorf("%q", got)
	}
}

// TestReceiverWithoutNativeHistograms checks that a receiver that answers 500 to native histograms
// gets all other samples, and that the problem says what to do. It gets them once it takes them.
func TestReceiverWithoutNativeHistograms(t *testing.T) {
	m := &memory{}
	m.record(t, measure.Dists, measure.Nanoseconds, false, "disk.latency by device,direction")
	m.record(t, measure.Delta, measure.Nanoseconds, false, "disk.busy by device")
	d := measure.Dist{Base: 2}
	d.Add(3000, 5)
	for i := range 10 {
		at := noon.Add(measure.Span(i+1) * measure.Second)
		m.put("disk.busy", at, map[string]float64{"sda": 7})
		m.ticks["disk.latency"] = append(m.ticks["disk.latency"], tick{
			at: at, elapsed: measure.Second, dists: map[string]measure.Dist{"sda|read": d},
		})
	}
	r, to := receives(t)
	w := m.writer(t, noon, to, measure.Second)
	w.retry = time.Millisecond
	r.noNative = true
	for i, want := range []int{1 + 1 + maxNativeTries, 2, 2, 2} { // metadata, floats, histograms
		before := r.asked
		if i == 3 {
			r.noNative = false
		}
		if err := w.round(t.Context(), noon.Add(measure.Span(i+1)*measure.Second)); err != nil {
			t.Fatal(err)
		}
		if n := r.asked - before; n != want {
			t.Errorf("round %d: %d requests, want %d", i, n, want)
		}
		got := fmt.Sprint(w.Problems())
		if strings.Contains(got, "takes no native histograms: enable") != (i < 3) {
			t.Errorf("round %d: %s", i, got)
		}
	}
	for key, samples := range r.series {
		if len(samples) != 5 || samples[4].Value != 28e-9 {
			t.Errorf("%s: %v", key, samples)
		}
	}
	for key, all := range r.histograms {
		if len(all) != 1 || all[0].GetCountInt() != 20 {
			t.Errorf("%s: %v", key, all)
		}
	}
	if len(r.series) != 1 || len(r.histograms) != 1 {
		t.Errorf("%d and %d series", len(r.series), len(r.histograms))
	}
}

// TestWriterAfterAnHour checks that a receiver that was away for hours gets the last hour.
func TestWriterAfterAnHour(t *testing.T) {
	m := world(t)
	r, to := receives(t)
	w := m.writer(t, midnight.Add(-3*maxBacklog), to, 15*measure.Second)
	now := midnight.Add(45 * measure.Minute)
	for range 60 {
		if err := w.round(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	first := int64(math.MaxInt64)
	for _, samples := range r.series {
		first = min(first, samples[0].Timestamp)
	}
	if want := ms(now.Add(-maxBacklog)); first < want-15000 || first > want+30000 ||
		w.from < now.Add(-15*measure.Second) {
		t.Errorf("from %d, want %d; up to %v of %v", first, want, w.from, now)
	}
}

// TestWriterCountsLateParts checks that what a source records of a written cell is in the next
// sample of the counter.
func TestWriterCountsLateParts(t *testing.T) {
	for _, step := range []measure.Span{measure.Second, 5 * measure.Second, 15 * measure.Second} {
		m := &memory{}
		m.record(t, measure.Delta, measure.Bytes, false, "disk.bytes by device,direction")
		for i := range 120 {
			m.put("disk.bytes", noon.Add(measure.Span(i+1)*measure.Second),
				map[string]float64{"sda|read": 10})
		}
		all := m.ticks["disk.bytes"]
		late := []int{44, 59, 74} // the last seconds of cells
		m.ticks["disk.bytes"] = slices.Clone(all)
		for _, i := range late {
			m.ticks["disk.bytes"][i].rows = map[string]float64{"sda|read": 0}
		}
		r, to := receives(t)
		w := m.writer(t, noon, to, step)
		for s := 1; s <= 120; s++ {
			if err := w.round(t.Context(), noon.Add(measure.Span(s)*measure.Second)); err != nil {
				t.Fatal(err)
			}
			if s%15 == 0 { // the late part is recorded now
				copy(m.ticks["disk.bytes"][:s], all[:s])
			}
		}
		for key, samples := range r.series {
			if last := samples[len(samples)-1].Value; last != 1200 {
				t.Errorf("each %v: %s has gained %v of 1200", step, key, last)
			}
		}
		if len(r.series) != 1 {
			t.Errorf("%d series", len(r.series))
		}
	}
}

// TestWriterSendsNoTimeTwice checks that the samples of a series are in the order of time, each
// once, with missing ticks, rows that appear and disappear, and restarts of the server. A receiver
// rejects a whole request that repeats a time.
func TestWriterSendsNoTimeTwice(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		step := []measure.Span{measure.Second, 5 * measure.Second, 15 * measure.Second}[seed%3]
		m := &memory{}
		for _, query := range []string{"disk.busy by device", "cgroup.throttled by cgroup"} {
			m.record(t, measure.Delta, measure.Nanoseconds, strings.HasPrefix(query, "cgroup"), query)
		}
		m.record(t, measure.Level, measure.Bytes, false, "memory.size by kind")
		r, to := receives(t)
		var w *Writer
		there, down := map[string]bool{}, 0
		for s := 1; s <= 900; s++ {
			at := noon.Add(measure.Span(s) * measure.Second)
			for _, id := range []measure.StatID{"disk.busy", "cgroup.throttled", "memory.size"} {
				rows := map[string]float64{}
				for _, name := range []string{"a", "b", "c"} {
					if random.IntN(20) == 0 {
						there[name] = !there[name]
					}
					if there[name] {
						rows[name] = float64(1 + random.IntN(5))
					}
				}
				if random.IntN(10) > 0 { // otherwise the tick is missing
					m.put(id, at, rows)
				}
			}
			if random.IntN(100) == 0 {
				w, down = nil, random.IntN(20)
			}
			if down--; down > 0 {
				continue
			}
			if w == nil {
				w = m.writer(t, at, to, step)
			}
			if err := w.round(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		if len(r.series) != 9 {
			t.Errorf("seed %d: %d series", seed, len(r.series))
		}
		if t.Failed() {
			return
		}
	}
}

// TestWriterWaitsForTheTick checks that a cell is written once its last tick is recorded, and at
// the latest maxWriteDelay after its end. Hosts spread over a twentieth of the step, so that a
// sample is sent within a tenth of it.
func TestWriterWaitsForTheTick(t *testing.T) {
	step := 15 * measure.Second
	spreads := map[measure.Span]bool{}
	for i := range 200 {
		s := (&memory{}).writer(t, noon, "http://localhost/", step, func(t *Target, _ *Source) {
			t.Instance = fmt.Sprintf("host%d", i)
		}).spread()
		if s < 0 || s > step/20 {
			t.Errorf("a host waits for %v", s)
		}
		spreads[s] = true
	}
	if len(spreads) < 100 {
		t.Errorf("200 hosts write at %d moments", len(spreads))
	}
	end := noon.Add(step)
	clock := end.Add(step / spreadDivisor) // of a host that doesn't sleep
	m := &memory{}
	w := m.writer(t, clock, "http://localhost/", step)
	w.source.Ticks = func(_ context.Context, after measure.Time) (measure.Time, error) {
		if after >= end || after.Add(measure.Second) < end {
			t.Errorf("a tick after %v is waited for", after)
		}
		return end, nil
	}
	if got, err := w.await(t.Context(), end); err != nil || got != end {
		t.Errorf("complete up to %v, %v", got, err)
	}
	w.now = func() time.Time { return end.Add(maxWriteDelay).AsTime() }
	w.source.Ticks = func(ctx context.Context, _ measure.Time) (measure.Time, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if got, err := w.await(t.Context(), end); err != nil || got != end {
		t.Errorf("without the tick complete up to %v, %v", got, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.await(gone, end); err == nil {
		t.Error("a server that ends waits on")
	}
}
