package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"culprit/dataset"
	"culprit/measure"
	"culprit/wire"
)

// Config says what a Recorder offers.
type Config struct {
	Sources []measure.Source
	// StartScript starts a D script; nil: there are none.
	StartScript dataset.Starter
	// Sample samples the CPUs; nil: it cannot.
	Sample func(context.Context, Sampling) (*Sampled, error)
	// Complete returns what may be written in a D program; nil: it cannot.
	Complete func(Completing) (*Completion, error)
	// Usage returns what the process takes.
	Usage func() Usage
}

// Limits of what a client may start.
const (
	maxRuns      = 64
	maxScripts   = 64
	maxSamplings = 2
	maxQueries   = 4096
)

// orphanTime is how long a new connection has to continue what an earlier one started.
const orphanTime = 30 * time.Second

// Recorder offers sources to one client at a time. Safe for concurrent use.
type Recorder struct {
	config Config

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu        sync.Mutex // guards the fields below, runs and scripts
	session   *session   // nil: no client is connected
	sources   map[uint32]*offered
	last      uint32 // number of the newest source
	runs      []*run
	scripts   []*script
	samplings int
	bytes     int // of all backlogs

	completions int // that run
}

// offered is a source with its number.
type offered struct {
	measure.Source
	catalogue *dataset.Catalogue
}

// run is a run of a source. It continues without a client.
type run struct {
	source  uint32
	key     string // equal for equal queries
	step    measure.Span
	cancel  context.CancelFunc
	backlog *backlog
	session *session // nil: its client is gone
	id      uint32   // in the session
	sent    uint64   // number of the newest tick that was sent
	enc     *encoder
}

// script is a running D script.
type script struct {
	measure.Script
	runner  dataset.Runner // nil: it is being started
	source  uint32
	session *session // nil: its client is gone
	id      uint32
	status  []byte // the newest status frame's content
}

// NewRecorder returns a Recorder. The caller must close it.
func NewRecorder(c Config) *Recorder {
	r := &Recorder{config: c, sources: map[uint32]*offered{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	for _, s := range c.Sources {
		r.offer(s)
	}
	return r
}

// offer numbers a source. r.mu is held, or nothing else has r.
func (r *Recorder) offer(s measure.Source) uint32 {
	number := r.last
	r.sources[number] = &offered{s, dataset.New(s)}
	r.last++
	return number
}

// Close ends all runs and scripts and waits for them.
func (r *Recorder) Close() {
	r.stop()
	r.mu.Lock()
	scripts := slices.Clone(r.scripts)
	if r.session != nil {
		r.session.close()
	}
	r.mu.Unlock()
	for _, s := range scripts {
		if s.runner != nil {
			s.runner.Stop()
		}
	}
	r.work.Wait()
}

// Serve answers a client until the connection fails or another client connects, which it reports as
// an error. It closes the connection. What the client started continues.
func (r *Recorder) Serve(conn io.ReadWriteCloser) error {
	s := newSession(r, conn)
	r.mu.Lock()
	if r.session != nil {
		r.session.close()
		r.detach(r.session)
	}
	r.session = s
	r.mu.Unlock()
	timer := time.AfterFunc(orphanTime, func() { r.stopOrphans(s) })
	defer timer.Stop()
	err := s.serve()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.detach(s)
	if r.session == s {
		r.session = nil
	}
	return err
}

// detach lets everything of a session continue without it. r.mu is held.
func (r *Recorder) detach(s *session) {
	for _, u := range r.runs {
		if u.session == s {
			u.session, u.sent = nil, 0 // what was sent may not be recorded
		}
	}
	for _, k := range r.scripts {
		if k.session == s {
			k.session = nil
		}
	}
}

// stopOrphans stops what the client of a session has not continued.
func (r *Recorder) stopOrphans(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session != s {
		return
	}
	for _, u := range r.runs {
		if u.session == nil {
			u.cancel()
		}
	}
	for _, k := range r.scripts {
		if k.session == nil && k.runner != nil {
			r.work.Go(k.runner.Stop)
		}
	}
}

// queriesKey returns a text that is equal for equal queries in any order.
func queriesKey(queries []measure.Query) string {
	var all []string
	for _, q := range queries {
		q.By = slices.Sorted(slices.Values(q.By))
		all = append(all, q.String())
	}
	slices.Sort(all)
	return fmt.Sprint(int64(queries[0].Step), "\n", strings.Join(all, "\n"))
}

// runRequest is the content of a kindRun.
type runRequest struct {
	id      uint32
	role    Role
	source  uint32
	queries []measure.Query
}

func (q *runRequest) append(b []byte) []byte {
	b = append(wire.AppendUint(b, uint64(q.id)), byte(q.role))
	b = wire.AppendUint(b, uint64(q.source))
	b = wire.AppendUint(b, uint64(len(q.queries)))
	for i := range q.queries {
		b = appendQuery(b, &q.queries[i])
	}
	return b
}

func (d *decoder) runRequest() (q runRequest) {
	q.id, q.role = d.ID(), Role(d.Byte())
	q.source = d.ID()
	n := d.Count(5)
	if n > maxQueries {
		d.Fail("%d queries", n)
		return q
	}
	for range n {
		q.queries = append(q.queries, d.query())
	}
	return q
}

// check returns an error unless the request can be run.
func (q *runRequest) check(source *offered) error {
	if err := q.role.mayRun(); err != nil {
		return err
	}
	if source == nil || len(q.queries) == 0 {
		return fmt.Errorf("run %d queries of source %d: there is none", len(q.queries), q.source)
	}
	for i := range q.queries {
		one := q.queries[i]
		if one.Step != q.queries[0].Step || one.Step <= 0 {
			return fmt.Errorf("run %s at steps of %v", one, one.Step)
		}
		if err := source.catalogue.Check(one); err != nil {
			return err
		}
	}
	return nil
}

// startRun starts a run, or continues an equal one that lost its client: with the ticks that this
// one has not acknowledged.
func (r *Recorder) startRun(s *session, q runRequest) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	source := r.sources[q.source]
	if err := q.check(source); err != nil {
		return err
	}
	if r.runOf(s, q.id) != nil {
		return invalid("run %d exists", q.id)
	}
	key, step := queriesKey(q.queries), q.queries[0].Step
	for _, u := range r.runs {
		if u.session == nil && u.source == q.source && u.key == key {
			u.session, u.id, u.enc, u.sent = s, q.id, newEncoder(source.Stats()), 0
			s.wake()
			return nil
		}
	}
	if len(r.runs) >= maxRuns {
		return fmt.Errorf("there are %d runs already", len(r.runs))
	}
	ctx, cancel := context.WithCancel(r.ctx)
	u := &run{
		source: q.source, key: key, step: step, cancel: cancel, session: s, id: q.id,
		backlog: newBacklog(source.Stats()), enc: newEncoder(source.Stats()),
	}
	r.runs = append(r.runs, u)
	r.work.Go(func() {
		err := runSource(
			ctx, source, q.queries, func(b []*measure.Batch) { r.accept(u, source, b) },
		)
		cancel()
		r.endRun(u, err)
	})
	return nil
}

// runSource runs a source. A panic of the source is its error.
func runSource(
	ctx context.Context, source measure.Source, queries []measure.Query,
	each func([]*measure.Batch),
) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = measure.Recovered("measuring", p)
		}
	}()
	return source.Run(ctx, queries, measure.SinkFunc(func(b []*measure.Batch) error {
		each(b)
		return nil
	}))
}

// accept copies a tick into the backlog of its run.
func (r *Recorder) accept(u *run, source *offered, batches []*measure.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes -= u.backlog.bytes
	u.backlog.add(batches, source.Source)
	u.backlog.trim(r.bytes+u.backlog.bytes-maxBacklogBytes, u.sent)
	r.bytes += u.backlog.bytes
	if u.session != nil {
		u.session.wake()
	}
}

// endRun removes a run. Its client gets what is left of it, and the error.
func (r *Recorder) endRun(u *run, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u.session != nil {
		u.session.appendTicks(u)
		u.session.appendEnded(u.id, err)
	}
	r.bytes -= u.backlog.bytes
	r.runs = slices.DeleteFunc(r.runs, func(o *run) bool { return o == u })
}

// runOf returns the run of an ID; nil: none. r.mu is held.
func (r *Recorder) runOf(s *session, id uint32) *run {
	for _, u := range r.runs {
		if u.session == s && u.id == id {
			return u
		}
	}
	return nil
}

// ack removes ticks that the client has made durable.
func (r *Recorder) ack(s *session, id uint32, number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u := r.runOf(s, id); u != nil {
		r.bytes -= u.backlog.bytes
		u.backlog.ack(min(number, u.sent))
		r.bytes += u.backlog.bytes
	}
}

// stopID stops the run or script of an ID, if there is one.
func (r *Recorder) stopID(s *session, id uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u := r.runOf(s, id); u != nil {
		u.cancel()
	}
	for _, k := range r.scripts {
		if k.session == s && k.id == id && k.runner != nil {
			r.work.Go(k.runner.Stop)
		}
	}
	if stop := s.samplings[id]; stop != nil {
		stop()
	}
}

// errNone means that the recorder has no scripts or cannot sample.
var errNone = errors.New("this recorder does not offer it")
