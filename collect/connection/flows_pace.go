package connection

import (
	"time"

	"culprit/kernel"
	"culprit/measure"
)

// A dumpPace bounds the part of a CPU that the dumps of a reading use. The kernel produces a socket
// with its counters in 1.2 to 1.6 us, so a dump of 200,000 takes a third of a second of CPU time.
// The first freeDump of a reading is free. After that the reading sleeps, as often as keeps it at
// paceShare. The kernel continues a dump where it was when the next message is received.
//
// A reading may so take several seconds. The other statistics do not wait for it (collect.Source).
type dumpPace struct {
	on      bool // a recording, which lasts: who waits for a table gets it at once
	sockets int
	from    measure.Span // the thread's CPU time when the reading began, or after the last pause
	free    measure.Span
	paused  time.Duration // in this reading
	sleep   func(time.Duration)
}

const (
	freeDump  = 50 * measure.Millisecond
	paceShare = 10 // percent of a CPU
	// pacePart is how much CPU time passes between two pauses.
	pacePart = 10 * measure.Millisecond
	// paceLook is how many sockets are taken between two looks at the CPU time.
	paceLook = 128
	// dumpTimeout is how long one dump may take: one of 2 million sockets takes half a minute.
	dumpTimeout = 5 * time.Minute
)

// start begins a reading. The caller stays on its thread until the end of the reading.
func (p *dumpPace) start() {
	p.from, p.free, p.paused = kernel.ThreadTime(), freeDump, 0
	if p.sleep == nil {
		p.sleep = time.Sleep
	}
}

// socket is called with each socket of a dump, and sleeps when it is time to.
func (p *dumpPace) socket() {
	if p.sockets++; p.sockets%paceLook == 0 && p.on {
		p.look()
	}
}

func (p *dumpPace) look() {
	now := kernel.ThreadTime()
	if p.free > 0 {
		p.free -= max(0, now-p.from)
		p.from = now
		return
	}
	if spent := now - p.from; spent >= pacePart {
		pause := (spent * (100 - paceShare) / paceShare).AsDuration()
		p.sleep(pause)
		p.paused += pause
		p.from = now
	}
}
