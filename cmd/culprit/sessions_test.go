package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"culprit/view/term"

	"golang.org/x/sys/unix"
)

// loginAt opens the page of a server with a token, as a browser does, and returns its cookie.
func loginAt(t *testing.T, base, token string) *http.Cookie {
	t.Helper()
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Get(base + "?token=" + token)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		t.Fatalf("login: %s", res.Status)
	}
	return res.Cookies()[0]
}

// statusAt returns the status of a GET with a cookie; nil: none.
func statusAt(t *testing.T, address string, cookie *http.Cookie) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cookie != nil {
		r.AddCookie(cookie)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// TestSessions logs a browser in, restarts the server, and ends the session by the command.
func TestSessions(t *testing.T) {
	dir := t.TempDir()
	args := []string{"serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0"}
	c := start(t, nil, args...)
	base, token, _ := strings.Cut(c.waitForLine(t, "http://127.0.0.1:", 20*time.Second), "?token=")
	cookie := loginAt(t, base, token)
	if got := statusAt(t, base+"api/health", cookie); got != http.StatusOK {
		t.Errorf("after the login: status %d", got)
	}
	if got := statusAt(t, base+"-/healthy", nil); got != http.StatusOK {
		t.Errorf("healthy: status %d", got)
	}
	eventually(t, "ready", 20*time.Second, func() error {
		if got := statusAt(t, base+"-/ready", nil); got != http.StatusOK {
			return fmt.Errorf("status %d", got)
		}
		return nil
	})
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.end(t, 20*time.Second)

	c = start(t, nil, args...)
	base, _, _ = strings.Cut(c.waitForLine(t, "http://127.0.0.1:", 20*time.Second), "?token=")
	if got := statusAt(t, base+"api/health", cookie); got != http.StatusOK {
		t.Errorf("after a restart: status %d", got)
	}
	status, out, errs := call(t, "sessions", "--dir", dir)
	id := regexp.MustCompile(`(?m)^[0-9a-f]{16}\b`).FindString(string(out))
	if status != 0 || id == "" || !strings.Contains(string(out), "127.0.0.1") {
		t.Fatalf("sessions: status %d, %s%s", status, out, errs)
	}
	if status, out, errs := call(t, "sessions", "--dir", dir, "revoke", id); status != 0 ||
		string(out) != "ended "+id+"\n" {
		t.Errorf("revoke: status %d, %s%s", status, out, errs)
	}
	if got := statusAt(t, base+"api/health", cookie); got != http.StatusUnauthorized {
		t.Errorf("after it was ended: status %d", got)
	}
	if status, _, errs := call(t, "sessions", "--dir", dir, "revoke", id); status != 1 ||
		!strings.Contains(string(errs), "there is no session "+id) {
		t.Errorf("revoke again: status %d, %s", status, errs)
	}
	if status, out, _ := call(t, "sessions", "--dir", dir); status != 0 ||
		string(out) != "No browser is logged in.\n" {
		t.Errorf("none: status %d, %s", status, out)
	}
}

// terminal is a pseudo terminal: pts(4). What is written to it is in the output.
type terminal struct {
	theirs *os.File
	mu     sync.Mutex
	output bytes.Buffer
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &terminal{}
	p.theirs, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(p.theirs.Close(), ours.Close()) })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := ours.Read(buf)
			p.mu.Lock()
			p.output.Write(buf[:n])
			p.mu.Unlock()
			if err != nil { // the terminal is closed
				return
			}
		}
	}()
	return p
}

func (p *terminal) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// TestTokenInOutput compares what is printed to a terminal and to a pipe. Only a terminal gets a
// token, of the server or of `culprit tokens add`. One file of the directory has the server's.
func TestTokenInOutput(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name       string
		out, errs  bool // are terminals
		wantTokens bool
	}{
		{"pipes", false, false, false},
		{"errors to a terminal", false, true, false},
		{"output to a terminal", true, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := openTerminal(t)
			var pipe bytes.Buffer
			run := func(args ...string) *exec.Cmd {
				c := exec.Command(self, args...)
				c.Env = append(os.Environ(), asProgram+"=1", "TERM=xterm")
				c.Stdout, c.Stderr = io.Writer(&pipe), io.Writer(&pipe)
				if tt.out {
					c.Stdout = p.theirs
				}
				if tt.errs {
					c.Stderr = p.theirs
				}
				return c
			}
			c := run("serve", "--dir", dir, "--listen", "127.0.0.1:0", "--for", "1s")
			if err := c.Run(); err != nil {
				t.Fatalf("%v: %s%s", err, pipe.String(), p.text())
			}
			b, err := os.ReadFile(filepath.Join(dir, "token"))
			if err != nil {
				t.Fatal(err)
			}
			token := strings.TrimSpace(string(b))
			printed := func(in string) bool { return strings.Contains(in, token) }
			if printed(pipe.String()) {
				t.Error("the token is in the pipe")
			}
			if tt.wantTokens {
				eventually(t, "the token is on the terminal", 5*time.Second, func() error {
					if !printed(p.text()) {
						return errors.New(p.text())
					}
					return nil
				})
			} else if printed(p.text()) {
				t.Error("the token is on the terminal of the errors")
			}
			err = run("tokens", "--dir", dir, "add", "ann", "--may", "trace").Run()
			if (err == nil) != tt.wantTokens {
				t.Errorf("tokens add: %v", err)
			}
			if regexp.MustCompile(`[0-9a-f]{48}`).MatchString(pipe.String()) {
				t.Errorf("a token is in the pipe: %s", pipe.String())
			}
			checkNoSecret(t, dir, token)
		})
	}
}

// checkNoSecret checks that no file of a directory contains a token, but the file token.
func checkNoSecret(t *testing.T, dir, token string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || path == filepath.Join(dir, "token") {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(token)) {
			t.Errorf("%s contains the token", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRoleMetrics scrapes a server with tokens of two roles: a command line, a user and the address
// of a peer are in the answers of one and not in those of the other.
func TestRoleMetrics(t *testing.T) {
	const mark = "culprit-test-of-a-command-line"
	sleeper := exec.Command("sh", "-c", "while :; do sleep 1; done # "+mark)
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(sleeper.Process.Kill(), sleeper.Wait()) })
	dir := t.TempDir()
	c := start(t, nil, "serve", "--command-lines", "--print-token", "--dir", dir,
		"--listen", "127.0.0.1:0")
	base, _, _ := strings.Cut(c.waitForLine(t, "http://127.0.0.1:", 20*time.Second), "?token=")
	secret := map[string]string{}
	for _, role := range []string{"view", "metrics"} {
		token, err := tokensFile{dir}.Add(term.Token{Name: role, May: role})
		if err != nil {
			t.Fatal(err)
		}
		secret[role] = token
	}
	get := func(role, path string) (status int, text string) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+secret[role])
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	paths := []string{
		"api/v1/query?query=culprit_process_info",
		"api/v1/series?match[]=culprit_process_info", "api/v1/label/command/values",
	}
	for _, path := range paths {
		eventually(t, path+" has the command line for the role view", 30*time.Second, func() error {
			status, text := get("view", path)
			if status != http.StatusOK || !strings.Contains(text, mark) {
				return fmt.Errorf("status %d, %d bytes", status, len(text))
			}
			return nil
		})
		status, text := get("metrics", path)
		if status != http.StatusOK || strings.Contains(text, mark) {
			t.Errorf("%s for the role metrics: status %d, %.300s", path, status, text)
		}
	}
	hidden := regexp.MustCompile(`"?\b(command|user|peer|peerport|client)"?\s*[=:]`)
	for path, want := range map[string]string{
		"metrics": "culprit_cpu_time", "api/v1/query?query={__name__=~\"culprit_.*\"}": "culprit_process",
	} {
		eventually(t, path+" has "+want+" for the role metrics", 30*time.Second, func() error {
			status, text := get("metrics", path)
			if found := hidden.FindString(text); found != "" {
				t.Errorf("%s for the role metrics contains %q", path, found)
			}
			if status != http.StatusOK || !strings.Contains(text, want) {
				return fmt.Errorf("status %d, %.300s", status, text)
			}
			return nil
		})
	}
	for _, path := range []string{"api/ask?q=process.info", "api/health", ""} {
		if status, _ := get("metrics", path); status != http.StatusForbidden {
			t.Errorf("/%s for the role metrics: status %d", path, status)
		}
	}
}
