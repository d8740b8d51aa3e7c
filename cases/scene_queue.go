package cases

// queueStories are processes that wait at a System V semaphore.
func queueStories() []Story {
	return []Story{
		{
			Name: "semaphore-wait", Twin: "semaphore-pool", Light: true,
			Help:  "a worker keeps a System V semaphore, for which three others wait",
			build: queueScene("semaphore-wait", 0, 0, "-hold", "1h"),
		},
		{
			Name: "semaphore-pool", Light: true,
			Help:  "healthy: four workers wait at a System V semaphore for work, 100 times a second",
			build: queueScene("", 85, 105, "-rate", "100"),
		},
	}
}

// queueScene has workers at a semaphore. low and high are the pieces of work a second.
func queueScene(rule string, low, high float64, args ...string) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		d := sc.load(Program{Name: "queue", Act: "queue",
			Args: append([]string{"-in", l.dir}, args...)})
		sc.Truth = Truth{Never: []string{"lock-convoy", "file-lock-wait"},
			Expect: []Range{done(d, low, high)}}
		if rule == "" {
			sc.Truth.Never = append(sc.Truth.Never, "semaphore-wait")
		} else {
			sc.Truth.Rule, sc.Truth.Lowest = rule, "low"
			sc.Truth.Kind, sc.Truth.Names = []string{"process"}, []string{d.Name}
		}
		sc.try("ipcs -s; for s in $(ipcs -s | awk '$2>=0{print $2}'); do ipcs -s -i $s; done")
	}
}
