// Command grafana asks the built program what Grafana asks a Prometheus, by Grafana's own code: the backend of its Prometheus data source
// (pkg/promlib), as the configuration page of a data source would set it up. It holds the answers as that code understood them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/grafana/grafana/pkg/promlib"
)

// window is how long is recorded before anything is asked.
const window = 20 * time.Second

func main() {
	program := flag.String("culprit", "bin/culprit", "the built program")
	flag.Parse()
	if err := run(*program); err != nil {
		fmt.Fprintln(os.Stderr, "grafana:", err)
		os.Exit(1)
	}
}

func run(program string) error {
	dir, err := os.MkdirTemp("", "culprit-grafana-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command(program, "serve", "--dir", dir, "--listen", "127.0.0.1:0", "--for", "5m")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()                          // as above
	}()
	var address *url.URL
	for lines := bufio.NewScanner(out); address == nil; {
		if !lines.Scan() {
			return errors.New("culprit serve ended without an address")
		}
		if _, rest, ok := strings.Cut(lines.Text(), "http://"); ok {
			if address, err = url.Parse("http://" + rest); err != nil {
				return err
			}
		}
	}
	go func() { // what it says later
		buf := make([]byte, 4096)
		for {
			if _, err := out.Read(buf); err != nil {
				return
			}
		}
	}()
	fmt.Printf("recording for %v\n", window)
	time.Sleep(window)

	failed := 0
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		g := &grafana{service: promlib.NewService(nil, log.NewNullLogger(), nil), method: method, to: time.Now().Add(-2 * time.Second).Truncate(time.Second)}
		g.context = backend.PluginContext{DataSourceInstanceSettings: &backend.DataSourceInstanceSettings{
			ID: 1, UID: "culprit", Type: "prometheus", Name: "culprit", URL: "http://" + address.Host, Updated: time.Now(),
			JSONData:                fmt.Appendf(nil, `{"httpMethod":%q,"httpHeaderName1":"Authorization","timeInterval":"1s"}`, method),
			DecryptedSecureJSONData: map[string]string{"httpHeaderValue1": "Bearer " + address.Query().Get("token")},
		}}
		for _, c := range g.checks() {
			if err := c.do(); err != nil {
				fmt.Printf("FAIL %-4s %s: %v\n", method, c.what, err)
				failed++
			} else {
				fmt.Printf("ok   %-4s %s\n", method, c.what)
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of Grafana's requests went wrong", failed)
	}
	return nil
}

type grafana struct {
	service *promlib.Service
	context backend.PluginContext
	method  string
	to      time.Time
}

type check struct {
	what string
	do   func() error
}

// checks are what the data source does from its configuration to a dashboard.
func (g *grafana) checks() []check {
	ctx := context.Background()
	return []check{
		{"save and test", func() error {
			r, err := g.service.CheckHealth(ctx, &backend.CheckHealthRequest{PluginContext: g.context})
			if err != nil {
				return err
			}
			if r.Status != backend.HealthStatusOk || !strings.Contains(string(r.JSONDetails), `"application":"Prometheus"`) {
				return fmt.Errorf("%v %s %s", r.Status, r.Message, r.JSONDetails)
			}
			return nil
		}},
		{"the kind and version of the server", func() error {
			r, err := g.service.GetBuildInfo(ctx, promlib.BuildInfoRequest{PluginContext: g.context})
			if err != nil {
				return err
			}
			if r.Status != "success" || r.Data.Version == "" || len(r.Data.Features) > 0 {
				return fmt.Errorf("%+v", r)
			}
			return nil
		}},
		{"a panel: the rate of a counter over $__rate_interval, which adds up to the CPUs", func() error {
			frames, err := g.query(`{"expr":"sum by (mode) (rate(culprit_cpu_time_seconds_total[$__rate_interval]))","range":true,"format":"time_series","legendFormat":"{{mode}}","intervalMs":1000}`)
			if err != nil {
				return err
			}
			cpus, sum := 0.0, 0.0
			if total, err := g.query(`{"expr":"count(count by (cpu) (culprit_cpu_time_seconds_total))","instant":true,"format":"table"}`); err != nil {
				return err
			} else if cpus, err = last(total[0]); err != nil {
				return err
			}
			for _, f := range frames {
				v, err := last(f)
				if err != nil {
					return err
				}
				sum += v
				if name := f.Fields[1].Config.DisplayNameFromDS; name != f.Fields[1].Labels["mode"] || name == "" {
					return fmt.Errorf("the legend of %v is %q", f.Fields[1].Labels, name)
				}
			}
			if len(frames) < 4 || math.Abs(sum-cpus) > 0.1*cpus {
				return fmt.Errorf("%d modes, %g CPUs in all of %g", len(frames), sum, cpus)
			}
			return nil
		}},
		{"a panel of a gauge, each second of it", func() error {
			frames, err := g.query(`{"expr":"culprit_memory_size_bytes{kind=\"free\"}","range":true,"format":"time_series","interval":"1s","intervalMs":1000}`)
			if err != nil {
				return err
			}
			if len(frames) != 1 || frames[0].Rows() < 8 || frames[0].Meta.Custom == nil {
				return fmt.Errorf("%d frames of %d rows", len(frames), frames[0].Rows())
			}
			at := frames[0].Fields[0]
			for i := 1; i < at.Len(); i++ {
				if step := at.At(i).(time.Time).Sub(at.At(i - 1).(time.Time)); step != time.Second {
					return fmt.Errorf("a step of %v", step)
				}
			}
			return nil
		}},
		{"a table of a moment: the machine's memory", func() error {
			frames, err := g.query(`{"expr":"culprit_memory_size_bytes{kind=\"total\"}","instant":true,"format":"table"}`)
			if err != nil {
				return err
			}
			v, err := last(frames[0])
			if err != nil {
				return err
			}
			return memoryIs(v)
		}},
		{"a heat map", func() error {
			frames, err := g.query(`{"expr":"sum by (device) (rate(culprit_net_device_bytes_total[10s]))","range":true,"format":"heatmap","intervalMs":1000}`)
			if err == nil && (len(frames) == 0 || frames[0].Rows() < 5) {
				err = fmt.Errorf("%d frames", len(frames))
			}
			return err
		}},
		{"range, moment and exemplars of one query", func() error {
			frames, err := g.query(`{"expr":"culprit_sched_runnable","range":true,"instant":true,"exemplar":true,"intervalMs":5000}`)
			if err == nil && len(frames) < 2 {
				err = fmt.Errorf("%d frames", len(frames))
			}
			return err
		}},
		{"an expression that is wrong, with its place", func() error {
			_, err := g.query(`{"expr":"rate(culprit_cpu_time_seconds_total)","range":true,"intervalMs":1000}`)
			if err == nil || !strings.Contains(err.Error(), "1:6: parse error") {
				return fmt.Errorf("said: %v", err)
			}
			return nil
		}},
		{"no such metric", func() error {
			frames, err := g.query(`{"expr":"nosuch_metric","range":true,"intervalMs":1000}`)
			for _, f := range frames {
				if f.Rows() > 0 {
					err = fmt.Errorf("%d rows", f.Rows())
				}
			}
			return err
		}},
		{"all names of metrics", func() error {
			return g.list("GET", "api/v1/label/__name__/values", url.Values{"limit": {"40000"}}, "culprit_cpu_time_seconds_total", "culprit_net_device_bytes_per_second")
		}},
		{"labels, as the editor asks for them", func() error {
			return g.list(g.method, "api/v1/labels", url.Values{"limit": {"40000"}, "match[]": {`culprit_net_device_bytes_total{device="lo"}`}}, "__name__", "device", "direction")
		}},
		{"values of a label of a metric", func() error {
			return g.list("GET", "api/v1/label/device/values", url.Values{"limit": {"40000"}, "match[]": {"culprit_net_device_bytes_total"}}, "lo")
		}},
		{"series of a variable", func() error {
			var found []map[string]string
			if err := g.resource(g.method, "api/v1/series", url.Values{"match[]": {`{__name__=~"culprit_cpu_time_.*",mode="usr"}`}, "limit": {"40000"}}, &found); err != nil {
				return err
			}
			if len(found) < 2 || found[0]["mode"] != "usr" || found[0]["cpu"] == "" {
				return fmt.Errorf("%v", found)
			}
			return nil
		}},
		{"all series, as the metric browser asks", func() error {
			var found []map[string]string
			err := g.resource(g.method, "api/v1/series", url.Values{"match[]": {`{__name__!=""}`}, "limit": {"40000"}}, &found)
			if err == nil && len(found) < 500 {
				err = fmt.Errorf("%d", len(found))
			}
			return err
		}},
		{"metadata of all metrics", func() error {
			var found map[string][]struct{ Type, Unit, Help string }
			if err := g.resource("GET", "api/v1/metadata", url.Values{"limit": {"40000"}}, &found); err != nil {
				return err
			}
			if m := found["culprit_cpu_time_seconds_total"]; len(m) != 1 || m[0].Type != "counter" || m[0].Unit != "seconds" || m[0].Help == "" {
				return fmt.Errorf("%v", m)
			}
			return nil
		}},
		{"rules", func() error {
			var found struct{ Groups []any }
			err := g.resource("GET", "api/v1/rules", nil, &found)
			if err == nil && (found.Groups == nil || len(found.Groups) > 0) {
				err = fmt.Errorf("%v", found)
			}
			return err
		}},
		{"whether there are exemplars", func() error {
			var found []any
			return g.resource("GET", "api/v1/query_exemplars", url.Values{"query": {"test"}}, &found)
		}},
		{"suggestions for a filter, of a query with a variable", func() error {
			var r backend.CallResourceResponse
			body := fmt.Sprintf(`{"labelName":"device","queries":["rate(culprit_net_device_bytes_total[$__rate_interval])"],"adhocFilters":[{"key":"direction","operator":"equals","value":"rx"}],"start":"%d","end":"%d","limit":100}`,
				g.to.Add(-window).Unix(), g.to.Unix())
			err := g.service.CallResource(ctx, &backend.CallResourceRequest{PluginContext: g.context, Path: "suggestions", Method: "POST", URL: "suggestions", Body: []byte(body)},
				backend.CallResourceResponseSenderFunc(func(got *backend.CallResourceResponse) error { r = *got; return nil }))
			if err == nil && (r.Status != http.StatusOK || !strings.Contains(string(r.Body), `"lo"`)) {
				err = fmt.Errorf("%d %s", r.Status, r.Body)
			}
			return err
		}},
	}
}

// query runs a query of a dashboard over what was recorded.
func (g *grafana) query(model string) (data.Frames, error) {
	r, err := g.service.QueryData(context.Background(), &backend.QueryDataRequest{PluginContext: g.context, Queries: []backend.DataQuery{{
		RefID: "A", Interval: time.Second, MaxDataPoints: 1000, JSON: []byte(model), TimeRange: backend.TimeRange{From: g.to.Add(-window / 2), To: g.to}}}})
	if err != nil {
		return nil, err
	}
	a := r.Responses["A"]
	if a.Error == nil && len(a.Frames) == 0 {
		return nil, errors.New("no frame")
	}
	return a.Frames, a.Error
}

// resource asks as the browser does, through Grafana.
func (g *grafana) resource(method, path string, form url.Values, into any) error {
	if form != nil {
		form.Set("start", strconv.FormatInt(g.to.Add(-window).Unix(), 10))
		form.Set("end", strconv.FormatInt(g.to.Unix(), 10))
	}
	req := &backend.CallResourceRequest{PluginContext: g.context, Path: path, URL: path, Method: method}
	if method == http.MethodPost {
		req.Body = []byte(form.Encode())
	} else {
		req.URL += "?" + form.Encode()
	}
	var r *backend.CallResourceResponse
	err := g.service.CallResource(context.Background(), req, backend.CallResourceResponseSenderFunc(func(got *backend.CallResourceResponse) error { r = got; return nil }))
	if err != nil {
		return err
	}
	var answer struct {
		Status string
		Data   json.RawMessage
	}
	if err := json.Unmarshal(r.Body, &answer); err != nil || r.Status != http.StatusOK || answer.Status != "success" {
		return fmt.Errorf("%d %s: %w", r.Status, r.Body, err)
	}
	return json.Unmarshal(answer.Data, into)
}

// list asks for names, among which these must be.
func (g *grafana) list(method, path string, form url.Values, want ...string) error {
	var found []string
	if err := g.resource(method, path, form, &found); err != nil {
		return err
	}
	for _, w := range want {
		if !slices.Contains(found, w) {
			return fmt.Errorf("no %s in %v", w, found)
		}
	}
	return nil
}

// last gives the newest value of a frame of one series.
func last(f *data.Frame) (float64, error) {
	for _, field := range f.Fields {
		if field.Type().Numeric() && field.Len() > 0 {
			return field.FloatAt(field.Len() - 1)
		}
	}
	return 0, fmt.Errorf("no number in %d rows", f.Rows())
}

// memoryIs holds a number of bytes against MemTotal of /proc/meminfo.
func memoryIs(bytes float64) error {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	f := strings.Fields(string(text))
	if kb, err := strconv.ParseFloat(f[1], 64); err != nil || kb*1024 != bytes {
		return fmt.Errorf("%g bytes, /proc/meminfo says %s kB", bytes, f[1])
	}
	return nil
}
