package cases

// crashStories are programs that fail again and again, with a twin in which they are meant to.
func crashStories() []Story {
	return []Story{
		{
			Name: "crash-loop", Twin: "programs-fail", Light: true, Needs: needCrash,
			Help:  "a program reads memory that it does not have, and is started again each second",
			build: crashScene,
		},
		{
			Name: "programs-fail", Light: true, Needs: needCrash,
			Help:  "a script starts programs that end with code 1, as test and grep do, and others",
			build: failingScene,
		},
	}
}

func crashScene(l *Lab, sc *Scene, _ Options) {
	d := sc.load(Program{Name: "keeper", Act: "restart", Args: []string{"-dir", l.Dir(),
		"-name", "orders", "-rate", "1"}})
	sc.try("dmesg | grep orders | tail -3")
	sc.Truth = Truth{Rule: "crash-loop", Kind: []string{"process"}, Names: []string{"orders"},
		Lowest: "medium", Expect: []Range{failures(d, 0.7, 1.1), done(d, 0, 0)}}
}

func failingScene(l *Lab, sc *Scene, _ Options) {
	fails := sc.load(Program{Name: "script", Act: "restart", Args: []string{"-dir", l.Dir(),
		"-name", "check", "-rate", "20", "-lives", "1ms", "-code", "1"}})
	works := sc.load(Program{Name: "build", Act: "restart", Args: []string{"-dir", l.Dir(),
		"-name", "compile", "-rate", "20", "-lives", "1ms", "-code", "0"}})
	sc.Truth = Truth{Never: []string{"crash-loop"}, Expect: []Range{failures(fails, 10, 21),
		done(fails, 0, 0), done(works, 10, 21), failures(works, 0, 0)}}
}
