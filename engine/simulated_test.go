package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/fleet"
	"culprit/measure"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/prompb"
)

// startPrometheus starts a Prometheus that receives remote write, and returns its address.
func startPrometheus(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("needs: tool prometheus")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte("global: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close() // the port is likely still free
	var out bytes.Buffer
	c := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+dir+"/data",
		"--web.listen-address="+address, "--web.enable-remote-write-receiver",
		"--enable-feature=native-histograms")
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()         // killed
		if t.Failed() {
			t.Logf("prometheus:\n%s", out.String())
		}
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		res, err := http.Get("http://" + address + "/-/ready")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return "http://" + address
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("Prometheus is not ready: %v", err)
		}
	}
}

// simulated is one series of a host, recorded from a server by remote write each 15 s.
type simulated struct {
	Labels map[string]string
	Values []float64
}

// simulatedHost returns the series of testdata/host.json.
func simulatedHost(t testing.TB) (all []simulated) {
	t.Helper()
	b, err := os.ReadFile("testdata/host.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// send sends n samples, each 15 s up to end, of a host with the recorded series. factor multiplies
// the amounts of a counter or the values of a gauge.
func send(
	t testing.TB, address string, all []simulated, labels map[string]string, end measure.Time,
	n int, factor func(labels map[string]string) float64,
) {
	t.Helper()
	var w prompb.WriteRequest
	for _, s := range all {
		series := prompb.TimeSeries{}
		set := map[string]string{"job": "culprit"}
		for _, from := range []map[string]string{s.Labels, labels} {
			for k, v := range from {
				set[k] = v
			}
		}
		for k, v := range set {
			series.Labels = append(series.Labels, prompb.Label{Name: k, Value: v})
		}
		slices.SortFunc(series.Labels, func(a, b prompb.Label) int {
			return strings.Compare(a.Name, b.Name)
		})
		f, sum := factor(s.Labels), 0.0
		isCounter := strings.HasSuffix(s.Labels["__name__"], "_total")
		for i := range n {
			v := s.Values[i%len(s.Values)] * f
			if isCounter {
				j := 1 + i%(len(s.Values)-1)
				sum += (s.Values[j] - s.Values[j-1]) * f
				v = sum
			}
			at := int64(end)/1e6 - int64(n-1-i)*15_000
			series.Samples = append(series.Samples, prompb.Sample{Timestamp: at, Value: v})
		}
		w.Timeseries = append(w.Timeseries, series)
	}
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
	if text, _ := io.ReadAll(res.Body); res.StatusCode/100 != 2 {
		t.Fatalf("remote write: %s %s", res.Status, text)
	}
}

// spread makes hosts differ a little, by a factor from 0.95 to 1.05.
func spread(host int) float64 { return 1 + math.Sin(float64(host)*1.7)/20 }

// slowClient is the factor of host 4 of ten: it sends a tenth of the others, and more segments
// again.
func slowClient(host int) func(map[string]string) float64 {
	return func(l map[string]string) float64 {
		switch {
		case host == 4 && l["direction"] == "tx":
			return 0.1
		case host == 4 && l["counter"] == "RetransSegs":
			return 1000
		}
		return spread(host)
	}
}

// busy returns the recorded series with an interface that sends 11 MB/s and receives 3 MB/s.
func busy(all []simulated) []simulated {
	out := slices.Clone(all)
	for i, s := range out {
		if s.Labels["__name__"] == "culprit_net_device_bytes_total" && s.Labels["device"] == "eth0" {
			perSecond := map[string]float64{"tx": 11e6, "rx": 3e6}[s.Labels["direction"]]
			v := make([]float64, len(s.Values))
			for j := range v {
				v[j] = perSecond * 15 * float64(j)
			}
			out[i].Values = v
		}
		if s.Labels["counter"] == "RetransSegs" {
			out[i].Values = []float64{0, 1, 2, 3, 4, 5, 6, 7}
		}
	}
	return out
}

// TestSlowClientOfTen finds the one of ten hosts that sends less, in a real Prometheus.
func TestSlowClientOfTen(t *testing.T) {
	address := startPrometheus(t)
	all, end := busy(simulatedHost(t)), floor(now(), 15*second)
	for i := range 10 {
		labels := map[string]string{
			"instance": fmt.Sprintf("client%d", i), "rack": fmt.Sprintf("r%d", i%2),
		}
		at := end
		if i == 9 {
			at = end.Add(-4 * measure.Minute) // silent since
		}
		send(t, address, all, labels, at, 32, slowClient(i))
	}
	send(t, address, []simulated{
		{map[string]string{
			"__name__": findingMetric, "rule": "peer-slow", "kind": "client",
			"culprit": "192.0.2.4", "severity": "high",
		}, []float64{0.8, 0.8}},
		{map[string]string{
			"__name__": findingMetric, "rule": "swap", "kind": "memory", "culprit": "\x1b[31m",
			"severity": "low",
		}, []float64{0.5, 0.5}},
	}, map[string]string{"instance": "client2"}, end, 2,
		func(map[string]string) float64 { return 1 })
	c, err := New(Options{URL: address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o, err := c.Overview(t.Context(), end, measure.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("reported", func(t *testing.T) {
		if len(o.Hosts) != 10 || o.Reporting() != 9 || o.Hosts[9].Reports {
			t.Errorf("%d of %d hosts report", o.Reporting(), len(o.Hosts))
		}
	})
	t.Run("values", func(t *testing.T) {
		for k, q := range fleet.Quantities() {
			v := o.Hosts[3].Values[k]
			want, ok := map[string]float64{"tx": 11e6 * spread(3), "rx": 3e6 * spread(3)}[q.ID]
			if ok && math.Abs(v/want-1) > 0.001 || !(v >= 0) {
				t.Errorf("%s: %g, want %g", q.ID, v, want)
			}
			if v := o.Hosts[9].Values[k]; q.Zero && v == v {
				t.Errorf("%s of a silent host: %g", q.ID, v)
			}
		}
	})
	t.Run("outliers", func(t *testing.T) {
		var lines []string
		for _, n := range o.Outliers() {
			lines = append(lines, o.Hosts[n.Host].Name+": "+o.Describe(n))
		}
		got := strings.Join(lines, "\n")
		for _, want := range []string{
			"client4: its busiest interface sends 1.1 MB/s, 90 % less than the median of the 8 others",
			"client4: TCP segments sent again 66.7/s, ",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s\nwant %s", got, want)
			}
		}
		if len(lines) != 2 {
			t.Errorf("more than the slow client differs:\n%s", got)
		}
	})
	t.Run("findings", func(t *testing.T) {
		f := o.Hosts[2].Findings
		if len(f) != 2 || f[0].String() != "HIGH peer-slow: 192.0.2.4" || f[0].Confidence != 0.8 ||
			strings.Contains(f[1].Culprit, "\x1b") {
			t.Errorf("%+v", f)
		}
	})
	t.Run("labels", func(t *testing.T) {
		for i, want := range map[int]string{3: "r1", 9: "r1", 8: "r0"} { // 9 is silent
			if l := o.Hosts[i].Labels; len(l) != 1 || l["rack"] != want {
				t.Errorf("host %d: %v", i, l)
			}
		}
	})
	t.Run("order", func(t *testing.T) {
		var names []string
		for _, i := range o.Order(o.Outliers())[:4] {
			names = append(names, o.Hosts[i].Name)
		}
		if want := []string{"client2", "client4", "client9", "client0"}; !slices.Equal(names, want) {
			t.Errorf("%v, want %v", names, want)
		}
	})
	t.Run("one host", func(t *testing.T) { checkAskHost(t, c, end) })
	t.Run("findings of a host", func(t *testing.T) { checkFindings(t, c, end) })
	t.Run("comparison", func(t *testing.T) { checkComparison(t, c, end) })
	t.Run("curves", func(t *testing.T) {
		over := measure.Interval{Start: end.Add(-4 * measure.Minute), End: end}
		got, err := c.Curves(t.Context(), []string{"client4", "client3", `x"|.*`}, over, 8)
		if err != nil {
			t.Fatal(err)
		}
		tx := slices.IndexFunc(fleet.Quantities(),
			func(q fleet.Quantity) bool { return q.ID == "tx" })
		for p := range 8 {
			slow, fast := got.Values[0][tx][p], got.Values[1][tx][p]
			if math.Abs(slow/1.1e6-1) > 0.01 || math.Abs(fast/(11e6*spread(3))-1) > 0.01 {
				t.Errorf("point %d: %g and %g", p, slow, fast)
			}
			if v := got.Values[2][tx][p]; v == v {
				t.Errorf("a name that is a pattern has %g", v)
			}
		}
	})
}

// checkAskHost asks about client3 as the page does, and about a host that is none.
func checkAskHost(t *testing.T, c *Client, end measure.Time) {
	q, err := measure.ParseQuery("net.device.bytes by device,direction")
	if err != nil {
		t.Fatal(err)
	}
	q.Step, q.Over = 15*second, measure.Interval{Start: end.Add(-measure.Minute), End: end}
	stats := []measure.Stat{*statOf(t, q.Stat)}
	a, err := c.AskHost(t.Context(), "client3", stats, q)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(a.Series, func(s measure.Series) bool {
		return a.Labels[s.Key[0]] == "eth0" && a.Labels[s.Key[1]] == "tx"
	})
	if i < 0 || math.Abs(a.Series[i].Values[2]/(11e6*spread(3))-1) > 0.001 {
		t.Errorf("row %d of %d", i, len(a.Series))
	}
	if _, err := c.AskHost(t.Context(), "client33", stats, q); !errors.Is(err, measure.ErrUnclear) ||
		!strings.Contains(err.Error(), "did you mean client3?") {
		t.Errorf("an unknown host: %v", err)
	}
	if _, err := c.AskHost(t.Context(), "client3", nil, q); !errors.Is(err, measure.ErrUnsupported) {
		t.Errorf("an unknown statistic: %v", err)
	}
}

// checkFindings reads the findings of client2 over five minutes, and of a host that has none.
func checkFindings(t *testing.T, c *Client, end measure.Time) {
	for name, want := range map[string]int{"client2": 1, "client3": 0} {
		h, err := c.Open(t.Context(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		over := measure.Interval{Start: end.Add(-5 * measure.Minute), End: end}
		got, err := h.Findings(t.Context(), over)
		if err != nil {
			t.Fatal(err)
		}
		// Two samples are within a minute, or on both sides of its end.
		if len(got) < want || len(got) > 2*want {
			t.Fatalf("%s: %d times with findings: %+v", name, len(got), got)
		}
		for _, at := range got {
			if at.At <= over.Start || at.At > end || len(at.Findings) != 2 ||
				at.Findings[0] != (fleet.Finding{
					Rule: "peer-slow", Kind: "client", Culprit: "192.0.2.4", Severity: "high",
					Confidence: 0.8,
				}) || at.Findings[1].Rule != "swap" {
				t.Errorf("%s: %+v", name, at)
			}
		}
		early := measure.Interval{Start: end.Add(-9 * measure.Minute), End: over.Start}
		if got, err := h.Findings(t.Context(), early); err != nil || len(got) != 0 {
			t.Errorf("%s, before the findings: %+v, %v", name, got, err)
		}
	}
}

// BenchmarkOverview reads all hosts of an engine with 1,000 of them, compares one with others, and
// reads the curves of those that a page shows at first.
func BenchmarkOverview(b *testing.B) {
	const hosts = 1000
	address := startPrometheus(b)
	all, end := busy(simulatedHost(b)), floor(now(), 15*second)
	for i := range hosts {
		labels := map[string]string{"instance": fmt.Sprintf("host%03d", i)}
		send(b, address, all, labels, end, 60, slowClient(i))
	}
	c, err := New(Options{URL: address})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.Run("hosts", func(b *testing.B) {
		b.ReportMetric(float64(len(all)), "series/host")
		for b.Loop() {
			o, err := c.Overview(b.Context(), end, measure.Minute)
			if err != nil {
				b.Fatal(err)
			}
			if n := len(o.Outliers()); o.Reporting() != hosts || n < 1 {
				b.Fatalf("%d of %d report, %d differ", o.Reporting(), len(o.Hosts), n)
			}
			o.Order(o.Outliers())
		}
	})
	b.Run("compare", func(b *testing.B) {
		stats := exportedStats()
		for b.Loop() {
			r, err := c.Compare(b.Context(), stats, "host004", end, measure.Minute)
			if err != nil || r.Compared != maxCompared || len(r.Differences) == 0 {
				b.Fatalf("%+v, %v", r, err)
			}
		}
	})
	b.Run("curves", func(b *testing.B) {
		var shown []string
		for i := range 30 {
			shown = append(shown, fmt.Sprintf("host%03d", i*30))
		}
		over := measure.Interval{Start: end.Add(-10 * measure.Minute), End: end}
		for b.Loop() {
			if _, err := c.Curves(b.Context(), shown, over, 40); err != nil {
				b.Fatal(err)
			}
		}
	})
}
