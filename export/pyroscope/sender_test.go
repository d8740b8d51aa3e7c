package pyroscope

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"culprit/measure"

	"github.com/google/pprof/profile"
)

const start = measure.Time(1_772_366_400e9)

// world is a recording of two services and a process without one, at 49 samples per second. Each
// has its own number of samples per second.
type world struct {
	mu      sync.Mutex
	newest  measure.Time
	fresh   chan struct{}
	broken  error
	hostile string // the name of a further process; "": none
}

func newWorld() *world { return &world{newest: start, fresh: make(chan struct{})} }

// pass lets a number of seconds pass.
func (w *world) pass(seconds int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.newest = w.newest.Add(measure.Span(seconds) * measure.Second)
	close(w.fresh)
	w.fresh = make(chan struct{})
}

func (w *world) Tick(ctx context.Context, after measure.Time) (measure.Time, error) {
	for {
		w.mu.Lock()
		newest, fresh := w.newest, w.fresh
		w.mu.Unlock()
		if newest > after {
			return newest, nil
		}
		select {
		case <-fresh:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (w *world) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q.Over.End > w.newest {
		return nil, fmt.Errorf("%v is not recorded yet", q.Over.End)
	}
	a := &measure.Answer{Query: q, Start: q.Over.Start, Step: q.Step,
		Elapsed: []measure.Span{q.Over.Span()}}
	row := func(v float64, key ...measure.Label) {
		a.Series = append(a.Series, measure.Series{Key: key, Values: []float64{v}})
	}
	switch q.Stat {
	case measure.StackRate:
		a.Labels = []string{"0"}
		row(49, 0)
	case measure.StackSamples:
		if w.broken != nil {
			return nil, w.broken
		}
		a.Labels = []string{"thread", "11", "12", "13", "14"}
		a.Frames = []measure.Frame{
			{Parent: -1}, {Symbol: "main", Module: "nginx", Parent: -1},
			{Symbol: "query", Module: "postgres", Parent: -1},
		}
		row(2, 0, 0, 1, 1)
		row(3, 0, 0, 2, 2)
		row(7, 0, 0, 1, 3)
		if w.hostile != "" {
			row(1, 0, 0, 1, 4)
		}
	default:
		a.Labels = []string{"11", "12", "13", "nginx", "postgres", "/system.slice/nginx.service",
			"/system.slice/db.service", "bash", "", "14", w.hostile}
		row(1, 0, 3, 5)
		row(1, 1, 4, 6)
		row(1, 2, 7, 8)
		if w.hostile != "" {
			row(1, 9, 10, 8)
		}
	}
	return a, nil
}

// A pushed is a decoded request.
type pushed struct {
	labels      map[string]string
	from, until int64
	profile     *profile.Profile
	tenant      string
}

// server is a receiver by the documentation of Pyroscope's API: it refuses what that does not
// allow.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	got    []pushed
	wrong  []string
	status func(service string) int // nil: 200
}

// labelName is what Pyroscope takes as the name of a label.
var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.]*$`)

func newServer(t *testing.T) *server {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := decode(r)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.wrong = append(s.wrong, err.Error())
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if s.status != nil {
			if status := s.status(p.labels["service_name"]); status != http.StatusOK {
				w.WriteHeader(status)
				return
			}
		}
		s.got = append(s.got, p)
	}))
	t.Cleanup(s.Close)
	return s
}

// decode decodes a request of POST /ingest.
func decode(r *http.Request) (p pushed, err error) {
	q := r.URL.Query()
	if r.Method != http.MethodPost || r.URL.Path != "/ingest" || q.Get("format") != "pprof" {
		return p, fmt.Errorf("%s %s", r.Method, r.URL)
	}
	if p.labels, err = parseName(q.Get("name")); err != nil {
		return p, err
	}
	p.tenant = r.Header.Get("X-Scope-OrgID")
	p.from, err = strconv.ParseInt(q.Get("from"), 10, 64)
	p.until, _ = strconv.ParseInt(q.Get("until"), 10, 64)
	if err != nil || p.from >= p.until {
		return p, fmt.Errorf("from %q until %q: %w", q.Get("from"), q.Get("until"), err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return p, err
	}
	if p.profile, err = profile.Parse(bytes.NewReader(body)); err != nil {
		return p, err
	}
	if len(p.profile.Sample) == 0 {
		return p, errors.New("an empty profile")
	}
	return p, p.profile.CheckValid()
}

// parseName parses app{name=value,name=value}. There are no quotes and no escapes.
func parseName(text string) (map[string]string, error) {
	app, rest, found := strings.Cut(text, "{")
	inner, after, closed := strings.Cut(rest, "}")
	if app == "" || !found || !closed || after != "" {
		return nil, fmt.Errorf("name %q", text)
	}
	labels := map[string]string{"": app}
	for pair := range strings.SplitSeq(inner, ",") {
		name, value, found := strings.Cut(pair, "=")
		if !found || !labelName.MatchString(name) || value == "" || strings.Contains(value, "=") {
			return nil, fmt.Errorf("label %q of %q", pair, text)
		}
		labels[name] = value
	}
	return labels, nil
}

// run starts a sender to the server, and ends it with the test.
func (s *server) run(t *testing.T, w *world) *Sender {
	t.Helper()
	one, err := New(s.URL+"#tenant=blue", "db1", "1.0", func() measure.Span { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	one.backoff.Min, one.backoff.Max = time.Millisecond, 2*time.Millisecond
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		one.Run(ctx, w)
	}()
	t.Cleanup(func() {
		end()
		<-done
	})
	time.Sleep(10 * time.Millisecond) // it has its first tick
	return one
}

// wait waits until the condition holds under the server's lock.
func (s *server) wait(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		ok, got, wrong := condition(), len(s.got), s.wrong
		s.mu.Unlock()
		if len(wrong) > 0 {
			t.Fatalf("refused: %q", wrong)
		}
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d profiles arrived", what, got)
		}
	}
}

// TestPush shows the requests of 15 seconds: a profile per service, with labels and values.
func TestPush(t *testing.T) {
	s, w := newServer(t), newWorld()
	s.run(t, w)
	w.pass(14)
	time.Sleep(20 * time.Millisecond)
	s.wait(t, "too early", func() bool { return len(s.got) == 0 })
	w.pass(1)
	s.wait(t, "an interval", func() bool { return len(s.got) == 3 })
	var got []string
	for _, p := range s.got {
		one := p.profile.Sample[0]
		got = append(got, fmt.Sprint(p.labels[""], " ", p.labels["service_name"], " ",
			p.labels["instance"], " ", p.tenant, one.Label["process"], one.Label["cgroup"],
			one.Value[0], p.from, p.until, len(p.profile.Sample), len(one.Label["service"])))
		if p.profile.DurationNanos != 15e9 || p.profile.PeriodType.Type != "cpu" ||
			p.profile.SampleType[1].Unit != "nanoseconds" || len(p.profile.Function) != 2 {
			t.Errorf("%v", p.profile)
		}
	}
	const times = "1772366400 1772366415"
	want := []string{
		"culprit bash db1 blue[bash] [] 105 " + times + " 1 0",
		"culprit db db1 blue[postgres] [/system.slice/db.service] 45 " + times + " 1 0",
		"culprit nginx db1 blue[nginx] [/system.slice/nginx.service] 30 " + times + " 1 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestOutage shows that a short outage loses nothing, and that nothing arrives twice. After a long
// one, profiles begin five minutes ago.
func TestOutage(t *testing.T) {
	for _, tt := range []struct {
		name    string
		seconds int
		first   int64 // second of the first profile that arrives
		lost    string
	}{
		{"short", 285, 0, ""},
		{"long", 600, 285, "profiles were not delivered"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, w := newServer(t), newWorld()
			away := true
			tried := 0
			s.status = func(service string) int {
				if tried++; away && service != "bash" {
					return http.StatusServiceUnavailable
				}
				return http.StatusOK
			}
			one := s.run(t, w)
			for range tt.seconds / 15 {
				w.pass(15)
			}
			s.wait(t, "attempts", func() bool { return tried > 10 })
			last := int64(tt.seconds - 15)
			if trouble := one.Trouble(); !strings.Contains(trouble, "503") {
				t.Errorf("trouble %q", trouble)
			}
			s.mu.Lock()
			away = false
			s.mu.Unlock()
			s.wait(t, "the newest", func() bool {
				return slices.ContainsFunc(s.got, func(p pushed) bool {
					return p.from == start.AsTime().Unix()+last && p.labels["service_name"] == "nginx"
				})
			})
			counts := map[string]int{}
			for _, p := range s.got {
				counts[fmt.Sprint(p.labels["service_name"], p.from-start.AsTime().Unix())]++
			}
			for second := tt.first; second <= last; second += 15 {
				for _, service := range []string{"bash", "db", "nginx"} {
					if n := counts[fmt.Sprint(service, second)]; n != 1 {
						t.Errorf("%s at %d arrived %d times", service, second, n)
					}
				}
			}
			if counts["nginx0"] != 0 && tt.first > 0 {
				t.Error("the oldest arrived")
			}
			eventually(t, one, tt.lost)
		})
	}
}

// eventually waits until the trouble of a sender contains a text; "": until there is none.
func eventually(t *testing.T, s *Sender, want string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		got := s.Trouble()
		if (got == "") == (want == "") && strings.Contains(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("trouble %q, want %q", got, want)
		}
	}
}

// TestRejected shows that a service that is rejected is not sent again, and those after it are.
func TestRejected(t *testing.T) {
	s, w := newServer(t), newWorld()
	tried := 0
	s.status = func(service string) int {
		if service == "db" {
			tried++
			return http.StatusUnprocessableEntity
		}
		return http.StatusOK
	}
	one := s.run(t, w)
	w.pass(15)
	s.wait(t, "others", func() bool { return len(s.got) == 2 && tried == 1 })
	eventually(t, one, "422")
}

// TestUnreadable shows that a recording without samples is a problem, which ends with the next.
func TestUnreadable(t *testing.T) {
	s, w := newServer(t), newWorld()
	w.broken = fmt.Errorf("samples are off: %w", measure.ErrUnclear)
	one := s.run(t, w)
	w.pass(15)
	eventually(t, one, "samples are off")
	w.mu.Lock()
	w.broken = nil
	w.mu.Unlock()
	w.pass(15)
	eventually(t, one, "")
	s.wait(t, "the next", func() bool { return len(s.got) == 3 })
}

// TestHostileName shows that the name of a process adds no label.
func TestHostileName(t *testing.T) {
	s, w := newServer(t), newWorld()
	w.hostile = `x},instance=other{&format=jfr=` + "\x1b\xff"
	s.run(t, w)
	w.pass(15)
	s.wait(t, "an interval", func() bool { return len(s.got) == 4 })
	if labels := s.got[3].labels; len(labels) != 3 || labels["instance"] != "db1" ||
		!strings.HasPrefix(labels["service_name"], "x__instance_other_&format_jfr_") {
		t.Errorf("labels %q", labels)
	}
}

// TestNew shows that addresses are those of package receiver.
func TestNew(t *testing.T) {
	if _, err := New("host:4040", "a", "1", nil); err == nil ||
		!strings.Contains(err.Error(), "pyroscope: it needs a scheme") {
		t.Errorf("%v", err)
	}
	s, err := New("https://h:4040/base/", "a", "1", nil)
	if err != nil || s.Key() != "pyroscope https://h:4040/base" {
		t.Errorf("%v", err)
	}
	if u, err := url.Parse(s.path(" ", measure.Interval{})); err != nil ||
		u.Query().Get("name") != "culprit{service_name=unknown,instance=a}" {
		t.Errorf("%v %v", u, err)
	}
}
