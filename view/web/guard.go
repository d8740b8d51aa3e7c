package web

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
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

// Limits of a request. A sentence, a path and a cookie fit easily; only a profile is a file.
const (
	mostHeader = 16 << 10
	mostBody   = 64 << 10
	mostQuery  = 64 << 10 // the expressions of Prometheus's API come in bodies of forms, too
	headerTime = 5 * time.Second
	answerTime = time.Minute // to take a whole answer
	idleTime   = 2 * time.Minute
)

// contentPolicy lets the page load from its own server and nothing else: no inline script, no inline style, no frame.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"manifest-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// whoKey is where a request has its asker.
type whoKey struct{}

// let is an asker, and which way it came.
type let struct {
	asker
	way string
}

// whoOf gives the asker for the audit.
func whoOf(r *http.Request) string {
	l, _ := r.Context().Value(whoKey{}).(let)
	return l.by(l.way)
}

// mayOf gives what the asker may.
func mayOf(r *http.Request) Role {
	l, _ := r.Context().Value(whoKey{}).(let)
	return l.may
}

// guard lets requests through that may come in, and answers the others. trusted: whoever can connect may (a unix socket that
// has looked at its peer).
func (s *Server) guard(next http.Handler, trusted bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		most := int64(mostBody)
		if takesFile(r.URL.Path) {
			most = mostProfile
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		if len(r.URL.RawQuery) > mostQuery {
			refuse(w, &fault{status: http.StatusRequestURITooLong, Code: "too-long", Message: "the address is too long", Hint: fmt.Sprintf("its query may have %d bytes", mostQuery)})
			return
		}
		who := let{asker{may: Traces}, "command line"}
		if !trusted {
			if f := s.fromHere(r); f != nil {
				refuse(w, f)
				return
			}
			if r.URL.Path == "/again.js" { // no secret, and loaded with and without a cookie
				w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
				_, _ = w.Write([]byte(`location.replace(location.pathname + (location.search ? location.search + "&" : "?") + "again" + location.hash)` + "\n"))
				return
			}
			var ok bool
			if who, ok = s.known(r); !ok || s.comesAnew(r) {
				s.stranger(w, r)
				return
			}
		}
		if f := s.changes(r, who.asker); f != nil {
			refuse(w, f)
			return
		}
		begun := &begun{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				s.ended500(begun, r, p)
			}
		}()
		next.ServeHTTP(begun, r.WithContext(context.WithValue(r.Context(), whoKey{}, who)))
	})
}

// fromHere refuses requests that a page of somebody else's made: those to a name that is not ours (another name can be made to point
// at this machine, and its page then reads our answers), and those that say that they come from elsewhere.
func (s *Server) fromHere(r *http.Request) *fault {
	if !s.ours(r) {
		return &fault{status: http.StatusMisdirectedRequest, Code: "wrong-host", Message: "this server is not known as " + printable(r.Host),
			Hint: "use its address, localhost, or a name that it was started with"}
	}
	foreign := &fault{status: http.StatusForbidden, Code: "wrong-origin", Message: "another site may not ask here"}
	if list := r.Header.Values("Origin"); len(list) > 0 {
		u, err := url.Parse(list[0])
		if len(list) > 1 || err != nil || u.Scheme != "http" && u.Scheme != "https" || !strings.EqualFold(u.Host, r.Host) && !slices.Contains(s.Hosts, strings.ToLower(u.Hostname())) {
			return foreign
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		// A link from elsewhere to the page is fine; a script or an image of elsewhere that loads from here is not.
		if r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Method != http.MethodGet || strings.Contains(r.URL.Path, "/api/") {
			return foreign
		}
	}
	return nil
}

// ours says whether the request was sent to a name of this server: a loopback one, the address that it came in by, or a configured one.
func (s *Server) ours(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(s.Hosts, host) {
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

// known says who asks, by cookie or by bearer token.
func (s *Server) known(r *http.Request) (let, bool) {
	if kind, token, found := strings.Cut(r.Header.Get("Authorization"), " "); found && strings.EqualFold(kind, "Bearer") {
		a, ok := s.holder(strings.TrimSpace(token))
		return let{a, "command line"}, ok
	}
	c, err := r.Cookie(s.cookieName())
	if err != nil || s.Token == "" {
		return let{}, false
	}
	is := func(value string) bool { return subtle.ConstantTimeCompare([]byte(c.Value), []byte(value)) == 1 }
	if is(s.cookie("")) {
		return let{asker{may: Traces}, "page"}, true
	}
	for _, p := range s.passes() {
		if is(s.cookie(hex.EncodeToString(p.sum[:]))) {
			return let{asker{p.Name, p.May}, "page"}, true
		}
	}
	return let{}, false
}

// comesAnew says whether somebody who is let in opens the page with a token: it counts from now on, which may be another one than before.
func (s *Server) comesAnew(r *http.Request) bool {
	_, ok := s.holder(r.URL.Query().Get("token"))
	return ok && r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// cookie gives the value of the cookie that stands for the server's token, "", or for a pass, its sum. It is not the token, and of another server's
// no use.
func (s *Server) cookie(sum string) string { return s.keyed("cookie" + sum) }

// cookieName gives the name of the cookie. A browser sends cookies of one host to all its ports: the name tells servers on one machine apart.
func (s *Server) cookieName() string { return "culprit-" + s.keyed("name")[:12] }

func (s *Server) keyed(what string) string {
	m := hmac.New(sha256.New, []byte(s.Token))
	m.Write([]byte(what))
	return hex.EncodeToString(m.Sum(nil))
}

// stranger answers a request of somebody unknown: with a cookie when the address has the token, with a page to give it in, or not at all.
func (s *Server) stranger(w http.ResponseWriter, r *http.Request) {
	get := r.Method == http.MethodGet || r.Method == http.MethodHead
	given := r.URL.Query().Get("token")
	if a, ok := s.holder(given); ok && get && r.URL.Path == "/" {
		value := s.cookie("")
		if a.name != "" {
			sum := sha256.Sum256([]byte(given))
			value = s.cookie(hex.EncodeToString(sum[:]))
		}
		// No Path: the browser takes the folder of the page, also behind a proxy that puts one in front.
		http.SetCookie(w, &http.Cookie{Name: s.cookieName(), Value: value, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode, MaxAge: 90 * 24 * 3600})
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Location", "./")
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	wrong := given != "" || r.Header.Get("Authorization") != ""
	if wrong && !s.wrong.allow(time.Now()) {
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Connection", "close")
		refuse(w, &fault{status: http.StatusTooManyRequests, Code: "too-many", Message: "too many wrong tokens"})
		return
	}
	if get && r.URL.Path == "/" {
		s.door(w, r, wrong)
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="culprit"`)
	f := &fault{status: http.StatusUnauthorized, Code: "unauthorized", Message: "this needs the token of the server",
		Hint: "open the address that culprit serve printed, or send Authorization: Bearer TOKEN"}
	if wrong {
		f.Message = "this is not the token of the server"
	}
	refuse(w, f)
}

// door is the page for who has no cookie. A link from another site comes without the cookie that the browser has, since that is SameSite=Strict;
// then the page loads itself again, now from this site, and keeps what stands behind the # of its address.
func (s *Server) door(w http.ResponseWriter, r *http.Request, wrong bool) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	again, said := "", "This page needs the token of the server: open the address that <code>culprit serve</code> printed, or give the token here."
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		again = `<script src="again.js"></script>`
	}
	if wrong {
		said = "This is not the token of the server. " + said
	}
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte(`<!doctype html><html lang="en"><meta charset="utf-8"><title>culprit</title><meta name="viewport" content="width=device-width">` + again +
		`<h1>culprit</h1><p>` + said + `</p><form action="./" method="get"><label>Token <input name="token" type="password" autocomplete="off" autofocus></label> <button>Open</button></form></html>` + "\n"))
}

// changes refuses requests that change something and whose asker may not, or that were not made for it by a program or page that knows us: the
// header makes a browser ask first, and we answer no such question.
func (s *Server) changes(r *http.Request, a asker) *fault {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return nil
	case http.MethodPost:
	default:
		return nil // no route has it
	}
	if s.readsOnly(r.URL.Path) {
		return nil
	}
	if need := needed(r.URL.Path); a.may < need {
		return &fault{status: http.StatusForbidden, Code: "denied", Message: fmt.Sprintf("the token for %s may %s, and this takes one that may %s", a.name, a.may, need),
			Hint: fmt.Sprintf("who runs the server makes one: culprit tokens add NAME --may %s", need)}
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.Header.Get("X-Culprit") != "1":
		return &fault{status: http.StatusForbidden, Code: "forbidden", Message: "a change needs the header X-Culprit: 1"}
	case takesFile(r.URL.Path):
		if err != nil || kind != "application/octet-stream" {
			return &fault{status: http.StatusUnsupportedMediaType, Code: "bad-request", Message: "a file needs another type", Hint: "send it with Content-Type: application/octet-stream"}
		}
	case err != nil || kind != "application/json":
		return &fault{status: http.StatusUnsupportedMediaType, Code: "bad-request", Message: "a change needs a body of application/json"}
	}
	return nil
}

// takesFile says whether a POST to the path brings a file.
func takesFile(path string) bool { return path == "/api/profiles" }

// readsOnly says whether a POST to the path changes nothing: Prometheus's API takes long expressions so.
func (s *Server) readsOnly(path string) bool { return strings.HasPrefix(path, "/api/v1/") }

// bucket lets a few through at once and some each second. The right token never meets it.
type bucket struct {
	mu   sync.Mutex
	left float64
	last time.Time
}

const (
	wrongAtOnce    = 20.0
	wrongPerSecond = 5.0
)

func (b *bucket) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last.IsZero() {
		b.left = wrongAtOnce
	} else if d := now.Sub(b.last).Seconds(); d > 0 {
		b.left = min(wrongAtOnce, b.left+d*wrongPerSecond)
	}
	b.last = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// printable makes a text of a stranger safe to show, and short.
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
