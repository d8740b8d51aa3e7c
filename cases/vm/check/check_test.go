package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a command prints and how it ends decides the cell; what no message may say is a problem.
func TestCells(t *testing.T) {
	const rows = `{"view":"nic","seconds":1,"rows":[{"device":"lo","rx":7},{"device":"eth0","rx":-1,"residual":true}]}`
	for _, test := range []struct {
		name, script, cell, problem string
	}{
		{"two intervals", "echo '" + rows + "'; echo '" + rows + "'", "yes", ""},
		{"one interval", "echo '" + rows + "'", "yes", "1 intervals"},
		{"a negative number", "echo '" + strings.Replace(rows, "7", "-7", 1) + "'; echo '" + rows + "'", "yes", "rx is -7"},
		{"nothing seen", "echo '" + strings.Replace(rows, "7", "0", 1) + "'; echo '" + strings.Replace(rows, "7", "0", 1) + "'", "yes", "rx is above 0 in no row"},
		{"too old", "echo 'culprit: nic: this kernel is Linux 5.10, and 5.19 brought it' >&2; exit 1", "from 5.19", ""},
		{"too old, in other words", "echo 'culprit: nic: the tracepoints came with 5.19; x' >&2; exit 1", "from 5.19", ""},
		{"fails without a version", "echo 'culprit: nic: no' >&2; exit 1", "yes", "culprit: nic: no"},
		{"lacks a part", "echo '" + rows + "'; echo '" + rows + "'; echo 'no unwind tables: Linux 6.1 brought it' >&2", "yes; unwind tables from 6.1", ""},
		{"forbidden", "echo '" + rows + "'; echo '" + rows + "'; echo 'ring_buffer: forbidden by this kernel even with the capabilities' >&2", "yes", "forbidden by this kernel"},
	} {
		t.Run(test.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "culprit")
			if err := os.WriteFile(program, []byte("#!/bin/sh\n"+test.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			s := &scene{culprit: program}
			r := s.check(
				check{
					row:    "nic",
					args:   []string{"nic"},
					lesser: "unwind tables",
					sane:   tool("nic", rowWith("device", "lo", positive("rx"))),
				},
			)
			if r.Cell != test.cell || (test.problem == "") != (r.Problem == "") ||
				!strings.Contains(r.Problem, test.problem) {
				t.Errorf("%+v, want %q and %q", r, test.cell, test.problem)
			}
		})
	}
}
