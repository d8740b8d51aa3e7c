package engine

import (
	"errors"
	"strings"
	"testing"

	"culprit/export"
	"culprit/measure"
)

// statOf returns the statistic of a line of the export table.
func statOf(t testing.TB, id measure.StatID) *measure.Stat {
	t.Helper()
	e, ok := export.OfID(id)
	if !ok {
		t.Fatalf("%s is not in the table", id)
	}
	return &measure.Stat{ID: id, Kind: e.Kind, Unit: e.Unit, Signed: e.Signed}
}

func TestSelector(t *testing.T) {
	for _, tt := range []struct{ query, want string }{
		{"cpu.time by cpu,mode", `culprit_cpu_time_seconds_total{instance="h"}`},
		{`cpu.time by cpu where mode = "usr"`, `culprit_cpu_time_seconds_total{instance="h",mode=~"usr|user"}`},
		{`cpu.time where mode = "idle"`, `culprit_cpu_time_seconds_total{instance="h",mode="idle"}`},
		{`cpu.time where mode != "idle"`, `culprit_cpu_time_seconds_total{instance="h",mode!="idle"}`},
		{`cpu.time where mode != "usr"`, `culprit_cpu_time_seconds_total{instance="h"}`},
		{`cpu.time where mode in (idle, "a.b|c")`, `culprit_cpu_time_seconds_total{instance="h",mode=~"idle|a\\.b\\|c"}`},
		{`cpu.time where cpu < 4`, `culprit_cpu_time_seconds_total{instance="h"}`},
		{`disk.bytes where device = "a\"\\b"`, `culprit_disk_bytes_total{instance="h",device="a\"\\b"}`},
	} {
		t.Run(tt.query, func(t *testing.T) {
			q, err := measure.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			m, err := metricOf(statOf(t, q.Stat), q)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.selector(`instance="h"`); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestNotSent(t *testing.T) {
	for _, tt := range []struct{ query, want string }{
		{"process.cpu by pid,process", "a series per process"},
		{"cpu.time by core", "by core"},
		{`cpu.time where core = "1"`, "by core"},
		{"disk.latency by queue", "by queue"},
	} {
		t.Run(tt.query, func(t *testing.T) {
			q, err := measure.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			_, err = metricOf(statOf(t, q.Stat), q)
			if !errors.Is(err, measure.ErrUnsupported) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestPartlySent(t *testing.T) {
	for _, tt := range []struct {
		query, note string
	}{
		{"net.device.info by netns,device,kind,duplex", "by duplex"},
		{"limit.used by resource", "only limit.used where"},
		{`limit.used by resource where owner = ""`, ""},
		{"cpu.time by cpu", ""},
	} {
		t.Run(tt.query, func(t *testing.T) {
			q, err := measure.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			m, err := metricOf(statOf(t, q.Stat), q)
			if err != nil {
				t.Fatal(err)
			}
			notes := strings.Join(m.notes, "\n")
			if !strings.Contains(notes, tt.note) || tt.note == "" && notes != "" {
				t.Errorf("notes %q, want %q", notes, tt.note)
			}
		})
	}
}
