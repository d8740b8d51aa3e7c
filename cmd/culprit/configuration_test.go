package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"culprit/measure"
	"culprit/trusted"
)

// TestReadConfig reads files that the caller may trust, and others.
func TestReadConfig(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "culprit.yaml")
	write := func(t *testing.T, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte("size: 3GB\n"), 0o600),
			os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	var s serverProcesses
	if _, err := s.readConfig(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
	for mode, readable := range map[os.FileMode]bool{0o640: false, 0o644: true} {
		write(t, mode)
		c, err := s.readConfig(path)
		if err != nil || string(c.Text) != "size: 3GB\n" || c.Readable != readable {
			t.Errorf("mode %o: %+v, %v", mode, c, err)
		}
	}
	link := filepath.Join(dir, "link.yaml")
	if err := os.Symlink("culprit.yaml", link); err != nil {
		t.Fatal(err)
	}
	if c, err := s.readConfig(link); err != nil || c.Name != link {
		t.Errorf("by a link: %+v, %v", c, err)
	}
	for _, mode := range []os.FileMode{0o660, 0o602} {
		write(t, mode)
		var e *trusted.Error
		if _, err := s.readConfig(path); !errors.As(err, &e) ||
			!strings.Contains(err.Error(), "other users may write to it: chmod go-w "+path) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	write(t, 0o600)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := s.readConfig(path); err == nil || !strings.Contains(err.Error(), dir+" is not trusted") {
		t.Errorf("in a directory that others may change: %v", err)
	}
}

// TestReloadConfig changes the configuration of a running server. The server is renewed, the
// recorder goes on, and no second is lost. The new server may connect to another port.
func TestReloadConfig(t *testing.T) {
	var samples atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body) // a short body is no sample
		samples.Add(n)
	}))
	defer receiver.Close()
	dir, config := t.TempDir(), filepath.Join(t.TempDir(), "c.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("size: 64MB\nlisten: 127.0.0.1:0\nprofile: off\n")
	c := start(t, nil, "serve", "--print-token", "--dir", dir, "--config", config)
	c.waitForLine(t, "?token=", 20*time.Second)
	before := children(t, c.Process.Pid)
	const query = "cpu.time by mode"
	began := now().Add(2 * measure.Second)
	began -= began % measure.Time(measure.Second)
	recordedUntil(t, dir, query, began, began.Add(2*measure.Second))
	hangup := func(want string) {
		t.Helper()
		if err := c.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		c.waitForLine(t, want, 20*time.Second)
	}

	write("size: 64MB\nlisten: 127.0.0.1:0\nprofile: off\nsise: 3GB\n")
	hangup(config + ":4:1: there is no key sise; did you mean size?: the old configuration stays")
	write("size: 64MB\nlisten: 127.0.0.1:0\nprofile: 49\n")
	hangup("needs a restart, and keeps the old values: profile")
	if after := children(t, c.Process.Pid); after["culprit-server"] != before["culprit-server"] {
		t.Errorf("nothing has changed: the processes are %v, were %v", after, before)
	}

	write("size: 64MB\nlisten: 127.0.0.1:0\nprofile: off\nremote-write-each: 1s\n" +
		"remote-write: " + receiver.URL + "\n")
	hangup("the configuration was read again: remote-write, remote-write-each")
	eventually(t, "the server is renewed", 30*time.Second, func() error {
		after := children(t, c.Process.Pid)
		if after["culprit-server"] == before["culprit-server"] || after["culprit-server"] == 0 {
			return fmt.Errorf("the processes are %v, were %v", after, before)
		}
		return nil
	})
	eventually(t, "samples are sent", 30*time.Second, func() error {
		if samples.Load() == 0 {
			return errors.New("none")
		}
		return nil
	})
	a := recordedUntil(t, dir, query, began, now().Add(2*measure.Second))
	checkComplete(t, a)
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
