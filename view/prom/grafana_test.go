package prom

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"culprit/heapbound"
	"culprit/measure"
)

// TestGrafana sends the requests of Grafana's Prometheus data source and checks what it needs of
// each answer. testdata/grafana.txt has a request per line - method, path, form - and below it,
// indented, the status and parts of the answer.
func TestGrafana(t *testing.T) {
	text, err := os.ReadFile("testdata/grafana.txt")
	if err != nil {
		t.Fatal(err)
	}
	a := device(t).api(noon.Add(600 * measure.Second))
	var body, request string
	n := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '\t':
			if !strings.Contains(body, line[1:]) {
				t.Errorf("%s:\nwant %s\ngot  %s", request, line[1:], body)
			}
		default:
			n++
			request = line
			method, rest, _ := strings.Cut(line, " ")
			path, form, _ := strings.Cut(rest, " ")
			r := httptest.NewRequest(method, path+"?"+form, nil)
			if method == http.MethodPost {
				r = httptest.NewRequest(method, path, strings.NewReader(form))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			w := httptest.NewRecorder()
			a.ServeHTTP(w, r)
			body = http.StatusText(w.Code) + " " + w.Body.String()
			if !json.Valid(w.Body.Bytes()) || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s: no JSON: %s", line, body)
			}
		}
	}
	if n < 20 {
		t.Errorf("%d requests", n)
	}
}

// TestLimits checks which requests are refused, and how.
func TestLimits(t *testing.T) {
	m := device(t)
	a := m.api(noon.Add(600 * measure.Second))
	deep := strings.Repeat("-", 20000) + "x"
	for _, c := range []struct {
		path string
		form []string
		code int
		want string
	}{
		{"query_range", []string{"query", "1", "start", "0", "end", "11001", "step", "1"}, 400, "exceeded maximum resolution of 11,000 points per timeseries"},
		{"query_range", []string{"query", "1", "start", "0", "end", "11000", "step", "1"}, 200, "matrix"},
		{"query_range", []string{"query", "1", "start", "5", "end", "4", "step", "1"}, 400, "end timestamp must not be before start time"},
		{"query_range", []string{"query", "1", "start", "5", "end", "6", "step", "0"}, 400, "zero or negative query resolution step"},
		{"query_range", []string{"query", "1", "start", "5", "end", "6", "step", "1e-9"}, 400, "zero or negative query resolution step"},
		{"query_range", []string{"query", "1", "start", "5", "end", "6", "step", "NaN"}, 400, `cannot parse \"NaN\" to a valid duration`},
		{"query_range", []string{"query", "1", "start", "5", "end", "6", "step", "1e300"}, 400, "overflows int64"},
		{"query_range", []string{"query", "1", "start", "x", "end", "6", "step", "1"}, 400, `invalid parameter \"start\": cannot parse \"x\" to a valid timestamp`},
		{"query_range", []string{"query", "culprit_net_device_bytes_total", "start", "-1e300", "end", "1e300", "step", "1000000w"}, 400, "valid duration"},
		{"query_range", []string{"query", "culprit_net_device_bytes_total", "start", "-1e300", "end", "1e300", "step", "5000w"}, 200, `"result":[]`},
		{"query", []string{"query", "culprit_net_device_bytes_total", "time", "1e300"}, 200, `"result":[]`},
		{"query", []string{"query", "culprit_net_device_bytes_total", "time", "-1e300"}, 200, `"result":[]`},
		{"query", []string{"query", "culprit_net_device_bytes_total", "time", "NaN"}, 400, "valid timestamp"},
		{"query", []string{"query", "count_over_time(culprit_net_device_bytes_total[100y])", "time", seconds(noon + 600e9)}, 422, "query would load too many samples"},
		{"query", []string{"query", "rate(culprit_net_device_bytes_total[100y])", "time", seconds(noon + 600e9)}, 200, "vector"},
		{"query", []string{"query", "max_over_time(vector(1)[100y:1ms])"}, 422, "query processing would load too many samples into memory in a subquery"},
		{"query", []string{"query", deep}, 400, "more than 5000 tokens"},
		{"query", []string{"query", strings.Repeat("-", 4000) + "1"}, 200, "scalar"},
		{"query", []string{"query", "sum(" + strings.Repeat("x+", 2000) + "x)"}, 200, "vector"},
		{"query", []string{"query", strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100)}, 200, "scalar"},
		{"query", []string{"query", `culprit_net_device_bytes_total{device=~"` + strings.Repeat("x|", 20000) + `eth0"}`, "time", seconds(noon + 600e9)}, 200, "eth0"},
		{"query_range", []string{"query", "max_over_time(max_over_time(vector(1)[1d:1ms])[1d:1s])", "start", "0", "end", "1", "step", "1"}, 422, "a subquery"},
		{"format_query", []string{"query", deep}, 400, "more than 5000 tokens"},
		{"query", []string{"query", strings.Repeat(" ", maxQuery) + "1"}, 400, "longer than 65536 bytes"},
		{"query", []string{"query", "\xff\x00{"}, 400, "parse error"},
		{"query", []string{"query", ""}, 400, "parse error: no expression found in input"},
		{"query", []string{"query", "1", "timeout", "0"}, 503, `"errorType":"timeout"`},
		{"query", []string{"query", "1", "timeout", "x"}, 400, `invalid parameter \"timeout\"`},
		{"query", []string{"query", "1", "limit", "-1"}, 400, "limit must be non-negative"},
		{"query", []string{"query", "1", "lookback_delta", "?"}, 400, "lookback delta"},
		{"query", []string{"query", "culprit_net_device_bytes_total", "time", seconds(noon + 600e9), "limit", "1"}, 200, `"warnings":["results truncated due to limit"]`},
		{"query", []string{"query", `count_values("\xff", vector(1))`}, 422, "invalid label name"},
		{"series", nil, 400, "no match[] parameter provided"},
		{"series", []string{"match[]", `{device=~".*"}`}, 400, "match[] must contain at least one non-empty matcher"},
		{"series", []string{"match[]", `{device=~"("}`}, 400, "error parsing regexp"},
		{"series", []string{"match[]", `sum(x)`}, 400, "parse error"},
		{"label/%ff/values", nil, 400, "invalid label name"},
		{"label//values", nil, 400, "invalid label name"},
		{"label/nosuch/values", nil, 200, `"data":[]`},
		{"label/x/y", nil, 404, "no such endpoint"},
		{"metadata", []string{"limit", "x"}, 400, "limit must be a number"},
		{"admin/tsdb/delete_series", nil, 404, "not_found"},
		{"write", nil, 404, "not_found"},
		{"", nil, 404, "not_found"},
	} {
		began := time.Now()
		code, body := get(t, a, c.path, c.form...)
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s %.100v: %d %.300s, want %d %s", c.path, c.form, code, body, c.code, c.want)
		}
		if time.Since(began) > 20*time.Second {
			t.Errorf("%s %.100v took %v", c.path, c.form, time.Since(began))
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPost} {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest(method, "/api/v1/metadata", nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/api/v1/query",
		strings.NewReader("query=1&x="+strings.Repeat("y", maxRequest)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if a.ServeHTTP(w, r); w.Code != 400 {
		t.Errorf("a large form: %d", w.Code)
	}
}

// FuzzAPI checks that the answer to any request is JSON of Prometheus's form and never a server
// error.
func FuzzAPI(f *testing.F) {
	paths := []string{"query", "query_range", "series", "labels", "format_query",
		"query_exemplars", "label/device/values"}
	for i, q := range expressions {
		f.Add(paths[i%len(paths)], q, "1772366700", "1772367000", "15", q)
	}
	f.Add("query_range", "up[", "-1e300", "NaN", "0", "{")
	m := device(f)
	a := m.api(noon.Add(600 * measure.Second))
	heapbound.Fuzz(f, func(t *testing.T, path, query, start, end, step, match string) {
		form := []string{"query", query, "start", start, "end", end, "time", end, "step", step,
			"match[]", match, "timeout", "1"}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = "/api/v1/" + path
		r.URL.RawQuery = encode(form)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		var out struct {
			Status, ErrorType, Error string
			Data                     json.RawMessage
		}
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			t.Fatalf("%v: %s", err, w.Body)
		}
		if ok := w.Code == 200; ok != (out.Status == "success") || ok != (out.Data != nil) ||
			!ok && (out.Error == "" || out.ErrorType == "") ||
			w.Code == 500 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
