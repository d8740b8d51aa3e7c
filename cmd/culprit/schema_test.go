package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/view/classic"
	"culprit/view/schema"
)

// checkSchema validates each JSON value of an output by a schema, and returns their number.
func checkSchema(t *testing.T, name, what string, out []byte) (n int) {
	t.Helper()
	s, ok := schema.Find(name)
	if !ok {
		t.Fatalf("there is no schema %s", name)
	}
	r, err := s.Resolved()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; n++ {
		var v any
		if err := d.Decode(&v); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%s: %v in %.300s", what, err, out)
		}
		if err := r.Validate(v); err != nil {
			t.Errorf("%s by %s: %v", what, name, err)
		}
	}
	return n
}

// TestSchemasOfTools validates what each tool prints of this machine, with each of its flags.
func TestSchemasOfTools(t *testing.T) {
	for _, tool := range classic.All() {
		lines := [][]string{{tool.Name, "--json"}}
		for _, f := range tool.Flags {
			switch {
			case f.Value == "":
				lines = append(lines, []string{tool.Name, "--json", "--" + f.Name})
			case len(f.Values) > 0:
				lines = append(lines, []string{tool.Name, "--json", "--" + f.Name, f.Values[0]})
			}
		}
		for _, line := range lines {
			what := strings.Join(line, " ")
			status, out, errs := call(t, line...)
			if status != 0 || checkSchema(t, tool.Name, what, out) != 1 {
				t.Errorf("%s: status %d, %.300s, %.300s", what, status, out, errs)
			}
		}
	}
}

// TestSchemas validates what the other commands print.
func TestSchemas(t *testing.T) {
	dir := t.TempDir()
	folded := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before := folded("before", "main;work 200\nmain;idle 100\n")
	after := folded("after", "main;work 500\nmain;new 30\n")
	for _, tt := range []struct{ schema, line string }{
		{"report", "diagnose --json --for 3s"},
		{"report", "diagnose --json --import ../../captured/testdata/0-nicstat.txt"},
		{"catalogue", "stat --list --json"},
		{"catalogue", "stat --list --json tcp"},
		{"stat", "stat --json|cpu.time by mode"},
		{"stat", "stat --json|process.rss by process,pid|0.2|2"},
		{"profile-diff", "flame --diff --json " + before + " " + after},
		{"version", "version --json"},
	} {
		line := strings.Fields(tt.line)
		if strings.Contains(tt.line, "|") {
			line = append([]string{"stat"}, strings.Split(tt.line, "|")[1:]...)
			line = append(line, "--json")
		}
		status, out, errs := call(t, line...)
		if status != 0 || checkSchema(t, tt.schema, tt.line, out) == 0 {
			t.Errorf("%s: status %d, %.300s, %.300s", tt.line, status, out, errs)
		}
	}
}

// TestSchemasOfTraced validates what is printed of traced statistics: distributions, heat maps and
// locks.
func TestSchemasOfTraced(t *testing.T) {
	needsTracing(t)
	for _, tt := range []struct{ schema, line string }{
		{"stat", "stat|syscall.latency by process|0.5|1|--json"},
		{"heat", "heat|syscall.latency|0.5|2|--json"},
		{"locks", "locks|1|1|--json"},
		{"locks", "locks|1|1|--by|kind|--json"},
	} {
		status, out, errs := call(t, strings.Split(tt.line, "|")...)
		if status != 0 || checkSchema(t, tt.schema, tt.line, out) == 0 {
			t.Errorf("%s: status %d, %.300s, %.300s", tt.line, status, out, errs)
		}
	}
}

// TestSchemasOfServers validates what is printed about running servers: lists, hosts, load tests.
func TestSchemasOfServers(t *testing.T) {
	dir := t.TempDir()
	s := start(t, nil, "serve", "--dir", dir, "--print-token", "--listen", "127.0.0.1:0",
		"--profile", "off")
	address := strings.TrimSpace(s.waitForLine(t, "?token=", 20*time.Second))
	eventually(t, "it has recorded for some seconds", 30*time.Second, func() error {
		status, out, errs := call(t, "hosts", address, "--insecure", "--json")
		if status != 0 || !bytes.Contains(out, []byte(`"cpu_util":`)) {
			return fmt.Errorf("status %d, %s, %s", status, out, errs)
		}
		checkSchema(t, "hosts", "hosts", out)
		return nil
	})
	for _, line := range [][]string{
		{"datasets", "--dir", dir, "--json"}, {"datasets", "changes", "--dir", dir, "--json"},
	} {
		status, out, errs := call(t, line...)
		if status != 0 || checkSchema(t, "list", strings.Join(line, " "), out) != 1 {
			t.Errorf("%v: status %d, %.300s, %.300s", line, status, out, errs)
		}
	}
	l := start(t, []string{"CULPRIT_LOAD_TOKEN=its"}, "load", "serve", "--listen", "127.0.0.1:0")
	_, port, _ := strings.Cut(l.waitForLine(t, "listens on 127.0.0.1:", 20*time.Second), "0.0.1:")
	status, out, errs := call(t, "load", "stream", "127.0.0.1:"+strings.TrimSpace(port), "--for",
		"2s", "--runs", "1", "--token", "its", "--diagnosis=false", "--json")
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if status != 0 || len(lines) < 2 {
		t.Fatalf("load: status %d, %.300s, %s", status, out, errs)
	}
	for i, line := range lines {
		name := "load-interval"
		if i == len(lines)-1 {
			name = "load-result"
		}
		checkSchema(t, name, "load", line)
	}
	result := filepath.Join(dir, "result.json")
	if err := os.WriteFile(result, lines[len(lines)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs = call(t, "load", "compare", result, result, "--json")
	if status != 0 || checkSchema(t, "load-compare", "load compare", out) != 1 {
		t.Errorf("load compare: status %d, %.300s, %s", status, out, errs)
	}
}
