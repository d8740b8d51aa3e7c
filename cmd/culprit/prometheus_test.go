package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"culprit/measure"
	"culprit/store"
	"culprit/view/prom"
)

// TestPromQLOnAnArchive sends PromQL queries to an archive of three hours. The older data is kept
// by the minute only.
func TestPromQLOnAnArchive(t *testing.T) {
	dir := t.TempDir()
	a, err := store.Open(dir, store.Options{KeepTicks: 60 * measure.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	save := func(sentence string, kind measure.Kind, unit measure.Unit) uint32 {
		q, err := measure.ParseQuery(sentence)
		if err != nil {
			t.Fatal(err)
		}
		q.Step = measure.Second
		st := measure.Stat{ID: q.Stat, Kind: kind, Unit: unit}
		for _, f := range q.By {
			st.Fields = append(st.Fields, measure.Field{Name: f, Type: measure.Word})
		}
		id, err := a.Save(
			measure.Dataset{Query: q, Stat: st, State: measure.Recording, Created: measure.Time(1)},
		)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	bytes := save("net.device.bytes by device", measure.Delta, measure.Bytes)
	load := save("sched.load by window", measure.Level, measure.Count)
	end := measure.Time(time.Now().Truncate(time.Hour).UnixNano())
	start := end.Add(-180 * measure.Minute)
	for s := 1; s <= 3*3600; s++ {
		at := start.Add(measure.Span(s) * measure.Second)
		over := measure.Interval{Start: at.Add(-measure.Second), End: at}
		device := &measure.Batch{
			Stat:   "net.device.bytes",
			By:     []string{"device"},
			Over:   over,
			Labels: []string{"eth0", "lo"},
			Keys:   []measure.Label{0, 1},
			Values: []float64{1000, 7},
		}
		window := &measure.Batch{
			Stat:   "sched.load",
			By:     []string{"window"},
			Over:   over,
			Labels: []string{"1m"},
			Keys:   []measure.Label{0},
			Values: []float64{float64(s % 60)},
		}
		err := a.Append(at, []uint32{bytes, load}, []*measure.Batch{device, window})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // first in the process that appended, then read from disk
		q := measure.Query{
			Stat: "sched.load",
			By:   []string{"window"},
			Over: measure.Interval{Start: start, End: start.Add(10 * measure.Minute)},
			Step: measure.Second,
		}
		// The compactor deletes old ticks in the background.
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			old, err := a.Ask(t.Context(), q)
			if err == nil && old.Step == measure.Minute {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf(
					"the oldest data is not yet kept by the minute only: %v", err,
				)
			}
		}
		api := prom.New(a, a.Datasets, "test")
		for _, c := range []struct {
			query string
			from  measure.Span // since the start
			want  float64
			off   float64
		}{
			{`rate(culprit_net_device_bytes_by_device_total{device="eth0"}[5m])`, 175 * measure.Minute, 1000, 1e-9},
			{`sum(rate(culprit_net_device_bytes_by_device_total[5m]))`, 10 * measure.Minute, 1007, 1e-9},
			{`increase(culprit_net_device_bytes_by_device_total{device="lo"}[10m])`, 100 * measure.Minute, 4200, 1e-9},
			{`culprit_net_device_bytes_by_device_per_second{device=~"l."}`, 60 * measure.Minute, 7, 1e-9},
			{`avg_over_time(culprit_sched_load[10m])`, 20 * measure.Minute, 29.5, 0.01},
			{`max_over_time(culprit_sched_load[10m])`, 170 * measure.Minute, 59, 0},
			{`count_over_time(culprit_sched_load[1m])`, 170 * measure.Minute, 60, 0},
		} {
			form := url.Values{
				"query": {c.query},
				"start": {promTime(start.Add(c.from))},
				"end":   {promTime(end)},
				"step":  {"60"},
			}
			w := httptest.NewRecorder()
			api.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/query_range?"+form.Encode(), nil))
			var out struct {
				Data struct {
					Result []struct{ Values [][2]any }
				}
			}
			if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil ||
				len(out.Data.Result) != 1 {
				t.Errorf("%s: %v %.500s", c.query, err, w.Body)
				continue
			}
			values := out.Data.Result[0].Values
			if want := int(180*measure.Minute-c.from)/int(measure.Minute) + 1; len(values) != want {
				t.Errorf("%s: %d values, want %d", c.query, len(values), want)
			}
			for _, v := range values {
				if f, err := strconv.ParseFloat(fmt.Sprint(v[1]), 64); err != nil ||
					math.Abs(f-c.want) > c.off*c.want {
					t.Errorf("%s at %v: %v, want %v", c.query, v[0], v[1], c.want)
					break
				}
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if a, err = store.Open(dir, store.Options{KeepTicks: 60 * measure.Minute}); err != nil {
			t.Fatal(err)
		}
	}
}

// promTime formats a time as seconds since 1970.
func promTime(t measure.Time) string { return strconv.FormatFloat(float64(t)/1e9, 'f', 3, 64) }
