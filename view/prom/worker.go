package prom

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"sync"
	"time"

	"culprit/measure"
	"culprit/wire"
	"culprit/worker"
)

// A query of a stranger can take any time and memory, whatever bounds it has. With API.Workers the
// language runs in a process of its own: parsing, evaluation, and the text of the reply. That
// process has no archive. It asks this one for the datasets and for rows.

// JobName is the name of the job of a worker that NewJob returns.
const JobName = "promql"

// The first byte of what a job asks.
const (
	askDatasets = 'd'
	askRows     = 'r' // then the wanted rows
)

// forwarded is the content of a request to a worker.
type forwarded struct {
	Path    string
	Form    url.Values
	Now     int64  // nanoseconds
	Version uint64 // of the datasets
}

// described is the newest list of datasets that workers got. Its version is random: a worker serves
// several APIs.
type described struct {
	mu      sync.Mutex // guards the fields below
	version uint64     // 0: there is none yet
	sets    []measure.Dataset
	metrics map[string]*metric // by name
}

// current returns the version of the datasets, which changes with them.
func (d *described) current(sets []measure.Dataset) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	same := func(a, b measure.Dataset) bool { return a.ID == b.ID && a.Created == b.Created }
	if d.version == 0 || !slices.EqualFunc(d.sets, sets, same) {
		d.version = 1 + rand.Uint64N(math.MaxUint64)
		d.sets, d.metrics = sets, map[string]*metric{}
		for _, m := range metrics(sets) {
			d.metrics[m.name] = m
		}
	}
	return d.version
}

// appendJSON appends the version and the datasets.
func (d *described) appendJSON(b []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, err := json.Marshal(d.sets)
	return append(wire.AppendUint(b, d.version), text...), err
}

func (d *described) metric(name string) *metric {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.metrics[name]
}

// answerWorker answers what a job asks. It is a worker.Request's Ask.
func (a *API) answerWorker(ctx context.Context, question []byte) ([]byte, error) {
	d := wire.Decoder{Rest: question}
	switch kind := d.Byte(); kind {
	case askDatasets:
		if err := d.End(); err != nil {
			return nil, err
		}
		return a.described.appendJSON(nil)
	case askRows:
		q := readWanted(&d)
		if err := d.End(); err != nil {
			return nil, err
		}
		m := a.described.metric(q.metric)
		if m == nil {
			return nil, fmt.Errorf("there is no metric %.100q any more", q.metric)
		}
		if err := m.allows(q.terms); err != nil {
			return nil, err
		}
		k := asker{a.reader, q.now, min(q.left, maxSamples)}
		t, err := k.fetch(ctx, m, q.terms, q.over, q.cell, q.choose)
		if err != nil {
			return nil, err
		}
		return appendTable(wire.AppendInt(nil, int64(k.left)), t, len(m.by), worker.MaxAnswer)
	default:
		return nil, wire.Invalid("question %d", kind)
	}
}

// allows returns an error unless each term is of a dataset of the metric, or of a field that the
// metric has. A role may see less than the archive has.
func (m *metric) allows(terms []measure.Term) error {
	for _, t := range terms {
		same := func(o measure.Term) bool { return reflect.DeepEqual(o, t) }
		own := func(where []measure.Term) bool { return slices.ContainsFunc(where, same) }
		if !slices.Contains(m.by, t.Field) && !slices.ContainsFunc(m.where, own) {
			return fmt.Errorf("%s has no field %.100q", m.name, t.Field)
		}
	}
	return nil
}

// forward lets a worker answer a request.
func (a *API) forward(w http.ResponseWriter, r *http.Request, path string) {
	content, err := json.Marshal(
		forwarded{path, r.Form, a.now().UnixNano(), a.described.current(a.datasets())})
	if err != nil {
		fail(w, bad(err))
		return
	}
	wait := timeout
	if d, err := parseSpan(r.FormValue("timeout")); err == nil {
		wait = min(wait, d) // the worker reports an error
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait+time.Second)
	defer cancel()
	reply := reply{to: w}
	err = a.Workers.Do(ctx, &worker.Request{
		Job: JobName, Content: content, Ask: a.answerWorker, Reply: reply.take,
	})
	if err == nil {
		err = reply.flush()
	}
	var bug *measure.Fault
	switch {
	case err == nil:
	case reply.sent: // so that the client does not take it for the whole
		panic(http.ErrAbortHandler)
	case errors.As(err, &bug):
		panic(bug)
	case errors.Is(err, worker.ErrEnded):
		const advice = "%w: ask for a shorter time, fewer rows, or a longer step"
		fail(w, &failure{http.StatusServiceUnavailable, "unavailable", fmt.Errorf(advice, err)})
	case ctx.Err() != nil:
		const advice = "query was stopped after %v: ask for a shorter time, fewer rows, or a " +
			"longer step: %w"
		fail(w, failed(fmt.Errorf(advice, wait, err)))
	default:
		const advice = "%w: repeat the request in a moment"
		fail(w, &failure{http.StatusServiceUnavailable, "unavailable", fmt.Errorf(advice, err)})
	}
}

// heldReply is how many bytes of a reply wait until it is complete: the end of a worker is an error
// of its own until then.
const heldReply = 1 << 20

// reply passes the reply of a worker on: two bytes of status, then the body.
type reply struct {
	to   http.ResponseWriter
	held []byte
	sent bool
}

// take takes a part. The error is that of the client, or says that it is no reply.
func (p *reply) take(part []byte) error {
	if p.sent {
		_, err := p.to.Write(part)
		return err
	}
	p.held = append(p.held, part...)
	if len(p.held) > heldReply {
		return p.flush()
	}
	return nil
}

// flush sends what waits.
func (p *reply) flush() error {
	if p.sent {
		return nil
	}
	if len(p.held) < 3 {
		return fmt.Errorf("%w without a reply", worker.ErrEnded)
	}
	status := int(binary.LittleEndian.Uint16(p.held))
	if status < 200 || status > 599 {
		return fmt.Errorf("%w with the status %d", worker.ErrEnded, status)
	}
	p.sent = true
	setHeader(p.to.Header())
	p.to.WriteHeader(status)
	_, err := p.to.Write(p.held[2:])
	p.held = nil
	return err
}

// job is an API in a worker.
type job struct {
	api     *API
	ask     worker.Ask // of the current request
	version uint64     // of the datasets that it knows; 0: none
}

// NewJob returns the handler of JobName. version is culprit's. Without bounded the bounds of this
// package are off: for tests of those of a worker.
func NewJob(version string, bounded bool) worker.Job {
	j := &job{}
	j.api = New(nil, func() []measure.Dataset { return nil }, version)
	j.api.unbounded = !bounded
	j.api.fetcher = func(now measure.Time) fetcher {
		return &remoteFetcher{job: j, now: now, left: maxSamples}
	}
	return j.handle
}

// handle handles one request.
func (j *job) handle(
	ctx context.Context, request []byte, ask worker.Ask, to io.Writer,
) error {
	var f forwarded
	if err := json.Unmarshal(request, &f); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	w := &replyTo{to: to, header: http.Header{}}
	handle := j.api.handler(f.Path).answer
	j.ask = ask
	if err := j.readDatasets(f.Version); err != nil {
		fail(w, failed(err))
		return w.err
	}
	j.api.now = func() time.Time { return time.Unix(0, f.Now) }
	r := &http.Request{Method: http.MethodGet, Form: f.Form}
	if handle == nil {
		fail(w, &failure{http.StatusNotFound, "not_found", errors.New(f.Path)})
		return w.err
	}
	j.api.respond(w, r.WithContext(ctx), handle)
	return w.err
}

// readDatasets reads the datasets unless it knows those of the version.
func (j *job) readDatasets(version uint64) error {
	if version == j.version && version != 0 {
		return nil
	}
	b, err := j.ask([]byte{askDatasets})
	if err != nil {
		return err
	}
	d := wire.Decoder{Rest: b}
	got := d.Uint()
	if d.Err != nil {
		return d.Err
	}
	var sets []measure.Dataset
	if err := json.Unmarshal(d.Rest, &sets); err != nil {
		return fmt.Errorf("read the datasets: %w", err)
	}
	j.api.known, j.version = metrics(sets), got
	return nil
}

// replyTo is the http.ResponseWriter of a worker.
type replyTo struct {
	to     io.Writer
	header http.Header
	err    error
}

// Header implements http.ResponseWriter.
func (w *replyTo) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *replyTo) WriteHeader(status int) {
	_, w.err = w.to.Write(binary.LittleEndian.AppendUint16(nil, uint16(status)))
}

// Write implements http.ResponseWriter.
func (w *replyTo) Write(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	var n int
	n, w.err = w.to.Write(b)
	return n, w.err
}
