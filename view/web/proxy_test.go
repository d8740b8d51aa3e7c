package web

import (
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"culprit/view/web/access"
)

// A page behind a reverse proxy with TLS, at a path or not, logs in, views and changes something.
// The proxy passes Host on, replaces it, or sets X-Forwarded-Host, and strips the path or not.
func TestBehindProxy(t *testing.T) {
	for _, tt := range []struct {
		name      string
		path      string // of the page at the proxy
		strip     bool   // the proxy removes the path
		host      string // kept, replaced or forwarded
		cookie    string // prefix of its name
		cookiesAt string // Path of the cookie
	}{
		{"at the root", "/", false, "kept", "__Host-", "/"},
		{"at a path", "/perf/culprit/", true, "kept", "__Secure-", "/perf/culprit/"},
		{"at a path that stays", "/perf/culprit/", false, "kept", "__Secure-", "/perf/culprit/"},
		{"forwarded", "/perf/", true, "forwarded", "__Secure-", "/perf/"},
		{"replaced", "/perf/", true, "replaced", "culprit-", "/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			public := &url.URL{}
			s := servePage(t, filepath.Join(t.TempDir(), "tokens"), func(s *Server) {
				s.Sites.Public, s.Sites.Forwarded = public, tt.host == "forwarded"
			})
			target, err := url.Parse(s.base)
			if err != nil {
				t.Fatal(err)
			}
			rewrite := func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				if tt.strip {
					r.Out.URL.Path = "/" + strings.TrimPrefix(r.In.URL.Path, tt.path)
				}
				switch tt.host {
				case "kept":
					r.Out.Host = r.In.Host
				case "forwarded":
					r.SetXForwarded()
				}
			}
			proxy := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: rewrite})
			defer proxy.Close()
			at, err := url.Parse(proxy.URL)
			if err != nil {
				t.Fatal(err)
			}
			*public = url.URL{Scheme: "https", Host: at.Host, Path: tt.path}

			client := proxy.Client()
			if client.Jar, err = cookiejar.New(nil); err != nil {
				t.Fatal(err)
			}
			page := proxy.URL + tt.path
			client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
				if !strings.HasPrefix(r.URL.String(), page+"?login=") {
					t.Errorf("the login leads to %s", r.URL)
				}
				return nil
			}
			res, err := client.Get(page + "?token=" + token)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Fatalf("the page: %s", res.Status)
			}
			send := func(path, body, secret, origin string) *http.Response {
				t.Helper()
				r, err := http.NewRequest("POST", page+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-Culprit", "1")
				r.Header.Set("Origin", origin)
				r.Header.Set(access.SecretHeader, secret)
				res, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { res.Body.Close() })
				return res
			}
			var got struct{ Secret string }
			code := res.Request.URL.Query().Get("login")
			s.decodeReply(send("api/login", `{"code":"`+code+`"}`, "", proxy.URL), &got)
			const body = `{"sentence":"net.drops"}`
			if res := send("api/datasets", body, got.Secret, proxy.URL); res.StatusCode != 200 {
				t.Errorf("a change: %s", res.Status)
			}
			if res := send("api/datasets", body, "", proxy.URL); res.StatusCode != 403 {
				t.Errorf("a change without the secret: %s", res.Status)
			}
			for _, origin := range []string{"https://evil.example", "http://" + at.Host} {
				if res := send("api/datasets", body, got.Secret, origin); res.StatusCode != 403 {
					t.Errorf("a change from %s: %s", origin, res.Status)
				}
			}
		})
		t.Run(tt.name+", cookie", func(t *testing.T) {
			if tt.host == "replaced" {
				return // the server can't tell: the cookie has no attributes of TLS
			}
			s := New(newMemory(t), About{}, token)
			defer s.Close()
			s.Sites.Public = &url.URL{Scheme: "https", Host: "perf.example", Path: tt.path}
			r := httptest.NewRequest("GET", "http://perf.example/?token="+token, nil)
			w := httptest.NewRecorder()
			s.Handler(false).ServeHTTP(w, r)
			all := w.Result().Cookies()
			if len(all) != 1 || !all[0].Secure || all[0].Path != tt.cookiesAt ||
				!strings.HasPrefix(all[0].Name, tt.cookie) {
				t.Errorf("%+v", all)
			}
		})
	}
}
