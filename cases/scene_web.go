package cases

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// webStories are web servers that keep their clients waiting, or turn them away.
func webStories() []Story {
	return []Story{
		{
			Name: "http-slow", Twin: "http-quick",
			Help:  "a client asks a web server, which asks another, which is slow",
			build: askingScene(700*time.Millisecond, 1, 200),
		},
		{
			Name: "http-tail", Light: true, Twin: "http-quick",
			Help:  "the same, and the other one is slow for one request in five only",
			build: askingScene(700*time.Millisecond, 5, 200),
		},
		{
			Name: "http-errors", Light: true, Twin: "http-quick",
			Help:  "the same, and the other one answers at once that it is overloaded",
			build: askingScene(0, 1, 503),
		},
		{
			Name: "process-stopped", Light: true, Twin: "http-quick",
			Help:  "somebody stopped a web server, and its clients wait",
			build: stoppedScene,
		},
		{
			Name: "http-quick", Light: true,
			Help:  "the same, and the other one answers after 20 ms",
			build: askingScene(20*time.Millisecond, 1, 200),
		},
	}
}

func stoppedScene(l *Lab, sc *Scene, _ Options) {
	h := l.Host("web")
	server := sc.load(Program{Name: "front", Act: "web", On: h,
		Args: []string{"-at", "127.0.0.1:8080"}})
	d := sc.load(Program{Name: "browser", Act: "get", On: h,
		Args: []string{"-from", "127.0.0.1:8080", "-threads", "10", "-rate", "10"}})
	if l.err == nil {
		l.fail(unix.Kill(server.PID, unix.SIGSTOP))
	}
	sc.Where = h
	sc.try("grep State /proc/%d/status", server.PID)
	sc.Truth = Truth{Rule: "process-stopped", Kind: []string{"process"},
		Names: []string{server.Name}, PID: server.PID, Lowest: "high",
		Expect: []Range{failures(d, 0, 0), done(d, 0, 0)}}
}

func askingScene(pause time.Duration, every, status int) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		h := l.Host("web")
		last := sc.load(Program{Name: "orders", Act: "web", On: h, Args: []string{"-at",
			"127.0.0.1:9200", "-pause", pause.String(), "-every", fmt.Sprint(every),
			"-status", fmt.Sprint(status)}})
		sc.load(Program{Name: "front", Act: "web", On: h,
			Args: []string{"-at", "127.0.0.1:8080", "-to", "127.0.0.1:9200"}})
		d := sc.load(Program{Name: "browser", Act: "get", On: h,
			Args: []string{"-from", "127.0.0.1:8080", "-threads", "10", "-rate", "10"}})
		sc.Where = h
		sc.try("ip netns exec %s ss -tnp", h.NS)
		if pause < 500*time.Millisecond && status == 200 {
			sc.Truth = Truth{Never: []string{"http-slow", "process-stopped"},
				Expect: []Range{failures(d, 0, 0), done(d, 9, 10.5)}}
			return
		}
		sc.Truth = Truth{Rule: "http-slow", Kind: []string{"process"}, Names: []string{last.Name},
			PID: last.PID, Expect: []Range{failures(d, 0, 0), done(d, 8, 10.5)}}
		if status != 200 {
			sc.Truth.Expect = []Range{failures(d, 9, 10.5), done(d, 0, 0)}
		}
	}
}
