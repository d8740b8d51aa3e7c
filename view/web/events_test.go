package web

import (
	"fmt"
	"strings"
	"testing"

	"culprit/measure"
)

// eventful records 20 seconds in which processes, interfaces and memory have events.
func eventful(t testing.TB) *memory {
	m := newMemory(t)
	words := func(names ...string) (f []measure.Field) {
		for _, n := range names {
			f = append(f, measure.Field{Name: n, Type: measure.Word, Help: n})
		}
		return f
	}
	m.stats = append(
		m.stats,
		measure.Stat{ID: "process.rss", Kind: measure.Level, Unit: measure.Bytes,
			Fields: words("process", "pid")},
		measure.Stat{ID: "net.device.info", Kind: measure.Level, Unit: measure.Count,
			Fold: measure.Max, Fields: words("netns", "device", "state")},
		measure.Stat{ID: "memory.oom", Kind: measure.Delta, Unit: measure.Events},
		measure.Stat{ID: "kernel.messages", Kind: measure.Delta, Unit: measure.Events,
			Sparse: true, Fields: words("level", "event", "text")},
	)
	for n := 1; n <= 20; n++ {
		rows := map[measure.StatID][]line{"memory.oom": {{nil, 0}}}
		add := func(id measure.StatID, from, to int, key ...string) {
			if from <= n && n <= to {
				rows[id] = append(rows[id], line{key, 1})
			}
		}
		add("process.rss", 1, 20, "sshd", "1")
		add("process.rss", 1, 8, "web", "10")
		add("process.rss", 10, 20, "web", "11")
		add("process.rss", 5, 5, "short", "12")
		add("process.rss", 20, 20, "new", "13") // not yet known to last
		for i, name := range []string{"a", "b", "c", "d", "e"} {
			add("process.rss", 12, 20, name, fmt.Sprint(100+i))
		}
		if n != 17 { // nothing could be read then
			add("net.device.info", 1, 20, "", "lo", "unknown")
			add("net.device.info", 1, 6, "", "eth0", "up")
			add("net.device.info", 7, 20, "", "eth0", "down")
			add("net.device.info", 9, 14, "ns", "veth1", "up")
		}
		if n == 4 || n == 9 { // not two marks
			rows["kernel.messages"] = []line{{[]string{"error", "io-error", "vda: bad"}, 3}}
		}
		if n == 18 {
			rows["kernel.messages"] = []line{
				{[]string{"warning", "other", "<b>\u202ebold"}, 1},
				{[]string{"info", "link-up", "eth0: Link is Up"}, 2},
			}
		}
		if n == 15 {
			rows["memory.oom"] = []line{{nil, 2}}
		}
		m.add(start+measure.Time(n)*second, rows)
	}
	return m
}

func TestEvents(t *testing.T) {
	s := serve(t, eventful(t)).until(start + 20*second)
	over := "from=" + secondsAfter(0) + "&to=" + secondsAfter(20)
	marks := func(parameters string) (lines, unread string) {
		var r struct {
			notesReply
			Unread []string
		}
		s.decodeReply(s.get("/api/notes?"+over+parameters), &r)
		for _, n := range r.Notes {
			after := int64(n.AtMS) - int64(start/1e6)
			lines += fmt.Sprintf("%d %s %s\n", after/1000, n.Kind, n.Text)
		}
		return lines, strings.Join(r.Unread, " ")
	}
	if lines, unread := marks(""); lines != "" || unread != "" {
		t.Errorf("events that nobody asked for: %s, %s", lines, unread)
	}
	const want = "4 kernel kernel, error, io-error: vda: bad (6 times within 5 s)\n" +
		"6 interface eth0 is down, was up\n" +
		"8 interface ns/veth1 appeared: up\n" +
		"8 process web (pid 10) ended\n" +
		"9 process web (pid 11) started\n" +
		"11 process a (pid 100), b (pid 101), c (pid 102) and 2 other processes started\n" +
		"14 interface ns/veth1 disappeared\n" +
		"15 memory the kernel killed 2 processes: out of memory\n" +
		"18 kernel kernel, warning: <b>\u202ebold\n" +
		"18 kernel kernel, info, link-up: eth0: Link is Up (2 times)\n"
	lines, unread := marks("&events=1")
	if lines != want {
		t.Errorf("got\n%swant\n%s", lines, want)
	}
	if unread != "net.device.carrier" {
		t.Errorf("could not be read: %q", unread)
	}
	if status, body := s.reply(s.get("/api/notes?events=2")); status != 400 {
		t.Errorf("status %d: %s", status, body)
	}
}

// rowsOf returns an answer with cells of ten seconds. Nothing was measured in the cells of unread.
func rowsOf(cells int, unread []int, labels []string, rows ...[]float64) *measure.Answer {
	a := &measure.Answer{Start: start, Step: 10 * measure.Second, Labels: labels}
	for range cells {
		a.Elapsed = append(a.Elapsed, 10*measure.Second)
	}
	for i, values := range rows {
		l := measure.Label(i)
		a.Series = append(a.Series, measure.Series{Key: []measure.Label{l, l, l}, Values: values})
	}
	for _, c := range unread {
		a.Elapsed[c] = 0
	}
	return a
}

// marksText formats marks in one line.
func marksText(marks []timeMark) string {
	var out []string
	for _, m := range marks {
		out = append(out, fmt.Sprintf("%v %s", m.at.Sub(start), m.text))
	}
	return strings.Join(out, "|")
}

// A mark says how exact it is. After a long time without measurement there is none.
func TestEventsOfLongCells(t *testing.T) {
	nan := measure.NaN
	names := []string{"stays", "late", "x"}
	for _, tt := range []struct {
		name                  string
		unread                []int
		rows                  [][]float64
		processes, interfaces string
	}{
		{
			"cells of ten seconds", nil,
			[][]float64{{1, 1, 1, 1, 1, 1}, {nan, nan, 1, 1, 1, 1}, {1, 1, 1, nan, nan, nan}},
			"20s late (pid late) started (± 10 s)|30s x (pid x) ended (± 10 s)",
			"20s late/late appeared: late (± 10 s)|30s x/x disappeared (± 10 s)",
		},
		{
			"a cell that was not read", []int{1, 4},
			[][]float64{{1, nan, 1, 1, nan, 1}, {nan, nan, 1, 1, nan, 1}, {1, nan, 1, 1, nan, nan}},
			"20s late (pid late) started (± 20 s)|50s x (pid x) ended (± 20 s)",
			"20s late/late appeared: late (± 20 s)|50s x/x disappeared (± 20 s)",
		},
		{
			"a long time without measurement", []int{1, 2, 3, 4, 5},
			[][]float64{
				{1, nan, nan, nan, nan, nan, 1, 1}, {nan, nan, nan, nan, nan, nan, 1, 1},
				{1, nan, nan, nan, nan, nan, nan, nan},
			},
			"", "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := rowsOf(len(tt.rows[0]), tt.unread, names, tt.rows...)
			if got := marksText(processMarks(a)); got != tt.processes {
				t.Errorf("got  %s\nwant %s", got, tt.processes)
			}
			if got := marksText(interfaceMarks(a)); got != tt.interfaces {
				t.Errorf("got  %s\nwant %s", got, tt.interfaces)
			}
		})
	}
}

func TestKillsOfLongCells(t *testing.T) {
	nan := measure.NaN
	a := rowsOf(4, nil, nil, []float64{nan, 3.0 / 60, 0, 0.4 / 10})
	a.Step, a.Elapsed[1] = measure.Minute, measure.Minute
	const want = "2m0s the kernel killed 3 processes: out of memory (in the 1 min before)"
	if got := marksText(killMarks(a)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestFewerEvents: processes that come and go hide neither what is rare nor those that stay.
func TestFewerEvents(t *testing.T) {
	var all []timeMark
	add := func(kind, text string, life int) {
		at := start.Add(measure.Span(len(all)) * measure.Second)
		all = append(all, timeMark{at: at, kind: kind, text: text, life: life})
	}
	add("kernel", "killed", 0)
	add("process", "database", 900)
	for n := range 5 * maxProcesses {
		add("process", fmt.Sprint("short ", n), 3)
	}
	got, left := fewerEvents(all)
	if len(got) != 1+maxProcesses || left != len(all)-len(got) || got[0].text != "killed" ||
		got[1].text != "database" || got[2].text != "short 241" ||
		got[len(got)-1].text != "short 299" {
		t.Errorf("%d events, %d left: %+v", len(got), left, got[:3])
	}
	for n := range 2 * maxEvents {
		add("interface", fmt.Sprint("veth", n), 0)
	}
	got, _ = fewerEvents(all)
	if len(got) != maxEvents+maxProcesses || got[len(got)-1].text != "veth399" {
		t.Errorf("%d events, the last is %s", len(got), got[len(got)-1].text)
	}
}
