package web

import (
	"errors"
	"net/http"

	"culprit/measure"
)

// begun is a ResponseWriter that remembers whether the status was sent.
type begun struct {
	http.ResponseWriter
	sent bool
}

func (b *begun) WriteHeader(status int) {
	b.sent = b.sent || status >= 200
	b.ResponseWriter.WriteHeader(status)
}

func (b *begun) Write(p []byte) (int, error) {
	b.sent = true
	return b.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (b *begun) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// ended500 ends a request whose handler panicked with p: with status 500 and what happened, or, if part of the
// reply was sent, by closing the connection, so that the part is not taken for the whole. The recording goes on.
func (s *Server) ended500(w *begun, r *http.Request, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	f := s.broke("answering "+printable(r.URL.Path), p)
	if w.sent {
		panic(http.ErrAbortHandler)
	}
	for _, name := range []string{"Content-Length", "ETag", "Last-Modified"} {
		w.Header().Del(name)
	}
	refuse(w, f)
}

// broke counts a panic, keeps it for health to report, and returns it as an error. Call it in the function that
// recovered.
func (s *Server) broke(doing string, p any) error {
	f := measure.Recovered(doing, p)
	s.count(f)
	return f
}

// count counts the faults of culprit itself among errors, and keeps the newest for health.
func (s *Server) count(err error) {
	var f *measure.Fault
	if errors.As(err, &f) {
		text := f.Error()
		s.faults.Add(1)
		s.fault.Store(&text)
	}
}
