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

// A side is one end of a run in progress.
type side struct {
	test    Test
	machine *Machine
	in      *threadSlots
	flows   []*flow
	began   time.Time

	threads sync.WaitGroup
	broken  chan *flow // the first flow that ended early
	device  string
	unknown map[string]string

	watch  *machineWatch
	report chan reported
	enough context.CancelFunc // ends the diagnosis
	taken  int                // number of the machine's ticks used so far

	clock    int64 // CPU time of the process at the reading before
	before   time.Duration
	losses   map[Way]lossCount
	moved    []uint64
	done     []uint64
	times    Latencies
	total    Part
	missed   uint64
	counters []*counter
	lates    []*counter
}

// flowOf returns the flow of a joined connection. client says which end this is.
func flowOf(c *net.TCPConn, t *Test, way Way, stream int, client bool) (*flow, error) {
	s, err := socketOf(c)
	if err != nil {
		return nil, err
	}
	f := &flow{socket: s, way: way, stream: stream, sends: client == (way == Up)}
	if err := s.configure(t, f.sends || t.Kind == Exchange); err != nil {
		s.close()
		return nil, err
	}
	return f, nil
}

// maxCounters bounds the memory of latencies: more connections share counters.
const maxCounters = 32

// newSide returns a side of flows between the addresses local and peer.
func newSide(t Test, m *Machine, in *threadSlots, flows []*flow, local, peer netip.Addr) *side {
	s := &side{test: t, machine: m, in: in, flows: flows, broken: make(chan *flow, 1),
		unknown: map[string]string{}, losses: map[Way]lossCount{}, report: make(chan reported, 1)}
	in.add(len(flows) + 1) // and one for the measuring thread
	if t.Kind == Exchange && flows[0].sends {
		for i, f := range flows {
			if i < maxCounters {
				s.counters, s.lates = append(s.counters, newCounter()), append(s.lates,
					newCounter())
			}
			f.times, f.late = s.counters[i%maxCounters], s.lates[i%maxCounters]
		}
	}
	switch {
	case m.Device == nil:
		s.unknown["wire"] = "this machine's interfaces are not known"
	default:
		device, err := m.Device(local.Unmap(), peer.Unmap())
		if s.device = device; err != nil {
			s.unknown["wire"] = printable(err.Error())
		}
	}
	return s
}

// A threadSlots raises GOMAXPROCS for threads that are nearly always in a system call. Each needs a
// processor of the runtime: with fewer, a returning thread waits up to 10 ms until another's is
// retaken.
type threadSlots struct{ sync.Mutex }

// add changes the number of threads. It respects the user's GOMAXPROCS.
func (c *threadSlots) add(threads int) {
	c.Lock()
	defer c.Unlock()
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)+threads))
	}
}

// begin starts the traffic.
func (s *side) begin(ctx context.Context) {
	looking, enough := context.WithCancel(ctx)
	s.enough = enough
	switch {
	case !s.test.Look:
		s.report <- reported{why: "it was not requested"}
	case s.machine.Diagnose == nil:
		s.report <- reported{why: "this machine can't be diagnosed"}
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
		f.last, _ = f.socket.info() // unknown values stay unknown
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

// reported is a diagnosis, or the reason why there is none.
type reported struct {
	report json.RawMessage
	why    string
}

// errBroken means that traffic ended early.
var errBroken = errors.New("traffic broke off")

// measure calls each for each interval until the test's time is over, the context ends or a
// connection breaks. Then total contains the whole run.
func (s *side) measure(ctx context.Context, each func(*Part)) (err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	s.total = Part{CPU: noUsage()}
	for n := 1; n <= s.test.parts() && err == nil; n++ {
		timer.Reset(
			time.Until(s.began.Add(min(measure.Span(n)*s.test.Every, s.test.For).AsDuration())),
		)
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
			wait := min(s.test.Every/2, maxLag).AsDuration()
			p.CPU.fill(usage(s.watch.waitForTick(ctx, s.taken, n, wait)))
			s.taken = n
		}
		each(p)
	}
	s.enough()
	s.watch.stop()
	return err
}

// maxLag is how much later than an interval the machine's numbers may arrive; later ones are
// missing in it.
const maxLag = 300 * measure.Millisecond

// part returns the numbers since the reading before, and adds them to the total.
func (s *side) part(n int) *Part {
	now := time.Since(s.began)
	p := &Part{N: n, From: measure.Span(s.before), To: measure.Span(now), CPU: noUsage()}
	over := float64(now - s.before)
	for _, way := range s.test.ways() {
		t := Traffic{Way: way, Retransmits: unknown(), Segments: unknown(), RTT: unknown(),
			LeastRTT: unknown(), Cwnd: unknown(), Busy: unknown(), Rwnd: unknown(),
			Sndbuf: unknown()}
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
			if s.test.hasPorts() {
				continue
			}
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
		if s.test.hasPorts() {
			t.UDP = s.datagrams(way, &t)
			if s.test.Kind == Stream {
				t.Exchanges = 0
			}
		}
		if infos == s.test.Streams {
			t.Retransmits, t.Segments = Number(sum.retransmits), Number(sum.segments)
			t.RTT, t.Cwnd = Number(sum.rtt)/Number(infos), Number(sum.cwnd)
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

// datagrams returns the numbers of a direction over UDP since the reading before.
func (s *side) datagrams(way Way, t *Traffic) *Datagrams {
	d := &Datagrams{Lost: unknown(), Reordered: unknown(), Jitter: unknown()}
	flows, jitter, now := 0, 0., lossCount{}
	for _, f := range s.flows {
		if f.way != way || f.sends != (s.test.Kind == Exchange) {
			continue
		}
		flows++
		now.lost += f.datagrams.lost.Load()
		now.reordered += f.datagrams.reordered.Load()
		jitter += float64(f.datagrams.jitter.Load())
	}
	d.Count = t.Exchanges
	if flows == 0 {
		return d
	}
	before := s.losses[way]
	s.losses[way] = now
	d.Lost = Number(now.lost - before.lost)
	if s.test.Kind == Stream {
		d.Reordered = Number(now.reordered - before.reordered)
		d.Jitter = Number(jitter / float64(flows))
	}
	return d
}

// lossCount is what has been lost and reordered so far.
type lossCount struct{ lost, reordered int64 }

// threadUse returns the CPUs used by traffic threads since the reading before: their sum and the
// busiest.
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

// settle waits, at most for limit, until the other side ends traffic. The end that closes first
// breaks traffic for the other.
func (s *side) settle(limit time.Duration) {
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
	case <-time.After(limit):
	}
}

// halt ends traffic, also at the other side, and waits for all threads.
func (s *side) halt() {
	for _, f := range s.flows {
		f.end()
	}
	s.threads.Wait()
	for _, f := range s.flows {
		s.missed += f.missed.Load()
	}
}

// close closes the connections, after halt if necessary.
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

// maxDiagnosis is the time limit of a diagnosis after the end of its interval.
const maxDiagnosis = 10 * time.Second

// end returns the numbers of the whole run, after the end of traffic.
func (s *side) end() *End {
	ticks, notes, why := s.watch.end()
	ticks = ticks[:min(len(ticks), s.test.parts())]
	s.total.CPU.fill(usage(ticks))
	e := &End{Host: s.machine.Host, Machine: s.machine.ID, Total: s.total, Device: s.device,
		Wire: []Wire{}, Unknown: s.unknown, Notes: append([]string{}, notes...)}
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
		if (f.sends || s.test.Kind == Exchange) && !s.test.hasPorts() {
			e.Congestion = f.socket.congestion()
			break
		}
	}
	select {
	case r := <-s.report:
		if e.Report = r.report; r.why != "" {
			s.unknown["diagnosis"] = r.why
		}
	case <-time.After(maxDiagnosis):
		s.unknown["diagnosis"] = "it took too long"
	}
	return e
}
