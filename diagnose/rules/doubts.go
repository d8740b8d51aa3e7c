package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/limits"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// gate collects numbers that keep resources from being ruled out. The tables may be those of some
// rules only.
type gate struct {
	table  diagnose.Tables
	doubts []diagnose.Doubt
}

// doubtsOf returns what speaks against ruling a resource out: its pressure, and numbers that
// contradict the absence of a fault. Rules decide by states that last; this considers the whole
// time range.
func doubtsOf(tables diagnose.Tables) []diagnose.Doubt {
	g := &gate{table: tables}
	g.pressures()
	g.cpu()
	g.memory()
	g.disk()
	g.network()
	return g.doubts
}

func (g *gate) add(resource, format string, args ...any) {
	g.doubts = append(g.doubts,
		diagnose.Doubt{Resource: resource, Because: fmt.Sprintf(format, args...)})
}

// pressures considers the stall times of the machine, and of each control group.
func (g *gate) pressures() {
	for _, p := range []struct{ resource, of, scope, waits, wait string }{
		{"cpu", "cpu", "some", "some task waits for a CPU", "wait for a CPU"},
		// it has no "some"
		{"cpu", "irq", "full", "interrupts delay tasks", "are delayed by interrupts"},
		{"memory", "memory", "some", "some task is stalled on memory", "are stalled on memory"},
		{"disk", "io", "some", "some task is stalled on I/O", "are stalled on I/O"},
	} {
		if v := g.table(facts.Pressure).One("resource", p.of, "scope",
			p.scope).Mean(nil); v >= threshold.DoubtStall {
			g.add(p.resource, "%s %s of the time (PSI)", p.waits, phrase.Percent(v))
			continue
		}
		for _, r := range g.table(facts.CgroupPressure).Where("resource", p.of, "scope", p.scope) {
			if v := r.Mean(nil); v >= threshold.DoubtStall {
				g.add(p.resource, "tasks of cgroup %s %s %s of the time (PSI)",
					phrase.Clean(r.Word("cgroup")), p.wait, phrase.Percent(v))
				break
			}
		}
	}
}

func (g *gate) cpu() {
	m := facts.MachineOf(g.table(facts.CPUTime))
	if idle := m.Share(nil, "idle", "iowait"); idle < threshold.CPUNoIdle {
		g.add("cpu", "%s of %s idle", phrase.Percent(idle),
			phrase.Plural(int(m.CPUs), "CPU is", "CPUs is"))
	}
	if steal := m.Share(nil, "steal"); steal >= threshold.CPUSteal {
		g.add("cpu", "the hypervisor takes %s of the CPU time for other guests",
			phrase.Percent(steal))
	}
	for _, r := range g.table(facts.ThrottleTime).Rows {
		if v := min(r.Mean(nil), 1); v >= threshold.ThrottleShare {
			g.add("cpu", "heat slows CPU %s down %s of the time", phrase.Clean(r.Word("cpu")),
				phrase.Percent(v))
			break
		}
	}
	run := g.table(facts.Runnable)
	if queue := run.Mean(run.Sum(run.Rows), nil); m.CPUs > 0 &&
		queue >= threshold.DoubtQueue*m.CPUs {
		g.add("cpu", "%s tasks are runnable for %s", phrase.Digits(queue),
			phrase.Plural(int(m.CPUs), "CPU", "CPUs"))
	}
}

func (g *gate) memory() {
	if t := g.table(facts.MemoryOOM); facts.SumRows(t, t.Rows, nil) > 0 {
		g.add("memory", "the kernel killed processes to free memory")
	}
	events := g.table(facts.CgroupEvents)
	for _, r := range events.Where("event", "oom_kill") {
		if r.Part(nil) > 0 {
			g.add("memory", "processes of cgroup %s were killed to free memory",
				phrase.Clean(r.Word("cgroup")))
			break
		}
	}
	psi := g.table(facts.Pressure).One("resource", "memory", "scope", "some").Mean(nil)
	if in := g.table(facts.MemorySwap).One("direction", "in").Mean(nil); in >= threshold.SwapIn &&
		psi >= threshold.MemoryStall {
		g.add("memory",
			"%s are swapped in, and some task is stalled on memory %s of the time (PSI)",
			phrase.BytesRate(in), phrase.Percent(psi))
	}
	size, again := g.table(facts.MemorySize), g.table(facts.MemoryRefault)
	share := size.One("kind", "available").Mean(nil) / size.One("kind", "total").Mean(nil)
	if v := again.Mean(again.Sum(again.Rows), nil); share < threshold.MemoryLow &&
		v >= threshold.MemoryRefaults {
		g.add("memory", "%s are read again soon after eviction, with %s of memory available",
			phrase.BytesRate(v), phrase.Percent(share))
	}
	if share < threshold.MemoryLow && psi >= threshold.MemoryStall {
		g.add("memory", "%s of memory is available, and some task is stalled on it %s of the time "+
			"(PSI)", phrase.Percent(share), phrase.Percent(psi))
	}
}

func (g *gate) disk() {
	t := g.table(facts.Blocked)
	if v := t.Mean(t.Sum(t.Rows), nil); v >= threshold.DoubtBlocked {
		g.add("disk", "%s tasks wait for I/O at any moment", phrase.Digits(v))
	} else if v := g.table(facts.ProcessStates).One("state",
		"D").Part(nil); v >= threshold.DoubtBlocked {
		g.add("disk", "%s processes are in uninterruptible sleep (state D) at any moment",
			phrase.Digits(v))
	}
	g.queues()
	g.hanging()
	g.filesystems()
}

// filesystems considers file systems that cannot be written. A full one counts only when calls
// fail, or nobody counted them.
func (g *gate) filesystems() {
	for _, r := range g.table(facts.FilesystemAccess).Where("access", "failed") {
		if r.Mean(nil) > 0 {
			g.add("disk", "file system %s is read-only after an error",
				phrase.Clean(r.Word("mount")))
			break
		}
	}
	calls := g.table(facts.FailedCalls)
	if calls.Have() && !(facts.SumRows(calls, calls.Where("error", "ENOSPC"), nil) > 0) {
		return
	}
	for _, q := range []string{facts.FilesystemSize, facts.FilesystemInodes} {
		if mount := limits.Full(g.table, q); mount != "" {
			g.add("disk", "file system %s is full", phrase.Clean(mount))
			return
		}
	}
}

// queues considers busy disks with slow requests, however they are spread over the time.
func (g *gate) queues() {
	busy, queue, waits, ops := g.table(facts.DiskBusy), g.table(facts.DiskQueue),
		g.table(facts.DiskWait), g.table(facts.DiskOps)
	for _, r := range busy.Rows {
		device := r.Word("device")
		length := queue.One("device", device).Mean(nil)
		done := facts.SumRows(ops, ops.Where("device", device), nil)
		each := facts.SumRows(waits, waits.Where("device", device), nil) / done * 1e9
		switch {
		case !(r.Mean(nil) >= threshold.DiskBusyShare && length >= threshold.DiskQueueLong):
		case done == 0:
			g.add("disk", "%s is busy %s of the time with %s requests, and completes none",
				phrase.Clean(device), phrase.Percent(min(r.Mean(nil), 1)), phrase.Digits(length))
		case each >= threshold.DiskSlowRotating:
			g.add("disk", "%s is busy %s of the time with %s requests, and each takes %s",
				phrase.Clean(device), phrase.Percent(min(r.Mean(nil), 1)), phrase.Digits(length),
				phrase.Duration(each))
		}
	}
}

func (g *gate) network() {
	g.drops()
	t := g.table(facts.ProtocolEvents)
	for _, netns := range t.Keys("netns") {
		of := func(protocol, counter string) float64 {
			return t.One("netns", netns, "protocol", protocol, "counter", counter).Mean(nil)
		}
		again, out := of("Tcp", "RetransSegs"), of("Tcp", "OutSegs")
		if share := again / (again + out); again >= threshold.RetransmitRate &&
			share >= threshold.RetransmitShare {
			g.add("network", "%s of the TCP segments%s are retransmitted", phrase.Percent(share),
				phrase.NamespaceSuffix(netns))
		}
		if v := of("TcpExt", "ListenOverflows"); v >= threshold.ListenLost {
			g.add("network", "%s connection attempts per second%s find a listen queue full",
				phrase.Count(v), phrase.NamespaceSuffix(netns))
		}
		for _, p := range []string{"Udp", "Udp6"} {
			lost, in := of(p, "RcvbufErrors"), of(p, "InDatagrams")
			if share := lost / (lost + in); lost >= 1 && share >= threshold.UDPShare {
				g.add("network", "%s of the datagrams%s find a full socket buffer",
					phrase.Percent(share), phrase.NamespaceSuffix(netns))
			}
		}
	}
}

// drops considers packets that interfaces lose. Frames of protocols without a listener are no loss.
func (g *gate) drops() {
	drops, packets, harmless := g.table(facts.DeviceDrops), g.table(facts.DevicePackets),
		g.table(facts.DeviceNoHandler)
	for _, r := range drops.Rows {
		netns, device, direction := r.Word("netns"), r.Word("device"), r.Word("direction")
		lost := r.Mean(nil)
		if direction == "rx" {
			lost -= series.Or(harmless.One("netns", netns, "device", device).Mean(nil), 0)
		}
		carried := packets.One("netns", netns, "device", device, "direction", direction).Mean(nil)
		rate, share := threshold.DropsRate, threshold.DropsShare
		if direction == "rx" {
			rate, share = threshold.DropsPlainRate, threshold.DropsPlainShare
		}
		if lost >= rate && lost >= share*(series.Or(carried, 0)+lost) {
			g.add("network", "%s drops %s packets/s (%s)", phrase.DeviceName(netns, device),
				phrase.Count(lost), direction)
		}
	}
}

// hanging considers disks with requests in flight that complete none.
func (g *gate) hanging() {
	under, ops := g.table(facts.DiskInflight), g.table(facts.DiskOps)
	kinds := facts.DiskTreeOf(g.table(facts.DiskInfo)).Kinds
	for _, r := range under.Rows {
		if kinds[r.Word("device")] == "partition" {
			continue // its disk is in the list
		}
		done := ops.Sum(ops.Where("device", r.Word("device")))
		held := 0.0
		for c, sec := range under.Seconds {
			if c < len(done) && r.At(c) >= 1 && done[c] == 0 {
				held += sec
			}
		}
		if held >= threshold.HangLeast {
			g.add("disk", "%s has requests in flight for %s s and completes none",
				phrase.Clean(r.Word("device")), phrase.Digits(held))
			return
		}
	}
}

// explainsDoubt reports whether a finding is the cause of a doubt about a resource.
func explainsDoubt(f *diagnose.Finding, resource string) bool {
	switch {
	// a remark; for cpu-saturated it means that no task waits
	case f.Severity == diagnose.Low && f.Rule != "cpu-saturated":
		return false
	case resourceOf(f.Rule) == resource:
		return true
	case resource == "cpu":
		return f.Rule == "cgroup-throttled" || f.Rule == "fork-storm" || f.Rule == "cache-purge" ||
			f.Rule == "kernel-function" || f.Rule == "table-long" || f.Rule == "realtime-hog" ||
			f.Rule == "cpus-confined" || f.Rule == "cpu-starved" || f.Rule == "cpu-slow"
	case resource == "disk":
		return f.Rule == "memory-pressure" || f.Rule == "swapping" || f.Rule == "io-stalled" ||
			f.Rule == "tasks-blocked" || f.Rule == "disk-hangs" ||
			f.Rule == "writeback-throttled" || f.Rule == "swap-in-idle" ||
			f.Rule == "limit-reached" && f.Culprit.Kind == "filesystem"
	case resource == "memory":
		return f.Rule == "swap-in-idle"
	case resource == "network":
		return f.Rule == "tcp-listen-overflow"
	}
	return false
}
