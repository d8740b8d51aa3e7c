package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/measure"
	culprit "culprit/profile"
	"culprit/view/web/access"

	"github.com/google/pprof/profile"
)

const scrapePath = "/debug/pprof/profile"

// stacked is a memory with samples: 49 per second are expected of each of two CPUs, and nginx has
// seven per second of its time.
type stacked struct{ *memory }

func (m stacked) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	elapsed := q.Over.Span()
	m.mu.Lock()
	newest := m.ticks[len(m.ticks)-1].at
	m.mu.Unlock()
	if q.Over.End > newest {
		return nil, fmt.Errorf("ask: nothing is recorded after %v: %w", newest, measure.ErrUnclear)
	}
	a := &measure.Answer{Query: q, Start: q.Over.Start, Step: q.Step,
		Elapsed: []measure.Span{elapsed}}
	row := func(v float64, key ...measure.Label) {
		a.Series = append(a.Series, measure.Series{Key: key, Values: []float64{v}})
	}
	switch {
	case q.Stat == measure.StackRate:
		a.Labels = []string{"0", "1"}
		row(49, 0)
		row(49, 1)
	case q.Stat == measure.StackSamples:
		a.Labels = []string{"worker", "11"}
		a.Frames = []measure.Frame{{Parent: -1}, {Symbol: "serve", Module: "nginx", Parent: -1}}
		row(7, 0, 0, 1, 1)
	case strings.HasPrefix(q.String(), culprit.ProcessNames):
		a.Labels = []string{"11", "nginx", "/system.slice/web.service"}
		row(1, 0, 1, 2)
	default:
		return m.memory.Ask(ctx, q)
	}
	return a, nil
}

// run lets the time of a memory pass, at a second per millisecond, until stop is called.
func (m *memory) run() (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
			}
			m.mu.Lock()
			last := m.ticks[len(m.ticks)-1]
			m.mu.Unlock()
			m.add(last.at+second, last.rows)
		}
	}()
	return func() {
		close(end)
		<-done
	}
}

// basic returns the header of basic authentication.
func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// TestScrape shows the time and the samples of a profile, and its labels.
func TestScrape(t *testing.T) {
	for _, tt := range []struct {
		query   string
		seconds int64
	}{{"", 30}, {"?seconds=1", 1}, {"?seconds=60", 60}} {
		t.Run(tt.query, func(t *testing.T) {
			m := newMemory(t).filled(3)
			s := serve(t, stacked{m}).until(start + 3*second)
			defer m.run()()
			res := s.get(scrapePath + tt.query)
			p, err := profile.Parse(res.Body)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%s %v", res.Status, err)
			}
			if p.DurationNanos != tt.seconds*1e9 || p.TimeNanos < int64(start+3*second) {
				t.Errorf("%d ns from %d", p.DurationNanos, p.TimeNanos)
			}
			if len(p.Sample) != 1 {
				t.Fatalf("samples %v", p.Sample)
			}
			one := p.Sample[0]
			got := fmt.Sprint(one.Label["process"], one.Label["cgroup"], one.Label["service"],
				one.Value[0], one.Location[0].Line[0].Function.Name)
			want := fmt.Sprint([]string{"nginx"}, []string{"/system.slice/web.service"},
				[]string{"web"}, 7*tt.seconds, "serve")
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if res.Header.Get("Set-Cookie") != "" || res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("headers %v", res.Header)
			}
		})
	}
}

// TestScrapeCredentials shows who gets a profile: a token in either scheme, but no session, and
// the password at no other address.
func TestScrapeCredentials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	may := addToken(t, path, "scraper", access.RoleProfile, 0)
	views := addToken(t, path, "viewer", access.RoleView, 0)
	m := newMemory(t).filled(3)
	s := serve(t, stacked{m}, func(s *Server) {
		s.Tokens = &access.Tokens{Path: path}
	}).until(start + 3*second)
	defer m.run()()
	session := s.login(token)
	for _, tt := range []struct {
		name, path, header, cookie string
		want                       int
	}{
		{"bearer", scrapePath, "Bearer " + may, "", 200},
		{"password", scrapePath, basic("x", may), "", 200},
		{"password without a user", scrapePath, basic("", may), "", 200},
		{"password beside a session", scrapePath, basic("x", may), session.cookie, 200},
		{"token as user", scrapePath, basic(may, "x"), "", 401},
		{"wrong password", scrapePath, basic("x", may[1:]), "", 401},
		{"no password", scrapePath, basic("x", ""), "", 401},
		{"no base64", scrapePath, "Basic " + may, "", 401},
		{"role view", scrapePath, basic("x", views), "", 403},
		{"session", scrapePath, "", session.cookie, 403},
		{"wrong password beside a session", scrapePath, basic("x", "y"), session.cookie, 401},
		{"other address", "/api/health", basic("x", may), "", 401},
		{"page", "/", basic("x", may), "", 401},
		{"metrics", "/metrics", basic("x", may), "", 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			query := ""
			if tt.path == scrapePath {
				query = "?seconds=1"
			}
			res := s.get(tt.path+query, "Authorization", tt.header, "Cookie", tt.cookie)
			if res.StatusCode != tt.want {
				t.Errorf("status %d, want %d", res.StatusCode, tt.want)
			}
			if h := res.Header; len(h["Set-Cookie"]) > 0 ||
				strings.HasPrefix(h.Get("WWW-Authenticate"), "Basic") {
				t.Errorf("headers %v", h)
			}
		})
	}
}

// TestScrapeGuesses shows that wrong passwords are slowed down as wrong tokens are.
func TestScrapeGuesses(t *testing.T) {
	m := newMemory(t).filled(3)
	s := serve(t, stacked{m}).until(start + 3*second)
	refused := 0
	for i := range 60 {
		header := basic("x", fmt.Sprintf("%032d", i))
		if s.get(scrapePath, "Authorization", header).StatusCode == 429 {
			refused++
		}
	}
	if refused == 0 {
		t.Error("60 wrong passwords were tried")
	}
}

// TestScrapeParameters shows the bounds of a length, and the error of others.
func TestScrapeParameters(t *testing.T) {
	s := serve(t, stacked{newMemory(t).filled(3)}).until(start + 3*second)
	for _, query := range []string{
		"seconds=0", "seconds=61", "seconds=-1", "seconds=1.5", "seconds=NaN", "seconds=x",
		"seconds=99999999999999999999", "seconds=1&seconds=2", "second=1",
	} {
		if got := s.code(s.get(scrapePath + "?" + query)); got != "400 bad-request" {
			t.Errorf("%s: %s", query, got)
		}
	}
}

// TestScrapesAreBounded shows that a fifth scrape is refused, and that one begins when a client has
// gone.
func TestScrapesAreBounded(t *testing.T) {
	m := newMemory(t).filled(3)
	s := serve(t, stacked{m}).until(start + 3*second)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	done := make(chan struct{})
	for range maxScrapes {
		go func() {
			defer func() { done <- struct{}{} }()
			r, err := http.NewRequestWithContext(ctx, "GET", s.base+scrapePath+"?seconds=60", nil)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer "+token)
			if res, err := http.DefaultClient.Do(r); err == nil {
				_ = res.Body.Close()
				t.Errorf("a client that leaves got %s", res.Status)
			}
		}()
	}
	s.running(t, maxScrapes)
	if got := s.code(s.get(scrapePath + "?seconds=1")); got != "503 busy" {
		t.Errorf("the fifth: %s", got)
	}
	leave()
	for range maxScrapes {
		<-done
	}
	s.running(t, 0)
	defer m.run()()
	if got := s.get(scrapePath + "?seconds=1").StatusCode; got != http.StatusOK {
		t.Errorf("after they left: %d", got)
	}
}

// running waits until a number of scrapes runs.
func (s *site) running(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(s.profiles.scrapes) != n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d scrapes run, not %d", len(s.profiles.scrapes), n)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestScrapeOfAStandstill shows that a scrape ends when the recording does, or the server.
func TestScrapeOfAStandstill(t *testing.T) {
	late := serve(t, stacked{newMemory(t).filled(3)}, func(s *Server) {
		s.profiles.lateness = -990 * time.Millisecond // of a second
	}).until(start + 3*second)
	if got := late.code(late.get(scrapePath + "?seconds=1")); got != "503 busy" {
		t.Errorf("without ticks: %s", got)
	}
	s := serve(t, stacked{newMemory(t).filled(3)}).until(start + 3*second)
	go func() {
		s.running(t, 1)
		s.Close()
	}()
	if got := s.code(s.get(scrapePath + "?seconds=60")); got != "503 busy" {
		t.Errorf("a server that stops: %s", got)
	}
}

// TestLongReply shows that a profile may take longer than other requests.
func TestLongReply(t *testing.T) {
	m := newMemory(t).filled(3)
	site := serve(t, stacked{m}, func(s *Server) {
		s.Sample = func(ctx context.Context, _ Sampling) (*Sampled, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(600 * time.Millisecond):
			}
			return sampler(nil)(ctx, Sampling{})
		}
	}).until(start + 3*second)
	h := site.HTTP(false)
	h.ReadTimeout, h.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = h.Serve(l) }()
	defer func() { _ = h.Close() }()
	site.base = "http://" + l.Addr().String()
	go func() {
		time.Sleep(600 * time.Millisecond)
		m.add(start+5*second, m.ticks[0].rows)
	}()
	if got := site.get(scrapePath + "?seconds=1").StatusCode; got != http.StatusOK {
		t.Errorf("the scrape: %d", got)
	}
	if got := site.request("POST", "/api/profiles/take", `{}`).StatusCode; got != http.StatusOK {
		t.Errorf("sampling: %d", got)
	}
}

// TestScrapeByGo runs Go's own tool with the token as password.
func TestScrapeByGo(t *testing.T) {
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs: tool go")
	}
	m := newMemory(t).filled(3)
	s := serve(t, stacked{m}).until(start + 3*second)
	defer m.run()()
	address := strings.Replace(s.base, "http://", "http://x:"+token+"@", 1) + scrapePath
	c := exec.Command(tool, "tool", "pprof", "-top", "-seconds=5",
		"-tagfocus=service=web", address)
	dir := t.TempDir()
	c.Env = append(os.Environ(), "PPROF_TMPDIR="+dir)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	for _, want := range []string{"Duration: 5s", "714.29ms", "serve"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, &out)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("kept %v %v", files, err)
	}
	if name := files[0].Name(); strings.Contains(name, token) {
		t.Errorf("the token is in the name %s", name)
	}
}
