package prom

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// noon is in the middle of a day, so that counters have a past.
const noon = measure.Time(1772366400e9) // 2026-03-01T12:00:00Z

// at returns the API with its clock at a given time.
func (m *memory) api(now measure.Time) *API {
	a := New(m, m.datasets, "test")
	a.now = func() time.Time { return now.AsTime() }
	return a
}

// get sends a request and returns the status and the body.
func get(t testing.TB, a *API, path string, form ...string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/"+path+"?"+encode(form), nil))
	if !json.Valid(w.Body.Bytes()) {
		t.Fatalf("%s: no JSON: %s", path, w.Body)
	}
	return w.Code, w.Body.String()
}

func encode(form []string) string {
	v := url.Values{}
	for i := 0; i+1 < len(form); i += 2 {
		v.Add(form[i], form[i+1])
	}
	return v.Encode()
}

// data sends a request and fails the test unless it succeeds.
func data(t testing.TB, a *API, path string, form ...string) string {
	t.Helper()
	code, body := get(t, a, path, form...)
	rest, ok := strings.CutPrefix(body, `{"status":"success","data":`)
	if code != 200 || !ok {
		t.Fatalf("%s %v: %d %s", path, form, code, body)
	}
	return strings.TrimSuffix(rest, "}")
}

func seconds(at measure.Time) string { return string(appendTime(nil, ms(at))) }

// device is ten minutes of a device that receives 1,000 bytes each second, and of one that exists
// from the fourth to the fifth minute.
func device(t testing.TB) *memory {
	m := &memory{}
	m.record(t, measure.Delta, measure.Bytes, false, "net.device.bytes by netns,device,direction")
	for s := measure.Time(1); s <= 600; s++ {
		rows := map[string]float64{"|eth0|rx": 1000, "|eth0|tx": 10}
		if s > 240 && s <= 300 {
			rows["blue|veth1|rx"] = 5
		}
		m.put("net.device.bytes", noon+s*1e9, rows)
	}
	return m
}

func TestCounter(t *testing.T) {
	m := device(t)
	a := m.api(noon.Add(600 * measure.Second))
	for _, c := range []struct{ query, at, want string }{
		{`culprit_net_device_bytes_total{direction="rx"}`, seconds(noon + 600e9), `{"resultType":"vector","result":[{"metric":{"__name__":"culprit_net_device_bytes_total","device":"eth0","direction":"rx"},"value":[1772367000,"600000"]}]}`},
		{`rate(culprit_net_device_bytes_total{device=~"eth.*",direction!="tx"}[1m])`, seconds(noon + 600e9), `{"resultType":"vector","result":[{"metric":{"device":"eth0","direction":"rx"},"value":[1772367000,"1000"]}]}`},
		{`culprit_net_device_bytes_per_second{direction="tx"}`, seconds(noon + 600e9), `{"resultType":"vector","result":[{"metric":{"__name__":"culprit_net_device_bytes_per_second","device":"eth0","direction":"tx"},"value":[1772367000,"10"]}]}`},
		// All bytes of the second device count, also those of its first second; its row ends with
		// it.
		{`increase(culprit_net_device_bytes_total{device="veth1"}[5m])`, seconds(noon + 400e9), `{"resultType":"vector","result":[{"metric":{"device":"veth1","direction":"rx","netns":"blue"},"value":[1772366800,"302.5"]}]}`},
		{`last_over_time(culprit_net_device_bytes_total{device="veth1"}[5m])`, seconds(noon + 400e9), `{"resultType":"vector","result":[{"metric":{"__name__":"culprit_net_device_bytes_total","device":"veth1","direction":"rx","netns":"blue"},"value":[1772366800,"300"]}]}`},
		{`culprit_net_device_bytes_total{device="veth1"}`, seconds(noon + 300e9), `{"resultType":"vector","result":[{"metric":{"__name__":"culprit_net_device_bytes_total","device":"veth1","direction":"rx","netns":"blue"},"value":[1772366700,"300"]}]}`},
		{`culprit_net_device_bytes_total{device="veth1"}`, seconds(noon + 301e9), `{"resultType":"vector","result":[]}`},
		{`count(culprit_net_device_bytes_total)`, seconds(noon + 600e9), `{"resultType":"vector","result":[{"metric":{},"value":[1772367000,"2"]}]}`},
	} {
		if got := data(t, a, "query", "query", c.query, "time", c.at); got != c.want {
			t.Errorf("%s at %s:\n%s, want\n%s", c.query, c.at, got, c.want)
		}
	}
}

// TestVersion compares the release that Grafana sees with the engine's module.
func TestVersion(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	// Release 3.10.0 of Prometheus is v0.310.0 as a module.
	p := strings.Split(engineVersion, ".")
	want := "github.com/prometheus/prometheus v0." + p[0] + p[1] + "." + p[2] + "\n"
	if !strings.Contains(string(mod), want) {
		t.Errorf("engineVersion is %s, go.mod has no line %q", engineVersion, want)
	}
}
