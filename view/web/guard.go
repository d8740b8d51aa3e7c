package web

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of a request. A query, a path and a cookie fit easily; only a profile is a large file.
const (
	maxHeader     = 16 << 10
	maxBody       = 64 << 10
	maxURLQuery   = 64 << 10 // Prometheus's expressions are long
	headerTimeout = 5 * time.Second
	replyTimeout  = time.Minute // to send a whole reply
	idleTimeout   = 2 * time.Minute
)

// contentPolicy lets the page load files of its own server and nothing else: no inline script, no
// inline style, no frame.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; " +
	"img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; " +
	"worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard admits requests: it checks the host name, the origin, the token and the role.
type guard struct {
	*core
	wrongTokens rateLimit
}

// caller is the owner of the token of a request.
type caller struct {
	name string // of the token; "": the server's own token, or a trusted listener
	may  Role
	way  string // page or command line
	// The peer of the connection may do everything: it is of the same user, or root.
	trusted bool
}

// callerKey is the key of the caller in a request's context.
type callerKey struct{}

// auditName returns the caller of a request as the audit log has it.
func auditName(r *http.Request) string {
	c, _ := r.Context().Value(callerKey{}).(caller)
	if c.name == "" {
		return c.way
	}
	return c.way + " (" + c.name + ")"
}

// isTrusted reports whether the caller in a request's context came by a trusted listener.
func isTrusted(ctx context.Context) bool {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c.trusted
}

// roleOf returns the role of a request's caller.
func roleOf(r *http.Request) Role {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c.may
}

// wrap returns a handler that passes admitted requests to next and refuses the others. With trusted
// each peer may do everything.
func (g *guard) wrap(next http.Handler, trusted bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w.Header())
		limit := int64(maxBody)
		if isUpload(r.URL.Path) {
			limit = maxProfileFile
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		if len(r.URL.RawQuery) > maxURLQuery {
			refuse(w, &fault{
				status: http.StatusRequestURITooLong, Code: "too-long",
				Message: "the address is too long",
				Hint:    fmt.Sprintf("its query may have %d bytes", maxURLQuery),
			})
			return
		}
		c := caller{may: RoleTrace, way: "command line", trusted: trusted}
		if !trusted {
			var admitted bool
			if c, admitted = g.admit(w, r); !admitted {
				return
			}
		}
		if f := checkChange(r, c); f != nil {
			refuse(w, f)
			return
		}
		tracked := &trackedWriter{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				g.replyToPanic(tracked, r, p)
			}
		}()
		next.ServeHTTP(tracked, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

func setSecurityHeaders(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// reloadScript loads the page again; see loginPage.
const reloadScript = `location.replace(location.pathname + ` +
	`(location.search ? location.search + "&" : "?") + "again" + location.hash)` + "\n"

// admit returns the caller of a request. If admitted is false, it has replied.
func (g *guard) admit(w http.ResponseWriter, r *http.Request) (c caller, admitted bool) {
	if f := g.checkOrigin(r); f != nil {
		refuse(w, f)
		return c, false
	}
	if r.URL.Path == "/again.js" { // holds no secret, and is loaded with and without a cookie
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = w.Write([]byte(reloadScript))
		return c, false
	}
	c, known := g.identify(r)
	if known {
		if conn, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			conn.identified()
		}
	}
	if !known || g.isLogin(r) {
		g.login(w, r)
		return c, false
	}
	return c, true
}

// checkOrigin refuses requests made by a page of another site: those to a host name that is not
// ours, since its owner can point it at this machine and read our replies, and those whose headers
// name another origin.
func (g *guard) checkOrigin(r *http.Request) *fault {
	if !g.isOurHost(r) {
		return &fault{
			status: http.StatusMisdirectedRequest, Code: "wrong-host",
			Message: "this server is not known as " + printable(r.Host),
			Hint:    "use its address, localhost, or a name of its TLS certificate",
		}
	}
	foreign := &fault{
		status: http.StatusForbidden, Code: "wrong-origin",
		Message: "requests from other sites are refused",
	}
	if list := r.Header.Values("Origin"); len(list) > 0 {
		if len(list) > 1 || !g.isOurOrigin(list[0], r.Host) {
			return foreign
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return nil
	}
	// A link from another site to the page is fine; its scripts and images may load nothing here.
	navigates := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Method == http.MethodGet
	if !navigates || strings.Contains(r.URL.Path, "/api/") {
		return foreign
	}
	return nil
}

// isOurOrigin reports whether an Origin header names the host of the request or one of ours.
func (g *guard) isOurOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	return strings.EqualFold(u.Host, host) ||
		slices.Contains(g.Hosts, strings.ToLower(u.Hostname()))
}

// isOurHost reports whether the request names this server: a loopback name or address, the address
// of its connection, or one of Config.Hosts.
func (g *guard) isOurHost(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		slices.Contains(g.Hosts, host) {
		return true
	}
	ip := net.ParseIP(host)
	if ip == nil {
		return false
	}
	if ip.IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.IP.Equal(ip)
}

// identify returns the owner of the request's bearer token or cookie.
func (g *guard) identify(r *http.Request) (c caller, known bool) {
	kind, secret, found := strings.Cut(r.Header.Get("Authorization"), " ")
	if found && strings.EqualFold(kind, "Bearer") {
		c, known = g.ownerOf(strings.TrimSpace(secret))
		c.way = "command line"
		return c, known
	}
	cookie, err := r.Cookie(g.cookieName())
	if err != nil || g.Token == "" {
		return caller{}, false
	}
	is := func(value string) bool {
		return subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(value)) == 1
	}
	if is(g.cookieValue("")) {
		return caller{may: RoleTrace, way: "page"}, true
	}
	for _, t := range g.validTokens() {
		if is(g.cookieValue(hex.EncodeToString(t.sum[:]))) {
			return caller{name: t.Name, may: t.May, way: "page"}, true
		}
	}
	return caller{}, false
}

// ownerOf returns the owner of a secret. The time it takes depends on no secret.
func (g *guard) ownerOf(secret string) (c caller, known bool) {
	if g.Token == "" || secret == "" {
		return caller{}, false
	}
	sum, own := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(g.Token))
	if subtle.ConstantTimeCompare(sum[:], own[:]) == 1 {
		return caller{may: RoleTrace}, true
	}
	for _, t := range g.validTokens() {
		if subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1 {
			return caller{name: t.Name, may: t.May}, true
		}
	}
	return caller{}, false
}

// validTokens returns the valid tokens beside the server's own; none if their file can't be read,
// which /api/health reports.
func (g *guard) validTokens() []Token {
	if g.Tokens == nil {
		return nil
	}
	all, err := g.Tokens.Valid()
	if err != nil {
		return nil
	}
	return all
}

// isLogin reports whether the request opens the page with a valid token in its address. That token
// replaces the one of the cookie.
func (g *guard) isLogin(r *http.Request) bool {
	_, known := g.ownerOf(r.URL.Query().Get("token"))
	return known && r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// cookieValue returns the cookie of a token, given the sum of its secret, or "" for the server's
// own token. The secret can't be computed from it, and other servers don't accept it.
func (g *guard) cookieValue(sum string) string { return g.keyed("cookie" + sum) }

// cookieName returns the name of the cookie. It differs between servers, since a browser sends the
// cookies of a host to all its ports.
func (g *guard) cookieName() string { return "culprit-" + g.keyed("name")[:12] }

// keyed returns a text that only the owner of the server's own token can compute.
func (g *guard) keyed(text string) string {
	m := hmac.New(sha256.New, []byte(g.Token))
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil))
}

// login replies to a request without a valid cookie or token: with a cookie if its address has a
// valid token, with the login page, or with an error.
func (g *guard) login(w http.ResponseWriter, r *http.Request) {
	get := r.Method == http.MethodGet || r.Method == http.MethodHead
	secret := r.URL.Query().Get("token")
	if c, known := g.ownerOf(secret); known && get && r.URL.Path == "/" {
		g.setCookie(w, r, c, secret)
		return
	}
	wrong := secret != "" || r.Header.Get("Authorization") != ""
	if wrong && !g.wrongTokens.allow(time.Now()) {
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Connection", "close")
		refuse(w, &fault{
			status: http.StatusTooManyRequests, Code: "too-many", Message: "too many wrong tokens",
		})
		return
	}
	if get && r.URL.Path == "/" {
		g.loginPage(w, r, wrong)
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="culprit"`)
	f := &fault{
		status: http.StatusUnauthorized, Code: "unauthorized",
		Message: "this needs the token of the server",
		Hint:    "open the address that culprit serve printed, or send Authorization: Bearer TOKEN",
	}
	if wrong {
		f.Message = "this is not the token of the server"
	}
	refuse(w, f)
}

// setCookie replies with the cookie of a token and redirects to the address without the token.
func (g *guard) setCookie(w http.ResponseWriter, r *http.Request, c caller, secret string) {
	value := g.cookieValue("")
	if c.name != "" {
		sum := sha256.Sum256([]byte(secret))
		value = g.cookieValue(hex.EncodeToString(sum[:]))
	}
	// Without a Path the browser uses the directory of the page, also behind a proxy that adds one.
	http.SetCookie(w, &http.Cookie{
		Name: g.cookieName(), Value: value, HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode, MaxAge: 90 * 24 * 3600,
	})
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", "./")
	w.WriteHeader(http.StatusSeeOther)
}

// loginPage replies with a form for the token. A link from another site comes without the cookie,
// which is SameSite=Strict; then a script loads the page again, now from this site, and keeps the
// fragment of the address.
func (g *guard) loginPage(w http.ResponseWriter, r *http.Request, wrong bool) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	script, text := "", "This page needs the token of the server: open the address that "+
		"<code>culprit serve</code> printed, or enter the token here."
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		script = `<script src="again.js"></script>`
	}
	if wrong {
		text = "This is not the token of the server. " + text
	}
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte(`<!doctype html><html lang="en"><meta charset="utf-8">` +
		`<title>culprit</title><meta name="viewport" content="width=device-width">` + script +
		`<h1>culprit</h1><p>` + text + `</p><form action="./" method="get"><label>Token ` +
		`<input name="token" type="password" autocomplete="off" autofocus></label> ` +
		`<button>Open</button></form></html>` + "\n"))
}

// checkChange refuses a request that changes something if the caller's role does not allow it or if
// it lacks our header. A browser sends that header to another site only after asking, and we do not
// answer such questions.
func checkChange(r *http.Request, c caller) *fault {
	if r.Method != http.MethodPost || isReadOnly(r.URL.Path) { // other methods change nothing
		return nil
	}
	if need := roleFor(r.URL.Path); c.may < need {
		return &fault{
			status: http.StatusForbidden, Code: "denied",
			Message: fmt.Sprintf("this needs the role %s; the token for %s has the role %s",
				need, c.name, c.may),
			Hint: fmt.Sprintf(
				"the owner of the server can add one: culprit tokens add NAME --may %s", need,
			),
		}
	}
	if r.Header.Get("X-Culprit") != "1" {
		return &fault{
			status: http.StatusForbidden, Code: "forbidden",
			Message: "a change needs the header X-Culprit: 1",
		}
	}
	want, message := "application/json", "a change needs a body of application/json"
	if isUpload(r.URL.Path) {
		want, message = "application/octet-stream", "a file needs another type"
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil ||
		kind != want {
		f := &fault{
			status: http.StatusUnsupportedMediaType, Code: "bad-request", Message: message,
		}
		if isUpload(r.URL.Path) {
			f.Hint = "send it with Content-Type: application/octet-stream"
		}
		return f
	}
	return nil
}

// roleFor returns the role that a change at the path needs.
func roleFor(path string) Role {
	if path == "/api/profiles/take" || path == "/api/scripts" ||
		strings.HasPrefix(path, "/api/scripts/") {
		return RoleTrace
	}
	return RoleRecord
}

// isUpload reports whether a POST to the path brings a file.
func isUpload(path string) bool { return path == "/api/profiles" }

// isReadOnly reports whether a POST to the path changes nothing, as in Prometheus's API, which
// takes long expressions in forms.
func isReadOnly(path string) bool { return strings.HasPrefix(path, "/api/v1/") }

// trackedWriter records whether a status was sent.
type trackedWriter struct {
	http.ResponseWriter
	sent bool
}

func (w *trackedWriter) WriteHeader(status int) {
	w.sent = w.sent || status >= 200
	w.ResponseWriter.WriteHeader(status)
}

func (w *trackedWriter) Write(p []byte) (int, error) {
	w.sent = true
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *trackedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// replyToPanic ends a request whose handler panicked: with status 500, or by closing the connection
// if a part of the reply was sent, so that the client does not take it for the whole. The recording
// continues.
func (g *guard) replyToPanic(w *trackedWriter, r *http.Request, panicked any) {
	if err, ok := panicked.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	err := g.recovered("answering "+printable(r.URL.Path), panicked)
	if w.sent {
		panic(http.ErrAbortHandler)
	}
	for _, name := range []string{"Content-Length", "ETag", "Last-Modified"} {
		w.Header().Del(name)
	}
	refuse(w, err)
}

// rateLimit allows wrongAtOnce calls at once and wrongPerSecond after that. Requests with the right
// token don't use it.
type rateLimit struct {
	mu   sync.Mutex
	left float64 // calls that are allowed now
	last time.Time
}

const (
	wrongAtOnce    = 20.0
	wrongPerSecond = 5.0
)

func (l *rateLimit) allow(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.IsZero() {
		l.left = wrongAtOnce
	} else if d := now.Sub(l.last).Seconds(); d > 0 {
		l.left = min(wrongAtOnce, l.left+d*wrongPerSecond)
	}
	l.last = now
	if l.left < 1 {
		return false
	}
	l.left--
	return true
}

// printable returns a text of a stranger, shortened, with '?' for bytes that are not safe to show.
func printable(s string) string {
	if len(s) > 100 {
		s = s[:100]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, s)
}
