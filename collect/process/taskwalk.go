package process

import (
	"slices"

	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
)

// taskWalk finds the processes that exist and those that ran, by one walk over the kernel's list of
// threads (bpf.Tasks). That takes a tenth of the time to list /proc and read a file of each
// process. It only selects processes: all numbers come from the same files as without it. nil means
// not available.
//
// A kernel may hide a process from the walk that /proc shows: one that runs as a guest hid its
// supervisor. So the walk is compared with a listing of /proc at first and now and then. Processes
// that it lacks are read each time.
type taskWalk struct {
	coming chan *bpf.Tasks // nil: received, or will not come
	tasks  *bpf.Tasks      // nil: not yet, or no longer open
	looks  int
	whole  bool // it shows all processes of /proc
	pids   [2][]int32
	found  []taskSeen           // of this reading: first threads, by PID
	others []taskSeen           // of this reading: all other threads
	nets   []netlink.ProcessNet // the first process of each network namespace
	each   func(*bpf.Task)
}

// taskSigns are numbers of a process. If a number is unchanged, so is what it depends on.
type taskSigns struct {
	known   bool
	pulse   uint64 // of all threads: none has run, begun or ended
	rest    uint64 // of state, parent and resident size
	cgroups uint64
}

type taskSeen struct {
	pid   int32
	signs taskSigns
}

// startTaskWalk opens the walk in the background, since that reads the kernel's types.
func startTaskWalk(root kernel.Root) *taskWalk {
	w := &taskWalk{coming: make(chan *bpf.Tasks, 1)}
	w.each = w.take
	go func() {
		t, err := bpf.OpenTasks(root)
		if err != nil {
			t = nil // not available, or not for this user: /proc has the same
		}
		w.coming <- t
	}()
	return w
}

// on reports whether the walk is open.
func (w *taskWalk) on() bool { return w != nil && w.tasks != nil }

// wait waits until the walk is open, or known not to be available.
func (w *taskWalk) wait() {
	if w.coming != nil {
		w.tasks = <-w.coming
		w.coming = nil
	}
}

func (w *taskWalk) close() {
	if w == nil {
		return
	}
	w.wait()
	w.tasks.Close()
	w.tasks = nil
}

// look walks and reports whether it succeeded; dir is /proc.
func (w *taskWalk) look(dir *proc.Dir) bool {
	if w == nil {
		return false
	}
	if w.coming != nil {
		select {
		case w.tasks = <-w.coming:
			w.coming = nil
		default:
			return false
		}
	}
	if w.tasks == nil {
		return false
	}
	check := w.looks%walkCheck == 0
	if w.looks++; check {
		w.pids[0] = listed(dir, w.pids[0])
	}
	w.found, w.others, w.nets = w.found[:0], w.others[:0], w.nets[:0]
	if w.tasks.Each(w.each) != nil || len(w.found) == 0 {
		w.close()
		return false
	}
	w.sort()
	if check {
		w.pids[1] = listed(dir, w.pids[1])
		w.whole = w.pids[0] != nil && w.pids[1] != nil
		for _, pid := range w.pids[0] {
			_, still := slices.BinarySearch(w.pids[1], pid)
			w.whole = w.whole && (!still || w.of(pid) != nil)
		}
	}
	return true
}

// walkCheck is after how many walks one is compared with a listing, which takes a millisecond for
// 600 processes.
const walkCheck = 60

// listed returns the processes of /proc in order; nil if they cannot be listed.
func listed(dir *proc.Dir, pids []int32) []int32 {
	pids, err := dir.ListPIDs(pids[:0])
	if err != nil {
		return nil
	}
	slices.Sort(pids)
	return pids
}

// of returns what the walk found of a process; nil: nothing.
func (w *taskWalk) of(pid int32) *taskSeen {
	at, ok := slices.BinarySearchFunc(w.found, taskSeen{pid: pid}, byPID)
	if !ok {
		return nil
	}
	return &w.found[at]
}

func byPID(a, b taskSeen) int { return int(a.pid) - int(b.pid) }

// sort sorts the processes and adds their other threads to them.
func (w *taskWalk) sort() {
	if !slices.IsSortedFunc(w.found, byPID) {
		slices.SortFunc(w.found, byPID)
	}
	for i := range w.others {
		o := &w.others[i]
		at, ok := slices.BinarySearchFunc(w.found, *o, byPID)
		if !ok { // a thread that is becoming the first one, by execve
			o.signs.known, o.signs.rest, o.signs.cgroups = false, 0, 0
			w.found = slices.Insert(w.found, at, *o)
			continue
		}
		w.found[at].signs.pulse += o.signs.pulse
	}
}

// take adds a thread.
func (w *taskWalk) take(t *bpf.Task) {
	s := taskSeen{
		pid:   t.PID,
		signs: taskSigns{known: true, pulse: mixed(t.Run, t.Wait, t.Count, uint64(t.TID))},
	}
	if t.TID != t.PID {
		w.others = append(w.others, s)
		return
	}
	s.signs.rest, s.signs.cgroups = mixed(t.State, t.Parent, t.Resident, 0), t.Cgroups
	w.found = append(w.found, s)
	if t.Net != 0 &&
		!slices.ContainsFunc(w.nets, func(o netlink.ProcessNet) bool { return o.Net == t.Net }) {
		w.nets = append(w.nets, netlink.ProcessNet{PID: t.PID, Net: t.Net})
	}
}

// list appends the processes in ascending order.
func (w *taskWalk) list(pids []int32) []int32 {
	for i := range w.found {
		pids = append(pids, w.found[i].pid)
	}
	return pids
}

// mixed returns a hash of the words. Different words have the same hash with a probability of
// 2^-64.
func mixed(words ...uint64) uint64 {
	var h uint64
	// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014)
	for _, v := range words {
		h += v + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// pulseByWalk finds the processes that ran.
func (r *processReading) pulseByWalk() {
	found := r.walk.found
	for _, p := range r.procs {
		for len(found) > 0 && found[0].pid < p.pid {
			found = found[1:]
		}
		var now taskSigns
		if len(found) > 0 && found[0].pid == p.pid {
			now = found[0].signs
		}
		last := &p.walked
		p.ran = last.known && now.known && now.pulse != last.pulse
		p.unsure = !last.known || !now.known
		if p.info != nil && !p.unsure && now.cgroups != last.cgroups {
			p.info.stale = true
		}
		// A process that the walk missed before or now may have changed at any time.
		p.statStale = p.statStale || p.unsure || now.rest != last.rest
		p.ranSinceInfo = p.ranSinceInfo || p.unsure
		*last = now
		r.closeFile(&p.pulse)
		p.schedPulse = pulse{}
	}
}
