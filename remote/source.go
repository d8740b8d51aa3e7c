package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"culprit/measure"
	"culprit/wire"
)

// Source is a source of the recorder. It implements measure.Meter and measure.ProblemReporter.
type Source struct {
	client *Client
	stats  []measure.Stat
	// external: its programs run in the context of other processes
	external bool

	mu      sync.Mutex // guards the fields below
	number  uint32     // of the recorder's source; that of a script may change
	costs   []counter
	outside counter
	before  map[measure.Span]*link // connection of the newest run of each step

	problems []measure.Problem
}

func newSource(c *Client, number uint32, stats []measure.Stat) *Source {
	return &Source{
		client: c, number: number, stats: stats,
		costs: make([]counter, len(stats)), before: map[measure.Span]*link{},
	}
}

// Stats implements measure.Source.
func (s *Source) Stats() []measure.Stat { return s.stats }

// Cost implements measure.Meter.
func (s *Source) Cost(id measure.StatID) measure.Span {
	i := slices.IndexFunc(s.stats, func(st measure.Stat) bool { return st.ID == id })
	if i < 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.costs[i].sum
}

// ExternalSource is a source whose programs in the kernel run in the context of other processes. It
// implements measure.ExternalMeter.
type ExternalSource struct{ *Source }

// ExternalCost implements measure.ExternalMeter.
func (s ExternalSource) ExternalCost() measure.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outside.sum
}

// Problems implements measure.ProblemReporter.
func (s *Source) Problems() []measure.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problems
}

// RestartError means that the recorder ended during a run and runs again. Another run continues.
type RestartError struct{}

// Error returns what happened.
func (RestartError) Error() string { return "the recorder ended and was started again" }

// Restarted reports that a run can be started again at once.
func (RestartError) Restarted() bool { return true }

// noteRestarted is a note of the first tick after the recorder was started again.
const noteRestarted = "the recorder was started again: seconds before this one are missing"

// durable is how old a tick is when the archive has it on disk: see dataset.Archive.
const durable = 3 * time.Second

// ownRole is the role of the server itself, which runs sources for all its datasets at once. Its
// check of the token comes before: making a dataset needs the role record.
const ownRole = RoleRecord

// Run implements measure.Source. The error is a RestartError when the recorder ended and runs
// again. A run whose queries are those of a run of an earlier client continues it: its first ticks
// are those that the earlier client did not acknowledge, which may have been stored.
func (s *Source) Run(ctx context.Context, queries []measure.Query, sink measure.Sink) error {
	if len(queries) == 0 {
		<-ctx.Done()
		return nil
	}
	s.mu.Lock()
	number := s.number
	s.mu.Unlock()
	q := runRequest{role: ownRole, source: number, queries: queries}
	if err := q.role.mayRun(); err != nil {
		return err
	}
	a, err := s.client.call(ctx, kindRun, func(b []byte, id uint32) []byte {
		q.id = id
		return q.append(b)
	})
	if err != nil {
		return s.restarted(ctx, err)
	}
	defer a.end()
	s.mu.Lock()
	before := s.before[queries[0].Step]
	s.before[queries[0].Step] = a.link
	s.mu.Unlock()
	r := running{
		source: s, call: a, sink: sink, t: tickDecoder{stats: s.stats},
		again: before != nil && before != a.link,
	}
	return s.restarted(ctx, r.run(ctx))
}

// restarted returns a RestartError once the recorder that has gone runs again; nil when the context
// has ended; any other error as it is.
func (s *Source) restarted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	if !errors.Is(err, errGone) {
		return err
	}
	if _, err := s.client.connected(ctx); err != nil {
		return nil
	}
	return RestartError{}
}

// running is a run of a source at the recorder.
type running struct {
	source *Source
	call   *call
	sink   measure.Sink
	t      tickDecoder
	again  bool // the recorder was started again since the last run
	taken  []taken
}

// taken is a tick that the sink took.
type taken struct {
	number uint64
	at     time.Time
}

// stopTime is how long a run is waited for after it was asked to stop.
const stopTime = 5 * time.Second

// run passes ticks to the sink. It returns nil when the context has ended and the recorder has
// stopped, after a tick in progress has finished. After Client.Leave the recorder does not stop.
func (r *running) run(ctx context.Context) error {
	err := r.pass(ctx)
	if ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	if r.source.client.leaving.Load() {
		return nil
	}
	r.call.stop()
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return r.pass(rest)
}

// pass passes ticks to the sink until the run ends. The error is of the context, the connection,
// the source or the sink.
func (r *running) pass(ctx context.Context) error {
	for {
		m, err := r.call.next(ctx)
		if err != nil {
			return err
		}
		switch m.kind {
		case kindTick:
			got, err := r.t.decode(newDecoder(m.b))
			r.call.done(m)
			if err == nil {
				err = r.accept(got)
			}
			if err != nil {
				r.call.stop()
				return err
			}
		case kindEnded:
			d := newDecoder(m.b)
			err := d.error()
			r.call.done(m)
			if bad := d.End(); bad != nil {
				return bad
			}
			return err
		default:
			r.call.done(m)
			r.call.stop()
			return invalid("kind %d for a run", m.kind)
		}
	}
}

func (r *running) accept(got *reading) error {
	s := r.source
	s.mu.Lock()
	for _, c := range got.costs {
		s.costs[c.stat].set(r.call.link, c.cost)
	}
	s.outside.set(r.call.link, got.outside)
	s.mu.Unlock()
	if r.again {
		r.again = false
		for _, b := range got.batches {
			b.Notes = append(b.Notes, noteRestarted)
		}
	}
	if err := r.sink.Accept(got.batches); err != nil {
		return err
	}
	r.taken = append(r.taken, taken{got.number, time.Now()})
	n := 0
	for n < len(r.taken) && time.Since(r.taken[n].at) >= durable {
		n++
	}
	if n == 0 {
		return nil
	}
	number := r.taken[n-1].number
	r.taken = slices.Delete(r.taken, 0, n)
	err := r.call.link.send(kindAck, func(b []byte) []byte {
		return wire.AppendUint(wire.AppendUint(b, uint64(r.call.id)), number)
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}
