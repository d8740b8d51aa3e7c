package prom

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/measure"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// TestClient uses the API with Prometheus's own client.
func TestClient(t *testing.T) {
	m := device(t)
	m.loss, m.notes = []measure.Loss{{Reason: "ring buffer full", Events: 7}}, []string{
		"counted twice",
	}
	a := m.api(noon + 600e9)
	mux := http.NewServeMux()
	mux.Handle("/base/api/v1/", a) // a server below a path of a proxy
	server := httptest.NewServer(mux)
	defer server.Close()
	c, err := api.NewClient(api.Config{Address: server.URL + "/base"})
	if err != nil {
		t.Fatal(err)
	}
	p, ctx := v1.NewAPI(c), t.Context()
	start, end := (noon + 1e9).AsTime(), (noon + 600e9).AsTime()

	v, warnings, err := p.Query(ctx, `sum by (device) (rate(culprit_net_device_bytes_total[1m]))`,
		end)
	if err != nil {
		t.Fatal(err)
	}
	if vec, ok := v.(model.Vector); !ok || len(vec) != 1 || vec[0].Metric["device"] != "eth0" ||
		vec[0].Value != 1010 ||
		vec[0].Timestamp.Time().Unix() != end.Unix() {
		t.Errorf("query: %v", v)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "ring buffer full, 7 lost") {
		t.Errorf("warnings: %v", warnings)
	}
	v, _, err = p.QueryRange(ctx, `culprit_net_device_bytes_per_second{direction="rx"}`,
		v1.Range{Start: start, End: end, Step: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if mat, ok := v.(model.Matrix); !ok || len(mat) != 2 ||
		len(mat[0].Values)+len(mat[1].Values) != 20+2 {
		t.Errorf("query_range: %v", v)
	}
	if v, _, err = p.Query(ctx, `1+1`, end); err != nil || v.(*model.Scalar).Value != 2 {
		t.Errorf("scalar: %v %v", v, err)
	}
	if got := data(t, a, "query", "query", `"a\"\u2028<b>"`, "time", "7.25"); got != `{"resultType":"string","result":[7.250,"a\"\u2028\u003cb\u003e"]}` {
		t.Errorf("string: %s", got) // the client can't read one
	}
	if v, _, err = p.Query(ctx, `vector(1)/0 or -vector(1)/0 or on() vector(NaN)`, end); err != nil ||
		!math.IsInf(float64(v.(model.Vector)[0].Value), 1) {
		t.Errorf("infinite: %v %v", v, err)
	}
	names, _, err := p.LabelNames(ctx, []string{`{__name__=~".*bytes_total"}`}, start, end)
	if err != nil || fmt.Sprint(names) != "[__name__ device direction netns]" {
		t.Errorf("labels: %v %v", names, err)
	}
	values, _, err := p.LabelValues(ctx, "device", nil, start, end)
	if err != nil || fmt.Sprint(values) != "[eth0 veth1]" {
		t.Errorf("label values: %v %v", values, err)
	}
	values, _, err = p.LabelValues(ctx, "device",
		[]string{`culprit_net_device_bytes_total{netns!=""}`, `{device="lo"}`}, start, end)
	if err != nil || fmt.Sprint(values) != "[veth1]" {
		t.Errorf("label values of a selector: %v %v", values, err)
	}
	// The second device appeared after the fourth minute.
	values, _, err = p.LabelValues(ctx, "device", nil, start, (noon + 200e9).AsTime())
	if err != nil || fmt.Sprint(values) != "[eth0]" {
		t.Errorf("label values of a time: %v %v", values, err)
	}
	series, _, err := p.Series(
		ctx,
		[]string{`culprit_net_device_bytes_total`,
			`{__name__="culprit_net_device_bytes_total",device="eth0"}`},
		start,
		end,
	)
	if err != nil || len(series) != 3 || series[0]["__name__"] != "culprit_net_device_bytes_total" {
		t.Errorf("series: %v %v", series, err)
	}
	series, warnings, err = p.Series(ctx, []string{`culprit_net_device_bytes_total`}, start, end,
		v1.WithLimit(2))
	if err != nil || len(series) != 2 ||
		!slices.Contains([]string(warnings), "results truncated due to limit") {
		t.Errorf("series with a limit: %v %v %v", series, warnings, err)
	}
	meta, err := p.Metadata(ctx, "", "")
	if err != nil || len(meta) != 2 ||
		meta["culprit_net_device_bytes_total"][0].Type != "counter" ||
		meta["culprit_net_device_bytes_total"][0].Unit != "bytes" ||
		!strings.HasPrefix(meta["culprit_net_device_bytes_per_second"][0].Help,
			"net.device.bytes: ") {
		t.Errorf("metadata: %v %v", meta, err)
	}
	if b, err := p.Buildinfo(ctx); err != nil || b.Version != engineVersion ||
		b.Revision != "test" {
		t.Errorf("buildinfo: %v %v", b, err)
	}
	if r, err := p.Rules(ctx); err != nil || len(r.Groups) != 0 {
		t.Errorf("rules: %v %v", r, err)
	}
	if r, err := p.Alerts(ctx); err != nil || len(r.Alerts) != 0 {
		t.Errorf("alerts: %v %v", r, err)
	}
	if r, err := p.QueryExemplars(ctx, `culprit_net_device_bytes_total`, start, end); err != nil ||
		len(r) != 0 {
		t.Errorf("exemplars: %v %v", r, err)
	}
	// Errors have Prometheus's form.
	for _, q := range []struct{ query, kind, words string }{
		{`sum(`, "bad_data", `invalid parameter "query": 1:5: parse error: unclosed left parenthesis`},
		{"up +\n  rate(culprit_x)", "bad_data", `2:8: parse error: expected type range vector in call to function "rate", got instant vector`},
		{`culprit_net_device_bytes_total[5m]]`, "bad_data", `1:35: parse error: unexpected right bracket ']'`},
		{`culprit_net_device_bytes_total + on(netns) culprit_net_device_bytes_per_second`, "execution", `many-to-many matching not allowed`},
		{`label_replace(culprit_net_device_bytes_total, "x", "y", "device", "(")`, "execution", "invalid regular expression"},
	} {
		_, _, err := p.Query(ctx, q.query, (noon + 250e9).AsTime())
		var e *v1.Error
		if !errors.As(err, &e) || string(e.Type) != q.kind || !strings.Contains(e.Msg, q.words) {
			t.Errorf("%s: %v, want %s %s", q.query, err, q.kind, q.words)
		}
	}
}

// TestHistogram checks that a distribution is a native histogram whose counts are exact.
func TestHistogram(t *testing.T) {
	m := &memory{}
	m.record(t, measure.Dists, measure.Nanoseconds, false, "disk.latency by device")
	dist := func(values ...uint64) measure.Dist {
		d := measure.Dist{Base: 3}
		for _, v := range values {
			d.Add(v, 1)
		}
		return d
	}
	if m.ticks = map[measure.StatID][]tick{}; true {
		for s := measure.Time(-600); s < 600; s++ {
			now := map[string]measure.Dist{"sda": dist(1e6, 2e6, 3e6, 100e6), "sdb": dist(7)}
			if s >= 100 && s < 200 {
				now["sdc"] = dist(5e9)
			}
			m.ticks["disk.latency"] = append(m.ticks["disk.latency"],
				tick{at: midnight + (s+1)*1e9, elapsed: measure.Second, dists: now})
		}
	}
	a := m.api(midnight + 600e9)
	for _, c := range []struct {
		query string
		at    measure.Time
		want  float64
		off   float64 // a share
	}{
		{`histogram_count(culprit_disk_latency_seconds_by_device{device="sda"})`, 600, 2400, 0},
		{`histogram_sum(culprit_disk_latency_seconds_by_device{device="sda"})`, 600, 63.6, 0},
		{`histogram_count(culprit_disk_latency_seconds_by_device{device="sda"})`, 0, 2400, 0},
		{`histogram_count(culprit_disk_latency_seconds_by_device{device="sda"})`, 1, 4, 0}, // a new day
		{`histogram_count(rate(culprit_disk_latency_seconds_by_device{device="sda"}[5m]))`, 400, 4, 0},
		{`histogram_count(increase(culprit_disk_latency_seconds_by_device{device="sda"}[10m]))`, 300, 2400, 0}, // across midnight
		{`histogram_count(irate(culprit_disk_latency_seconds_by_device{device="sda"}[1m]))`, 1, 4, 0},
		{`histogram_count(sum(rate(culprit_disk_latency_seconds_by_device[5m])))`, 90, 5, 0},
		{`histogram_avg(rate(culprit_disk_latency_seconds_by_device{device="sda"}[5m]))`, 600, 26.5e-3, 0},
		{`histogram_quantile(0.4, sum by (device) (rate(culprit_disk_latency_seconds_by_device{device="sda"}[5m])))`, 600, 2e-3, 0.125},
		{`histogram_quantile(0.99, rate(culprit_disk_latency_seconds_by_device{device="sda"}[5m]))`, 600, 100e-3, 0.125},
		{`histogram_fraction(0, 10e-3, rate(culprit_disk_latency_seconds_by_device{device="sda"}[5m]))`, 600, 0.75, 0.01},
		{`histogram_quantile(1, culprit_disk_latency_seconds_by_device{device="sdb"})`, 600, 7e-9, 0}, // small values are exact
		{`histogram_count(last_over_time(culprit_disk_latency_seconds_by_device{device="sdc"}[10m]))`, 590, 100, 0},
	} {
		got := numbers(t, data(t, a, "query", "query", c.query, "time", seconds(midnight+c.at*1e9)))[0]
		if math.Abs(got-c.want) > (c.off+1e-9)*c.want {
			t.Errorf("%s at %d: %v, want %v", c.query, c.at, got, c.want)
		}
	}
	// Each bucket equals that of the distribution.
	got := data(t, a, "query", "query", `increase(culprit_disk_latency_seconds_by_device{device="sdb"}[1m])`,
		"time", seconds(midnight+600e9))
	if want := `"buckets":[[0,"6e-09","7e-09","60"]]}]}]}`; !strings.HasSuffix(got, want) ||
		!strings.Contains(got, `"count":"60"`) {
		t.Errorf("%s, want %s", got, want)
	}
	graph := data(t, a, "query_range", "query",
		`histogram_count(rate(culprit_disk_latency_seconds_by_device{device="sda"}[1m]))`, "start",
		seconds(midnight-300e9), "end", seconds(midnight+600e9), "step", "30")
	for _, v := range numbers(t, graph) {
		if !near(v, 4) {
			t.Errorf("graph: %v, want 4 throughout", v)
		}
	}
	if meta := data(t, a, "metadata"); !strings.Contains(meta,
		`"type":"histogram","unit":"seconds"`) {
		t.Error(meta)
	}
}
