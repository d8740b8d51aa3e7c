package diagnose

import (
	"fmt"
	"strings"
)

// When a resource's own numbers keep it from being ruled out, whatever its rules say.
const (
	// innocentStall: share of time in which some task waits for a resource (PSI some). Somebody who
	// waits a fifth of the time does not believe that the resource has nothing to do with it.
	innocentStall = 0.20
	// innocentQueue: runnable tasks a CPU, on average.
	innocentQueue = 2.0
	// innocentBlocked: tasks that wait for I/O at any moment, on average (procs_blocked), or processes in uninterruptible sleep
	// (state D), as at a frozen file system, whose wait counts as no I/O.
	innocentBlocked = 4.0
)

// Doubt is a resource that no finding accuses and that can't be ruled out either.
type Doubt struct {
	Resource string `json:"resource"` // cpu memory disk network
	Because  string `json:"because"`  // the number that speaks against it
}

// Doubtful records that the resource can't be ruled out though nobody is accused, and the numbers that
// speak against it.
func (l *Look) Doubtful(format string, args ...any) {
	l.doubts = append(l.doubts, Doubt{Resource: l.rule.Resource, Because: fmt.Sprintf(format, args...)})
}

// gate holds the numbers of resources against their innocence. It knows the tables of all rules, which
// may be fewer than all sentences.
type gate struct {
	tables map[string]*Table
	doubts []Doubt
}

// doubtsOf returns what speaks against ruling a resource out: its pressure, and numbers that contradict
// that nothing is wrong. Rules decide by states that last; this looks at the whole time.
func doubtsOf(tables map[string]*Table) []Doubt {
	g := &gate{tables: tables}
	g.pressures()
	g.cpu()
	g.memory()
	g.disk()
	g.network()
	return g.doubts
}

// table returns the answer to a sentence; one without rows where no rule asks it.
func (g *gate) table(sentence string) *Table {
	if t := g.tables[sentence]; t != nil {
		return t.filled()
	}
	return &Table{why: "no rule asks it"}
}

func (g *gate) add(resource, format string, args ...any) {
	g.doubts = append(g.doubts, Doubt{resource, fmt.Sprintf(format, args...)})
}

// pressures holds the waiting of the machine's tasks, and of each control group's, against the resource that they wait for.
func (g *gate) pressures() {
	for _, p := range []struct{ resource, of, scope, waits, wait string }{
		{"cpu", "cpu", "some", "some task waits for a CPU", "wait for a CPU"},
		{"cpu", "irq", "full", "interrupts hold tasks up", "are held up by interrupts"}, // it has no line some
		{"memory", "memory", "some", "some task stands still for memory", "stand still for memory"},
		{"disk", "io", "some", "some task stands still for I/O", "stand still for I/O"},
	} {
		if v := g.table(pressure).One("resource", p.of, "scope", p.scope).Mean(nil); v >= innocentStall {
			g.add(p.resource, "%s %s of the time (PSI)", p.waits, percent(v))
			continue
		}
		for _, r := range g.table(cgroupPressure).Where("resource", p.of, "scope", p.scope) {
			if v := r.Mean(nil); v >= innocentStall {
				g.add(p.resource, "tasks of cgroup %s %s %s of the time (PSI)", clean(r.Word("cgroup")), p.wait, percent(v))
				break
			}
		}
	}
}

func (g *gate) cpu() {
	m := machineOf(g.table(cpuTime))
	if idle := m.share(nil, "idle", "iowait"); idle < cpuNoIdle {
		g.add("cpu", "%s of %s idle", percent(idle), plural(int(m.cpus), "CPU is", "CPUs is"))
	}
	if steal := m.share(nil, "steal"); steal >= cpuSteal {
		g.add("cpu", "the hypervisor gives %s of the CPUs' time to other guests", percent(steal))
	}
	run := g.table(runnable)
	if queue := run.mean(run.Sum(run.Rows), nil); m.cpus > 0 && queue >= innocentQueue*m.cpus {
		g.add("cpu", "%s tasks are runnable for %s", digits(queue), plural(int(m.cpus), "CPU", "CPUs"))
	}
}

func (g *gate) memory() {
	if t := g.table(memoryOOM); sumRows(t, t.Rows, nil) > 0 {
		g.add("memory", "the kernel killed processes to get memory")
	}
	events := g.table(cgroupEvents)
	for _, r := range events.Where("event", "oom_kill") {
		if r.Part(nil) > 0 {
			g.add("memory", "processes of cgroup %s were killed for memory", clean(r.Word("cgroup")))
			break
		}
	}
	psi := g.table(pressure).One("resource", "memory", "scope", "some").Mean(nil)
	if in := g.table(memorySwap).One("direction", "in").Mean(nil); in >= swapIn && psi >= memoryStall {
		g.add("memory", "%s are swapped in, and some task stands still for memory %s of the time (PSI)", bytesRate(in), percent(psi))
	}
	size, again := g.table(memorySize), g.table(memoryRefault)
	share := size.One("kind", "available").Mean(nil) / size.One("kind", "total").Mean(nil)
	if v := again.mean(again.Sum(again.Rows), nil); share < memoryLow && v >= memoryRefaults {
		g.add("memory", "%s are read again that were thrown out shortly before, with %s of memory available", bytesRate(v), percent(share))
	}
	if share < memoryLow && psi >= memoryStall {
		g.add("memory", "%s of memory is available, and some task stands still for it %s of the time (PSI)", percent(share), percent(psi))
	}
}

func (g *gate) disk() {
	t := g.table(blocked)
	if v := t.mean(t.Sum(t.Rows), nil); v >= innocentBlocked {
		g.add("disk", "%s tasks wait for I/O at any moment", digits(v))
	} else if v := g.table(processStates).One("state", "D").Part(nil); v >= innocentBlocked {
		g.add("disk", "%s processes are in uninterruptible sleep (state D) at any moment", digits(v))
	}
	g.queues()
	g.hanging()
}

// queues holds against the disks what they are busy with, however it is spread over the time.
func (g *gate) queues() {
	busy, queue, waits, ops := g.table(diskBusy), g.table(diskQueue), g.table(diskWait), g.table(diskOps)
	for _, r := range busy.Rows {
		device := r.Word("device")
		length := queue.One("device", device).Mean(nil)
		done := sumRows(ops, ops.Where("device", device), nil)
		each := sumRows(waits, waits.Where("device", device), nil) / done * 1e9
		switch {
		case !(r.Mean(nil) >= diskBusyShare && length >= diskQueueLong):
		case done == 0:
			g.add("disk", "%s is busy %s of the time with %s requests, and completes none", clean(device), percent(min(r.Mean(nil), 1)), digits(length))
		case each >= diskSlowRotating:
			g.add("disk", "%s is busy %s of the time with %s requests, and each takes %s", clean(device), percent(min(r.Mean(nil), 1)), digits(length), duration(each))
		}
	}
}

func (g *gate) network() {
	g.drops()
	t := g.table(protocolEvents)
	for _, netns := range t.Keys("netns") {
		of := func(protocol, counter string) float64 {
			return t.One("netns", netns, "protocol", protocol, "counter", counter).Mean(nil)
		}
		again, out := of("Tcp", "RetransSegs"), of("Tcp", "OutSegs")
		if share := again / (again + out); again >= retransmitRate && share >= retransmitShare {
			g.add("network", "%s of TCP's segments%s are sent again", percent(share), inside(netns))
		}
		if v := of("TcpExt", "ListenOverflows"); v >= listenLost {
			g.add("network", "%s connection attempts a second%s find a listener's queue full", count(v), inside(netns))
		}
		for _, p := range []string{"Udp", "Udp6"} {
			lost, in := of(p, "RcvbufErrors"), of(p, "InDatagrams")
			if share := lost / (lost + in); lost >= 1 && share >= udpShare {
				g.add("network", "%s of the datagrams%s find their socket full", percent(share), inside(netns))
			}
		}
	}
}

// drops holds what interfaces lose against what they carry. Frames of protocols that nobody speaks are
// no loss.
func (g *gate) drops() {
	drops, packets, harmless := g.table(deviceDrops), g.table(devicePackets), g.table(deviceNoHandler)
	for _, r := range drops.Rows {
		netns, device, direction := r.Word("netns"), r.Word("device"), r.Word("direction")
		lost := r.Mean(nil)
		if direction == "rx" {
			lost -= or(harmless.One("netns", netns, "device", device).Mean(nil), 0)
		}
		carried := packets.One("netns", netns, "device", device, "direction", direction).Mean(nil)
		rate, share := dropsRate, dropsShare
		if direction == "rx" {
			rate, share = dropsPlainRate, dropsPlainShare
		}
		if lost >= rate && lost >= share*(or(carried, 0)+lost) {
			g.add("network", "%s drops %s packets/s (%s)", at(netns, device), count(lost), direction)
		}
	}
}

// explained reports whether a finding is the cause of waiting for a resource, or of what else speaks
// against it.
func explained(resource string, f *Finding, of map[string]string) bool {
	switch {
	case f.Severity == Low && f.Rule != "cpu-saturated": // a remark; of busy CPUs that nobody waits for it says all
		return false
	case of[f.Rule] == resource:
		return true
	case resource == "cpu":
		return f.Rule == "cgroup-throttled" || f.Rule == "fork-storm" || f.Rule == "cache-purge" || f.Rule == "kernel-function" || f.Rule == "table-long"
	case resource == "disk":
		return f.Rule == "memory-pressure" || f.Rule == "swapping" || f.Rule == ioStalledID || f.Rule == diskHangsID
	case resource == "network":
		return f.Rule == "tcp-listen-overflow"
	}
	return false
}

// doubtful returns the resources that are in doubt, each once with what its rules say, or else with
// what the gate says, and no finding explains.
func doubtful(rules, gate []Doubt, findings []*Finding, of map[string]string) (all []Doubt, names map[string]bool) {
	names = map[string]bool{}
	for _, d := range gate {
		names[d.Resource] = true
	}
	for _, d := range rules {
		names[d.Resource] = true
	}
	for _, resource := range []string{"cpu", "memory", "disk", "network"} {
		if !names[resource] {
			continue
		}
		var texts []string
		for _, list := range [][]Doubt{rules, gate} {
			for _, d := range list {
				if d.Resource == resource {
					texts = append(texts, d.Because)
				}
			}
			if len(texts) > 0 {
				break
			}
		}
		known := false
		for _, f := range findings {
			known = known || explained(resource, f, of)
		}
		if !known {
			all = append(all, Doubt{resource, strings.Join(texts, ", ")})
		}
	}
	return all, names
}
