package main

import (
	"context"

	"culprit/view/term"
	"culprit/view/web/client"
)

// connectSessions connects to the server that records in a directory, to list and end its sessions.
// The caller closes it.
func connectSessions(requested string) (term.Sessions, error) {
	c, err := connectClient(requested)
	if err != nil {
		return nil, err
	}
	return serverSessions{c}, nil
}

// serverSessions implements term.Sessions with a client.
type serverSessions struct{ client *client.Client }

// Sessions implements term.Sessions.
func (s serverSessions) Sessions(ctx context.Context) ([]term.Session, error) {
	all, err := s.client.Sessions(ctx)
	out := make([]term.Session, len(all))
	for i, one := range all {
		out[i] = term.Session(one)
	}
	return out, err
}

// Revoke implements term.Sessions.
func (s serverSessions) Revoke(ctx context.Context, id string) (int, error) {
	return s.client.Revoke(ctx, id)
}

// Close implements term.Sessions.
func (s serverSessions) Close() error {
	s.client.Close()
	return nil
}
