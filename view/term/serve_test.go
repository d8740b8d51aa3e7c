package term

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// runServe runs a command line of a program whose server is f, and returns its output.
func runServe(
	t *testing.T, f func(context.Context, Serving, *Teller) error, args ...string,
) (status int, out, errs string) {
	t.Helper()
	return runProgram(t, Program{Serve: f}, append([]string{"serve"}, args...))
}

// runProgram runs a command line of a program and returns its output.
func runProgram(t *testing.T, p Program, args []string) (status int, out, errs string) {
	t.Helper()
	var files [2]*os.File
	for i := range files {
		var err error
		if files[i], err = os.Create(filepath.Join(t.TempDir(), "out")); err != nil {
			t.Fatal(err)
		}
		defer files[i].Close()
	}
	p.Terminal = Terminal{Out: files[0], Err: files[1], Width: 80}
	status = Run(t.Context(), p, args)
	var texts [2]string
	for i, f := range files {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(b)
	}
	return status, texts[0], texts[1]
}

func TestServeFlags(t *testing.T) {
	day := 24 * 60 * measure.Minute
	usual := Serving{
		Listen:    "127.0.0.1:7410",
		Keep:      [3]measure.Span{7 * day, 14 * day, 90 * day},
		Size:      2e9,
		DiskFull:  "oldest",
		Budget:    0.1,
		WriteEach: 15 * measure.Second,
		Profile:   49,

		ScriptMemory: 256e6,
	}
	for line, change := range map[string]func(*Serving){
		"":                           func(*Serving) {},
		"--keep 1h=1y":               func(s *Serving) { s.Keep = [3]measure.Span{2: 365 * day} },
		"--keep 1s=90m,1m=2w":        func(s *Serving) { s.Keep = [3]measure.Span{90 * measure.Minute, 14 * day} },
		"--size 500MB":               func(s *Serving) { s.Size = 500e6 },
		"--size 1.5GiB":              func(s *Serving) { s.Size = 3 << 29 },
		"--size 100000000":           func(s *Serving) { s.Size = 1e8 },
		"--size 1T":                  func(s *Serving) { s.Size = 1e12 },
		"--dir /d --listen [::1]:80": func(s *Serving) { s.Dir, s.Listen = "/d", "[::1]:80" },
		"--tls-cert c --tls-key k":   func(s *Serving) { s.Cert, s.Key = "c", "k" },
		"--for 90s":                  func(s *Serving) { s.For = 90 * time.Second },
		"--budget 2.5%":              func(s *Serving) { s.Budget = 0.025 },
		"--budget 0":                 func(s *Serving) { s.Budget = 0 },
		"--disk-full newest":         func(s *Serving) { s.DiskFull = "newest" },
		"--profile 99":               func(s *Serving) { s.Profile = 99 },
		"--script-memory 1GiB":       func(s *Serving) { s.ScriptMemory = 1 << 30 },
		"--mask off":                 func(s *Serving) { s.Masks.Off = true },
		"--print-token":              func(s *Serving) { s.PrintToken = true },
		"--profile off":              func(s *Serving) { s.Profile = 0 },
		"--remote-write https://h/w --remote-write-each 1s": func(s *Serving) { s.WriteTo, s.WriteEach = "https://h/w", measure.Second },
	} {
		want := usual
		change(&want)
		var got Serving
		status, _, errs := runServe(
			t,
			func(_ context.Context, s Serving, _ *Teller) error { got = s; return nil },
			strings.Fields(line)...)
		if status != 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("serve %s: status %d, %+v, want %+v; %s", line, status, got, want, errs)
		}
	}
	for line, says := range map[string]string{
		"--keep 1s=7":           "1s=7d",
		"--keep 5m=7d":          "1s=7d",
		"--keep 1s=7d,1s=8d":    "twice",
		"--keep 1s=1s":          "10m",
		"--keep 1h=200y":        "100y",
		"--size lots":           "2GB",
		"--size 5MB":            "32MiB",
		"--size 9999999TB":      "1000TB",
		"--for soon":            "30s",
		"--for 10ms":            "second or more",
		"--listen 7410":         "127.0.0.1:7410",
		"--tls-cert c":          "belong together",
		"--profile 1e9":         "or off",
		"--profile 0x1":         "or off",
		"--mask (":              "is not a regular expression",
		"--disk-full newset":    "did you mean newest",
		"--remote-write h:9090": "such as https://host/api/v1/write",
		"--remote-write-each 7": "divide a minute",
		"--remote-write-each x": "such as 15s",
		"now":                   "unknown command",
	} {
		status, out, errs := runServe(
			t,
			func(context.Context, Serving, *Teller) error { return nil },
			strings.Fields(line)...)
		if status == 0 || out != "" || !strings.Contains(errs, says) {
			t.Errorf("serve %s: status %d, says %q, want %q", line, status, errs, says)
		}
	}
}

// Each trouble is said when it begins and when it is over, and not in between.
func TestTellerSaysTroublesOnce(t *testing.T) {
	_, out, errs := runServe(t, func(_ context.Context, _ Serving, tell *Teller) error {
		tell.Say("here")
		disk := measure.Problem{Key: "disk", Text: "the disk is full"}
		away := func(text string) measure.Problem {
			return measure.Problem{Key: "remote write", Text: "a\x1b[31mb " + text}
		}
		for _, all := range [][]measure.Problem{
			nil, {disk}, {disk}, {disk, away("for 1 s")}, {away("for 2 s")}, {away("for 3 s")},
			nil, nil,
		} {
			tell.Trouble(all)
		}
		return nil
	})
	if want := "culprit: the disk is full\nculprit: a?[31mb for 1 s\nculprit: over: the disk is full\nculprit: over: a?[31mb for 1 s\n"; errs != want ||
		out != "here\n" {
		t.Errorf("said %q and %q, want %q", out, errs, want)
	}
}

func TestParseShare(t *testing.T) {
	for text, want := range map[string]float64{"1%": 0.01, " 0.5 % ": 0.005, "100%": 1, "0": 0, "0%": 0} {
		if got, err := parseShare(text); err != nil || got != want {
			t.Errorf("%q: %g, %v, want %g", text, got, err, want)
		}
	}
	for _, text := range []string{"", "%", "5", "-1%", "101%", "0.001%", "NaN%", "inf%", "1%%"} {
		if got, err := parseShare(text); err == nil {
			t.Errorf("%q was taken for %g", text, got)
		}
	}
}
