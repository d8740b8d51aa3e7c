package cases

import (
	"fmt"
	"runtime"
)

// turnStories are programs that wait for one another, or for a CPU that others keep, each with a
// twin that works.
func turnStories() []Story {
	return []Story{
		{
			Name: "lock-convoy", Twin: "thread-pool",
			Help:  "eight threads take turns at a lock, each for 2 ms of CPU time",
			build: convoyScene("-threads", "8", "-hold", "2ms"),
		},
		{
			Name: "lock-held", Twin: "thread-pool",
			Help:  "thirty threads take turns at a lock, whose holder sleeps for 10 ms each time",
			build: convoyScene("-threads", "30", "-hold", "10ms", "-nap"),
		},
		{
			Name: "priority-inversion", Twin: "priorities",
			Help: "one of five threads that take turns at a lock has nice 19; another program " +
				"uses the CPU to which all are bound",
			build: invertedScene(1),
		},
		{
			Name:  "priorities",
			Help:  "the same, and the other program is busy a fifth of the time",
			build: invertedScene(0.2),
		},
		{
			Name:  "thread-pool",
			Help:  "healthy: 200 threads wait for work, which comes 500 times a second",
			build: poolScene,
		},
		{
			Name: "switch-storm", Twin: "messages",
			Help:  "two threads hand a byte to and fro through pipes, as fast as it goes",
			build: pingPongScene(0),
		},
		{
			Name:  "messages",
			Help:  "the same a thousand times a second",
			build: pingPongScene(1000),
		},
		{
			Name: "realtime-hog", Twin: "realtime-light", Needs: severalCPUs,
			Help:  "a thread with policy FIFO never sleeps; a program is bound to the same CPU",
			build: realtimeScene(1, 1),
		},
		{
			Name: "realtime-light", Needs: severalCPUs,
			Help:  "the same, and the thread uses a tenth of the CPU, the program three tenths",
			build: realtimeScene(0.1, 0.3),
		},
		{
			Name: "cpu-starved", Twin: "cpu-shared", Needs: needController("cpu"),
			Help: "a program in a cgroup of weight 2 wants a CPU; one in a cgroup of weight 100 " +
				"uses all of them",
			build: starvedScene(2, nil, 1),
		},
		{
			Name: "cpu-starved-bound", Twin: "cpu-shared", Needs: needController("cpu"),
			Help:  "the same with weight 10, and both are bound to the last CPU",
			build: starvedScene(10, []int{runtime.NumCPU() - 1}, 1),
		},
		{
			Name: "cpu-shared", Needs: needController("cpu"),
			Help:  "the same with weight 2, and both are busy a third of the time",
			build: starvedScene(2, nil, 0.33),
		},
		{
			Name: "cpus-confined", Twin: "cpus-free", Needs: severalCPUs,
			Help:  "a program with three busy threads may use the last CPU only",
			build: confinedScene(true),
		},
		{
			Name: "cpus-free", Needs: severalCPUs,
			Help:  "the same with threads that are busy a quarter of the time, on all CPUs",
			build: confinedScene(false),
		},
	}
}

func severalCPUs() string {
	if runtime.NumCPU() < 2 {
		return "kernel feature several-cpus"
	}
	return ""
}

func convoyScene(args ...string) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		d := sc.load(Program{Name: "engine", Act: "turn", Args: args})
		sc.Truth = Truth{
			Rule: "lock-convoy", Kind: []string{"process"}, Names: []string{d.Name}, PID: d.PID,
			Also:   []string{"cpu-one-saturated"},
			Never:  []string{"disk-saturated", "memory-pressure"},
			Expect: []Range{done(d, 50, 520)},
		}
		sc.try("for t in /proc/%d/task/*; do cat $t/wchan $t/syscall; echo; done", d.PID)
		sc.try("perf trace -s -e futex -p %d sleep 3", d.PID)
	}
}

func invertedScene(duty float64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		last := []int{runtime.NumCPU() - 1}
		d := sc.load(Program{Name: "engine", Act: "turn", CPUs: last, Plain: true,
			Args: []string{"-threads", "5", "-hold", "5ms", "-rest", "50ms", "-low", "19"}})
		sc.load(Program{Name: "report", Act: "burn", CPUs: last, Plain: true,
			Args: []string{"-duty", fmt.Sprint(duty)}})
		sc.try("ps -Lo tid,ni,cls,psr,comm -p %d", d.PID)
		sc.try("for t in /proc/%d/task/*; do cat $t/schedstat $t/syscall; done", d.PID)
		sc.Truth = Truth{
			Never:  []string{"lock-convoy", "cpu-starved", "cpus-confined"},
			Expect: []Range{done(d, 35, 92)},
		}
		if duty == 1 {
			sc.Truth = Truth{
				Rule: "lock-convoy", Kind: []string{"process"}, Names: []string{d.Name}, PID: d.PID,
				Also:   []string{"cpu-one-saturated", "cpu-starved", "cpus-confined"},
				Never:  []string{"disk-saturated", "memory-pressure"},
				Expect: []Range{done(d, 2, 40)},
			}
		}
	}
}

func poolScene(l *Lab, sc *Scene, _ Options) {
	d := sc.load(Program{Name: "pool", Act: "turn",
		Args: []string{"-threads", "200", "-hold", "200us", "-rate", "500"}})
	sc.Truth = Truth{
		Never:  []string{"lock-convoy", "switch-storm"},
		Expect: []Range{done(d, 400, 520)},
	}
	sc.try("for t in /proc/%d/task/*; do cat $t/wchan $t/syscall; echo; done", d.PID)
}

func pingPongScene(rate int) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		d := sc.load(Program{Name: "relay", Act: "pingpong",
			Args: []string{"-rate", fmt.Sprint(rate)}})
		sc.try("pidstat -w -t -p %d 1 3", d.PID)
		if rate > 0 {
			sc.Truth = Truth{Never: []string{"switch-storm", "lock-convoy"},
				Expect: []Range{done(d, 0.8*float64(rate), 1.05*float64(rate))}}
			return
		}
		sc.Truth = Truth{
			Rule: "switch-storm", Kind: []string{"process"}, Names: []string{d.Name}, PID: d.PID,
			Also:   []string{"cpu-one-saturated", "kernel-function"},
			Never:  []string{"disk-saturated", "memory-pressure", "lock-convoy"},
			Expect: []Range{done(d, 8e3, 1e6)},
		}
	}
}

func realtimeScene(hog, victim float64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		last := []int{runtime.NumCPU() - 1}
		burn := func(name string, duty float64, priority int) *Load {
			return sc.load(Program{Name: name, Act: "burn", CPUs: last, Plain: true,
				FIFO: priority, Args: []string{"-duty", fmt.Sprint(duty)}})
		}
		v := burn("victim", victim, 0)
		d := burn("control", hog, 40)
		sc.try("chrt -p %d", d.PID)
		sc.try("cat /proc/%d/schedstat; sleep 1; cat /proc/%d/schedstat", v.PID, v.PID)
		low, high := 0.85*hog, min(1.3*hog, 1.02)
		sc.Truth = Truth{
			Never:  []string{"realtime-hog", "cpus-confined"},
			Expect: []Range{{What: "control", Low: low, High: high, Unit: "CPUs", Read: used(d.PID)}},
		}
		if hog == 1 {
			sc.Truth.Rule, sc.Truth.Kind = "realtime-hog", []string{"process"}
			sc.Truth.Names, sc.Truth.PID = []string{d.Name}, d.PID
			sc.Truth.Also = []string{"cpu-one-saturated", "cpus-confined"}
			sc.Truth.Never = []string{"disk-saturated", "memory-pressure"}
		}
	}
}

func starvedScene(weight int, cpus []int, duty float64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		low, usual, n := l.Cgroup("cpu", "low"), l.Cgroup("cpu", "usual"), runtime.NumCPU()
		low.Weigh(weight)
		usual.Weigh(100)
		if cpus != nil {
			n = len(cpus)
		}
		burn := func(name string, g *Cgroup, threads int) *Load {
			return sc.load(Program{Name: name, Act: "burn", CPUs: cpus, Plain: true,
				Into: []*Cgroup{g}, Args: []string{"-threads", fmt.Sprint(threads), "-duty",
					fmt.Sprint(duty)}})
		}
		v, d := burn("report", low, 1), burn("engine", usual, n)
		sc.try("cat /proc/%d/schedstat; sleep 1; cat /proc/%d/schedstat", v.PID, v.PID)
		sc.try("grep . /sys/fs/cgroup/cpu%s/cpu.shares /sys/fs/cgroup%s/cpu.weight", low.Name,
			low.Name)
		sc.Truth = Truth{
			Never: []string{"cpu-starved", "cpu-saturated"},
			Expect: []Range{{What: "engine", Low: 0.8 * duty * float64(n),
				High: 1.05 * duty * float64(n), Unit: "CPUs", Read: used(d.PID)},
				{What: "report", Low: 0.25, High: 0.36, Unit: "CPUs", Read: used(v.PID)}},
		}
		if duty == 1 {
			sc.Truth.Rule, sc.Truth.Kind = "cpu-starved", []string{"cgroup", "process"}
			sc.Truth.Names = []string{low.Name, v.Name}
			sc.Truth.Also = []string{"cpu-one-saturated", "cpu-saturated", "cpus-confined"}
			sc.Truth.Never = []string{"disk-saturated", "memory-pressure"}
			// A second workload takes a fifth of each CPU.
			sc.Truth.Expect[0].Low = 0.6 * float64(n)
			sc.Truth.Expect[1].Low, sc.Truth.Expect[1].High = 0, 0.2
		}
	}
}

func confinedScene(bound bool) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		p := Program{Name: "worker", Act: "burn", Args: []string{"-threads", "3", "-duty", "0.25"}}
		if bound {
			p.CPUs, p.Args = []int{runtime.NumCPU() - 1}, []string{"-threads", "3"}
		}
		d := sc.load(p)
		sc.try("taskset -acp %d", d.PID)
		sc.try("mpstat -P ALL 1 3")
		sc.Truth = Truth{
			Never: []string{"cpus-confined", "realtime-hog"},
			Expect: []Range{{What: "worker", Low: 0.6, High: 0.85, Unit: "CPUs",
				Read: used(d.PID)}},
		}
		if bound {
			sc.Truth = Truth{
				Rule: "cpus-confined", Kind: []string{"process"}, Names: []string{d.Name},
				PID: d.PID, Also: []string{"cpu-one-saturated"}, Never: []string{"cpu-saturated"},
				Expect: []Range{{What: "worker", Low: 0.7, High: 1.05, Unit: "CPUs",
					Read: used(d.PID)}},
			}
		}
	}
}
