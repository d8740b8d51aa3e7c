package prom

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"culprit/measure"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
)

// receiver accepts remote write and reads it with Prometheus's own packages.
type receiver struct {
	t      *testing.T
	mu     sync.Mutex // guards what follows
	series map[string][]prompb.Sample
	units  map[string]string // type and unit, by metric
	asked  int
	refuse func(n int) int // the status of request n, 0: accept it
	auth   string          // of the newest request
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	r.auth = req.Header.Get("Authorization")
	if r.refuse != nil {
		if status := r.refuse(r.asked); status != 0 {
			http.Error(w, "out of order\nand more", status)
			return
		}
	}
	packed, err := io.ReadAll(req.Body)
	if err != nil {
		r.t.Error(err)
		return
	}
	b, err := s2.Decode(nil, packed)
	if err != nil {
		r.t.Error(err)
		return
	}
	var got prompb.WriteRequest
	if err := got.Unmarshal(b); err != nil {
		r.t.Error(err)
		return
	}
	if h := req.Header; h.Get("Content-Encoding") != "snappy" ||
		h.Get("Content-Type") != "application/x-protobuf" ||
		h.Get("X-Prometheus-Remote-Write-Version") != "0.1.0" {
		r.t.Errorf("headers %v", h)
	}
	for _, m := range got.Metadata {
		r.units[m.MetricFamilyName] = m.Type.String() + " " + m.Unit
	}
	for _, s := range got.Timeseries {
		var names []string
		b := labels.NewScratchBuilder(len(s.Labels))
		for _, l := range s.Labels {
			names = append(names, l.Name)
			b.Add(l.Name, l.Value)
		}
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			r.t.Errorf("labels %v", names)
		}
		key := b.Labels().String()
		for _, p := range s.Samples {
			if have := r.series[key]; len(have) > 0 && have[len(have)-1].Timestamp >= p.Timestamp {
				r.t.Errorf("%s: %d after %d", key, p.Timestamp, have[len(have)-1].Timestamp)
			}
			r.series[key] = append(r.series[key], p)
		}
	}
}

// receives starts a receiver and returns its address.
func receives(t *testing.T) (*receiver, string) {
	r := &receiver{t: t, series: map[string][]prompb.Sample{}, units: map[string]string{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return r, s.URL + "/api/v1/write"
}

// through writes what m recorded between two times.
func through(t *testing.T, m *memory, to string, step measure.Span, from, end measure.Time,
) *Writer {
	t.Helper()
	a := m.api(from)
	w, err := a.NewWriter(to, "secret", step, "box")
	if err != nil {
		t.Fatal(err)
	}
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
		if w.Trouble() != "" || w.Lost() != 0 || r.auth != "Bearer secret" {
			t.Errorf("%q, %d lost, %q", w.Trouble(), w.Lost(), r.auth)
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
// that rejected samples are counted and skipped.
func TestWriterWhenRefused(t *testing.T) {
	m := world(t)
	r, to := receives(t)
	r.refuse = func(n int) int { return map[int]int{2: 503, 4: 400}[n] }
	from := midnight.Add(-1200 * measure.Second)
	w := through(t, m, to, measure.Second, from, from.Add(5*measure.Minute))
	if n := w.Lost(); n == 0 || n > 2*maxRequestSamples {
		t.Errorf("%d lost", n)
	}
	key := labels.FromStrings("__name__", "culprit_memory_size_bytes", "instance", "box", "job", "culprit", "kind", "free").
		String()
	if n := len(r.series[key]); n < 150 {
		t.Errorf("%d samples", n)
	}
	r.refuse = func(int) int { return 400 }
	if err := w.round(t.Context(), w.from.Add(measure.Minute)); err != nil {
		t.Fatal(err)
	}
	r.refuse = func(int) int { return 0 }
	if err := w.round(t.Context(), w.from.Add(measure.Minute)); err != nil {
		t.Fatal(err)
	}
	if got := w.Trouble(); !strings.Contains(got, "the receiver rejected ") ||
		!strings.Contains(got, ": 400 Bad Request out of order") ||
		strings.Contains(got, "and more") {
		t.Errorf("%q", got)
	}
	for _, bad := range []string{"", "localhost:9090", "ftp://x/", "http://", "http://a b/"} {
		if err := CheckWrite(bad, measure.Second); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, bad := range []measure.Span{
		0, measure.Millisecond, 7 * measure.Second, 2 * measure.Minute,
	} {
		if err := CheckWrite(to, bad); err == nil {
			t.Errorf("each %v is taken", bad)
		}
	}
}

// TestWriterAfterAnHour checks that a receiver that was away for hours gets the last hour.
func TestWriterAfterAnHour(t *testing.T) {
	m := world(t)
	r, to := receives(t)
	a := m.api(midnight.Add(-3 * maxBacklog))
	w, err := a.NewWriter(to, "", 15*measure.Second, "box")
	if err != nil {
		t.Fatal(err)
	}
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

// TestWriterIntoPrometheus compares the answers of a Prometheus server that was written to with
// those of this package.
func TestWriterIntoPrometheus(t *testing.T) {
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("needs: tool prometheus")
	}
	m := world(t)
	base := prometheus(t, path)
	end := midnight.Add(600 * measure.Second)
	w := through(t, m, base+"/api/v1/write", measure.Second, midnight.Add(-400*measure.Second), end)
	if w.Lost() != 0 || w.Trouble() != "" {
		t.Fatalf("%d lost, %s", w.Lost(), w.Trouble())
	}
	a := m.api(midnight.Add(1500 * measure.Second))
	compared := 0
	for _, expression := range []string{"culprit_memory_size_bytes", "culprit_tcp_flow_rtt_seconds", "culprit_sched_load", "sum by (kind) (avg_over_time(culprit_memory_size_bytes[1m]))",
		"irate(culprit_net_device_bytes_total[1m])", "irate(culprit_cpu_time_seconds_total[10s])"} {
		for s := -317; s < 600; s += 33 {
			at := fmt.Sprintf(
				"%d.5", int64(midnight)/1e9+int64(s),
			) // between samples: before 3.0 a range included both ends
			own := rows(t, data(t, a, "query", "query", expression, "time", at))
			body := asked(t, base, "query", "query", "sum without (instance, job) ("+expression+")",
				"time", at)
			if !strings.HasPrefix(expression, "sum") {
				own = rows(t,
					data(t, a, "query", "query", "sum without () ("+expression+")", "time", at))
			}
			if d := differ(own, body); d != "" {
				t.Fatalf("%s at %d: %s", expression, s, d)
			}
			compared += len(own)
		}
	}
	if compared < 400 {
		t.Errorf("%d rows: too few to show anything", compared)
	}
}

// TestWriterCountsLateParts checks that what a source records of a written cell is in the next
// sample of the counter.
func TestWriterCountsLateParts(t *testing.T) {
	for _, step := range []measure.Span{measure.Second, 5 * measure.Second, 15 * measure.Second} {
		m := &memory{}
		m.record(t, measure.Delta, measure.Bytes, false, "disk.bytes by device")
		for i := range 120 {
			m.put("disk.bytes", noon.Add(measure.Span(i+1)*measure.Second),
				map[string]float64{"sda": 10})
		}
		all := m.ticks["disk.bytes"]
		late := []int{44, 59, 74} // the last seconds of cells
		m.ticks["disk.bytes"] = slices.Clone(all)
		for _, i := range late {
			m.ticks["disk.bytes"][i].rows = map[string]float64{"sda": 0}
		}
		r, to := receives(t)
		a := m.api(noon)
		w, err := a.NewWriter(to, "", step, "box")
		if err != nil {
			t.Fatal(err)
		}
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
		for _, query := range []string{"disk.bytes by device", "net.drops by device"} {
			m.record(t, measure.Delta, measure.Bytes, strings.HasPrefix(query, "net"), query)
		}
		m.record(t, measure.Level, measure.Bytes, false, "memory.size by kind")
		r, to := receives(t)
		var w *Writer
		there, down := map[string]bool{}, 0
		for s := 1; s <= 900; s++ {
			at := noon.Add(measure.Span(s) * measure.Second)
			for _, id := range []measure.StatID{"disk.bytes", "net.drops", "memory.size"} {
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
				a := m.api(at)
				var err error
				if w, err = a.NewWriter(to, "", step, "box"); err != nil {
					t.Fatal(err)
				}
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
		w, err := New(&memory{}, nil,
			"test").NewWriter("http://localhost/", "", step, fmt.Sprintf("host%d", i))
		if err != nil {
			t.Fatal(err)
		}
		s := w.spread()
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
	w, err := m.api(clock).NewWriter("http://localhost/", "", step, "box")
	if err != nil {
		t.Fatal(err)
	}
	w.Ticks = func(_ context.Context, after measure.Time) (measure.Time, error) {
		if after >= end || after.Add(measure.Second) < end {
			t.Errorf("a tick after %v is waited for", after)
		}
		return end, nil
	}
	if got, err := w.await(t.Context(), end); err != nil || got != end {
		t.Errorf("complete up to %v, %v", got, err)
	}
	w.api.now = func() time.Time { return end.Add(maxWriteDelay).AsTime() }
	w.Ticks = func(ctx context.Context, _ measure.Time) (measure.Time, error) {
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
