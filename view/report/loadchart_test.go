package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"culprit/load"
	"culprit/measure"
)

// chartResult returns a result of one run of three intervals with a rate in bit/s each; NaN: the
// server did not report it.
func chartResult(rates ...float64) *load.Result {
	run := &load.Run{N: 1, Here: &load.End{}}
	for n, rate := range rates {
		part := func(bytes float64) *load.Part {
			return &load.Part{
				From: measure.Span(n) * measure.Second, To: measure.Span(n+1) * measure.Second,
				Traffic: []load.Traffic{{Way: load.Up, Bytes: uint64(bytes)}},
			}
		}
		i := &load.Interval{Run: 1, N: n + 1, Here: part(1e6), There: part(rate / 8)}
		if math.IsNaN(rate) {
			i.There = nil
		}
		run.Intervals = append(run.Intervals, i)
	}
	return &load.Result{
		Test: load.Test{Kind: load.Stream, Way: load.Up}, Runs: []*load.Run{run},
	}
}

// TestLoadChart draws two results: the second has half the throughput of the first, so that its
// line is at half the height. An interval that the server did not report is what this end sent.
func TestLoadChart(t *testing.T) {
	svg := LoadChart([2]string{"a<b>.json", "b.json"},
		chartResult(8e6, 8e6, 8e6), chartResult(4e6, math.NaN(), 4e6))
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	// The plot is from x 90 to 740, which is 4 s, and from y 226 to 46, which is 8 Mbit/s.
	for _, want := range []string{
		`d="M252.5 46.0L415.0 46.0L577.5 46.0" fill="none" stroke="#0072b2"`,
		`d="M252.5 136.0L415.0 46.0L577.5 136.0" fill="none" stroke="#d55e00"`,
		"<title>a&lt;b&gt;.json and b.json</title>", "throughput up", ">8 Mbit/s<", ">4 s<",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s is not in\n%s", want, svg)
		}
	}
	if strings.Contains(svg, "down") || strings.Contains(svg, "NaN") {
		t.Errorf("a direction without traffic, or no number:\n%s", svg)
	}
	page := LoadChartPage([2]string{"a<b>", "b"}, svg)
	if !strings.HasPrefix(page, "<!doctype html>") || strings.Contains(page, "<b>") {
		t.Errorf("%s", page)
	}
}

// TestLoadChartOfLatency draws percentiles on a log axis from 1 us to 1 ms.
func TestLoadChartOfLatency(t *testing.T) {
	of := func(factor load.Number) *load.Result {
		r := chartResult(0)
		r.Test.Kind = load.Exchange
		r.Ways = []load.Summary{{Way: load.Up, Times: &load.Percentile{
			Least: 1e3 * factor, P50: 2e3 * factor, P90: 3e3 * factor, P99: 5e3 * factor,
			P999: 10e3 * factor, Most: 100e3 * factor,
		}}}
		return r
	}
	svg := LoadChart([2]string{"a", "b"}, of(1), of(10))
	for _, want := range []string{
		">p99.9</text>", ">1.00us</text>", "M90.0 450.0", // 1 us is at the bottom
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s is not in\n%s", want, svg)
		}
	}
}
