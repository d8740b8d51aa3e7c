package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"
)

// Guard admits requests: it checks the host name, the origin, the token or the session, and what a
// request must prove. It is safe for concurrent use once its fields are set.
type Guard struct {
	Secret   string  // the server's own token, which grants every role; "" admits nobody
	Tokens   *Tokens // more tokens; nil: none
	Sessions *Sessions
	Sites    Sites

	wrongTokens rateLimit
}

// SecretHeader is the header with the secret of a session.
const SecretHeader = "X-Culprit-Secret"

// Admit returns the caller of a request. If admitted is false, it has replied, or err is the
// *Refusal of the request. The Caller of an open request may be unknown: the zero Caller.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request) (c Caller, admitted bool, err error) {
	at, err := g.Sites.checkOrigin(r)
	if err != nil {
		return c, false, err
	}
	if at.scheme == "https" && !isLocalName(at.host) {
		// Without a port, it holds for all ports of the host.
		w.Header().Set("Strict-Transport-Security", "max-age=2592000")
	}
	c, known := g.identify(r, at)
	if isOpen(r.Method, r.URL.Path) {
		return c, true, nil
	}
	if !known || g.isLogin(r) {
		return c, false, g.login(w, r, at, c)
	}
	return c, true, nil
}

// Check refuses a request that the caller's role does not include, or that lacks the proof or the
// content type of its rule. kind is the media type that the body must have; "": any.
func (g *Guard) Check(r *http.Request, c Caller, rule Rule, kind string) error {
	if !c.May(rule.Need) {
		return &Refusal{
			Status: http.StatusForbidden, Code: "denied",
			Message: fmt.Sprintf("this needs the role %s; the token for %s has the role %s",
				least(rule.Need), c.Name, c.Role),
			Hint: fmt.Sprintf("the owner of the server can add one: culprit tokens add NAME --may %s",
				least(rule.Need)),
		}
	}
	if rule.Proof == NoProof {
		return nil
	}
	if rule.Proof.tokenOnly() && c.session != nil {
		return &Refusal{
			Status: http.StatusForbidden, Code: "forbidden",
			Message: "a browser's session can't use this",
			Hint:    "send the token in the header Authorization",
		}
	}
	if !rule.Proof.tokenOnly() && r.Header.Get("X-Culprit") != "1" &&
		r.Method == http.MethodPost {
		return &Refusal{
			Status: http.StatusForbidden, Code: "forbidden",
			Message: "a change needs the header X-Culprit: 1",
		}
	}
	if rule.Proof == Secret && c.session != nil &&
		!g.Sessions.proves(c.session, r.Header.Get(SecretHeader)) {
		return &Refusal{
			Status: http.StatusForbidden, Code: "locked",
			Message: "this tab may only view: it lacks the secret of its login",
			Hint:    "enter the token again",
		}
	}
	if r.Method != http.MethodPost || kind == "" {
		return nil
	}
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != kind {
		return &Refusal{
			Status: http.StatusUnsupportedMediaType, Code: "bad-request",
			Message: "this needs another type of body", Hint: "send it with Content-Type: " + kind,
		}
	}
	return nil
}

// tokenOf returns the token of a request's header. found is false if there is no such header, or it
// has a scheme that the rule of the request does not take.
func tokenOf(r *http.Request) (secret string, found bool) {
	kind, secret, found := strings.Cut(r.Header.Get("Authorization"), " ")
	if found && strings.EqualFold(kind, "Bearer") {
		return strings.TrimSpace(secret), true
	}
	if rule, ok := RuleOf(r.Method, r.URL.Path); ok && rule.Proof == Password {
		_, secret, found = r.BasicAuth()
		return secret, found
	}
	return "", false
}

// identify returns the owner of the request's token, or of its session.
func (g *Guard) identify(r *http.Request, at site) (c Caller, known bool) {
	if secret, found := tokenOf(r); found {
		c, _, known = g.ownerOf(secret)
		c.way = "command line"
		return c, known
	}
	if g.Secret == "" {
		return Caller{}, false
	}
	for _, cookie := range r.CookiesNamed(g.cookieName(at)) {
		one := g.Sessions.find(cookie.Value, true)
		if one == nil {
			continue
		}
		if c, known = g.ownerOfSession(one); known {
			return c, true
		}
	}
	return Caller{}, false
}

// ownerOfSession returns the owner of a session. known is false if its token is no longer valid.
func (g *Guard) ownerOfSession(one *session) (c Caller, known bool) {
	if one.Token == "" {
		own := sumOf(g.Secret)
		known = subtle.ConstantTimeCompare(one.token[:], own[:]) == 1
		return Caller{Role: RoleTrace, way: "page", session: one}, known
	}
	for _, t := range g.validTokens() {
		if t.Name == one.Token && t.sum == one.token {
			return Caller{Name: t.Name, Role: t.May, way: "page", session: one}, true
		}
	}
	return Caller{}, false
}

// Lives reports whether a caller who was admitted would be admitted now: its session has not ended,
// and its token is valid. The time of the session's newest request stays.
func (g *Guard) Lives(c Caller) bool {
	switch {
	case c.Trusted:
		return true
	case c.session != nil:
		_, known := g.ownerOfSession(c.session)
		return known && g.Sessions.lives(c.session)
	case c.Name == "":
		return c.known()
	}
	for _, t := range g.validTokens() {
		if t.Name == c.Name && t.May == c.Role {
			return true
		}
	}
	return false
}

// ownerOf returns the owner of a token's secret, and its sum. The time it takes depends on no
// secret.
func (g *Guard) ownerOf(secret string) (c Caller, of sum, known bool) {
	if g.Secret == "" || secret == "" {
		return Caller{}, of, false
	}
	of = sumOf(secret)
	own := sumOf(g.Secret)
	if subtle.ConstantTimeCompare(of[:], own[:]) == 1 {
		return Caller{Role: RoleTrace}, of, true
	}
	for _, t := range g.validTokens() {
		if subtle.ConstantTimeCompare(of[:], t.sum[:]) == 1 {
			return Caller{Name: t.Name, Role: t.May}, of, true
		}
	}
	return Caller{}, of, false
}

// validTokens returns the valid tokens beside the server's own; none if their file can't be read,
// which /api/health reports.
func (g *Guard) validTokens() []Token {
	if g.Tokens == nil {
		return nil
	}
	all, err := g.Tokens.Valid()
	if err != nil {
		return nil
	}
	return all
}

// cookieName returns the name of the cookie at a site. It differs between servers, since a browser
// sends the cookies of a host to all its ports. Over TLS its prefix keeps pages of plain HTTP and
// of other hosts from setting it: RFC 6265bis, 4.1.3.
func (g *Guard) cookieName(at site) string {
	m := hmac.New(sha256.New, []byte(g.Secret))
	m.Write([]byte("name"))
	name := "culprit-" + hex.EncodeToString(m.Sum(nil))[:12]
	switch {
	case at.scheme != "https":
		return name
	case at.path == "/":
		return "__Host-" + name
	}
	return "__Secure-" + name
}

// wrongToken counts a wrong token. The error is a *Refusal if there were too many.
func (g *Guard) wrongToken(w http.ResponseWriter) error {
	if g.wrongTokens.allow(time.Now()) {
		return nil
	}
	w.Header().Set("Connection", "close")
	return &Refusal{
		Status: http.StatusTooManyRequests, Code: "too-many", Message: "too many wrong tokens",
		RetryAfter: time.Second,
	}
}
