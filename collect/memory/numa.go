package memory

import (
	"os"
	"strconv"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// NUMA reads what memory is allocated on which node of a machine with several memory controllers:
// /sys/devices/system/node/nodeN/numastat (see Documentation/admin-guide/numastat.rst), and how the
// kernel moves it: /proc/vmstat.
type NUMA struct{}

// Stats returns memory.numa and memory.numa.balancing.
func (NUMA) Stats() []measure.Stat {
	return []measure.Stat{
		{
			ID: "memory.numa.balancing", Kind: measure.Delta, Unit: measure.Events,
			Help: "how the kernel follows where programs use their memory (/proc/vmstat " +
				"numa_hint_faults numa_hint_faults_local numa_pages_migrated)",
			Fields: []measure.Field{{Name: "kind", Type: measure.Word, Help: "faults: samples of " +
				"accesses to memory; local faults: those to memory of the own node; migrated: " +
				"pages moved to another node"}},
		},
		{
			ID: "memory.numa", Kind: measure.Delta, Unit: measure.Bytes,
			Help: "memory that was allocated on a NUMA node " +
				"(/sys/devices/system/node/node*/numastat); kinds do not add up",
			Fields: []measure.Field{
				{Name: "node", Type: measure.Number, Help: "the node that has the memory"},
				{Name: "kind", Type: measure.Word, Help: "local: asked for by a CPU of the node; " +
					"other: by one of another node; hit: as wanted; miss: wanted on another " +
					"node; foreign: wanted here, and allocated on another node; interleave"},
			},
		},
	}
}

// Open lists the nodes and opens their files. An error means that nothing can be measured. The
// caller closes the Reading.
func (NUMA) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &numaReading{page: float64(os.Getpagesize()),
		names: procfs.NameValues{Slots: map[string]int{}}}
	for _, line := range numaKinds() {
		r.names.Slots[line[0]] = len(r.kinds)
		r.kinds = append(r.kinds, line[1])
	}
	r.text, r.seen = make([]uint64, len(r.kinds)), make([]bool, len(r.kinds))
	if want.Stat("memory.numa.balancing") {
		r.vmstat, _ = proc.OpenProc(env.Root, "vmstat") // nil: it is not counted
	}
	const noNodes = "this kernel has no NUMA nodes: built without CONFIG_NUMA"
	b, err := proc.ReadSys(env.Root, "devices/system/node/online", nil)
	if err != nil {
		return nil, collect.Unsupported(noNodes)
	}
	nodes, ok := procfs.ParseCPUList(nil, b)
	if !ok {
		return nil, collect.Unsupported(noNodes)
	}
	for _, node := range nodes {
		f, err := proc.OpenSys(env.Root, "devices/system/node/node"+strconv.Itoa(node)+"/numastat")
		if err != nil {
			r.Close()
			return nil, err
		}
		r.nodes = append(r.nodes, numaNode{node, f})
	}
	return r, nil
}

type numaReading struct {
	page    float64
	nodes   []numaNode
	names   procfs.NameValues
	kinds   []string // by index of names
	text    []uint64
	seen    []bool
	numbers collect.NumberLabels
	last    collect.Counters[numaKey]
	vmstat  *proc.File // nil: nobody asks
}

type numaNode struct {
	node int
	file *proc.File
}

type numaKey struct {
	node int
	kind string
}

func (r *numaReading) Read(out *collect.Out) error {
	r.readBalancing(out)
	t := out.Table("memory.numa")
	for _, n := range r.nodes {
		b, err := n.file.ReadOne()
		if err != nil {
			t.Note("read " + n.file.Path() + ": " + err.Error())
			continue
		}
		r.names.Parse(b, r.text, r.seen)
		for i, kind := range r.kinds {
			if !r.seen[i] || isBalancing(kind) {
				continue
			}
			if d, ok := r.last.Diff(out, numaKey{n.node, kind}, false, r.text[i]); ok {
				t.Put(d[0]*r.page, r.numbers.Of(out, n.node), out.Label(kind))
			}
		}
	}
	r.last.Sweep()
	return nil
}

// readBalancing reads what the kernel's balancing does.
func (r *numaReading) readBalancing(out *collect.Out) {
	t := out.Table("memory.numa.balancing")
	if t == nil {
		return
	}
	clear(r.seen)
	if r.vmstat != nil {
		if b, err := r.vmstat.Read(); err == nil {
			r.names.Parse(b, r.text, r.seen)
		}
	}
	there := false
	for i, kind := range r.kinds {
		if !r.seen[i] || !isBalancing(kind) {
			continue
		}
		there = true
		if d, ok := r.last.Diff(out, numaKey{-1, kind}, false, r.text[i]); ok {
			t.Put(d[0], out.Label(kind))
		}
	}
	if !there {
		t.Unmeasured("this kernel does not balance memory between nodes: built without " +
			"CONFIG_NUMA_BALANCING")
	}
	clear(r.seen)
}

func isBalancing(kind string) bool {
	return kind == "faults" || kind == "local faults" || kind == "migrated"
}

// numaKinds are the names of numastat and vmstat, with their kinds.
func numaKinds() [][2]string {
	return [][2]string{{"local_node", "local"}, {"other_node", "other"}, {"numa_hit", "hit"},
		{"numa_miss", "miss"}, {"numa_foreign", "foreign"}, {"interleave_hit", "interleave"},
		{"numa_hint_faults", "faults"}, {"numa_hint_faults_local", "local faults"},
		{"numa_pages_migrated", "migrated"}}
}

func (r *numaReading) Close() {
	for _, n := range r.nodes {
		n.file.Close()
	}
	r.vmstat.Close()
}
