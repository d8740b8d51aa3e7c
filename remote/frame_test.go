package remote

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"culprit/measure"
	"culprit/wire"
)

// Frames that are cut, doubled, of another version or too large are errors at both ends.
func TestBadFrames(t *testing.T) {
	hello := endFrame(wire.AppendUint(append(startFrame(nil, kindHello), magic...), version), 0)
	other := endFrame(wire.AppendUint(append(startFrame(nil, kindHello), magic...), version+1), 0)
	run := runRequest{
		id:      1,
		role:    RoleRecord,
		queries: []measure.Query{query(t, "a.b.c by n where n = 1")},
	}
	request := endFrame(run.append(startFrame(nil, kindRun)), 0)
	large := append(startFrame(nil, kindRun), 0)
	large[3] = 0x7f
	tests := []struct {
		name string
		b    []byte
	}{
		{"no hello", request},
		{"two hellos", slices.Concat(hello, hello)},
		{"another version", other},
		{"unknown kind", slices.Concat(hello, endFrame(startFrame(nil, 200), 0))},
		{"too large", slices.Concat(hello, large)},
		{"doubled run", slices.Concat(hello, request, request)},
		{
			"more than a run",
			slices.Concat(hello, endFrame(append(run.append(startFrame(nil, kindRun)), 1), 0)),
		},
	}
	for n := range len(run.append(nil)) {
		b := endFrame(run.append(startFrame(nil, kindRun))[:headSize+n], 0)
		tests = append(tests, struct {
			name string
			b    []byte
		}{fmt.Sprint("a run cut at ", n), slices.Concat(hello, b)})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRecorder(Config{Sources: []measure.Source{&seconds{id: "a.b.c"}}})
			defer r.Close()
			if err := r.Serve(newStream(tt.b)); !errors.Is(err, wire.ErrInvalid) {
				t.Errorf("the recorder says %v", err)
			}
		})
	}
	for n := range len(hello) + len(request) {
		r := NewRecorder(Config{Sources: []measure.Source{&seconds{id: "a.b.c"}}})
		if err := r.Serve(newStream(slices.Concat(hello, request)[:n])); err != io.EOF &&
			err != io.ErrUnexpectedEOF {
			t.Errorf("cut at %d: %v", n, err)
		}
		r.Close()
	}
}

// stream is a connection whose peer has sent some bytes and takes anything.
type stream struct {
	mu sync.Mutex
	b  []byte
}

func newStream(b []byte) *stream { return &stream{b: b} }

func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.b)
	s.b = s.b[n:]
	return n, nil
}

func (s *stream) Write(p []byte) (int, error) { return len(p), nil }
func (s *stream) Close() error                { return nil }
