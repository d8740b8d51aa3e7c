package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// unwinding is what a kernel before 6.1 lacks of stacks of processes.
const unwinding = "unwind tables"

// checks are all rows, the longest first.
func checks() []check {
	all := []check{
		{row: "`serve`, recorded numbers, profile and diagnosis", alone: true, run: serve},
		{row: "`diagnose`", args: []string{"diagnose", "--for", "8s", "--json"}, sane: diagnosis},
		{
			row:    "`profile`",
			args:   []string{"profile", "--for", "2s", "--format", "folded"},
			sane:   contains("do_syscall_64", "main.spin"),
			lesser: unwinding,
		},
		{
			row:    "`profile --off-cpu`",
			args:   []string{"profile", "--off-cpu", "--for", "1s", "--table"},
			sane:   contains("sleeping"),
			lesser: unwinding,
		},
		{
			row:    "`profile --locks`",
			args:   []string{"profile", "--locks", "--for", "1s", "--table"},
			sane:   contains("futex"),
			lesser: unwinding,
		},
		{
			row:  "`locks`, of the kernel",
			args: []string{"locks", "--kernel", "--json", "1", "2"},
			sane: tool("locks", positive("count")),
		},
		{
			row:    "`locks --user`",
			args:   []string{"locks", "--user", "--json", "1", "2"},
			sane:   tool("locks", positive("count"), positive("wait_ns")),
			lesser: unwinding,
		},
		{
			row:  "`caches`",
			args: []string{"caches", "--json", "1", "2"},
			sane: tool(
				"caches", rowWith("cache", "dentry", positive("entries")),
				rowWith("cache", "tcp-sockets", positive("entries")),
			),
		},
		{
			row:  "`cpu`",
			args: []string{"cpu", "--json", "1", "2"},
			sane: tool(
				"cpu", whole, rowWith("cpu", "all", positive("sys"), below("idle", 1)),
				positive("interrupts_per_s"),
			),
		},
		{
			row:  "`disk`",
			args: []string{"disk", "--json", "1", "2"},
			sane: tool(
				"disk", positive("writes_per_s"), positive("written_bytes_per_s"),
				below("util", 1.01),
			),
		},
		{
			row:  "`flows`",
			args: []string{"flows", "--json", "1", "2"},
			sane: tool("flows", rowWith("process", "check", positive("tx_bytes_per_s"))),
		},
		{
			row:  "`irq`",
			args: []string{"irq", "--json", "1", "2"},
			sane: tool(
				"irq", rowWith("irq", "LOC", positive("count_per_s"), below("time_ratio", 1)),
			),
		},
		{
			row:  "`link`",
			args: []string{"link", "--json", "1", "2"},
			sane: tool(
				"link",
				rowWith("device", "lo", positive("mtu_bytes"), positive("rx_packets_per_s")),
			),
		},
		{
			row:  "`mem`",
			args: []string{"mem", "--json", "1", "2"},
			sane: tool("mem", positive("free_bytes"), positive("switches_per_s"), below("idle", 1)),
		},
		{
			row:  "`nic`",
			args: []string{"nic", "--json", "1", "2"},
			sane: tool(
				"nic",
				rowWith("device", "lo", positive("rx_bytes_per_s"), positive("tx_packets_per_s")),
			),
		},
		{
			row:  "`ps`",
			args: []string{"ps", "--json", "1", "2"},
			sane: tool(
				"ps",
				rowWith(
					"process", "check", positive("usr"), positive("voluntary_switches_per_s"),
					positive("rss_bytes"),
				),
			),
		},
		{
			row:  "`tcp`",
			args: []string{"tcp", "--json", "1", "2"},
			sane: tool(
				"tcp", positive("in_segments_per_s"), positive("active_opens_per_s"),
				positive("sockets"),
			),
		},
		{
			row:  "`use`",
			args: []string{"use", "--json", "1", "2"},
			sane: tool(
				"use", positive("cpu_util"), below("cpu_util", 1.01), below("memory_util", 1),
			),
		},
		{
			row: "`trace`, long keys and stacks",
			args: []string{
				"trace",
				"-qn",
				`syscall::newfstatat:entry /execname == "check"/ { @[copyinstr(arg1), strjoin("x", copyinstr(arg1)), execname] = count(); } profile-99 { @s[stack(), ustack(), execname] = count(); } tick-2s { exit(0); }`,
			},
			sane: contains("x/tmp", "vmlinux`"),
		},
	}
	for _, s := range []string{
		"syscall.count by process",
		"runqueue.latency by process",
		"process.exec.count by process",
		"tcp.connect.count by process",
		"disk.latency by device",
	} {
		name, by, _ := strings.Cut(s, " by ")
		all = append(
			all,
			check{
				row:  "`stat " + name + "`, traced",
				args: []string{"stat", s, "--json", "1", "2"},
				sane: tool("stat", traced(by)),
			},
		)
	}
	return append(all, lockedChecks()...)
}

// contains is satisfied with a text that has all of the words.
func contains(words ...string) func([]byte) error {
	return func(b []byte) error {
		for _, w := range words {
			if !bytes.Contains(b, []byte(w)) {
				return fmt.Errorf("no %q", w)
			}
		}
		return nil
	}
}

// diagnosis is satisfied with a diagnosis that looked at the CPUs.
func diagnosis(b []byte) error {
	var d struct {
		Findings *[]any
		Checked  []string
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return err
	}
	if d.Findings == nil || len(d.Checked) < 10 {
		return errors.New("a diagnosis without findings or of few checks")
	}
	return nil
}

// A frame is what a tool prints of one interval with --json.
type frame struct {
	View    string
	Seconds float64
	Rows    []map[string]any
}

// A sanity looks at the rows of an interval.
type sanity func(rows []map[string]any) error

// tool is satisfied with two intervals of a tool that have no negative number and all that is
// asked.
func tool(name string, all ...sanity) func([]byte) error {
	return func(b []byte) error {
		lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
		if len(lines) != 2 {
			return fmt.Errorf("%d intervals in place of two", len(lines))
		}
		var frames []frame
		for _, line := range lines {
			var f frame
			if err := json.Unmarshal(line, &f); err != nil {
				return err
			}
			if f.View != name || f.Seconds <= 0 || f.Seconds > 60 { // a starved machine is late
				return fmt.Errorf("a frame of %q over %v s", f.View, f.Seconds)
			}
			if err := notNegative(f.Rows); err != nil {
				return err
			}
			frames = append(frames, f)
		}
		for _, s := range all { // what the load does is in one interval or the other
			if err := s(frames[0].Rows); err != nil && s(frames[1].Rows) != nil {
				return err
			}
		}
		return nil
	}
}

// notNegative refuses a number below 0 that is no difference.
func notNegative(rows []map[string]any) error {
	for _, row := range rows {
		for name, v := range row {
			if n, ok := v.(float64); ok && n < 0 && !strings.Contains(name, "growth") &&
				row["residual"] != true {
				return fmt.Errorf("%s is %v", name, n)
			}
		}
	}
	return nil
}

// positive wants a row in which a number is above 0.
func positive(name string) sanity {
	return func(rows []map[string]any) error {
		for _, row := range rows {
			if n, ok := row[name].(float64); ok && n > 0 {
				return nil
			}
		}
		return fmt.Errorf("%s is above 0 in no row", name)
	}
}

// below wants all rows that have a number to have it at or below a bound.
func below(name string, bound float64) sanity {
	return func(rows []map[string]any) error {
		for _, row := range rows {
			if n, ok := row[name].(float64); ok && n > bound {
				return fmt.Errorf("%s is %v, above %v", name, n, bound)
			}
		}
		return nil
	}
}

// rowWith returns a check that at least one row has this value in the field, and that those rows
// pass all of the given checks.
func rowWith(field, value string, all ...sanity) sanity {
	return func(rows []map[string]any) error {
		var of []map[string]any
		for _, row := range rows {
			if fmt.Sprint(row[field]) == value {
				of = append(of, row)
			}
		}
		if len(of) == 0 {
			return fmt.Errorf("no row with %s %s", field, value)
		}
		for _, s := range all {
			if err := s(of); err != nil {
				return fmt.Errorf("%s %s: %w", field, value, err)
			}
		}
		return nil
	}
}

// whole wants the modes of each CPU to be all of its time, within what ticks can tell.
func whole(rows []map[string]any) error {
	for _, row := range rows {
		sum := 0.0
		for _, mode := range []string{
			"usr", "nice", "sys", "iowait", "irq", "soft", "steal", "guest", "guest_nice", "idle",
			"unaccounted",
		} {
			n, _ := row[mode].(float64)
			sum += n
		}
		if sum < 0.5 || sum > 1.1 {
			return fmt.Errorf("the modes of CPU %v are %.2f of its time", row["cpu"], sum)
		}
	}
	return nil
}

// traced wants a row of a traced statistic with a number above 0.
func traced(by string) sanity {
	return func(rows []map[string]any) error {
		for _, row := range rows {
			for name, v := range row {
				if n, ok := v.(float64); ok && n > 0 && name != by {
					return nil
				}
			}
		}
		return fmt.Errorf("no row by %s has a number above 0", by)
	}
}
