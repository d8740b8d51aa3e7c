package prom

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/measure"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

// expressions are the compared queries. Versions of Prometheus differ in whether a range includes a
// sample at its start. So moments and the inner range of a subquery, which is evaluated at whole
// seconds, are half a second off.
var expressions = []string{
	`culprit_net_device_bytes_total`,
	`culprit_net_device_bytes_per_second{device!="lo"}`,
	`culprit_memory_size_bytes`,
	`culprit_tcp_flow_rtt_seconds_by_peer`,
	`rate(culprit_net_device_bytes_total[1m])`,
	`rate(culprit_net_device_bytes_total{direction="rx"}[5m])`,
	`irate(culprit_net_device_bytes_total[10s])`,
	`increase(culprit_net_device_bytes_total{device=~"eth.*"}[3m])`,
	`increase(culprit_cpu_time_seconds_total[20m])`,
	`sum by (device) (rate(culprit_net_device_bytes_total[2m]))`,
	`sum without (direction) (rate(culprit_net_device_bytes_total[2m]))`,
	`sum(rate(culprit_cpu_time_seconds_total{mode!="idle"}[1m])) by (cpu)`,
	`avg by (mode) (rate(culprit_cpu_time_seconds_total[1m]))`,
	`1 - avg(rate(culprit_cpu_time_seconds_total{mode="idle"}[1m]))`,
	`topk(2, rate(culprit_net_device_bytes_total[1m]))`,
	`bottomk(1, culprit_memory_size_bytes)`,
	`max(culprit_memory_size_bytes)`,
	`min by (kind) (culprit_memory_size_bytes)`,
	`count(culprit_net_device_bytes_total)`,
	`count by (device) (culprit_net_device_bytes_per_second > 0)`,
	`stddev(culprit_net_device_bytes_per_second)`,
	`stdvar by (direction) (culprit_net_device_bytes_per_second)`,
	`quantile(0.5, culprit_net_device_bytes_per_second)`,
	`count_values("v", culprit_net_device_bytes_per_second == 0)`,
	`group by (netns) (culprit_net_device_bytes_total)`,
	`histogram_quantile(0.9, sum by (le) (rate(culprit_request_latency_total[1m])))`,
	`histogram_quantile(0.5, rate(culprit_request_latency_total[5m]))`,
	`avg_over_time(culprit_memory_size_bytes[1m])`,
	`min_over_time(culprit_tcp_flow_rtt_seconds_by_peer[1m])`,
	`max_over_time(culprit_tcp_flow_rtt_seconds_by_peer[1m])`,
	`sum_over_time(culprit_net_device_bytes_per_second[1m])`,
	`count_over_time(culprit_net_device_bytes_per_second[1m])`,
	`stddev_over_time(culprit_sched_load[2m])`,
	`stdvar_over_time(culprit_sched_load[2m])`,
	`quantile_over_time(0.95, culprit_tcp_flow_rtt_seconds_by_peer[5m])`,
	`last_over_time(culprit_tcp_flow_rtt_seconds_by_peer[5m])`,
	`present_over_time(culprit_tcp_flow_rtt_seconds_by_peer[30s])`,
	`delta(culprit_memory_size_bytes[1m])`,
	`idelta(culprit_memory_size_bytes[1m])`,
	`deriv(culprit_sched_load[2m])`,
	`predict_linear(culprit_sched_load[2m], 60)`,
	`changes(culprit_tcp_flow_rtt_seconds_by_peer[1m])`,
	`resets(culprit_net_device_bytes_total[15m])`,
	`rate(culprit_net_device_bytes_total[1m] offset 5m)`,
	`rate(culprit_net_device_bytes_total[1m] offset -2m)`,
	`culprit_memory_size_bytes offset 7m`,
	`culprit_memory_size_bytes @ 1772409500.5`,
	`rate(culprit_net_device_bytes_total[1m] @ end())`,
	`rate(culprit_net_device_bytes_total[1m] @ start())`,
	`max_over_time(rate(culprit_net_device_bytes_total{device="eth0"}[60500ms])[5m:15s])`,
	`avg_over_time(sum(culprit_sched_load)[3m:10s])`,
	`quantile_over_time(0.5, (culprit_memory_size_bytes / 1024)[2m:])`,
	`sum_over_time((culprit_memory_size_bytes > 1.5e9)[1m:5s] offset 1m)`,
	`label_replace(culprit_net_device_bytes_per_second, "port", "$1", "device", "eth(.*)")`,
	`label_join(culprit_net_device_bytes_per_second, "id", "-", "netns", "device")`,
	`absent(culprit_net_device_bytes_total{device="eth9"})`,
	`absent(culprit_net_device_bytes_total{device="tun0"})`,
	`absent_over_time(culprit_net_device_bytes_total{device="tun0"}[30s])`,
	`culprit_memory_size_bytes{kind="used"} / ignoring(kind) culprit_memory_size_bytes{kind="free"}`,
	`culprit_net_device_bytes_per_second / on(device, netns) group_left sum by (device, netns) (culprit_net_device_bytes_per_second)`,
	`rate(culprit_net_device_bytes_total[1m]) * 8 > bool 1000`,
	`culprit_net_device_bytes_per_second and on(device) culprit_net_device_bytes_per_second{direction="tx"}`,
	`culprit_net_device_bytes_per_second unless on(device) culprit_net_device_bytes_per_second{direction="tx"}`,
	`culprit_sched_load or culprit_memory_size_bytes`,
	`{__name__=~"culprit_sched.*|culprit_memory.*"}`,
	`{__name__=~"culprit_net.*", netns=""}`,
	`culprit_net_device_bytes_total{netns!=""}`,
	`culprit_net_device_bytes_total{netns=~"|red",nosuch=""}`,
	`culprit_net_device_bytes_total{device!~"eth0|lo|tun.*"}`,
	`culprit_net_device_bytes_total{device=~"e.+0"}`,
	`abs(culprit_sched_load) + ceil(culprit_sched_load) - floor(culprit_sched_load) * exp(culprit_sched_load)`,
	`clamp(culprit_sched_load, -0.5, 0.5)`,
	`round(culprit_sched_load, 0.01)`,
	`sgn(culprit_sched_load) ^ 2 % 3`,
	`ln(culprit_memory_size_bytes) - log2(culprit_memory_size_bytes)`,
	`-culprit_sched_load`,
	`timestamp(culprit_tcp_flow_rtt_seconds_by_peer)`,
	`scalar(culprit_memory_size_bytes{kind="free"}) + vector(1)`,
	`sort_desc(rate(culprit_cpu_time_seconds_total[1m]))`,
	`hour(vector(time())) + minute()`,
	`rate(culprit_process_cpu_seconds_by_pid_process_total[2m])`,
	`sum by (process) (rate(culprit_process_cpu_seconds_by_pid_process_total[5m])) / scalar(count(count by (cpu) (culprit_cpu_time_seconds_total)))`,
	`avg_over_time(culprit_process_cpu_seconds_by_pid_process_per_second[3m])`,
	`time() - 1772409600`,
	`"text"`,
	`42`,
}

// moments are the times of the compared queries: quiet times, rows that appear and disappear, the
// gap, after midnight, after the end.
var moments = []float64{-1199.5, -1100.5, -870.5, -869.5, -700.5, -698.5, -694.5, -600.5, -599.5,
	-500.5, -471.5, -469.5, -300.5, -0.5, 0.5, 1.5, 60.5, 299.5, 301.5, 303.5, 700.5, 1199.5,
	1201.5, 1210.5, 1216.5, 1400.5}

// ranges are start, end and step of graphs.
var ranges = [][3]float64{{-1250.5, 1300.5, 15}, {-60.5, 60.5, 1}, {-650.5, -400.5, 7},
	{-1100.5, 1100.5, 300}}

// rows returns a result as a map from labels to times to values.
func rows(t testing.TB, result string) map[string]map[string]string {
	t.Helper()
	var r struct {
		ResultType string
		Result     json.RawMessage
	}
	if err := json.Unmarshal([]byte(result), &r); err != nil {
		t.Fatalf("%v: %s", err, result)
	}
	out := map[string]map[string]string{}
	if r.ResultType == "scalar" || r.ResultType == "string" {
		var point [2]any
		if err := json.Unmarshal(r.Result, &point); err != nil {
			t.Fatalf("%v: %s", err, r.Result)
		}
		out[r.ResultType] = map[string]string{fmt.Sprint(point[0]): point[1].(string)}
		return out
	}
	var all []struct {
		Metric     map[string]string
		Value      [2]any
		Values     [][2]any
		Histogram  [2]json.RawMessage
		Histograms [][2]json.RawMessage
	}
	if err := json.Unmarshal(r.Result, &all); err != nil {
		t.Fatalf("%v: %s", err, r.Result)
	}
	for _, s := range all {
		name, _ := json.Marshal(s.Metric)
		points := map[string]string{}
		if s.Value[0] != nil {
			s.Values = append(s.Values, s.Value)
		}
		for _, p := range s.Values {
			points[fmt.Sprint(p[0])] = p[1].(string)
		}
		if s.Histogram[0] != nil {
			s.Histograms = append(s.Histograms, s.Histogram)
		}
		for _, p := range s.Histograms {
			points[string(p[0])] = string(p[1])
		}
		out[string(name)] = points
	}
	return out
}

// differ describes where two results differ by more than rounding; "" when they don't.
func differ(a, b map[string]map[string]string) string {
	for name, points := range a {
		for at, v := range points {
			w, ok := b[name][at]
			if !ok {
				return fmt.Sprintf("%s at %s: %s, but the other has none", name, at, v)
			}
			x, errX := strconv.ParseFloat(v, 64)
			y, errY := strconv.ParseFloat(w, 64)
			if v != w &&
				(errX != nil || errY != nil ||
					!(math.Abs(x-y) <= 1e-9*max(math.Abs(x), math.Abs(y), 1e-3))) {
				return fmt.Sprintf("%s at %s: %s, but the other has %s", name, at, v, w)
			}
		}
	}
	for name, points := range b {
		for at, v := range points {
			if _, ok := a[name][at]; !ok {
				return fmt.Sprintf("%s at %s: the other has %s", name, at, v)
			}
		}
	}
	return ""
}

func around(s float64) string {
	return strconv.FormatFloat(float64(midnight)/1e9+s, 'f', -1, 64)
}

// TestSameAsAllSamples compares the engine's answers over this package with its answers over all
// samples. So the queries to the reader suffice, and their answers are used correctly. Here times
// and ranges are also whole seconds.
func TestSameAsAllSamples(t *testing.T) {
	m := world(t)
	a := m.api(midnight.Add(1500 * measure.Second))
	var all sampleStore
	for _, d := range m.sets {
		all = append(all, samplesOf(m, d)...)
	}
	parse := func(s string) time.Time {
		at, err := parseTime(s)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	want := func(q promql.Query, err error) map[string]map[string]string {
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		res := q.Exec(t.Context())
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		b, err := appendData(nil, res.Value)
		if err != nil {
			t.Fatal(err)
		}
		return rows(t, string(b))
	}
	filled := 0
	for _, expression := range expressions {
		for _, off := range []float64{0, 0.5} {
			text := expression
			for _, s := range moments {
				at := around(s + off)
				got := rows(t, data(t, a, "query", "query", text, "time", at))
				filled += len(got)
				q, err := a.engine.NewInstantQuery(t.Context(), all, nil, text, parse(at))
				if d := differ(got, want(q, err)); d != "" {
					t.Fatalf("%s at %s (%g): %s", text, at, s+off, d)
				}
			}
			for _, r := range ranges {
				if strings.HasPrefix(text, `"`) {
					continue // has no graph
				}
				start, end, step := around(r[0]+off), around(r[1]+off), fmt.Sprint(r[2])
				got := rows(
					t,
					data(t, a, "query_range", "query", text, "start", start, "end", end, "step",
						step),
				)
				filled += len(got)
				q, err := a.engine.NewRangeQuery(t.Context(), all, nil, text,
					parse(start), parse(end), time.Duration(r[2]*1e9))
				if d := differ(got, want(q, err)); d != "" {
					t.Fatalf("%s from %s to %s (%g to %g): %s", text, start, end, r[0]+off,
						r[1]+off, d)
				}
			}
		}
	}
	if len(expressions) < 60 || filled < 1000 {
		t.Errorf("%d expressions gave %d rows: too few to show anything", len(expressions), filled)
	}
}

// TestSameAsPrometheus writes the samples to a Prometheus server and compares its answers with
// those of this package.
func TestSameAsPrometheus(t *testing.T) {
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("needs: tool prometheus")
	}
	m := world(t)
	a := m.api(midnight.Add(1500 * measure.Second))
	base := prometheus(t, path)
	var all []written
	for _, d := range m.sets {
		all = append(all, samplesOf(m, d)...)
	}
	// Prometheus requires the order of time over all series.
	for s := int64(-1300); s < 1300; s += 200 {
		remoteWrite(t, base, all, ms(midnight)+s*1000, ms(midnight)+(s+200)*1000)
	}
	ask := func(path string, form ...string) map[string]map[string]string {
		return asked(t, base, path, form...)
	}
	for _, expression := range expressions {
		for _, s := range moments {
			form := []string{"query", expression, "time", around(s)}
			if d := differ(rows(t, data(t, a, "query", form...)), ask("query", form...)); d != "" {
				t.Errorf("%s at %g: %s", expression, s, d)
				break
			}
		}
		for _, r := range ranges {
			if strings.HasPrefix(expression, `"`) {
				continue // has no graph
			}
			form := []string{"query", expression, "start", around(r[0]), "end", around(r[1]),
				"step", fmt.Sprint(r[2])}
			own := rows(t, data(t, a, "query_range", form...))
			if d := differ(own, ask("query_range", form...)); d != "" {
				t.Errorf("%s from %g to %g: %s", expression, r[0], r[1], d)
				break
			}
		}
	}
}

// asked returns the answer of a Prometheus server.
func asked(t *testing.T, base, path string, form ...string) map[string]map[string]string {
	t.Helper()
	v := url.Values{}
	for i := 0; i < len(form); i += 2 {
		v.Set(form[i], form[i+1])
	}
	res, err := http.PostForm(base+"/api/v1/"+path, v)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%v: %v %s", form, err, body)
	}
	var out struct{ Data json.RawMessage }
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatal(err)
	}
	return rows(t, string(out.Data))
}

// prometheus starts a Prometheus server that accepts remote write and returns its address.
func prometheus(t *testing.T, path string) string {
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte("global: {scrape_interval: 1h}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	var out bytes.Buffer
	c := exec.Command(path, "--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--storage.tsdb.retention.time=100y",
		"--web.listen-address="+address, "--web.enable-remote-write-receiver", "--log.level=warn")
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-done
	})
	for deadline := time.Now().Add(time.Minute); ; {
		res, err := http.Get("http://" + address + "/-/ready")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == 200 {
				return "http://" + address
			}
		}
		select {
		case err := <-done:
			done <- err
			t.Fatalf("prometheus ended: %v\n%s", err, out.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("prometheus is not ready after a minute")
		}
	}
}

// remoteWrite sends the samples from a time (milliseconds, inclusive) to another (exclusive) in a
// WriteRequest of remote write 1.0.
func remoteWrite(t *testing.T, base string, all []written, from, to int64) {
	field := func(b []byte, n int, v []byte) []byte {
		return append(binary.AppendUvarint(append(b, byte(n<<3|2)), uint64(len(v))), v...)
	}
	var request []byte
	for _, w := range all {
		lo := sort.Search(len(w.points), func(i int) bool { return w.points[i].time >= from })
		hi := sort.Search(len(w.points), func(i int) bool { return w.points[i].time >= to })
		if lo == hi {
			continue
		}
		var series []byte
		w.labels.Range(func(l labels.Label) {
			series = field(series, 1, field(field(nil, 1, []byte(l.Name)), 2, []byte(l.Value)))
		})
		for _, p := range w.points[lo:hi] {
			sample := binary.LittleEndian.AppendUint64([]byte{1<<3 | 1}, math.Float64bits(p.value))
			series = field(series, 2, binary.AppendUvarint(append(sample, 2<<3), uint64(p.time)))
		}
		request = field(request, 1, series)
	}
	// Snappy's block format with literals only: the length, then pieces of up to 65536 bytes, each
	// with tag 61 and its length - 1.
	packed := binary.AppendUvarint(nil, uint64(len(request)))
	for piece := range slices.Chunk(request, 65536) {
		packed = append(
			binary.LittleEndian.AppendUint16(append(packed, 61<<2), uint16(len(piece)-1)),
			piece...)
	}
	r, err := http.NewRequest(http.MethodPost, base+"/api/v1/write", bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Encoding", "snappy")
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if body, _ := io.ReadAll(res.Body); res.StatusCode/100 != 2 {
		t.Fatalf("remote write: %s %s", res.Status, body)
	}
}
