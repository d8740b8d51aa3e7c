package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func besideMpstat(t *testing.T) {
	l := open(t)
	needTools(t, "mpstat")
	bin := needProgram(t)
	sc := &Scene{Lab: l}
	for cpu := range runtime.NumCPU() {
		sc.load(
			Program{
				Name: fmt.Sprintf("usr-%d", cpu),
				Act:  "burn",
				CPUs: []int{cpu},
				Args: []string{"-duty", []string{"0.3", "0.5"}[cpu%2]},
			},
		)
		sc.load(
			Program{
				Name: fmt.Sprintf("sys-%d", cpu),
				Act:  "burn",
				CPUs: []int{cpu},
				Args: []string{"-duty", "0.2", "-sys"},
			},
		)
	}
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	agree(t, func(ctx context.Context) ([]pairing, error) {
		outs, err := together(
			ctx, sc.on(bin, "cpu", "--json", seconds(), "1"),
			sc.on("mpstat", "-o", "JSON", "-P", "ALL", seconds(), "1"),
			sc.on(bin, "use", "--json", seconds(), "1"),
		)
		if err != nil {
			return nil, err
		}
		ours, err := view(outs[0])
		if err != nil {
			return nil, err
		}
		use, err := view(outs[2])
		if err != nil {
			return nil, err
		}
		var theirs struct {
			Sysstat struct {
				Hosts []struct {
					Statistics []struct {
						Load []map[string]any `json:"cpu-load"`
					}
				}
			}
		}
		if err := json.Unmarshal(outs[1], &theirs); err != nil {
			return nil, fmt.Errorf("read mpstat: %w: %s", err, outs[1])
		}
		var pairs []pairing
		for _, row := range theirs.Sysstat.Hosts[0].Statistics[0].Load {
			cpu := fmt.Sprint(row["cpu"])
			if cpu == "-1" {
				cpu = "all"
			}
			// mpstat leaves out the time that fell between ticks, and divides by the rest.
			counted := 1 - ours.number("cpu", cpu, "unaccounted")
			for _, mode := range []string{"usr", "nice", "sys", "iowait", "soft", "steal", "guest", "idle"} {
				v, _ := row[mode].(float64)
				// A tick is 10 ms: a quarter of a percent of four seconds; and both begin a little
				// apart.
				pairs = append(
					pairs,
					pairing{
						"cpu " + cpu + " " + mode,
						ours.number("cpu", cpu, mode),
						v / 100 * counted,
						0.02,
						0.015,
					},
				)
			}
			if cpu == "all" {
				idle, _ := row["idle"].(float64)
				wait, _ := row["iowait"].(float64)
				pairs = append(
					pairs,
					pairing{
						"busy, in use",
						use.Rows[0]["cpu_util"].(float64),
						1 - (idle+wait)/100*counted,
						0.02,
						0.015,
					},
				)
			}
		}
		return pairs, nil
	})
}

func besideVmstat(t *testing.T) {
	l := open(t)
	needTools(t, "vmstat")
	bin := needProgram(t)
	sc := &Scene{Lab: l}
	sc.load(Program{Name: "appender", Act: "write", Patient: true,
		Args: []string{
			"-file",
			filepath.Join(l.Dir(), "data"),
			"-depth",
			"4",
			"-block",
			"65536",
			"-rate",
			"50e6",
		}})
	sc.load(Program{Name: "worker", Act: "burn", Args: []string{"-threads", "4", "-duty", "0.1"}})
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	agree(t, func(ctx context.Context) ([]pairing, error) {
		outs, err := together(
			ctx, sc.on(bin, "mem", "--json", seconds(), "1"), sc.on("vmstat", seconds(), "2"),
		)
		if err != nil {
			return nil, err
		}
		ours, err := view(outs[0])
		if err != nil {
			return nil, err
		}
		lines := strings.Split(strings.TrimSpace(string(outs[1])), "\n")
		f := strings.Fields(
			lines[len(lines)-1],
		) // r b swpd free buff cache si so bi bo in cs us sy id wa st
		if len(f) < 17 || len(ours.Rows) != 1 {
			return nil, fmt.Errorf("vmstat said %q, we %v", outs[1], ours)
		}
		our := func(column string) float64 {
			if v, ok := ours.Rows[0][column].(float64); ok {
				return v
			}
			return math.NaN()
		}
		kib := func(i int) float64 { return number(f[i]) * 1024 }
		// vmstat leaves out the time that fell between ticks, and divides by the rest.
		counted := our("user") + our("system") + our("idle") + our("iowait") + our("steal")
		// vmstat 4.0 prints the memory of the interval before: its levels are taken from where it
		// has them from.
		now := func(key string) float64 { v, _ := keyed("/proc/meminfo", key+":")(); return v * 1024 }
		return []pairing{
			{"swap used", our("swap_used_bytes"), now("SwapTotal") - now("SwapFree"), 0.02, 4096},
			{"free", our("free_bytes"), now("MemFree"), 0.02, 0},
			{"available", our("available_bytes"), now("MemAvailable"), 0.02, 0},
			{"buffers", our("buffers_bytes"), now("Buffers"), 0.02, 1 << 20},
			{
				"cache, as free(1) counts it",
				our("cache_bytes"),
				now("Cached") + now("SReclaimable"),
				0.02,
				0,
			},
			{"swapped in/s", our("swap_in_bytes_per_s"), kib(6), 0.02, 1024},
			{"swapped out/s", our("swap_out_bytes_per_s"), kib(7), 0.02, 1024},
			{"written/s", our("written_bytes_per_s"), kib(9), 0.02, 1024},
			{"interrupts/s", our("interrupts_per_s"), number(f[10]), 0.03, 20},
			{"switches/s", our("switches_per_s"), number(f[11]), 0.03, 20},
			{"user", our("user"), number(f[12]) / 100 * counted, 0.02, 0.015},
			{"system", our("system"), number(f[13]) / 100 * counted, 0.02, 0.015},
			{"idle", our("idle"), number(f[14]) / 100 * counted, 0.02, 0.02},
			{"iowait", our("iowait"), number(f[15]) / 100 * counted, 0.02, 0.015},
		}, nil
	})
}
