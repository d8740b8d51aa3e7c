package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// TestProfilesLeave runs a server beside a busy process. A receiver by Pyroscope's API gets a
// profile of it each 15 s, and the address for scrapers has it too.
func TestProfilesLeave(t *testing.T) {
	t.Parallel()
	needsTracing(t)
	busy := exec.Command("sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = busy.Process.Kill()
		_ = busy.Wait()
	})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	got := map[string]*profile.Profile{} // by name
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := profile.Parse(io.LimitReader(r.Body, 16<<20))
		if err != nil || r.URL.Path != "/ingest" || r.FormValue("format") != "pprof" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got[r.FormValue("name")] = p
	}))
	defer hub.Close()
	c := start(t, nil, "serve", "--print-token", "--dir", t.TempDir(), "--listen", "127.0.0.1:0",
		"--pyroscope", hub.URL)
	base, token, ok := strings.Cut(c.waitForLine(t, "http://127.0.0.1:", 30*time.Second), "?token=")
	if !ok {
		t.Fatal("the address has no token")
	}
	eventually(t, "a profile of sh", time.Minute, func() error {
		mu.Lock()
		defer mu.Unlock()
		err := hasBusyShell(got["culprit{service_name=sh,instance="+host+"}"], 15*time.Second)
		if err != nil {
			err = fmt.Errorf("%w; there are %v", err, slices.Sorted(maps.Keys(got)))
		}
		return err
	})
	r, err := http.NewRequest(http.MethodGet, base+"debug/pprof/profile?seconds=2", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("x", token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	p, err := profile.Parse(res.Body)
	if err == nil {
		err = hasBusyShell(p, 2*time.Second)
	}
	if err != nil {
		t.Errorf("%s: %v", res.Status, err)
	}
}

// hasBusyShell returns an error unless a profile of about a time has a shell that runs for at least
// a tenth of it.
func hasBusyShell(p *profile.Profile, over time.Duration) error {
	if p == nil {
		return errors.New("there is none")
	}
	ran := time.Duration(0)
	for _, s := range p.Sample {
		if fmt.Sprint(s.Label["process"]) == "[sh]" {
			ran += time.Duration(s.Value[1])
		}
	}
	taken := time.Duration(p.DurationNanos)
	if taken < over*9/10 || taken > over*11/10 || ran < over/10 {
		return fmt.Errorf("sh ran for %v of %v", ran, taken)
	}
	return nil
}
