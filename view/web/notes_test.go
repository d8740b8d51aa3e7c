package web

import (
	"fmt"
	"strings"
	"testing"

	"culprit/measure"
)

// notesReply is the reply of /api/notes.
type notesReply struct {
	Notes []struct {
		AtMS            float64 `json:"at_ms"`
		Kind, Text, Who string
		ID              uint32
	}
	More    int
	Problem string
}

func (s *site) notesFrom(parameters string) (r notesReply) {
	s.t.Helper()
	s.decodeReply(s.get("/api/notes?"+parameters), &r)
	return r
}

// What was noted, and what the recording did, are one list in the order of time.
func TestNotes(t *testing.T) {
	m := newMemory(t).filled(20)
	log := func(n int, actor, action, query string) {
		m.changes = append(m.changes, measure.Change{
			At: start + measure.Time(n)*second, Actor: actor, Action: action, Query: query,
		})
	}
	log(1, "default", "made", "cpu.time by mode")
	log(2, "culprit", "recorded nothing", "culprit restarted here: nothing was recorded for 9s before")
	log(3, "page", "stopped", "script reads")
	log(4, "budget", "suspended", "disk.latency by device")
	log(5, "clock", "set forward", "")
	log(6, "clock", "discarded", "")
	log(7, "page", "destroyed", "net.drops")
	s := serve(t, m).until(start + 20*second)
	post := func(body string) string {
		_, reply := s.reply(s.request("POST", "/api/notes", body))
		return reply
	}
	added := post(fmt.Sprintf(`{"text":"web 1.4","kind":"deploy","at_ms":%s}`, secondsAfter(3)))
	if !strings.Contains(added, `"id":1`) {
		t.Fatal(added)
	}
	post(`{"text":"slow since lunch"}`)
	got := []string{}
	for _, n := range s.notesFrom("").Notes {
		after := int64(n.AtMS) - int64(start/1e6)
		got = append(got, fmt.Sprintf("%d %s %s", after/1000, n.Kind, n.Text))
	}
	want := []string{
		"2 culprit culprit restarted here: nothing was recorded for 9s before",
		"3 script script reads stopped",
		"3 deploy web 1.4",
		"4 dataset disk.latency by device suspended",
		"5 clock the clock was set forward",
		"20 note slow since lunch",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if status, _ := s.reply(s.request("POST", "/api/notes/1/remove", "{}")); status != 200 {
		t.Errorf("remove: %d", status)
	}
	if n := len(s.notesFrom("").Notes); n != len(want)-1 {
		t.Errorf("%d notes after one was removed", n)
	}
	if status, _ := s.reply(s.request("POST", "/api/notes/9/remove", "{}")); status != 404 {
		t.Errorf("remove what never was: %d", status)
	}
}

func TestNotesRefuse(t *testing.T) {
	s := serve(t, newMemory(t).filled(3)).until(start + 3*second)
	for _, tt := range []struct {
		name, body string
	}{
		{"no text", `{}`},
		{"two lines", `{"text":"a\nb"}`},
		{"too long", `{"text":"` + strings.Repeat("x", 401) + `"}`},
		{"an unknown kind", `{"text":"a","kind":"culprit"}`},
		{"an unknown field", `{"text":"a","id":7}`},
		{"a time before 1970", `{"text":"a","at_ms":-1}`},
		{"a time that does not fit", `{"text":"a","at_ms":1e30}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if status, body := s.reply(s.request("POST", "/api/notes", tt.body)); status != 400 {
				t.Errorf("status %d: %s", status, body)
			}
		})
	}
}

// What the budget suspends at once is one mark.
func TestDatasetsThatChangeAtOnce(t *testing.T) {
	m := newMemory(t).filled(20)
	log := func(at measure.Time, actor, action, query string) {
		m.changes = append(m.changes, measure.Change{
			At: at, Actor: actor, Action: action, Query: query,
		})
	}
	for _, q := range []string{"tcp.flow.bytes by peer", "tcp.flow.rtt by peer", "tcp.flow.mss"} {
		log(start+second, "budget", "suspended", q)
	}
	log(start+second, "page", "suspended", "net.drops")
	log(start+9*second, "budget", "suspended", "disk.latency")
	log(start+9*second, "budget", "resumed", "tcp.flow.mss")
	s := serve(t, m).until(start + 20*second)
	got := []string{}
	for _, n := range s.notesFrom("").Notes {
		got = append(got, n.Who+": "+n.Text)
	}
	want := []string{
		"budget: tcp.flow.bytes by peer and 2 other datasets suspended",
		"page: net.drops suspended",
		"budget: disk.latency suspended",
		"budget: tcp.flow.mss resumed",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Of many marks the newest are sent, and the number of the others.
func TestNotesAreCut(t *testing.T) {
	m := newMemory(t).filled(3)
	for i := range maxMarks + 7 {
		m.changes = append(m.changes, measure.Change{
			At: start + measure.Time(i), Actor: "page", Action: "started", Query: "script a",
		})
	}
	s := serve(t, m).until(start + 3*second)
	if r := s.notesFrom(""); len(r.Notes) != maxMarks || r.More != 7 {
		t.Errorf("%d notes and %d more", len(r.Notes), r.More)
	}
}
