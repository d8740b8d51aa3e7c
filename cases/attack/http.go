package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"
)

// httpAttacks are requests that the server must refuse.
func httpAttacks() []attack {
	return []attack{
		{"H1", "a web site", "20 forms of Host (DNS rebinding)", "421 or 400, loopback names 200",
			hosts},
		{"H2", "a web site", "9 forms of Origin, 5 of Sec-Fetch-Site, OPTIONS",
			"403, no CORS header", origins},
		{"H3", "a web site", "changes without the header, as a form, by other methods",
			"403, 415, 405", forgeries},
		{"H4", "a token", "21 paths out of the API", "404, 400 or a redirect to the guard",
			traversal},
		{"H5", "none", "smuggled requests, large headers, deep and doubled JSON", "400, 413 or 431",
			malformed},
		{"H6", "none", "200 wrong tokens", "401 and 429, the right one at once", wrongTokens},
		{"H7", "a web site", "a token in the address", "no-referrer, 303, no-store, cookie strict",
			tokenInAddress},
	}
}

// raw sends bytes to the server and returns the status of the reply with its head, "" if the server
// closes the connection without one.
func (s *server) raw(request string) (status, head string, err error) {
	c, err := net.DialTimeout("tcp", s.host, 5*time.Second)
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", "", err
	}
	_, _ = io.WriteString(c, request)             // the server may refuse before the end
	b, _ := io.ReadAll(io.LimitReader(c, 64<<10)) // the server may reset the connection
	h, _, _ := bytes.Cut(b, []byte("\r\n\r\n"))   // the end is optional
	if f := strings.Fields(string(h)); len(f) > 1 && strings.HasPrefix(f[0], "HTTP/") {
		status = f[1]
	}
	return status, string(h), nil
}

// get11 is a GET of the health with a valid token and the given headers.
func (s *server) get11(headers string) string {
	return "GET /api/health HTTP/1.1\r\nConnection: close\r\nAuthorization: Bearer " + s.token +
		"\r\n" + headers + "\r\n"
}

// tally counts replies and collects those that are not as expected.
type tally struct {
	seen map[string]int
	bad  []string
}

func (t *tally) add(what, got string, want ...string) {
	if t.seen == nil {
		t.seen = map[string]int{}
	}
	if got == "" {
		got = "closed"
	}
	t.seen[got]++
	if !slices.Contains(want, got) {
		t.bad = append(t.bad, fmt.Sprintf("%s: %s, not %s", what, got, strings.Join(want, " or ")))
	}
}

// result returns the counts as text, and an error that names what is not as expected.
func (t *tally) result() (string, error) {
	var parts []string
	for status, n := range t.seen {
		parts = append(parts, fmt.Sprintf("%d x %s", n, status))
	}
	slices.Sort(parts)
	text := strings.Join(parts, ", ")
	if len(t.bad) > 0 {
		return text, errors.New(strings.Join(t.bad[:min(5, len(t.bad))], "; "))
	}
	return text, nil
}

func hosts(b *bench) (string, error) {
	s, t := b.main, &tally{}
	port := s.host[strings.LastIndex(s.host, ":"):]
	for _, host := range []string{
		"evil.example", "evil.example" + port, "127.0.0.1.nip.io", "localhost.evil.example",
		"2130706433" + port, "0x7f000001", "0177.0.0.1", "127.1", "192.0.2.1" + port, "0.0.0.0",
		"[::ffff:192.0.2.1]", "[::]", "", "-", "evil.example@127.0.0.1", "127.0.0.1 evil.example",
	} {
		status, _, err := s.raw(s.get11("Host: " + host + "\r\n"))
		if err != nil {
			return "", err
		}
		t.add("Host "+host, status, "421", "400")
	}
	for _, request := range []string{
		s.get11("Host: " + s.host + "\r\nHost: evil.example\r\n"),
		s.get11(""),
		strings.Replace(s.get11("Host: "+s.host+"\r\n"), "/api", "http://evil.example/api", 1),
		strings.Replace(s.get11(""), "HTTP/1.1", "HTTP/1.0", 1),
	} {
		status, _, err := s.raw(request)
		if err != nil {
			return "", err
		}
		t.add(strings.ReplaceAll(request[:40], "\r\n", " "), status, "421", "400")
	}
	for _, host := range []string{s.host, "localhost", "LOCALHOST" + port, "x.localhost", "[::1]"} {
		status, _, err := s.raw(s.get11("Host: " + host + "\r\n"))
		if err != nil {
			return "", err
		}
		t.add("Host "+host, status, "200")
	}
	return t.result()
}

func origins(b *bench) (string, error) {
	s, t := b.main, &tally{}
	var headers []string
	for _, origin := range []string{
		"http://evil.example", "https://evil.example", "null", "file://", "http://127.0.0.1:1",
		"http://localhost.evil.example", "http://%zz", "chrome-extension://abc", "https://" +
			s.host + ".evil.example",
	} {
		headers = append(headers, "Origin: "+origin)
	}
	headers = append(headers, "Origin: http://"+s.host+"\r\nOrigin: http://evil.example")
	for _, site := range []string{"cross-site", "same-site"} {
		for _, mode := range []string{"no-cors", "cors", "navigate"} {
			headers = append(headers, "Sec-Fetch-Site: "+site+"\r\nSec-Fetch-Mode: "+mode)
		}
	}
	for _, h := range headers {
		status, head, err := s.raw(s.get11("Host: " + s.host + "\r\n" + h + "\r\n"))
		if err != nil {
			return "", err
		}
		if strings.Contains(strings.ToLower(head), "access-control") {
			status += " with CORS"
		}
		t.add(h, status, "403")
	}
	options := strings.Replace(s.get11("Host: "+s.host+"\r\nOrigin: http://evil.example\r\n"+
		"Access-Control-Request-Method: POST\r\n"), "GET", "OPTIONS", 1)
	status, head, err := s.raw(options)
	if strings.Contains(strings.ToLower(head), "access-control-allow") {
		status += " with CORS"
	}
	t.add("OPTIONS", status, "403", "405")
	if err != nil {
		return "", err
	}
	return t.result()
}

func forgeries(b *bench) (string, error) {
	s, t := b.main, &tally{}
	const body = `{"query":"net.drops"}`
	for _, c := range []struct {
		method  string
		headers []string
		want    string
	}{
		{"POST", []string{"Content-Type", "application/json"}, "403"},
		{"POST", []string{"X-Culprit", "1", "Content-Type", "text/plain"}, "415"},
		{"POST", []string{"X-Culprit", "1", "Content-Type", "application/x-www-form-urlencoded"},
			"415"},
		{"POST", []string{"X-Culprit", "1", "Content-Type", "multipart/form-data; boundary=x"},
			"415"},
		{"POST", []string{"X-Culprit", "1", "Content-Type", "application/json", "Origin",
			"http://127.0.0.1:1"}, "403"},
		{"PUT", []string{"X-Culprit", "1", "Content-Type", "application/json"}, "405"},
		{"DELETE", []string{"X-Culprit", "1"}, "405"},
		{"PATCH", []string{"X-Culprit", "1"}, "405"},
		{"TRACE", []string{"X-Culprit", "1"}, "405"},
	} {
		a, err := s.request(c.method, "/api/datasets", s.token, body, c.headers...)
		if err != nil {
			return "", err
		}
		t.add(c.method+" "+strings.Join(c.headers, " "), fmt.Sprint(a.status), c.want)
	}
	return t.result()
}

func traversal(b *bench) (string, error) {
	s, t := b.main, &tally{}
	for _, path := range []string{
		"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "/..\\..\\etc",
		"/token", "/tokens", "/culprit.sock", "/archive/", "/archive/MANIFEST-000001",
		"/.git/config", "/.env", "/debug/pprof/", "/debug/vars", "/api/../token", "/api//token",
		"//etc/passwd", "/assets/../../token", "/index.html/..", "/api/tool/..%2f..%2ftoken",
		"/%00", "/api/v1/../../token",
	} {
		status, head, err := s.raw("GET " + path + " HTTP/1.1\r\nHost: " + s.host +
			"\r\nConnection: close\r\nAuthorization: Bearer " + s.token + "\r\n\r\n")
		if err != nil {
			return "", err
		}
		if strings.Contains(head, s.token) {
			status += " with the token"
		}
		t.add(path, status, "404", "400", "307", "301")
	}
	return t.result()
}

func malformed(b *bench) (string, error) {
	s, t := b.main, &tally{}
	host := "Host: " + s.host + "\r\n"
	post := func(body string) string {
		return "POST /api/datasets HTTP/1.1\r\n" + host + "Connection: close\r\nX-Culprit: 1\r\n" +
			"Content-Type: application/json\r\nAuthorization: Bearer " + s.token + "\r\n" +
			fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body
	}
	for _, c := range []struct{ what, request, want string }{
		{"two lengths", s.get11(host + "Content-Length: 1\r\nContent-Length: 2\r\n"), "400"},
		{"length and chunks", s.get11(host+"Transfer-Encoding: xchunked\r\nContent-Length: 2\r\n") +
			"{}", "501"},
		{"a header of 40 kB", s.get11(host + "X: " + strings.Repeat("x", 40<<10) + "\r\n"), "431"},
		{"5,000 headers", s.get11(host + strings.Repeat("X: y\r\n", 5000)), "431"},
		{"a space before the colon", s.get11(host + "X : y\r\n"), "400"},
		{"a bare line feed", strings.ReplaceAll(s.get11(host+"X:\x00y\r\n"), "\r\n", "\n"), "400"},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"},
		{"deep JSON", post(strings.Repeat(`{"a":`, 20000) + strings.Repeat("}", 20000)), "400"},
		{"JSON in JSON, 10,000 levels", post(strings.Repeat(`[`, 10001)), "400"},
		{"doubled keys", post(`{"query":"net.drops","query":1}`), "400"},
		{"unknown keys", post(`{"query":"net.drops","admin":true}`), "400"},
		{"more than one value", post(`{"query":"no.such"} {}`), "400"},
	} {
		status, _, err := s.raw(c.request)
		if err != nil {
			return "", err
		}
		t.add(c.what, status, c.want)
	}
	return t.result()
}

func wrongTokens(b *bench) (string, error) {
	s, t := b.main, &tally{}
	for i := range 200 {
		a, err := s.request("GET", "/api/health", fmt.Sprintf("%048x", i), "")
		if err != nil {
			return "", err
		}
		t.add("a wrong token", fmt.Sprint(a.status), "401", "429")
	}
	if t.seen["429"] < 100 {
		t.bad = append(t.bad, fmt.Sprintf("only %d are slowed down", t.seen["429"]))
	}
	began := time.Now()
	if _, err := s.troubles(); err != nil {
		return "", fmt.Errorf("the right token: %w", err)
	}
	if d := time.Since(began); d > time.Second {
		return "", fmt.Errorf("the right token is answered after %v", d)
	}
	return t.result()
}

func tokenInAddress(b *bench) (string, error) {
	a, err := b.main.request("GET", "/?token="+b.main.token, "", "")
	if err != nil {
		return "", err
	}
	cookie := a.header.Get("Set-Cookie")
	for _, c := range []struct {
		what string
		ok   bool
	}{
		{fmt.Sprint("status ", a.status), a.status == 303},
		{
			"Location " + a.header.Get("Location"), a.header.Get("Location") != "" &&
				!strings.Contains(a.header.Get("Location"), b.main.token),
		},
		{"no Referrer-Policy", a.header.Get("Referrer-Policy") == "no-referrer"},
		{"it may be stored", a.header.Get("Cache-Control") == "no-store"},
		{"a script reads the cookie", strings.Contains(cookie, "HttpOnly")},
		{"the cookie is not SameSite=Strict", strings.Contains(cookie, "SameSite=Strict")},
		{"the cookie contains the token", !strings.Contains(cookie, b.main.token)},
	} {
		if !c.ok {
			return "", errors.New(c.what)
		}
	}
	return "303 without the token, no-referrer, no-store, HttpOnly, SameSite=Strict", nil
}
