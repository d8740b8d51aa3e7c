package trace

import (
	"runtime"
	"strings"
	"sync"
	"time"

	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/symbol"
)

// A follower records which files the commands of a script, and the processes that they start, map
// as code. The kernel reports each mapping, from the first instruction to the last. Methods of a
// nil follower do nothing.
type follower struct {
	processes *symbol.Processes
	unwinder  *unwinder
	watches   []*bpf.MapWatch
	done      sync.WaitGroup

	mu             sync.Mutex // guards reading, so that events come in their order
	changed, ended []int      // processes whose changes the unwinder has not seen
}

// followEach is the pause between two readings of recorded mappings.
const followEach = time.Millisecond

// userWords returns the words of D that print names of user space.
func userWords() []string {
	return []string{"ustack", "jstack", "usym", "ufunc", "umod", "uaddr", "ucaller", "%A", "%a"}
}

// namesUser reports whether a script may print names of addresses of processes.
func namesUser(text string) bool {
	for _, word := range userWords() {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// newFollower follows the processes of commands, which have not run yet. It returns nil when the
// kernel does not allow it. The caller closes the follower.
func newFollower(root kernel.Root, pids []int, ps *symbol.Processes, u *unwinder) *follower {
	f := &follower{processes: ps, unwinder: u}
	for _, pid := range pids {
		w, err := bpf.WatchMaps(root, pid)
		if err != nil {
			f.close()
			return nil // names come from /proc/PID/maps, which is read from time to time
		}
		f.watches = append(f.watches, w)
	}
	for _, w := range f.watches {
		f.done.Go(func() {
			for w.Wait(time.Second) {
				f.catchUp()
				f.notifyUnwinder()
				time.Sleep(followEach)
			}
		})
	}
	return f
}

// catchUp reads the mappings that the kernel has recorded until now.
func (f *follower) catchUp() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.watches {
		changed, ended := f.processes.Follow(w.Read())
		if f.unwinder != nil {
			f.changed, f.ended = append(f.changed, changed...), append(f.ended, ended...)
		}
	}
}

// notifyUnwinder passes processes whose mappings changed to the unwinder.
func (f *follower) notifyUnwinder() {
	if f.unwinder == nil {
		return
	}
	f.mu.Lock()
	changed, ended := f.changed, f.ended
	f.changed, f.ended = nil, nil
	f.mu.Unlock()
	f.unwinder.filesChanged(changed)
	f.unwinder.ended(ended)
}

func (f *follower) close() {
	if f == nil {
		return
	}
	for _, w := range f.watches {
		w.Close() //nolint:errcheck // only read
	}
	f.done.Wait()
}

// AtEntryPoint returns a function to call with the process ID of a command that is stopped at its
// entry point: its libraries are mapped, and only the loader's code has run. The function returns
// when the files that the process has mapped are open. AtEntryPoint returns nil when the session
// does not need this.
func (s *Session) AtEntryPoint() func(pid int) {
	if !namesUser(s.script.Program.Text) || s.symbols.unwinder == nil && s.symbols.follower != nil {
		return nil
	}
	u := s.symbols.unwinder
	return func(pid int) {
		s.symbols.follower.catchUp()
		//nolint:errcheck // addresses of a process that can't be read have no names, as reported
		s.symbols.processes.OpenMappedFiles(pid)
		if u != nil {
			u.renew(pid)
		}
	}
}

// filesChanged reloads the tables of processes that map other files than before, unless reading
// tables has used its share of time.
func (u *unwinder) filesChanged(pids []int) {
	for _, pid := range pids {
		u.mu.Lock()
		over := u.took >= atFirst+time.Since(u.began)/share
		u.mu.Unlock()
		if over {
			return // programs ask for the tables of processes that have samples
		}
		runtime.LockOSThread() // threadTime is of this thread
		before := threadTime()
		u.renew(pid)
		before = threadTime() - before + u.known.TakeAway()
		runtime.UnlockOSThread()
		u.mu.Lock()
		u.took += before
		u.mu.Unlock()
	}
}

// renew reloads the tables of a process, however recently they were loaded.
func (u *unwinder) renew(pid int) {
	for busy := u.expire(pid); busy != nil; busy = u.expire(pid) {
		<-busy // it may have begun before the process mapped what it has now
	}
	u.loadProcess(pid, 0)
}

// expire makes the next loadProcess load a process that is not being loaded. Otherwise it returns
// what is closed when it was loaded.
func (u *unwinder) expire(pid int) (busy <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.procs[pid]
	switch {
	case p == nil:
		return nil
	case p.busy != nil:
		return p.busy
	}
	p.wait, p.code = 0, nil
	return nil
}

// ended removes processes that have ended.
func (u *unwinder) ended(pids []int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, pid := range pids {
		if p := u.procs[pid]; p != nil {
			u.forget(pid, p.blocks)
			delete(u.procs, pid)
		}
	}
}
