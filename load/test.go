package load

import (
	"fmt"
	"strings"

	"culprit/measure"
)

// Kind is the kind of a test's traffic.
type Kind string

// The kinds of tests.
const (
	Stream   Kind = "stream" // bytes, in one direction or both
	Exchange Kind = "rr"     // request and response, one at a time on each connection
)

// Way is a direction of traffic, seen from the client.
type Way string

// The directions. Only tests have Both: Up and Down on separate connections.
const (
	Up   Way = "up"   // from the client to the server
	Down Way = "down" // from the server to the client
	Both Way = "both"
)

// Test is one run of traffic, as a client requests it. A zero setting without a default here is
// left to the kernel.
type Test struct {
	Kind Kind `json:"kind"`
	Way  Way  `json:"way"` // of a stream; up for exchanges
	// Streams is the number of connections, per direction for streams.
	Streams int          `json:"streams"`
	For     measure.Span `json:"for_ns"`               // length of the traffic
	Every   measure.Span `json:"every_ns"`             // length of an interval
	Size    int          `json:"size_bytes,omitempty"` // of a stream: bytes per write
	Ask     int          `json:"request_bytes,omitempty"`
	Answer  int          `json:"response_bytes,omitempty"`
	// Window is SO_SNDBUF and SO_RCVBUF of both ends.
	Window     int    `json:"window_bytes,omitempty"`
	Congestion string `json:"congestion,omitempty"` // the senders' algorithm
	// Rate is that of a stream, the sum of the connections of a direction.
	Rate float64 `json:"rate_bits_per_s,omitempty"`
	// Pace is the rate of exchanges, the sum of the connections.
	Pace float64 `json:"rate_transactions_per_s,omitempty"`
	// UDP sends datagrams; Size is that of each.
	UDP bool `json:"udp,omitempty"`
	// Connect makes a new connection for each exchange.
	Connect bool `json:"connect,omitempty"`
	// NoDelay sets TCP_NODELAY on streams; exchanges always have it.
	NoDelay bool `json:"nodelay,omitempty"`
	// Copy makes receivers of streams copy data to their memory.
	Copy bool `json:"copy,omitempty"`
	// Look makes both ends diagnose their machine during the test.
	Look bool `json:"look"`
}

// The bounds of a test.
const (
	MinFor   = 100 * measure.Millisecond
	MaxFor   = 24 * 3600 * measure.Second
	MinEvery = 100 * measure.Millisecond
	// MaxParts is the highest number of intervals of a run, which both ends keep: a day in tens of
	// seconds.
	MaxParts = 10000
	// MaxStreams bounds the number of threads: two per connection, one at each end.
	MaxStreams = 512
	MaxSize    = 16 << 20
	MostWindow = 1 << 30
)

// Check returns an error for a test that can't be run. It names the options of the command line.
func (t *Test) Check() error {
	if err := t.checkDatagrams(); err != nil {
		return err
	}
	switch {
	case t.Kind != Stream && t.Kind != Exchange:
		return fmt.Errorf("a test is %q or %q, not %q", Stream, Exchange, t.Kind)
	case t.Way != Up && t.Way != Down && t.Way != Both, t.Kind == Exchange && t.Way != Up:
		return fmt.Errorf("a direction is %q, %q or %q, not %q", Up, Down, Both, t.Way)
	case t.Streams < 1 || t.Streams > MaxStreams:
		return fmt.Errorf("--streams %d: from 1 to %d", t.Streams, MaxStreams)
	case t.For < MinFor || t.For > MaxFor:
		return fmt.Errorf("--for %v: from %v to %v", t.For, MinFor, MaxFor)
	case t.Every < MinEvery || t.Every > MaxFor:
		return fmt.Errorf("--every %v: from %v to %v", t.Every, MinEvery, MaxFor)
	case t.For/t.Every > MaxParts:
		return fmt.Errorf("--every %v for %v makes more than %d intervals: use longer ones",
			t.Every, t.For, MaxParts)
	case t.Kind == Stream && (t.Size < 1 || t.Size > MaxSize):
		return fmt.Errorf("--size %d: from 1 to %d bytes per write", t.Size, MaxSize)
	case t.Kind == Exchange && (t.Ask < 1 || t.Answer < 1 || t.Ask > MaxSize || t.Answer > MaxSize):
		return fmt.Errorf("--size %d,%d: requests and responses have from 1 to %d bytes", t.Ask,
			t.Answer, MaxSize)
	case t.Window < 0 || t.Window > MostWindow || t.Window > 0 && t.Window < 1024:
		return fmt.Errorf("--window %d: from 1KiB to 1GiB", t.Window)
	case !(t.Rate >= 0) || t.Rate > 1e15 || !(t.Pace >= 0) || t.Pace > 1e9:
		return fmt.Errorf("--rate: not a valid rate")
	case t.Rate > 0 && t.Rate < 8000:
		return fmt.Errorf("--rate %g bit/s: from 8kbit/s", t.Rate)
	case t.Pace > 0 && t.Pace < 0.1:
		return fmt.Errorf("--rate %g/s: from 0.1/s", t.Pace)
	case len(t.Congestion) > 15 || strings.ContainsAny(t.Congestion, "/\x00 \n"):
		return fmt.Errorf("--congestion %q: not the name of an algorithm", t.Congestion)
	}
	return nil
}

// checkDatagrams returns an error for a test over UDP, or with a connection for each exchange, that
// can't be run.
func (t *Test) checkDatagrams() error {
	switch {
	case t.Connect && (t.Kind != Exchange || t.UDP):
		return fmt.Errorf("a connection for each transaction is of requests over TCP")
	case !t.UDP:
		return nil
	case t.Kind == Stream && (t.Size < datagramHead || t.Size > maxDatagram):
		return fmt.Errorf("--size %d: from %d to %d bytes per datagram", t.Size, datagramHead,
			maxDatagram)
	case t.Ask > maxDatagram || t.Answer > maxDatagram:
		return fmt.Errorf("--size %d,%d: at most %d bytes per datagram", t.Ask, t.Answer,
			maxDatagram)
	case t.Congestion != "" || t.NoDelay || t.Copy:
		return fmt.Errorf("--congestion, --nodelay and --copy are options of TCP")
	}
	return nil
}

// ways returns the directions of the test's traffic.
func (t *Test) ways() []Way {
	if t.Way == Both {
		return []Way{Up, Down}
	}
	return []Way{t.Way}
}

// connections returns the number of connections with traffic.
func (t *Test) connections() int { return t.Streams * len(t.ways()) }

// parts returns the number of intervals of a run; the last may be shorter.
func (t *Test) parts() int { return int((t.For + t.Every - 1) / t.Every) }
