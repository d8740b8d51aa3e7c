package term

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/load"
	"culprit/measure"
)

// loadRun runs a command line of a program without a machine, and returns its output.
func loadRun(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	o, e := open("out"), open("err")
	p := Program{
		LoadMachine: func() load.Machine { return load.Machine{} },
		Terminal:    Terminal{Out: o, Err: e, Width: 80},
	}
	status = Run(t.Context(), p, append([]string{"load"}, args...))
	read := func(f *os.File) string {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		return string(b)
	}
	return status, read(o), read(e)
}

// TestLoadMistakes: what is wrong on the command line is said before anything is connected to, with
// status 2.
func TestLoadMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"":                                    "give a command",
		"strem h":                             "did you mean stream?",
		"stream":                              "give a host",
		"stream a b":                          `unexpected "b"`,
		"stream h:99999":                      "is not a port",
		"stream h --for 0":                    "--for",
		"stream h --for x":                    `--for "x"`,
		"stream h --every 1ms":                "--every 1ms",
		"stream h --runs 0":                   "--runs 0",
		"stream h --streams 0":                "--streams 0",
		"stream h --size 0":                   "--size 0",
		"stream h --size 1x":                  `--size "1x"`,
		"stream h --size 0.5":                 "whole number",
		"stream h --window 1":                 "--window 1",
		"stream h --rate fast":                `--rate "fast"`,
		"stream h --rate 1":                   "from 8kbit/s",
		"stream h --reverse --both":           "exclude each other",
		"stream h --json --csv":               "exclude each other",
		"stream h -f x":                       `-f "x"`,
		"stream h --bind nowhere":             `--bind "nowhere"`,
		"stream h --congestion a/b":           "--congestion",
		"stream h --strems 2":                 "did you mean --streams?",
		"rr h --size 1,x":                     `--size "x"`,
		"rr h --size 0,1":                     "--size 0,1",
		"rr h --rate 10Mbit/s":                `--rate "10Mbit/s"`,
		"rr h --rate -1":                      `--rate "-1"`,
		"serve --listen here":                 "--listen",
		"serve --listen nowhere.example:7411": "is not an address",
		"serve --listen 127.0.0.1:x":          "is not a port",
		"serve --tests 0":                     "--tests 0",
		"serve --longest never":               "--longest",
		"compare one.json":                    "two results",
		"compare a.json b.json -o c.pdf":      "a chart is a file .svg or .html",
		"stream h --for 24h --every 1s":       "intervals",
	} {
		status, out, said := loadRun(t, strings.Fields(line)...)
		if status != exitUsage || !strings.Contains(said, want) || out != "" {
			t.Errorf("%q: status %d, %q, %q", line, status, said, out)
		}
	}
}

// TestLoadFailures: what can't be done, with status 1.
func TestLoadFailures(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := l.Addr().String()
	defer l.Close()
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"view":"nic"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, want string }{
		{"serve --listen " + taken, "address already in use"},
		{"serve --listen 203.0.113.9:7411", "cannot assign requested address"},
		{"stream 127.0.0.1:1", "nothing listens there"},
		{"stream 127.0.0.1:1 -o /nowhere/x.json", "keep the result"},
		{"compare " + bad + " " + bad, "not a result of culprit load"},
		{"compare /nowhere/a /nowhere/b", "no such file"},
	} {
		if status, _, said := loadRun(t, strings.Fields(c.line)...); status != exitFailed ||
			!strings.Contains(said, c.want) {
			t.Errorf("%q: status %d, %q", c.line, status, said)
		}
	}
}

// TestLoadOutput checks a stream over loopback: text, JSON, CSV, and a comparison of written
// results.
func TestLoadOutput(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &load.Server{Tests: 1, Longest: measure.Minute}
	done := make(chan error, 1)
	go func() { done <- s.Serve(t.Context(), l) }()
	t.Cleanup(func() { l.Close() })
	kept := filepath.Join(t.TempDir(), "kept.json")
	args := []string{
		"stream",
		l.Addr().String(),
		"--for",
		"200ms",
		"--every",
		"100ms",
		"--runs",
		"2",
		"-o",
		kept,
		"--diagnosis=false",
	}
	status, out, said := loadRun(t, args...)
	if status != 0 || said != "" || !strings.Contains(out, "run 1: ") ||
		!strings.Contains(out, "mean of 2 runs") ||
		!strings.Contains(out, "limited by: ") ||
		strings.Count(out, "\n  2   0.") != 2 {
		t.Errorf("status %d, %s\n%s", status, said, out)
	}
	for line := range strings.Lines(out) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	_, out, _ = loadRun(t, append(args, "--json")...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines of JSON for two runs of two intervals and a result", len(lines))
	}
	var last struct {
		View    string
		Runs    []any
		Summary []struct {
			Rate struct{ Mean float64 } `json:"bits_per_s"`
		}
	}
	if err := json.Unmarshal([]byte(lines[4]), &last); err != nil || last.View != "load.result" ||
		len(last.Runs) != 2 ||
		!(last.Summary[0].Rate.Mean > 1e6) {
		t.Errorf("%v: %s", err, lines[4])
	}
	if b, err := os.ReadFile(kept); err != nil || string(b) != lines[4]+"\n" {
		t.Errorf("what is kept is not what is printed: %v", err)
	}
	_, out, _ = loadRun(t, append(args, "--csv")...)
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 5 ||
		!strings.HasPrefix(lines[0], "time,seconds,run,way,end_s,bits_per_s,") {
		t.Errorf("CSV: %s", out)
	}
	chart := filepath.Join(t.TempDir(), "chart.html")
	if status, _, said := loadRun(t, "compare", kept, kept, "-o", chart); status != 0 {
		t.Errorf("a chart: status %d, %s", status, said)
	}
	if b, err := os.ReadFile(chart); err != nil || !strings.Contains(string(b), "<svg ") {
		t.Errorf("the chart is %.100s, %v", b, err)
	}
	if status, out, said := loadRun(t, "compare", kept, kept); status != 0 ||
		!strings.Contains(out, "no significant difference in two runs: +0.0 %") {
		t.Errorf("status %d: %s%s", status, said, out)
	}
}
