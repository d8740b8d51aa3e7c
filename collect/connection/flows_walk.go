package connection

import (
	"culprit/collect"
	"culprit/kernel"
	"culprit/kernel/bpf"
)

// flowWalk reads the sockets of all namespaces by one walk over the existing ones
// (bpf.Connections). Otherwise the kernel's table is walked for each namespace, which takes a
// millisecond if it has 262,144 buckets, as on a machine with 32 GB. The walk produces inet_diag's
// messages, which the same code parses. nil means not available.
//
// A walk lacks what the kernel keeps without a socket. sockstat has the number of connections in
// TIME_WAIT, listeners that of SYN_RECV. If there may be connections in FIN_WAIT2 without a socket,
// the namespace is dumped.
type flowWalk struct {
	coming chan *bpf.Connections // nil: received, or will not come
	conns  *bpf.Connections      // nil: not yet, or no longer open
	short  uint64                // connections so far that lost their socket in FIN_WAIT2
	// the second until which nothing is walked, because there are too many sockets
	until uint32
	text  []byte // messages of this reading
	found []walkedSocket
	each  func(*bpf.Connection) bool
}

// walkedSocket is a socket of this reading's walk.
type walkedSocket struct {
	net      uint64
	requests uint32
	state    uint8
	from, to int32 // of text
}

const (
	// walkedMost is how many sockets a walk takes. For more of them a dump costs as much and needs
	// no memory.
	walkedMost = 4096
	// walkedPause is for how many seconds a walk that found too many is not tried again.
	walkedPause = 60
)

// startFlowWalk opens the walk in the background, since that reads the kernel's types.
func startFlowWalk(root kernel.Root) *flowWalk {
	w := &flowWalk{coming: make(chan *bpf.Connections, 1)}
	w.each = w.take
	go func() {
		c, err := bpf.OpenConnections(root)
		if err != nil {
			c = nil // not available, or not for this user: dumps have the same
		}
		w.coming <- c
	}()
	return w
}

// wait waits until the walk is open, or known not to be available.
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

// ready reports whether the walk is open and complete. It sets short to the count until now.
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
	if failed > 0 { // a socket without a mark is in no walk as long as it lives
		w.close()
		return false
	}
	w.short = short
	return true
}

// look walks and reports whether found has all sockets. If they are counted, none may have lost its
// socket in FIN_WAIT2 since ready.
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
	// One that lost its socket since ready was not in the walk, and was not yet counted before.
	failed, short := w.conns.Counted()
	return failed == 0 && (!counting || short == w.short)
}

// take stores a socket and reports whether it can take more.
func (w *flowWalk) take(k *bpf.Connection) (more bool) {
	from := len(w.text)
	w.text = append(w.text, k.Message...)
	w.found = append(
		w.found,
		walkedSocket{
			net:      k.Net,
			requests: k.Requests,
			state:    k.State,
			from:     int32(from),
			to:       int32(len(w.text)),
		},
	)
	return len(w.found) <= walkedMost
}

// walk takes the sockets of a namespace, except its listeners, and reports whether these are all.
func (r *flowReading) walk(sp *collect.Namespace[*flowSpace], s *flowSpace) bool {
	w := r.walks
	if !r.walkable || s.first || s.walks == walksNever {
		return false
	}
	if s.walks == walksNot { // marks the existing sockets; from the next reading on all are marked
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
			_ = r.take(0, w.text[f.from:f.to]) // take notes what it cannot parse
		}
	}
	return true
}

// Whether all of a namespace's sockets are in a walk.
const (
	walksNot   = iota
	walksWhole // sockets from before were marked
	walksNever // they could not be marked
)

// recordFinWait records after a dump whether there are connections in FIN_WAIT2 without a socket.
// Later ones are counted.
func (r *flowReading) recordFinWait(s *flowSpace) {
	if r.walkable {
		s.calm, s.short = s.minis == 0, r.walks.short
	}
}
