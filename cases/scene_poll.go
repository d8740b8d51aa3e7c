package cases

// pollStories are programs that wake up, or look for events, far more often than there is work,
// with twins that do the same work.
func pollStories() []Story {
	return []Story{
		{
			Name: "busy-polling", Twin: "event-loop",
			Help:  "a program polls (epoll_wait with timeout 0) for events, 1000 of them a second",
			build: pollScene("busy-polling", 700, 1050, "-timeout", "0"),
		},
		{
			Name:  "event-loop",
			Help:  "healthy: the same, and it sleeps until there is an event",
			build: pollScene("", 700, 1050),
		},
		{
			Name: "timers", Twin: "timers-slow",
			Help:  "eight threads sleep for a microsecond, again and again",
			build: pollScene("switch-storm", 15e3, 1e6, "-timers", "8", "-period", "1us"),
		},
		{
			Name:  "timers-slow",
			Help:  "healthy: the same for 4 ms",
			build: pollScene("", 1e3, 2.1e3, "-timers", "8", "-period", "4ms"),
		},
	}
}

// pollScene has a program that waits. low and high are the operations a second.
func pollScene(rule string, low, high float64, args ...string) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		d := sc.load(Program{Name: "watcher", Act: "poll", Args: args})
		sc.Truth = Truth{Never: []string{"memory-pressure", "disk-saturated"},
			Expect: []Range{done(d, low, high)}}
		sc.try("strace -c -f -p %d", d.PID)
		if rule == "" {
			sc.Truth.Never = append(sc.Truth.Never, "busy-polling", "switch-storm")
			return
		}
		sc.Truth.Rule, sc.Truth.Kind, sc.Truth.Names = rule, []string{"process"}, []string{d.Name}
		sc.Truth.PID, sc.Truth.Lowest = d.PID, "low"
		sc.Truth.Also = []string{"cpu-one-saturated", "kernel-function", "cpu-saturated"}
	}
}
