package cgroup

import (
	"errors"
	"io/fs"
	"math"
	"path"
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
)

// Cgroups reads the use and the limits of control groups, version 1 and 2 side by side. It walks
// each mounted hierarchy. The name of a group is its path in the hierarchy, "/" for the top. If
// several hierarchies have the same path, a statistic comes from the first one that has it, version
// 1 first.
//
// The kernel includes a group's children in its counters, so the rows of a parent and its child
// overlap and do not add up.
//
// Thousands of mostly idle groups must stay cheap:
//
//   - Files stay open, as far as descriptors allow.
//   - The tree is walked only when the kernel's number of groups has changed, and a directory is
//     read only if its link count has changed.
//   - If a parent's counter includes its children's and did not grow, theirs did not grow either
//     and are not read.
//   - A group that used no CPU in this interval and the previous one is quiet. Its memory and its
//     number of threads are read only each eighth time, so they may be some readings old.
//   - Limits are read each sixteenth time.
type Cgroups struct{}

// Open finds the mounted hierarchies. An error means that nothing can be measured. The caller
// closes the Reading.
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
			h := &cgroupTree{
				dir:        m.Path,
				v2:         pass == 1,
				controller: controllers,
				files:      files,
				layouts:    make([]procfs.NameValues, len(files)),
			}
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
		return nil, collect.Unsupported("no control groups with these counters are mounted " +
			"here (`ip netns exec` hides them: run outside with --netns NAME)")
	}
	if f, err := proc.OpenProc(env.Root, "cgroups"); err == nil {
		r.numbers = f
	}
	return r, nil
}

// cgroupFiles returns the wanted files of a hierarchy, and the file that shows whether a group used
// CPU. A hierarchy is of version 2, or of version 1 with the controllers in the mount's options
// ("rw,cpu,cpuacct"). controller is the name of a version 1 hierarchy in /proc/cgroups, which has
// its number of groups.
func cgroupFiles(
	options string, v2 bool, want collect.Want,
) (files []cgroupFile, controller string) {
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

// Indices of cgroupNode.levels.
const (
	clCurrent = iota
	clLimit
	clHigh
	clAnon
	clFile
	clKernel
	clQuota
	clShares
	clWeight
	clPids
	clPidsLimit
	cgroupLevels
)

const (
	mostCgroups = 20_000 // in one hierarchy; more groups are not read
	// kept open; more are opened at each reading, which takes 3 us instead of 1
	mostCgroupFiles = 8192
	// readings after which the tree is walked even without a sign of change
	cgroupRewalk = 30
)

// node adds a group to the tree.
func (r *cgroupReading) node(
	parent *cgroupNode, dir string, name *cgroupName, born int,
) *cgroupNode {
	r.nodes++
	n := &cgroupNode{
		dir:    dir,
		name:   name,
		links:  -1,
		parent: parent,
		born:   born,
		turn:   r.nodes,
	}
	n.share = 1
	for i := range n.levels {
		n.levels[i] = measure.NaN
	}
	n.outer = measure.NaN
	return n
}

func newCgroupReading(root kernel.Root) *cgroupReading {
	r := &cgroupReading{
		root:        root,
		cgroupNames: cgroupNames{names: map[string]*cgroupName{}, namesLimit: 1024},
		devices:     map[uint64]string{},
		limit:       min(mostCgroupFiles, openFilesLimit()/2),
	}
	r.slots = map[string]int{
		"user_usec":                 cvUser,
		"user":                      cvUser,
		"system_usec":               cvSystem,
		"system":                    cvSystem,
		"nr_periods":                cvPeriods,
		"nr_throttled":              cvThrottled,
		"throttled_usec":            cvThrottledMicro,
		"throttled_time":            cvThrottledNano,
		"high":                      cvHigh,
		"max":                       cvMax,
		"oom":                       cvOOM,
		"oom_kill":                  cvOOMKill,
		"anon":                      cvAnon,
		"total_rss":                 cvAnon,
		"file":                      cvFile,
		"total_cache":               cvFile,
		"kernel":                    cvKernel,
		"hierarchical_memory_limit": cvOuter,
	}
	r.wordsList = []string{
		"usr",
		"sys",
		"total",
		"throttled",
		"current",
		"limit",
		"anon",
		"file",
		"kernel",
		"high",
		"max",
		"oom",
		"oom_kill",
		"read",
		"write",
		"discard",
		"some",
		"full",
		"cpu",
		"memory",
		"io",
		"irq",
		"cpu.shares",
		"cpu.weight",
	}
	return r
}

// Indices of values.
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

// Indices of wordsList.
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
	cgShares
	cgWeight
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
			out.NoteAll("too many control groups: some are not read")
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
	r.noteMissingKeys(out)
	return nil
}

// readGroup reads the files of a group that may have changed. It tries missing files again after
// each walk, as a controller may have been enabled.
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
			r.keepUnchanged(n, f)
			continue
		}
		b, err := r.readFile(n, i, f, len(t.files))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				if n.open != nil && n.open[i] != nil { // it existed before
					n.gone, t.dirty = true, true
					r.drop(n)
					return
				}
				n.absent |= 1 << i
				// with PSI off, pressure files exist but reading fails
			} else if !errors.Is(err, measure.ErrUnsupported) {
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
	r.putIOLimits(out, n, mine)
}

// needed reports whether a file must be read. The file was read at the previous reading, or is
// known to be unchanged since.
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

// keepUnchanged records that a file was not read because it is unchanged.
func (r *cgroupReading) keepUnchanged(n *cgroupNode, f *cgroupFile) {
	switch {
	case f.pulse:
		n.name.pulse = r.round
	case f.bit&gotIO != 0:
		for k := range n.devices {
			n.devices[k].round = r.round
		}
	case f.bit == gotServed:
		for k := range n.served {
			n.served[k].round = r.round
		}
	}
}

// putLevels puts the levels of a group from the files in got and those that are unchanged.
func (r *cgroupReading) putLevels(out *collect.Out, n *cgroupNode, got uint32) {
	memory := out.Table("cgroup.memory")
	for k, l := range [...]struct {
		bit   uint32
		table *collect.Table
		word  int // index in words; -1: none
	}{
		clCurrent: {gotCurrent, memory, cgCurrent},
		clLimit:   {gotLimit, memory, cgLimit},
		clHigh:    {gotHigh, memory, cgHigh},
		clAnon:    {gotKinds, memory, cgAnon},
		clFile:    {gotKinds, memory, cgFile},
		clKernel:  {gotKernel, memory, cgKernel},
		clQuota:   {gotQuota, out.Table("cgroup.quota"), -1},
		clShares:  {gotWeight, out.Table("cgroup.weight"), cgShares},
		clWeight:  {gotWeight, out.Table("cgroup.weight"), cgWeight},
		clPids:    {gotPids, out.Table("cgroup.pids"), -1},

		clPidsLimit: {gotPidsLimit, out.Table("cgroup.pids.limit"), -1},
	} {
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

// deviceName returns the name of a block device by its number.
func (r *cgroupReading) deviceName(text []byte, number uint64) string {
	name, ok := r.devices[number]
	if !ok {
		name = string(text) // "254:0" if sysfs does not have it
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
