package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// TestComparisonsPause: a comparison pauses as long as its queries take CPU time, so it takes half
// a CPU, and others get the slot of its query meanwhile.
func TestComparisonsPause(t *testing.T) {
	m := newMemory(t).filled(60)
	s := serve(t, m).until(start + 60*second)
	var spent time.Duration
	p := &pacedReader{core: s.core, cpu: func() time.Duration {
		spent += 10 * time.Millisecond
		return spent
	}}
	q, err := measure.ParseQuery("net.device.bytes by device")
	if err != nil {
		t.Fatal(err)
	}
	q.Over, q.Step = measure.Interval{Start: start, End: start + 60*second}, measure.Second
	begun := time.Now()
	for range 5 {
		if _, err := p.Ask(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		if n := s.RunningQueries(); n != 0 {
			t.Fatalf("%d slots are taken during the pause", n)
		}
	}
	if took := time.Since(begun); took < 50*time.Millisecond {
		t.Errorf("five queries of 10 ms of CPU time took %v", took)
	}
	p.cpu = func() time.Duration { spent += time.Hour; return spent }
	begun = time.Now()
	if _, err := p.Ask(t.Context(), q); err != nil || time.Since(begun) > 10*time.Second {
		t.Errorf("after an hour of CPU time: %v, %v", time.Since(begun), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Ask(ctx, q); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
}

// TestOneComparisonAtATime: two comparisons do not run at once, and a graph is answered while one
// runs.
func TestOneComparisonAtATime(t *testing.T) {
	m := newMemory(t).filled(60)
	m.asking = make(chan struct{})
	s := serve(t, m).until(start + 60*second)
	statuses := make(chan int, 2)
	for range 2 {
		go func() { statuses <- s.request(http.MethodGet, inQuestion(), "").StatusCode }()
	}
	for deadline := time.Now().Add(10 * time.Second); s.RunningQueries() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no comparison began")
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	if n := s.RunningQueries(); n != 1 {
		t.Errorf("%d queries of two comparisons run", n)
	}
	close(m.asking)
	for range 2 {
		if status := <-statuses; status != 200 {
			t.Errorf("status %d", status)
		}
	}
	status, body := s.reply(s.get("/api/ask?q=net.device.bytes&from=-10s"))
	if status != 200 || !strings.Contains(body, "series") {
		t.Errorf("a graph: status %d", status)
	}
}
