package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/view/term"

	"culprit/view/classic"
)

// call runs a command line on this machine in the test's process, and returns its exit status and
// output. A parallel test must not call tokens so: as root it makes this process another user for
// some time.
func call(t *testing.T, args ...string) (status int, out, errs []byte) {
	t.Helper()
	var files [2]*os.File
	for i := range files {
		f, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	status = term.Run(
		t.Context(), program(term.Terminal{Out: files[0], Err: files[1], Width: 80}), args,
	)
	var texts [2][]byte
	for i, f := range files {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = b
	}
	return status, texts[0], texts[1]
}

// promisedFields returns the fields of rows in a tool's JSON that must never be removed: programs
// rely on them.
func promisedFields(tool string) []string {
	return strings.Fields(map[string]string{
		"nic": "device netns rx_bytes_per_s tx_bytes_per_s rx_packets_per_s tx_packets_per_s rx_avg_bytes tx_avg_bytes util " +
			"capacity_bits_per_s capacity_from saturation_per_s errors_per_s",
		"cpu":   "cpu usr nice sys iowait irq soft steal guest guest_nice idle interrupts_per_s softirqs_per_s switches_per_s",
		"flows": "peer local protocol pid process rx_bytes_per_s tx_bytes_per_s rtt_ns retransmits_per_s delivery_bits_per_s",
	}[tool])
}

// TestToolsLive runs each tool on this machine, with --json and with --csv.
func TestToolsLive(t *testing.T) {
	for _, tool := range classic.All() {
		if tool.Name == "stat" { // needs a query
			continue
		}
		t.Run(tool.Name, func(t *testing.T) {
			status, out, errs := call(t, tool.Name, "--json", "0.1", "2")
			if status != 0 {
				t.Fatalf("status %d: %s", status, errs)
			}
			lines := bytes.Split(bytes.TrimSuffix(out, []byte("\n")), []byte("\n"))
			if len(lines) != 2 {
				t.Fatalf("%d lines for two intervals:\n%s", len(lines), out)
			}
			for _, line := range lines {
				var got struct {
					View    string
					Start   time.Time
					Seconds float64
					Rows    []map[string]any
					Loss    *[]any
					Notes   *[]string
				}
				if err := json.Unmarshal(line, &got); err != nil {
					t.Fatalf("%v in %s", err, line)
				}
				if got.View != tool.Name || got.Start.IsZero() || got.Seconds <= 0 ||
					got.Rows == nil ||
					got.Loss == nil ||
					got.Notes == nil {
					t.Errorf("fields are missing: %s", line)
				}
				for _, row := range got.Rows {
					for _, name := range promisedFields(tool.Name) {
						if _, ok := row[name]; !ok {
							t.Errorf("no %s in %v", name, row)
						}
					}
					for name, v := range row {
						if n, ok := v.(float64); ok && n < 0 && !strings.Contains(name, "growth") {
							t.Errorf("%s is %v in %v", name, n, row)
						}
					}
				}
			}

			status, out, errs = call(t, tool.Name, "--csv", "0.1", "1")
			if status != 0 {
				t.Fatalf("--csv: status %d: %s", status, errs)
			}
			// ReadAll fails if records differ in their number of fields.
			records, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
			if err != nil || len(records) == 0 {
				t.Errorf("--csv: %d records, %v", len(records), err)
			}
		})
	}
}

// TestWrongUsage checks that mistakes on the command line end with status 2 and a message with the
// word in question or a similar valid one.
func TestWrongUsage(t *testing.T) {
	for _, c := range []struct{ line, says string }{
		{"nik", "nic"},
		{"nic --jsn", "--json"},
		{"nic soon", "soon"},
		{"nic 0", "0"},
		{"nic -1", "1"},
		{"nic 1 none", "none"},
		{"nic --sort nowhere 1 1", "nowhere"},
		{"nic --json --csv 1 1", "exclude"},
		{"stat net.device.bites", "net.device.bytes"},
		{"stat net.device.bytes+by+devise", "device"},
		{"stat net.device.bytes+by", "field"},
		{"--for ten", "ten"},
		{"nic -i loo 1 1", "did you mean lo?"},
		// The largest pid is 4194304: PID_MAX_LIMIT.
		{"ps -p 4194305 1 1", "there is no \"4194305\" here"},
		{"nic --netns no-such-namespace 1 1", "there is no network namespace no-such-namespace"},
		{"diagnose --netns no-such-namespace", "there is no network namespace"},
	} {
		var args []string
		for _, a := range strings.Fields(c.line) {
			args = append(args, strings.ReplaceAll(a, "+", " "))
		}
		status, out, errs := call(t, args...)
		if status != 2 || !strings.Contains(string(errs), c.says) {
			t.Errorf(
				"culprit %s: status %d, prints %q, want 2 and %q", c.line, status, errs, c.says,
			)
		}
		if len(out) > 0 {
			t.Errorf("culprit %s writes to standard output: %q", c.line, out)
		}
	}
}
