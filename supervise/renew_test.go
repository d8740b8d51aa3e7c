package supervise

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// behaveByFile is what the main process does when it has a file: it notifies its content. It ends
// when it is to leave, at SIGTERM, or at once with an error if the file is bad.
func behaveByFile(c *Control) {
	b, err := io.ReadAll(io.NewSectionReader(c.Files[0], 0, 100))
	if err != nil {
		os.Exit(9)
	}
	_ = c.Notify("file " + string(b))
	if string(b) == "bad" {
		_ = c.Exit(3)
		os.Exit(3)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGTERM)
	c.Leave = func() { ended <- unix.SIGHUP }
	go func() {
		for {
			if _, err := c.Peer(); err != nil {
				return
			}
		}
	}()
	<-ended
	_ = c.Notify("STOPPING=1")
	_ = c.Exit(5)
	os.Exit(5)
}

// textFile returns a file with a text.
func textFile(t *testing.T, text string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// renewable runs a supervisor whose main process has a file, and waits for it.
func renewable(t *testing.T) (s *supervised, waitFor func(files ...string)) {
	t.Helper()
	s = supervise(t, "", "", func(s *Supervisor) {
		s.Processes[1].Files = []*os.File{textFile(t, "one")}
	})
	waitFor = func(files ...string) {
		t.Helper()
		eventually(t, fmt.Sprint(files), func() bool {
			return slices.Equal(s.notes.with("file "), files)
		})
	}
	waitFor("file one")
	return s, waitFor
}

// Renew replaces the main process and its file; systemd hears of a reload and not of an end.
func TestRenew(t *testing.T) {
	s, waitFor := renewable(t)
	s.Renew(0, textFile(t, "two"))
	waitFor("file one", "file two")
	s.Renew(0, textFile(t, "three"))
	waitFor("file one", "file two", "file three")
	if got := s.notes.with("RELOADING=1\nMONOTONIC_USEC="); len(got) != 2 {
		t.Errorf("it notified %q", s.notes.with(""))
	}
	if got := s.notes.with("STOPPING"); len(got) != 0 {
		t.Errorf("it notified %q", got)
	}
	if status := s.end(t); status != 5 {
		t.Errorf("the exit status is %d, want that of the main process", status)
	}
	if got := s.notes.with("STOPPING"); len(got) != 1 {
		t.Errorf("at its end it notified %q", got)
	}
	if all := s.reports.with(""); len(all) > 0 {
		t.Errorf("reports %q", all)
	}
}

// A main process that ends with an error is started with its previous file.
func TestRenewWithMistake(t *testing.T) {
	s, waitFor := renewable(t)
	s.Renew(0, textFile(t, "bad"))
	waitFor("file one", "file bad", "file one")
	got := strings.Join(s.reports.with(""), ", ")
	if got != "the main does not run with the new configuration: the old one stays in use" {
		t.Errorf("reports %q", got)
	}
	s.Renew(0, textFile(t, "two"))
	waitFor("file one", "file bad", "file one", "file two")
	if status := s.end(t); status != 5 {
		t.Errorf("the exit status is %d, want that of the main process", status)
	}
}
