package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// startFull starts a shell that has all but a few of its file descriptors open: a fault that the
// rule limit-reached finds in ten seconds, whatever else the machine does.
func startFull(t *testing.T) int {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs: tool bash")
	}
	c := exec.Command("bash", "-c", `ulimit -n 30
		for i in {3..29}; do eval "exec $i</dev/null"; done 2>/dev/null
		while read -r; do :; done`)
	in, err := c.StdinPipe() // its end ends the shell
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	})
	return c.Process.Pid
}

// TestFindingsLeave runs a server on a machine with a fault. The finding arrives at a webhook with
// the token of a file, at an Alertmanager, in the log, and in Prometheus's API, there without texts
// for the role metrics.
func TestFindingsLeave(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{} // bodies by path and Authorization
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path+" "+r.Header.Get("Authorization")] += string(b)
	}))
	defer hook.Close()
	pid, dir := startFull(t), t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := "limit-reached/files:bash"
	c := start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0",
		"--webhook", hook.URL+"/hook#token-file="+secret, "--alertmanager", hook.URL)
	base, token, ok := strings.Cut(c.waitForLine(t, "http://127.0.0.1:", 30*time.Second), "?token=")
	if !ok {
		t.Fatal("the address has no token")
	}
	line := c.waitForLine(t, `"id":"`+id+`"`, time.Minute)
	var e struct {
		Format                 int
		Change, Rule, Instance string
		Claim                  string
	}
	if err := json.Unmarshal([]byte(line), &e); err != nil || e.Format != 1 ||
		e.Change != "appeared" || e.Rule != "limit-reached" || e.Instance == "" ||
		!strings.Contains(e.Claim, fmt.Sprintf("bash[%d] uses", pid)) {
		t.Errorf("the log has %s, %v", line, err)
	}
	for _, key := range []string{"/hook Bearer s3cret", "/api/v2/alerts "} {
		eventually(t, key+" has the finding", 10*time.Second, func() error {
			mu.Lock()
			defer mu.Unlock()
			if !strings.Contains(got[key], `"`+id+`"`) {
				return fmt.Errorf("got %v", got)
			}
			return nil
		})
	}
	status, out, errs := call(
		t, "tokens", "--dir", dir, "add", "scraper", "--may", "metrics", "--print-token")
	if status != 0 {
		t.Fatal(string(errs))
	}
	scraper, _, _ := strings.Cut(string(out), "\n")
	// The severity depends on whether calls fail meanwhile, which not every kernel reports.
	severities := map[string]bool{"low": true, "medium": true, "high": true}
	for _, tt := range []struct {
		role, token string
		texts       bool
	}{{"all", token, true}, {"metrics", scraper, false}} {
		t.Run(tt.role, func(t *testing.T) {
			labels, texts, err := alertOf(base+"api/v1/alerts", tt.token, id)
			if err != nil || labels["culprit"] != "bash" || labels["kind"] != "process" ||
				!severities[labels["severity"]] || labels["instance"] != e.Instance {
				t.Errorf("labels %v, %v", labels, err)
			}
			if has := texts["fix"] != "" && texts["claim"] == e.Claim; has != tt.texts {
				t.Errorf("texts %v", texts)
			}
		})
	}
}

// alertOf returns the labels and the annotations of the alert for a finding.
func alertOf(address, token, id string) (labels, texts map[string]string, err error) {
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	var got struct {
		Data struct {
			Alerts []struct{ Labels, Annotations map[string]string }
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		return nil, nil, err
	}
	for _, a := range got.Data.Alerts {
		if a.Labels["finding"] == id {
			return a.Labels, a.Annotations, nil
		}
	}
	return nil, nil, errors.New("no such alert")
}

// TestServeChecksAddresses shows that a wrong address and a missing file end the server at once,
// and that no message repeats a password.
func TestServeChecksAddresses(t *testing.T) {
	for _, tt := range []struct{ flag, value, want string }{
		{"--alertmanager", "am:9093", "--alertmanager: it needs a scheme and a host"},
		{"--webhook", "https://u:hunter2@h/", "--webhook: a password in an address can be seen"},
		{"--webhook", "http://10.9.8.7/#token-file=/x", "without encryption"},
		{"--webhook", "https://h/#tokenfile=/x", "did you mean token-file?"},
		{"--alertmanager", "http://127.0.0.1:1/#token-file=/nowhere", "stat /nowhere: no such file"},
		{"--log-findings", "of", "did you mean on?"},
	} {
		t.Run(tt.flag+" "+tt.value, func(t *testing.T) {
			c := start(t, nil, "serve", "--dir", t.TempDir(), "--listen", "127.0.0.1:0", tt.flag,
				tt.value)
			line := c.waitForLine(t, tt.want, 20*time.Second)
			if strings.Contains(line, "hunter2") {
				t.Error("the message has the password")
			}
			if status := c.end(t, 20*time.Second); status == 0 {
				t.Error("status 0")
			}
		})
	}
}
