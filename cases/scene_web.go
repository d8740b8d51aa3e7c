package cases

import (
	"fmt"
	"time"
)

// webStories are web servers that keep their clients waiting, or turn them away.
func webStories() []Story {
	return []Story{
		{
			Name: "http-slow", Twin: "http-quick",
			Help:  "a client asks a web server, which asks another, which is slow",
			build: askingScene(700*time.Millisecond, 200),
		},
		{
			Name: "http-errors", Light: true, Twin: "http-quick",
			Help:  "the same, and the other one answers at once that it is overloaded",
			build: askingScene(0, 503),
		},
		{
			Name: "http-quick", Light: true,
			Help:  "the same, and the other one answers after 20 ms",
			build: askingScene(20*time.Millisecond, 200),
		},
	}
}

func askingScene(pause time.Duration, status int) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		h := l.Host("web")
		last := sc.load(Program{Name: "orders", Act: "web", On: h, Args: []string{"-at",
			"127.0.0.1:9200", "-pause", pause.String(), "-status", fmt.Sprint(status)}})
		sc.load(Program{Name: "front", Act: "web", On: h,
			Args: []string{"-at", "127.0.0.1:8080", "-to", "127.0.0.1:9200"}})
		d := sc.load(Program{Name: "browser", Act: "get", On: h,
			Args: []string{"-from", "127.0.0.1:8080", "-threads", "10", "-rate", "10"}})
		sc.Where = h
		sc.try("ip netns exec %s ss -tnp", h.NS)
		if pause < 500*time.Millisecond && status == 200 {
			sc.Truth = Truth{Never: []string{"http-slow"},
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
