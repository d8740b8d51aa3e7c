package load

import (
	"context"
	"net"
	"sync"
	"time"

	"culprit/measure"
)

// Interval contains the numbers of both ends for one interval. There is nil without the server's
// numbers.
type Interval struct {
	Run   int              `json:"run"` // from 1
	N     int              `json:"n"`   // from 1
	Over  measure.Interval `json:"-"`   // by this end's clock
	Here  *Part            `json:"here"`
	There *Part            `json:"there"`

	reported bool // to the caller of Run
	foreign  bool // the server reports no intervals: throughput is what this end has moved
}

// Run runs a test once. It calls each for each interval when both ends have reported it, from one
// goroutine. number is the number of the run, from 1. When the run ends early - the context ended,
// a connection broke - it returns the intervals so far with the error; without any interval the run
// is nil.
func (s *Session) Run(ctx context.Context, number int, t Test, each func(*Interval)) (*Run, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	if err := s.write(&message{Test: &t}); err != nil {
		return nil, s.explain(ctx, s.cause(err))
	}
	m, err := s.next(ctx, dialWait)
	if err != nil {
		return nil, err
	}
	if m.Ready == nil {
		return nil, s.explain(ctx, errNotProtocol)
	}
	join := s.join
	if t.hasPorts() {
		join = s.joinPorts
	}
	flows, err := join(ctx, &t, m.Ready)
	if err != nil {
		s.Close() // otherwise the server waits for the other connections
		return nil, err
	}
	side := newSide(t, &s.c.Machine, &s.threads, flows, addressOf(s.conn.LocalAddr()),
		addressOf(s.conn.RemoteAddr()))
	defer side.close()
	if m, err = s.next(ctx, joinWait+dialWait); err != nil {
		return nil, err
	}
	if m.Joined == nil {
		return nil, s.explain(ctx, errNotProtocol)
	}
	if err := s.write(&message{Begin: &nothing{}}); err != nil {
		return nil, s.explain(ctx, s.cause(err))
	}
	return s.follow(ctx, number, &t, side, each)
}

// cause returns the error of a failed write: the server's refusal before it closed the connection,
// if there was one.
func (s *Session) cause(err error) error {
	if m, e := s.from.next(context.Background(), 100*time.Millisecond); e == nil &&
		m.Refused != nil {
		return s.refused(m.Refused)
	}
	return err
}

// settleWait is the time limit for the end of traffic on the server, after the client measured all.
// Its last interval may end later.
const settleWait = 2 * time.Second

// follow runs traffic and combines the intervals of both ends.
func (s *Session) follow(ctx context.Context, number int, t *Test, side *side, each func(*Interval),
) (*Run, error) {
	run := &Run{N: number, Intervals: []*Interval{}}
	going, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	type own struct {
		part *Part
		at   measure.Time
	}
	parts, ended := make(chan own, t.parts()+1), make(chan error, 1)
	run.Start = measure.Time(time.Now().UnixNano())
	side.begin(context.WithoutCancel(ctx))
	go func() {
		ended <- side.measure(going, func(p *Part) {
			parts <- own{p, measure.Time(time.Now().UnixNano())}
		})
	}()
	var there []*Part
	tell := func(all bool) {
		for n := range run.Intervals {
			one := run.Intervals[n]
			if one.reported || !all && n >= len(there) {
				continue
			}
			if n < len(there) {
				one.There = there[n]
			}
			one.reported = true
			each(one)
		}
	}
	keep := func(o own) {
		run.Intervals = append(
			run.Intervals,
			&Interval{Run: number, N: o.part.N, Here: o.part,
				Over: measure.Interval{Start: o.at.Add(o.part.From - o.part.To), End: o.at}},
		)
		tell(false)
	}
	var failed error
	measured, limit := false, time.NewTimer(t.For.AsDuration()+endWait)
	defer limit.Stop()
	for failed == nil && (!measured || len(there) < t.parts()) {
		select {
		case o := <-parts:
			keep(o)
		case err := <-ended:
			if measured = true; err != nil {
				failed = err
			}
			for len(parts) > 0 {
				keep(<-parts)
			}
		case m := <-s.from.messages:
			switch {
			case m.Part != nil && m.Part.N == len(there)+1:
				there = append(there, m.Part)
				tell(false)
			case m.Refused != nil:
				failed = s.refused(m.Refused)
			default:
				failed = errNotProtocol
			}
		case <-s.from.gone.Done():
			failed = s.explain(ctx, context.Cause(s.from.gone))
		case <-limit.C:
			failed = s.explain(ctx, errQuiet)
		}
	}
	if !measured {
		stop(failed)
		<-ended
		for len(parts) > 0 {
			keep(<-parts)
		}
	}
	// A run that was stopped still gets the server's numbers.
	asked := s.from.gone.Err() == nil && s.write(&message{Stop: &nothing{}}) == nil
	if asked && !t.hasPorts() {
		side.settle(settleWait)
	}
	side.halt()
	run.Here = side.end()
	run.Here.Address = printable(s.conn.LocalAddr().String())
	for asked && run.There == nil {
		m, err := s.next(context.WithoutCancel(ctx), maxDiagnosis+dialWait)
		switch {
		case err != nil:
			asked = false
			if failed == nil {
				failed = err
			}
		case m.End != nil:
			run.There = m.End
		case m.Part != nil && m.Part.N == len(there)+1 && len(there) < t.parts():
			there = append(there, m.Part)
		default:
			asked = false
		}
	}
	tell(true)
	if failed != nil {
		if run.Early = printable(failed.Error()); ctx.Err() != nil {
			run.Early = "it was stopped"
		}
		if len(run.Intervals) == 0 {
			run = nil
		}
		return run, failed
	}
	return run, nil
}

// maxDials is the number of connections that are opened at the same time.
const maxDials = 32

// join opens the connections of a test.
func (s *Session) join(ctx context.Context, t *Test, r *ready) ([]*flow, error) {
	places := t.places()
	flows, errs := make([]*flow, len(places)), make([]error, len(places))
	d := s.c.dialer(t)
	var all sync.WaitGroup
	dials := make(chan struct{}, maxDials)
	for i, p := range places {
		dials <- struct{}{}
		all.Go(func() {
			defer func() { <-dials }()
			c, err := d.DialContext(ctx, "tcp", s.Server)
			if err != nil {
				errs[i] = s.c.unreachable(s.Server, err)
				return
			}
			m := &message{Join: &join{ID: r.ID, Way: p.way, Stream: p.stream}}
			if err := writeMessage(c, m); err != nil {
				c.Close()
				errs[i] = s.explain(ctx, err)
				return
			}
			tcp, ok := c.(*net.TCPConn)
			if !ok {
				c.Close()
				errs[i] = s.explain(ctx, errNotProtocol)
				return
			}
			flows[i], errs[i] = flowOf(tcp, t, p.way, p.stream, true)
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			for _, f := range flows {
				if f != nil {
					f.socket.close()
				}
			}
			return nil, err
		}
	}
	return flows, nil
}
