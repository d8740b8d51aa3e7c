package engine

import (
	"math"
	"slices"
	"testing"

	"culprit/measure"
)

// TestStartedHost: samples of a host that started 45 s ago cover a part of the window of rates. Its
// CPU utilization is that of the others all the same.
func TestStartedHost(t *testing.T) {
	address := startPrometheus(t)
	end := floor(now(), 15*second)
	const cpu = "culprit_cpu_time_seconds_total"
	all := slices.DeleteFunc(simulatedHost(t), func(s simulated) bool {
		return s.Labels["__name__"] == cpu
	})
	for mode, seconds := range map[string]float64{"idle": 10.5, "iowait": 0.3, "user": 4.2} {
		labels := map[string]string{"__name__": cpu, "cpu": "0", "mode": mode}
		all = append(all, simulated{labels, []float64{0, seconds, 2 * seconds}})
	}
	same := func(map[string]string) float64 { return 1 }
	for name, samples := range map[string]int{"started": 4, "old": 40} {
		send(t, address, all, map[string]string{"instance": name}, end, samples, same)
	}
	// Counters that never moved are not sent: a host that was never idle has no idle time.
	busy := slices.DeleteFunc(slices.Clone(all), func(s simulated) bool {
		return s.Labels["mode"] == "idle" || s.Labels["mode"] == "iowait"
	})
	send(t, address, busy, map[string]string{"instance": "busy"}, end, 40, same)
	c, err := New(Options{URL: address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o, err := c.Overview(t.Context(), end, 2*measure.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Hosts) != 3 {
		t.Fatalf("%d hosts", len(o.Hosts))
	}
	if v := o.Hosts[0].Values[0]; v != 1 {
		t.Errorf("CPU utilization of a host without idle time: %g, want 1", v)
	}
	old, started := o.Hosts[1].Values[0], o.Hosts[2].Values[0]
	const want = 4.2 / 15
	if math.Abs(old-want) > 0.001 || math.Abs(started-want) > 0.001 {
		t.Errorf("CPU utilization %g, and %g of a host that just started: want %g", old, started, want)
	}
}
