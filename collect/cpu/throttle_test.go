package cpu

import (
	"testing"

	"culprit/collect/collecttest"
	"culprit/measure"
)

// throttled are four CPUs: two threads of core 0 and one each of the cores 1 and 2, in two
// packages.
func throttled() map[string]string {
	files := map[string]string{"sys/devices/system/cpu/present": "0-3\n"}
	for cpu, at := range []struct{ core, socket, set string }{
		{"0", "0", "2100000"}, {"0", "0", "2100000"}, {"1", "0", "3000000"}, {"0", "1", ""},
	} {
		dir := "sys/devices/system/cpu/cpu" + string(rune('0'+cpu))
		files[dir+"/topology/physical_package_id"] = at.socket + "\n"
		files[dir+"/topology/core_id"] = at.core + "\n"
		files[dir+"/thermal_throttle/core_throttle_count"] = "10\n"
		files[dir+"/thermal_throttle/core_throttle_total_time_ms"] = "1000\n"
		files[dir+"/thermal_throttle/package_throttle_count"] = "20\n"
		files[dir+"/thermal_throttle/package_throttle_total_time_ms"] = "2000\n"
		if at.set != "" {
			files[dir+"/cpufreq/cpuinfo_max_freq"] = "3500000\n"
			files[dir+"/cpufreq/scaling_max_freq"] = at.set + "\n"
		}
	}
	return files
}

func TestThrottle(t *testing.T) {
	m := collecttest.NewMachine(t, Throttle{}, throttled())
	collecttest.Expect(t, m.Read(true), "", map[string]float64{
		"cpu.frequency.limit|0|hardware": 3.5e9, "cpu.frequency.limit|0|set": 2.1e9,
		"cpu.frequency.limit|1|hardware": 3.5e9, "cpu.frequency.limit|1|set": 2.1e9,
		"cpu.frequency.limit|2|hardware": 3.5e9, "cpu.frequency.limit|2|set": 3e9,
	})
	m.Put(map[string]string{
		"sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_total_time_ms":    "1300\n",
		"sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_total_time_ms":    "9999\n",
		"sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_count":            "14\n",
		"sys/devices/system/cpu/cpu3/thermal_throttle/package_throttle_total_time_ms": "2070\n",
		"sys/devices/system/cpu/cpu3/thermal_throttle/package_throttle_count":         "x\n",
	})
	collecttest.Expect(t, m.Read(false), "cpu.throttle", map[string]float64{
		"cpu.throttle.time|0|core": 300e6, "cpu.throttle.time|2|core": 0,
		"cpu.throttle.time|3|core": 0, "cpu.throttle.time|0|package": 0,
		"cpu.throttle.time|3|package": 70e6,
		"cpu.throttle.count|0|core":   0, "cpu.throttle.count|2|core": 4,
		"cpu.throttle.count|3|core": 0, "cpu.throttle.count|0|package": 0,
	})
}

// TestThrottleLimitMoves: limits are read again within ten readings. What is no number is unknown.
func TestThrottleLimitMoves(t *testing.T) {
	m := collecttest.NewMachine(t, Throttle{}, throttled())
	m.Read(true)
	m.Put(map[string]string{"sys/devices/system/cpu/cpu2/cpufreq/scaling_max_freq": "0\n"})
	for range limitEvery - 1 {
		m.Read(false)
	}
	collecttest.Expect(t, m.Read(false), "cpu.frequency.limit|2", map[string]float64{
		"cpu.frequency.limit|2|hardware": 3.5e9, "cpu.frequency.limit|2|set": measure.NaN})
}

// TestNoThrottle: a virtual machine has neither, and notes why.
func TestNoThrottle(t *testing.T) {
	m := collecttest.NewMachine(t, Throttle{},
		map[string]string{"sys/devices/system/cpu/present": "0-1\n"})
	collecttest.Expect(t, m.Read(true), "", map[string]float64{})
	if m.Notes() == "" {
		t.Error("no note")
	}
}
