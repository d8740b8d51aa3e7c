package lock

import (
	"errors"
	"slices"

	"culprit/measure"
)

// ownerSearch finds the process that has the open file of a lock, where /proc/locks does not name
// it: an OFD lock, and a lock of flock(2) whose process has ended. It looks at a part of the
// processes in each reading.
type ownerSearch struct {
	owners map[lockKey]int32 // 0: not found
	wanted []lockKey         // for which this reading asked
	pids   []int32           // still to be looked at in this pass, the last one first
	from   int               // open files of the next process that were looked at
	sought []lockKey         // in this pass
	rest   int               // readings until the next pass
}

// ownerRest is how many readings pass after a pass over all processes that found an owner for some
// of the locks only.
const ownerRest = 10

// mostSought is for how many locks one pass looks.
const mostSought = 16

// of returns the process that has the open file of a lock; 0 when it is not known.
func (s *ownerSearch) of(k lockKey) int32 {
	if !slices.Contains(s.wanted, k) {
		s.wanted = append(s.wanted, k)
	}
	return s.owners[k]
}

// search continues the search, and forgets owners for which this reading did not ask.
func (s *ownerSearch) search(k *lookup) {
	for key := range s.owners {
		if !slices.Contains(s.wanted, key) {
			delete(s.owners, key)
		}
	}
	wanted := s.wanted
	s.wanted = s.wanted[:0]
	if s.rest > 0 {
		s.rest--
		return
	}
	if len(s.pids) == 0 && !s.start(k, wanted) {
		return
	}
	for len(s.pids) > 0 && len(s.sought) > 0 && !k.late() {
		pid := s.pids[len(s.pids)-1]
		s.pids = s.pids[:len(s.pids)-1]
		s.lookAt(k, pid)
	}
	if len(s.sought) == 0 {
		s.pids, s.from = s.pids[:0], 0
	} else if len(s.pids) == 0 {
		s.rest = ownerRest
	}
}

// start begins a pass over all processes; false: it has nothing to look for.
func (s *ownerSearch) start(k *lookup, wanted []lockKey) bool {
	s.sought = s.sought[:0]
	for _, key := range wanted {
		if s.owners[key] > 0 && k.process(s.owners[key]).pid > 0 {
			continue
		}
		if len(s.sought) < mostSought {
			s.sought = append(s.sought, key)
		}
	}
	if len(s.sought) == 0 {
		return false
	}
	pids, err := k.dir.ListPIDs(s.pids[:0])
	s.pids = pids
	return err == nil && len(pids) > 0
}

// lookAt looks for the locks among the open files of a process.
func (s *ownerSearch) lookAt(k *lookup, pid int32) {
	fds, err := k.dir.ListFDs(pid, nil)
	if err != nil {
		k.denied = k.denied || errors.Is(err, measure.ErrDenied)
		return
	}
	from := s.from
	s.from = 0
	for i := from; i < min(len(fds), mostOpenFiles) && len(s.sought) > 0; i++ {
		if k.late() && i > from {
			s.from, s.pids = i, append(s.pids, pid) // the next reading continues here
			return
		}
		info := k.fdinfo(pid, fds[i])
		s.sought = slices.DeleteFunc(s.sought, func(key lockKey) bool {
			if !lockedFile(info, key) {
				return false
			}
			if s.owners == nil {
				s.owners = map[lockKey]int32{}
			}
			s.owners[key] = pid
			return true
		})
	}
}
