package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"culprit/view/web/access"
)

// browser is a browser that has logged in.
type browser struct {
	*site
	cookie, secret string
}

// login opens the page with a token in its address, as a person does, and exchanges the code.
func (s *site) login(given string) *browser {
	s.t.Helper()
	res := s.get("/?token="+given, "Authorization", "")
	code, found := strings.CutPrefix(res.Header.Get("Location"), "./?login=")
	if res.StatusCode != http.StatusSeeOther || !found || len(res.Cookies()) != 1 {
		s.t.Fatalf("login: %s %v", res.Status, res.Header)
	}
	b := &browser{site: s, cookie: res.Cookies()[0].Name + "=" + res.Cookies()[0].Value}
	var got struct{ Secret string }
	s.decodeReply(b.post("/api/login", `{"code":"`+code+`"}`), &got)
	if b.secret = got.Secret; len(b.secret) < access.MinSecret {
		s.t.Fatalf("the secret is %q", b.secret)
	}
	return b
}

// view sends a GET with the cookie alone.
func (b *browser) view(path string, headers ...string) *http.Response {
	b.t.Helper()
	return b.get(path, append([]string{"Authorization", "", "Cookie", b.cookie}, headers...)...)
}

// post sends a POST with the cookie and the secret, as the page does.
func (b *browser) post(path, body string, headers ...string) *http.Response {
	b.t.Helper()
	all := []string{
		"Authorization", "", "Cookie", b.cookie, access.SecretHeader, b.secret, "Origin", b.base,
		"Sec-Fetch-Site", "same-origin",
	}
	return b.request("POST", path, body, append(all, headers...)...)
}

// servePage returns a server with a page and the tokens of a file.
func servePage(t *testing.T, path string, change ...func(*Server)) *site {
	t.Helper()
	change = append([]func(*Server){func(s *Server) {
		s.Tokens = &access.Tokens{Path: path}
		s.Page = fstest.MapFS{"index.html": {Data: []byte("the page")}}
	}}, change...)
	return serve(t, newMemory(t).filled(3), change...).until(start + 3*second)
}

// A page changes something with the cookie and the secret of its login.
func TestPageChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	ann := addToken(t, path, "ann", access.RoleRecord, 0)
	b := servePage(t, path).login(ann)
	var made struct{ Maker string }
	b.decodeReply(b.post("/api/datasets", `{"sentence":"net.drops"}`), &made)
	if made.Maker != "page (ann)" {
		t.Errorf("made by %q", made.Maker)
	}
}

// A code works once, and with the cookie of its login only.
func TestLoginCode(t *testing.T) {
	s := servePage(t, filepath.Join(t.TempDir(), "tokens"))
	begin := func() (cookie, code string) {
		res := s.get("/?token="+token, "Authorization", "")
		c := res.Cookies()[0]
		return c.Name + "=" + c.Value, strings.TrimPrefix(res.Header.Get("Location"), "./?login=")
	}
	first, firstCode := begin()
	second, _ := begin()
	for _, tt := range []struct{ name, cookie, code, want string }{
		{"another login's cookie", second, firstCode, "403 locked"},
		{"no cookie", "", firstCode, "403 locked"},
		{"another code", first, strings.Repeat("0", 48), "403 locked"},
		{"no code", first, "", "403 locked"},
		{"the right one", first, firstCode, ""},
		{"a second time", first, firstCode, "403 locked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := s.request("POST", "/api/login", `{"code":"`+tt.code+`"}`,
				"Authorization", "", "Cookie", tt.cookie)
			if tt.want == "" {
				if res.StatusCode != http.StatusOK {
					t.Errorf("%s", res.Status)
				}
				return
			}
			if got := s.code(res); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// A tab without the secret logs in with a token. Wrong tokens are slowed down here, too.
func TestLoginWithToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	scrape := addToken(t, path, "prometheus", access.RoleMetrics, 0)
	s := servePage(t, path)
	ask := func(given string) *http.Response {
		return s.request("POST", "/api/login", `{"token":"`+given+`"}`, "Authorization", "")
	}
	var got struct{ Secret string }
	res := ask(token)
	cookie := res.Cookies()[0]
	s.decodeReply(res, &got)
	b := &browser{s, cookie.Name + "=" + cookie.Value, got.Secret}
	if res := b.post("/api/datasets", `{"sentence":"net.drops"}`); res.StatusCode != 200 {
		t.Errorf("after the login: %s", res.Status)
	}
	if got := s.code(ask(scrape)); got != "403 denied" {
		t.Errorf("a token for metrics: %s", got)
	}
	slowed := 0
	for range 40 {
		switch got := s.code(ask(strings.Repeat("x", 48))); got {
		case "429 too-many":
			slowed++
		case "403 wrong-token":
		default:
			t.Fatal(got)
		}
	}
	if slowed == 0 {
		t.Error("none of 40 wrong tokens was slowed down")
	}
}

// Sessions are listed and ended by their owner; the owner of the server ends all.
func TestSessionManagement(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	annToken := addToken(t, path, "ann", access.RoleView, 0)
	benToken := addToken(t, path, "ben", access.RoleView, 0)
	s := servePage(t, path)
	ann, ann2, ben := s.login(annToken), s.login(annToken), s.login(benToken)
	type listed struct {
		Sessions []struct {
			ID, Token string
			Current   bool
		}
	}
	list := func(b *browser) (out listed) {
		s.decodeReply(b.view("/api/sessions", access.SecretHeader, b.secret), &out)
		return out
	}
	seen := list(ann).Sessions
	if len(seen) != 2 || seen[0].Token != "ann" || seen[0].Current == seen[1].Current {
		t.Fatalf("ann sees %+v", seen)
	}
	ofBen := list(ben).Sessions[0].ID
	if got := s.code(ann.post("/api/sessions/"+ofBen+"/revoke", "{}")); got != "404 not-found" {
		t.Errorf("ann ends the session of ben: %s", got)
	}
	for _, one := range seen {
		if !one.Current {
			if res := ann.post("/api/sessions/"+one.ID+"/revoke", "{}"); res.StatusCode != 200 {
				t.Errorf("ann ends another of her sessions: %s", res.Status)
			}
		}
	}
	if res := ann2.view("/api/health"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a session that was ended: %s", res.Status)
	}
	if res := ann.post("/api/logout", "{}"); res.StatusCode != 200 || res.Cookies()[0].MaxAge >= 0 {
		t.Errorf("logout: %s %v", res.Status, res.Cookies())
	}
	if res := ann.view("/api/health"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the logout: %s", res.Status)
	}
	var all listed
	if s.decodeReply(s.get("/api/sessions"), &all); len(all.Sessions) != 1 {
		t.Errorf("the owner of the server sees %+v", all)
	}
	var ended struct{ Revoked int }
	s.decodeReply(s.request("POST", "/api/sessions/all/revoke", "{}"), &ended)
	if res := ben.view("/api/health"); ended.Revoked != 1 || res.StatusCode != 401 {
		t.Errorf("%d ended; %s", ended.Revoked, res.Status)
	}
}

// A live view ends soon after its session.
func TestRevokedLiveView(t *testing.T) {
	s := servePage(t, filepath.Join(t.TempDir(), "tokens"))
	b := s.login(token)
	m := s.Machine.(*memory)
	stream := b.view("/api/live?q=memory.free")
	if _, err := stream.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s.request("POST", "/api/sessions/all/revoke", "{}")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, stream.Body) // until the server closes it
	}()
	at, deadline := start+4*second, time.After(recheck+20*time.Second)
	for {
		select {
		case <-ended:
			return
		case <-deadline:
			t.Fatal("the live view goes on")
		case <-time.After(200 * time.Millisecond): // a tick
			m.add(at, m.ticks[0].rows)
			at += second
		}
	}
}

// validBodies are bodies that the server accepts, by path; "": any.
//
// table: bodies
var validBodies = map[string]string{
	"/api/datasets":               `{"sentence":"net.drops"}`,
	"/api/datasets/{id}/{action}": "{}",
	"/api/scripts":                `{"text":"BEGIN{}"}`,
	"/api/scripts/{id}/{action}":  "{}",
	"/api/scripts/complete":       `{"text":"BEGIN","position":5}`,
	"/api/scripts/check":          `{"text":"BEGIN{}"}`,
	"/api/scripts/probes":         `{"match":"tcp"}`,
	"/api/profiles":               "main;work 3\n",
	"/api/profiles/take":          `{"seconds":1}`,
	"/api/sessions/{id}/{action}": "{}",
	"/api/login":                  `{"token":"` + token + `"}`,
	"/api/logout":                 "{}",
}

// forgedHeaders are what a program can send that a page can't.
func forgedHeaders(s *site, secret string) [][]string {
	page := []string{
		"Origin", s.base, "Referer", s.base + "/", "Sec-Fetch-Site", "same-origin",
		"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "X-Culprit", "1",
	}
	with := func(more ...string) []string { return append(append([]string{}, page...), more...) }
	return [][]string{
		{}, page,
		with(access.SecretHeader, "1"), with(access.SecretHeader, secret),
		with("X-Forwarded-For", "127.0.0.1", "X-Forwarded-Proto", "https"),
		with("Authorization", "Bearer "+secret), with("Authorization", "Basic "+secret),
		with("Host", "localhost"), with("Origin", ""), with("Sec-Fetch-Site", "none"),
	}
}

// A server on another port of the same host collects the cookie of a browser, and tries everything
// with it: no request changes anything.
func TestStolenCookie(t *testing.T) {
	m := newMemory(t).filled(3)
	var sampled []Sampling
	s := serve(t, m, func(s *Server) {
		s.Page = fstest.MapFS{"index.html": {Data: []byte("the page")}}
		s.Scripts, s.Sample = scripted{m}, sampler(&sampled)
	}).until(start + 3*second)
	victim := s.login(token)

	// A browser sends the cookie to all ports of the host: RFC 6265, 8.5.
	stolen := ""
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen = r.Header.Get("Cookie")
	}))
	defer thief.Close()
	r, err := http.NewRequest("GET", thief.URL+"/favicon.ico", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", victim.cookie)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if stolen != victim.cookie {
		t.Fatalf("the thief has %q", stolen)
	}

	_, value, _ := strings.Cut(stolen, "=")
	cookie := []string{"Authorization", "", "Cookie", stolen}
	for _, headers := range forgedHeaders(s, value) {
		all := append(append([]string{}, cookie...), headers...)
		for _, rule := range access.Rules() {
			if rule.Proof != access.Secret {
				continue
			}
			path := strings.NewReplacer("{id}", "1", "{action}", "suspend").Replace(rule.Path)
			kind := "application/json"
			if isUpload(path) {
				kind = "application/octet-stream"
			}
			for _, method := range []string{rule.Method, "PUT", "DELETE", "PATCH"} {
				res := s.request(method, path, validBodies[rule.Path],
					append(all, "Content-Type", kind)...)
				want := []int{
					http.StatusForbidden, http.StatusUnauthorized, http.StatusTooManyRequests,
				}
				if method != rule.Method {
					want = append(want, http.StatusMethodNotAllowed)
				}
				if !slices.Contains(want, res.StatusCode) {
					t.Errorf("%s %s with %v: %s", method, path, headers, res.Status)
				}
			}
		}
		for _, body := range []string{`{"code":""}`, `{"code":"` + value + `"}`, `{"token":"` + value + `"}`} {
			if res := s.request("POST", "/api/login", body, all...); res.StatusCode < 400 {
				t.Errorf("the thief gets a secret with %v %s", headers, body)
			}
		}
	}
	if len(sampled) > 0 || len(m.Datasets()) != 5 || len(m.programs) != 0 {
		t.Errorf("%d samplings, %d datasets, %d programs", len(sampled), len(m.Datasets()), len(m.programs))
	}
	// The same requests of the page itself are admitted.
	for _, rule := range access.Rules() {
		if rule.Proof != access.Secret {
			continue
		}
		path := strings.NewReplacer("{id}", "1", "{action}", "suspend").Replace(rule.Path)
		headers := append(append([]string{}, cookie...), access.SecretHeader, victim.secret)
		if isUpload(path) {
			headers = append(headers, "Content-Type", "application/octet-stream")
		}
		res := s.request(rule.Method, path, validBodies[rule.Path], headers...)
		if res.StatusCode == http.StatusForbidden || res.StatusCode == http.StatusUnauthorized {
			t.Errorf("the page itself: %s %s: %s", rule.Method, path, res.Status)
		}
	}
}
