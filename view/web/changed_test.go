package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// changedReply is the reply of /api/changed.
type changedReply struct {
	Before, After struct {
		StartMS float64 `json:"start_ms"`
		EndMS   float64 `json:"end_ms"`
	}
	Compared int
	Changes  []struct {
		Statistic, Query string
		Before, After    float64
		Explains         []struct {
			Field, Value string
			Share        float64
		}
	}
}

// addTraffic makes eth0 receive 90 MB/s in the first half of the recording and 11 MB/s in the
// second, and eth1 4 MB/s in both.
func addTraffic(m *memory) {
	for i := range m.ticks {
		rate := 90e6
		if i >= len(m.ticks)/2 {
			rate = 11e6
		}
		m.ticks[i].rows["net.device.bytes"] = []line{
			{[]string{"eth0", "rx"}, rate}, {[]string{"eth1", "rx"}, 4e6},
		}
	}
}

// secondsAfter formats n seconds after the start of the recording.
func secondsAfter(n int) string {
	return fmt.Sprint(int64((start + measure.Time(n)*second) / 1e6))
}

// inQuestion is the request that compares seconds 30 to 50 with the time before.
func inQuestion() string {
	return "/api/changed?from=" + secondsAfter(30) + "&to=" + secondsAfter(50)
}

func TestChangedNamesTheDevice(t *testing.T) {
	m := newMemory(t).filled(60)
	addTraffic(m)
	s := serve(t, m).until(start + 60*second)
	for _, tt := range []struct {
		name, parameters string
		beforeStart      int
		changes          bool
	}{
		{"the time before", "", 10, true},
		{"another time", "&against_from=" + secondsAfter(2) + "&against_to=" + secondsAfter(22), 2, true},
		{"one that is alike", "&against_from=" + secondsAfter(50) + "&against_to=" + secondsAfter(60), 50,
			false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r changedReply
			s.decodeReply(s.get(inQuestion()+tt.parameters), &r)
			if fmt.Sprintf("%.0f", r.Before.StartMS) != secondsAfter(tt.beforeStart) ||
				r.After.EndMS-r.After.StartMS != 20_000 {
				t.Errorf("compared %+v with %+v", r.After, r.Before)
			}
			if r.Compared < 4 {
				t.Errorf("%d statistics compared", r.Compared)
			}
			found := ""
			for _, c := range r.Changes {
				if c.Statistic == "net.device.bytes" {
					found = c.Query
					if c.Before < 89e6 || c.After > 16e6 {
						t.Errorf("%v -> %v", c.Before, c.After)
					}
				}
			}
			if strings.Contains(found, `device = "eth0"`) != tt.changes {
				t.Errorf("the query of the change: %q", found)
			}
		})
	}
}

func TestChangedRefuses(t *testing.T) {
	s := serve(t, newMemory(t).filled(20)).until(start + 20*second)
	for _, tt := range []struct {
		name, parameters string
		status           int
		want             string
	}{
		{"no time", "", 400, "which time?"},
		{"two seconds", "from=-2s", 400, "too short"},
		{"two seconds to compare with", "from=-5s&against_from=-10s&against_to=-8s", 400, "too short"},
		{"a time that ends before it begins", "from=-5s&against_from=-8s&against_to=-10s", 400,
			"too short"},
		{"nothing recorded", "from=-2d&to=-1d", 404, "no statistic was recorded in both times"},
		{"a host", "from=-5s&host=a", 400, "there is no parameter"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := s.get("/api/changed?" + tt.parameters)
			status, body := s.reply(res)
			if status != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("status %d: %s", status, body)
			}
		})
	}
}

// A comparison waits for a place among the expensive queries, as all of them do.
func TestChangedTakesASlot(t *testing.T) {
	m := newMemory(t).filled(60)
	m.asking = make(chan struct{})
	s := serve(t, m).until(start + 60*second)
	done := make(chan int)
	go func() {
		res := s.request(http.MethodGet, inQuestion(), "")
		done <- res.StatusCode
	}()
	for deadline := time.Now().Add(10 * time.Second); s.RunningQueries() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the comparison takes no slot")
		}
		time.Sleep(time.Millisecond)
	}
	close(m.asking)
	if status := <-done; status != 200 {
		t.Errorf("status %d", status)
	}
	if n := s.RunningQueries(); n != 0 {
		t.Errorf("%d queries run after it", n)
	}
}

// A comparison that takes long sends what it has found so far, and at last what it would have
// replied at once.
func TestChangedSendsParts(t *testing.T) {
	m := newMemory(t).filled(60)
	addTraffic(m)
	m.asking = make(chan struct{})
	s := serve(t, m).until(start + 60*second)
	seen := make(chan struct{})
	go func() {
		defer close(m.asking)
		for {
			select {
			case m.asking <- struct{}{}:
				time.Sleep(partInterval / 2) // the condition is that time passes
			case <-seen:
				return
			}
		}
	}()
	res := s.get(inQuestion(), "Accept", "text/event-stream")
	r := bufio.NewReader(res.Body)
	name, data := sse(t, r)
	close(seen)
	var part struct {
		Read, Of int
		Report   changedReply
	}
	if err := json.Unmarshal([]byte(data), &part); err != nil || name != "part" {
		t.Fatalf("the first event is %q: %v", name, err)
	}
	if part.Read < 1 || part.Read >= part.Of || part.Report.Compared > part.Read {
		t.Errorf("the first part: %+v", part)
	}
	for name == "part" {
		name, data = sse(t, r)
	}
	_, whole := s.reply(s.get(inQuestion()))
	if name != "report" || data != strings.TrimSpace(whole) {
		t.Errorf("the last event is %s: %.300s, want %.300s", name, data, whole)
	}
}

// Before the first part an error has its status.
func TestChangedRefusesEvents(t *testing.T) {
	s := serve(t, newMemory(t).filled(20)).until(start + 20*second)
	res := s.get("/api/changed?from=-2d&to=-1d", "Accept", "text/event-stream")
	if status, body := s.reply(res); status != 404 || !strings.Contains(body, `"error"`) {
		t.Errorf("status %d: %s", status, body)
	}
	res = s.get("/api/changed?from=-5s", "Accept", "text/event-stream")
	if name, _ := sse(t, bufio.NewReader(res.Body)); name != "report" {
		t.Errorf("the only event is %s", name)
	}
}
