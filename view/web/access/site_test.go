package access

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// requestAt returns a request to a host, by TLS or not, with headers as pairs.
func requestAt(host string, overTLS bool, headers ...string) *http.Request {
	r := httptest.NewRequest("GET", "http://x/api/health", nil)
	r.Host = host
	if overTLS {
		r.TLS = &tls.ConnectionState{}
	}
	local := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 7410}
	r = r.WithContext(contextWith(r, local))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// An Origin must have the scheme, the host and the port of the request, or of the public URL.
func TestOrigin(t *testing.T) {
	names := func() []string { return []string{"box.example"} }
	plain := Sites{Names: names}
	proxied := Sites{Names: names, Public: &url.URL{
		Scheme: "https", Host: "perf.example:8443", Path: "/culprit/",
	}}
	forwarded := proxied
	forwarded.Forwarded = true
	for _, tt := range []struct {
		name    string
		sites   Sites
		host    string
		tls     bool
		headers []string
		want    string // code of the refusal; "": none
	}{
		{"no origin", plain, "127.0.0.1:7410", false, nil, ""},
		{"ours", plain, "127.0.0.1:7410", false, []string{"Origin", "http://127.0.0.1:7410"}, ""},
		{"another port", plain, "127.0.0.1:7410", false, []string{"Origin", "http://127.0.0.1:7411"}, "wrong-origin"},
		{"no port", plain, "127.0.0.1:7410", false, []string{"Origin", "http://127.0.0.1"}, "wrong-origin"},
		{"another scheme", plain, "127.0.0.1:7410", false, []string{"Origin", "https://127.0.0.1:7410"}, "wrong-origin"},
		{"another loopback name", plain, "127.0.0.1:7410", false, []string{"Origin", "http://localhost:7410"}, "wrong-origin"},
		{"over TLS", plain, "box.example:7410", true, []string{"Origin", "https://box.example:7410"}, ""},
		{"plain HTTP to TLS", plain, "box.example:7410", true, []string{"Origin", "http://box.example:7410"}, "wrong-origin"},
		{"our name, another port", plain, "box.example:7410", true, []string{"Origin", "https://box.example:9"}, "wrong-origin"},
		{"our name, the default port", plain, "box.example:443", true, []string{"Origin", "https://box.example"}, ""},
		{"the default port of plain HTTP", plain, "box.example:80", false, []string{"Origin", "http://box.example"}, ""},
		{"port 80 is not the default of TLS", plain, "box.example:80", true, []string{"Origin", "https://box.example"}, "wrong-origin"},
		{"capitals", plain, "BOX.example:7410", true, []string{"Origin", "https://box.EXAMPLE:7410"}, ""},
		{"a path", plain, "127.0.0.1:7410", false, []string{"Origin", "http://127.0.0.1:7410/x"}, "wrong-origin"},
		{"two", plain, "127.0.0.1:7410", false, []string{"Origin", "http://127.0.0.1:7410", "Origin", "http://127.0.0.1:7410"}, "wrong-origin"},
		{"empty", plain, "127.0.0.1:7410", false, []string{"Origin", ""}, "wrong-origin"},
		{"the address of the connection", plain, "192.0.2.9:7410", false, nil, ""},
		{"another address", plain, "192.0.2.8:7410", false, nil, "wrong-host"},
		{"the public host without a proxy", plain, "perf.example:8443", false, nil, "wrong-host"},

		{"the public host", proxied, "perf.example:8443", false, []string{"Origin", "https://perf.example:8443"}, ""},
		{"the public host, plain", proxied, "perf.example:8443", false, []string{"Origin", "http://perf.example:8443"}, "wrong-origin"},
		{"the public host, another port", proxied, "perf.example", false, nil, "wrong-host"},
		{"a proxy that replaces Host", proxied, "127.0.0.1:7410", false, []string{"Origin", "https://perf.example:8443"}, ""},
		{"X-Forwarded-Host is not believed", proxied, "evil.example", false, []string{"X-Forwarded-Host", "perf.example:8443"}, "wrong-host"},
		{"X-Forwarded-Proto is not believed", proxied, "127.0.0.1:7410", false, []string{"X-Forwarded-Proto", "https", "Origin", "https://127.0.0.1:7410"}, "wrong-origin"},

		{"X-Forwarded-Host is believed", forwarded, "127.0.0.1:7410", false, []string{"X-Forwarded-Host", "perf.example:8443", "Origin", "https://perf.example:8443"}, ""},
		{"X-Forwarded-Host of a stranger", forwarded, "127.0.0.1:7410", false, []string{"X-Forwarded-Host", "evil.example"}, "wrong-host"},
		{"the nearest proxy counts", forwarded, "127.0.0.1:7410", false, []string{"X-Forwarded-Host", "evil.example, perf.example:8443"}, ""},
		{"and not the one before", forwarded, "127.0.0.1:7410", false, []string{"X-Forwarded-Host", "perf.example:8443, evil.example"}, "wrong-host"},
		{"X-Forwarded-Proto is believed", forwarded, "127.0.0.1:7410", false, []string{"X-Forwarded-Proto", "https", "Origin", "https://127.0.0.1:7410"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.sites.checkOrigin(requestAt(tt.host, tt.tls, tt.headers...))
			got := ""
			var refused *Refusal
			if errors.As(err, &refused) {
				got = refused.Code
			}
			if got != tt.want || (err == nil) != (tt.want == "") {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// The address of a client behind a proxy is that of the nearest proxy's list, if it is believed.
func TestPeer(t *testing.T) {
	r := requestAt("127.0.0.1", false, "X-Forwarded-For", "198.51.100.1, 198.51.100.2")
	r.RemoteAddr = "127.0.0.1:5"
	for forwarded, want := range map[bool]string{false: "127.0.0.1", true: "198.51.100.2"} {
		if got := (&Sites{Forwarded: forwarded}).peer(r); got != want {
			t.Errorf("believed %v: %q, want %q", forwarded, got, want)
		}
	}
	r.Header.Set("X-Forwarded-For", "\x1b[31m")
	if got := (&Sites{Forwarded: true}).peer(r); got != "127.0.0.1" {
		t.Errorf("no address: %q", got)
	}
}

func contextWith(r *http.Request, local net.Addr) context.Context {
	return context.WithValue(r.Context(), http.LocalAddrContextKey, local)
}
