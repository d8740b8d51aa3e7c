package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/prompb"
)

// writeSeries adds one series of a host to a request: 20 samples, each 15 s up to now. A counter
// grows by value per second.
func writeSeries(w *prompb.WriteRequest, host, name string, value float64, labels ...string) {
	s := prompb.TimeSeries{Labels: []prompb.Label{{Name: "__name__", Value: name}}}
	for i := 0; i < len(labels); i += 2 {
		s.Labels = append(s.Labels, prompb.Label{Name: labels[i], Value: labels[i+1]})
	}
	s.Labels = append(s.Labels, prompb.Label{Name: "instance", Value: host})
	const samples = 20
	for i := range samples {
		v := value
		if strings.HasSuffix(name, "_total") {
			v *= float64(15 * i)
		}
		at := time.Now().UnixMilli() - int64(samples-1-i)*15_000
		s.Samples = append(s.Samples, prompb.Sample{Timestamp: at, Value: v})
	}
	w.Timeseries = append(w.Timeseries, s)
}

// writeClients writes the metrics of ten hosts to an engine. client4 transmits a tenth of what each
// of the others does, on a link with a tenth of the speed.
func writeClients(t *testing.T, address string) {
	t.Helper()
	w := &prompb.WriteRequest{}
	for i := range 10 {
		host, link := fmt.Sprintf("client%d", i), 125e6
		if i == 4 {
			link /= 10
		}
		sends := link * 0.9 * (1 + math.Sin(float64(i)*1.7)/20)
		writeSeries(w, host, "culprit_sched_load", 0.5, "window", "1m")
		writeSeries(w, host, "culprit_cpu_time_seconds_total", 0.7, "cpu", "0", "mode", "idle")
		writeSeries(w, host, "culprit_cpu_time_seconds_total", 0.3, "cpu", "0", "mode", "user")
		for _, dir := range []string{"rx", "tx"} {
			writeSeries(w, host, "culprit_net_device_capacity_bytes_per_second", link,
				"device", "eth0", "direction", dir)
		}
		writeSeries(w, host, "culprit_net_device_bytes_total", sends,
			"device", "eth0", "direction", "tx")
		writeSeries(w, host, "culprit_net_device_bytes_total", 5e6+1e5*float64(i),
			"device", "eth0", "direction", "rx")
	}
	writeSeries(w, "client4", "culprit_finding", 0.9, "rule", "link-slow", "kind", "network",
		"culprit", "eth0", "severity", "high")
	for _, s := range w.Timeseries {
		slices.SortFunc(s.Labels, func(a, b prompb.Label) int {
			return strings.Compare(a.Name, b.Name)
		})
	}
	body, err := w.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(address+"/api/v1/write", "application/x-protobuf",
		bytes.NewReader(s2.EncodeSnappy(nil, body)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode/100 != 2 {
		t.Fatalf("remote write: %s %s", res.Status, text)
	}
}

// TestDiagnoseHosts compares the one slow host of ten with the others, in a real Prometheus.
func TestDiagnoseHosts(t *testing.T) {
	address := startPrometheus(t)
	t.Run("an empty engine", func(t *testing.T) {
		status, out, errs := call(t, "diagnose", "--hosts", "--engine", address, "--host", "a")
		if status != 1 || !strings.Contains(string(errs), "has no samples of culprit") {
			t.Errorf("status %d: %s%s", status, out, errs)
		}
	})
	writeClients(t, address)
	t.Run("text", func(t *testing.T) {
		status, out, errs := call(t, "diagnose", "--hosts", "--engine", address, "--exit-code")
		text := regexp.MustCompile(`\s+`).ReplaceAllString(string(out), " ")
		if status != 3 {
			t.Errorf("status %d: %s", status, errs)
		}
		for _, want := range []string{
			"culprit compared client4, the host that differs most, with the 9 others over 2m0s",
			"Differs in 3 statistics",
			"MB/s, 90 % less than the median of the 9 others, ",
			`net.device.bytes where direction = "tx" and device != "lo"`,
			`net.device.capacity where direction = "rx" and device != "lo"`,
			"Findings of client4 alone - HIGH link-slow: eth0",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s\nwant %s", out, want)
			}
		}
		if strings.Contains(text, "cpu.time") {
			t.Errorf("CPU time differs:\n%s", out)
		}
	})
	t.Run("JSON", func(t *testing.T) {
		for _, host := range []string{"client4", "client3"} {
			status, out, errs := call(t, "diagnose", "--hosts", "--json", "--engine", address,
				"--host", host, "--from", "-3m")
			if status != 0 || checkSchema(t, "comparison", host, out) != 1 {
				t.Errorf("status %d: %s%s", status, out, errs)
			}
			if differs := !strings.Contains(string(out), `"differences":[]`); differs != (host == "client4") {
				t.Errorf("%s: %s", host, out)
			}
		}
	})
	for _, tt := range []struct{ line, want string }{
		{"--hosts", "give --engine"},
		{"--hosts --dir x", "--hosts needs --engine"},
		{"--hosts --for 5s --engine " + address, "excludes"},
		{"--hosts --from x --engine " + address, `--from "x"`},
	} {
		t.Run(tt.line, func(t *testing.T) {
			status, _, errs := call(t, append([]string{"diagnose"}, strings.Fields(tt.line)...)...)
			if status != 2 || !strings.Contains(string(errs), tt.want) {
				t.Errorf("status %d: %s", status, errs)
			}
		})
	}
}
