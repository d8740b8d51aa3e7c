package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"culprit/measure"
)

// When a disk counts as saturated.
const (
	// diskBusyShare: share of time with at least one request under way. By itself it says little: an SSD that always has
	// one request of the hundred that it could do at once is "100 % busy".
	diskBusyShare = 0.90
	// diskQueueLong: requests in the disk or before it, on average. Below two each request is served as it comes.
	diskQueueLong = 2.0
	// diskSlow: time a request takes, ns. Disks need 5-10 ms unqueued and SSDs 0.05-1 ms; from 5 ms on with a queue requests
	// wait for each other.
	diskSlow = 5e6
	// diskSlowRotating: two seeks. A rotating disk that serves one of two in order is at work, not overrun.
	diskSlowRotating = 15e6
	// rotatingOps and rotatingBytes: a disk that does more a second does not turn, whatever it says of itself: a virtual disk
	// says that it does until told otherwise.
	rotatingOps, rotatingBytes = 1000.0, 400e6
	// diskStall: share of time in which some task stood still for I/O (PSI some), and diskStallSlow, the time a request takes
	// at least for that to count: 32 readers of a fast SSD stand still all the time, 0.2 ms each, and it could serve more.
	diskStall, diskStallSlow = 0.20, 1e6
	// diskQueueDeep: with so many before it a request waits for the others, stalls or not - where CPUs are busy too, tasks that
	// wait are counted as ready soon after, and PSI tells little.
	diskQueueDeep = 16.0
	// diskLarge and diskLargeQueue: four requests of 60 kB and more under way fill the bandwidth of any disk, an SSD that
	// serves each in 0.3 ms too: more of them at once move no more; eight say so even where nobody is seen to stall. Of small ones it
	// could serve hundreds at once.
	diskLarge, diskLargeQueue, diskLargeDeep = 60e3, 4.0, 8.0
)

// diskSaturated finds disks that have more to do than they can, and for whom.
func diskSaturated() Rule {
	return Rule{
		ID: "disk-saturated", Checks: "disk", Resource: "disk",
		Needs: []string{},
		Finds: []string{diskBusy, diskQueue, diskWait, diskOps},
		Uses:  []string{diskInfo, diskBytes, processIO, processDelay, pressure, memorySwap, cgroupIO, blocked, diskInflight},
		Check: func(l *Look) {
			busy := l.Table(diskBusy)
			io := l.Table(processIO)
			// In containers /proc/diskstats may be empty while programs use the host's disks.
			if moved := or(sumRows(io, io.Rows, nil), 0); len(busy.Rows) == 0 && moved > 0 {
				l.Unchecked("no disk is in sight, but programs read and write %s", bytesRate(moved))
				return
			}
			tree := diskTreeOf(l.Table(diskInfo))
			full, idle := examineDisks(l, tree)
			switch {
			case len(busy.Rows) == 0 || idle.disk == nil && len(full) == 0 && idle.unknown == 0:
				l.Unchecked("no disk is in sight")
				return
			case idle.disk == nil && len(full) == 0:
				l.Unchecked("how busy the disks are is not known")
				return
			}
			groups := tree.groups(full, func(device string) bool { return uncounted(l, device) })
			// Where a real disk is full, a device of memory or of a file that is full too is not the limit.
			real := slices.DeleteFunc(slices.Clone(groups), func(g diskGroup) bool {
				return !slices.ContainsFunc(g.members, func(d *fullDisk) bool { return d.kind != "virtual" })
			})
			if len(real) == 0 {
				real = groups // only a mapper or a RAID shows it: better it than nothing
			}
			for _, g := range real {
				g.accuse(l, tree, len(real) == 1)
			}
			if len(full) == 0 {
				l.Fine("%s", idle.text())
			}
		},
	}
}

// busiestDisk is the disk that is busy for most of the time. What is made of others counts where
// nothing else is seen.
type busiestDisk struct {
	disk    *fullDisk
	busy    float64
	made    bool // of other devices, of a file or of memory
	unknown int  // disks of which it is not known how busy they are
}

// consider takes a disk into account.
func (b *busiestDisk) consider(d *fullDisk) {
	busy := d.busy.Mean(nil)
	if busy != busy {
		b.unknown++
		return
	}
	made := d.kind == "virtual" || strings.HasPrefix(d.name, "loop")
	if b.disk == nil || b.made && !made || b.made == made && busy > b.busy {
		b.disk, b.busy, b.made = d, busy, made
	}
}

// text returns the numbers of the busiest disk, as evidence that it is well.
func (b *busiestDisk) text() string {
	text := fmt.Sprintf("busiest disk %s %s busy", clean(b.disk.name), percent(min(b.busy, 1)))
	if w := b.disk.await(nil); w == w {
		text += ", " + duration(w) + " a request"
	}
	return text
}

// examineDisks returns the devices that are saturated, and the busiest disk of all. Partitions are left
// out, their disk is in the list; and so are loop devices, whose file's disk is.
func examineDisks(l *Look, tree diskTree) (full []*fullDisk, most busiestDisk) {
	for _, r := range l.Table(diskBusy).Rows {
		name := r.Word("device")
		kind := tree.kinds[name]
		if name == "" || kind == "partition" || kind == "" && strings.HasPrefix(name, "loop") {
			continue
		}
		d := diskOf(l, name, kind, r)
		if kind != "path" {
			most.consider(d)
		}
		if _, hung := hangs(l, name); !hung && d.saturated() {
			full = append(full, d)
		}
	}
	return full, most
}

// uncounted reports whether a device counts no time for the requests that it serves, as md does before
// Linux 5.10 and a multipath disk on some kernels.
func uncounted(l *Look, device string) bool {
	busy, bytes := l.Table(diskBusy).One("device", device).Mean(nil), l.Table(diskBytes)
	return !(busy > 0) && sumRows(bytes, bytes.Where("device", device), nil) > 0
}

// accuse tells of one full disk, whatever devices show it.
func (g diskGroup) accuse(l *Look, tree diskTree, only bool) {
	d := g.speaker(tree)
	d.title = clean(d.name)
	head := tree.head[d.name]
	if head == "" {
		head = g.joined
	}
	if head != "" { // the device that programs use shows nothing itself
		d.title = fmt.Sprintf("%s (by its part %s)", clean(head), clean(d.name))
		d.shown = head
	}
	f := d.accuse(l, only)
	for i, o := range g.others(d) {
		if i == 3 {
			break
		}
		way := "lies on the same disk"
		switch {
		case tree.on(d.name, o.name):
			way = "on which it lies"
		case tree.on(o.name, d.name):
			way = "which lies on it"
		}
		busy := min(o.busy.Mean(d.s.mask), 1)
		if busy == busy {
			f.proof(o.busy.table, d.s, o.busy.Sentence(), busy, o.busy.table.Unit, fmt.Sprintf("%s, %s, is busy %s of the time", clean(o.name), way, percent(busy)))
		}
	}
}

// fullDisk is a disk under suspicion.
type fullDisk struct {
	name, kind  string
	rotating    bool
	busy, queue *Row
	wait, ops   []*Row
	bytes       []*Row
	stall       *Row
	bandwidth   bool // it serves its requests quickly, and they are large
	s           spell
	title       string // how claims name it
	shown       string // the device that a finding is about, if that is another
}

func diskOf(l *Look, name, kind string, busy *Row) *fullDisk {
	return &fullDisk{name: name, kind: kind, busy: busy, queue: l.Table(diskQueue).One("device", name), wait: l.Table(diskWait).Where("device", name),
		ops: l.Table(diskOps).Where("device", name), bytes: l.Table(diskBytes).Where("device", name), stall: l.Table(pressure).One("resource", "io", "scope", "some"),
		rotating: l.Table(diskInfo).One("device", name, "rotational", "1") != nil}
}

// await gives the time a request took, ns, over the masked cells; NaN when none was done, or waits are not known. A discard or flush counts too.
func (d *fullDisk) await(mask []bool, directions ...string) float64 {
	var wait, ops float64
	sum := func(rows []*Row) float64 {
		v := 0.0
		for _, r := range rows {
			if len(directions) > 0 && r.Word("direction") != directions[0] {
				continue
			}
			v += or(r.Part(mask), 0)
		}
		return v
	}
	wait, ops = sum(d.wait), sum(d.ops)
	if ops == 0 || !slices.ContainsFunc(d.wait, func(r *Row) bool { return r.Mean(mask) >= 0 }) {
		return measure.NaN // waits that are not known are no waits of 0
	}
	return wait / ops * 1e9 // wait is a ratio: seconds a second
}

// saturated decides, and fills in since when. Busy with a queue in most cells, and either requests take long or tasks
// are seen to stand still for it.
func (d *fullDisk) saturated() bool {
	var ok bool
	d.s, ok = lasting(d.busy.table, known(d.busy), func(c int) bool { return d.busy.At(c) >= diskBusyShare && d.queue.At(c) >= diskQueueLong })
	if !ok {
		return false
	}
	ops := 0.0
	for _, r := range d.ops {
		ops += or(r.Part(d.s.mask), 0)
	}
	if d.rotating && (ops >= rotatingOps || d.moved() >= rotatingBytes) {
		d.rotating = false
	}
	slow := diskSlow
	if d.rotating {
		slow = diskSlowRotating
	}
	w, stalls := d.await(d.s.mask), d.stall.Mean(d.s.mask) >= diskStall
	queue := d.queue.Mean(d.s.mask)
	if w >= slow || !d.rotating && w >= diskStallSlow && (stalls || queue >= diskQueueDeep) {
		return true
	}
	d.bandwidth = !d.rotating && (stalls && queue >= diskLargeQueue || queue >= diskLargeDeep) && d.moved() >= diskLarge*ops && ops > 0
	return d.bandwidth
}

// moved gives the bytes a second that the disk reads and writes.
func (d *fullDisk) moved() float64 {
	if len(d.bytes) == 0 {
		return 0
	}
	return or(sumRows(d.bytes[0].table, d.bytes, d.s.mask), 0)
}

func (d *fullDisk) accuse(l *Look, only bool) *Finding {
	s, t := d.s, d.busy.table
	bytesT, io := l.Table(diskBytes), l.Table(processIO)
	read, write := bytesT.One("device", d.name, "direction", "read").Mean(s.mask), bytesT.One("device", d.name, "direction", "write").Mean(s.mask)
	moved := or(read, 0) + or(write, 0)
	swap := l.Table(memorySwap)
	swapped := or(sumRows(swap, swap.Rows, s.mask), 0)

	identity := d.name
	if d.shown != "" {
		identity = d.shown
	}
	culprit, who, share := Culprit{Kind: "disk", Name: identity}, "", measure.NaN
	all := actors(io, io.Rows, s.mask)
	total := 0.0
	for _, a := range all {
		total += a.rate
	}
	switch {
	case moved > 0 && swapped >= 0.5*moved:
		culprit, who, share = Culprit{Kind: "memory", Name: "swap"}, "; most of it is swap", min(swapped/moved, 1)
	case len(all) > 0 && moved > 0 && all[0].rate >= 0.3*moved && (only || all[0].rate <= 1.3*moved):
		a := all[0]
		share = min(a.rate/moved, 1)
		culprit = a.culprit()
		who = fmt.Sprintf("; %s does %s of it, %s", a, percent(share), wayOf(a, s.mask))
	case len(all) > 0 && total > 0 && all[0].rate >= 0.5*total:
		who = fmt.Sprintf("; %s reads and writes the most", all[0])
	}
	claim := fmt.Sprintf("%s is saturated: %s busy with %s requests waiting, %s each, for %s%s.", d.title,
		percent(min(d.busy.Mean(s.mask), 1)), digits(d.queue.Mean(s.mask)), duration(or(d.await(s.mask), 0)), s, who)
	severity := High
	if d.bandwidth {
		severity = Medium
		claim = fmt.Sprintf("%s gives all its bandwidth: %s, %s busy with %s large requests at once, for %s%s.", d.title, bytesRate(moved),
			percent(min(d.busy.Mean(s.mask), 1)), digits(d.queue.Mean(s.mask)), s, who)
	}
	f := l.Found(clean(identity), severity, 0.93, culprit, claim)
	f.explains(share)
	f.proof(t, s, d.busy.Sentence(), min(d.busy.Mean(s.mask), 1), t.Unit, fmt.Sprintf("%s busy %s of the time", clean(d.name), percent(min(d.busy.Mean(s.mask), 1))))
	q := d.queue.table
	f.proof(q, s, d.queue.Sentence(), d.queue.Mean(s.mask), q.Unit, fmt.Sprintf("%s requests in it or before it on average", digits(d.queue.Mean(s.mask)))).than(diskQueueLong, "a long queue begins at")
	if w := d.await(s.mask); w == w {
		wt := d.wait[0].table
		f.proof(wt, s, wt.Asking(nil, "device", d.name), sumRows(wt, d.wait, s.mask), wt.Unit, fmt.Sprintf("a request takes %s%s: in a second requests wait %s s together, and %s are done", duration(w), d.byDirection(s.mask),
			digits(sumRows(wt, d.wait, s.mask)), count(sumRows(d.ops[0].table, d.ops, s.mask))))
	}
	if moved > 0 {
		f.proof(bytesT, s, bytesT.Asking(nil, "device", d.name), moved, bytesT.Unit, fmt.Sprintf("%s read, %s written", bytesRate(or(read, 0)), bytesRate(or(write, 0))))
	}
	if len(all) > 0 && total > 0 {
		a := all[0]
		f.proof(io, s, a.sentence(io), a.rate, io.Unit, fmt.Sprintf("%s: %s, %s", a, bytesRate(a.rate), wayOf(a, s.mask))).than(moved, "what the disk moved")
		if more := others(all, total, 3); more != "" {
			f.proof(io, s, `process.io by process`, total-a.rate, io.Unit, "then "+more)
		}
	}
	if v := d.stall.Mean(s.mask); v == v {
		f.loses(v)
		f.proof(d.stall.table, s, d.stall.Sentence(), v, d.stall.table.Unit, fmt.Sprintf("some task stands still for I/O %s of the time (PSI)", percent(v)))
	}
	if !io.Have() {
		f.but(0.05, "Which process reads and writes is not known: %s.", io.why)
	} else if moved > 0 && total < 0.5*moved && culprit.Name != "swap" {
		f.but(0.05, "Processes account for %s of what the disk moved; the rest was written by the kernel later than it was ordered, or is metadata.", percent(total/moved))
	}
	if w := d.await(s.mask); d.bandwidth && w == w {
		f.but(0.1, "Each request is served quickly, in %s: who asks for little at a time does not feel it.", duration(w))
	}
	f.Verify = "iostat -x -y 1 3; pidstat -d 1 3"
	if culprit.Kind == "process" && culprit.PID > 0 {
		f.Fix = &Fix{fmt.Sprintf("ionice -c 3 -p %d", culprit.PID), fmt.Sprintf("ionice -c 0 -p %d", culprit.PID), "low: it gives way to others; works with the bfq scheduler only"}
	}
	return f
}

func (d *fullDisk) byDirection(mask []bool) string {
	r, w := d.await(mask, "read"), d.await(mask, "write")
	if r != r || w != w {
		return ""
	}
	return ", reads " + duration(r) + ", writes " + duration(w)
}

// wayOf says whether an actor reads or writes.
func wayOf(a actor, mask []bool) string {
	write, all := 0.0, 0.0
	for _, r := range a.rows {
		v := or(r.Part(mask), 0)
		all += v
		if r.Word("direction") == "write" {
			write += v
		}
	}
	switch {
	case all == 0:
		return "direction unknown"
	case write > 0.9*all:
		return "writing"
	case write < 0.1*all:
		return "reading"
	}
	return percent(write/all) + " of it writing"
}
