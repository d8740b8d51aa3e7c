package access

import (
	"fmt"
	"net/http"
	"net/url"
)

// reloadScript loads the page again; see loginPage.
const reloadScript = `location.replace(location.pathname + ` +
	`(location.search ? location.search + "&" : "?") + "again" + location.hash)` + "\n"

// ReloadScript replies with the script of the login page. It holds no secret, and is loaded with
// and without a cookie. The error is always nil.
func ReloadScript(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	_, _ = w.Write([]byte(reloadScript)) // fails only if the client is gone
	return nil
}

// isLogin reports whether the request opens the page with a valid token in its address. That token
// begins a new session.
func (g *Guard) isLogin(r *http.Request) bool {
	if r.URL.Path != "/" || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	_, _, known := g.ownerOf(r.URL.Query().Get("token"))
	return known
}

// login replies to a request without a valid session or token: with a session if its address has a
// valid token, with the login page, or with an error. before is the caller that is known already.
func (g *Guard) login(w http.ResponseWriter, r *http.Request, at site, before Caller) error {
	get := r.Method == http.MethodGet || r.Method == http.MethodHead
	secret := r.URL.Query().Get("token")
	c, of, known := g.ownerOf(secret)
	if known && get && r.URL.Path == "/" {
		if !c.May(View) {
			g.loginPage(w, r, noPage(c))
			return nil
		}
		one := g.begin(w, r, at, c, of, before)
		// The token leaves the address. The page exchanges the code for the secret, once.
		w.Header().Set("Location", "./?"+url.Values{"login": {g.Sessions.issueCode(one)}}.Encode())
		w.WriteHeader(http.StatusSeeOther)
		return nil
	}
	wrong := secret != "" || r.Header.Get("Authorization") != ""
	if wrong {
		if err := g.wrongToken(w); err != nil {
			return err
		}
	}
	if get && r.URL.Path == "/" {
		text := ""
		if wrong {
			text = "This is not the token of the server. "
		}
		g.loginPage(w, r, text)
		return nil
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="culprit"`)
	f := &Refusal{
		Status: http.StatusUnauthorized, Code: "unauthorized",
		Message: "this needs the token of the server",
		Hint:    "open the address that culprit serve printed, or send Authorization: Bearer TOKEN",
	}
	if wrong {
		f.Message = "this is not the token of the server"
	}
	return f
}

// noPage says that a role does not include the page.
func noPage(c Caller) string {
	return fmt.Sprintf("The token for %s has the role %s, which does not include the page. ",
		c.Name, c.Role)
}

// begin makes a session and sets its cookie, in place of the session of before.
func (g *Guard) begin(
	w http.ResponseWriter, r *http.Request, at site, c Caller, of sum, before Caller,
) *session {
	one, cookie := g.Sessions.begin(c.Name, of, r, g.Sites.peer(r), before.session)
	g.setCookie(w, at, cookie, int(g.Sessions.max.Seconds()))
	w.Header().Set("Cache-Control", "no-store")
	return one
}

// setCookie sets the cookie of a site for some seconds; -1 removes it.
func (g *Guard) setCookie(w http.ResponseWriter, at site, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: g.cookieName(at), Value: value, Path: at.path, MaxAge: seconds,
		HttpOnly: true, Secure: at.scheme == "https", SameSite: http.SameSiteStrictMode,
	})
}

// Login is what the page sends to log in: the code of its address, or a token.
type Login struct {
	Code  string `json:"code"`
	Token string `json:"token"`
}

// Login returns the secret of a session. With a code it is the session of the request, and with a
// token a new one, whose cookie it sets. The error is a *Refusal.
func (g *Guard) Login(w http.ResponseWriter, r *http.Request, l Login) (secret string, err error) {
	before := From(r.Context())
	if l.Token == "" {
		if before.session != nil {
			if secret, ok := g.Sessions.exchange(before.session, l.Code); ok {
				return secret, nil
			}
		}
		return "", &Refusal{
			Status: http.StatusForbidden, Code: "locked",
			Message: "the code of the login is wrong, was used, or is older than a minute",
			Hint:    "enter the token again",
		}
	}
	c, of, known := g.ownerOf(l.Token)
	if !known {
		if err := g.wrongToken(w); err != nil {
			return "", err
		}
		return "", &Refusal{
			Status: http.StatusForbidden, Code: "wrong-token",
			Message: "this is not a token of the server",
		}
	}
	if !c.May(View) {
		return "", &Refusal{
			Status: http.StatusForbidden, Code: "denied", Message: noPage(c) + "It is for programs",
		}
	}
	at, _ := g.Sites.of(r) // it was admitted
	return g.Sessions.issueSecret(g.begin(w, r, at, c, of, before)), nil
}

// Logout ends the session of a request, if it has one, and removes its cookie. The error is that of
// Sessions.Revoke.
func (g *Guard) Logout(w http.ResponseWriter, r *http.Request) error {
	c := From(r.Context())
	if c.session == nil {
		return nil
	}
	at, _ := g.Sites.of(r) // it was admitted
	g.setCookie(w, at, "", -1)
	_, err := g.Sessions.Revoke(func(s Session) bool { return s.ID == c.session.ID })
	return err
}

// loginPage replies with a form for the token, below a text. A link from another site comes without
// the cookie, which is SameSite=Strict; then a script loads the page again, now from this site, and
// keeps the fragment of the address.
func (g *Guard) loginPage(w http.ResponseWriter, r *http.Request, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	script := ""
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		script = `<script src="again.js"></script>`
	}
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte(`<!doctype html><html lang="en"><meta charset="utf-8">` +
		`<title>culprit</title><meta name="viewport" content="width=device-width">` + script +
		`<h1>culprit</h1><p>` + text + "This page needs the token of the server: open the address " +
		"that <code>culprit serve</code> printed, or enter the token here." +
		`</p><form action="./" method="get"><label>Token ` +
		`<input name="token" type="password" autocomplete="off" autofocus></label> ` +
		`<button>Open</button></form></html>` + "\n"))
}
