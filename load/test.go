package load

import (
	"fmt"
	"strings"

	"culprit/measure"
)

// Kind says what the traffic of a test is.
type Kind string

// The kinds of tests.
const (
	Stream   Kind = "stream" // bytes, in one direction or both
	Exchange Kind = "rr"     // requests, each answered before the next goes out on its connection
)

// Way is a direction of traffic, seen from the client.
type Way string

// The directions. Both is of tests alone: its traffic is Up and Down on connections of their own.
const (
	Up   Way = "up"   // from the client to the server
	Down Way = "down" // from the server to the client
	Both Way = "both"
)

// Test is one run of traffic, as a client asks a server for it. The zero of a setting that has no default here leaves it to the kernel.
type Test struct {
	Kind       Kind         `json:"kind"`
	Way        Way          `json:"way"`                  // of a stream; up for exchanges
	Streams    int          `json:"streams"`              // connections; of a stream in each direction
	For        measure.Span `json:"for_ns"`               // how long traffic flows
	Every      measure.Span `json:"every_ns"`             // length of an interval
	Size       int          `json:"size_bytes,omitempty"` // of a stream: bytes a write
	Ask        int          `json:"request_bytes,omitempty"`
	Answer     int          `json:"response_bytes,omitempty"`
	Window     int          `json:"window_bytes,omitempty"`            // SO_SNDBUF and SO_RCVBUF of both ends
	Congestion string       `json:"congestion,omitempty"`              // the senders' algorithm
	Rate       float64      `json:"rate_bits_per_s,omitempty"`         // of a stream: of all connections of a direction together
	Pace       float64      `json:"rate_transactions_per_s,omitempty"` // of exchanges: begun a second, all connections together
	NoDelay    bool         `json:"nodelay,omitempty"`                 // TCP_NODELAY on streams; exchanges always have it
	Copy       bool         `json:"copy,omitempty"`                    // receivers of streams copy what comes into their memory
	Look       bool         `json:"look"`                              // both ends diagnose their machine meanwhile
}

// What a test may ask.
const (
	LeastFor   = 100 * measure.Millisecond
	MostFor    = 24 * 3600 * measure.Second
	LeastEvery = 100 * measure.Millisecond
	// MostParts bounds the intervals of a run, each of which both ends keep: a day in tens of seconds.
	MostParts = 10000
	// MostStreams is of threads, two a connection, one at each end.
	MostStreams = 512
	MostSize    = 16 << 20
	MostWindow  = 1 << 30
)

// Check says what of the test can't be. Its errors name the options of the command line.
func (t *Test) Check() error {
	switch {
	case t.Kind != Stream && t.Kind != Exchange:
		return fmt.Errorf("a test is %q or %q, not %q", Stream, Exchange, t.Kind)
	case t.Way != Up && t.Way != Down && t.Way != Both, t.Kind == Exchange && t.Way != Up:
		return fmt.Errorf("a direction is %q, %q or %q, not %q", Up, Down, Both, t.Way)
	case t.Streams < 1 || t.Streams > MostStreams:
		return fmt.Errorf("--streams %d: from 1 to %d", t.Streams, MostStreams)
	case t.For < LeastFor || t.For > MostFor:
		return fmt.Errorf("--for %v: from %v to %v", t.For, LeastFor, MostFor)
	case t.Every < LeastEvery || t.Every > MostFor:
		return fmt.Errorf("--every %v: from %v to %v", t.Every, LeastEvery, MostFor)
	case t.For/t.Every > MostParts:
		return fmt.Errorf("--every %v for %v makes more than %d intervals: give longer ones", t.Every, t.For, MostParts)
	case t.Kind == Stream && (t.Size < 1 || t.Size > MostSize):
		return fmt.Errorf("--size %d: from 1 to %d bytes a write", t.Size, MostSize)
	case t.Kind == Exchange && (t.Ask < 1 || t.Answer < 1 || t.Ask > MostSize || t.Answer > MostSize):
		return fmt.Errorf("--size %d,%d: requests and responses have from 1 to %d bytes", t.Ask, t.Answer, MostSize)
	case t.Window < 0 || t.Window > MostWindow || t.Window > 0 && t.Window < 1024:
		return fmt.Errorf("--window %d: from 1KiB to 1GiB", t.Window)
	case !(t.Rate >= 0) || t.Rate > 1e15 || !(t.Pace >= 0) || t.Pace > 1e9:
		return fmt.Errorf("--rate: no number that can be kept to")
	case t.Rate > 0 && t.Rate < 8000:
		return fmt.Errorf("--rate %g bit/s: from 8kbit/s", t.Rate)
	case t.Pace > 0 && t.Pace < 0.1:
		return fmt.Errorf("--rate %g/s: from 0.1/s", t.Pace)
	case len(t.Congestion) > 15 || strings.ContainsAny(t.Congestion, "/\x00 \n"):
		return fmt.Errorf("--congestion %q: no name of an algorithm", t.Congestion)
	}
	return nil
}

// ways gives the directions in which traffic of the test flows.
func (t *Test) ways() []Way {
	if t.Way == Both {
		return []Way{Up, Down}
	}
	return []Way{t.Way}
}

// connections gives how many carry traffic.
func (t *Test) connections() int { return t.Streams * len(t.ways()) }

// parts gives how many intervals a run has; the last may be shorter than the others.
func (t *Test) parts() int { return int((t.For + t.Every - 1) / t.Every) }
