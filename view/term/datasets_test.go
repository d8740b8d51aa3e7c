package term

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// records is a server in memory.
type records struct {
	kept []DatasetStatus
	done []string
}

func (r *records) note(format string, args ...any) error {
	r.done = append(r.done, fmt.Sprintf(format, args...))
	return nil
}
func (r *records) Close() error                                      { return nil }
func (r *records) Datasets(context.Context) ([]DatasetStatus, error) { return r.kept, nil }
func (r *records) Suspend(_ context.Context, id uint32) error        { return r.note("suspend %d", id) }
func (r *records) Resume(_ context.Context, id uint32) error         { return r.note("resume %d", id) }
func (r *records) Destroy(_ context.Context, id uint32) error        { return r.note("destroy %d", id) }
func (r *records) Discard(_ context.Context, id uint32, over measure.Interval) error {
	return r.note("discard %d %v", id, over.Span())
}

func (r *records) Enable(_ context.Context, sentence string, step measure.Span) (uint32, error) {
	q, err := measure.ParseQuery(sentence)
	if err != nil {
		return 0, err
	}
	q.Step = step
	r.kept = append(
		r.kept, DatasetStatus{Dataset: measure.Dataset{ID: 9, Query: q, State: measure.Recording}},
	)
	return 9, r.note("enable %s %v", q, step)
}

func (r *records) Changes(_ context.Context, over measure.Interval) ([]measure.Change, error) {
	return []measure.Change{
		{At: 1e18, Actor: "page", Action: "suspended", Dataset: 2, Query: "cpu.time by mode"},
		{
			At:     1e18,
			Actor:  "clock",
			Action: "set back",
			Over:   measure.Interval{Start: 9e17, End: 1e18},
		},
	}, r.note("changes %v", over.Start == 0)
}

func (r *records) call(t *testing.T, line string) (status int, out, errs string) {
	t.Helper()
	var files [2]string
	var p Program
	for i := range files {
		files[i] = filepath.Join(t.TempDir(), "out")
		f, err := os.Create(files[i])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if i == 0 {
			p.Terminal.Out = f
		} else {
			p.Terminal.Err = f
		}
	}
	p.Server = func(dir string) (Server, error) {
		if dir == "/none" {
			return nil, errors.New("no server runs in /none")
		}
		return r, nil
	}
	var args []string
	for _, a := range strings.Fields(line) {
		args = append(args, strings.ReplaceAll(a, "+", " "))
	}
	status = Run(t.Context(), p, args)
	var texts [2]string
	for i, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(b)
	}
	return status, texts[0], texts[1]
}

func twoDatasets() *records {
	q := func(s string) measure.Query {
		q, err := measure.ParseQuery(s)
		if err != nil {
			panic(err)
		}
		q.Step = measure.Second
		return q
	}
	st := measure.Stat{Kind: measure.Delta, Unit: measure.Nanoseconds}
	return &records{kept: []DatasetStatus{
		{
			Dataset: measure.Dataset{
				ID:      2,
				Query:   q("cpu.time by mode"),
				Stat:    st,
				Created: 1e18,
				State:   measure.Suspended,
				Creator: "default",
			},
			Usage: measure.Usage{CPU: measure.NaN},
		},
		{
			Dataset: measure.Dataset{
				ID:      3,
				Query:   q("process.cpu by pid"),
				Stat:    st,
				Created: 1e18,
				State:   measure.Recording,
				Creator: "page",
			},
			Held: measure.Stored{
				Over: measure.Interval{Start: 1e18, End: 2e18},
				Disk: 3 << 20,
				Rows: 812,
				Loss: []measure.Loss{{Reason: "a damaged part", Events: 5}},
			},
			Usage: measure.Usage{CPU: 0.0123, Samples: 812},
		},
	}}
}

func TestDatasetsAreListed(t *testing.T) {
	status, out, errs := twoDatasets().call(t, "datasets")
	for _, want := range []string{"   2 suspended         -      0       0.0      0      0      -     0 cpu.time by mode\n",
		"   3 recording 11574d01h    812     812.0      0   3.0M   1.23     5 process.cpu by pid\n", " all -                 -    812     812.0      0   3.0M   1.23     5 2 datasets\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("status %d, no %q in\n%s", status, want, out)
		}
	}
	if status != 0 || strings.Count(out, "\n") != 4 ||
		!strings.Contains(errs, "lost: 5: dataset 3: a damaged part") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	if _, out, _ = twoDatasets().call(t, "datasets -w"); !strings.Contains(
		out, " default "+formatTime(1e18),
	) {
		t.Errorf("-w: %s", out)
	}
	_, out, _ = twoDatasets().call(t, "datasets list proc --json")
	var got struct{ Rows []map[string]any }
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Rows) != 1 {
		t.Fatalf("%v in %s", err, out)
	}
	for name, want := range map[string]any{
		"id": 3.0, "sentence": "process.cpu by pid", "state": "recording",
		"since": measure.Time(1e18).String(), "cpu": 0.0123, "disk_bytes": float64(3 << 20),
		"unit": "ratio", "step_s": 1.0,
	} {
		if got.Rows[0][name] != want {
			t.Errorf("%s is %v, want %v", name, got.Rows[0][name], want)
		}
	}
	_, out, _ = twoDatasets().call(t, "datasets changes")
	if !strings.Contains(out, "page         suspended     2") ||
		!strings.Contains(out, "clock        set back      - "+formatTime(9e17)) {
		t.Errorf("changes:\n%s", out)
	}
}

func TestFormatSpan(t *testing.T) {
	for span, want := range map[measure.Span]string{
		0: "", 7 * measure.Second: "7s", 61 * measure.Second: "1m01s",
		3600 * measure.Second: "1h00m", 90061 * measure.Second: "1d01h",
	} {
		if got := formatSpan(span); got != want {
			t.Errorf("%v: %q, want %q", span, got, want)
		}
	}
}

func TestDatasetsAreChanged(t *testing.T) {
	for line, want := range map[string]string{
		"datasets suspend 3":                       "suspend 3",
		"datasets resume 2 3":                      "resume 2; resume 3",
		"datasets destroy 2":                       "destroy 2",
		"datasets discard 3 --from -1h --to -30m":  "discard 3 30m0s",
		"datasets add thread.cpu+by+pid --step 10": "enable thread.cpu by pid 10s",
		"datasets add thread.cpu+by+pid":           "enable thread.cpu by pid 1s",
		"datasets changes":                         "changes true",
		"datasets changes --from -1h":              "changes false",
	} {
		r := twoDatasets()
		if status, out, errs := r.call(t, line); status != 0 ||
			strings.Join(r.done, "; ") != want ||
			out == "" {
			t.Errorf("%s: status %d, did %q, want %q: %s%s", line, status, r.done, want, out, errs)
		}
	}
	for line, want := range map[string]string{
		"datasets suspnd 3":    "did you mean suspend?",
		"datasets suspend":     "takes the IDs",
		"datasets suspend cpu": "\"cpu\" is not the ID",
		"datasets destroy 3 4": "there is no dataset 4",
		"datasets discard 3":   "needs --from and --to",
		"datasets discard 3 --from -1h --to " + time.Now().Add(time.Hour).Format(time.RFC3339): "in the future",
		"datasets add":              "takes one query",
		"datasets add x+by":         "the query ends where",
		"datasets add x --step 0.5": "whole number of seconds",
		"datasets --json --csv":     "exclude each other",
		"datasets changes --to -5m": "--to needs --from",
	} {
		r := twoDatasets()
		if status, _, errs := r.call(t, line); status != exitUsage ||
			!strings.Contains(errs, want) ||
			len(r.done) > 0 {
			t.Errorf("%s: status %d, %q, want %q; did %q", line, status, errs, want, r.done)
		}
	}
	if status, _, errs := twoDatasets().call(t, "datasets --dir /none"); status != exitFailed ||
		!strings.Contains(errs, "no server runs in /none") {
		t.Errorf("status %d, %s", status, errs)
	}
}
