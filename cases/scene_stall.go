package cases

import "fmt"

// stallStories are connections whose data wait, and busy ones whose data do not. A look at the
// whole machine would find them beside another scene.
func stallStories() []Story {
	build := func(still, lost bool, rate float64, truth Truth) func(*Lab, *Scene, Options) {
		return func(l *Lab, sc *Scene, _ Options) {
			src, dst := pair(l, veths(l))
			args := []string{"-at", "10.20.3.34:7070"}
			if still {
				args = append(args, "-still")
			}
			sc.load(Program{Name: "reader", Act: "sink", On: dst, Args: args})
			sc.load(Program{
				Name: "writer", Act: "stream", On: src,
				Args: []string{"-to", "10.20.3.34:7070", "-rate", fmt.Sprint(rate), "-chunk", "8192"},
			})
			if lost { // what dst answers goes nowhere
				dst.ip("route", "add", "blackhole", "10.20.3.33/32")
			}
			sc.Where, sc.Truth = src, truth
			sc.try("ip netns exec %s ss -tinp", src.NS)
		}
	}
	stalled := Truth{
		Rule: "tcp-stalled", Kind: []string{"peer", "process"},
		Names: []string{"10.20.3.34", "reader"}, Cleared: []string{"memory"},
	}
	healthy := Truth{Never: []string{"tcp-stalled"}}
	return []Story{
		{
			Name: "reader-stopped", Twin: "reader-reads",
			Help:  "a program accepts a connection and does not read: its window is closed",
			build: build(true, false, 0, stalled),
		},
		{
			Name: "reader-reads", Light: true,
			Help:  "the same program reads what comes",
			build: build(false, false, 4e6, healthy),
		},
		{
			Name: "peer-silent", Twin: "reader-reads",
			Help:  "a peer receives, and what it answers goes nowhere",
			build: build(false, true, 200e3, stalled),
		},
	}
}
