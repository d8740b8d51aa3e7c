package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestTokenForServer checks the order of precedence: the token of the address, that of the host,
// the one without a host.
func TestTokenForServer(t *testing.T) {
	for _, c := range [][3]string{
		{"https://a:7410/?token=own", "a=other,all", "own"},
		{"https://a:7410/", "a=of-a,b=of-b,all", "of-a"},
		{"https://b:7410/", "a=of-a, b:7410=of-b, all", "of-b"},
		{"https://b:7411/", "a=of-a,b:7410=of-b,all", "all"},
		{"https://c:7410/", "a=of-a", ""},
		{"https://c:7410/", "", ""},
	} {
		u, err := url.Parse(c[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := tokenFor(u, c[1]); got != c[2] {
			t.Errorf("%s with %q: %q, not %q", c[0], c[1], got, c[2])
		}
	}
}

// checkHostsTool checks `culprit hosts`: a row with numbers per host, and a row with the reason for
// a host that does not answer.
func checkHostsTool(t *testing.T, tokens, slow, fast string) {
	t.Helper()
	t.Setenv("CULPRIT_TOKEN", tokens)
	file := filepath.Join(t.TempDir(), "hosts")
	text := "# those that run\n" + slow + "\n\n" + fast + " # and one more\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const nobody = "http://127.0.0.1:1/"
	eventually(t, "both report", 30*time.Second, func() error {
		status, out, errs := call(t, "hosts", nobody, "2", "1", "--file", file, "--json")
		if status != 0 {
			return fmt.Errorf("status %d, %s", status, errs)
		}
		var answer struct {
			Rows []struct {
				Host, Address, Silent string
				CPU                   *float64 `json:"cpu_util"`
			}
		}
		if err := json.Unmarshal(out, &answer); err != nil || len(answer.Rows) != 3 {
			t.Fatalf("%s: %v", out, err)
		}
		if r := answer.Rows[0]; r.Address != nobody || r.CPU != nil ||
			!strings.Contains(r.Silent, "connection refused") {
			t.Fatalf("a host that does not answer: %+v", r)
		}
		for i, want := range []string{slow, fast} {
			switch r := answer.Rows[i+1]; {
			case r.Address != want || strings.Contains(string(out), "token"):
				t.Fatalf("%+v is not %s", r, want)
			case r.CPU == nil:
				return fmt.Errorf("%s does not answer: %s", r.Address, r.Silent)
			case *r.CPU <= 0 || *r.CPU > 1:
				t.Fatalf("%s has %g of its CPUs used", r.Address, *r.CPU)
			}
		}
		return nil
	})
	for text, args := range map[string][]string{
		"is given twice":                   {slow, "--file", file},
		"takes the addresses":              {"5"},
		"neither an address":               {slow, "x"},
		"line 2: \"b\" is not the address": {"--file", filepath.Join(filepath.Dir(file), "wrong")},
		"whole number":                     {slow, "0.5"},
	} {
		wrong := filepath.Join(filepath.Dir(file), "wrong")
		if err := os.WriteFile(wrong, []byte("\nb\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if status, _, errs := call(t, append([]string{"hosts"}, args...)...); status != 2 ||
			!strings.Contains(string(errs), text) {
			t.Errorf("%v: status %d, %s", args, status, errs)
		}
	}
	if status, _, errs := call(t, "hosts", nobody); status != 1 ||
		!strings.Contains(string(errs), "no host answered") {
		t.Errorf("no host answers: status %d, %s", status, errs)
	}
}

// TestHostsCompared compares the samples of two servers over the network with their tokens, and
// those of one with a file that the other made. The servers sample the same machine at different
// rates, so normalised values must be equal.
func TestHostsCompared(t *testing.T) {
	needsTracing(t)
	var remoteWrites atomic.Int64 // requests; view/prom tests their content
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err == nil && len(b) > 100 &&
			r.URL.Path == "/api/v1/write" &&
			r.Header.Get("Authorization") == "Bearer its" {
			remoteWrites.Add(1)
		}
	}))
	defer receiver.Close()
	address := func(hz int) (bare, token string) {
		c := start(
			t, []string{"CULPRIT_REMOTE_WRITE_TOKEN=its"}, "serve", "--print-token", "--dir", t.TempDir(),
			"--listen", "127.0.0.1:0", "--profile", strconv.Itoa(hz), "--remote-write",
			receiver.URL+"/api/v1/write", "--remote-write-each", "5s",
		)
		bare, token, ok := strings.Cut(c.waitForLine(t, "?token=", time.Minute), "?token=")
		if !ok {
			t.Fatal("it has no token")
		}
		return bare, token
	}
	slow, slowToken := address(49)
	fast, fastToken := address(197)
	hostOf := func(address string) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		return u.Host
	}
	over, withoutSeventy := atomic.Bool{}, atomic.Bool{}
	go func() {
		for !over.Load() {
			if !withoutSeventy.Load() {
				burnSeventy(1000)
			}
			burnThirty(1000)
		}
	}()
	defer over.Store(true)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(tokens string, args ...string) (out, errs string, failed error) {
		var said strings.Builder
		c := exec.Command(
			self,
			append([]string{"profile", "--pid", strconv.Itoa(os.Getpid())}, args...)...)
		c.Env = append(os.Environ(), asProgram+"=1", "CULPRIT_TOKEN="+tokens)
		c.Stderr = &said
		b, err := c.Output()
		return string(b), said.String(), err
	}
	tokens := hostOf(slow) + "=" + slowToken + "," + fastToken
	checkHostsTool(t, tokens, slow, fast)
	type comparison struct {
		Said      string `json:"normalisation"`
		Per       string `json:"normalised_per"`
		Functions []struct {
			Function string
			Before   float64 `json:"total_before"`
			After    float64 `json:"total_after"`
		}
	}
	// change returns the ratio of a function's value after to that before.
	change := func(out, function string) (got comparison, ratio float64, err error) {
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			return got, 0, fmt.Errorf("%w: %s", err, out)
		}
		for _, f := range got.Functions {
			if strings.Contains(f.Function, function) {
				return got, f.After / f.Before, nil
			}
		}
		return got, 0, fmt.Errorf("%s is not in %s", function, out)
	}
	eventually(t, "both have equal values", 2*time.Minute, func() error {
		out, errs, err := ask(
			tokens, "--server", fast, "--diff", slow, "--from", "-15s", "--json", "-n", "0",
		)
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		got, ratio, err := change(out, "burnSeventy")
		if err != nil {
			return err
		}
		for _, want := range []string{"Before: the server at " + slow, "After: the server at " + fast, "Normalised per CPU-second", "Before was sampled 49 times per second, after 197"} {
			if !strings.Contains(got.Said, want) {
				t.Fatalf("%q is not in %q", want, got.Said)
			}
		}
		if strings.Contains(out+errs, fastToken) || strings.Contains(out+errs, slowToken) {
			t.Fatalf("a token is printed: %s%s", out, errs)
		}
		if ratio < 0.6 || ratio > 1.7 {
			return fmt.Errorf("the ratio is %.2f, want about 1: %s", ratio, out)
		}
		return nil
	})
	eventually(t, "remote write sends requests", 30*time.Second, func() error {
		if n := remoteWrites.Load(); n < 4 {
			return fmt.Errorf("%d requests", n)
		}
		return nil
	})
	// A file made from the other server, with the token in the address.
	file := filepath.Join(t.TempDir(), "then.folded")
	if _, errs, err := ask("", "--server", slow+"?token="+slowToken, "--from", "-10s", "-o", file); err != nil {
		t.Fatal(errs)
	}
	withoutSeventy.Store(true)
	began := time.Now()
	eventually(t, "burnSeventy disappears", 2*time.Minute, func() error {
		seconds := max(2, int(time.Since(began).Seconds()))
		out, errs, err := ask(
			fastToken, "--server", fast, "--at", "now", "--for", strconv.Itoa(min(seconds, 8)),
			"--diff", file, "--json", "-n", "0",
		)
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		got, ratio, err := change(out, "burnSeventy")
		if err != nil {
			return err
		}
		if got.Per != "sample" || !strings.Contains(errs, "shares are compared") ||
			!strings.Contains(errs, "is compared as it is") {
			t.Fatalf("normalised per %s: %s", got.Per, errs)
		}
		if _, more, err := change(out, "burnThirty"); err != nil || more < 1.5 || ratio > 0.3 {
			return fmt.Errorf(
				"the ratio of burnSeventy is %.2f, that of burnThirty %.2f: %w", ratio, more, err,
			)
		}
		return nil
	})
	for _, c := range []struct{ tokens, want, line string }{
		{"wrong", "not the token", "--at now --server " + fast},
		{tokens, "give --at, or --from and --to, too", "--server " + fast},
		{tokens, "exclude each other", "--at now --dir /tmp --server " + fast},
		{tokens, "is not the address of a server", "--at now --server localhost:7410"},
		{tokens, "is not a time, the address of a server or a file", "--at now --diff nowhere --server " + fast},
		{tokens, "--work", "--at now --work 1 --diff -5s --server " + fast},
		{tokens, "Normalised per unit of work", "--from -5s --work 10,20 --diff " + slow + " --server " + fast},
	} {
		out, errs, _ := ask(c.tokens, strings.Fields(c.line)...)
		if !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: %q is not printed: %s%s", c.line, c.want, out, errs)
		}
	}
}
