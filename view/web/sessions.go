package web

import (
	"net/http"
	"strconv"

	"culprit/view"
	"culprit/view/web/access"
	"culprit/view/web/api"
)

// sessions lists, begins and ends the sessions of browsers.
type sessions struct {
	*core
	guard *access.Guard // nil until Server.Handler
}

// login replies with the secret of a session, for the code of its login or for a token.
func (s *sessions) login(w http.ResponseWriter, r *http.Request) error {
	var l access.Login
	if err := readBody(r, &l); err != nil {
		return err
	}
	secret, err := s.guard.Login(w, r, l)
	if err != nil {
		return err
	}
	return s.sendJSON(w, r, append(view.AppendString([]byte(`{"secret":`), secret), '}'))
}

// logout ends the session of the request.
func (s *sessions) logout(w http.ResponseWriter, r *http.Request) error {
	if err := readBody(r, &struct{}{}); err != nil {
		return err
	}
	if err := s.guard.Logout(w, r); err != nil {
		return err
	}
	return s.sendJSON(w, r, []byte("{}"))
}

// list lists the sessions that the caller may see.
func (s *sessions) list(w http.ResponseWriter, r *http.Request) error {
	if err := noParameters(r); err != nil {
		return err
	}
	c := access.From(r.Context())
	b := []byte(`{"sessions":[`)
	for i, one := range s.guard.Sessions.List(c.Sees) {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendString(append(b, `{"id":`...), one.ID)
		b = view.AppendString(append(b, `,"token":`...), one.Token)
		b = view.AppendString(append(b, `,"browser":`...), one.Browser)
		b = view.AppendString(append(b, `,"from":`...), one.From)
		b = api.AppendMillis(append(b, `,"made_ms":`...), int64(one.Made))
		b = api.AppendMillis(append(b, `,"used_ms":`...), int64(one.Used))
		b = api.AppendMillis(append(b, `,"ends_ms":`...), int64(one.Ends))
		b = strconv.AppendBool(append(b, `,"current":`...), one.ID == c.SessionID())
		b = append(b, '}')
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}

// change ends one session, or with the ID "all" each one that the caller may see.
func (s *sessions) change(w http.ResponseWriter, r *http.Request) error {
	if err := readBody(r, &struct{}{}); err != nil {
		return err
	}
	id, action := r.PathValue("id"), r.PathValue("action")
	if action != "revoke" {
		return notFound("unknown action "+printable(action), "revoke")
	}
	c := access.From(r.Context())
	count, err := s.guard.Sessions.Revoke(func(one access.Session) bool {
		return c.Sees(one) && (id == "all" || id == one.ID)
	})
	if err != nil {
		return err
	}
	if count == 0 && id != "all" {
		return notFound("there is no session "+printable(id), "api/sessions lists them")
	}
	b := strconv.AppendInt([]byte(`{"revoked":`), int64(count), 10)
	return s.sendJSON(w, r, append(b, '}'))
}
