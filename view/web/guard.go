package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"culprit/measure"
	"culprit/view/web/access"
	"culprit/view/web/listen"
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

// guard admits requests, by the rules of access.
type guard struct {
	*core
	access *access.Guard
}

// newGuard returns the guard of a configured server.
func newGuard(c *core) *guard {
	sessions := c.Sessions
	if sessions == nil {
		sessions = access.OpenSessions("", access.DefaultIdle, access.DefaultMax)
	}
	return &guard{core: c, access: &access.Guard{
		Secret: c.Token, Tokens: c.Tokens, Sessions: sessions, Sites: c.Sites,
	}}
}

// auditName returns the caller of a request as the audit log has it.
func auditName(r *http.Request) string { return access.From(r.Context()).AuditName() }

// isTrusted reports whether the caller in a request's context came by a trusted listener.
func isTrusted(ctx context.Context) bool { return access.From(ctx).Trusted }

// RoleName returns the name of the role of the caller in the context of a request, for what checks
// it again.
func RoleName(ctx context.Context) string { return access.From(ctx).Role.String() }

// askerOf returns the caller of a request with its role, for what checks it again.
func askerOf(r *http.Request) measure.Asker {
	return measure.Asker{Name: auditName(r), Role: RoleName(r.Context())}
}

// wrap returns a handler that passes admitted requests to next and refuses the others. With trusted
// each peer may do everything.
func (g *guard) wrap(next http.Handler, trusted bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w.Header())
		r = g.access.Sites.Strip(r)
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
		c := access.TrustedCaller()
		if !trusted {
			var admitted bool
			var err error
			if c, admitted, err = g.access.Admit(w, r); err != nil {
				refuse(w, err)
			}
			if c.Role != 0 {
				listen.Identified(r.Context())
			}
			if !admitted {
				return
			}
		}
		tracked := &trackedWriter{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				g.replyToPanic(tracked, r, p)
			}
		}()
		next.ServeHTTP(tracked, access.With(r, c))
	})
}

// check refuses a request that the rule of its method and path does not allow.
func (g *guard) check(r *http.Request, path string) error {
	rule, ok := access.RuleOf(r.Method, path)
	if !ok {
		return notFound("nobody may use "+printable(r.Method+" "+path), "")
	}
	kind := "application/json"
	switch {
	case isUpload(path):
		kind = "application/octet-stream"
	case rule.Proof == access.NoProof:
		kind = ""
	}
	return g.access.Check(r, access.From(r.Context()), rule, kind)
}

func setSecurityHeaders(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// isUpload reports whether a POST to the path brings a file.
func isUpload(path string) bool { return path == "/api/profiles" }

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

// printable returns a text of a stranger, shortened, with '?' for bytes that are not safe to show.
func printable(s string) string { return access.Printable(s) }

// recheck is how long a viewer may follow without another look at its session or token.
const recheck = 5 * time.Second

// admission returns a function that reports whether the caller in a context would still be
// admitted. It looks at most once per recheck.
func (l *live) admission(ctx context.Context) func() bool {
	if l.guard == nil {
		return func() bool { return true } // a handler without a guard, in a test
	}
	caller, looked, admitted := access.From(ctx), time.Now(), true
	return func() bool {
		if now := time.Now(); now.Sub(looked) >= recheck {
			looked, admitted = now, l.guard.Lives(caller)
		}
		return admitted
	}
}
