package client

import (
	"context"
	"net/url"

	"culprit/measure"
)

// Session is one login of a browser at the server.
type Session struct {
	ID      string
	Token   string // name of the token; "": the server's own
	Browser string
	From    string // address at the login
	Made    measure.Time
	Used    measure.Time
	Ends    measure.Time
}

// Sessions lists the sessions that the client may see, newest first. See Client for errors.
func (c *Client) Sessions(ctx context.Context) ([]Session, error) {
	var reply struct {
		Sessions []struct {
			ID, Token, Browser, From string
			Made                     float64 `json:"made_ms"`
			Used                     float64 `json:"used_ms"`
			Ends                     float64 `json:"ends_ms"`
		}
	}
	if err := c.get(ctx, "api/sessions", &reply); err != nil {
		return nil, err
	}
	var all []Session
	for _, s := range reply.Sessions {
		all = append(all, Session{
			ID: s.ID, Token: s.Token, Browser: s.Browser, From: s.From,
			Made: parseTime(s.Made), Used: parseTime(s.Used), Ends: parseTime(s.Ends),
		})
	}
	return all, nil
}

// Revoke ends a session, or all with the ID "all", and returns how many ended. See Client for
// errors.
func (c *Client) Revoke(ctx context.Context, id string) (count int, err error) {
	var reply struct{ Revoked int }
	path := "api/sessions/" + url.PathEscape(id) + "/revoke"
	err = c.post(ctx, path, struct{}{}, &reply)
	return reply.Revoked, err
}
