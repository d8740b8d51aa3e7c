package remotewrite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/measure"

	"github.com/prometheus/prometheus/prompb"
)

// TestWriterIntoPrometheus checks what a Prometheus server has after a Writer sent to it.
func TestWriterIntoPrometheus(t *testing.T) {
	base := prometheus(t).base()
	m := world(t)
	from, end := midnight.Add(-400*measure.Second), midnight.Add(600*measure.Second)
	w := through(t, m, base+"/api/v1/write", measure.Second, from, end)
	if w.Lost() != 0 || len(w.Problems()) != 0 {
		t.Fatalf("%d lost, %s", w.Lost(), w.Problems())
	}
	free, want := asked(t, base, `culprit_memory_size_bytes{kind="free"}[20m]`, end), 0
	for _, tick := range m.ticks["memory.size"] {
		if tick.at <= from || tick.at > end {
			continue
		}
		want++
		if len(free) != 1 || !slices.ContainsFunc(free[0].Values, func(p point) bool {
			return p.at == float64(tick.at)/1e9 && p.value == tick.rows["free"]
		}) {
			t.Fatalf("no sample %v of %v", tick.rows["free"], tick.at)
		}
	}
	if n := len(free[0].Values); n != want || n < 800 {
		t.Errorf("%d samples, want %d", n, want)
	}
	for s := 60; s <= 600; s += 33 {
		at := midnight.Add(measure.Span(s)*measure.Second + measure.Second/2)
		got := asked(t, base, `sum(rate(culprit_cpu_time_seconds_total{mode=~"user|idle"}[1m]))`, at)
		if len(got) != 1 || math.Abs(got[0].Value.value-2) > 1e-9 {
			t.Errorf("2 CPUs at %d s are %v", s, got)
		}
	}
	for _, row := range []string{"|eth0|rx", "|eth2|rx", "blue|tun0|rx"} {
		f, sum := strings.Split(row, "|"), 0.
		for _, tick := range m.ticks["net.device.bytes"] {
			if tick.at > from && tick.at <= end {
				sum += tick.rows[row]
			}
		}
		got := asked(t, base, `culprit_net_device_bytes_total{device="`+f[1]+`",direction="rx"}[20m]`,
			end)
		if len(got) != 1 {
			t.Fatalf("%s: %d series", row, len(got))
		}
		var samples []prompb.Sample
		for _, p := range got[0].Values {
			samples = append(samples, prompb.Sample{Value: p.value})
		}
		if g := grown(samples); g != sum {
			t.Errorf("%s gained %v of %v", row, g, sum)
		}
	}
}

// result is one series of an answer of Prometheus.
type result struct {
	Metric map[string]string
	Value  point
	Values []point
}

// point is a sample in an answer of Prometheus: [seconds, "value"].
type point struct{ at, value float64 }

// UnmarshalJSON implements json.Unmarshaler.
func (p *point) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &[]any{&p.at, &text}); err != nil {
		return err
	}
	var err error
	p.value, err = strconv.ParseFloat(text, 64)
	return err
}

// asked returns the answer of a Prometheus server to an instant query.
func asked(t *testing.T, base, expression string, at measure.Time) []result {
	t.Helper()
	res, err := http.PostForm(base+"/api/v1/query", url.Values{
		"query": {expression}, "time": {strconv.FormatFloat(float64(at)/1e9, 'f', 3, 64)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%s: %v %s", expression, err, body)
	}
	var out struct{ Data struct{ Result []result } }
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return out.Data.Result
}

// engine is a Prometheus server that accepts remote write. It can be killed and started again.
type engine struct {
	t                  *testing.T
	path, dir, address string
	out                bytes.Buffer
	command            *exec.Cmd
	ended              chan error
}

// prometheus starts a server.
func prometheus(t *testing.T) *engine {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("needs: tool prometheus")
	}
	e := &engine{t: t, path: path, dir: t.TempDir()}
	config := []byte("global: {scrape_interval: 1h}\n")
	if err := os.WriteFile(filepath.Join(e.dir, "c.yml"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.address = l.Addr().String()
	_ = l.Close()
	e.start()
	t.Cleanup(e.kill)
	e.await()
	return e
}

func (e *engine) base() string { return "http://" + e.address }

// start starts the server and does not wait for it.
func (e *engine) start() {
	e.command = exec.Command(e.path, "--config.file="+filepath.Join(e.dir, "c.yml"),
		"--storage.tsdb.path="+filepath.Join(e.dir, "data"), "--storage.tsdb.retention.time=100y",
		"--web.listen-address="+e.address, "--web.enable-remote-write-receiver",
		"--enable-feature=native-histograms", "--log.level=warn")
	e.command.Stdout, e.command.Stderr = &e.out, &e.out
	if err := e.command.Start(); err != nil {
		e.t.Error(err)
	}
	e.ended = make(chan error, 1)
	go func(c *exec.Cmd, ended chan error) { ended <- c.Wait() }(e.command, e.ended)
}

// kill kills the server, as by a loss of power.
func (e *engine) kill() {
	_ = e.command.Process.Kill()
	<-e.ended
}

// await waits until the server is ready.
func (e *engine) await() {
	for deadline := time.Now().Add(time.Minute); ; {
		res, err := http.Get(e.base() + "/-/ready")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == 200 {
				return
			}
		}
		select {
		case err := <-e.ended:
			e.ended <- err
			e.t.Fatalf("prometheus ended: %v\n%s", err, e.out.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			e.t.Fatal("prometheus is not ready after a minute")
		}
	}
}

// TestOutageWithRestart kills Prometheus while it is written to, and restarts the writer meanwhile.
// Afterwards Prometheus has every sample of every series, and counters without a reset.
func TestOutageWithRestart(t *testing.T) {
	e := prometheus(t)
	m := world(t)
	from, end := midnight.Add(-400*measure.Second), midnight.Add(500*measure.Second)
	step, dir := 5*measure.Second, t.TempDir()
	open := func(now measure.Time) *Writer {
		w := m.writer(t, now, e.base()+"/api/v1/write", step, func(_ *Target, s *Source) {
			s.Dir = dir
		})
		w.retry = 10 * time.Millisecond
		return w
	}
	w := open(from)
	for now := from; now < midnight; now = now.Add(20 * measure.Second) {
		if err := w.round(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	e.kill()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	if err := w.round(ctx, midnight.Add(30*measure.Second)); err == nil {
		t.Error("a round succeeds without a receiver")
	}
	cancel()
	if got := w.Problems(); len(got) != 1 || !strings.Contains(got[0].Text, "refused; retrying") {
		t.Errorf("%v", got)
	}
	w = open(midnight.Add(40 * measure.Second)) // the server was restarted
	e.start()                                   // and Prometheus is not ready yet
	for now := midnight.Add(60 * measure.Second); w.from < end; now = now.Add(20 * measure.Second) {
		if err := w.round(t.Context(), min(now, end)); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.Problems(); len(got) != 0 || w.Lost() != 0 {
		t.Errorf("%v, %d lost", got, w.Lost())
	}
	n := 0
	for _, r := range asked(t, e.base(), `{job="culprit"}[20m]`, end) {
		name := r.Metric["__name__"]
		if r.Metric["cgroup"] == "/c" || r.Metric["device"] == "tun0" ||
			r.Metric["device"] == "veth1" {
			continue // they come and go
		}
		n++
		for i := 1; i < len(r.Values); i++ {
			before, p := r.Values[i-1], r.Values[i]
			if p.at-before.at > 5.001 {
				t.Errorf("%v: a gap from %v to %v", r.Metric, before.at, p.at)
			}
			if strings.HasSuffix(name, "_total") && p.value < before.value {
				t.Errorf("%v: a reset at %v", r.Metric, p.at)
			}
		}
		if last := r.Values[len(r.Values)-1].at; last != float64(end)/1e9 {
			t.Errorf("%v ends at %v", r.Metric, last)
		}
	}
	if n < 15 {
		t.Errorf("%d series", n)
	}
}

// TestQuantilesOfPrometheus compares the quantiles that Prometheus computes of native and of
// classic histograms with culprit's own.
func TestQuantilesOfPrometheus(t *testing.T) {
	e := prometheus(t)
	m := &memory{}
	m.record(t, measure.Dists, measure.Nanoseconds, false, "disk.latency by device,direction")
	random := rand.New(rand.NewPCG(7, 8))
	whole := measure.Dist{Base: 2}
	for s := range 120 {
		d := measure.Dist{Base: 2}
		for range 50 {
			d.Add(uint64(2e5*math.Exp(random.NormFloat64())), 1)
		}
		if s >= 60 {
			whole.Merge(d)
		}
		m.ticks = map[measure.StatID][]tick{"disk.latency": append(m.ticks["disk.latency"], tick{
			at: noon.Add(measure.Span(s+1) * measure.Second), elapsed: measure.Second,
			dists: map[string]measure.Dist{"sda|read": d},
		})}
	}
	end := noon.Add(2 * measure.Minute)
	for _, form := range []Histograms{Native, Classic} {
		w := m.writer(t, noon, e.base()+"/api/v1/write", measure.Second,
			func(t *Target, _ *Source) { t.Histograms, t.Job = form, string(form) })
		for now := noon; w.from < end; now = now.Add(measure.Minute) {
			if err := w.round(t.Context(), min(now, end)); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.Problems(); len(got) != 0 {
			t.Fatal(got)
		}
	}
	at := end.Add(measure.Millisecond) // 60 samples, and the one before them
	for _, q := range []float64{0.05, 0.25, 0.5, 0.9, 0.99} {
		want := quantileOf(&whole, q) / 1e9
		for expression, most := range map[string]float64{
			`histogram_quantile(%g, increase(culprit_disk_latency_seconds[60s]))`:        0.022,
			`histogram_quantile(%g, increase(culprit_disk_latency_seconds_bucket[60s]))`: 0.5,
		} {
			got := asked(t, e.base(), fmt.Sprintf(expression, q), at)
			if len(got) != 1 || math.Abs(got[0].Value.value/want-1) > most {
				t.Errorf("%s of %g: %v, want %v", expression, q, got, want)
			}
		}
	}
	for expression, want := range map[string]float64{
		`histogram_count(culprit_disk_latency_seconds)`:                                            6000,
		`culprit_disk_latency_seconds_count`:                                                       6000,
		`culprit_disk_latency_seconds_bucket{le="+Inf"}`:                                           6000,
		`sum(culprit_disk_latency_seconds_sum) - histogram_sum(sum(culprit_disk_latency_seconds))`: 0,
	} {
		got := asked(t, e.base(), expression, end)
		if len(got) != 1 || math.Abs(got[0].Value.value-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", expression, got, want)
		}
	}
}
