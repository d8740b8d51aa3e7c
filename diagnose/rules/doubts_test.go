package rules

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"culprit/diagnose"
)

// TestRuledOutWithoutContradiction: for machines with random numbers, no resource is ruled out
// whose own numbers contradict that, or that was not measured.
func TestRuledOutWithoutContradiction(t *testing.T) {
	fine, doubtful := map[string]int{}, map[string]int{}
	quiet := readCanned(t, "testdata/quiet.txt", nil)
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 11))
		c := randomMachine(quiet, r)
		rep, err := diagnose.Run(context.Background(), c, Set(), c.over(), c.step)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range rep.Fine {
			fine[e.Resource]++
			for _, why := range contradictions(c, e.Resource) {
				t.Errorf("seed %d: %s is ruled out (%s), and %s", seed, e.Resource, e.Because, why)
			}
		}
		for _, d := range rep.Doubtful {
			doubtful[d.Resource]++
			for _, e := range rep.Fine {
				if e.Resource == d.Resource {
					t.Errorf("seed %d: %s is ruled out and not ruled out", seed, d.Resource)
				}
			}
		}
		wellFormed(t, rep)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for _, resource := range []string{"cpu", "memory", "disk", "network"} {
		if fine[resource] < 50 || doubtful[resource] < 20 {
			t.Errorf("%s: ruled out %d times, in doubt %d times: the machines are too much alike",
				resource, fine[resource], doubtful[resource])
		}
	}
}

// randomMachine returns the quiet machine with some of its numbers replaced or removed.
func randomMachine(quiet *canned, r *rand.Rand) *canned {
	c := *quiet
	c.stats = map[string]*cannedStat{}
	for id, s := range quiet.stats {
		c.stats[id] = s
	}
	share := func() float64 {
		return []float64{0, 0.02, 0.07, 0.19, 0.21, 0.6, 1}[r.IntN(7)] * (0.9 + 0.2*r.Float64())
	}
	rate := func(most float64) float64 { return most * math.Pow(r.Float64(), 4) }
	put := func(id string, value func() float64, words ...string) {
		if r.IntN(3) > 0 {
			return
		}
		s := &cannedStat{}
		for _, row := range c.stats[id].rows {
			if strings.Join(row.words, "\x00") != strings.Join(words, "\x00") {
				s.rows = append(s.rows, row)
			}
		}
		s.rows = append(s.rows, cannedRow{words, randomCells(r, c.cells, value)})
		c.stats[id] = s
	}
	if r.IntN(2) == 0 {
		randomCPUs(&c, r)
	}
	put("sched.runnable", func() float64 { return rate(20) })
	put("sched.blocked", func() float64 { return rate(20) })
	for _, resource := range []string{"cpu some", "memory some", "io some", "irq full"} {
		of, scope, _ := strings.Cut(resource, " ")
		put("pressure.time", share, of, scope)
		put("cgroup.pressure.time", share, "/app", of, scope)
	}
	put("memory.size", func() float64 { return 16.6e9 * share() }, "available")
	put("memory.refaults", func() float64 { return rate(100e6) }, "file")
	put("memory.scan", func() float64 { return rate(100e6) }, "direct")
	put("memory.swap", func() float64 { return rate(50e6) }, "in")
	put("memory.faults", func() float64 { return rate(1000) }, "major")
	if r.IntN(3) == 0 {
		put("memory.oom", func() float64 { return rate(3) })
		put("cgroup.memory.events", func() float64 { return rate(3) }, "/app", "oom_kill")
	}
	put("process.count", func() float64 { return rate(20) }, "D")
	put("disk.busy", share, "nvme0n1")
	if r.IntN(3) == 0 {
		put("disk.inflight", func() float64 { return float64(r.IntN(3)) }, "nvme0n1")
		put("disk.operations", func() float64 { return 0 }, "nvme0n1", "read")
		put("disk.operations", func() float64 { return 0 }, "nvme0n1", "write")
	}
	put("disk.queue", func() float64 { return rate(60) }, "nvme0n1")
	put("disk.wait", func() float64 { return rate(60) }, "nvme0n1", "write")
	put("net.device.drops", func() float64 { return rate(500) }, "", "eth0", "rx")
	put("net.device.drops", func() float64 { return rate(20) }, "", "eth0", "tx")
	put("net.protocol.events", func() float64 { return rate(400) }, "", "Tcp", "RetransSegs")
	put("net.protocol.events", func() float64 { return rate(3) }, "", "TcpExt", "ListenOverflows")
	put("net.protocol.events", func() float64 { return rate(20) }, "", "Udp", "RcvbufErrors")
	for _, id := range []string{"cpu.time", "sched.runnable", "process.cpu", "memory.size",
		"memory.scan", "memory.swap", "memory.refaults",
		"pressure.time", "disk.busy", "disk.queue", "net.device.drops", "net.protocol.events"} {
		switch r.IntN(40) {
		case 0:
			c.stats[id] = &cannedStat{}
		case 1:
			c.stats[id] = &cannedStat{err: "not to be read"}
		case 2:
			c.stats[id] = &cannedStat{never: true}
		case 3:
			c.stats[id] = &cannedStat{notes: []string{"this kernel lacks it"}, never: true}
		}
	}
	return &c
}

// randomCells returns values that are constant, come in bursts, or differ from cell to cell.
func randomCells(r *rand.Rand, cells int, value func() float64) (words []string) {
	a, b, kind, from := value(), value(), r.IntN(3), r.IntN(cells)
	for c := range cells {
		v := a
		switch {
		case kind == 1 && c >= from:
			v = b
		case kind == 2:
			v = value()
		}
		words = append(words, strconv.FormatFloat(v, 'g', 6, 64))
	}
	return words
}

// randomCPUs sets modes of the CPUs that sum to their time.
func randomCPUs(c *canned, r *rand.Rand) {
	s := &cannedStat{}
	for cpu := range 4 {
		var idle, steal, usr []string
		least := r.Float64()
		for range c.cells {
			i := least * r.Float64()
			st := (1 - i) * math.Pow(r.Float64(), 6)
			for list, v := range map[*[]string]float64{&idle: i, &steal: st, &usr: 1 - i - st} {
				*list = append(*list, strconv.FormatFloat(v, 'f', 6, 64))
			}
		}
		for mode, values := range map[string][]string{"idle": idle, "steal": steal, "usr": usr} {
			s.rows = append(s.rows, cannedRow{[]string{fmt.Sprint(cpu), mode}, values})
		}
	}
	c.stats["cpu.time"] = s
}

// meanOf returns the mean of a canned row; NaN where it was not measured.
func meanOf(c *canned, id string, words ...string) float64 {
	s := c.stats[id]
	if s.err != "" || s.never || len(s.rows) == 0 {
		return math.NaN()
	}
	for _, row := range s.rows {
		if strings.Join(row.words, "\x00") == strings.Join(words, "\x00") {
			sum := 0.0
			values, err := row.series(c.cells)
			if err != nil {
				panic(err)
			}
			for _, v := range values {
				sum += v
			}
			return sum / float64(c.cells)
		}
	}
	return math.NaN()
}

// secondsAbove returns the number of cells in which a canned row is at least least.
func secondsAbove(c *canned, least float64, id string, words ...string) (n int) {
	for _, row := range c.stats[id].rows {
		if strings.Join(row.words, "\x00") != strings.Join(words, "\x00") {
			continue
		}
		values, err := row.series(c.cells)
		if err != nil {
			panic(err)
		}
		for _, v := range values {
			if v >= least {
				n++
			}
		}
	}
	return n
}

// contradictions returns the numbers of a machine that speak against ruling out a resource. It
// reads the raw rows and has its own constants, so that an error in a rule or in the doubts shows.
func contradictions(c *canned, resource string) (all []string) {
	is := func(wrong bool, text string) {
		if wrong {
			all = append(all, text)
		}
	}
	missing := func(id string, words ...string) {
		is(math.IsNaN(meanOf(c, id, words...)), id+" was not measured")
	}
	psi := func(of string) float64 { return meanOf(c, "pressure.time", of, "some") }
	for of, name := range map[string]string{"cpu": "cpu", "memory": "memory", "io": "disk",
		"irq": "cpu"} {
		scope := map[bool]string{true: "full", false: "some"}[of == "irq"]
		is(name == resource && meanOf(c, "pressure.time", of, scope) >= 0.2,
			"the machine's tasks wait for "+of)
		is(name == resource && meanOf(c, "cgroup.pressure.time", "/app", of, scope) >= 0.2,
			"tasks of a cgroup wait for "+of)
	}
	switch resource {
	case "cpu":
		missing("cpu.time", "0", "idle")
		missing("sched.runnable")
		missing("process.cpu", "800", "nginx", "usr")
		idle, steal := 0.0, 0.0
		for cpu := range 4 {
			idle += meanOf(c, "cpu.time", fmt.Sprint(cpu), "idle") / 4
			steal += meanOf(c, "cpu.time", fmt.Sprint(cpu), "steal") / 4
		}
		is(idle < 0.05, "the CPUs are not idle")
		is(steal >= 0.15, "the hypervisor takes them")
		is(meanOf(c, "sched.runnable") >= 8, "eight tasks want four CPUs")
	case "memory":
		missing("memory.size", "available")
		missing("memory.scan", "direct")
		missing("memory.swap", "in")
		is(meanOf(c, "memory.oom") > 0, "the kernel killed for it")
		is(meanOf(c, "cgroup.memory.events", "/app", "oom_kill") > 0,
			"the kernel killed for it in a cgroup")
		low := meanOf(c, "memory.size", "available") < 1.66e9
		is(low && psi("memory") >= 0.05, "little is available and tasks wait")
		is(low && meanOf(c, "memory.refaults", "file") >= 10e6,
			"little is available and pages are read again")
		is(meanOf(c, "memory.swap", "in") >= 1e6 && psi("memory") >= 0.05,
			"swap is read and tasks wait")
	case "disk":
		missing("disk.busy", "nvme0n1")
		done := meanOf(c, "disk.operations", "nvme0n1", "read") + meanOf(c, "disk.operations",
			"nvme0n1", "write")
		is(secondsAbove(c, 1, "disk.inflight", "nvme0n1") >= 5 && done == 0,
			"a disk has requests under way and completes none")
		is(meanOf(c, "sched.blocked") >= 4, "four tasks are blocked")
		is(meanOf(c, "process.count", "D") >= 4, "four processes are in state D")
		each := meanOf(c, "disk.wait", "nvme0n1", "write") / 25
		is(meanOf(c, "disk.busy", "nvme0n1") >= 0.9 && meanOf(c, "disk.queue", "nvme0n1") >= 2 &&
			each >= 0.1,
			"the disk is always busy, with a queue, and a write takes 100 ms")
	case "network":
		missing("net.device.drops", "", "eth0", "rx")
		missing("net.protocol.events", "", "Tcp", "RetransSegs")
		again := meanOf(c, "net.protocol.events", "", "Tcp", "RetransSegs")
		is(again >= 10 && again >= 0.02*1650, "segments are sent again")
		is(meanOf(c, "net.protocol.events", "", "TcpExt", "ListenOverflows") >= 0.5,
			"connections find a full queue")
		is(meanOf(c, "net.protocol.events", "", "Udp", "RcvbufErrors") >= 1,
			"datagrams find a full socket")
		is(meanOf(c, "net.device.drops", "", "eth0", "tx") >= 5,
			"the interface loses what it sends")
		is(meanOf(c, "net.device.drops", "", "eth0", "rx") >= 60,
			"the interface loses what it receives")
	}
	return all
}
