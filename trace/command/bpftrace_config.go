package command

import (
	"fmt"
	"os"
	"strconv"

	"culprit/lang/bpftrace"

	"golang.org/x/sys/unix"
)

// environment are the settings that bpftrace's versions read from the environment, by the names of
// the settings of a config block.
//
// table: name to the names of the variables
var environment = map[string][]string{
	"max_strlen":         {"BPFTRACE_MAX_STRLEN", "BPFTRACE_STRLEN"},
	"max_cat_bytes":      {"BPFTRACE_MAX_CAT_BYTES", "BPFTRACE_CAT_BYTES_MAX"},
	"stack_mode":         {"BPFTRACE_STACK_MODE"},
	"missing_probes":     {"BPFTRACE_MISSING_PROBES"},
	"print_maps_on_exit": {"BPFTRACE_PRINT_MAPS_ON_EXIT"},
}

// withEnvironment returns the settings of a program, and those of the environment, which precede
// them. It fails when a value is not valid.
func withEnvironment(config bpftrace.Settings) (bpftrace.Settings, error) {
	out := bpftrace.Settings{}
	older := map[string]string{"strlen": "max_strlen", "cat_bytes_max": "max_cat_bytes"}
	for old, name := range older {
		if v, ok := config[old]; ok {
			out[name] = v
		}
	}
	for name, v := range config {
		out[name] = v
	}
	for name, variables := range environment {
		for _, v := range variables {
			if value := os.Getenv(v); value != "" {
				out[name] = value
				break
			}
		}
	}
	switch mode := out["stack_mode"]; mode {
	case "", "bpftrace", "perf", "raw":
	default:
		return nil, fmt.Errorf("stack_mode is %q: write bpftrace, perf or raw", mode)
	}
	return out, nil
}

// stringLength returns the size of strings in bytes, from 8 to 1024: 64 unless configured.
func stringLength(configured string) int {
	n, err := strconv.Atoi(configured)
	if err != nil || n < 8 {
		return 64
	}
	return min(n, 1024)
}

// mostCat returns how many bytes of a file cat() prints: 10 KiB unless configured.
func mostCat(configured string) int64 {
	if n, err := strconv.ParseInt(configured, 10, 32); err == nil && n >= 0 {
		return n
	}
	return 10 << 10
}

// taiOffset returns the international atomic time at time 0 of the monotonic clock, in ns.
func taiOffset() int64 {
	var tai, mono unix.Timespec
	unix.ClockGettime(unix.CLOCK_TAI, &tai)        //nolint:errcheck // this clock is always there
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) //nolint:errcheck // as above
	return tai.Nano() - mono.Nano()
}
