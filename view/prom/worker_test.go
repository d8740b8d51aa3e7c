package prom

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/measure"
	"culprit/wire"
	"culprit/worker"
)

// withWorkers returns an API like a whose queries run behind the protocol of workers, in this
// process.
func withWorkers(t testing.TB, a *API) *API {
	b := New(a.reader, a.datasets, a.version)
	b.now = a.now
	b.Workers = worker.NewPool(func(context.Context) (*worker.Process, error) {
		mine, its := net.Pipe()
		jobs := map[string]worker.Job{JobName: NewJob("test", true)}
		go worker.Serve(its, jobs, func() measure.Span { return 0 }) //nolint:errcheck // closed
		return &worker.Process{Conn: mine, Kill: func() {}}, nil
	})
	t.Cleanup(b.Workers.Close)
	return b
}

// sorted returns a reply with its lists in order: that of warnings and of count_values is random.
func sorted(t *testing.T, body string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	var sort func(any)
	sort = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, inner := range v {
				sort(inner)
			}
		case []any:
			slices.SortFunc(v, func(a, b any) int { return strings.Compare(text(a), text(b)) })
		}
	}
	sort(v)
	return text(v)
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// A worker answers each request as this process does.
func TestWorkerAnswersAlike(t *testing.T) {
	m := world(t)
	m.loss, m.notes = []measure.Loss{{Reason: "full", Events: 3}}, []string{"a note"}
	m.record(t, measure.Dists, measure.Nanoseconds, false, "disk.io.latency by device")
	for s := range measure.Time(300) {
		m.ticks["disk.io.latency"] = append(m.ticks["disk.io.latency"], tick{
			at: midnight + s*1e9, elapsed: measure.Second,
			dists: map[string]measure.Dist{
				"sda":    {Base: 2, First: 40, Counts: []uint64{1, 0, uint64(s)}, Sum: 1e6 * float64(s)},
				"b\xffd": {Base: 2, First: 1, Counts: []uint64{7}, Sum: 7},
			},
		})
	}
	here := m.api(midnight.Add(1200 * measure.Second))
	there := withWorkers(t, here)
	span := func(query, step string) []string {
		return []string{
			"query", query, "start", seconds(midnight - 900e9), "end", seconds(midnight + 900e9),
			"step", step,
		}
	}
	for _, tt := range []struct {
		path string
		form []string
	}{
		{"query_range", span(`rate(culprit_net_device_bytes_total{device=~"e.*"}[1m])`, "15")},
		{"query_range", span(`sum by (mode) (rate(culprit_cpu_time_seconds_total[5m]))`, "60")},
		{"query_range", span(`max_over_time(culprit_sched_load[2m]) - culprit_sched_load`, "7")},
		{"query_range", span(`topk(2, culprit_tcp_flow_rtt_seconds_by_peer)`, "15")},
		{"query_range", span(`culprit_process_cpu_seconds_by_pid_process_per_second`, "1")},
		{"query_range", span(`histogram_quantile(0.9, rate(culprit_disk_io_latency_seconds[1m]))`,
			"30")},
		{"query_range", span("wrong(", "15")},
		{"query_range", span("1", "0")},
		{"query", []string{"query", `{device!="lo"}`}},
		{"query", []string{"query", `culprit_net_device_bytes_total[10m]`}},
		{"query", []string{"query", `culprit_disk_io_latency_seconds`, "time",
			seconds(midnight + 200e9)}},
		{"query", []string{"query", `count_values("v", culprit_sched_load)`}},
		{"query", []string{"query", `"text"`}},
		{"query", []string{"query", `label_replace(x,"a","","b","(")`}},
		{"query", []string{"query", strings.Repeat("(", 200)}},
		{"query", []string{"query", "count_over_time(culprit_sched_load[100y])"}},
		{"format_query", []string{"query", "a+(b  *c)"}},
		{"query_exemplars", []string{"query", "a"}},
		{"series", []string{"match[]", "culprit_sched_load", "match[]", `{mode="user"}`}},
		{"series", nil},
		{"labels", nil},
		{"labels", []string{"match[]", "culprit_sched_load"}},
		{"label/device/values", nil},
		{"label/__name__/values", []string{"match[]", `{mode="user"}`, "limit", "1"}},
		{"label/x/y", nil},
		{"metadata", nil},
		{"rules", nil},
	} {
		t.Run(tt.path+" "+strings.Join(tt.form[:min(2, len(tt.form))], " "), func(t *testing.T) {
			status, body := get(t, here, tt.path, tt.form...)
			gotStatus, got := get(t, there, tt.path, tt.form...)
			if gotStatus != status || sorted(t, got) != sorted(t, body) {
				t.Errorf("a worker says %d %.600s, want %d %.600s", gotStatus, got, status, body)
			}
		})
	}
}

// A dataset that is made while a worker runs is known to its next request.
func TestWorkerSeesNewDatasets(t *testing.T) {
	m := device(t)
	a := withWorkers(t, m.api(noon.Add(600*measure.Second)))
	if got := data(t, a, "label/__name__/values"); strings.Contains(got, "sched_load") {
		t.Fatal(got)
	}
	m.record(t, measure.Level, measure.Count, false, "sched.load by window")
	m.put("sched.load", noon+600e9, map[string]float64{"1m": 2.5})
	if got := data(t, a, "query", "query", "culprit_sched_load"); !strings.Contains(got, `"2.5"`) {
		t.Error(got)
	}
}

// Two APIs that share a worker have each their own datasets.
func TestWorkerOfTwoAPIs(t *testing.T) {
	m := device(t)
	a := withWorkers(t, m.api(noon.Add(600*measure.Second)))
	fewer := New(m, func() []measure.Dataset {
		sets := slices.Clone(m.sets)
		sets[0].Query.By = []string{"direction"}
		return sets
	}, "test")
	fewer.now, fewer.Workers = a.now, a.Workers
	const sum = "count(culprit_net_device_bytes_total) by (device)"
	for range 2 {
		if got := data(t, a, "query", "query", sum); !strings.Contains(got, "eth0") {
			t.Errorf("with all fields: %s", got)
		}
		if got := data(t, fewer, "query", "query", sum); strings.Contains(got, "eth0") {
			t.Errorf("with fewer fields: %s", got)
		}
	}
}

// failing is a reader whose answers are an error.
type failing struct{ err error }

func (f failing) Ask(context.Context, measure.Query) (*measure.Answer, error) { return nil, f.err }

// An error of the archive is the same behind a worker.
func TestWorkerPassesErrors(t *testing.T) {
	for _, err := range []error{
		errors.New("the disk is broken"), context.DeadlineExceeded, measure.ErrTooLarge,
	} {
		m := device(t)
		here := New(failing{err}, m.datasets, "test")
		status, body := get(t, here, "query", "query", "culprit_net_device_bytes_total")
		got, gotBody := get(t, withWorkers(t, here), "query", "query",
			"culprit_net_device_bytes_total")
		if got != status || gotBody != body {
			t.Errorf("%v: %d %s, want %d %s", err, got, gotBody, status, body)
		}
	}
}

// asks returns a job that asks for rows and replies with the error.
func asks(q wanted) worker.Job {
	return func(_ context.Context, _ []byte, ask worker.Ask, w io.Writer) error {
		_, err := ask(q.append([]byte{askRows}))
		if err == nil {
			err = errors.New("it is allowed")
		}
		_, err = w.Write([]byte("\xf4\x01" + `"` + err.Error() + `"`))
		return err
	}
}

// What a worker replies that is none, or its end, is an error that says what to do.
func TestBrokenWorkers(t *testing.T) {
	part := strings.Repeat("x", 64<<10)
	for _, tt := range []struct {
		name string
		job  worker.Job
		want string // "": the connection is closed
	}{
		{"no reply", func(context.Context, []byte, worker.Ask, io.Writer) error { return nil },
			"ask for a shorter time"},
		{"no status", func(_ context.Context, _ []byte, _ worker.Ask, w io.Writer) error {
			_, err := w.Write([]byte("\xff\xff{}"))
			return err
		}, "ask for a shorter time"},
		{"a panic", func(context.Context, []byte, worker.Ask, io.Writer) error { panic("x") },
			"a fault of culprit itself"},
		{"a panic in the middle of 2 MB",
			func(_ context.Context, _ []byte, _ worker.Ask, w io.Writer) error {
				_, err := w.Write([]byte("\xc8\x00" + strings.Repeat(part, 32)))
				if err != nil {
					return err
				}
				panic("x")
			}, ""},
		{"an unknown question", func(_ context.Context, _ []byte, ask worker.Ask, w io.Writer) error {
			_, err := ask([]byte("?"))
			_, err = w.Write([]byte("\xf4\x01" + `"` + err.Error() + `"`))
			return err
		}, "question 63"},
		{"too many cells", asks(wanted{
			metric: "culprit_net_device_bytes_total", over: measure.Interval{End: 1e18}, cell: 1,
		}), errTooMuch.Error()},
		{"cells of no length", asks(wanted{over: measure.Interval{End: 1e18}}), "cells of 0"},
		{"an unknown metric", asks(wanted{metric: "x", cell: 1}), "no metric"},
		{"a field that the metric does not have", asks(wanted{
			metric: "culprit_net_device_bytes_total", cell: measure.Second,
			over:  measure.Interval{End: 1e9},
			terms: []measure.Term{{Field: "user", Op: measure.Equal, Values: []string{"x"}}},
		}), "has no field"},
		{"an unknown comparison", asks(wanted{
			metric: "culprit_net_device_bytes_total", cell: measure.Second,
			over:  measure.Interval{End: 1e9},
			terms: []measure.Term{{Field: "x", Op: measure.Op(99), Values: []string{"y"}}},
		}), "comparison 99"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := device(t).api(noon)
			a.Workers = worker.NewPool(func(context.Context) (*worker.Process, error) {
				mine, its := net.Pipe()
				jobs := map[string]worker.Job{JobName: tt.job}
				go worker.Serve(its, jobs, //nolint:errcheck // closed
					func() measure.Span { return 0 })
				return &worker.Process{Conn: mine, Kill: func() {}}, nil
			})
			defer a.Workers.Close()
			w := httptest.NewRecorder()
			var panicked any
			func() {
				defer func() { panicked = recover() }()
				a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/query?query=1", nil))
			}()
			said := w.Body.String()
			if bug, ok := panicked.(error); ok && !errors.Is(bug, http.ErrAbortHandler) {
				said = bug.Error()
			}
			failed := w.Code != 200 || panicked != nil
			if tt.want == "" && panicked != http.ErrAbortHandler ||
				tt.want != "" && (!strings.Contains(said, tt.want) || !failed) {
				t.Errorf("%d %.300s, panic %v; want %q", w.Code, said, panicked, tt.want)
			}
		})
	}
}

// A question and a table are the same after they were written and read, and a cut one is an error.
func TestCodec(t *testing.T) {
	q := wanted{
		metric: "m", over: measure.Interval{Start: -5, End: 1e18}, cell: 7, choose: least, left: 9,
		terms: []measure.Term{{Field: "x", Op: measure.In, Values: []string{"1\xff", ""}}}, now: 11,
	}
	d := wire.Decoder{Rest: q.append(nil)}
	if got := readWanted(&d); d.End() != nil || !reflect.DeepEqual(got, q) {
		t.Errorf("the question is %+v, %v", got, d.End())
	}
	m := &metric{name: "m", by: []string{"x", "y"}}
	inf, zero := math.Inf(-1), math.Copysign(0, -1)
	want := &table{
		stretches: []stretch{{3, 7, []measure.Span{7, 0, 5}}, {24, 2, []measure.Span{1}}},
		loss:      []measure.Loss{{Reason: "r", Events: 1 << 60}}, notes: []string{"n", ""},
		index: map[string]int{},
		rows: []*row{
			{
				key: []string{"p", "q\xff"}, before: 0.1,
				values: [][]float64{{1, inf, zero}, nil}, dists: make([][]measure.Dist, 2),
			},
			{
				key: []string{"q\xff", ""}, past: []measure.Dist{{Base: 1, Counts: []uint64{3}}},
				values: [][]float64{nil, {2}},
				dists: [][]measure.Dist{
					{{}, {Base: 6, First: 3, Counts: []uint64{1 << 63, 0}, Sum: -0.5}, {}}, nil,
				},
			},
		},
	}
	b, err := appendTable(nil, want, 2, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	d = wire.Decoder{Rest: b}
	if got := readTable(&d, m); d.End() != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the table is\n%+v\nwant\n%+v, %v", got, want, d.End())
	}
	if _, err := appendTable(nil, want, 2, len(b)/2); !errors.Is(err, errTooMuch) {
		t.Errorf("above the limit: %v", err)
	}
	for n := range b {
		d := wire.Decoder{Rest: bytes.Clone(b[:n])}
		readTable(&d, m)
		if d.End() == nil {
			t.Errorf("%d bytes of %d are read", n, len(b))
		}
	}
	d = wire.Decoder{Rest: b}
	readTable(&d, &metric{by: []string{"x"}})
	if d.End() == nil {
		t.Error("a table of other fields is read")
	}
}

// FuzzFrames: whatever a worker asks or gets, it is read or refused in little memory.
func FuzzFrames(f *testing.F) {
	q := wanted{
		metric: "culprit_net_device_bytes_total", cell: measure.Second, left: 1000,
		over: measure.Interval{Start: noon, End: noon + 9e9}, now: noon + 600e9,
		terms: []measure.Term{{Field: "device", Op: measure.Equal, Values: []string{"x"}}},
	}
	f.Add(q.append(nil))
	m := metrics(device(f).datasets())[0]
	a := asker{reader: device(f), now: noon + 600e9, left: 1000}
	t, err := a.fetch(f.Context(), m, nil, q.over, q.cell, means)
	if err != nil {
		f.Fatal(err)
	}
	b, err := appendTable(nil, t, len(m.by), 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		d := wire.Decoder{Rest: b}
		readWanted(&d)
		d = wire.Decoder{Rest: b}
		readTable(&d, m)
	})
}
