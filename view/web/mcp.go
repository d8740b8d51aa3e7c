package web

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"culprit/measure"
)

// RunQuery calls f within the limits of queries: it waits for a slot, bounds the time, and meters
// the CPU time. The error is that of f, or says that the server is busy. A panic of f is an error.
func (s *Server) RunQuery(ctx context.Context, f func(context.Context) error) (err error) {
	ctx, release, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	s.metered(func() {
		defer func() {
			if p := recover(); p != nil {
				err = measure.Recovered("answering a tool", p)
			}
		}()
		err = f(ctx)
	})
	s.count(err)
	return err
}

// mcp passes a message of the Model Context Protocol to Config.MCP, and replies. Refusals of the
// protocol's handler get the form of the API.
func (s *Server) mcp(w http.ResponseWriter, r *http.Request) error {
	if s.MCP == nil {
		return &fault{
			status: http.StatusNotImplemented, Code: "unsupported",
			Message: "this server has no tools",
		}
	}
	if err := noParameters(r); err != nil {
		return err
	}
	kept := &keptReply{header: http.Header{}}
	r = r.Clone(r.Context())
	r.Header.Set("Accept", "application/json, text/event-stream") // the reply is JSON in any case
	s.MCP.ServeHTTP(kept, r)
	kind := kept.header.Get("Content-Type")
	switch {
	case kept.status >= 400 && !strings.HasPrefix(kind, "application/json"):
		return mcpFault(kept.status, strings.TrimSpace(kept.body.String()))
	case kept.body.Len() == 0: // a notification
		w.WriteHeader(max(kept.status, http.StatusOK))
		return nil
	}
	if kept.status >= 400 {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(kept.status)
		_, _ = w.Write(kept.body.Bytes()) // fails only if the client is gone
		return nil
	}
	return s.send(w, r, kind, kept.body.Bytes())
}

// mcpFault returns the reply to a message that the protocol's handler refused.
func mcpFault(status int, message string) *fault {
	f := &fault{
		status: status, Code: "bad-request", Message: "the message is refused: " + printable(message),
		Hint: "docs/MCP.md describes what a client sends",
	}
	if status == http.StatusRequestEntityTooLarge {
		f.Code = "too-large"
	}
	return f
}

// keptReply keeps the reply of a handler. The replies of tools are bounded.
type keptReply struct {
	header http.Header
	status int // 0: 200
	body   bytes.Buffer
}

func (k *keptReply) Header() http.Header { return k.header }

func (k *keptReply) WriteHeader(status int) {
	if k.status == 0 {
		k.status = status
	}
}

func (k *keptReply) Write(b []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	return k.body.Write(b)
}

// Flush implements http.Flusher: the handler needs one.
func (k *keptReply) Flush() {}
