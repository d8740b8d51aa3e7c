package prom

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"runtime"
	"sync"
	"time"

	"culprit/measure"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
)

const (
	// spreadDivisor divides the step into the time over which hosts spread their writes, so that
	// thousands of hosts do not write at the same moment. A sample must be sent within a tenth of a
	// step of its time: rate() extrapolates over at most 1.1 steps and reads low beyond that.
	spreadDivisor = 20
	// maxWriteDelay is how long after its end a cell is written when no tick shows it is complete.
	maxWriteDelay = 5 * measure.Second
	// maxBacklog is how much of the past is sent after the receiver was away. Prometheus does not
	// accept samples that are much older.
	maxBacklog = 60 * measure.Minute
	// backlogChunk is the time that one round of writing covers at most.
	backlogChunk = 2 * measure.Minute
	// maxRequestSamples ends a request: it is sent once it has this many samples.
	maxRequestSamples = 5000
	// metadataInterval is the time between two requests with types, units and help texts.
	metadataInterval = 10 * time.Minute
	requestTimeout   = 30 * time.Second
	// The wait between two attempts doubles from minRetryWait to maxRetryWait.
	minRetryWait, maxRetryWait = time.Second, time.Minute
	// rejectionShown is how long Trouble reports a rejection after the receiver accepts again.
	rejectionShown = 10 * time.Minute
)

// Writer sends what is recorded to a receiver of Prometheus's remote write, version 1.0. It has no
// queue: after an outage it reads the archive again. Counters begin at 0 when a row appears; a
// sample of 0 says so.
type Writer struct {
	api    *API
	to     *url.URL
	step   measure.Span
	labels []labels.Label // of every series
	client *http.Client
	token  string // "": none is sent

	// CPU returns the CPU time of the calling thread, for Spent. nil: it is not measured.
	CPU func() measure.Span
	// Ticks waits for a recorded tick later than after and returns the newest one. nil: a cell is
	// written maxWriteDelay after its end. Set CPU and Ticks before Run.
	Ticks func(ctx context.Context, after measure.Time) (measure.Time, error)

	first     measure.Time                // earlier cells are never written
	from      measure.Time                // earlier cells are written
	rows      map[string]map[string]*sent // by metric, by key
	request   prompb.WriteRequest         // the next request
	samples   int                         // in request
	described time.Time                   // when metadata were sent
	readError string                      // why a metric could not be read in this round

	mu       sync.Mutex // guards the fields below
	trouble  string
	lost     uint64 // samples that were rejected
	rejected string // the newest rejection, ""
	at       time.Time
	spent    measure.Span
}

// CheckWrite returns an error when to is not an HTTP address of a receiver, or step is not a number
// of whole seconds that divides a minute.
func CheckWrite(to string, step measure.Span) error {
	u, err := url.Parse(to)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		// The address is not repeated: it may contain a password.
		const want = "write https://host/api/v1/write"
		return fmt.Errorf("remote write: not the address of a receiver: %s", want)
	case step < measure.Second || step%measure.Second != 0 || measure.Minute%step != 0:
		const want = "use whole seconds that divide a minute: 1s, 5s, 15s, 60s"
		return fmt.Errorf("remote write: %v between samples: %s", step, want)
	}
	return nil
}

// NewWriter returns a writer of samples of the given step, from now on. host becomes the label
// instance. token is sent as a bearer token; "" sends none. The address may contain a name and a
// password. Neither is sent by plain HTTP to another machine, unless the address ends with
// #insecure. The error is that of CheckWrite.
func (a *API) NewWriter(to, token string, step measure.Span, host string) (*Writer, error) {
	if err := CheckWrite(to, step); err != nil {
		return nil, err
	}
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	if (token != "" || u.User != nil) && measure.LeaksSecret(u) {
		return nil, fmt.Errorf("remote write to %s: the token or password would be sent without "+
			"encryption: use https, or end the address with #insecure", u.Host)
	}
	w := &Writer{api: a, to: u, token: token, step: step}
	w.client = &http.Client{Timeout: requestTimeout}
	w.rows = map[string]map[string]*sent{}
	w.labels = []labels.Label{
		{Name: "instance", Value: valid(host)},
		{Name: "job", Value: "culprit"},
	}
	w.from = floor(measure.Time(a.now().UnixNano()), step)
	w.first = w.from
	return w, nil
}

// Trouble returns the current problem, "" for none. A rejection stays for rejectionShown, since
// rejected samples are lost.
func (w *Writer) Trouble() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trouble == "" && w.rejected != "" && w.api.now().Sub(w.at) < rejectionShown {
		at := w.at.UTC().Format(time.RFC3339)
		return fmt.Sprintf(
			"remote write to %s: the receiver rejected %d samples, the last at %s: %s", w.to.Host,
			w.lost, at, w.rejected,
		)
	}
	return w.trouble
}

// Lost returns the number of samples that the receiver rejected.
func (w *Writer) Lost() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// setTrouble sets the current problem; an empty format clears it.
func (w *Writer) setTrouble(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trouble = ""; format != "" {
		w.trouble = "remote write to " + w.to.Host + ": " + fmt.Sprintf(format, args...)
	}
}

// Run writes until the context ends.
func (w *Writer) Run(ctx context.Context) {
	for {
		complete, err := w.await(ctx, w.from.Add(w.step))
		if err != nil || w.metered(func() error { return w.round(ctx, complete) }) != nil {
			return
		}
	}
}

// await waits until the cell that ends at end is complete, or until maxWriteDelay after end. It
// returns the time up to which the recording is complete. The error is the context's.
func (w *Writer) await(ctx context.Context, end measure.Time) (measure.Time, error) {
	if err := w.sleep(ctx, end.Add(w.spread())); err != nil {
		return 0, err
	}
	if w.Ticks != nil {
		left := end.Add(maxWriteDelay).Sub(measure.Time(w.api.now().UnixNano()))
		limited, cancel := context.WithTimeout(ctx, max(0, left.AsDuration()))
		defer cancel()
		if tick, err := w.Ticks(limited, end-1); err == nil {
			return tick, nil
		}
	}
	if err := w.sleep(ctx, end.Add(maxWriteDelay)); err != nil {
		return 0, err
	}
	return measure.Time(w.api.now().UnixNano()).Add(-maxWriteDelay), nil
}

// spread returns how long after the end of a cell this host writes it: a part of
// step/spreadDivisor that depends on the labels.
func (w *Writer) spread() measure.Span {
	h := fnv.New32a()
	for _, l := range w.labels {
		h.Write([]byte(l.Value)) //nolint:errcheck // a hash never fails
	}
	return measure.Span(h.Sum32()%1000) * (w.step / spreadDivisor) / 1000
}

// sleep waits until a time. The error is the context's.
func (w *Writer) sleep(ctx context.Context, until measure.Time) error {
	wait := until.Sub(measure.Time(w.api.now().UnixNano()))
	if wait <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait.AsDuration()):
		return nil
	}
}

// Spent returns the CPU time used so far to read and send samples.
func (w *Writer) Spent() measure.Span {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.spent
}

// metered adds the CPU time of f to what Spent returns.
func (w *Writer) metered(f func() error) error {
	if w.CPU == nil {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := w.CPU()
	err := f()
	after := w.CPU()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spent += after - before
	return err
}

// round writes the oldest unwritten cells, at most backlogChunk. The recording is complete up to
// complete. The error is the context's.
func (w *Writer) round(ctx context.Context, complete measure.Time) error {
	end := floor(complete, w.step)
	if back := floor(complete.Add(-maxBacklog), w.step); w.from < back {
		w.from = back
		clear(w.rows) // after the gap, counters start from 0
	}
	over := measure.Interval{Start: w.from}
	over.End = min(end, w.from.Add(max(backlogChunk, w.step)))
	if over.Start >= over.End {
		return nil
	}
	if err := w.write(ctx, metrics(w.api.datasets()), over); err != nil {
		return err
	}
	w.from = over.End
	w.forget()
	if w.readError != "" {
		w.setTrouble("%s", w.readError)
	}
	return nil
}

// write sends metadata when they are due, and the samples of all exported metrics over an interval.
func (w *Writer) write(ctx context.Context, all []*metric, over measure.Interval) error {
	w.readError = ""
	if time.Since(w.described) >= metadataInterval {
		if err := w.describe(ctx, all); err != nil {
			return err
		}
		w.described = time.Now()
	}
	for _, m := range all {
		if !isExported(m) {
			continue
		}
		if err := w.metric(ctx, m, over); err != nil {
			return err
		}
	}
	return w.flush(ctx)
}

// forget drops rows that ended. A row stays while it could reappear at the time of its marker.
func (w *Writer) forget() {
	for _, rows := range w.rows {
		for key, r := range rows {
			if !r.present && r.seen.Add(sparseHold) < w.from && r.last < w.from {
				delete(rows, key)
			}
		}
	}
}
