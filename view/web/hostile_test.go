package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"culprit/heapbound"
	"culprit/measure"
	"culprit/view/web/access"
	"culprit/view/web/api"
	"culprit/view/web/listen"
)

func TestStrangers(t *testing.T) {
	s := serve(
		t, newMemory(t).filled(3),
		func(s *Server) { s.Sites.Names = func() []string { return []string{"box.example"} } },
	).until(start + 3*second)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.base, "http://"))
	for _, c := range []struct {
		what    string
		headers []string
		want    string // "" = let in
	}{
		{"the token", nil, ""},
		{"no token", []string{"Authorization", ""}, "401 unauthorized"},
		{"a wrong token", []string{"Authorization", "Bearer " + token[1:]}, "401 unauthorized"},
		{"an empty token", []string{"Authorization", "Bearer "}, "401 unauthorized"},
		{"another scheme", []string{"Authorization", "Basic " + token}, "401 unauthorized"},
		{"a wrong cookie", []string{"Authorization", "", "Cookie", "culprit=" + token}, "401 unauthorized"},
		{"localhost", []string{"Host", "localhost:" + port}, ""},
		{"a name below localhost", []string{"Host", "culprit.localhost:" + port}, ""},
		{"IPv6 loopback", []string{"Host", "[::1]:" + port}, ""},
		{"a configured name", []string{"Host", "BOX.example:" + port}, ""},
		{"DNS rebinding", []string{"Host", "evil.example:" + port}, "421 wrong-host"},
		{"DNS rebinding without a port", []string{"Host", "evil.example"}, "421 wrong-host"},
		{"a name that begins as ours", []string{"Host", "localhost.evil.example"}, "421 wrong-host"},
		{"another address", []string{"Host", "192.0.2.1:" + port}, "421 wrong-host"},
		{"our origin", []string{"Origin", s.base}, ""},
		{"a foreign origin", []string{"Origin", "http://evil.example"}, "403 wrong-origin"},
		{"another port's origin", []string{"Origin", "http://127.0.0.1:1"}, "403 wrong-origin"},
		{"no origin", []string{"Origin", "null"}, "403 wrong-origin"},
		{"an origin that is none", []string{"Origin", "http://%zz"}, "403 wrong-origin"},
		{"a file's origin", []string{"Origin", "file://127.0.0.1:" + port}, "403 wrong-origin"},
		{"a script of another site", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, "403 wrong-origin"},
		{"a script of another port", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}, "403 wrong-origin"},
		{"a link of another site into the API", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, "403 wrong-origin"},
		{"our page", []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}, ""},
	} {
		res := s.get("/api/health", c.headers...)
		if c.want == "" {
			if res.StatusCode != 200 {
				t.Errorf("%s: %s", c.what, res.Status)
			}
			continue
		}
		if got := s.code(res); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	// Everything is closed, also what is no secret.
	for _, path := range []string{"/api/catalogue", "/api/ask?q=memory.free", "/api/live?q=memory.free", "/api/tools", "/api/tool/nic", "/api/datasets", "/api/changes", "/api/findings",
		"/api/diagnosis", "/metrics", "/api/v1/query?query=up", "/index.html", "/nothing", "/api/health?token=" + token, "/../etc/passwd"} {
		if got := s.code(s.get(path, "Authorization", "")); got != "401 unauthorized" {
			t.Errorf("%s without a token: %s", path, got)
		}
	}
}

func TestChangesNeedMore(t *testing.T) {
	m := newMemory(t)
	s := serve(t, m)
	for _, c := range []struct {
		what    string
		headers []string
		want    string
	}{
		{"without the header", []string{"X-Culprit", ""}, "403 forbidden"},
		{"as a form", []string{"Content-Type", "application/x-www-form-urlencoded"}, "415 bad-request"},
		{"as text", []string{"Content-Type", "text/plain"}, "415 bad-request"},
		{"without a type", []string{"Content-Type", ""}, "415 bad-request"},
		{"from another site", []string{"Origin", "https://evil.example"}, "403 wrong-origin"},
		{"without a token", []string{"Authorization", ""}, "401 unauthorized"},
	} {
		if got := s.code(s.request("POST", "/api/datasets", `{"sentence":"net.drops"}`, c.headers...)); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	if n := len(m.Datasets()); n != 5 {
		t.Errorf("%d datasets: a refused change was made", n)
	}
	for method, path := range map[string]string{"PUT": "/api/datasets", "DELETE": "/api/datasets/1/destroy", "GET": "/api/datasets/1/destroy", "OPTIONS": "/api/datasets", "PATCH": "/api/health", "POST": "/api/health"} {
		res := s.request(method, path, "{}", "X-Culprit", "1", "Content-Type", "application/json")
		if res.StatusCode != 405 || res.Header.Get("Allow") == "" ||
			res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s: %s %v", method, path, res.Status, res.Header)
		}
	}
}

func TestCookie(t *testing.T) {
	s := serve(t, newMemory(t), func(s *Server) {
		s.Page = fstest.MapFS{"index.html": {Data: []byte("<!doctype html>the page")}}
	})
	res := s.get("/?token="+token, "Authorization", "")
	code, found := strings.CutPrefix(res.Header.Get("Location"), "./?login=")
	if res.StatusCode != 303 || !found || len(code) < access.MinSecret || len(res.Cookies()) != 1 ||
		res.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%s %v", res.Status, res.Header)
	}
	c := res.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/" ||
		strings.Contains(c.Value, token) {
		t.Errorf("cookie %+v", c)
	}
	page := s.get("/", "Authorization", "", "Cookie", c.Name+"="+c.Value)
	if b, _ := io.ReadAll(page.Body); page.StatusCode != 200 ||
		string(b) != "<!doctype html>the page" {
		t.Errorf("page: %s %s", page.Status, b)
	}
	if again := s.get("/?token=x", "Authorization", "", "Cookie", c.Name+"="+c.Value); again.StatusCode != 303 {
		t.Errorf("the token stays in the address: %s", again.Status)
	}
	// The door.
	door := s.get("/", "Authorization", "")
	b, _ := io.ReadAll(door.Body)
	if door.StatusCode != 401 || !strings.Contains(string(b), "<form") ||
		strings.Contains(string(b), "<script") {
		t.Errorf("door: %s %s", door.Status, b)
	}
	wrong := s.get("/?token=<script>", "Authorization", "")
	if b, _ := io.ReadAll(wrong.Body); wrong.StatusCode != 401 ||
		!strings.Contains(string(b), "not the token") ||
		strings.Contains(string(b), "<script>") ||
		len(wrong.Cookies()) > 0 {
		t.Errorf("wrong token: %s %s", wrong.Status, b)
	}
	link := s.get(
		"/", "Authorization", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate",
	)
	if b, _ := io.ReadAll(link.Body); !strings.Contains(string(b), "again.js") {
		t.Errorf("a link from elsewhere: %s", b)
	}
	for _, cookie := range []string{"", c.Name + "=" + c.Value} {
		if js := s.get("/again.js", "Authorization", "", "Cookie", cookie); js.StatusCode != 200 ||
			!strings.HasPrefix(js.Header.Get("Content-Type"), "text/javascript") {
			t.Errorf("again.js: %s %v", js.Status, js.Header)
		}
	}
	h := page.Header
	for name, want := range map[string]string{"Content-Security-Policy": contentPolicy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"} {
		if h.Get(name) != want {
			t.Errorf("%s: %q", name, h.Get(name))
		}
	}
	if strings.Contains(contentPolicy, "unsafe") || strings.Contains(contentPolicy, "*") {
		t.Error(contentPolicy)
	}
}

func TestSecureCookieUnderTLS(t *testing.T) {
	s := New(newMemory(t), About{}, token)
	defer s.Close()
	r := httptest.NewRequest("GET", "https://localhost/?token="+token, nil)
	r.TLS = &tls.ConnectionState{}
	w := httptest.NewRecorder()
	s.Handler(false).ServeHTTP(w, r)
	if c := w.Result().Cookies(); len(c) != 1 || !c[0].Secure {
		t.Errorf("%v", c)
	}
}

// Wrong tokens are slowed down together. The right token is not.
func TestManyWrongTokens(t *testing.T) {
	s := serve(t, newMemory(t))
	slowed := 0
	for i := range 60 {
		switch got := s.code(s.get("/api/health", "Authorization", fmt.Sprintf("Bearer %032d", i))); got {
		case "429 too-many":
			slowed++
		case "401 unauthorized":
		default:
			t.Fatal(got)
		}
		if i%20 == 19 && s.get("/api/health").StatusCode != 200 {
			t.Error("the right token is locked out")
		}
	}
	if slowed == 0 {
		t.Error("none of 60 wrong tokens was slowed down")
	}
}

// raw sends bytes and returns the reply, up to the end of the connection or a pause.
func raw(t *testing.T, s *site, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(c, text) // the server may close while we write
	b, _ := io.ReadAll(c)
	return string(b)
}

func TestMalformed(t *testing.T) {
	s := serve(t, newMemory(t).filled(2))
	auth := "Host: localhost\r\nAuthorization: Bearer " + token + "\r\nConnection: close\r\n"
	for text, want := range map[string]string{
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n": "400",
		"GET\r\n\r\n":            "400",
		"GET / HTTP/9.9\r\n\r\n": "505",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":                                             "400",
		"GET / HTTP/1.1\r\n\r\n":                                                                   "400",
		"GET /api/health HTTP/1.1\r\n" + auth + "\r\n":                                             "200",
		"GET /../../etc/passwd HTTP/1.1\r\n" + auth + "\r\n":                                       "307",
		"GET /etc/passwd HTTP/1.1\r\n" + auth + "\r\n":                                             "404",
		"GET /..%2f..%2fetc%2fpasswd HTTP/1.1\r\n" + auth + "\r\n":                                 "404",
		"GET //evil.example/%2e%2e HTTP/1.1\r\n" + auth + "\r\n":                                   "307",
		"GET /index.html%00.js HTTP/1.1\r\n" + auth + "\r\n":                                       "404",
		"GET http://evil.example/api/health HTTP/1.1\r\n" + auth + "\r\n":                          "421",
		"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\nConnection: close\r\n\r\n": "421",
		"GET /api/health HTTP/1.1\r\n" + auth + "X: " + strings.Repeat("x", 100_000):               "431",
		"GET /api/ask?q=" + strings.Repeat("x", 10_000) + " HTTP/1.1\r\n" + auth + "\r\n":          "400",
		"POST /api/datasets HTTP/1.1\r\n" + auth + "X-Culprit: 1\r\nContent-Type: application/json\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": "400",
		"POST /api/datasets HTTP/1.1\r\n" + auth + "X-Culprit: 1\r\nContent-Type: application/json\r\nContent-Length: -5\r\n\r\n":                                       "400",
		"POST /api/datasets HTTP/1.1\r\n" + auth + "X-Culprit: 1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n":                         "400",
	} {
		got := raw(t, s, text)
		if !strings.HasPrefix(got, "HTTP/1.1 "+want) && !strings.HasPrefix(got, "HTTP/1.0 "+want) {
			t.Errorf("%.60q: %.40q, want %s", text, got, want)
		}
		if strings.Contains(got, "root:") {
			t.Errorf("%.60q: a file of the machine", text)
		}
	}
}

// A client that sends its request byte by byte is disconnected and delays no other.
func TestSlowLoris(t *testing.T) {
	s := New(newMemory(t).filled(2), About{}, token)
	defer s.Close()
	h := s.HTTP(false)
	if h.ReadHeaderTimeout <= 0 || h.ReadHeaderTimeout > 10*time.Second || h.ReadTimeout <= 0 ||
		h.WriteTimeout <= 0 ||
		h.IdleTimeout <= 0 ||
		h.MaxHeaderBytes <= 0 {
		t.Fatalf("a limit is missing: %+v", h)
	}
	// A test can't wait for the real limits.
	h.ReadHeaderTimeout, h.ReadTimeout = 50*time.Millisecond, 100*time.Millisecond
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := listen.New(inner, listen.Limits{Connections: 8, Strangers: 8, PerPeer: 8})
	go func() { _ = h.Serve(l) }()
	defer h.Close()
	var slow []net.Conn
	for range 8 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET /api/health HTTP/1.1\r\nHost: localhost\r\nX-A: ")
		slow = append(slow, c)
	}
	for _, c := range slow {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.ReadAll(c); err != nil {
			t.Errorf("a slow client is not cut off: %v", err)
		}
	}
	// site is a server that listens on a loopback port.
	site := &site{s, t, "http://" + l.Addr().String()}
	// The server counts a closed connection until it notices the end.
	for deadline := time.Now().Add(10 * time.Second); ; {
		r, _ := http.NewRequest("GET", site.base+"/api/health", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		if res, err := http.DefaultClient.Do(r); err == nil {
			res.Body.Close()
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	// A live view outlives the time that a request may take to be read.
	res := site.get("/api/live?q=memory.free")
	m := s.Machine.(*memory)
	r := bufio.NewReader(res.Body)
	// sse reads the next event of a stream.
	sse(t, r)
	time.Sleep(3 * h.ReadTimeout) // the condition is that time passes
	m.add(start+3*second, m.ticks[0].rows)
	sse(t, r)
}

// A token or a file of tokens that another user owns, or that is a link, lets nobody in.
func TestPlantedTokens(t *testing.T) {
	for _, tt := range []struct {
		name  string
		plant func(t *testing.T, path string)
	}{
		{"link", func(t *testing.T, path string) {
			if err := errors.Join(
				os.Rename(path, path+".real"), os.Symlink(path+".real", path),
			); err != nil {
				t.Fatal(err)
			}
		}},
		{"another user's", func(t *testing.T, path string) {
			if os.Geteuid() != 0 {
				t.Skip("needs: root")
			}
			if err := os.Chown(path, 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if _, _, err := access.ReadServerToken(path); err != nil {
				t.Fatal(err)
			}
			tt.plant(t, path)
			if secret, _, err := access.ReadServerToken(path); err == nil {
				t.Errorf("the token %q is taken", secret)
			}
			path = filepath.Join(t.TempDir(), "tokens")
			secret := addToken(t, path, "ann", access.RoleTrace, 0)
			s := serve(t, newMemory(t), func(s *Server) { s.Tokens = &access.Tokens{Path: path} })
			if res := s.get(
				"/api/health", "Authorization", "Bearer "+secret,
			); res.StatusCode != http.StatusOK {
				t.Fatalf("before: %s", res.Status)
			}
			tt.plant(t, path)
			now := time.Now().Add(time.Second) // the file is read again when it changes
			if err := os.Chtimes(path, now, now); err != nil {
				t.Fatal(err)
			}
			if res := s.get(
				"/api/health", "Authorization", "Bearer "+secret,
			); res.StatusCode != http.StatusUnauthorized {
				t.Errorf("after: %s", res.Status)
			}
		})
	}
}

// Without a token only the unix socket admits requests.
func TestEmptyToken(t *testing.T) {
	s := New(newMemory(t), About{}, "")
	defer s.Close()
	for _, set := range []func(*http.Request){
		func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") },
		func(r *http.Request) { r.URL.RawQuery = "token=" },
	} {
		r := httptest.NewRequest("GET", "http://localhost/api/health", nil)
		set(r)
		w := httptest.NewRecorder()
		s.Handler(false).ServeHTTP(w, r)
		if w.Code != 401 {
			t.Errorf("%d", w.Code)
		}
	}
	w := httptest.NewRecorder()
	s.Handler(true).ServeHTTP(w, httptest.NewRequest("GET", "http://culprit/api/health", nil))
	if w.Code != 200 {
		t.Errorf("socket: %d", w.Code)
	}
}

// Expensive queries wait for each other and end. A client that disconnects frees its slot.
func TestManyExpensiveQueries(t *testing.T) {
	m := newMemory(t).filled(3)
	s := serve(t, m).until(start + 3*second)
	m.asking = make(chan struct{})
	var all sync.WaitGroup
	codes := make(chan int, 40)
	for range 40 {
		all.Go(func() {
			r, _ := http.NewRequest("GET", s.base+ask("memory.free"), nil)
			r.Header.Set("Authorization", "Bearer "+token)
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			codes <- res.StatusCode
		})
	}
	for len(s.slots) < maxRunningQueries { // all places are taken
		time.Sleep(time.Millisecond)
	}
	close(m.asking)
	all.Wait()
	close(codes)
	for c := range codes {
		if c != 200 {
			t.Errorf("status %d", c)
		}
	}
	if len(s.slots) != 0 {
		t.Errorf("%d places are still taken", len(s.slots))
	}
}

// panicking is a machine that panics at one query.
type panicking struct{ *memory }

func (m panicking) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	if q.String() == "tcp.rtt" {
		panic("an invariant")
	}
	return m.memory.Ask(ctx, q)
}

// A panic ends one request or one event, and /api/health reports it.
func TestPanicEndsOneRequest(t *testing.T) {
	m := newMemory(t).filled(1)
	s := serve(t, panicking{m}).until(start + second)
	trouble := func() string {
		var h struct{ Trouble []string }
		s.decodeReply(s.get("/api/health"), &h)
		return strings.Join(h.Trouble, "\n")
	}
	if text := trouble(); strings.Contains(text, "fault") {
		t.Error(text)
	}
	got := raw(
		t, s,
		"GET /api/ask?q=tcp.rtt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\n\r\n",
	)
	if !strings.HasPrefix(got, "HTTP/1.1 500 ") ||
		!strings.Contains(
			got,
			"a fault of culprit itself while answering /api/ask: an invariant at hostile_test.go:",
		) {
		t.Errorf("%q", got)
	}
	if n := s.faults.total.Load(); n != 1 {
		t.Errorf("%d faults are counted", n)
	}
	if text := trouble(); !strings.Contains(
		text,
		"a fault of culprit itself while answering /api/ask: an invariant at hostile_test.go:",
	) {
		t.Errorf("%q", text)
	}
	r := bufio.NewReader(s.get(liveURL("memory.free")).Body)
	sse(t, r)
	broken := s.get(liveURL("tcp.rtt", "memory.free"))
	m.add(start+2*second, m.ticks[0].rows)
	if _, data := sse(t, r); !strings.Contains(data, fmt.Sprint(int64((start+2*second)/1e6))) {
		t.Error(data)
	}
	if broken.StatusCode != 200 || len(s.slots) != 0 {
		t.Errorf("%s, %d places taken", broken.Status, len(s.slots))
	}
	if text := trouble(); !strings.Contains(text, "making a live view") {
		t.Errorf("%q", text)
	}
}

func FuzzRequest(f *testing.F) {
	m := newMemory(f).filled(20)
	s := New(m, About{}, token)
	f.Cleanup(s.Close)
	for measure.Time(s.clock.newest.Load()) < start+20*second {
		time.Sleep(time.Millisecond)
	}
	h := s.Handler(true)
	for _, seed := range []string{"ask?q=memory.free", "ask?q=net.device.bytes+by+device&from=-10s&step=1s&top=1", "ask?q=tcp.rtt+by+peer&from=0&columns=2", "ask?q=memory.free&step=0&from=0", "tool/nic?from=-5s&step=1s",
		"findings?from=-1w", "changes", "metrics?statistic=[", "parse?q=%22", "datasets/1/x", "ask?q=memory.free&to=2116-01-01T00:00:00Z&columns=100000", "../metrics?statistic=*"} {
		f.Add("GET", seed, "", false)
	}
	f.Add("POST", "datasets", `{"sentence":"net.drops by device"}`, true)
	f.Add("POST", "datasets/1/discard", `{"from_ms":1,"to_ms":1e30}`, true)
	f.Add("POST", "worksheets", `{"id":1,"version":4294967295,"name":"a","state":"q=b"}`, false)
	f.Add("POST", "worksheets/1/remove", `{"version":1}`, false)
	heapbound.Fuzz(f, func(t *testing.T, method, path, body string, columns bool) {
		u, err := url.Parse("http://culprit/api/" + path)
		if err != nil || strings.Contains(u.Path, "live") || strings.HasSuffix(u.Path, "/destroy") {
			return
		}
		r := &http.Request{
			Method: method,
			URL:    u,
			Host:   "culprit",
			Header: http.Header{"X-Culprit": {"1"}, "Content-Type": {"application/json"}},
			Body:   io.NopCloser(strings.NewReader(body)),
		}
		if columns {
			r.Header.Set("Accept", api.ColumnsType)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		kind := w.Header().Get("Content-Type")
		switch {
		case w.Code >= 500 && w.Code != 501:
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		case kind == "application/json" && method != "HEAD" && !json.Valid(w.Body.Bytes()):
			t.Errorf("%s %s: no JSON: %s", method, path, w.Body)
		case strings.HasPrefix(kind, api.ColumnsType):
			if _, err := api.DecodeColumns(w.Body.Bytes()); err != nil {
				t.Errorf("%s %s: %v", method, path, err)
			}
		}
	})
}
