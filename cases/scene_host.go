package cases

import (
	"fmt"
	"path/filepath"
	"runtime"
	"time"
)

func cpuStories() []Story {
	crunch := func(sys bool) func(*Lab, *Scene, Options) {
		return func(l *Lab, sc *Scene, _ Options) {
			d := sc.load(
				Program{
					Name:  "crunch",
					Act:   "burn",
					Plain: true,
					Args: []string{
						"-threads",
						fmt.Sprint(3 * runtime.NumCPU()),
						fmt.Sprintf("-sys=%v", sys),
					},
				},
			)
			sc.Truth = Truth{
				Rule:     "cpu-saturated",
				Kind:     []string{"process", "cpu"},
				Names:    []string{d.Name},
				PID:      d.PID,
				Also:     []string{"cpu-one-saturated"},
				Explains: 0.3,
				Cleared:  []string{"disk", "memory"},
				Expect: []Range{
					{
						What: "crunch",
						Low:  0.4 * float64(runtime.NumCPU()),
						High: float64(runtime.NumCPU()) + 0.1,
						Unit: "CPUs",
						Read: used(d.PID),
					},
				},
			}
			sc.try("mpstat -P ALL 1 3")
			sc.try("vmstat 1 3")
		}
	}
	return []Story{
		{
			Name:  "cpu-saturated",
			Help:  "one process with three busy threads a CPU",
			Twin:  "busy",
			build: crunch(false),
		},
		{
			Name:  "cpu-saturated-sys",
			Help:  "the same, busy in the kernel",
			Twin:  "busy",
			build: crunch(true),
		},
		{
			Name: "cpu-one-saturated",
			Help: "a process with one busy thread, bound to the last CPU",
			Twin: "busy",
			build: func(l *Lab, sc *Scene, _ Options) {
				last := runtime.NumCPU() - 1
				d := sc.load(
					Program{
						Name: "lonely",
						Act:  "burn",
						CPUs: []int{last},
						Args: []string{"-threads", "1"},
					},
				)
				sc.Truth = Truth{
					Rule:  "cpu-one-saturated",
					Kind:  []string{"process", "thread", "cpu"},
					Names: []string{d.Name, fmt.Sprint(last)},
					PID:   d.PID,
					Never: []string{"cpu-saturated"},
					Expect: []Range{
						{What: "lonely", Low: 0.7, High: 1.05, Unit: "CPUs", Read: used(d.PID)},
					},
				}
				sc.try("mpstat -P ALL 1 3")
			},
		},
		{
			Name: "busy",
			Help: "healthy: every CPU 60 % busy with several processes, and 200 MB/s over loopback",
			build: func(l *Lab, sc *Scene, _ Options) {
				// The stream takes some 12 % of the two CPUs that it runs on, the workers the rest.
				const workers = 3
				for cpu := range runtime.NumCPU() {
					for w := range workers {
						sc.load(
							Program{
								Name: fmt.Sprintf("worker-%d-%d", cpu, w),
								Act:  "burn",
								CPUs: []int{cpu},
								Args: []string{"-duty", "0.16"},
							},
						)
					}
				}
				h := l.Host("host")
				sc.load(
					Program{
						Name: "cache",
						Act:  "sink",
						On:   h,
						Args: []string{"-at", "127.0.0.1:7070"},
					},
				)
				sc.load(
					Program{
						Name: "feeder",
						Act:  "stream",
						On:   h,
						Args: []string{"-to", "127.0.0.1:7070", "-rate", "200e6"},
					},
				)
				sc.Where = h
				sc.Truth = Truth{Expect: []Range{
					{
						What: "the machine is busy",
						Low:  0.5 * float64(runtime.NumCPU()),
						High: 0.75 * float64(runtime.NumCPU()),
						Unit: "CPUs",
						Read: func() (float64, time.Time) { return machineBusy(), time.Now() },
					},
					{
						What: "over loopback",
						Low:  1.9e8,
						High: 2.1e8,
						Unit: "byte/s",
						Read: h.counts("lo", "rx_bytes"),
					}}}
				sc.try("mpstat -P ALL 1 3")
			},
		},
	}
}

func purgeStories() []Story {
	// A program that removes a directory five times a second, of which so many names are cached.
	build := func(names int, quick, slow time.Duration, truth Truth) func(*Lab, *Scene, Options) {
		return func(l *Lab, sc *Scene, o Options) {
			if o.Entries > 0 {
				names = o.Entries
			}
			d := sc.load(
				Program{
					Name: "spooler",
					Act:  "purge",
					Args: []string{
						"-dir",
						filepath.Join(l.dir, "spool"),
						"-names",
						fmt.Sprint(names),
					},
				},
			)
			if sc.Truth = truth; truth.Rule != "" {
				sc.Truth.Names, sc.Truth.PID = []string{d.Name}, d.PID
			}
			sc.Truth.Expect = []Range{
				{
					What:  "a removal takes",
					Low:   quick.Seconds() * 1e3,
					High:  slow.Seconds() * 1e3,
					Unit:  "ms",
					Level: true,
					Read:  func() (float64, time.Time) { c := d.Count(); return c.P50.Seconds() * 1e3, c.At },
				},
			}
			sc.try("cat /proc/sys/fs/dentry-state")
			sc.try("culprit profile --process %s --kernel --for 5s", d.Name)
		}
	}
	never := []string{"cpu-saturated", "cpu-one-saturated", "memory-pressure"}
	return []Story{
		{
			Name: "cache-purge",
			Help: "a program removes a directory five times a second of which 40,000 names are cached: 20 ms each, all of it CPU time",
			Twin: "cache-purge-light",
			build: build(
				40000,
				8*time.Millisecond,
				80*time.Millisecond,
				Truth{
					Rule:    "cache-purge",
					Kind:    []string{"process"},
					Never:   []string{"cpu-saturated", "memory-pressure"},
					Also:    []string{"cpu-one-saturated"}, // slow machines: looking the names up
					Cleared: []string{"disk", "memory"},
					Says: []Span{
						{"of a CPU for purges", 0.04, 0.4},
						{"of a CPU in all", 0.1, 1.1},
					},
				},
			),
		},
		{
			Name:  "cache-purge-quarter",
			Help:  "the same with a quarter of the names: a quarter of the time, a remark at most",
			build: build(10000, 2*time.Millisecond, 32*time.Millisecond, Truth{Never: never}),
		},
		{Name: "cache-purge-light", Help: "the same with ten names",
			build: build(
				10, 20*time.Microsecond, 4*time.Millisecond,
				Truth{Never: append([]string{"cache-purge"}, never...)},
			)},
	}
}

func functionStories() []Story {
	// A program that takes and releases one more lock of a file of which it holds many.
	build := func(locks int, truth Truth) func(*Lab, *Scene, Options) {
		return func(l *Lab, sc *Scene, _ Options) {
			d := sc.load(
				Program{
					Name: "records",
					Act:  "lockup",
					Args: []string{
						"-file",
						filepath.Join(l.dir, "records.data"),
						"-locks",
						fmt.Sprint(locks),
					},
				},
			)
			sc.Truth = truth
			sc.Truth.Expect = []Range{
				{What: "records", Low: 0.5, High: 0.85, Unit: "CPUs", Read: used(d.PID)},
			}
			sc.try("culprit profile --process %s --kernel --for 5s --table", d.Name)
		}
	}
	return []Story{
		{
			Name: "kernel-function",
			Help: "a program has 6,000 locks of one file, and takes another one again and again: each time the kernel walks all of them",
			Twin: "kernel-function-few",
			build: build(
				6000,
				Truth{
					Rule:    "kernel-function",
					Kind:    []string{"function"},
					Names:   []string{"posix_lock_inode"},
					Cleared: []string{"disk", "memory"},
					Says:    []Span{{"of a CPU for the walk, sampled", 0.3, 0.9}},
				},
			),
		},
		{Name: "kernel-function-few", Help: "the same with ten locks, and as busy",
			build: build(10, Truth{Never: []string{"kernel-function", "cpu-saturated"}})},
	}
}

// needController returns a check for the controller of control groups.
func needController(name string) func() string {
	return func() string {
		if !HasController(name) {
			return "kernel feature cgroup-" + name
		}
		return ""
	}
}

func limitStories() []Story {
	throttle := func(limit float64, truth Truth) func(*Lab, *Scene, Options) {
		return func(l *Lab, sc *Scene, _ Options) {
			g := l.Cgroup("cpu", "app")
			g.LimitCPU(limit)
			// Two threads that want 0.4 CPUs together.
			d := sc.load(
				Program{
					Name: "tenant",
					Act:  "burn",
					Into: []*Cgroup{g},
					Args: []string{"-threads", "2", "-duty", "0.2"},
				},
			)
			if truth.Rule != "" {
				truth.Names = []string{g.Name, g.Name[1:], filepath.Base(g.Path), d.Name}
			}
			sc.Truth = truth
			throttled := Range{
				What: "throttled periods",
				Low:  5,
				High: 10.5,
				Unit: "1/s",
				Read: keyed(filepath.Join(g.Path, "cpu.stat"), "nr_throttled"),
			}
			if truth.Rule == "" {
				throttled.Low, throttled.High = 0, 0
			}
			sc.Truth.Expect = []Range{throttled}
			sc.try("cat %s/cpu.stat", g.Path)
		}
	}
	reread := func(limit int64, rate float64, truth Truth) func(*Lab, *Scene, Options) {
		return func(l *Lab, sc *Scene, _ Options) {
			g := l.Cgroup("memory", "app")
			g.LimitMemory(limit)
			d := sc.load(Program{Name: "reread", Act: "reread", Into: []*Cgroup{g}, Patient: true,
				Args: []string{
					"-file",
					filepath.Join(l.dir, "reread.data"),
					"-threads",
					"8",
					"-rate",
					fmt.Sprint(rate),
				}})
			if truth.Rule != "" {
				truth.Names = []string{g.Name, g.Name[1:], filepath.Base(g.Path), d.Name}
			}
			sc.Truth = truth
			refaults := Range{
				What: "pages read again that were thrown out",
				Low:  2000,
				High: 1e7,
				Unit: "1/s",
				Read: keyed("/proc/vmstat", "workingset_refault_file"),
			}
			if truth.Rule == "" {
				refaults.Low, refaults.High = 0, 1000
			}
			sc.Truth.Expect = []Range{refaults}
			sc.try("vmstat 1 3")
			sc.try("cat /proc/pressure/memory")
		}
	}
	write := func(depth, block int, rate float64, truth Truth) func(*Lab, *Scene, Options) {
		return func(l *Lab, sc *Scene, _ Options) {
			d := sc.load(Program{Name: "appender", Act: "write", Patient: true,
				Args: []string{
					"-file",
					filepath.Join(l.dir, "appender.data"),
					"-depth",
					fmt.Sprint(depth),
					"-block",
					fmt.Sprint(block),
					"-rate",
					fmt.Sprint(rate),
				}})
			disk, err := diskOf(l.dir)
			l.fail(err)
			busy := Range{What: disk + " is busy", Low: 0.95, High: 1.01, Read: diskBusy(disk)}
			if truth.Rule != "" {
				truth.Names, truth.PID = []string{disk, d.Name}, d.PID
			} else {
				busy.Low, busy.High = 0, 0.3
			}
			sc.Truth = truth
			sc.Truth.Expect = []Range{busy}
			sc.try("iostat -xy 1 3")
		}
	}
	return []Story{
		{
			Name:  "cgroup-throttled",
			Light: true,
			Help:  "a process that wants 0.4 CPUs in a cgroup that may use 0.2, on an idle machine",
			Twin:  "cgroup-roomy",
			Needs: needController("cpu"),
			build: throttle(
				0.2,
				Truth{
					Rule:  "cgroup-throttled",
					Kind:  []string{"cgroup", "process"},
					Never: []string{"cpu-saturated", "cpu-one-saturated"},
				},
			),
		},
		{
			Name:  "cgroup-roomy",
			Help:  "the same in a cgroup that may use two CPUs",
			Needs: needController("cpu"),
			build: throttle(2, Truth{Never: []string{"cgroup-throttled", "cpu-saturated"}}),
		},
		{
			Name:  "memory-pressure",
			Help:  "a process in a cgroup of 48 MiB reads a file of 128 MiB over and over",
			Twin:  "memory-roomy",
			Needs: needController("memory"),
			build: reread(
				48<<20,
				0,
				Truth{
					Rule: "memory-pressure",
					Kind: []string{"cgroup", "process", "memory"},
					Also: []string{"disk-saturated", "cpu-saturated"},
				},
			),
		},
		{
			Name:  "memory-roomy",
			Help:  "the same in a cgroup of 1 GiB, and 50 MB/s: it reads the disk in the first round only",
			Needs: needController("memory"),
			build: reread(
				1<<30, 50e6, Truth{Never: []string{"memory-pressure", "disk-saturated"}},
			),
		},
		{
			Name: "disk-saturated",
			Help: "64 threads write blocks of 256 KiB past the page cache, as fast as it goes",
			Twin: "disk-light",
			build: write(
				64,
				256<<10,
				0,
				Truth{
					Rule:  "disk-saturated",
					Kind:  []string{"disk", "process"},
					Never: []string{"memory-pressure"},
				},
			),
		},
		{
			Name:  "disk-light",
			Light: true,
			Help:  "one thread writes 4 MB/s",
			build: write(1, 64<<10, 4e6, Truth{Never: []string{"disk-saturated"}}),
		},
	}
}
