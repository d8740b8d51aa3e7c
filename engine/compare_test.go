package engine

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"culprit/export"
	"culprit/measure"
)

// exportedStats returns the statistics of the table of exports, all with the fold sum.
func exportedStats() (all []measure.Stat) {
	for _, e := range export.Table() {
		all = append(all, measure.Stat{ID: e.Stat, Kind: e.Kind, Unit: e.Unit, Signed: e.Signed})
	}
	return all
}

// checkComparison compares the slow client of TestSlowClientOfTen, and another host, with the
// others.
func checkComparison(t *testing.T, c *Client, end measure.Time) {
	stats := exportedStats()
	t.Run("the slow client", func(t *testing.T) {
		r, err := c.Compare(t.Context(), stats, "", end, measure.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if r.Host != "client4" || !r.Furthest || r.Others != 8 || r.Compared != 8 {
			t.Errorf("%q, furthest %v, %d of %d others", r.Host, r.Furthest, r.Compared, r.Others)
		}
		got := map[string]float64{}
		for _, d := range r.Differences {
			got[d.Query] = d.Value / d.Median
			if d.Score == nil || (*d.Score > 0) != (d.Value > d.Median) || d.Others != 8 {
				t.Errorf("%+v", d)
			}
			if !(d.Low <= d.Median && d.Median <= d.High) {
				t.Errorf("%s: %g to %g, median %g", d.Query, d.Low, d.High, d.Median)
			}
			if !strings.Contains(d.Query, `direction = "tx"`) && !strings.Contains(d.Query, "Retrans") {
				t.Errorf("%s differs", d.Query)
			}
		}
		const tx = "net.device.bytes where direction = \"tx\" and device != \"lo\""
		if v := got[tx]; math.Abs(v-0.1) > 0.01 {
			t.Errorf("%s: %g of the median, want 0.1; all: %v", tx, v, got)
		}
		const again = "net.protocol.events where protocol = \"Tcp\" and counter = \"RetransSegs\""
		if v := got[again]; !(v > 900) {
			t.Errorf("%s: %g of the median, want 1000; all: %v", again, v, got)
		}
		if len(r.Only) != 0 || len(r.Lacks) != 2 {
			t.Errorf("findings: %+v, %+v", r.Only, r.Lacks)
		}
	})
	t.Run("a named host", func(t *testing.T) {
		r, err := c.Compare(t.Context(), stats, "client2", end, measure.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if r.Host != "client2" || r.Furthest || len(r.Differences) != 0 || len(r.Only) != 2 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a silent host", func(t *testing.T) {
		_, err := c.Compare(t.Context(), stats, "client9", end, measure.Minute)
		if err == nil || !strings.Contains(err.Error(), "client9 is silent") {
			t.Error(err)
		}
	})
	t.Run("no such host", func(t *testing.T) {
		_, err := c.Compare(t.Context(), stats, "client44", end, measure.Minute)
		if !errors.Is(err, ErrNoHost) || !strings.Contains(err.Error(), "did you mean client4?") {
			t.Error(err)
		}
	})
	t.Run("too long", func(t *testing.T) {
		_, err := c.Compare(t.Context(), stats, "", end, maxCompareSpan+1)
		if !errors.Is(err, measure.ErrTooLarge) {
			t.Error(err)
		}
	})
}

func TestCompared(t *testing.T) {
	for _, tt := range []struct {
		name string
		stat measure.Stat
		unit measure.Unit
		want string // "": not compared
	}{
		{
			"bytes of devices",
			measure.Stat{ID: "net.device.bytes", Kind: measure.Delta, Unit: measure.Bytes},
			"B/s",
			`sum by (host,direction) (rate(culprit_net_device_bytes_total{host=~"a|b\\.c",device!="lo"}[120s]))`,
		},
		{
			"time of disks",
			measure.Stat{
				ID: "disk.busy", Kind: measure.Delta, Unit: measure.Nanoseconds, Fold: measure.Max,
			},
			"ratio",
			`max by (host) (rate(culprit_disk_busy_seconds_total{host=~"a|b\\.c"}[120s]))`,
		},
		{
			"a level",
			measure.Stat{
				ID: "cpu.frequency", Kind: measure.Level, Unit: measure.Hertz, Fold: measure.Mean,
			},
			"Hz",
			`avg by (host) (avg_over_time(culprit_cpu_frequency_hertz{host=~"a|b\\.c"}[120s]))`,
		},
		{"a description", measure.Stat{ID: "net.device.info", Kind: measure.Level}, "", ""},
		{
			"not sent",
			measure.Stat{ID: "process.cpu", Kind: measure.Delta, Unit: measure.Nanoseconds}, "", "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := comparedOf(&tt.stat)
			if s == nil {
				if tt.want != "" {
					t.Error("it is not compared")
				}
				return
			}
			got := s.expression("host", []string{"a", "b.c"}, 2*measure.Minute)
			if got != tt.want || s.unit != tt.unit {
				t.Errorf("%s in %s\nwant %s in %s", got, s.unit, tt.want, tt.unit)
			}
		})
	}
}

// The fields that are folded are those whose values are names on one host: a field of the table
// that is new must be decided upon here.
func TestFieldsThatAreTheSameOnAllHosts(t *testing.T) {
	same := []string{
		"access", "action", "by", "cache", "counter", "direction", "error", "event", "file", "kind",
		"level", "members", "mode", "operation", "part", "protocol", "reason", "resource", "scope",
		"state", "vector", "window",
	}
	for _, st := range exportedStats() {
		s := comparedOf(&st)
		if s == nil {
			continue
		}
		for _, f := range s.by {
			if !slices.Contains(same, f) {
				t.Errorf("%s: is the value of field %s the same on all hosts?", st.ID, f)
			}
		}
	}
}
