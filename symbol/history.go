package symbol

import (
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"culprit/kernel"
	"culprit/kernel/bpf"
)

// A History contains what the processes of the machine map to execute, as a bpf.MapWatch of all
// processes reports it. So addresses of a process have names, however early the process has ended.
// Of processes that began before the watch it has only what came later. Safe for concurrent use.
type History struct {
	opening sync.Mutex // held while files are opened; before mu
	opener  fileOpener

	mu      sync.Mutex        // guards the fields below; never held while a file is opened
	of      map[int]*recorded // by process ID
	ended   []endedProcess    // of the map of, oldest first
	version uint64
	texts   map[string]string
	files   mappedFiles
	// mappings is the sum of the mappings of all processes. Copies of a parent count, though most
	// share its memory.
	mappings int
}

// A recorded is what a History has of one process.
type recorded struct {
	// origin is the process whose memory this one has a copy of; 0: none. layouts[0] comes on top
	// of the copy.
	origin int
	// layouts are the mappings of the process in the order in which they were made, one list for
	// each program that it executed. They are only appended to, since a child shares them.
	layouts [][]Mapping
	whole   bool   // nothing is missing from the last layout
	version uint64 // differs after each event
}

// An endedProcess is a process that has ended, at a version of its record.
type endedProcess struct {
	pid     int
	version uint64
}

const (
	// mostEnded is how many ended processes are kept. Names are looked up each second.
	mostEnded = 4096
	// mostRecorded is how many processes are kept. The end of a process may be lost.
	mostRecorded = 16384
	// usualLayout is how many mappings a layout has space for at first.
	usualLayout = 4
	// mostLayout is how many mappings a layout has. Those of a process with more are read from
	// /proc.
	mostLayout = 256
	// mostHistory is how many mappings all processes have: 80 MB if no copies share memory.
	mostHistory = 1 << 20
)

// NewHistory returns an empty History. The caller closes it.
func NewHistory(root kernel.Root) *History {
	find := func(q openRequest) (*os.File, error) { return findMapped(root, q) }
	return &History{of: map[int]*recorded{}, texts: map[string]string{},
		opener: fileOpener{find: find},
		files:  mappedFiles{left: mostOpenedPer, open: map[mappedID]*mappedFileOpen{}}}
}

// Close closes the files that the History keeps open.
func (h *History) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files.closeAll()
}

// Apply adds the events of a bpf.MapWatch of all processes, in their order, and opens the files
// that they mapped. It waits a quarter of a second at most for file systems that do not answer.
func (h *History) Apply(events []bpf.MapEvent) {
	h.opening.Lock()
	defer h.opening.Unlock()
	asked := h.apply(events)
	if len(asked) == 0 {
		return
	}
	h.opener.open(asked)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files.keep(asked)
}

// apply adds the events and returns the files to open.
func (h *History) apply(events []bpf.MapEvent) []openRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range events {
		e := &events[i]
		h.version++
		switch e.Kind {
		case bpf.Forked:
			h.fork(e)
		case bpf.Executed:
			r := h.record(e.PID)
			if len(r.layouts) > mostFormer {
				h.mappings -= len(r.layouts[0])
				r.layouts = slices.Clone(r.layouts[1:])
			}
			// Most programs map themselves, the linker, the C library and the vDSO.
			r.layouts, r.whole = append(r.layouts, make([]Mapping, 0, usualLayout)), true
		case bpf.Mapped:
			h.mapped(e)
		case bpf.Ended:
			if r := h.of[e.PID]; r != nil {
				h.ended = append(h.ended, endedProcess{e.PID, r.version})
			}
		case bpf.MapsLost:
			for _, r := range h.of {
				r.whole = false
			}
		}
	}
	h.makeSpace()
	h.files.sweep()
	return h.files.take()
}

// fork adds a process that has a copy of its parent's memory.
func (h *History) fork(e *bpf.MapEvent) {
	r := &recorded{origin: e.Parent, version: h.version, layouts: [][]Mapping{nil}}
	if p := h.of[e.Parent]; p != nil && p.whole {
		last := p.layouts[len(p.layouts)-1]
		r.origin, r.whole, r.layouts[0] = 0, true, slices.Clip(last)
	}
	h.drop(e.PID) // its number was that of another process
	h.of[e.PID] = r
	h.mappings += len(r.layouts[0])
}

// drop removes the record of a process.
func (h *History) drop(pid int) {
	r := h.of[pid]
	if r == nil {
		return
	}
	for _, layout := range r.layouts {
		h.mappings -= len(layout)
	}
	delete(h.of, pid)
}

// record returns the record of a process, which changes.
func (h *History) record(pid int) *recorded {
	r := h.of[pid]
	if r == nil {
		r = &recorded{layouts: [][]Mapping{nil}}
		h.of[pid] = r
	}
	r.version = h.version
	return r
}

// mapped adds a mapping of a file, or of the vDSO, to a process.
func (h *History) mapped(e *bpf.MapEvent) {
	m := mappingOf(e)
	if m.Inode == 0 && m.Path == "" {
		return // compilers may write where they execute in turns; /proc has it
	}
	m.Path = h.shared(m.Path)
	r := h.record(e.PID)
	last := &r.layouts[len(r.layouts)-1]
	if len(*last) >= mostLayout {
		r.whole = false
		return
	}
	*last = append(*last, m)
	h.mappings++
	if m.Inode != 0 {
		h.files.note(e.PID, r.origin, &m)
	}
}

// shared returns a path as a string that all mappings share.
func (h *History) shared(path string) string {
	if t, ok := h.texts[path]; ok {
		return t
	}
	if len(h.texts) >= mostTexts {
		h.texts = map[string]string{}
	}
	path = strings.Clone(path)
	h.texts[path] = path
	return path
}

// makeSpace drops the processes that ended first, and if there are still too many, those that did
// nothing for the longest time.
func (h *History) makeSpace() {
	for len(h.ended) > mostEnded || h.mappings > mostHistory && len(h.ended) > 0 {
		first := h.ended[0]
		h.ended = h.ended[1:]
		if r := h.of[first.pid]; r != nil && r.version == first.version {
			h.drop(first.pid)
		}
	}
	for len(h.of) > mostRecorded || h.mappings > mostHistory && len(h.of) > 0 {
		versions := make([]uint64, 0, len(h.of))
		for _, r := range h.of {
			versions = append(versions, r.version)
		}
		slices.Sort(versions)
		oldest := versions[len(versions)/4]
		for pid, r := range h.of {
			if r.version <= oldest {
				h.drop(pid)
			}
		}
	}
}

// versionOf returns the version of what is recorded of a process; 0: nothing. h may be nil.
func (h *History) versionOf(pid int) uint64 {
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.of[pid]; r != nil {
		return r.version
	}
	return 0
}

// get returns what is recorded of a process.
func (h *History) get(pid int) (r recorded, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of[pid]
	if p == nil {
		return r, false
	}
	r = *p
	r.layouts = slices.Clone(p.layouts)
	return r, true
}

// mostOrigins is how many processes that were copied from one another are followed.
const mostOrigins = 8

// UseHistory makes names of processes come from a History as well as from /proc. It is called
// before any other method.
func (ps *Processes) UseHistory(h *History) { ps.history = h }

// recall returns a process as the history has it; nil: the history does not have all of it, and the
// process has ended, or its maps may not be read.
func (ps *Processes) recall(pid, depth int) *process {
	if ps.history == nil || depth > mostOrigins {
		return nil
	}
	r, ok := ps.history.get(pid)
	if !ok {
		return nil
	}
	p := &process{pid: pid, keys: map[int]fileKey{}, checked: time.Now(), watched: true,
		version: r.version, executed: len(r.layouts)}
	p.start, _, _ = ps.stat(pid) // 0: it has ended
	p.user, p.known = ps.userOf(p), true
	if old := ps.procs[pid]; old != nil && old.start == p.start && old.executed == p.executed {
		p.exe, p.inside, p.jit = old.exe, old.inside, old.jit
	}
	if !r.whole && p.start != 0 && ps.readMaps(p) == nil {
		return p
	}
	origin := ps.originOf(&r, depth)
	if !r.whole && len(r.layouts) == 1 && origin == nil {
		// It began before the watch and has ended. What /proc had of it comes before the record.
		old := ps.procs[pid]
		if old == nil || p.start != 0 {
			return nil
		}
		origin = old
		for i, key := range old.keys {
			p.keys[i] = key
		}
		p.start, p.exe, p.inside, p.jit = old.start, old.exe, old.inside, old.jit
		p.user, p.known = old.user, old.known
	}
	for i, layout := range r.layouts {
		if i > 0 {
			p.retire()
			p.maps, p.keys = nil, map[int]fileKey{}
		} else if origin != nil {
			p.maps = slices.Clone(origin.maps)
		}
		p.addAll(layout)
	}
	ps.renew(p)
	return p
}

// originOf returns the process whose memory another one has a copy of; nil: none is known.
func (ps *Processes) originOf(r *recorded, depth int) *process {
	if r.origin == 0 {
		return nil
	}
	if p := ps.procs[r.origin]; p != nil {
		return p
	}
	if p := ps.recall(r.origin, depth+1); p != nil {
		return p
	}
	p, err := ps.readProcess(r.origin)
	if err != nil {
		return nil
	}
	ps.put(p)
	return p
}

// addAll adds mappings to a process without keys of files.
func (p *process) addAll(all []Mapping) {
	if len(p.maps) == 0 {
		p.maps = slices.Clone(all)
		slices.SortStableFunc(p.maps, byStart)
		apart := true
		for i := 1; i < len(p.maps); i++ {
			apart = apart && p.maps[i-1].End <= p.maps[i].Start
		}
		if apart {
			return
		}
		p.maps = nil
	}
	for _, m := range all {
		p.insert(m)
	}
}
