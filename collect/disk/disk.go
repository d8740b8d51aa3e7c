package disk

import (
	"bytes"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
)

// Disks reads /proc/diskstats, and from /sys/block what each device is. It emits all devices, also
// idle and virtual ones, and views choose by the field kind of disk.info. A request to a virtual
// device (dm, md, loop) is counted again at the disks below it, and one to a partition at its disk.
//
// The kernel's times are in milliseconds and wrap at 2^32 (Documentation/admin-guide/iostats.rst).
// Since Linux 5.0 disk.busy is sampled: a request counts for at least the clock tick in which it
// began or ended. So many short requests may be over-counted and few of them under-counted.
type Disks struct{}

func diskFields(names ...string) []measure.Field {
	help := map[string]string{"device": "name in /proc/diskstats", "direction": "read write " +
		"discard flush"}
	var f []measure.Field
	for _, n := range names {
		f = append(f, measure.Field{Name: n, Type: measure.Word, Help: help[n]})
	}
	return f
}

// Stats returns the counters and the description of each block device.
func (Disks) Stats() []measure.Stat {
	both, one := diskFields("device", "direction"), diskFields("device")
	return append([]measure.Stat{
		{
			ID:     "disk.operations",
			Kind:   measure.Delta,
			Unit:   measure.Operations,
			Help:   "requests finished (/proc/diskstats)",
			Fields: both,
		},
		{
			ID:     "disk.merges",
			Kind:   measure.Delta,
			Unit:   measure.Operations,
			Help:   "requests merged into a neighbour while they waited (/proc/diskstats)",
			Fields: both,
		},
		{ID: "disk.bytes", Kind: measure.Delta, Unit: measure.Bytes, Help: "bytes of finished " +
			"requests (/proc/diskstats sectors, always of 512 bytes)", Fields: both},
		{ID: "disk.wait", Kind: measure.Delta, Unit: measure.Nanoseconds, Help: "time that " +
			"finished requests spent in the queue and at the device; divided by " +
			"disk.operations: the mean wait (/proc/diskstats)", Fields: both},
		{ID: "disk.busy", Kind: measure.Delta, Unit: measure.Nanoseconds, Help: "time with at " +
			"least one request in progress (/proc/diskstats)", Fields: one},
		{
			ID:   "disk.queue",
			Kind: measure.Delta,
			Unit: measure.Nanoseconds,
			Help: "time of all requests in progress; its rate is the mean length of the " +
				"queue (/proc/diskstats)",
			Fields: one,
		},
		{
			ID:     "disk.inflight",
			Kind:   measure.Level,
			Unit:   measure.Operations,
			Help:   "requests in progress now (/proc/diskstats)",
			Fields: one,
		},
		{
			ID:   "disk.info",
			Kind: measure.Level,
			Unit: measure.Count,
			Fold: measure.Max,
			Help: "1 for each block device (/sys/block)",
			Fields: []measure.Field{{Name: "device", Type: measure.Word, Help: "name in " +
				"/proc/diskstats"},
				{Name: "kind", Type: measure.Word, Help: "disk; partition; virtual: made of " +
					"other devices, files or memory (dm md loop zram); path: one of several " +
					"paths to a multipath disk (NVMe, dm)"},
				{Name: "parent", Type: measure.Word, Help: "the disk of a partition or path, " +
					"or the devices below a virtual one, separated by commas; else empty"},
				{Name: "rotational", Type: measure.Word, Help: "1: reports that it is a " +
					"spinning disk; 0: reports that it is not; virtual machines often report 1 " +
					"for any disk"},
				{Name: "scheduler", Type: measure.Word, Help: "I/O scheduler; none, or empty " +
					"if the device has none"}},
		},
		diskPartsStat(),
		diskNameStat(),
		{ID: "disk.errors", Kind: measure.Delta, Unit: measure.Events, Help: "failed requests " +
			"(SCSI: /sys/block/*/device/ioerr_cnt; md: md/rd*/errors); no row for devices " +
			"without a counter", Fields: one},
	}, arrayStats()...)
}

// Open opens /proc/diskstats. An error means that nothing can be measured. The caller closes the
// Reading.
func (Disks) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	f, err := proc.OpenProc(env.Root, "diskstats")
	if err != nil {
		return nil, err
	}
	r := &diskReading{
		file:  f,
		root:  env.Root,
		disks: map[uint64]*disk{},
		times: collect.Counters[*disk]{Width32: true},
		describe: want.Stat("disk.info", "disk.parts", "disk.name", "disk.errors",
			"disk.array.missing", "disk.array.sync", "disk.suspended"),
		errors:     want.Stat("disk.errors"),
		directions: []string{"read", "write", "discard", "flush"},
	}
	r.others = blockDevices{root: env.Root, known: r.known, number: r.named}
	return r, nil
}

type diskReading struct {
	file             *proc.File
	root             kernel.Root
	others           blockDevices
	disks            map[uint64]*disk // by device number
	order            []*disk
	round            uint32
	amounts, times   collect.Counters[*disk]
	errs             collect.Counters[*disk]
	describe, errors bool
	directions       []string
	words            collect.WordLabels
	next             int // index of the disk whose description is read next
	nextState        int // index of the device whose state is read next
	buf              []byte
}

// disk is one block device. A device with the same number and another name is another disk.
type disk struct {
	name   string
	number uint64
	round  uint32
	epoch  int
	label  measure.Label
	info   diskInfo
	looked bool // info was read
	state  diskState
	labels [5]measure.Label
}

// diskCounts is one line of /proc/diskstats.
type diskCounts struct {
	number uint64 // major<<32 | minor
	name   []byte // part of the text
	// numbers after the name: 11, 15 since Linux 4.18 (discards), 17 since 5.5 (flushes); 0: fewer
	columns  int
	inflight uint64
	// operations of read write discard flush, merges of read write discard, sectors of read write
	// discard
	amounts [10]uint64
	times   [6]uint64 // milliseconds: wait of read write discard flush, busy, queue
}

// Where the numbers of a line go, in their order (Documentation/admin-guide/iostats.rst): a0..
// amounts, t0.. times, i inflight.
const diskColumns = "a0 a4 a7 t0 a1 a5 a8 t1 i0 t4 t5 a2 a6 a9 t2 a3 t3"

// parseDiskLine parses one line: " 254 0 vda 68939 11028 3277930 14748 ...".
func parseDiskLine(line []byte) (d diskCounts, ok bool) {
	c := proc.Scan(line)
	major, minor := c.Uint(), c.Uint()
	d.name = c.Word()
	if c.Err() != nil || len(d.name) == 0 || major >= 1<<32 || minor >= 1<<32 {
		return d, false
	}
	d.number = major<<32 | minor
	for at := 0; at < len(diskColumns) && c.More(); at += 3 {
		v := c.Uint()
		d.columns++
		switch slot := diskColumns[at+1] - '0'; diskColumns[at] {
		case 'a':
			d.amounts[slot] = v
		case 't':
			d.times[slot] = v & (1<<32 - 1)
		default:
			d.inflight = v
		}
	}
	if d.columns < diskHasQueue { // Linux 2.6 had four for a partition, with other meanings
		d.columns = 0
	}
	return d, c.Err() == nil
}

// Columns, from 1, that have no direction. A line with fewer columns than diskHasQueue is not read.
const diskHasInflight, diskHasBusy, diskHasQueue = 9, 10, 11

// diskNeeds are the columns, from 1, of operations, merges, bytes and wait of read, write, discard
// (4.18) and flush (5.5; 0: none).
var diskNeeds = [4][4]int{{1, 2, 3, 4}, {5, 6, 7, 8}, {12, 13, 14, 15}, {16, 0, 0, 17}}

// put puts a row that comes from a column, if the line has it. Kernels before 4.18 and 5.5 lack
// discards and flushes, but not the other rows.
func (c *diskCounts) put(t *collect.Table, column int, v float64, labels ...measure.Label) {
	switch {
	case c.columns >= column:
		t.Put(v, labels...)
	case column <= diskHasQueue:
		t.Lacks("/proc/diskstats has no column of it on this kernel")
	}
}

func (r *diskReading) Read(out *collect.Out) error {
	b, err := r.file.Read()
	if err != nil {
		return err
	}
	operations, merges := out.Table("disk.operations"), out.Table("disk.merges")
	sizes, wait := out.Table("disk.bytes"), out.Table("disk.wait")
	busy, queue := out.Table("disk.busy"), out.Table("disk.queue")
	inflight := out.Table("disk.inflight")
	words := r.words.Of(out, r.directions)
	r.round++
	r.order = r.order[:0]
	for len(b) > 0 {
		var line []byte
		line, b = procfs.CutLine(b)
		c, ok := parseDiskLine(line)
		if !ok {
			continue
		}
		d := r.disk(&c)
		if d.epoch != out.Epoch || d.round == 0 {
			d.epoch, d.label = out.Epoch, out.Label(d.name)
			d.setLabels(out)
		}
		d.round = r.round
		r.order = append(r.order, d)
		level := float64(c.inflight)
		// below zero: the parts of two CPUs are read at different times; later kernels show 0
		// (part_in_flight)
		if c.inflight >= 1<<31 {
			level = 0
		}
		c.put(inflight, diskHasInflight, level, d.label)
		// A device that the previous reading did not have need not be new: the list is read in
		// pieces, and a device may be missed when another goes meanwhile. So its first interval is
		// left out instead of counted from zero.
		a, ok := r.amounts.Diff(out, d, false, c.amounts[:]...)
		t, _ := r.times.Diff(out, d, false, c.times[:]...)
		if !ok {
			continue
		}
		for i, needs := range diskNeeds {
			c.put(operations, needs[0], a[i], d.label, words[i])
			c.put(wait, needs[3], t[i]*1e6, d.label, words[i])
			if i < 3 {
				c.put(merges, needs[1], a[4+i], d.label, words[i])
				c.put(sizes, needs[2], a[7+i]*512, d.label, words[i])
			}
		}
		c.put(busy, diskHasBusy, t[4]*1e6, d.label)
		c.put(queue, diskHasQueue, t[5]*1e6, d.label)
	}
	r.amounts.Sweep()
	r.times.Sweep()
	if len(r.order) < len(r.disks) {
		for n, d := range r.disks {
			if d.round != r.round {
				d.info.close()
				delete(r.disks, n)
			}
		}
	}
	if r.describe {
		r.putInfo(out)
	}
	return nil
}

// disk returns the device of a line, a new one if its number now has another name.
func (r *diskReading) disk(c *diskCounts) *disk {
	d := r.disks[c.number]
	if d != nil && d.name == string(c.name) {
		return d
	}
	if d != nil {
		d.info.close()
	}
	d = &disk{name: string(c.name), number: c.number}
	r.disks[c.number] = d
	return d
}

// known reports whether /proc/diskstats has a device of that name.
func (r *diskReading) known(name string) bool {
	for _, d := range r.disks {
		if d.name == name {
			return true
		}
	}
	return false
}

// named returns the name of a device by its number; "" if /proc/diskstats does not have it.
func (r *diskReading) named(major, minor uint32) string {
	if d := r.disks[uint64(major)<<32|uint64(minor)]; d != nil {
		return d.name
	}
	return ""
}

func (r *diskReading) putInfo(out *collect.Out) {
	// after all names are known: a loop device comes before the disk of its file
	for _, d := range r.order {
		if !d.looked {
			d.info, d.looked = readDiskInfo(&r.others, d.name, r.errors), true
			d.setLabels(out)
		}
	}
	info, errs, parts := out.Table("disk.info"), out.Table("disk.errors"), out.Table("disk.parts")
	// one at each tenth reading: a scheduler may have changed, or a path been added
	if len(r.order) > 0 && r.round%10 == 0 {
		d := r.order[r.next%len(r.order)]
		r.next++
		d.info.close()
		d.info = readDiskInfo(&r.others, d.name, r.errors)
		d.setLabels(out)
	}
	counted, mapped := false, out.Table("disk.name")
	for _, d := range r.order {
		if d.info.name != "" {
			mapped.Row(1, d.name, d.info.name)
		}
		info.Put(1, d.labels[:]...)
		for _, p := range d.info.parts {
			parts.Row(1, p.device, p.part, p.relation)
		}
		if d.info.guessed {
			info.Note("the kind of each device is guessed from its name: /sys/class/block is " +
				"not readable here")
		}
		if errs == nil || len(d.info.errors) == 0 {
			continue
		}
		counted = true
		var sum uint64
		ok := true
		for _, f := range d.info.errors {
			n, good := r.readCount(f)
			sum += n
			ok = ok && good
		}
		if !ok {
			errs.Put(measure.NaN, d.label)
			errs.Note("the errors of " + d.name + " could not be read")
			continue
		}
		if delta, ok := r.errs.Diff(out, d, false, sum); ok {
			errs.Put(delta[0], d.label)
		}
	}
	r.errs.Sweep()
	r.putStates(out)
	if !counted {
		errs.Note("no disk here counts its errors (SCSI and md disks do, NVMe and virtio disks " +
			"do not)")
	}
}

// readCount reads one number: "0x1f" (SCSI) or "31" (md).
func (r *diskReading) readCount(f *proc.File) (uint64, bool) {
	b, err := f.ReadOneInto(r.buf)
	r.buf = b
	if err != nil {
		return 0, false
	}
	b = bytes.TrimSpace(b)
	var v uint64
	if bytes.HasPrefix(b, []byte("0x")) {
		v, err = proc.ParseHex(b)
	} else {
		v, err = proc.ParseUint(b)
	}
	return v, err == nil
}

func (r *diskReading) Close() {
	r.file.Close()
	for _, d := range r.disks {
		d.info.close()
	}
}
