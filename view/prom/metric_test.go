package prom

import (
	"slices"
	"testing"

	"culprit/measure"
)

// TestMetricNames checks the names and base units of the metrics of one statistic, for each kind
// and unit.
func TestMetricNames(t *testing.T) {
	tests := []struct {
		name string
		stat measure.Stat
		want []string // in alphabetical order
		per  float64
	}{
		{"level in bytes", stat("memory.size", measure.Level, measure.Bytes),
			[]string{"culprit_memory_size_bytes"}, 1},
		{"delta whose name ends in its unit", stat("disk.bytes", measure.Delta, measure.Bytes),
			[]string{"culprit_disk_bytes_per_second", "culprit_disk_bytes_total"}, 1},
		{"time", stat("cpu.time", measure.Delta, measure.Nanoseconds),
			[]string{"culprit_cpu_time_seconds_per_second", "culprit_cpu_time_seconds_total"}, 1e9},
		{"events", stat("irq.count", measure.Delta, measure.Events),
			[]string{"culprit_irq_count_per_second", "culprit_irq_count_total"}, 1},
		{"bits per second", stat("net.speed", measure.Level, measure.BitsPerSec),
			[]string{"culprit_net_speed_bits_per_second"}, 1},
		{"hertz", stat("cpu.frequency", measure.Level, measure.Hertz),
			[]string{"culprit_cpu_frequency_hertz"}, 1},
		{"unknown unit", stat("fan.speed", measure.Level, "turn/s"),
			[]string{"culprit_fan_speed_turn_per_s"}, 1},
		{"distribution", stat("disk.latency", measure.Dists, measure.Nanoseconds),
			[]string{"culprit_disk_latency_seconds"}, 1e9},
		{"signed delta", measure.Stat{ID: "cache.growth", Kind: measure.Delta, Signed: true},
			[]string{"culprit_cache_growth_per_second"}, 1},
		{"other letters", stat("trace.a_b.c-d", measure.Level, measure.Count),
			[]string{"culprit_trace_a__b_c___2dd"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, m := range metrics([]measure.Dataset{dataset(tt.stat)}) {
				got = append(got, m.name)
				if m.per != tt.per {
					t.Errorf("%s is divided by %g, want %g", m.name, m.per, tt.per)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("metrics %v, want %v", got, tt.want)
			}
		})
	}
}

// TestMetricNamesAreUnique records two statistics that would have the same name: the later one in
// the alphabet gets its unit again.
func TestMetricNamesAreUnique(t *testing.T) {
	all := metrics([]measure.Dataset{
		dataset(stat("disk.size", measure.Level, measure.Bytes)),
		dataset(stat("disk.size.bytes", measure.Level, measure.Bytes)),
	})
	var got []string
	for _, m := range all {
		got = append(got, m.name+" = "+string(m.stat.ID))
	}
	want := []string{
		"culprit_disk_size_bytes = disk.size",
		"culprit_disk_size_bytes_bytes = disk.size.bytes",
	}
	if !slices.Equal(got, want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
}

// TestExported checks which metrics leave the machine: neither distributions nor fields with many
// values, and a delta as one counter.
func TestExported(t *testing.T) {
	wide := dataset(stat("process.rss", measure.Level, measure.Bytes))
	wide.Query.By = []string{"process", "pid"}
	var got []string
	for _, m := range metrics([]measure.Dataset{
		dataset(stat("disk.latency", measure.Dists, measure.Nanoseconds)),
		dataset(stat("cpu.time", measure.Delta, measure.Nanoseconds)),
		wide,
		dataset(stat("memory.size", measure.Level, measure.Bytes)),
	}) {
		if isExported(m) {
			got = append(got, m.name)
		}
	}
	want := []string{"culprit_cpu_time_seconds_total", "culprit_memory_size_bytes"}
	if !slices.Equal(got, want) {
		t.Errorf("exported %v, want %v", got, want)
	}
}

func stat(id measure.StatID, kind measure.Kind, unit measure.Unit) measure.Stat {
	return measure.Stat{ID: id, Kind: kind, Unit: unit}
}

func dataset(st measure.Stat) measure.Dataset {
	return measure.Dataset{Query: measure.Query{Stat: st.ID}, Stat: st}
}
