package network

import (
	"culprit/collect"
	"culprit/kernel"
	"culprit/kernel/bpf"
)

// flowWalk tells of the sockets of all namespaces by one walk over those that there are (bpf.Connections), in place of one over the kernel's table for
// each namespace: that takes a millisecond where the table has 262,144 buckets, as on a machine of 32 GB. What it tells is laid out as inet_diag's
// answer, and read by the same code. nil is a walk that there isn't.
//
// What the kernel keeps without a socket is in no walk. Of connections in TIME_WAIT sockstat tells how many there are, listeners tell of SYN_RECV; of those
// in FIN_WAIT2 it is known when there may be any, and then the namespace is dumped.
type flowWalk struct {
	coming chan *bpf.Connections // nil: it has come, or will not
	conns  *bpf.Connections      // nil: not yet, or no longer
	short  uint64                // connections so far that were left to the kernel in FIN_WAIT2
	until  uint32                // the second up to which nothing is walked, for there is too much
	text   []byte                // messages of this reading
	found  []walkedSocket
	each   func(*bpf.Connection) bool
}

// walkedSocket is a socket of this reading's walk.
type walkedSocket struct {
	net      uint64
	requests uint32
	state    uint8
	from, to int32 // of text
}

const (
	// walkedMost is how many sockets are taken in: beyond, a dump costs as much, and needs no memory.
	walkedMost = 4096
	// walkedPause is for how many seconds a walk that was too long is not tried again.
	walkedPause = 60
)

// startFlowWalk begins to open the walk, which reads the kernel's types; nobody waits for it.
func startFlowWalk(root kernel.Root) *flowWalk {
	w := &flowWalk{coming: make(chan *bpf.Connections, 1)}
	w.each = w.take
	go func() {
		c, err := bpf.OpenConnections(root)
		if err != nil {
			c = nil // not here, or not for this user: dumps tell the same
		}
		w.coming <- c
	}()
	return w
}

// wait waits until it is there, or is known not to come.
func (w *flowWalk) wait() {
	if w.coming != nil {
		w.conns = <-w.coming
		w.coming = nil
	}
}

func (w *flowWalk) close() {
	if w == nil {
		return
	}
	w.wait()
	w.conns.Close()
	w.conns = nil
}

// ready says whether it is there and whole: then short is what was counted until now.
func (w *flowWalk) ready() bool {
	if w == nil {
		return false
	}
	if w.coming != nil {
		select {
		case w.conns = <-w.coming:
			w.coming = nil
		default:
			return false
		}
	}
	if w.conns == nil {
		return false
	}
	failed, short := w.conns.Counted()
	if failed > 0 { // a socket without a mark is in no walk, for as long as it lives
		w.close()
		return false
	}
	w.short = short
	return true
}

// look walks, and says whether all sockets are in found. Where they are counted, none may have been left to the kernel in FIN_WAIT2 since ready.
func (w *flowWalk) look(second uint32, counting bool) bool {
	w.text, w.found = w.text[:0], w.found[:0]
	if second < w.until {
		return false
	}
	if w.conns.Each(w.each) != nil {
		w.close()
		return false
	}
	if len(w.found) > walkedMost {
		w.until = second + walkedPause
		w.text, w.found = nil, nil
		return false
	}
	// One that was left to the kernel since ready was no socket any more, and nobody knew yet that the kernel has it.
	failed, short := w.conns.Counted()
	return failed == 0 && (!counting || short == w.short)
}

// take takes a socket in, and says whether there may be more.
func (w *flowWalk) take(k *bpf.Connection) (more bool) {
	from := len(w.text)
	w.text = append(w.text, k.Message...)
	w.found = append(w.found, walkedSocket{net: k.Net, requests: k.Requests, state: k.State, from: int32(from), to: int32(len(w.text))})
	return len(w.found) <= walkedMost
}

// walk takes in the sockets of a namespace but its listeners, and says whether that is all of them.
func (r *flowReading) walk(sp *collect.Namespace[*flowSpace], s *flowSpace) bool {
	w := r.walks
	if !r.walkable || s.first || s.walks == walksNever {
		return false
	}
	if s.walks == walksNot { // those that are there already are marked; from the next reading on all are
		s.walks = walksNever
		if sp.NetNS.In(func() (err error) { s.inode, err = w.conns.Adopt(); return err }) == nil {
			s.walks = walksWhole
		}
		return false
	}
	if r.counting && (!s.calm || s.short != w.short) {
		return false
	}
	if !r.walked {
		if r.walked = w.look(r.seconds, r.counting); !r.walked {
			r.walkable = false
			return false
		}
	}
	mask := r.states(s)
	s.table.expect = 0
	for i := range w.found {
		f := &w.found[i]
		switch {
		case f.net != s.inode:
		case f.state == tcpListen:
			if r.counting {
				s.counts[tcpSynRecv] += int(f.requests)
			}
		case mask>>f.state&1 != 0:
			_ = r.take(0, w.text[f.from:f.to]) // it notes what it can't read
		}
	}
	return true
}

// Whether a namespace's sockets are all in a walk.
const (
	walksNot   = iota
	walksWhole // those of before were marked
	walksNever // they could not be
)

// calmed notes, after a dump, whether there are connections in FIN_WAIT2 that have no socket. Those that come are counted.
func (r *flowReading) calmed(s *flowSpace) {
	if r.walkable {
		s.calm, s.short = s.minis == 0, r.walks.short
	}
}
