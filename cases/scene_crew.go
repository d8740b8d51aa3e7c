package cases

import "path/filepath"

// crewStories are processes that wait for file locks, with a twin whose idle workers wait for one.
func crewStories() []Story {
	return []Story{
		{
			Name: "file-lock-wait", Twin: "accept-lock", Light: true,
			Help:  "six workers take turns at a file lock, whose holder sleeps for 20 ms",
			build: crewScene("file-lock-wait", "medium", 35, 52, "-hold", "20ms"),
		},
		{
			Name: "file-lock-instance", Twin: "accept-lock", Light: true,
			Help:  "a second instance of a program waits for the lock that the first one keeps",
			build: crewScene("file-lock-wait", "low", 0, 0, "-workers", "2", "-hold", "1h"),
		},
		{
			Name: "accept-lock", Light: true,
			Help:  "healthy: six workers accept 200 connections a second, in turn under a file lock",
			build: crewScene("", "", 180, 205, "-rate", "200"),
		},
	}
}

// crewScene has workers with a file lock. low and high are the turns a second.
func crewScene(rule, lowest string, low, high float64, args ...string) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		file := filepath.Join(l.dir, "crew.lock")
		d := sc.load(Program{Name: "crew", Act: "crew",
			Args: append([]string{"-file", file}, args...)})
		sc.Truth = Truth{Never: []string{"lock-convoy", "switch-storm"},
			Expect: []Range{done(d, low, high)}}
		if rule == "" {
			sc.Truth.Never = append(sc.Truth.Never, "file-lock-wait")
		} else {
			sc.Truth.Rule, sc.Truth.Lowest = rule, lowest
			sc.Truth.Kind, sc.Truth.Names = []string{"process"}, []string{d.Name}
		}
		sc.try("lslocks -o COMMAND,PID,TYPE,MODE,BLOCKER,PATH")
	}
}
