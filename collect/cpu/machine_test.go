package cpu

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/measure"
)

func TestMachine(t *testing.T) {
	m := collecttest.NewMachine(
		t,
		Machine{},
		map[string]string{
			"proc/sys/kernel/hostname":                                 "box\n",
			"proc/sys/kernel/osrelease":                                "6.18\n",
			"sys/class/dmi/id/sys_vendor":                              "Maker\n",
			"sys/class/dmi/id/product_name":                            "Maker Model 3\n",
			"sys/devices/system/cpu/online":                            "0,2\n",
			"sys/devices/system/cpu/present":                           "0-2\n",
			"sys/devices/system/cpu/cpu0/topology/physical_package_id": "0\n",
			"sys/devices/system/cpu/cpu0/topology/core_id":             "4\n",
			"sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq":     "2400000\n",
			"sys/devices/system/cpu/cpu2/topology/physical_package_id": "1\n",
			"sys/devices/system/cpu/cpu2/topology/core_id":             "5\n",
		},
	)
	rows := m.Read(true)
	collecttest.Expect(
		t,
		rows,
		"cpu",
		map[string]float64{
			"cpu.online|0|0|4": 1,
			"cpu.online|1||":   0,
			"cpu.online|2|1|5": 1,
			"cpu.frequency|0":  2.4e9,
		},
	)
	found := false
	for k := range rows {
		found = found ||
			strings.HasPrefix(k, "system.info|box|6.18|") && strings.HasSuffix(k, "|Maker Model 3")
	}
	if !found {
		t.Errorf("no system.info in %v", rows)
	}
	m.Put(map[string]string{"sys/devices/system/cpu/online": "0\n"})
	collecttest.Expect(
		t, m.Read(false), "cpu.online",
		map[string]float64{"cpu.online|0|0|4": 1, "cpu.online|1||": 0, "cpu.online|2||": 0},
	)
}

// TestFrequencyAlone reads only the frequency. What is no number above 0 is unknown.
func TestFrequencyAlone(t *testing.T) {
	m := collecttest.EmptyMachine(t)
	files := map[string]string{"sys/devices/system/cpu/online": "0-3\n"}
	for cpu, text := range []string{"2400000\n", "0\n", "x\n", "1\n"} {
		files[fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu)] = text
	}
	m.Put(files)
	stats := slices.DeleteFunc(Machine{}.Stats(), func(st measure.Stat) bool {
		return st.ID != "cpu.frequency"
	})
	m.Out = collect.NewOut(stats, collect.NewDictionary(), false)
	r, err := Machine{}.Open(&m.Env, collect.Want{"cpu.frequency": {"cpu": true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	m.Reading = r
	collecttest.Expect(t, m.Read(true), "", map[string]float64{
		"cpu.frequency|0": 2.4e9, "cpu.frequency|1": measure.NaN,
		"cpu.frequency|2": measure.NaN, "cpu.frequency|3": 1000,
	})
	if notes := m.Notes(); notes != "" {
		t.Errorf("notes %q", notes)
	}
}
