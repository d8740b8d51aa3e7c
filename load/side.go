package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Part is what one end measured in one interval, or in the whole of a run.
type Part struct {
	N       int          `json:"n"` // from 1; 0: the whole
	From    measure.Span `json:"from_ns"`
	To      measure.Span `json:"to_ns"` // since traffic began at this end
	Traffic []Traffic    `json:"traffic"`
	Times   *Latencies   `json:"times,omitempty"` // of exchanges, at the end that asks
	Late    *Latencies   `json:"late,omitempty"`  // of those that are paced: how late they began without a response that was waited for
	Missed  uint64       `json:"missed,omitempty"`
	CPU     Usage        `json:"cpu"`
}

// Traffic is what flowed in one direction. What the kernel does not tell is null.
type Traffic struct {
	Way         Way    `json:"way"`
	Sends       bool   `json:"sends"`     // this end sends; what of the kernel's view of a connection follows is known there
	Bytes       uint64 `json:"bytes"`     // received or, at the end that sends, given to the kernel
	Exchanges   uint64 `json:"exchanges"` // that ended
	Retransmits Number `json:"retransmits"`
	Segments    Number `json:"segments"`     // with data, sent
	RTT         Number `json:"rtt_ns"`       // smoothed, at the end of the interval; of the whole the mean of the intervals
	LeastRTT    Number `json:"min_rtt_ns"`   //
	Cwnd        Number `json:"cwnd_bytes"`   // of all connections together, as RTT
	Busy        Number `json:"busy"`         // share of the time with data under way, mean of the connections
	Rwnd        Number `json:"rwnd_limited"` // of that, stopped by the receiver's window
	Sndbuf      Number `json:"sndbuf_limited"`
}

// Seconds gives the length of the part.
func (p *Part) Seconds() float64 { return (p.To - p.From).Seconds() }

// way gives what flowed in a direction, nil when nothing was to.
func (p *Part) way(w Way) *Traffic {
	for i := range p.Traffic {
		if p.Traffic[i].Way == w {
			return &p.Traffic[i]
		}
	}
	return nil
}

func (p *Part) check() error {
	if p.N < 0 || p.N > MostParts+1 || p.From < 0 || p.To < p.From || len(p.Traffic) > 2 || len(p.CPU.Modes) > 64 {
		return errors.New("an interval that can't be")
	}
	for _, l := range []*Latencies{p.Times, p.Late} {
		if l != nil && !l.sound() {
			return errors.New("a distribution that can't be")
		}
	}
	return nil
}

// End is what one end measured in the whole of a run.
type End struct {
	Host       string            `json:"host"`
	Machine    string            `json:"machine"` // Machine.ID
	Address    string            `json:"address"` // of its end of the connections
	Total      Part              `json:"total"`
	Device     string            `json:"device,omitempty"` // through which its packets leave
	Wire       []Wire            `json:"wire"`
	Congestion string            `json:"congestion,omitempty"` // of its connections that send
	Report     json.RawMessage   `json:"diagnosis"`            // as culprit diagnose --json prints it; null: there is none
	Unknown    map[string]string `json:"unknown"`              // why what is null is: cpu, wire, diagnosis
	Notes      []string          `json:"notes"`
}

func (e *End) check() error {
	if len(e.Wire) > 2 || len(e.Unknown) > 16 || len(e.Notes) > 64 {
		return errors.New("an end that can't be")
	}
	return e.Total.check()
}

// A side is one end of a run, while it goes on.
type side struct {
	test    Test
	machine *Machine
	in      *crowd
	flows   []*flow
	began   time.Time

	threads sync.WaitGroup
	broken  chan *flow // the first that ended before it was to
	device  string
	unknown map[string]string

	watch  *watching
	report chan reported
	enough context.CancelFunc // ends the diagnosis
	taken  int                // ticks of the machine told so far

	clock    int64 // of the process, at the reading before
	before   time.Duration
	moved    []uint64
	done     []uint64
	times    Latencies
	total    Part
	missed   uint64
	counters []*counter
	lates    []*counter
}

// flowOf makes the flow of a connection that has been joined. client says at which end it is.
func flowOf(c *net.TCPConn, t *Test, way Way, stream int, client bool) (*flow, error) {
	s, err := socketOf(c)
	if err != nil {
		return nil, err
	}
	f := &flow{socket: s, way: way, stream: stream, sends: client == (way == Up)}
	if err := s.arrange(t, f.sends || t.Kind == Exchange); err != nil {
		s.close()
		return nil, err
	}
	return f, nil
}

// mostCounters bounds the memory of latencies: beyond it connections share theirs.
const mostCounters = 32

// newSide makes a side of its flows. local and peer are the addresses that they are between.
func newSide(t Test, m *Machine, in *crowd, flows []*flow, local, peer netip.Addr) *side {
	s := &side{test: t, machine: m, in: in, flows: flows, broken: make(chan *flow, 1), unknown: map[string]string{}, report: make(chan reported, 1)}
	in.add(len(flows) + 1) // and one for what measures them
	if t.Kind == Exchange && flows[0].sends {
		for i, f := range flows {
			if i < mostCounters {
				s.counters, s.lates = append(s.counters, newCounter()), append(s.lates, newCounter())
			}
			f.times, f.late = s.counters[i%mostCounters], s.lates[i%mostCounters]
		}
	}
	switch {
	case m.Device == nil:
		s.unknown["wire"] = "nothing tells of this machine's interfaces"
	default:
		device, err := m.Device(local.Unmap(), peer.Unmap())
		if s.device = device; err != nil {
			s.unknown["wire"] = printable(err.Error())
		}
	}
	return s
}

// A crowd makes room in the runtime for threads that are in a system call nearly always. Each wants a processor of its own: with fewer, one that comes back would wait until
// another thread's is taken away, up to 10 ms.
type crowd struct{ sync.Mutex }

// add counts threads in, or out. What the user sets in GOMAXPROCS stands.
func (c *crowd) add(threads int) {
	c.Lock()
	defer c.Unlock()
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)+threads))
	}
}

// begin lets traffic flow.
func (s *side) begin(ctx context.Context) {
	looking, enough := context.WithCancel(ctx)
	s.enough = enough
	switch {
	case !s.test.Look:
		s.report <- reported{why: "it was not asked for"}
	case s.machine.Diagnose == nil:
		s.report <- reported{why: "nothing diagnoses this machine"}
	default:
		go func() {
			r, err := s.machine.Diagnose(looking, s.test.For)
			if err != nil {
				s.report <- reported{why: printable(err.Error())}
				return
			}
			s.report <- reported{report: r}
		}()
	}
	for _, f := range s.flows {
		f.last, _ = f.socket.info() // what is not known stays so
	}
	s.moved, s.done = make([]uint64, len(s.flows)), make([]uint64, len(s.flows))
	var ready sync.WaitGroup
	begin := make(chan struct{})
	for _, f := range s.flows {
		ready.Add(1)
		s.threads.Go(func() {
			f.prepare()
			ready.Done()
			<-begin
			f.run(&s.test, s.began)
			if f.err != nil {
				select {
				case s.broken <- f:
				default:
				}
			}
		})
	}
	ready.Wait()
	s.watch = s.machine.watch(ctx, s.device, s.test.Every)
	s.clock, _ = clockTime(unix.CLOCK_PROCESS_CPUTIME_ID)
	s.began = time.Now()
	close(begin)
}

// reported is a diagnosis, or why there is none.
type reported struct {
	report json.RawMessage
	why    string
}

// errBroken says that traffic ended before it was to.
var errBroken = errors.New("traffic broke off")

// measure tells each interval until the test's time is over, or the context, or a connection. The whole is in total then.
func (s *side) measure(ctx context.Context, each func(*Part)) (err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	s.total = Part{CPU: noUsage()}
	for n := 1; n <= s.test.parts() && err == nil; n++ {
		timer.Reset(time.Until(s.began.Add(min(measure.Span(n)*s.test.Every, s.test.For).AsDuration())))
		select {
		case <-timer.C:
		case f := <-s.broken:
			err = fmt.Errorf("%w: %w", errBroken, f.err)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		p := s.part(n)
		if p.To-p.From < measure.Millisecond && err != nil {
			break
		}
		if err == nil {
			p.CPU.fill(usage(s.watch.upTo(ctx, s.taken, n, min(s.test.Every/2, mostLag).AsDuration())))
			s.taken = n
		}
		each(p)
	}
	s.enough()
	s.watch.stop()
	return err
}

// mostLag is how much longer than its interval the machine's numbers may take; then the interval is told without.
const mostLag = 300 * measure.Millisecond

// fill takes the machine's part of another usage.
func (u *Usage) fill(m Usage) {
	u.Machine, u.Of, u.Modes, u.Busiest, u.Share = m.Machine, m.Of, m.Modes, m.Busiest, m.Share
}

// part reads what flowed since the reading before, and adds it to the total.
func (s *side) part(n int) *Part {
	now := time.Since(s.began)
	p := &Part{N: n, From: measure.Span(s.before), To: measure.Span(now), CPU: noUsage()}
	over := float64(now - s.before)
	for _, way := range s.test.ways() {
		t := Traffic{Way: way, Retransmits: unknown(), Segments: unknown(), RTT: unknown(), LeastRTT: unknown(), Cwnd: unknown(), Busy: unknown(), Rwnd: unknown(), Sndbuf: unknown()}
		infos, limits := 0, 0
		var sum struct{ retransmits, segments, rtt, cwnd, busy, rwnd, sndbuf float64 }
		for i, f := range s.flows {
			if f.way != way {
				continue
			}
			moved, done := f.moved.Load(), f.done.Load()
			t.Bytes, t.Exchanges = t.Bytes+moved-s.moved[i], t.Exchanges+done-s.done[i]
			s.moved[i], s.done[i] = moved, done
			if !f.sends && s.test.Kind == Stream {
				continue
			}
			t.Sends = true
			now, err := f.socket.info()
			if err != nil || now.size < infoRetransmits {
				continue
			}
			infos++
			sum.retransmits += float64(now.Total_retrans - f.last.Total_retrans)
			sum.segments += float64(now.Data_segs_out - f.last.Data_segs_out)
			sum.rtt += float64(now.Rtt) * 1e3
			sum.cwnd += float64(now.Snd_cwnd) * float64(now.Snd_mss)
			if least := Number(now.Min_rtt) * 1e3; now.Min_rtt > 0 && !(t.LeastRTT <= least) {
				t.LeastRTT = least
			}
			if now.size >= infoLimits {
				limits++
				sum.busy += float64(now.Busy_time-f.last.Busy_time) * 1e3
				sum.rwnd += float64(now.Rwnd_limited-f.last.Rwnd_limited) * 1e3
				sum.sndbuf += float64(now.Sndbuf_limited-f.last.Sndbuf_limited) * 1e3
			}
			f.last = now
		}
		if infos == s.test.Streams {
			t.Retransmits, t.Segments, t.RTT, t.Cwnd = Number(sum.retransmits), Number(sum.segments), Number(sum.rtt)/Number(infos), Number(sum.cwnd)
		}
		if limits == s.test.Streams && over > 0 {
			of := func(ns float64) Number { return Number(min(ns/over/float64(limits), 1)) }
			t.Busy, t.Rwnd, t.Sndbuf = of(sum.busy), of(sum.rwnd), of(sum.sndbuf)
		}
		p.Traffic = append(p.Traffic, t)
	}
	if s.counters != nil {
		now := gather(s.counters)
		part := now.since(s.times)
		p.Times, s.times = &part, now
	}
	if clock, ok := clockTime(unix.CLOCK_PROCESS_CPUTIME_ID); ok && over > 0 {
		p.CPU.Process = Number(float64(clock-s.clock) / over)
		s.clock = clock
	}
	p.CPU.Traffic, p.CPU.Thread = s.threadUse(over)
	s.before = now
	s.total.add(p)
	return p
}

// threadUse gives the CPUs that the threads of traffic took since the reading before, all and the busiest one.
func (s *side) threadUse(over float64) (all, most Number) {
	if over <= 0 {
		return unknown(), unknown()
	}
	for _, f := range s.flows {
		tid := f.tid.Load()
		now, ok := clockTime(threadClock(int(tid)))
		if tid == 0 || !ok {
			return unknown(), unknown()
		}
		now -= f.had.Load()
		use := Number(float64(now-f.cpu) / over)
		all, most = all+use, max(most, use)
		f.cpu = now
	}
	return all, most
}

// add adds a part to the whole before it. What is known of all its parts alone is known of the whole.
func (p *Part) add(o *Part) {
	a, b := Number(p.Seconds()), Number(o.Seconds())
	mean := func(x *Number, y Number) {
		if a > 0 {
			y = (*x*a + y*b) / (a + b)
		}
		*x = y
	}
	if len(p.Traffic) == 0 {
		p.Traffic = append(p.Traffic, o.Traffic...)
	} else {
		for i := range p.Traffic {
			t, u := &p.Traffic[i], &o.Traffic[i]
			t.Bytes, t.Exchanges = t.Bytes+u.Bytes, t.Exchanges+u.Exchanges
			t.Retransmits, t.Segments = t.Retransmits+u.Retransmits, t.Segments+u.Segments
			mean(&t.RTT, u.RTT)
			mean(&t.Cwnd, u.Cwnd)
			mean(&t.Busy, u.Busy)
			mean(&t.Rwnd, u.Rwnd)
			mean(&t.Sndbuf, u.Sndbuf)
			if !(t.LeastRTT <= u.LeastRTT) {
				t.LeastRTT = u.LeastRTT
			}
		}
	}
	mean(&p.CPU.Process, o.CPU.Process)
	mean(&p.CPU.Traffic, o.CPU.Traffic)
	mean(&p.CPU.Thread, o.CPU.Thread)
	p.To = o.To
}

// settle waits until the other side has ended traffic, at most so long: who ends it first breaks it off for the other one.
func (s *side) settle(most time.Duration) {
	for _, f := range s.flows {
		f.over.Store(true)
	}
	done := make(chan struct{})
	go func() {
		s.threads.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(most):
	}
}

// halt ends traffic, also at the other side, and waits until no thread is left.
func (s *side) halt() {
	for _, f := range s.flows {
		f.end()
	}
	s.threads.Wait()
	for _, f := range s.flows {
		s.missed += f.missed.Load()
	}
}

// close is the end of the connections, if need be after halt.
func (s *side) close() {
	for _, f := range s.flows {
		f.end()
	}
	s.threads.Wait()
	for _, f := range s.flows {
		f.socket.close()
	}
	s.in.add(-len(s.flows) - 1)
}

// mostDiagnosis is how long a diagnosis may take when the time that it is of is over.
const mostDiagnosis = 10 * time.Second

// end gives what was measured in all. Traffic is over then.
func (s *side) end() *End {
	ticks, notes, why := s.watch.end()
	ticks = ticks[:min(len(ticks), s.test.parts())]
	s.total.CPU.fill(usage(ticks))
	e := &End{Host: s.machine.Host, Machine: s.machine.ID, Total: s.total, Device: s.device, Wire: []Wire{}, Unknown: s.unknown, Notes: append([]string{}, notes...)}
	if s.counters != nil {
		times := gather(s.counters).trimmed()
		e.Total.Times = &times
		if s.test.Pace > 0 {
			late := gather(s.lates).trimmed()
			e.Total.Late, e.Total.Missed = &late, s.missed
		}
	}
	if why != "" {
		s.unknown["cpu"] = why
	}
	if s.device != "" {
		e.Wire = wires(ticks)
	}
	for _, f := range s.flows {
		if f.sends || s.test.Kind == Exchange {
			e.Congestion = f.socket.congestion()
			break
		}
	}
	select {
	case r := <-s.report:
		if e.Report = r.report; r.why != "" {
			s.unknown["diagnosis"] = r.why
		}
	case <-time.After(mostDiagnosis):
		s.unknown["diagnosis"] = "it took too long"
	}
	return e
}
