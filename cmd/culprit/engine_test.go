package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/measure"
	"culprit/view/term"
)

// startPrometheus starts a Prometheus that receives remote write, and returns its address.
func startPrometheus(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("needs: tool prometheus")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte("global: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close() // the port is likely still free
	out, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+dir+"/data",
		"--web.listen-address="+address, "--web.enable-remote-write-receiver")
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()         // killed
		if b, err := os.ReadFile(out.Name()); err == nil && t.Failed() {
			t.Logf("prometheus:\n%s", b)
		}
		out.Close()
	})
	eventually(t, "Prometheus is ready", time.Minute, func() error {
		res, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return err
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", res.StatusCode)
		}
		return nil
	})
	return "http://" + address
}

// TestEngineEqualsArchive compares tables from a real Prometheus, to which a server sends, with
// those of the archive of the server.
func TestEngineEqualsArchive(t *testing.T) {
	address, dir := startPrometheus(t), t.TempDir()
	startWithFile(t, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0",
		"--remote-write", address+"/api/v1/write", "--remote-write-each", "5s")
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	table := func(tool string, args ...string) (out map[string][]map[string]any, err error) {
		status, text, errs := call(t, append([]string{tool, "--json"}, args...)...)
		if status != 0 {
			return nil, fmt.Errorf("culprit %s %v: status %d: %s", tool, args, status, errs)
		}
		all := struct{ Rows []map[string]any }{}
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, err
		}
		out = map[string][]map[string]any{}
		for _, r := range all.Rows {
			key := fmt.Sprint(r["cpu"], r["device"], r["interface"])
			out[key] = append(out[key], r)
		}
		return out, nil
	}
	// The range has whole samples, the first two excepted: the server may have begun within them.
	var from, to string
	eventually(t, "ten seconds without a missing tick are sent", 3*time.Minute, func() error {
		r, err := openEngine(term.EngineHost{URL: address, Host: name})
		if err != nil {
			return err
		}
		defer r.Close()
		end := r.Held().End
		c, err := dial(dir)
		if err != nil {
			return err
		}
		defer c.Close()
		over := measure.Interval{Start: end.Add(-10 * measure.Second), End: end}
		if held := (&serverRecord{c}).Held(); held.Start.Add(10*measure.Second) > over.Start {
			return fmt.Errorf("%v is recorded, %v is sent", held, end)
		}
		if ticks, err := recordedRows(c, "cpu.time by mode", over); err != nil || len(ticks) != 10 {
			return fmt.Errorf("%d ticks of 10: %v", len(ticks), err)
		}
		from, to = over.Start.AsTime().Format(time.RFC3339), over.End.AsTime().Format(time.RFC3339)
		return nil
	})
	for _, tool := range []string{"cpu", "disk", "nic", "mem"} {
		t.Run(tool, func(t *testing.T) {
			local, err := table(tool, "--dir", dir, "--from", from, "--to", to)
			if err != nil {
				t.Fatal(err)
			}
			var sent map[string][]map[string]any
			eventually(t, "a part of a tick that was late is sent", 20*time.Second, func() error {
				sent, err = table(tool, "--engine", address, "--host", name, "--from", from,
					"--to", to)
				if err == nil {
					err = differ(local, sent)
				}
				return err
			})
			if len(sent) == 0 {
				t.Error("the tables are empty")
			}
		})
	}
	t.Run("what the engine lacks", func(t *testing.T) {
		_, out, errs := call(t, "ps", "--engine", address, "--host", name, "--at", to)
		if !strings.Contains(string(errs), "process.cpu is not sent to engines") ||
			!strings.Contains(string(errs), "the server of the host has it") {
			t.Errorf("%s%s", out, errs)
		}
	})
	t.Run("a host that it does not have", func(t *testing.T) {
		status, _, errs := call(t, "cpu", "--engine", address, "--host", name+"x", "--at", to)
		if status != 1 || !strings.Contains(string(errs), "did you mean "+name) {
			t.Errorf("status %d: %s", status, errs)
		}
	})
	t.Run("hosts", func(t *testing.T) {
		status, out, errs := call(t, "hosts", "--engine", address, "--json")
		if status != 0 || !strings.Contains(string(out), `"host":"`+name+`"`) {
			t.Errorf("status %d: %s%s", status, out, errs)
		}
	})
	t.Run("diagnosis", func(t *testing.T) {
		status, out, errs := call(t, "diagnose", "--engine", address, "--host", name,
			"--from", "-10m", "--to", to)
		if status != 0 || !strings.Contains(string(out), "looked at "+name+" for ") {
			t.Errorf("status %d: %s%s", status, out, errs)
		}
	})
}

// differ returns the first number that differs by more than 2 %: amounts and times are sums of what
// both have, but a tick of ten that is late by a part of a second makes the ranges differ.
func differ(local, sent map[string][]map[string]any) error {
	for key, rows := range local {
		if len(sent[key]) != len(rows) {
			return fmt.Errorf("%q: %d rows, want %d", key, len(sent[key]), len(rows))
		}
		for i, r := range rows {
			for column, v := range r {
				want, ok := v.(float64)
				if !ok {
					continue
				}
				got, ok := sent[key][i][column].(float64)
				if !ok && (want == 0 || column == "softirqs_per_s") {
					continue // a counter that never moved, or a field that is not sent
				}
				if !ok || math.Abs(got-want) > 0.02*math.Abs(want)+1e-3 {
					return fmt.Errorf("%q %s: %v, want %v", key, column, sent[key][i][column], want)
				}
			}
		}
	}
	return nil
}
