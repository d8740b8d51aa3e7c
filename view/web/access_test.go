package web

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"culprit/measure"
	"culprit/view/web/access"
)

// addToken adds a token to a file and returns its secret.
func addToken(t *testing.T, path, name string, may access.Role, until measure.Time) string {
	t.Helper()
	given, err := access.AddToken(
		path, access.Token{Name: name, May: may, Made: start, Ends: until},
	)
	if err != nil {
		t.Fatal(err)
	}
	return given
}

// A page that was opened with a token has its role by a cookie until the token is removed. Opening
// it with another token replaces the role.
func TestTokenInBrowser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	looks := addToken(t, path, "ann", access.RoleView, 0)
	traces := addToken(t, path, "cat", access.RoleTrace, 0)
	s := serve(t, newMemory(t), func(s *Server) {
		s.Tokens, s.Page = &access.Tokens{
			Path: path,
		}, fstest.MapFS{
			"index.html": {Data: []byte("the page")},
		}
	})
	open := func(given, cookie string) string {
		res := s.get("/?token="+given, "Authorization", "", "Cookie", cookie)
		if res.StatusCode != 303 || len(res.Cookies()) != 1 {
			t.Fatalf("%s %v", res.Status, res.Header)
		}
		c := res.Cookies()[0]
		if strings.Contains(c.Value, given) {
			t.Error("the cookie has the token")
		}
		return c.Name + "=" + c.Value
	}
	may := func(cookie string) string {
		res := s.get("/api/health", "Authorization", "", "Cookie", cookie)
		if res.StatusCode != 200 {
			_, _ = io.Copy(io.Discard, res.Body)
			return res.Status[:3]
		}
		var health struct{ May string }
		s.decodeReply(res, &health)
		return health.May
	}
	first := open(looks, "")
	if got := may(first); got != "view" {
		t.Errorf("%q", got)
	}
	second := open(traces, first)
	if got := may(second); got != "trace" {
		t.Errorf("%q", got)
	}
	if got := may(open(token, second)); got != "trace" {
		t.Errorf("the server's own token: %q", got)
	}
	if err := access.RemoveToken(path, "cat"); err != nil {
		t.Fatal(err)
	}
	if got, other := may(second), may(first); got != "401" || other != "401" {
		t.Errorf("after it was taken back %s, and of the session that it replaced %s", got, other)
	}
	if got := s.code(s.get("/api/health", "Authorization", "Bearer "+traces)); got != "401 unauthorized" {
		t.Error(got)
	}
}

// A token is refused after its end.
func TestTokenExpires(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	past := addToken(
		t, path, "past", access.RoleTrace, measure.Time(time.Now().Add(-time.Second).UnixNano()),
	)
	future := addToken(
		t, path, "future", access.RoleTrace, measure.Time(time.Now().Add(time.Hour).UnixNano()),
	)
	s := serve(t, newMemory(t), func(s *Server) { s.Tokens = &access.Tokens{Path: path} })
	if res := s.get("/api/health", "Authorization", "Bearer "+past); res.StatusCode != 401 {
		t.Errorf("past: %s", res.Status)
	}
	if res := s.get("/api/health", "Authorization", "Bearer "+future); res.StatusCode != 200 {
		t.Errorf("future: %s", res.Status)
	}
}

// If the file of tokens can't be read, only the server's own token is accepted, and /api/health
// says why.
func TestBadTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	given := addToken(t, path, "ann", access.RoleView, 0)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(good), given) {
		t.Error("the file has the token")
	}
	s := serve(t, newMemory(t), func(s *Server) { s.Tokens = &access.Tokens{Path: path} })
	for _, c := range []struct {
		what, text string
		mode       os.FileMode
	}{
		{"other users may write", string(good), 0o622},
		{"unexpected end", string(good[:20]), 0o600},
		{`unknown role "rule"`, strings.Replace(string(good), `"view"`, `"rule"`, 1), 0o600},
		{"64 hexadecimal digits", strings.Replace(string(good), `"sha256": "`, `"sha256": "0`, 1), 0o600},
		{"a name has", strings.Replace(string(good), `"ann"`, `""`, 1), 0o600},
		{"twice", "[" + strings.Trim(string(good), "[]\n") + "," + strings.Trim(string(good), "[]\n") + "]", 0o600},
	} {
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		if res := s.get("/api/health", "Authorization", "Bearer "+given); res.StatusCode != 401 {
			t.Errorf("%s: %s", c.what, res.Status)
		}
		var health struct{ Trouble []string }
		if s.decodeReply(s.get("/api/health"), &health); !strings.Contains(
			strings.Join(health.Trouble, "; "), c.what,
		) {
			t.Errorf("%s: trouble %q", c.what, health.Trouble)
		}
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if res := s.get("/api/health", "Authorization", "Bearer "+given); res.StatusCode != http.StatusOK {
		t.Errorf("mended: %s", res.Status)
	}
}
