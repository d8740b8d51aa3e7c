package web

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"culprit/measure"
)

// addToken adds a token to a file and returns its secret.
func addToken(t *testing.T, path, name string, may Role, until measure.Time) string {
	t.Helper()
	given, err := AddToken(path, Token{Name: name, May: may, Made: start, Ends: until})
	if err != nil {
		t.Fatal(err)
	}
	return given
}

// Each role may make the changes that it includes, and no others.
func TestRoles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	tokens := map[Role]string{
		RoleView:   addToken(t, path, "ann", RoleView, 0),
		RoleRecord: addToken(t, path, "ben", RoleRecord, 0),
		RoleTrace:  addToken(t, path, "cat", RoleTrace, 0),
	}
	s := serve(
		t, newMemory(t).filled(3), func(s *Server) { s.Tokens = &Tokens{Path: path} },
	).until(start + 3*second)
	for role, given := range tokens {
		bearer := []string{"Authorization", "Bearer " + given}
		var health struct{ May string }
		if s.decodeReply(s.get("/api/health", bearer...), &health); health.May != role.String() {
			t.Errorf("%v may %q", role, health.May)
		}
		for path, methods := range s.routes() {
			if methods["POST"] == nil {
				continue
			}
			path = strings.NewReplacer("{id}", "4000", "{action}", "suspend").Replace(path)
			headers := append(
				[]string{"X-Culprit", "1", "Content-Type", "application/json"},
				bearer...)
			if isUpload(path) {
				headers[3] = "application/octet-stream"
			}
			refused := s.code(s.request("POST", path, "{", headers...)) == "403 denied"
			want := role < RoleRecord ||
				role < RoleTrace &&
					(strings.HasPrefix(path, "/api/scripts") || path == "/api/profiles/take")
			if refused != want {
				t.Errorf("%v, %s: refused is %v", role, path, refused)
			}
		}
		form := append([]string{"Content-Type", "application/x-www-form-urlencoded"}, bearer...)
		if res := s.request("POST", "/api/v1/query", "query=1", form...); res.StatusCode == 403 {
			t.Errorf("%v may not run a PromQL query", role)
		}
	}
	var made struct{ Maker string }
	s.decodeReply(
		s.request(
			"POST", "/api/datasets", `{"sentence":"net.drops"}`, "Authorization",
			"Bearer "+tokens[RoleRecord],
		),
		&made,
	)
	if made.Maker != "command line (ben)" {
		t.Errorf("made by %q", made.Maker)
	}
}

// A page that was opened with a token has its role by a cookie until the token is removed. Opening
// it with another token replaces the role.
func TestTokenInBrowser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	looks, traces := addToken(t, path, "ann", RoleView, 0), addToken(t, path, "cat", RoleTrace, 0)
	s := serve(t, newMemory(t), func(s *Server) {
		s.Tokens, s.Page = &Tokens{
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
	if got := s.code(s.request("POST", "/api/datasets", `{"sentence":"net.drops"}`, "Authorization", "", "Cookie", first)); got != "403 denied" {
		t.Errorf("who may look changed something: %s", got)
	}
	second := open(traces, first)
	if got := may(second); got != "trace" {
		t.Errorf("%q", got)
	}
	if got := may(open(token, second)); got != "trace" {
		t.Errorf("the server's own token: %q", got)
	}
	if err := RemoveToken(path, "cat"); err != nil {
		t.Fatal(err)
	}
	if got, other := may(second), may(first); got != "401" || other != "view" {
		t.Errorf("after it was taken back %s, and another %s", got, other)
	}
	if got := s.code(s.get("/api/health", "Authorization", "Bearer "+traces)); got != "401 unauthorized" {
		t.Error(got)
	}
}

// A token is refused after its end.
func TestTokenExpires(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	past := addToken(
		t, path, "past", RoleTrace, measure.Time(time.Now().Add(-time.Second).UnixNano()),
	)
	future := addToken(
		t, path, "future", RoleTrace, measure.Time(time.Now().Add(time.Hour).UnixNano()),
	)
	s := serve(t, newMemory(t), func(s *Server) { s.Tokens = &Tokens{Path: path} })
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
	given := addToken(t, path, "ann", RoleView, 0)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(good), given) {
		t.Error("the file has the token")
	}
	s := serve(t, newMemory(t), func(s *Server) { s.Tokens = &Tokens{Path: path} })
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

// Tokens that are added at the same time are all kept, each name once.
func TestManyTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		for range 2 {
			all.Go(func() { _, _ = AddToken(path, Token{Name: name, May: RoleView, Made: start}) })
		}
	}
	all.Wait()
	if got, err := ReadTokens(path); err != nil || len(got) != 6 {
		t.Errorf("%d: %v", len(got), err)
	}
	for _, bad := range []string{"", "a b", "é", strings.Repeat("x", 65), "a\n"} {
		if _, err := AddToken(path, Token{Name: bad, May: RoleView}); err == nil {
			t.Errorf("the name %q is taken", bad)
		}
	}
	if err := RemoveToken(path, "g"); err == nil || !strings.Contains(err.Error(), "no token for") {
		t.Errorf("%v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 { // it and its lock
		t.Errorf("%v %v", entries, err)
	}
}

// A file of tokens that is accepted can be written and read again.
func FuzzTokens(f *testing.F) {
	f.Add(
		[]byte(
			`[{"name":"ann","may":"view","sha256":"` + strings.Repeat(
				"0f", 32,
			) + `","made_ms":1,"until_ms":2}]`,
		),
	)
	f.Add([]byte(`[{"name":"ann","may":"trace","sha256":"zz"}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parseTokens(b)
		if err != nil {
			return
		}
		for _, p := range all {
			if CheckName(p.Name) != nil || p.May < RoleView || p.May > RoleTrace || p.Ends < 0 {
				t.Errorf("%+v", p)
			}
		}
	})
}
