package load

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"time"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Iperf3Port is the default port of `iperf3 -s`.
const Iperf3Port = "5201"

// maxIperf3Streams is MAX_STREAMS of iperf3.
const maxIperf3Streams = 128

// Iperf3 runs streams over TCP or UDP against `iperf3 -s`, by the protocol of iperf 3.0 to 3.19.
// There is no specification: iperf_api.h, iperf_api.c and iperf_udp.c of iperf3 are it.
type Iperf3 struct {
	Client  // Token is not used: such a server has none
	threads threadSlots
}

// States of a test, one byte each on the control connection (iperf_api.h).
const (
	iperf3Start    = 1
	iperf3Running  = 2
	iperf3End      = 4
	iperf3Params   = 9
	iperf3Streams  = 10
	iperf3Gone     = 11 // the server terminates
	iperf3Results  = 13
	iperf3Display  = 14
	iperf3Done     = 16
	iperf3Error    = 254 // -2; two i32 follow: i_errno and errno
	iperf3Refused  = 255 // -1: another test runs
	iperf3Cookie   = 37  // letters and a 0, on each connection
	maxIperf3Reply = 1 << 20
)

// iperf3Parameters are those of a test, as JSON.
type iperf3Parameters struct {
	TCP        bool   `json:"tcp,omitempty"`
	UDP        bool   `json:"udp,omitempty"`
	Wide       int    `json:"udp_counters_64bit,omitempty"` // 1: numbers of datagrams have 64 bits
	Omit       int    `json:"omit"`
	Time       int    `json:"time"` // s
	Num        int    `json:"num"`
	Blocks     int    `json:"blockcount"`
	Parallel   int    `json:"parallel"`
	Reverse    bool   `json:"reverse,omitempty"`
	NoDelay    bool   `json:"nodelay,omitempty"`
	Window     int    `json:"window,omitempty"`
	Len        int    `json:"len"`
	Bandwidth  uint64 `json:"bandwidth,omitempty"` // bit/s of each stream
	Congestion string `json:"congestion,omitempty"`
	Pacing     int    `json:"pacing_timer"` // us
	Version    string `json:"client_version"`
}

// iperf3Result is what an end has measured, as JSON.
type iperf3Result struct {
	CPU    float64 `json:"cpu_util_total"` // % of one CPU, of the process
	User   float64 `json:"cpu_util_user"`
	System float64 `json:"cpu_util_system"`
	// 1, or -1 of a receiver, which iperf 3.12 writes as 1<<64 - 1.
	HasRetransmits float64             `json:"sender_has_retransmits"`
	Congestion     string              `json:"congestion_used,omitempty"`
	Streams        []iperf3StreamCount `json:"streams"`
}

// iperf3StreamCount is one stream in a result.
type iperf3StreamCount struct {
	ID          int     `json:"id"` // 1, 3, 4, 5 ...
	Bytes       uint64  `json:"bytes"`
	Retransmits float64 `json:"retransmits"` // -1, or a very large number: unknown
	Jitter      float64 `json:"jitter"`
	Errors      float64 `json:"errors"`
	Packets     float64 `json:"packets"`
	Start       float64 `json:"start_time"`
	End         float64 `json:"end_time"` // s
}

// CheckIperf3 returns an error for a test that iperf3 has not.
func (t *Test) CheckIperf3() error {
	switch {
	case t.Kind != Stream || t.Way == Both:
		return errors.New("--iperf3 runs streams in one direction")
	case t.Streams > maxIperf3Streams:
		return fmt.Errorf("--streams %d: iperf3 has at most %d", t.Streams, maxIperf3Streams)
	case t.Size > 1<<20:
		return fmt.Errorf("--size %d: iperf3 writes at most 1 MiB", t.Size)
	}
	return nil
}

// iperf3Run is one run in progress.
type iperf3Run struct {
	c       *Iperf3
	test    Test
	address string
	control net.Conn
	cookie  [iperf3Cookie]byte
	flows   []*flow
	states  chan byte
	failed  chan error // the control connection
}

// Run runs a test once, as Session.Run does, also when it ends early. The server reports its
// numbers at the end only: each Interval has those of this end. The error says that the test is not
// one of iperf3, that the server refuses, or that it is no such server.
func (c *Iperf3) Run(ctx context.Context, number int, t Test, each func(*Interval),
) (run *Run, err error) {
	if err := errors.Join(t.Check(), t.CheckIperf3()); err != nil {
		return nil, err
	}
	address, err := hostPort(c.Server, Iperf3Port)
	if err != nil {
		return nil, err
	}
	control, err := c.dialer(nil).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: is `iperf3 -s` running there? %w", address, err)
	}
	defer control.Close()
	defer context.AfterFunc(ctx, func() {
		control.SetDeadline(time.Unix(1, 0)) //nolint:errcheck // reading reports it
	})()
	r := &iperf3Run{c: c, test: t, address: control.RemoteAddr().String(), control: control,
		states: make(chan byte, 1), failed: make(chan error, 1)}
	copy(r.cookie[:], newSecret()+"load")
	if run, err = r.run(ctx, number, each); err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return run, err
}

// run does the states of the protocol one after the other.
func (r *iperf3Run) run(ctx context.Context, number int, each func(*Interval)) (*Run, error) {
	if _, err := r.control.Write(r.cookie[:]); err != nil {
		return nil, r.explain(err)
	}
	if err := r.expect(iperf3Params); err != nil {
		return nil, err
	}
	p := iperf3Parameters{
		TCP: !r.test.UDP, UDP: r.test.UDP, Time: int(math.Ceil(r.test.For.Seconds())),
		Parallel: r.test.Streams, Reverse: r.test.Way == Down, NoDelay: r.test.NoDelay, Window: r.test.Window,
		Len: r.test.Size, Congestion: r.test.Congestion, Pacing: 1000, Version: "3.12",
		Bandwidth: uint64(r.test.Rate / float64(r.test.Streams)),
	}
	if r.test.UDP {
		p.Wide = 1
	}
	if err := r.writeJSON(p); err != nil {
		return nil, r.explain(err)
	}
	if err := r.expect(iperf3Streams); err != nil {
		return nil, err
	}
	if err := r.connect(ctx); err != nil {
		for _, f := range withoutNil(r.flows) {
			f.socket.close()
		}
		return nil, err
	}
	local, _ := netip.ParseAddrPort(r.control.LocalAddr().String())
	peer, _ := netip.ParseAddrPort(r.address) // the zero address: no device is known
	side := newSide(r.test, &r.c.Machine, &r.c.threads, r.flows, local.Addr(), peer.Addr())
	defer side.close()
	for _, state := range []byte{iperf3Start, iperf3Running} {
		if err := r.expect(state); err != nil {
			return nil, err
		}
	}
	run := &Run{N: number, Intervals: []*Interval{}, Start: measure.Time(time.Now().UnixNano())}
	going, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go r.watch(stop)
	side.begin(context.WithoutCancel(ctx))
	err := side.measure(going, func(p *Part) {
		end := measure.Time(time.Now().UnixNano())
		i := &Interval{Run: number, N: p.N, Here: p, foreign: true,
			Over: measure.Interval{Start: end.Add(p.From - p.To), End: end}}
		run.Intervals = append(run.Intervals, i)
		each(i)
	})
	for _, f := range r.flows {
		f.over.Store(true)
	}
	var theirs *iperf3Result
	if err == nil {
		theirs, err = r.exchange(&side.total)
	}
	side.halt()
	run.Here = side.end()
	run.Here.Address = printable(r.control.LocalAddr().String())
	if err != nil {
		if run.Early = printable(err.Error()); len(run.Intervals) == 0 {
			return nil, err
		}
		return run, err
	}
	run.There = r.endOf(theirs)
	return run, nil
}

// connect opens the streams.
func (r *iperf3Run) connect(ctx context.Context) error {
	for n := range r.test.Streams {
		if r.test.UDP {
			f, err := r.connectDatagrams(ctx, n)
			if err != nil {
				return err
			}
			r.flows = append(r.flows, f)
			continue
		}
		conn, err := r.c.dialer(&r.test).DialContext(ctx, "tcp", r.address)
		if err == nil {
			_, err = conn.Write(r.cookie[:])
		}
		if err != nil {
			return r.explain(err)
		}
		f, err := flowOf(conn.(*net.TCPConn), &r.test, r.test.Way, n, true) // by "tcp"
		if err != nil {
			return err
		}
		r.flows = append(r.flows, f)
	}
	return nil
}

// Datagrams that open a stream over UDP: what the client sends and the server returns, in the order
// of the bytes of the client's and the server's machine (iperf.h; before 3.11 other numbers).
const iperf3Hello = 0x36373839

// connectDatagrams opens a stream over UDP. The server takes each datagram of a new port for a
// stream, so that the first one must not be repeated.
func (r *iperf3Run) connectDatagrams(ctx context.Context, n int) (*flow, error) {
	d := net.Dialer{}
	if r.c.Bind.IsValid() {
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.c.Bind, 0))
	}
	conn, err := d.DialContext(ctx, "udp", r.address)
	if err != nil {
		return nil, r.explain(err)
	}
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], iperf3Hello)
	_, err = conn.Write(b[:])
	if err == nil {
		conn.SetReadDeadline(time.Now().Add(joinWait)) //nolint:errcheck // reading reports it
		_, err = conn.Read(b[:])
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("no answer by UDP from the iperf3 server at %s: "+
			"is there a firewall in between? %w", r.address, err)
	}
	conn.SetReadDeadline(time.Time{})       //nolint:errcheck // as above
	at, _ := netip.ParseAddrPort(r.address) // of a connection
	f, err := datagramFlow(
		conn.(*net.UDPConn), at, &r.test, place{way: r.test.Way, stream: n}, true, // by "udp"
	)
	if err == nil {
		f.datagrams.iperf3 = true
	}
	return f, err
}

// watch reads the state that follows the traffic. One that comes before its end stops it.
func (r *iperf3Run) watch(stop context.CancelCauseFunc) {
	r.control.SetReadDeadline(time.Now().Add( //nolint:errcheck // reading reports it
		r.test.For.AsDuration() + endWait))
	state, err := r.readState()
	if err != nil {
		stop(err)
		r.failed <- err
		return
	}
	r.states <- state
	if state != iperf3Results {
		stop(r.unexpected(state))
	}
}

// exchange ends the traffic and exchanges the results.
func (r *iperf3Run) exchange(own *Part) (*iperf3Result, error) {
	if _, err := r.control.Write([]byte{iperf3End}); err != nil {
		return nil, r.explain(err)
	}
	select {
	case state := <-r.states:
		if state != iperf3Results {
			return nil, r.unexpected(state)
		}
	case err := <-r.failed:
		return nil, err
	}
	out := iperf3Result{HasRetransmits: 1, Streams: []iperf3StreamCount{}}
	if r.test.Way == Down {
		out.HasRetransmits = -1
	}
	for n, f := range r.flows {
		id := n + 2
		if n == 0 {
			id = 1
		}
		count := iperf3StreamCount{
			ID: id, Bytes: f.moved.Load(), Retransmits: -1, End: own.Seconds(),
		}
		if r.test.UDP {
			count.Packets = float64(f.done.Load())
			count.Errors = float64(f.datagrams.lost.Load())
			count.Jitter = float64(f.datagrams.jitter.Load()) / 1e9
		}
		out.Streams = append(out.Streams, count)
	}
	if err := r.writeJSON(out); err != nil {
		return nil, r.explain(err)
	}
	theirs := &iperf3Result{}
	if err := r.readJSON(theirs); err != nil {
		return nil, err
	}
	if err := r.expect(iperf3Display); err != nil {
		return nil, err
	}
	_, _ = r.control.Write([]byte{iperf3Done}) // all is known
	return theirs, nil
}

// datagrams returns the numbers of datagrams of the server. A sender knows how many it sent. It
// does not report those that arrived late.
func (v *iperf3Result) datagrams(receives bool) *Datagrams {
	d := &Datagrams{Lost: unknown(), Reordered: unknown(), Jitter: unknown()}
	packets, lost, jitter := 0., 0., 0.
	const most = 1 << 53
	for _, s := range v.Streams {
		if !(s.Packets >= 0 && s.Packets < most && s.Errors >= 0 && s.Errors <= s.Packets) {
			return d
		}
		packets, lost, jitter = packets+s.Packets, lost+s.Errors, jitter+s.Jitter
	}
	d.Count = uint64(packets)
	if !receives || len(v.Streams) == 0 {
		return d
	}
	// The receiver's count is the highest packet number, so it includes the lost packets.
	d.Count, d.Lost = uint64(packets-lost), Number(lost)
	if j := jitter / float64(len(v.Streams)); j >= 0 && j < 1e3 {
		d.Jitter = Number(j * 1e9)
	}
	return d
}

// endOf returns the server's numbers.
func (r *iperf3Run) endOf(theirs *iperf3Result) *End {
	const why = "iperf3 does not report it"
	t := Traffic{Way: r.test.Way, Sends: r.test.Way == Down, Retransmits: unknown(),
		Segments: unknown(), RTT: unknown(), LeastRTT: unknown(), Cwnd: unknown(), Busy: unknown(),
		Rwnd: unknown(), Sndbuf: unknown()}
	if r.test.UDP {
		t.UDP = theirs.datagrams(!t.Sends)
	}
	retransmits, seconds := 0., 0.
	for _, s := range theirs.Streams {
		t.Bytes += s.Bytes
		seconds = max(seconds, s.End-s.Start)
		if retransmits >= 0 && s.Retransmits >= 0 && s.Retransmits < 1<<53 {
			retransmits += s.Retransmits
		} else {
			retransmits = -1
		}
	}
	if t.Sends && theirs.HasRetransmits == 1 && retransmits >= 0 {
		t.Retransmits = Number(retransmits)
	}
	e := &End{Host: "iperf3", Address: printable(r.address), Wire: []Wire{}, Notes: []string{},
		Congestion: printable(theirs.Congestion),
		Unknown:    map[string]string{"cpu": why, "wire": why, "diagnosis": why}}
	e.Total = Part{Traffic: []Traffic{t}, CPU: noUsage()}
	if seconds > 0 && seconds < MaxFor.Seconds() {
		e.Total.To = measure.Span(seconds * 1e9)
	}
	if theirs.CPU >= 0 && theirs.CPU < 1e6 {
		e.Total.CPU.Process = Number(theirs.CPU / 100)
	}
	return e
}

// expect waits for a state.
func (r *iperf3Run) expect(want byte) error {
	r.control.SetReadDeadline(time.Now().Add(dialWait)) //nolint:errcheck // reading reports it
	state, err := r.readState()
	if err == nil && state != want {
		err = r.unexpected(state)
	}
	return err
}

func (r *iperf3Run) readState() (byte, error) {
	var b [1]byte
	if _, err := io.ReadFull(r.control, b[:]); err != nil {
		return 0, r.explain(err)
	}
	return b[0], nil
}

// unexpected returns the error of a state that does not fit.
func (r *iperf3Run) unexpected(state byte) error {
	switch state {
	case iperf3Refused:
		return fmt.Errorf("the iperf3 server at %s runs another test: try again later", r.address)
	case iperf3Gone:
		return fmt.Errorf("the iperf3 server at %s has ended", r.address)
	case iperf3Error:
		var codes [2]int32
		if err := binary.Read(r.control, binary.BigEndian, &codes); err != nil {
			return fmt.Errorf("the iperf3 server at %s reports an error", r.address)
		}
		text := ""
		if codes[1] > 0 && codes[1] < 4096 {
			text = ": " + unix.Errno(codes[1]).Error()
		}
		return fmt.Errorf("the iperf3 server at %s reports error %d%s", r.address, codes[0], text)
	}
	return fmt.Errorf("the program at %s is not iperf3 -s: it sent state %d", r.address, state)
}

// explain returns the error of a failed control connection.
func (r *iperf3Run) explain(err error) error {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("the program at %s does not answer as iperf3 -s does", r.address)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return fmt.Errorf("the iperf3 server at %s closed the connection", r.address)
	}
	return fmt.Errorf("talk to the iperf3 server at %s: %w", r.address, err)
}

// writeJSON writes a u32 length, most significant byte first, and JSON.
func (r *iperf3Run) writeJSON(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	r.control.SetWriteDeadline(time.Now().Add(writeWait)) //nolint:errcheck // as in greet
	_, err = r.control.Write(
		append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

func (r *iperf3Run) readJSON(v *iperf3Result) error {
	r.control.SetReadDeadline(time.Now().Add(dialWait)) //nolint:errcheck // reading reports it
	if err := readIperf3Result(r.control, v); err != nil {
		if errors.Is(err, errNotProtocol) {
			return fmt.Errorf("the program at %s is not iperf3 -s: %w", r.address, err)
		}
		return r.explain(err)
	}
	return nil
}

// readIperf3Result reads a result of at most maxIperf3Reply bytes. The error is errNotProtocol, or
// that of reading.
func readIperf3Result(from io.Reader, v *iperf3Result) error {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxIperf3Reply {
		return fmt.Errorf("%w: a result of %d bytes", errNotProtocol, n)
	}
	text, err := io.ReadAll(io.LimitReader(from, int64(n)))
	if err != nil {
		return err
	}
	if len(text) < int(n) {
		return io.ErrUnexpectedEOF
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%w: %w", errNotProtocol, err)
	}
	if len(v.Streams) > maxIperf3Streams {
		return fmt.Errorf("%w: %d streams", errNotProtocol, len(v.Streams))
	}
	return nil
}
