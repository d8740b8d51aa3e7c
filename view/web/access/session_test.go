package access

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/heapbound"
	"culprit/measure"
)

// clock is a time that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func openTestSessions(t *testing.T, path string) (*Sessions, *clock) {
	t.Helper()
	s, c := OpenSessions(path, 3*time.Hour, 7*time.Hour), &clock{time.Unix(1_800_000_000, 0)}
	s.now = c.now
	return s, c
}

// request returns a request of a browser.
func request() *http.Request {
	r := httptest.NewRequest("GET", "http://localhost/", nil)
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko Firefox/128.0")
	return r
}

// A session ends when it is idle, and at its absolute end however it is used.
func TestSessionEnds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []time.Duration // between requests
		lives bool
	}{
		{"just used", []time.Duration{0}, true},
		{"before the idle end", []time.Duration{3*time.Hour - time.Nanosecond}, true},
		{"at the idle end", []time.Duration{3 * time.Hour}, false},
		{"used, before the absolute end", []time.Duration{2 * time.Hour, 2 * time.Hour, 2 * time.Hour}, true},
		{"used, at the absolute end", []time.Duration{2 * time.Hour, 2 * time.Hour, 3 * time.Hour}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c := openTestSessions(t, "")
			one, cookie := s.begin("ann", sumOf("x"), request(), "::1", nil)
			lives := true
			for _, step := range tt.steps {
				c.at = c.at.Add(step)
				lives = s.lives(one) && s.find(cookie, true) == one
			}
			if lives != tt.lives {
				t.Errorf("lives is %v", lives)
			}
			listed := len(s.List(func(Session) bool { return true }))
			if listed == 1 != tt.lives {
				t.Errorf("%d are listed", listed)
			}
		})
	}
}

// A restart keeps sessions with their secrets, and the file contains no secret.
func TestSessionsOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions")
	s, c := openTestSessions(t, path)
	one, cookie := s.begin("ann", sumOf("x"), request(), "192.0.2.7", nil)
	secret, ok := s.exchange(one, s.issueCode(one))
	if !ok {
		t.Fatal("the code is refused")
	}
	b, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(b), secret) || strings.Contains(string(b), cookie) {
		t.Errorf("%v %s", err, b)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	s2, c2 := openTestSessions(t, path)
	c2.at = c.at.Add(time.Hour)
	two := s2.find(cookie, true)
	if two == nil || !s2.proves(two, secret) || s2.proves(two, secret[1:]) || s2.proves(two, "") {
		t.Fatalf("%+v", two)
	}
	want := Session{
		ID: one.ID, Token: "ann", Browser: "Firefox on Linux", From: "192.0.2.7",
		Made: measure.Time(c.at.UnixNano()), Used: measure.Time(c2.at.UnixNano()),
	}
	if two.Session != want {
		t.Errorf("%+v, want %+v", two.Session, want)
	}
	if n, err := s2.Revoke(func(Session) bool { return true }); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if s3, _ := openTestSessions(t, path); s3.find(cookie, true) != nil {
		t.Error("a session that was ended is back")
	}
}

// A code is too old after a minute.
func TestCodeLifetime(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after time.Duration
		want  bool
	}{
		{"before", codeLifetime - time.Nanosecond, true},
		{"at the end", codeLifetime, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c := openTestSessions(t, "")
			one, _ := s.begin("", sumOf("x"), request(), "", nil)
			code := s.issueCode(one)
			c.at = c.at.Add(tt.after)
			if _, ok := s.exchange(one, code); ok != tt.want {
				t.Errorf("accepted is %v", ok)
			}
		})
	}
}

// A token has maxSessions sessions: the one that was idle longest ends, and none of another token.
func TestSessionLimit(t *testing.T) {
	s, c := openTestSessions(t, "")
	other, _ := s.begin("ben", sumOf("y"), request(), "", nil)
	var cookies []string
	for range maxSessions {
		c.at = c.at.Add(time.Second)
		_, cookie := s.begin("ann", sumOf("x"), request(), "", nil)
		cookies = append(cookies, cookie)
	}
	c.at = c.at.Add(time.Second)
	if s.find(cookies[0], true) == nil { // used: the second is now idle longest
		t.Fatal("the first has ended")
	}
	s.begin("ann", sumOf("x"), request(), "", nil)
	if s.find(cookies[0], false) == nil || s.find(cookies[1], false) != nil ||
		s.find(cookies[2], false) == nil || !s.lives(other) {
		t.Error("another session has ended than the one that was idle longest")
	}
	if n := len(s.List(func(one Session) bool { return one.Token == "ann" })); n != maxSessions {
		t.Errorf("%d sessions", n)
	}
}

// A damaged or planted file contains no session, and Trouble says so. The next login writes it
// again.
func TestBadSessionFile(t *testing.T) {
	good := filepath.Join(t.TempDir(), "sessions")
	s, _ := openTestSessions(t, good)
	_, cookie := s.begin("ann", sumOf("x"), request(), "", nil)
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, text, want string
		mode             os.FileMode
	}{
		{"cut", string(text[:len(text)/2]), "unexpected end", 0o600},
		{"others may write", string(text), "other users may write", 0o622},
		{"a short sum", strings.Replace(string(text), `"token_sha256": "`, `"token_sha256": "0`, 1), "64 hexadecimal", 0o600},
		{"a bad name", strings.Replace(string(text), `"ann"`, `"a b"`, 1), "has ' '", 0o600},
		{"a bad time", strings.Replace(string(text), `"made_ms": 1`, `"made_ms": -1`, 1), "time that can't be", 0o600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sessions")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			s, _ := openTestSessions(t, path)
			if s.find(cookie, true) != nil {
				t.Error("the session is accepted")
			}
			if err := s.Trouble(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("trouble %v", err)
			}
			if s.begin("ben", sumOf("y"), request(), "", nil); s.Trouble() != nil {
				t.Errorf("after a login: %v", s.Trouble())
			}
		})
	}
	s, _ = openTestSessions(t, good)
	if s.find(cookie, true) == nil || s.Trouble() != nil {
		t.Errorf("the good file is refused: %v", s.Trouble())
	}
}

// Sessions that can't be written work until the end of the process.
func TestFullDisk(t *testing.T) {
	s, _ := openTestSessions(t, filepath.Join(t.TempDir(), "gone", "sessions"))
	_, cookie := s.begin("ann", sumOf("x"), request(), "", nil)
	if s.find(cookie, true) == nil || s.Trouble() == nil {
		t.Errorf("trouble %v", s.Trouble())
	}
}

func TestBrowserOf(t *testing.T) {
	for agent, want := range map[string]string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36":           "Chrome on Windows",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36 Edg/126.0": "Edge on Windows",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 Version/17.5 Safari/605.1.15":    "Safari on macOS",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit Version/17.5 Mobile Safari/604": "Safari on iOS",
		"Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/126.0 Mobile Safari/537.36":              "Chrome on Android",
		"curl/8.5.0": "curl",
		"\x1b[31m":   "a browser",
		"":           "a browser",
	} {
		t.Run(want, func(t *testing.T) {
			if got := browserOf(agent); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// A file of sessions that is accepted can be written and read again.
func FuzzSessions(f *testing.F) {
	sum := strings.Repeat("0f", 32)
	f.Add([]byte(`[{"token":"ann","browser":"curl","from":"::1","made_ms":1,"used_ms":2,` +
		`"cookie_sha256":"` + sum + `","token_sha256":"` + sum + `"}]`))
	f.Add([]byte(`[{"token":"ann"}]`))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		all, err := parseSessions(b)
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "sessions")
		if err := writeSessions(path, all); err != nil {
			t.Fatal(err)
		}
		again, err := readSessions(path)
		if err != nil || len(again) != len(all) {
			t.Fatalf("%d of %d: %v", len(again), len(all), err)
		}
		for i, one := range all {
			if *again[i] != *one {
				t.Errorf("%+v became %+v", one, again[i])
			}
		}
	})
}
