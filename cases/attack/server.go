package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// server is a running `culprit serve`.
type server struct {
	bench  *bench
	dir    string
	host   string // address and port
	token  string // grants every role
	web    *http.Client
	cmd    *exec.Cmd
	ended  chan struct{} // closed at its end
	mu     sync.Mutex
	said   bytes.Buffer
	tokens map[string]string // by role, made by giveToken
}

// Write receives what the server prints.
func (s *server) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.Write(p)
}

func (s *server) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

// start starts a server on a directory and does not wait for it. before is put before its command.
func (b *bench) start(dir string, before []string, args ...string) (*server, error) {
	s := &server{
		bench: b, dir: dir, host: freeAddress(), ended: make(chan struct{}),
		web: &http.Client{Timeout: 40 * time.Second, Transport: &http.Transport{}},
	}
	line := append(append([]string{}, before...), b.bin, "serve", "--dir", dir)
	if !strings.Contains(strings.Join(args, " "), "--listen") {
		line = append(line, "--listen", s.host)
	}
	s.cmd = b.grouped(append(line, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s, s
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = s.cmd.Wait(); close(s.ended) }() // ProcessState says how it ended
	return s, nil
}

// freeAddress returns a loopback address with a free port.
func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "127.0.0.1:7410"
	}
	defer l.Close()
	return l.Addr().String()
}

// serve starts a server and waits until it has recorded two seconds.
func (b *bench) serve(dir string, args ...string) (*server, error) {
	s, err := b.start(dir, nil, args...)
	if err != nil {
		return nil, err
	}
	return s, s.ready()
}

// ready waits until the server has recorded a second.
func (s *server) ready() error {
	began := time.Now()
	return s.within(20*time.Second, "a recorded second", func() error {
		if s.gone() {
			return errors.New(strings.TrimSpace(s.text()))
		}
		text, err := os.ReadFile(filepath.Join(s.dir, "token"))
		if err != nil {
			return err
		}
		s.token = strings.TrimSpace(string(text))
		a, err := s.ask("sched.forks", began, time.Now())
		if err == nil && a.measured() == 0 {
			err = errors.New("nothing is recorded")
		}
		return err
	})
}

// within tries until f succeeds. The error is the last one of f.
func (s *server) within(limit time.Duration, what string, f func() error) error {
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		err := f()
		if err == nil {
			return nil
		}
		if time.Now().After(end) || s.gone() {
			return fmt.Errorf("%s within %v: %w; it printed: %s; its processes are %v", what, limit,
				err, s.text(), s.processes())
		}
	}
}

// gone reports whether the server has ended.
func (s *server) gone() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// kill ends all processes of the server at once.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
	s.web.CloseIdleConnections()
}

// reply is the answer to a request.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// code returns the code of an error reply, "" if there is none.
func (r reply) code() string {
	var e struct {
		Error struct{ Code string }
		Code  string
	}
	_ = json.Unmarshal(r.body, &e) // no error reply
	return e.Error.Code + e.Code
}

// request sends a request with a token ("": none) and headers as name, value pairs.
func (s *server) request(
	method, path, token, body string, headers ...string,
) (reply, error) {
	q, err := http.NewRequest(method, "http://"+s.host+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	web := *s.web
	web.CheckRedirect = func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}
	a, err := web.Do(q)
	if err != nil {
		return reply{}, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, 64<<20))
	return reply{a.StatusCode, a.Header, text}, err
}

// post sends a change as the page does.
func (s *server) post(path, token, body string) (reply, error) {
	return s.request("POST", path, token, body, "X-Culprit", "1", "Content-Type",
		"application/json")
}

// get decodes the reply to a GET with the server's own token.
func (s *server) get(path string, into any) error {
	a, err := s.request("GET", path, s.token, "")
	if err != nil {
		return err
	}
	if a.status != http.StatusOK {
		return fmt.Errorf("%s: status %d: %.200s", path, a.status, a.body)
	}
	return json.Unmarshal(a.body, into)
}

// answers returns nil if the server answers within five seconds.
func (s *server) answers() error {
	q, err := http.NewRequest("GET", "http://"+s.host+"/api/health", nil)
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", "Bearer "+s.token)
	a, err := (&http.Client{
		Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
	}).Do(q)
	if err != nil {
		return err
	}
	return a.Body.Close()
}

// troubles returns what the server reports of itself.
func (s *server) troubles() ([]string, error) {
	var h struct{ Trouble []string }
	err := s.get("/api/health", &h)
	return h.Trouble, err
}

// answer is what the API answers to a query.
type answer struct {
	Start   float64   `json:"start_ms"`
	Step    float64   `json:"step_ms"`
	Elapsed []float64 `json:"elapsed_ms"`
	Series  []struct {
		Key    []any
		Values []*float64
	}
	Notes []string
}

// measured returns the number of seconds in which something was measured.
func (a answer) measured() (n int) {
	for _, e := range a.Elapsed {
		if e > 0 {
			n++
		}
	}
	return n
}

// ask returns what was recorded, one cell per second.
func (s *server) ask(query string, from, to time.Time) (answer, error) {
	var a answer
	v := url.Values{"q": {query}, "step": {"1000"}, "from": {stamp(from)}, "to": {stamp(to)}}
	return a, s.get("/api/ask?"+v.Encode(), &a)
}

func stamp(at time.Time) string { return at.Format(time.RFC3339Nano) }

// lost waits until the time to is recorded, and returns the number of seconds from from to then
// that no interval covers. A late second is within the interval of the next one.
func (s *server) lost(from, to time.Time) (int, error) {
	from, to = from.Truncate(time.Second), to.Truncate(time.Second)
	var a answer
	err := s.within(20*time.Second, "an answer", func() (err error) {
		if a, err = s.ask("sched.forks", from, time.Now()); err != nil {
			return err
		}
		for i, e := range a.Elapsed {
			if end := a.Start + a.Step*float64(i+1); e > 0 && end >= float64(to.UnixMilli()) {
				return nil
			}
		}
		return errors.New("recording has stopped")
	})
	if err != nil {
		return 0, err
	}
	return gaps(a), nil
}

// gaps returns the number of cells before the newest tick that no interval covers.
func gaps(a answer) (n int) {
	covered := 0. // milliseconds before the start of the later tick that its interval covers
	seen := false
	for i := len(a.Elapsed) - 1; i >= 0; i-- {
		switch e := a.Elapsed[i]; {
		case e > 0:
			covered, seen = e-1.2*a.Step, true // an interval may be a fifth longer than the step
		case covered > 0:
			covered -= a.Step
		case seen:
			n++
		}
	}
	return n
}

// giveToken returns a token with a role.
func (s *server) giveToken(role string) (string, error) {
	if t := s.tokens[role]; t != "" {
		return t, nil
	}
	out, err := s.bench.must(10*time.Second, "tokens", "add", "for-"+role, "--may", role,
		"--print-token", "--dir", s.dir)
	if err != nil {
		return "", err
	}
	for _, word := range strings.FieldsFunc(out, func(r rune) bool {
		return !strings.ContainsRune("0123456789abcdef", r)
	}) {
		if len(word) >= 32 {
			if s.tokens == nil {
				s.tokens = map[string]string{}
			}
			s.tokens[role] = word
			return word, nil
		}
	}
	return "", fmt.Errorf("no token in %q", out)
}
