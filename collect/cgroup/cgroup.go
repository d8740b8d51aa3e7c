package cgroup

import (
	"errors"
	"io/fs"
	"math"
	"path"
	"strings"
	"time"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
)

// Cgroups reads what control groups use and are limited to, of version 1 and 2 side by side: each hierarchy that is mounted is
// walked, and a group is called by its path in it, "/" for the top. Where the same path is in several hierarchies, a statistic
// comes from the first that has it, version 1 before version 2.
//
// The kernel counts a group's children as its own, so rows of a parent and its child overlap and don't add up.
//
// With thousands of groups, of which few do anything, it stays cheap. Files stay open, as far as descriptors allow. The tree is
// walked only when the kernel's number of groups has changed, and then a directory is read only if its link count has. Where a
// parent's counter includes its children's and stood still, theirs did too and are not read. A group that used no CPU in this
// interval and the one before is quiet: its memory and number of threads are read each eighth time only, so they may be some
// readings old (others can take memory from it meanwhile); limits are read each sixteenth time of any group.
type Cgroups struct{}

// Stats lists what is counted of each group.
func (Cgroups) Stats() []measure.Stat {
	fields := func(names ...string) []measure.Field {
		help := map[string]string{"cgroup": "path in its hierarchy", "mode": "usr sys", "direction": "read write discard", "device": "name of the block device",
			"kind": "", "event": "high max oom oom_kill; max in version 1: failcnt", "resource": "cpu memory io irq", "scope": "some full"}
		var f []measure.Field
		for _, n := range names {
			f = append(f, measure.Field{Name: n, Type: measure.Word, Help: help[n]})
		}
		return f
	}
	kinds := func(text string) []measure.Field {
		f := fields("cgroup", "kind")
		f[1].Help = text
		return f
	}
	return []measure.Stat{
		{ID: "cgroup.cpu", Kind: measure.Delta, Unit: measure.Nanoseconds, Sparse: true, Help: "CPU time of a group and those within it (cpu.stat, cpuacct.usage)", Fields: fields("cgroup", "mode")},
		{ID: "cgroup.periods", Kind: measure.Delta, Unit: measure.Events, Sparse: true, Help: "periods of the CPU quota in which a group ran, and in which it was throttled (cpu.stat)",
			Fields: kinds("total; throttled: those of them in which it used up its quota")},
		{ID: "cgroup.throttled", Kind: measure.Delta, Unit: measure.Nanoseconds, Sparse: true, Help: "time that a group's run queues were held back by its CPU quota, summed over CPUs (cpu.stat)", Fields: fields("cgroup")},
		{ID: "cgroup.quota", Kind: measure.Level, Unit: measure.Count, Fold: measure.Max, Help: "CPUs that a group may use at most; no row where it has no quota (cpu.max, cpu.cfs_quota_us)", Fields: fields("cgroup")},
		{ID: "cgroup.memory", Kind: measure.Level, Unit: measure.Bytes, Help: "memory of a group and those within it; kinds overlap (memory.current, memory.stat)",
			Fields: kinds("current; limit, and high, above which a group is slowed: no row where there is none; anon file kernel")},
		{ID: "cgroup.memory.events", Kind: measure.Delta, Unit: measure.Events, Sparse: true, Help: "times that a group came to a limit of memory (memory.events; memory.failcnt)", Fields: fields("cgroup", "event")},
		{ID: "cgroup.io", Kind: measure.Delta, Unit: measure.Bytes, Sparse: true, Help: "bytes of a group's block I/O (io.stat, blkio.throttle.io_service_bytes)", Fields: fields("cgroup", "device", "direction")},
		{ID: "cgroup.pids", Kind: measure.Level, Unit: measure.Count, Help: "processes and threads in a group (pids.current)", Fields: fields("cgroup")},
		cgroupTopStat(),
		{ID: "cgroup.pressure.time", Kind: measure.Delta, Unit: measure.Nanoseconds, Fold: measure.Max, Sparse: true, Help: "time in which a group's threads were held up for want of a resource (cpu.pressure ...; version 2)", Fields: fields("cgroup", "resource", "scope")},
	}
}

// Open finds the hierarchies that are mounted.
func (Cgroups) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	b, err := proc.ReadProc(env.Root, "self/mountinfo", nil)
	if err != nil {
		return nil, err
	}
	r := newCgroupReading(env.Root)
	seen := map[string]bool{}
	for pass, typ := range []string{"cgroup", "cgroup2"} { // version 1 first
		for _, m := range procfs.ParseMounts(b) {
			if m.Type != typ || seen[m.Number] {
				continue
			}
			files, controllers := cgroupFiles(m.Options, pass == 1, want)
			if len(files) == 0 {
				continue
			}
			seen[m.Number] = true
			h := &cgroupTree{dir: m.Path, v2: pass == 1, controller: controllers, files: files, layouts: make([]procfs.NameValues, len(files))}
			for i := range h.layouts {
				h.layouts[i].Slots = r.slots
				if files[i].bit == gotCurrent {
					h.memory = i
				}
			}
			h.root = r.node(nil, m.Path, r.name("/"), 0)
			h.top = topOf(env.Root, &m, h)
			r.trees = append(r.trees, h)
		}
	}
	if len(r.trees) == 0 {
		return nil, collect.Unsupported("no control groups that count this are mounted here (`ip netns exec` hides them: look from outside with --netns NAME)")
	}
	if f, err := proc.OpenProc(env.Root, "cgroups"); err == nil {
		r.numbers = f
	}
	return r, nil
}

// cgroupFiles gives the files worth reading, with that which tells whether a group used CPU in a hierarchy: of version 1 with the controllers in the mount's options ("rw,cpu,cpuacct"), or
// of version 2. controller is the name under which /proc/cgroups tells how many groups a version 1 hierarchy has.
func cgroupFiles(options string, v2 bool, want collect.Want) (files []cgroupFile, controller string) {
	for _, f := range allCgroupFiles() {
		if f.v2 != v2 || !f.pulse && !want.Stat(f.stats...) {
			continue
		}
		if !v2 {
			if !strings.Contains(","+options+",", ","+f.controller+",") {
				continue
			}
			controller = f.controller
		}
		files = append(files, f)
	}
	return files, controller
}

// cgroupTree is one hierarchy.
type cgroupTree struct {
	dir        string
	v2         bool
	controller string // version 1: for /proc/cgroups
	files      []cgroupFile
	layouts    []procfs.NameValues // of each file
	memory     int                 // place of the file that says how much memory is used
	root       *cgroupNode
	top        cgroupTop
	order      []*cgroupNode // parents before children
	count      uint64        // of groups, as the kernel said when the tree was walked
	counter    *proc.File    // version 2: cgroup.stat of the top
	dirty      bool          // a group was gone
	late       bool          // a walk was due at the reading before and put off
	walked     time.Time
	cost       time.Duration // of that walk
	readings   int           // since that walk
	tooMany    bool
	seen       bool // a file of it could be read
}

// cgroupNode is a group in one hierarchy.
type cgroupNode struct {
	dir      string
	name     *cgroupName
	children []*cgroupNode
	links    int64 // link count of the directory when it was read; -1 not yet
	open     []*proc.File
	parent   *cgroupNode // nil: the top
	absent   uint32      // files that are not there, by place in the tree's files
	same     uint32      // files known to be as at the reading before, in this one
	born     int         // the reading in which it began; 0 before the reading that found it, or not known
	gone     bool
	share    float64 // of usr in its CPU time, when last there was any
	turn     int     // spreads what is read now and then over the groups
	states   []cgroupState
	levels   [cgroupLevels]float64 // as last read; NaN: none
	limited  bool                  // it has a file of its quota
	outer    float64               // version 1: least limit of the group and those that it is in, seen or not; NaN: none
	devices  []cgroupDevice
}

// cgroupState is what a file of counters said when it was last read, or known to say the same.
type cgroupState struct {
	round int // 0 never
	last  [5]uint64
}

// cgroupDevice is a group's I/O at a device that it ever used: bytes read, written, discarded.
type cgroupDevice struct {
	number uint64
	round  int
	last   [3]uint64
}

// Places in cgroupNode.levels.
const (
	clCurrent = iota
	clLimit
	clHigh
	clAnon
	clFile
	clKernel
	clQuota
	clPids
	cgroupLevels
)

// cgroupName is the path that groups of several hierarchies have in common.
type cgroupName struct {
	path  string
	epoch int
	label measure.Label
	round int    // of done
	done  uint32 // statistics that have been put in this reading, by bit

	pulse  int // the latest reading that knew whether it used CPU
	active int // the latest reading in which it had
}

// quiet says whether the group is known to have used no CPU in this interval and the one before.
func (n *cgroupName) quiet(round int) bool { return n.pulse == round && round-n.active >= 2 }

const (
	mostCgroups     = 20_000 // in one hierarchy; a machine with more is ill
	mostCgroupFiles = 8192   // kept open; further ones are opened at each reading, at 3 microseconds in place of 1
	cgroupRewalk    = 30     // readings after which the tree is walked even if nothing seems to have changed
)

type cgroupReading struct {
	root       kernel.Root
	trees      []*cgroupTree
	numbers    *proc.File // /proc/cgroups
	counts     []byte     // its text at this reading; nil not read yet, empty unreadable
	names      map[string]*cgroupName
	namesLimit int // above it, names of groups that are gone are dropped
	devices    map[uint64]string
	opened     int
	nodes      int // ever made
	memory     int // of the tree at hand: place of the file that says how much memory is used
	limit      int
	round      int
	buf        []byte

	keysSeen, keysMissed uint32 // cgroupKeys that a group's file has, and has not
	ioThere              bool   // a group has a file of its I/O
	sawV2                bool   // a hierarchy of version 2 is in sight

	slots     map[string]int     // where names in files go in values
	layout    *procfs.NameValues // of the file at hand
	values    [cgroupValues]uint64
	seen      [cgroupValues]bool
	held      uint64 // what the file before gave to the next
	heldOK    bool
	growth    float64
	delta     [5]float64
	words     collect.WordLabels
	wordsList []string
}

// node makes a group of the tree, of which nothing is known yet.
func (r *cgroupReading) node(parent *cgroupNode, dir string, name *cgroupName, born int) *cgroupNode {
	r.nodes++
	n := &cgroupNode{dir: dir, name: name, links: -1, parent: parent, born: born, turn: r.nodes, share: 1}
	for i := range n.levels {
		n.levels[i] = measure.NaN
	}
	n.outer = measure.NaN
	return n
}

func newCgroupReading(root kernel.Root) *cgroupReading {
	r := &cgroupReading{root: root, names: map[string]*cgroupName{}, namesLimit: 1024, devices: map[uint64]string{}, limit: min(mostCgroupFiles, openFilesLimit()/2)}
	r.slots = map[string]int{"user_usec": cvUser, "user": cvUser, "system_usec": cvSystem, "system": cvSystem, "nr_periods": cvPeriods, "nr_throttled": cvThrottled,
		"throttled_usec": cvThrottledMicro, "throttled_time": cvThrottledNano, "high": cvHigh, "max": cvMax, "oom": cvOOM, "oom_kill": cvOOMKill,
		"anon": cvAnon, "total_rss": cvAnon, "file": cvFile, "total_cache": cvFile, "kernel": cvKernel,
		"hierarchical_memory_limit": cvOuter}
	r.wordsList = []string{"usr", "sys", "total", "throttled", "current", "limit", "anon", "file", "kernel", "high", "max", "oom", "oom_kill",
		"read", "write", "discard", "some", "full", "cpu", "memory", "io", "irq"}
	return r
}

// Places in values.
const (
	cvUser = iota
	cvSystem
	cvPeriods
	cvThrottled
	cvThrottledMicro
	cvThrottledNano
	cvHigh
	cvMax
	cvOOM
	cvOOMKill
	cvAnon
	cvFile
	cvKernel
	cvOuter
	cgroupValues
)

// Places in wordsList.
const (
	cgUsr = iota
	cgSys
	cgTotal
	cgThrottled
	cgCurrent
	cgLimit
	cgAnon
	cgFile
	cgKernel
	cgHigh
	cgMax
	cgOOM
	cgOOMKill
	cgRead
	cgWrite
	cgDiscard
	cgSome
	cgFull
	cgCPU
	cgMemory
	cgIO
	cgIrq
)

func (r *cgroupReading) Read(out *collect.Out) error {
	r.round++
	r.counts = nil
	r.words.Of(out, r.wordsList)
	for _, t := range r.trees {
		if r.due(t) {
			r.walk(t)
		}
		if t.tooMany {
			out.NoteAll("more control groups than are looked at")
		}
		r.memory = t.memory
		t.top.put(out)
		for _, n := range t.order {
			if n.gone {
				continue
			}
			if n.name.epoch != out.Epoch {
				n.name.epoch, n.name.label = out.Epoch, out.Label(n.name.path)
			}
			if n.name.round != r.round {
				n.name.round, n.name.done = r.round, 0
			}
			r.readGroup(out, t, n)
		}
		t.readings++
	}
	if len(r.names) > r.namesLimit {
		for path, n := range r.names {
			if n.round < r.round {
				delete(r.names, path)
			}
		}
		r.namesLimit = 1024 + 2*len(r.names)
	}
	r.tellKeys(out)
	return nil
}

// readGroup reads those files of one group that may have changed. A file that is not there is looked for again at each walk: a controller
// may be switched on later.
func (r *cgroupReading) readGroup(out *collect.Out, t *cgroupTree, n *cgroupNode) {
	if n.states == nil {
		n.states = make([]cgroupState, len(t.files))
	}
	r.heldOK, n.same = false, 0
	before := n.name.done
	var mine uint32
	for i := range t.files {
		f := &t.files[i]
		if n.absent&(1<<i) != 0 || f.bit != 0 && before&f.bit == f.bit {
			continue
		}
		if s := &n.states[i]; s.round == r.round-1 && s.round > 0 && !r.needed(n, f, i) {
			s.round = r.round
			n.same |= 1 << i
			mine |= f.bit
			r.stands(n, f)
			continue
		}
		b, err := r.readFile(n, i, f, len(t.files))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				if n.open != nil && n.open[i] != nil { // it was there
					n.gone, t.dirty = true, true
					r.drop(n)
					return
				}
				n.absent |= 1 << i
			} else if !errors.Is(err, measure.ErrUnsupported) { // pressure files are there and say so when PSI is off
				for _, id := range f.stats {
					out.Table(id).Note("read " + n.dir + "/" + f.name + ": " + err.Error())
				}
			}
			continue
		}
		t.seen = true
		r.layout = &t.layouts[i]
		had, changed := f.read(r, out, n, i, b)
		n.states[i].round = r.round
		if had {
			mine |= f.bit
		}
		if !changed {
			n.same |= 1 << i
		}
		if f.pulse {
			n.name.pulse = r.round
			if changed {
				n.name.active = r.round
			}
		}
	}
	n.name.done |= mine
	r.putLevels(out, n, mine)
}

// needed says whether a file must be read, given that it was at the reading before or is known not to have changed since.
func (r *cgroupReading) needed(n *cgroupNode, f *cgroupFile, i int) bool {
	turn := r.round + n.turn
	switch f.when {
	case whenParent:
		return n.parent == nil || n.parent.same&(1<<i) == 0
	case whenBefore:
		return n.same&(1<<(i-1)) == 0
	case whenActive:
		return !n.name.quiet(r.round) || turn%8 == 0
	case whenMemory:
		return n.same&(1<<r.memory) == 0 || turn%8 == 0
	default:
		return turn%16 == 0
	}
}

// stands takes note of a file that was not read because it says the same.
func (r *cgroupReading) stands(n *cgroupNode, f *cgroupFile) {
	switch {
	case f.pulse:
		n.name.pulse = r.round
	case f.bit == gotIO:
		for k := range n.devices {
			n.devices[k].round = r.round
		}
	}
}

// putLevels puts the states of a group, of those files which gave any now or stand.
func (r *cgroupReading) putLevels(out *collect.Out, n *cgroupNode, got uint32) {
	memory := out.Table("cgroup.memory")
	for k, l := range [...]struct {
		bit   uint32
		table *collect.Table
		word  int // in the words; -1 none
	}{clCurrent: {gotCurrent, memory, cgCurrent}, clLimit: {gotLimit, memory, cgLimit}, clHigh: {gotHigh, memory, cgHigh}, clAnon: {gotKinds, memory, cgAnon}, clFile: {gotKinds, memory, cgFile},
		clKernel: {gotKernel, memory, cgKernel}, clQuota: {gotQuota, out.Table("cgroup.quota"), -1}, clPids: {gotPids, out.Table("cgroup.pids"), -1}} {
		v := n.levels[k]
		if k == clLimit && n.parent == nil {
			v = n.topLimit()
		}
		if got&l.bit == 0 || l.table == nil || math.IsNaN(v) {
			continue
		}
		if l.word < 0 {
			l.table.Put(v, n.name.label)
		} else {
			l.table.Put(v, n.name.label, r.word(l.word))
		}
	}
}

func (r *cgroupReading) readFile(n *cgroupNode, i int, f *cgroupFile, files int) ([]byte, error) {
	var err error
	if n.open != nil && n.open[i] != nil {
		r.buf, err = n.open[i].ReadOneInto(r.buf)
		return r.buf, err
	}
	if r.opened >= r.limit {
		r.buf, err = proc.ReadFile(n.dir+"/"+f.name, r.buf)
		return r.buf, err
	}
	file, err := proc.Open(n.dir + "/" + f.name)
	if err != nil {
		return nil, err
	}
	if n.open == nil {
		n.open = make([]*proc.File, files)
	}
	n.open[i] = file
	r.opened++
	r.buf, err = file.ReadOneInto(r.buf)
	return r.buf, err
}

func (r *cgroupReading) drop(n *cgroupNode) {
	for i, f := range n.open {
		if f != nil {
			f.Close()
			n.open[i] = nil
			r.opened--
		}
	}
}

func (r *cgroupReading) Close() {
	for _, t := range r.trees {
		for _, n := range t.order {
			r.drop(n)
		}
		t.counter.Close()
	}
	r.numbers.Close()
}

func (r *cgroupReading) name(path string) *cgroupName {
	n := r.names[path]
	if n == nil {
		n = &cgroupName{path: path, epoch: -1}
		r.names[path] = n
	}
	return n
}

// deviceName gives the name of a block device by its number.
func (r *cgroupReading) deviceName(text []byte, number uint64) string {
	name, ok := r.devices[number]
	if !ok {
		name = string(text) // "254:0" where sysfs does not know it
		if target, err := readLink(r.root.InSys("dev/block/" + name)); err == nil {
			name = strings.ReplaceAll(path.Base(target), "!", "/")
		}
		if len(r.devices) > 4096 {
			clear(r.devices)
		}
		r.devices[number] = name
	}
	return name
}
