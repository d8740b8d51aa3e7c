package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"culprit/export/remotewrite"
	"culprit/view/term"
)

// TestSecretFilesOfServing lists the files of all kinds of receivers and of the engine, once each.
func TestSecretFilesOfServing(t *testing.T) {
	o := term.Serving{
		Targets: []remotewrite.Target{
			{BearerTokenFile: "/b", TLS: remotewrite.TLS{CAFile: "/ca"}}, {BearerTokenFile: "/b"},
		},
		Export: term.Export{
			Alertmanagers: []string{"https://a#token-file=/alert"},
			Webhooks:      []string{"https://w#user=u&password-file=/hook"},
			Pyroscopes:    []string{"https://p#cert-file=/c&key-file=/k"},
		},
		Engine: term.EngineHost{URL: "https://e#ca-file=/ca", Options: []string{"basic-file=/basic"}},
	}
	want := []string{"/alert", "/b", "/basic", "/c", "/ca", "/hook", "/k"}
	if got := secretFiles(o); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSecretWatch changes a file as people and programs do: by halves, to nothing, again and again.
func TestSecretWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	target := remotewrite.Target{URL: "https://host/w", BearerTokenFile: path}
	if err := target.Check(); err != nil {
		t.Fatal(err)
	}
	w := newSecretWatch(term.Serving{Targets: []remotewrite.Target{target}})
	w.passed = []byte("{}")
	renewed := 0
	renew := func(index int, file *os.File) {
		b, err := io.ReadAll(io.NewSectionReader(file, 0, 10))
		if index != serverConfigFile || err != nil || string(b) != "{}" {
			t.Errorf("file %d is %q, %v", index, b, err)
		}
		_ = file.Close() // it was read
		renewed++
	}
	now := time.Now()
	for _, step := range []struct {
		does  string
		do    func()
		after time.Duration
		want  int // renewals so far
		says  string
	}{
		{"nothing", func() {}, secretPoll, 0, ""},
		{"half of a file", func() { write("tw") }, secretPoll, 0, ""},
		{"the rest", func() { write("two") }, secretPoll, 0, ""},
		{"no change", func() {}, secretPoll, 1, "were read again"},
		{"soon another", func() { write("three") }, secretPoll, 1, ""},
		{"it stays", func() {}, secretPoll, 1, ""},
		{"a minute later", func() {}, secretPause, 2, "were read again"},
		{"an empty file", func() { write("") }, secretPause, 2, ""},
		{"it stays empty", func() {}, secretPoll, 2, "is empty: the old secrets stay in use"},
		{"still", func() {}, secretPoll, 2, ""},
		{"the former text", func() { write("three") }, secretPoll, 2, ""},
		{"no file", func() { _ = os.Remove(path) }, secretPoll, 2, "the old secrets stay in use"},
		{"a new file", func() { write("four") }, secretPoll, 2, ""},
		{"it stays there", func() {}, secretPoll, 3, "were read again"},
	} {
		step.do()
		now = now.Add(step.after)
		line := w.look(now, renew)
		if renewed != step.want || !strings.Contains(line, step.says) ||
			(line == "") != (step.says == "") {
			t.Fatalf("%s: %d renewals, want %d; printed %q", step.does, renewed, step.want, line)
		}
	}
	write("five")
	if line := w.lookNow(now, renew); renewed != 4 || !strings.Contains(line, "read again") {
		t.Errorf("on a request: %d renewals, %q", renewed, line)
	}
}

// TestChangedToken changes the token of a running server: requests have the new one, and the
// recorder goes on.
func TestChangedToken(t *testing.T) {
	var mu sync.Mutex
	last := ""
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // its samples are not looked at
		mu.Lock()
		defer mu.Unlock()
		last = r.Header.Get("Authorization")
	}))
	defer receiver.Close()
	token := filepath.Join(t.TempDir(), "token")
	change := func(text string) {
		t.Helper()
		if err := os.WriteFile(token, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sends := func(want string) {
		t.Helper()
		eventually(t, "requests have "+want, time.Minute, func() error {
			mu.Lock()
			defer mu.Unlock()
			if last != want {
				return fmt.Errorf("the newest has %q", last)
			}
			return nil
		})
	}
	change("first")
	dir := t.TempDir()
	c := start(t, nil, "serve", "--print-token", "--dir", dir, "--config", "none", "--listen",
		"127.0.0.1:0", "--profile", "off", "--remote-write-each", "1s", "--remote-write",
		receiver.URL+"#token-file="+token)
	c.waitForLine(t, "?token=", 20*time.Second)
	sends("Bearer first")
	before := children(t, c.Process.Pid)
	change("second")
	if err := c.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	c.waitForLine(t, "files of secrets have changed, and were read again", 20*time.Second)
	sends("Bearer second")
	after := children(t, c.Process.Pid)
	if after["culprit-record"] != before["culprit-record"] {
		t.Errorf("the recorder was started again: %v, were %v", after, before)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := c.end(t, 20*time.Second); status != 0 {
		t.Errorf("ended by SIGTERM: status %d", status)
	}
}

// TestDigestOfFIFO: a file of secrets that is replaced by a FIFO does not stop the program.
func TestDigestOfFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := digestOf([]string{path})
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("reading a FIFO without a writer has not returned")
	}
}
