package term

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"culprit/export/remotewrite"
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
		Listen:   "127.0.0.1:7410",
		Keep:     [3]measure.Span{7 * day, 14 * day, 90 * day},
		Size:     2e9,
		DiskFull: "oldest",
		Budget:   0.1,
		Profile:  49, KernelLog: true,

		ScriptMemory: 256e6,
		Access:       Access{SessionIdle: 12 * time.Hour, SessionMax: 30 * 24 * time.Hour},
		Export:       Export{LogFindings: "auto"},
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
		"--session-idle 30m":         func(s *Serving) { s.Access.SessionIdle = 30 * time.Minute },
		"--session-max 7d":           func(s *Serving) { s.Access.SessionMax = 7 * 24 * time.Hour },
		"--trust-forwarded":          func(s *Serving) { s.Access.Forwarded = true },
		"--alertmanager http://a --alertmanager https://b#token-file=/t --webhook http://c " +
			"--pyroscope http://d#tenant=t --log-findings on": func(s *Serving) {
			s.Export = Export{
				Alertmanagers: []string{"http://a", "https://b#token-file=/t"},
				Webhooks:      []string{"http://c"}, Pyroscopes: []string{"http://d#tenant=t"},
				LogFindings: "on",
			}
		},
		"--public-url https://Box.example/perf": func(s *Serving) {
			s.Access.PublicURL = &url.URL{Scheme: "https", Host: "box.example", Path: "/perf/"}
		},
		"--public-url http://box.example:81": func(s *Serving) {
			s.Access.PublicURL = &url.URL{Scheme: "http", Host: "box.example:81", Path: "/"}
		},
		"--for 90s":            func(s *Serving) { s.For = 90 * time.Second },
		"--budget 2.5%":        func(s *Serving) { s.Budget = 0.025 },
		"--budget 0":           func(s *Serving) { s.Budget = 0 },
		"--disk-full newest":   func(s *Serving) { s.DiskFull = "newest" },
		"--profile 99":         func(s *Serving) { s.Profile = 99 },
		"--script-memory 1GiB": func(s *Serving) { s.ScriptMemory = 1 << 30 },
		"--mask off":           func(s *Serving) { s.Masks.Off = true },
		"--print-token":        func(s *Serving) { s.PrintToken = true },
		"--profile off":        func(s *Serving) { s.Profile = 0 },
		"--remote-write https://h/w --remote-write-each 1s": func(s *Serving) {
			s.Targets = []remotewrite.Target{{
				Name: "h", URL: "https://h/w", Interval: measure.Second, Job: "culprit",
				Histograms: remotewrite.Native,
			}}
		},
		"--remote-write https://h/w --remote-write https://h/v --remote-write-histograms classic " +
			"--remote-write-header X-Scope-OrgID:t --remote-write-label region=eu " +
			"--remote-write-token-file /t --remote-write-ca /ca --remote-write-cert /c " +
			"--remote-write-key /k --remote-write-server-name n --remote-write-instance i " +
			"--remote-write-job j": func(s *Serving) {
			one := remotewrite.Target{
				Name: "h", URL: "https://h/w", Interval: 15 * measure.Second, Job: "j",
				Histograms: remotewrite.Classic, Instance: "i", BearerTokenFile: "/t",
				Headers:        map[string]string{"X-Scope-OrgID": "t"},
				ExternalLabels: map[string]string{"region": "eu"},
				TLS: remotewrite.TLS{
					CAFile: "/ca", CertFile: "/c", KeyFile: "/k", ServerName: "n",
				},
			}
			two := one
			two.Name, two.URL = "h-2", "https://h/v"
			s.Targets = []remotewrite.Target{one, two}
		},
	} {
		want := usual
		change(&want)
		var got Serving
		status, _, errs := runServe(
			t,
			func(_ context.Context, s Serving, _ *Teller) error {
				got, got.Config = s, Configuration{}
				return nil
			},
			strings.Fields(line)...)
		if status != 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("serve %s: status %d, %+v, want %+v; %s", line, status, got, want, errs)
		}
	}
	for line, says := range map[string]string{
		"--keep 1s=7":        "1s=7d",
		"--keep 5m=7d":       "1s=7d",
		"--keep 1s=7d,1s=8d": "twice",
		"--keep 1s=1s":       "10m",
		"--keep 1h=200y":     "100y",
		"--size lots":        "2GB",
		"--size 5MB":         "32MiB",
		"--size 9999999TB":   "1000TB",
		"--for soon":         "30s",
		"--for 10ms":         "second or more",
		"--listen 7410":      "127.0.0.1:7410",
		"--tls-cert c":       "belong together",

		"--session-idle 59s":              "give a minute or more",
		"--session-max forever":           "give a time",
		"--public-url box.example":        "needs a scheme and a host",
		"--public-url ftp://box.example/": "needs a scheme and a host",
		"--public-url https://u@box/":     "a path only",
		"--public-url https://box/?a=b":   "a path only",
		"--public-url https://box/a/../b": "can't be that of a cookie",
		"--public-url https://box/a;b":    "can't be that of a cookie",
		"--profile 1e9":                   "or off",
		"--profile 0x1":                   "or off",
		"--mask (":                        "is not a regular expression",
		"--disk-full newset":              "did you mean newest",
		"--remote-write h:9090":           "such as https://host/api/v1/write",
		"--alertmanager h:9090":           "--alertmanager: it needs a scheme and a host",
		"--webhook https://h?t=1":         "--webhook: an address has no query",
		"--webhook https://h#tokn-file=a": "did you mean token-file?",
		"--log-findings of":               "did you mean on?",
		"--remote-write-each 7":           "divide a minute",
		"--remote-write-each x":           "such as 15s",

		"--remote-write-header Authorization:x":                        "use bearer_token_file or basic_auth",
		"--remote-write-header x":                                      "give a name and a value",
		"--remote-write-label a-b=c":                                   "use letters, digits and _",
		"--remote-write-label instance=c":                              "has a field of its own",
		"--remote-write-histograms clasic":                             "did you mean classic",
		"--remote-write-user me":                                       "belong together",
		"--remote-write-cert c":                                        "belong together",
		"--remote-write http://h/ --remote-write-token-file t":         "without encryption",
		"--remote-write https://a:b@h/ --remote-write-token-file /tok": "use one of",
		"now": "unknown command",
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
