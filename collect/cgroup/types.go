package cgroup

import (
	"time"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
)

// cgroupTree is one hierarchy.
type cgroupTree struct {
	dir        string
	v2         bool
	controller string // version 1: its line in /proc/cgroups
	files      []cgroupFile
	layouts    []procfs.NameValues // of each file
	memory     int                 // index of the file with the memory in use
	root       *cgroupNode
	top        cgroupTop
	order      []*cgroupNode // parents before children
	seen       bool          // a file of it could be read
	cgroupWalk
}

// cgroupWalk decides when the directories of a tree are walked again.
type cgroupWalk struct {
	count    uint64     // the kernel's number of groups at the last walk
	counter  *proc.File // version 2: cgroup.stat of the top
	dirty    bool       // a group has gone
	late     bool       // a walk was due at the previous reading and deferred
	walked   time.Time
	cost     time.Duration // of the last walk
	readings int           // since the last walk
	tooMany  bool
}

// cgroupNode is a group in one hierarchy.
type cgroupNode struct {
	dir      string
	name     *cgroupName
	parent   *cgroupNode // nil: the top
	children []*cgroupNode
	links    int64 // link count of the directory when it was read; -1: not yet
	born     int   // the reading in which it began; 0: earlier, or not known
	gone     bool
	turn     int // distributes periodic reads over the groups
	cgroupOpen
	cgroupNumbers
}

// cgroupOpen has the files of a group, by index in the tree's files.
type cgroupOpen struct {
	open   []*proc.File
	absent uint32 // missing files, one bit each
	same   uint32 // files that are known to be unchanged in this reading
	states []cgroupState
}

// cgroupNumbers is what the files contained.
type cgroupNumbers struct {
	share   float64               // of usr in its latest CPU time
	levels  [cgroupLevels]float64 // as last read; NaN: none
	limited bool                  // it has a quota file
	// version 1: least limit of the group and all above it, visible or not; NaN: none
	outer   float64
	devices []cgroupDevice
	served  []cgroupDevice // version 1: operations, which are in a file of their own
	// limits of reads and writes by device, in bytes, then in operations, as last read
	ioLimits [4][]ioLimit
}

// ioLimit is the greatest rate at a device, in bytes or operations per second.
type ioLimit struct {
	number uint64
	text   string // "254:0"
	rate   float64
}

// cgroupState has the counters of a file when it was last read or known to be unchanged.
type cgroupState struct {
	round int // 0: never
	last  [5]uint64
}

// cgroupDevice is a group's I/O at a device that it has used: bytes read, written, discarded,
// then the operations of each.
type cgroupDevice struct {
	number uint64
	round  int
	last   ioCounts
}

// cgroupName is a path that groups of several hierarchies may share.
type cgroupName struct {
	path  string
	epoch int
	label measure.Label
	round int    // the reading of done
	done  uint32 // statistics that this reading has put, one bit each

	pulse  int // the latest reading that knows whether it used CPU
	active int // the latest reading in which it used CPU
}

// quiet reports that the group used no CPU in this interval and the previous one.
func (n *cgroupName) quiet(round int) bool { return n.pulse == round && round-n.active >= 2 }

type cgroupReading struct {
	root    kernel.Root
	trees   []*cgroupTree
	numbers *proc.File // /proc/cgroups
	counts  []byte     // its text in this reading; nil: not yet read; empty: unreadable
	devices map[uint64]string
	opened  int // open files
	limit   int // of open files
	nodes   int // how many were made so far
	round   int
	cgroupNames
	cgroupAbilities
	cgroupParser
}

type cgroupNames struct {
	names      map[string]*cgroupName
	namesLimit int // above it, names of groups that are gone are dropped
	words      collect.WordLabels
	wordsList  []string
}

// cgroupAbilities is what this kernel shows of groups.
type cgroupAbilities struct {
	keysSeen, keysMissed uint32 // cgroupKeys that some group's file has, and lacks
	ioThere              bool   // some group has an I/O file
	sawV2                bool   // a hierarchy of version 2 is visible
	sawPids              bool   // a hierarchy that may limit processes is visible
}

// cgroupParser parses the files of a group, one after the other.
type cgroupParser struct {
	buf    []byte
	memory int                // of the current tree: index of the file with the memory in use
	slots  map[string]int     // index in values of a name in a file
	layout *procfs.NameValues // of the current file
	values [cgroupValues]uint64
	seen   [cgroupValues]bool
	held   uint64 // value of the previous file for the next one
	heldOK bool
	growth float64
	delta  [5]float64
}
