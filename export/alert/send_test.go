package alert

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"culprit/diagnose"
	"culprit/measure"
)

// inbox is a server that keeps the bodies of requests. Its answers are those of answer, one after
// the other; then 200.
type inbox struct {
	*httptest.Server
	mu     sync.Mutex // guards the fields below
	paths  []string
	bodies [][]byte
	answer []http.HandlerFunc
	got    chan struct{} // receives a value for each request that was accepted
}

func newInbox(t *testing.T, answer ...http.HandlerFunc) *inbox {
	b := &inbox{answer: answer, got: make(chan struct{}, 1000)}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		b.mu.Lock()
		if len(b.answer) > 0 {
			h := b.answer[0]
			b.answer = b.answer[1:]
			b.mu.Unlock()
			h(w, r)
			return
		}
		b.paths, b.bodies = append(b.paths, r.Method+" "+r.URL.Path), append(b.bodies, body)
		b.mu.Unlock()
		b.got <- struct{}{}
	}))
	t.Cleanup(b.Close)
	return b
}

// last waits for an accepted request and returns the newest body.
func (b *inbox) last(t *testing.T) []byte {
	t.Helper()
	select {
	case <-b.got:
	case <-time.After(20 * time.Second):
		t.Fatal("no request within 20 s")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bodies[len(b.bodies)-1]
}

// run runs a sender until the end of the test.
func run(t *testing.T, f func(context.Context)) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}

// status returns an answer with a status and a text.
func status(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

// rubbish answers with what is no HTTP.
func rubbish(w http.ResponseWriter, _ *http.Request) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_, _ = c.Write([]byte("\x00\xff rubbish \r\n\r\n"))
		_ = c.Close()
	}
}

// hangs answers nothing until the client leaves.
func hangs(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(10 * time.Second):
	}
}

// TestWebhook lets a server refuse, hang, and answer rubbish, before it accepts: all changes arrive
// once, in order.
func TestWebhook(t *testing.T) {
	b := newInbox(t, status(503, "away"), rubbish, hangs, status(429, ""))
	s := NewStream(nil)
	w, err := NewWebhook(b.URL+"/hook", s, &Sender{Instance: "db1", Version: "1.0", Page: "http://db1/"})
	if err != nil {
		t.Fatal(err)
	}
	w.backoff.Min, w.backoff.Max = time.Millisecond, time.Millisecond
	now := after(100)
	w.now = func() measure.Time { return now }
	w.target.SetTimeout(300 * time.Millisecond)
	s.Observe(after(0), report(after(0), "", finding("link-saturated/eth0", diagnose.Medium, "iperf3")))
	s.Observe(after(10), report(after(10), "", finding("link-saturated/eth0", diagnose.High, "iperf3")))
	run(t, w.Run)
	var got delivery
	if err := json.Unmarshal(b.last(t), &got); err != nil {
		t.Fatal(err)
	}
	if got.Format != 1 || got.Sender != "culprit" || got.Instance != "db1" || got.Version != "1.0" ||
		got.Page != "http://db1/" || len(got.Changes) != 2 {
		t.Fatalf("%+v", got)
	}
	first, second := got.Changes[0], got.Changes[1]
	if first.Change != Appeared || first.Severity != diagnose.Medium || first.Before != nil ||
		first.Ended != nil || first.Time != after(0) || len(first.Evidence) != 2 ||
		first.Verify != "nicstat 1" || first.Fix.Undo != "tc qdisc del" || first.Culprit.PID != 4711 {
		t.Errorf("the first change is %+v", first)
	}
	if second.Change != Changed || second.Severity != diagnose.High ||
		second.Before.Severity != diagnose.Medium || second.Began != after(0) {
		t.Errorf("the second change is %+v", second)
	}
	s.Observe(after(70), report(after(70), ""))
	got = delivery{}
	if err := json.Unmarshal(b.last(t), &got); err != nil {
		t.Fatal(err)
	}
	if c := got.Changes[0]; len(got.Changes) != 1 || c.Change != Ended || *c.Ended != after(70) ||
		c.Seen != after(10) {
		t.Errorf("the third change is %+v", c)
	}
	if len(b.bodies) != 2 || b.paths[0] != "POST /hook" {
		t.Errorf("%d requests to %s", len(b.bodies), b.paths)
	}
}

// TestWebhookRejected shows that a rejected change is lost, reported, and does not block others.
func TestWebhookRejected(t *testing.T) {
	b := newInbox(t, status(400, "no such \x1b[31m field\nsecond line"))
	s := NewStream(nil)
	w, err := NewWebhook(b.URL+"/s3cret", s, &Sender{}) // troubles leave out the path
	if err != nil {
		t.Fatal(err)
	}
	w.now = func() measure.Time { return after(20) }
	s.Observe(after(0), report(after(0), "", finding("link-saturated/eth0", diagnose.High, "x")))
	run(t, w.Run)
	wantTrouble(t, w.Trouble, "webhook "+b.URL+": 400 Bad Request no such ?[31m field")
	s.Observe(after(10), report(after(10), "", finding("link-saturated/eth1", diagnose.High, "y")))
	if body := string(b.last(t)); !strings.Contains(body, "d/eth1") || strings.Contains(body, "d/eth0") {
		t.Errorf("sent after the rejection: %s", body)
	}
	wantTrouble(t, w.Trouble, "webhook "+b.URL+": 1 changes of findings were not delivered")
}

// TestWebhookAfterOutage shows that changes older than an hour are not delivered.
func TestWebhookAfterOutage(t *testing.T) {
	b := newInbox(t)
	s := NewStream(nil)
	w, err := NewWebhook(b.URL, s, &Sender{})
	if err != nil {
		t.Fatal(err)
	}
	w.now = func() measure.Time { return after(3601) }
	for i, at := range []int{0, 1} {
		s.Observe(after(at), report(after(at), "",
			finding(fmt.Sprintf("link-saturated/eth%d", i), diagnose.High, "x")))
	}
	run(t, w.Run)
	if body := string(b.last(t)); !strings.Contains(body, "d/eth1") || strings.Contains(body, "d/eth0") {
		t.Errorf("sent: %s", body)
	}
	wantTrouble(t, w.Trouble, "webhook "+b.URL+": 1 changes of findings were not delivered")
}

// wantTrouble waits for a text.
func wantTrouble(t *testing.T, trouble func() string, want string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); trouble() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("trouble %q, want %q", trouble(), want)
		}
	}
}

// TestAlertmanagerRequests shows what is sent, and that a receiver that was away gets the state of
// now, not what happened meanwhile.
func TestAlertmanagerRequests(t *testing.T) {
	b := newInbox(t, status(500, ""), rubbish, hangs)
	s := NewStream(nil)
	m, err := NewAlertmanager(b.URL+"/am/", s, &Sender{Instance: "db1", Page: "http://db1:7410/"})
	if err != nil {
		t.Fatal(err)
	}
	m.backoff.Min, m.backoff.Max = time.Millisecond, time.Millisecond
	m.target.SetTimeout(300 * time.Millisecond)
	s.Observe(after(0), report(after(0), "", finding("link-saturated/eth0", diagnose.High, "iperf3")))
	run(t, m.Run)
	var got []posted
	if err := json.Unmarshal(b.last(t), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || b.paths[0] != "POST /am/api/v2/alerts" {
		t.Fatalf("%s: %+v", b.paths, got)
	}
	a := got[0]
	wantMap(t, "label", a.Labels, map[string]string{
		"alertname": "link-saturated", "rule": "link-saturated", "finding": "link-saturated/eth0",
		"kind": "process", "culprit": "iperf3", "severity": "high", "instance": "db1",
		"job": "culprit",
	})
	wantMap(t, "annotation", a.Annotations, map[string]string{
		"summary":  "iperf3 saturates eth0: 97 % of 1 Gbit/s.",
		"claim":    "iperf3 saturates eth0: 97 % of 1 Gbit/s.",
		"evidence": "eth0 sends 970 Mbit/s\nthe queue drops 12 packets/s",
		"caveats":  "the speed of the link is that of its driver", "verify": "nicstat 1",
		"fix": "tc qdisc add", "undo": "tc qdisc del", "risk": "low: it waits",
	})
	if !a.StartsAt.Equal(after(0).AsTime()) || !a.EndsAt.Equal(after(240).AsTime()) ||
		a.GeneratorURL != "http://db1:7410/" {
		t.Errorf("%+v", a)
	}
	s.Observe(after(60), report(after(60), "", finding("link-saturated/eth1", diagnose.Low, "y")))
	got = nil
	if err := json.Unmarshal(b.last(t), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Labels["finding"] != "link-saturated/eth1" ||
		!got[1].EndsAt.Equal(after(60).AsTime()) {
		t.Errorf("after the end: %+v", got)
	}
}

// wantMap compares maps, and names the first difference.
func wantMap(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s %s is %q, want %q", what, name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d %ss, want %d: %v", len(got), what, len(want), got)
	}
}

// TestLog shows the lines of a log.
func TestLog(t *testing.T) {
	s := NewStream(nil)
	s.Observe(after(0), report(after(0), "", finding("link-saturated/eth0", diagnose.High, "iperf3")))
	s.Observe(after(60), report(after(60), ""))
	r, w := io.Pipe()
	defer r.Close() //nolint:errcheck // never fails; ends the last write
	run(t, func(ctx context.Context) { s.Log(ctx, w, &Sender{Instance: "db1"}) })
	d := json.NewDecoder(r)
	for _, want := range []string{"1 appeared link-saturated high", "1 ended link-saturated high"} {
		var e event
		if err := d.Decode(&e); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(e.Format, " ", e.Change, " ", e.Rule, " ", e.Severity); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
