package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"culprit/measure"
	"culprit/remote"
	"culprit/view/web"
)

// TestRolesReachTheRecorder asks a server over HTTP with a token of each role. What a role may do
// passes the server and the recorder.
func TestRolesReachTheRecorder(t *testing.T) {
	needsTracing(t)
	dir := t.TempDir()
	s := start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0")
	address := s.waitForLine(t, "?token=", 20*time.Second)
	base, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	base.RawQuery = ""
	const script, sample = `{"text":"BEGIN { @ = count(); }"}`, `{"seconds":0.5}`
	// An idle machine has no sample.
	busy, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for busy.Err() == nil {
			runtime.Gosched()
		}
	}()
	for _, tt := range []struct {
		role, path, body string
		status           int
	}{
		{"metrics", "api/scripts", script, http.StatusForbidden},
		{"metrics", "api/profiles/take", sample, http.StatusForbidden},
		{"view", "api/scripts", script, http.StatusForbidden},
		{"view", "api/profiles/take", sample, http.StatusForbidden},
		{"profile", "api/scripts", script, http.StatusForbidden},
		{"profile", "api/profiles/take", sample, http.StatusOK},
		{"record", "api/scripts", script, http.StatusForbidden},
		{"record", "api/profiles/take", sample, http.StatusForbidden},
		{"trace", "api/scripts", script, http.StatusOK},
		{"trace", "api/profiles/take", sample, http.StatusOK},
	} {
		t.Run(tt.role+" "+tt.path, func(t *testing.T) {
			name := strings.ReplaceAll(tt.role+tt.path, "/", ".")
			status, out, errs := call(
				t, "tokens", "--dir", dir, "add", name, "--may", tt.role, "--print-token",
			)
			if status != 0 {
				t.Fatalf("status %d: %s", status, errs)
			}
			token, _, _ := strings.Cut(string(out), "\n")
			r, err := http.NewRequest(http.MethodPost, base.String()+tt.path,
				strings.NewReader(tt.body))
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
			defer res.Body.Close()
			if b, err := io.ReadAll(res.Body); res.StatusCode != tt.status {
				t.Errorf("status %d, want %d: %s, %v", res.StatusCode, tt.status, b, err)
			}
		})
	}
}

// The functions by which the server starts scripts and samples pass the role of the asker on.
func TestRoleOfAsker(t *testing.T) {
	c := remote.NewClient() // not connected: what may be done waits
	m := measuringOf(c, nil)
	for _, role := range []string{"", "view", "record", "root", "Trace"} {
		_, err := m.startScript(measure.Script{Name: "x", Text: "BEGIN{}", Role: role})
		if !errors.Is(err, measure.ErrDenied) {
			t.Errorf("a script with the role %q: %v", role, err)
		}
	}
	// A context without a request has no role.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := m.sample(ctx, web.Sampling{Hz: 1, For: measure.Second})
	if !errors.Is(err, measure.ErrDenied) {
		t.Errorf("a sampling without a role: %v", err)
	}
}
