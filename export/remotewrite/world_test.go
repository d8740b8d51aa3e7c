package remotewrite

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"culprit/measure"
)

// noon is in the middle of a day.
const noon = measure.Time(1772366400e9) // 2026-03-01T12:00:00Z

// midnight is in the middle of the world's forty minutes.
const midnight = measure.Time(1772409600e9) // 2026-03-02T00:00:00Z

// world is forty minutes around midnight with rows that appear and disappear, missing ticks and a
// gap.
func world(t testing.TB) *memory {
	m := &memory{}
	m.record(t, measure.Delta, measure.Bytes, false, "net.device.bytes by netns,device,direction")
	m.record(t, measure.Delta, measure.Nanoseconds, false, "cpu.time by cpu,mode")
	m.record(t, measure.Level, measure.Bytes, false, "memory.size by kind")
	m.record(t, measure.Level, measure.Count, false, "sched.load by window")
	m.record(t, measure.Level, measure.Count, false, "cgroup.pids by cgroup")
	r := rand.New(rand.NewPCG(1, 2))
	whole := func(below int) float64 { return float64(r.IntN(below)) }
	load := 1.0
	for s := -1200; s < 1200; s++ {
		at := midnight.Add(measure.Span(s+1) * measure.Second)
		if s == -870 || s >= -600 && s < -470 { // a missed tick, and two minutes without the server
			continue
		}
		bytes := map[string]float64{"|eth0|rx": whole(1e8), "|eth0|tx": whole(1e6), "|lo|rx": 0}
		if s > -900 && s < -700 || s > -695 && s < 300 {
			bytes["blue|veth1|rx"] = whole(500)
			bytes["blue|veth1|tx"] = whole(50)
		}
		if s%400 > 200 { // appears and disappears
			bytes["blue|tun0|rx"] = whole(5)
		}
		switch { // the first second of the day hides the reset of the counter
		case s == 0:
			bytes["|eth2|rx"] = 1e9
		default:
			bytes["|eth2|rx"] = whole(2)
		}
		m.put("net.device.bytes", at, bytes)
		cpu := map[string]float64{}
		for c := range 2 {
			usr := whole(5e8)
			cpu[fmt.Sprintf("%d|usr", c)], cpu[fmt.Sprintf("%d|sys", c)] = usr, whole(1e8)
			cpu[fmt.Sprintf("%d|idle", c)] = 1e9 - usr
		}
		m.put("cpu.time", at, cpu)
		m.put("memory.size", at, map[string]float64{
			"free": 1e9 + whole(1e9), "used": 3e9 - whole(1e9), "dirty": whole(1e5) * 4096,
		})
		load += (r.Float64() - 0.5) / 10
		m.put("sched.load", at, map[string]float64{"1m": load, "5m": load / 3, "15m": -load})
		pids := map[string]float64{"/a": whole(1e8)}
		if r.IntN(3) > 0 {
			pids["/b"] = whole(1e6)
		}
		if s%300 < 100 {
			pids["/c"] = 1e6 + whole(1e3)
		}
		m.put("cgroup.pids", at, pids)
	}
	return m
}
