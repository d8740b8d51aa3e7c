package symbol

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"culprit/kernel"
)

// Processes resolves addresses of processes. The symbols of a file are cached for all processes
// that map it, under any name. Files with the same build id share nothing, since the author of a
// file chooses it. Safe for concurrent use.
type Processes struct {
	root kernel.Root

	mu      sync.Mutex
	procs   map[int]*process
	objects map[fileKey]*object // nil: cannot be read
	used    map[*object]uint64  // when each was used last
	vdso    *object
	held    map[fileKey]*os.File // open until their symbols are read
	tick    uint64
	reads   uint64 // of maps
	bytes   int
	code    int // bytes of the functions of all Code
	limits  limits
	// when unused processes were dropped last
	swept time.Time
	// processes that came since their bytes were added up
	uncounted int
	texts     map[string]string // paths of mappings, each once
	lean      *learntByUser     // by address in the file; nil: symbols are cached
	// asks makes Stack and Place learn the names that they need: files are read by another process
	asks bool
	// files for Resolve; nil: symbols are not deferred
	later map[*object]*laterFile
	// addresses whose inlined functions are not known yet; nil: Inlining was not called
	wished  map[learnKey]*inlineWish
	waiting int                             // addresses in wished
	found   map[*object]map[uint64][]string // what FindInlined has found

	frames    frameNames
	inlinings uint64 // see Inlinings
	files     *Files
	history   *History          // what processes mapped, nil: UseHistory was not called
	talk      *conversation     // of the call that has the lock; nil: it asks no other process
	away      atomic.Int64      // ns of CPU time of others, see TakeAway; without the lock too
	failed    map[string]string // why names of a file are missing, by its path
	inside    bool              // pids are those of a PID namespace
	outside   bool              // a process outside of it was looked up
	denied    map[int]bool
	gone      map[int]bool
	hung      map[int]bool // see hangs
}

// A process is what is known of one process. It stays after the process has ended.
type process struct {
	pid     int
	start   uint64 // when it began; another process with its pid began later
	maps    []Mapping
	keys    map[int]fileKey // of the files of mappings, by index
	exe     string          // see exeOf
	inside  int             // pid in its own namespace; see insideOf
	user    uint32          // see userOf
	known   bool            // user is known
	cut     bool            // it has more mappings than are kept
	read    time.Time
	reading uint64 // number of the reading of its maps, over all processes
	checked time.Time
	used    uint64

	jit    jitMap
	frames frameCheck

	version uint64 // of what the history has of it; 0: nothing
	// executed is how many layouts the history has of it.
	executed int
	watched  bool       // Follow or the history reports its mappings
	former   []*process // former mappings of a watched one, oldest first
}

const (
	// maxMapsAge is how old the maps of a process must be before an unknown address has them read
	// again.
	maxMapsAge = time.Second
)

// NewProcesses returns a Processes that has read nothing yet. The caller closes it.
func NewProcesses(root kernel.Root) *Processes { return NewProcessesOf(root, nil) }

// NewProcessesOf is NewProcesses with what reads the files of processes; nil: this process does.
func NewProcessesOf(root kernel.Root, files *Files) *Processes {
	ps := &Processes{root: root, limits: usualLimits, procs: map[int]*process{},
		objects: map[fileKey]*object{}, used: map[*object]uint64{}, files: files,
		denied: map[int]bool{}, gone: map[int]bool{}, failed: map[string]string{}}
	if files == nil {
		ps.files = ownFiles()
	}
	if ps.files.apart {
		ps.lean, ps.asks = newLearntByUser(usualAddresses), true
		ps.later = map[*object]*laterFile{}
	}
	return ps
}

// read answers a request for a file. The Answer is never nil. It releases the lock meanwhile, so
// that the caller must not rely on what the lock guards.
func (ps *Processes) read(payer uint32, q *Request) (a *Answer, err error) {
	if !ps.files.apart {
		return ps.files.read(payer, q)
	}
	ps.unlocked(func() { a, err = ps.files.read(payer, q) })
	ps.away.Add(int64(a.CPU))
	return a, err
}

// TakeAway returns the CPU time that another process and other threads have used for this one since
// the last call.
func (ps *Processes) TakeAway() time.Duration {
	return time.Duration(ps.away.Swap(0))
}

// outsideMost is above every pid.
const outsideMost = 1 << 31

// Inside declares that pids are those of a PID namespace. Then 0 and pids above the maximum are
// processes outside of it, which can't be read. It is called before any other method.
func (ps *Processes) Inside() { ps.inside = true }

// ReadMappedFiles reads the maps of a process and the symbols of its files, so that its addresses
// resolve after it has ended. The error is of its maps.
func (ps *Processes) ReadMappedFiles(pid int) error {
	var failed error
	ps.run(func() {
		p, err := ps.process(pid)
		if failed = err; err != nil {
			return
		}
		for i := range p.maps {
			if p.maps[i].Exec {
				ps.object(p, i)
			}
		}
	})
	return failed
}

// OpenMappedFiles reads the maps of a process and opens the files that it executes, so that its
// addresses resolve after it has ended. Their symbols are read when they are needed. A later call
// adds libraries that were loaded since. Close closes the files. The error is of the maps.
func (ps *Processes) OpenMappedFiles(pid int) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.procs[pid]
	if p == nil {
		var err error
		if p, err = ps.process(pid); err != nil {
			return err
		}
	} else if !ps.again(p) {
		return nil // it has ended
	}
	ps.holdFiles(p)
	return nil
}

// Close closes the open files. The error is always nil.
func (ps *Processes) Close() error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, l := range ps.later {
		l.close()
	}
	clear(ps.later)
	for _, f := range ps.held {
		f.Close() //nolint:errcheck // it was read from
	}
	ps.held = nil
	return nil
}

// Forget drops a process. The symbols of its files stay for others.
func (ps *Processes) Forget(pid int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.procs, pid)
}

// Place resolves an address of a process. Without a symbol the place has the address alone.
func (ps *Processes) Place(pid int, addr uint64) (place Place) {
	ps.turn(ps.asks)
	ps.run(func() {
		if ps.asks {
			ps.learn([]Asked{{PID: pid, PCs: []uint64{addr}}})
		}
		place = ps.at(pid, addr, addr)
	})
	return place
}

// Stack resolves a stack, innermost first; see Kernel.Stack for the frames after the first.
func (ps *Processes) Stack(pid int, pcs []uint64) []Place {
	ps.turn(ps.asks)
	out := make([]Place, len(pcs))
	ps.run(func() {
		if ps.asks {
			ps.learn([]Asked{{PID: pid, PCs: pcs}})
		}
		for i, pc := range pcs {
			out[i] = ps.at(pid, pc, pc-uint64(min(i, 1)))
		}
	})
	return out
}
