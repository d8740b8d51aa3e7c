package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/view/term"
)

// TestTokens adds, lists and removes tokens, and checks the messages for mistakes.
func TestTokens(t *testing.T) {
	dir := t.TempDir()
	run := func(want int, args ...string) (out, errs string) {
		t.Helper()
		if len(args) > 1 && args[0] == "add" {
			args = append(args, "--print-token")
		}
		status, o, e := call(t, append([]string{"tokens", "--dir", dir}, args...)...)
		if status != want {
			t.Errorf("%v: status %d, %s%s", args, status, o, e)
		}
		return string(o), string(e)
	}
	if _, errs := run(1, "add", "ann"); !strings.Contains(errs, "nothing was recorded in "+dir) {
		t.Errorf("without a recording: %s", errs)
	}
	if err := os.Mkdir(filepath.Join(dir, "archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, _ := run(0); !strings.Contains(out, "only the server's own token") {
		t.Errorf("none: %s", out)
	}
	status, o, e := call(t, "tokens", "--dir", dir, "add", "ann")
	if status != 2 || len(o) > 0 || !strings.Contains(string(e), "standard output is no terminal") {
		t.Errorf("a token in a file: status %d, %s%s", status, o, e)
	}
	out, _ := run(0, "add", "ann")
	token, _, _ := strings.Cut(out, "\n")
	if len(token) != 48 || !strings.Contains(out, "is the token of ann with the role view.") {
		t.Errorf("add: %s", out)
	}
	if out, _ := run(0, "add", "oncall", "--may", "trace", "--for", "7d"); !strings.Contains(
		out, "is the token of oncall with the role trace until 2",
	) {
		t.Errorf("add: %s", out)
	}
	for errs, args := range map[string][]string{
		`--may "trac" is none of metrics, view, profile, record, trace; did you mean trace?`: {"add", "ben", "--may", "trac"},
		`--for "7": give a time`:                 {"add", "ben", "--for", "7"},
		`--for "0.5s": give a time`:              {"add", "ben", "--for", "0.5s"},
		`tokens has no command "ad"; did you`:    {"ad"},
		"tokens add takes a name":                {"add"},
		"remove takes the names of tokens":       {"remove"},
		`--for "9999999y": give a time`:          {"add", "ben", "--for", "9999999y"},
		`unknown flag --mai; did you mean --may`: {"add", "ben", "--mai", "view"},
	} {
		if _, said := run(2, args...); !strings.Contains(said, errs) {
			t.Errorf("%v: %s", args, said)
		}
	}
	for errs, args := range map[string][]string{
		"there is a token for ann: remove it first": {"add", "ann"},
		`the name "b c" has ' '`:                    {"add", "b c"},
		`no token for "an"; did you mean ann?`:      {"remove", "an"},
	} {
		if _, said := run(1, args...); !strings.Contains(said, errs) {
			t.Errorf("%v: %s", args, said)
		}
	}
	out, _ = run(0)
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 3 ||
		!strings.HasPrefix(lines[1], "ann") || !strings.Contains(lines[1], "view") ||
		!strings.Contains(lines[1], "for ever") || !strings.Contains(lines[2], "trace") ||
		strings.Contains(out, token) {
		t.Errorf("list: %s", out)
	}
	if out, _ := run(0, "remove", "ann", "oncall"); out != "removed ann\nremoved oncall\n" {
		t.Errorf("remove: %s", out)
	}
}

// checkTokenAccess adds and removes a token of a running server. The server accepts it at once, for
// its role only, and refuses it once it is removed.
func checkTokenAccess(t *testing.T, dir, base string) {
	t.Helper()
	ask := func(token, method, path string) int {
		r, err := http.NewRequestWithContext(
			t.Context(), method, base+path, strings.NewReader("{}"),
		)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("X-Culprit", "1")
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	token, err := tokensFile{dir}.Add(term.Token{Name: "ann", May: "view"})
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(token, "GET", "api/health"); got != 200 {
		t.Errorf("a token for viewing: status %d, want 200", got)
	}
	if got := ask(token, "POST", "api/scripts"); got != 403 {
		t.Errorf("tracing with a token for viewing: status %d, want 403", got)
	}
	if err := (tokensFile{dir}).Remove("ann"); err != nil {
		t.Fatal(err)
	}
	if got := ask(token, "GET", "api/health"); got != 401 {
		t.Errorf("a removed token: status %d, want 401", got)
	}
}
