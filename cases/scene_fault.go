package cases

// faultStories are programs that spend their CPU time on page faults, with a twin that does the
// same work in memory that it keeps.
func faultStories() []Story {
	return []Story{
		{
			Name: "page-faults", Twin: "page-reuse",
			Help:  "a program maps 64 MB, writes to them, and unmaps them, as fast as it goes",
			build: faultScene("page-faults", "-by", "munmap"),
		},
		{
			Name: "page-faults-madvise", Twin: "page-reuse",
			Help:  "a program that returns 8 MB to the kernel after each use, 60 times a second",
			build: faultScene("page-faults", "-by", "madvise", "-size", "8388608", "-rate", "60"),
		},
		{
			Name:  "page-reuse",
			Help:  "healthy: a program writes to 64 MB that it keeps, 150 times a second",
			build: faultScene("", "-by", "keep", "-rate", "150"),
		},
		{
			Name: "tlb-shootdowns", Twin: "protect-rarely", Needs: severalCPUs,
			Help: "a thread protects a page and unprotects it, as fast as it goes, and another " +
				"thread computes",
			build: faultScene("tlb-shootdowns", "-by", "mprotect", "-size", "4096", "-spin", "1"),
		},
		{
			Name: "protect-rarely", Needs: severalCPUs,
			Help: "healthy: the same with 64 KB, written 2000 times in between",
			build: faultScene("", "-by", "mprotect", "-size", "65536", "-passes", "2000",
				"-rate", "300", "-spin", "1"),
		},
	}
}

// faultScene has a program that writes to memory, pass after pass.
func faultScene(rule string, args ...string) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		d := sc.load(Program{Name: "render", Act: "fault", Args: args})
		sc.Truth = Truth{
			Never:  []string{"memory-pressure", "memory-growing", "swapping"},
			Expect: []Range{done(d, 3, 1e6)},
		}
		if rule == "" {
			sc.Truth.Never = append(sc.Truth.Never, "page-faults", "tlb-shootdowns")
			sc.Truth.Expect = append(sc.Truth.Expect, Range{What: "render", Low: 0.2, High: 1.8,
				Unit: "CPUs", Read: used(d.PID)})
			return
		}
		sc.Truth.Rule, sc.Truth.Kind, sc.Truth.Names = rule, []string{"process"}, []string{d.Name}
		sc.Truth.PID, sc.Truth.Lowest = d.PID, "low"
		sc.Truth.Also = []string{"cpu-one-saturated", "kernel-function", "cpu-saturated"}
		sc.try("perf stat -e minor-faults -p %d sleep 3", d.PID)
		sc.try("strace -c -f -p %d", d.PID)
	}
}
