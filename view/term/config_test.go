package term

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
	"culprit/yamlfile"

	"github.com/spf13/pflag"
)

var updateConfig = flag.Bool("update", false, "write packaging/culprit.yaml and the table of docs/CONFIGURATION.md")

// withConfig returns a program whose default configuration file has a text, and that runs serve.
func withConfig(text *string, serve func(Serving)) Program {
	return Program{
		ReadConfig: func(path string) (ConfigText, error) {
			if path != defaultConfig {
				b, err := os.ReadFile(path)
				return ConfigText{Name: path, Text: b}, err
			}
			if text == nil {
				return ConfigText{}, fs.ErrNotExist
			}
			return ConfigText{Name: "culprit.yaml", Text: []byte(*text)}, nil
		},
		Serve: func(_ context.Context, s Serving, _ *Teller) error {
			serve(s)
			return nil
		},
	}
}

// The flags of serve are the keys: a flag without a setting has no group, no reload and no example.
func TestEachFlagIsASetting(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(serveFlags).define(f)
	var flags, names []string
	f.VisitAll(func(one *pflag.Flag) {
		if isKey(one) {
			flags = append(flags, one.Name)
		}
	})
	for _, s := range settings() {
		names = append(names, s.name)
	}
	slices.Sort(flags)
	slices.Sort(names)
	if !slices.Equal(flags, names) {
		t.Errorf("flags of serve:\n%s\nsettingGroups lists:\n%s", flags, names)
	}
	for _, k := range configKeys() {
		want := map[string]yamlfile.Kind{
			"command-lines": yamlfile.Bool, "trust-forwarded": yamlfile.Bool,
			"print-token": yamlfile.Bool, "mask": yamlfile.Texts,
		}[k.Name]
		if k.Kind != want && f.Lookup(k.Name).Value.Type() != "stringArray" &&
			f.Lookup(k.Name).Value.Type() != "bool" {
			t.Errorf("key %s is %v, want %v", k.Name, k.Kind, want)
		}
	}
}

func TestPrecedence(t *testing.T) {
	text := "size: 3GB\nbudget: 2%\nmask: [\"a(b)\", c]\nlisten: \"[::1]:80\"\nprofile: off\n"
	var got Serving
	p := withConfig(&text, func(s Serving) { got = s })
	if status, _, errs := runProgram(t, p, []string{
		"serve", "--budget", "7%", "--mask", "d",
	}); status != 0 {
		t.Fatal(errs)
	}
	if got.Size != 3e9 || got.Budget != 0.07 || got.Listen != "[::1]:80" || got.Profile != 0 {
		t.Errorf("size %d, budget %g, listen %s, profile %d", got.Size, got.Budget, got.Listen,
			got.Profile)
	}
	if got.DiskFull != "oldest" || got.Config.File != "culprit.yaml" {
		t.Errorf("default %s, file %q", got.DiskFull, got.Config.File)
	}
	if want := `{"budget":"2%","listen":"[::1]:80","mask":["a(b)","c"],"profile":"off",` +
		`"size":"3GB"}`; string(got.Config.Passed) != want {
		t.Errorf("passed %s, want %s", got.Config.Passed, want)
	}
	passed := string(got.Config.Passed)
	first := got
	runProgram(t, withConfig(&passed, func(s Serving) { got = s }), []string{
		"serve", "--budget", "7%", "--mask", "d",
	})
	first.Config, got.Config = Configuration{}, Configuration{}
	if !reflect.DeepEqual(first, got) {
		t.Errorf("a process has\n%+v\nits supervisor\n%+v", got, first)
	}
}

func TestConfigNone(t *testing.T) {
	text := "this is wrong"
	var got Serving
	p := withConfig(&text, func(s Serving) { got = s })
	if status, _, errs := runProgram(t, p, []string{"serve", "--config", "none"}); status != 0 ||
		got.Config.File != "" {
		t.Errorf("status %d, %s, file %q", status, errs, got.Config.File)
	}
	if status, _, errs := runProgram(t, p, []string{"serve"}); status != 2 ||
		errs != "culprit: culprit.yaml:1:1: the file contains a text, want keys with values, "+
			"such as size: 2GB\n" {
		t.Errorf("status %d, %q", status, errs)
	}
	p = withConfig(nil, func(s Serving) { got = s })
	if status, _, errs := runProgram(t, p, []string{"serve", "--config", "/no/file"}); status != 1 ||
		!strings.Contains(errs, "/no/file: no such file or directory (--config none reads no file)") {
		t.Errorf("status %d, %q", status, errs)
	}
	if status, _, errs := runProgram(t, p, []string{"serve"}); status != 0 {
		t.Errorf("without a default file: %q", errs)
	}
}

// Each key has its own check: the value that the flag refuses is refused at its position.
func TestMistakesOfValues(t *testing.T) {
	for text, want := range map[string]string{
		"size: lots":        `size "lots": give a number of bytes`,
		"size: 5MB":         "from 32MiB",
		"keep: 1s=7":        `keep "1s=7": give the times`,
		"keep: 1s=1d,1s=2d": "keep names 1s twice",
		"budget: 5":         `budget "5": give per cent`,
		"profile: 1000":     "from 1 to 999",
		"script-memory: 1":  "from 32MiB",
		"session-idle: 59s": "give a minute or more",
		"session-max: x":    `session-max "x"`,
		"public-url: a":     "needs a scheme",
		"listen: 7410":      `listen "7410": give an address`,
		"disk-full: newset": "did you mean newest",
		"for: 1ms":          "a second or more",
		"mask: ['(']":       "is not a regular expression",
		"remote-write: a":   "remote-write: not the address",

		"remote-write-each: 7": "remote-write-each: 7s: use whole seconds that divide a minute",
		"command-lines: 1":     `command-lines is "1", want true or false`,
		"trust-forwarded: on":  "want true or false",
		"print-token: x":       "want true or false",
		"tls-cert: c":          "tls-cert and --tls-key belong together",
		"tls-key: c":           "tls-key belong together",
		"config: x":            "there is no key config",

		"size: 1\ndisk-full: x": "culprit: FILE:3:12: disk-full \"x\" is none of",
	} {
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte("\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		p := withConfig(nil, func(Serving) { t.Errorf("%s: it was accepted", text) })
		for _, args := range [][]string{{"serve", "--config", file}, {"config", "check", file}} {
			status, out, errs := runProgram(t, p, args)
			if status != 2 || out != "" || !strings.Contains(errs, file+":2:") ||
				!strings.Contains(errs, strings.ReplaceAll(want, "FILE", file)) {
				t.Errorf("%s %s: status %d, %q, want %q", args[0], text, status, errs, want)
			}
		}
	}
}

func TestConfigCheck(t *testing.T) {
	text := "size: 3GB\nlisten: 1.2.3.4:5\n"
	p := withConfig(&text, nil)
	if status, out, _ := runProgram(t, p, []string{"config", "check"}); status != 0 ||
		out != "/etc/culprit/culprit.yaml is valid: 2 keys are set\n" {
		t.Errorf("status %d, %q", status, out)
	}
	p.CheckServing = func(s Serving) error { return errors.New("--listen " + s.Listen + ": needs TLS") }
	if status, _, errs := runProgram(t, p, []string{"config", "check"}); status != 2 ||
		errs != "culprit: culprit.yaml:2:9: listen 1.2.3.4:5: needs TLS\n" {
		t.Errorf("status %d, %q", status, errs)
	}
	if status, _, errs := runProgram(t, withConfig(nil, nil), []string{"config", "check"}); status != 1 ||
		!strings.Contains(errs, "does not exist") {
		t.Errorf("status %d, %q", status, errs)
	}
}

func TestConfigShow(t *testing.T) {
	text := "remote-write: https://me:secret@host/w\nsize: 3GB\nbudget: 3%\n"
	p := withConfig(&text, nil)
	status, out, errs := runProgram(t, p, []string{"config", "show", "--budget", "4%", "--json"})
	var rows []shownSetting
	if err := json.Unmarshal([]byte(out), &rows); err != nil || status != 0 {
		t.Fatal(err, errs)
	}
	got := map[string]shownSetting{}
	for _, row := range rows {
		got[row.Key] = row
	}
	for _, want := range []shownSetting{
		{"remote-write", []string{"https://me:***@host/w"}, "culprit.yaml:1:15", true},
		{"size", []string{"3GB"}, "culprit.yaml:2:7", true},
		{"budget", []string{"4%"}, "flag", false},
		{"disk-full", []string{"oldest"}, "default", true},
		{"mask", []string{}, "default", false},
	} {
		if !reflect.DeepEqual(got[want.Key], want) {
			t.Errorf("got %+v, want %+v", got[want.Key], want)
		}
	}
	_, out, _ = runProgram(t, p, []string{"config", "show"})
	if !regexp.MustCompile(`(?m)^size +3GB +culprit.yaml:2:7$`).MatchString(out) ||
		strings.Contains(out, "secret") {
		t.Errorf("shown:\n%s", out)
	}
}

// TestNoSecretIsShown: config show prints no secret of any form, on the command line and in a file.
func TestNoSecretIsShown(t *testing.T) {
	text := `webhook: [https://hooks.example/T0/s3cret]
remote-write-header: ["X-Key: s3cret"]
remote-write:
  - https://s3cret@a.example/w
  - url: https://b.example/w?key=s3cret&b=s3cret#tenant=t
    header: ["X-Other: s3cret with s3cret"]
`
	p := withConfig(&text, nil)
	flags := []string{"--webhook", "https://hooks.example/s3cret#insecure", "--remote-write",
		"https://me:s3cret@host/w", "--remote-write-header", "Y: s3cret"}
	for _, tt := range []struct {
		args  []string
		wants []string
	}{
		{nil, []string{
			"https://***@a.example/w", "https://hooks.example/***", "X-Key: ***", "X-Other: ***",
			"https://b.example/w?key=***&b=***#tenant=t",
		}},
		{flags, []string{
			"https://hooks.example/***#insecure", "https://me:***@host/w", "Y: ***",
		}},
	} {
		for _, more := range [][]string{nil, {"--json"}} {
			status, out, errs := runProgram(t, p, slices.Concat([]string{"config", "show"}, tt.args,
				more))
			if status != 0 || strings.Contains(out, "s3cret") {
				t.Errorf("status %d, %s\n%s", status, errs, out)
			}
			out = strings.ReplaceAll(out, `\u0026`, "&")
			for _, want := range tt.wants {
				if !strings.Contains(out, want) {
					t.Errorf("%q is not in\n%s", want, out)
				}
			}
		}
	}
}

// TestShownDirectory: the directory of the environment is the value of the key dir.
func TestShownDirectory(t *testing.T) {
	t.Setenv("CULPRIT_DIR", "/var/lib/other")
	for text, want := range map[string]string{
		"size: 3GB\n":  `(?m)^dir +/var/lib/other +\$CULPRIT_DIR$`,
		"dir: /mine\n": `(?m)^dir +/mine +culprit.yaml:1:6$`,
	} {
		p := withConfig(&text, nil)
		_, out, errs := runProgram(t, p, []string{"config", "show"})
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s%s\nwant %s", out, errs, want)
		}
	}
}

func TestPasswordInReadableFile(t *testing.T) {
	for text, bad := range map[string]bool{
		"size: 3GB\nremote-write: https://me:secret@host/w": true,
		"remote-write: https://host/w":                      false,
	} {
		p := withConfig(&text, func(Serving) {})
		read := p.ReadConfig
		p.ReadConfig = func(path string) (ConfigText, error) {
			c, err := read(path)
			c.Readable = true
			return c, err
		}
		status, _, errs := runProgram(t, p, []string{"serve"})
		if bad != (status == 2) || bad && !strings.HasPrefix(errs, "culprit: culprit.yaml:2:15: "+
			"remote-write contains a password, and other users can read the file: chmod o-r") {
			t.Errorf("status %d, %q", status, errs)
		}
	}
}

func TestReload(t *testing.T) {
	text := "size: 3GB\nprofile: 50\nkeep: 1h=1y\n"
	var s Serving
	runProgram(t, withConfig(&text, func(got Serving) { s = got }), []string{
		"serve", "--disk-full", "newest",
	})
	expect := func(changed, restart, passed string) {
		t.Helper()
		r, err := s.Config.Reload()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.Changed, " "); got != changed {
			t.Errorf("changed %q, want %q", got, changed)
		}
		if got := strings.Join(r.Restart, " "); got != restart {
			t.Errorf("needs a restart %q, want %q", got, restart)
		}
		if string(r.Passed) != passed {
			t.Errorf("passed %s, want %s", r.Passed, passed)
		}
	}
	expect("", "", `{"keep":"1h=1y","profile":"50","size":"3GB"}`)
	text = "size: 4GB\nprofile: 60\ndisk-full: oldest\nlisten: 1.2.3.4:5\n"
	expect("keep size", "listen profile", `{"disk-full":"oldest","profile":"50","size":"4GB"}`)
	expect("", "listen profile", `{"disk-full":"oldest","profile":"50","size":"4GB"}`)
	text = "size: 4GB\nprofile: sixty\nsession-idle: 1s\n"
	if _, err := s.Config.Reload(); err == nil || !strings.Contains(err.Error(), "yaml:2:10: profile") ||
		!strings.Contains(err.Error(), "yaml:3:15: session-idle") {
		t.Errorf("mistakes are reported as %v", err)
	}
	text = "size: 4GB\n"
	expect("", "profile", `{"profile":"50","size":"4GB"}`)
	text = "profile: 50\n"
	expect("size", "", `{"profile":"50"}`)
}

// A list of targets: what a mapping does not say is that of the keys beside the list.
func TestTargets(t *testing.T) {
	text := `remote-write-job: all
remote-write-header: ["X-Scope-OrgID: one"]
remote-write:
  - https://a.example/w
  - url: https://b.example/w
    name: second
    each: 5s
    header: ["X-Scope-OrgID: two"]
    user: me
    password-file: /p
    label: [region=eu]
`
	var got Serving
	p := withConfig(&text, func(s Serving) { got = s })
	if status, _, errs := runProgram(t, p, []string{"serve"}); status != 0 {
		t.Fatal(errs)
	}
	if len(got.Targets) != 2 {
		t.Fatalf("%d targets", len(got.Targets))
	}
	a, b := got.Targets[0], got.Targets[1]
	if a.URL != "https://a.example/w" || a.Name != "a.example" || a.Job != "all" ||
		a.Headers["X-Scope-OrgID"] != "one" || a.Interval != 15*measure.Second ||
		a.BasicAuth.Username != "" {
		t.Errorf("the first is %+v", a)
	}
	if b.URL != "https://b.example/w" || b.Name != "second" || b.Job != "all" ||
		len(b.Headers) != 1 || b.Headers["X-Scope-OrgID"] != "two" ||
		b.Interval != 5*measure.Second || b.BasicAuth.Username != "me" ||
		b.BasicAuth.PasswordFile != "/p" || b.ExternalLabels["region"] != "eu" {
		t.Errorf("the second is %+v", b)
	}
	passed, first := string(got.Config.Passed), got.Targets
	runProgram(t, withConfig(&passed, func(s Serving) { got = s }), []string{"serve"})
	if !reflect.DeepEqual(first, got.Targets) {
		t.Errorf("a process has %+v, its supervisor %+v", got.Targets, first)
	}
	if status, _, errs := runProgram(t, p, []string{
		"serve", "--remote-write", "https://c.example/w",
	}); status != 0 || len(got.Targets) != 1 || got.Targets[0].URL != "https://c.example/w" {
		t.Errorf("a flag: %s, %+v", errs, got.Targets)
	}
	_, out, _ := runProgram(t, p, []string{"config", "show"})
	if want := "https://b.example/w name=second each=5s header=X-Scope-OrgID: *** user=me " +
		"password-file=/p label=region=eu"; !strings.Contains(out, want) {
		t.Errorf("shown:\n%s\nwant %s", out, want)
	}
}

func TestMistakesOfTargets(t *testing.T) {
	for text, want := range map[string]string{
		"remote-write: [a]":         "1:16: remote-write[0]: not the address of",
		"remote-write:\n- url: a":   "2:8: remote-write[0].url: not the address of",
		"remote-write:\n- each: 5s": "2:3: remote-write[0].url is missing",
		"remote-write:\n- url: https://a/\n  eech: 5s": "3:3: there is no key " +
			"remote-write[0].eech; did you mean each?",
		"remote-write:\n- url: https://a/\n  each: 7s": "3:9: remote-write[0].each: 7s: use",
		"remote-write:\n- url: https://a/\n  user: me": "2:3: ",
		"remote-write:\n- https://a/\n- https://a/":    "2:1: remote-write",
	} {
		p := withConfig(&text, func(Serving) { t.Errorf("%s: it was accepted", text) })
		status, _, errs := runProgram(t, p, []string{"serve"})
		if status != 2 || !strings.HasPrefix(errs, "culprit: culprit.yaml:"+want) {
			t.Errorf("%s: status %d, %q, want %q", text, status, errs, want)
		}
	}
}

// golden compares a part of a file of the tree with what the table of settings makes.
func golden(t *testing.T, path, want string, part *regexp.Regexp) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !*updateConfig {
		t.Fatal(err)
	}
	got := string(b)
	if part != nil {
		want = part.ReplaceAllLiteralString(got, want)
		if !part.MatchString(got) {
			t.Fatalf("%s has no place for the table", path)
		}
	}
	if *updateConfig {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != want {
		t.Errorf("%s differs from the settings: run go test ./view/term -run Golden -update", path)
	}
}

func TestGoldenConfig(t *testing.T) {
	golden(t, "../../packaging/culprit.yaml", exampleConfig(), nil)
	golden(t, "../../docs/CONFIGURATION.md", configTable(),
		regexp.MustCompile(`(?s)\| key \| value \|.*?\|\n(?:\n|$)`))
}

// The example is valid as it is, and with all keys.
func TestExampleIsValid(t *testing.T) {
	text := exampleConfig()
	p := withConfig(&text, nil)
	if status, _, errs := runProgram(t, p, []string{"config", "check"}); status != 0 {
		t.Error(errs)
	}
	text = regexp.MustCompile(`(?m)^#([a-z-]+:)`).ReplaceAllString(text, "$1")
	// A token file and a password exclude each other.
	text = regexp.MustCompile(`(?m)^remote-write-token-file.*`).ReplaceAllString(text, "")
	status, out, errs := runProgram(t, p, []string{"config", "check"})
	if want := "/etc/culprit/culprit.yaml is valid: 39 keys are set\n"; status != 0 || out != want {
		t.Errorf("%q %s", out, errs)
	}
}
