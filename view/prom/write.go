package prom

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"culprit/measure"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

const (
	// spreadDiv is the part of a step over which hosts spread their writes, so that thousands do not write at the same moment. A
	// sample is sent within a tenth of a step of its time: rate() extrapolates over 1.1 steps, and reads low beyond.
	spreadDiv = 20
	// latestWrite is how long after its end a cell is written at the latest, where no tick says that it is complete.
	latestWrite = 5 * measure.Second
	// writeBack is how much of the past is made up for after the receiver was away: Prometheus takes nothing much older.
	writeBack = 60 * measure.Minute
	// writeChunk is how much is asked for at once while that is done.
	writeChunk = 2 * measure.Minute
	// mostWritten is how many samples one request has at most.
	mostWritten = 5000
	// describeEach is how often types and help of the metrics are told.
	describeEach = 10 * time.Minute
	// writeTime is how long a request may take; the waits between tries are from leastWait to mostWait.
	writeTime           = 30 * time.Second
	leastWait, mostWait = time.Second, time.Minute
	// refusalStays is how long a refusal is told of after the receiver takes samples again.
	refusalStays = 10 * time.Minute
)

// Writer sends what is recorded to an engine that takes Prometheus's remote write, version 1.0. What is recorded is its queue: after the receiver was away it is asked for
// again. Counters begin at 0 where a row comes, which is told by a sample.
type Writer struct {
	api    *API
	to     *url.URL
	step   measure.Span
	labels []labels.Label // of every series
	client *http.Client
	token  string // "": none is sent

	// CPU returns the CPU time of the calling thread, for Spent; nil: it is not measured. Ticks waits for a recorded tick later
	// than after and returns the newest; nil: a cell is written latestWrite after its end. Set both before Run.
	CPU   func() measure.Span
	Ticks func(ctx context.Context, after measure.Time) (measure.Time, error)

	first  measure.Time                // what is before is not this writer's
	from   measure.Time                // everything before is written
	rows   map[string]map[string]*sent // by metric, by key
	body   []byte
	n      int // samples in body
	told   time.Time
	unread string // why a metric could not be read in this round

	mu      sync.Mutex // guards what follows
	trouble string
	lost    uint64 // samples that were refused
	refused string // the newest refusal, ""
	at      time.Time
	spent   measure.Span
}

// sent is what was written of a row.
type sent struct {
	labels []byte       // encoded
	sum    float64      // of a counter
	there  bool         // in the newest cell
	seen   measure.Time // end of the newest cell that had a value
	last   measure.Time // of the newest sample

	// counted are the amounts of the newest cells as they are in sum, oldest first: a part of a tick that is recorded later
	// than its cell was written is counted in the next one.
	counted []float64
}

// CheckWrite says what is wrong with the address of a receiver or the time between samples.
func CheckWrite(to string, step measure.Span) error {
	u, err := url.Parse(to)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("remote write: the address is none of a receiver (https://host/api/v1/write)") // it may have a password
	case step < measure.Second || step%measure.Second != 0 || measure.Minute%step != 0:
		return fmt.Errorf("remote write: %v between samples: whole seconds of which a minute has a number, such as 1s, 5s, 15s, 60s", step)
	}
	return nil
}

// NewWriter makes one that writes to an address samples of the given step, from now on. host is the label instance.
// token is sent as a bearer token, "" none; a name and password may stand in the address.
func (a *API) NewWriter(to, token string, step measure.Span, host string) (*Writer, error) {
	if err := CheckWrite(to, step); err != nil {
		return nil, err
	}
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	w := &Writer{api: a, to: u, token: token, step: step, client: &http.Client{Timeout: writeTime}, rows: map[string]map[string]*sent{},
		labels: []labels.Label{{Name: "instance", Value: valid(host)}, {Name: "job", Value: "culprit"}}}
	w.from = floor(measure.Time(a.now().UnixNano()), step)
	w.first = w.from
	return w, nil
}

// Trouble returns what is wrong now, "" for nothing. A refusal stays for a while, since what was refused is lost for good.
func (w *Writer) Trouble() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trouble == "" && w.refused != "" && w.api.now().Sub(w.at) < refusalStays {
		return fmt.Sprintf("remote write to %s: the receiver has refused %d samples, the last at %s: %s",
			w.to.Host, w.lost, w.at.UTC().Format(time.RFC3339), w.refused)
	}
	return w.trouble
}

// Lost gives how many samples the receiver refused.
func (w *Writer) Lost() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

func (w *Writer) say(format string, args ...any) {
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

// await waits until the cell that ends at end is complete, or latestWrite has passed since. It returns up to when the recording
// is complete. The error is the context's.
func (w *Writer) await(ctx context.Context, end measure.Time) (measure.Time, error) {
	if err := w.sleep(ctx, end.Add(w.spread())); err != nil {
		return 0, err
	}
	if w.Ticks != nil {
		left := end.Add(latestWrite).Sub(measure.Time(w.api.now().UnixNano()))
		limited, cancel := context.WithTimeout(ctx, max(0, left.AsDuration()))
		defer cancel()
		if tick, err := w.Ticks(limited, end-1); err == nil {
			return tick, nil
		}
	}
	if err := w.sleep(ctx, end.Add(latestWrite)); err != nil {
		return 0, err
	}
	return measure.Time(w.api.now().UnixNano()).Add(-latestWrite), nil
}

// spread returns how long after the end of a cell this host writes it, from 0 to a spreadDiv-th of the step.
func (w *Writer) spread() measure.Span {
	h := fnv.New32a()
	for _, l := range w.labels {
		h.Write([]byte(l.Value)) //nolint:errcheck // a hash takes everything
	}
	return measure.Span(h.Sum32()%1000) * (w.step / spreadDiv) / 1000
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

// Spent gives the CPU time that making and sending samples has taken so far.
func (w *Writer) Spent() measure.Span {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.spent
}

// metered adds what f takes to what was spent.
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

// round writes the oldest part of what is not written. The recording is complete up to a time. The error is the context's.
func (w *Writer) round(ctx context.Context, complete measure.Time) error {
	end := floor(complete, w.step)
	if back := floor(complete.Add(-writeBack), w.step); w.from < back {
		w.from = back
		clear(w.rows) // they begin anew, after a gap
	}
	over := measure.Interval{Start: w.from, End: min(end, w.from.Add(max(writeChunk, w.step)))}
	if over.Start >= over.End {
		return nil
	}
	all := metrics(w.api.datasets())
	w.unread = ""
	var failed error
	if time.Since(w.told) >= describeEach {
		if failed = w.describe(ctx, all); failed == nil {
			w.told = time.Now()
		}
	}
	for _, m := range all {
		if failed != nil {
			break
		}
		if !isWritten(m) {
			continue
		}
		failed = w.metric(ctx, m, over)
	}
	if failed == nil {
		failed = w.flush(ctx)
	}
	if failed != nil {
		return failed
	}
	w.from = over.End
	for _, rows := range w.rows {
		for key, r := range rows {
			if !r.there && r.seen.Add(idleRow) < w.from && r.last < w.from { // else it may come again where its marker is
				delete(rows, key)
			}
		}
	}
	if w.unread != "" {
		w.say("%s", w.unread)
	}
	return nil
}

// metric appends the samples of a metric over a time.
func (w *Writer) metric(ctx context.Context, m *metric, over measure.Interval) error {
	rows := w.rows[m.name]
	if rows == nil {
		rows = map[string]*sent{}
		w.rows[m.name] = rows
	}
	told := map[*sent]bool{}
	var last *measure.Answer
	k := asker{w.api.reader, over.End, maxSamples}
	step := max(w.step, m.step)
	over.Start, over.End = floor(over.Start, step), floor(over.End, step)
	if over.Start >= over.End { // no cell of a longer step ends here
		return nil
	}
	asked := over
	if m.shape == counter {
		asked.Start = over.Start.Add(-step * measure.Span(lateCells(step)))
	}
	for _, where := range m.where {
		a, err := k.ask(ctx, m, where, asked, step)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			w.unread = fmt.Sprintf("%s can't be read: %v", m.stat.ID, err)
			continue
		}
		last = a
		key := make([]string, len(a.Query.By))
		for i := range a.Series {
			s := &a.Series[i]
			for j, l := range s.Key {
				key[j] = a.Labels[l]
			}
			text := keyText(key)
			r := rows[text]
			if r == nil {
				r = &sent{labels: encodeLabels(nil, m.labels(key), w.labels)}
				rows[text] = r
			}
			if told[r] { // two datasets have it
				continue
			}
			told[r] = true
			if err := w.row(ctx, m, r, a, s.Values, over.Start); err != nil {
				return err
			}
		}
	}
	for _, r := range rows { // those that the answers have not: they were absent in all cells
		if r.there && !told[r] && last != nil {
			if err := w.row(ctx, m, r, last, nil, over.Start); err != nil {
				return err
			}
		}
	}
	return nil
}

// lateCells returns how many cells before the oldest unwritten one are looked at again for late parts of ticks.
func lateCells(step measure.Span) int { return int((latePart + step - 1) / step) }

// late adds to a counter what was recorded of its written cells after they were written. n cells of the answer are written.
func (r *sent) late(m *metric, a *measure.Answer, values []float64, n int) {
	if !r.there || len(r.counted) == 0 {
		return
	}
	for c := max(0, n-len(r.counted)); c < min(n, len(values), len(a.Elapsed)); c++ {
		before := &r.counted[len(r.counted)-n+c]
		if v := values[c]; a.Elapsed[c] > 0 && v == v {
			if amount := m.amount(v, a.Elapsed[c]); amount > *before {
				r.sum += amount - *before
				*before = amount
			}
		}
	}
}

// count adds the amount of a cell to a counter.
func (r *sent) count(amount float64, step measure.Span) {
	r.sum += amount
	if r.counted = append(r.counted, amount); len(r.counted) > lateCells(step) {
		r.counted = r.counted[:copy(r.counted, r.counted[1:])]
	}
}

// row appends the samples of a row from a time on; what is before is written. Values may be shorter than the answer: what is
// not there was absent.
func (w *Writer) row(ctx context.Context, m *metric, r *sent, a *measure.Answer, values []float64, start measure.Time) error {
	var samples []float
	put := func(at measure.Time, v float64) {
		t := ms(at)
		r.last = at
		if n := len(samples); n > 0 && samples[n-1].time >= t { // a row that comes again at once: its marker goes
			samples[n-1].value = v
			return
		}
		samples = append(samples, float{t, v})
	}
	written := int(start.Sub(a.Start) / a.Step)
	r.late(m, a, values, written)
	for c := written; c < len(a.Elapsed); c++ {
		elapsed := a.Elapsed[c]
		from := a.Start.Add(a.Step * measure.Span(c))
		to := from.Add(a.Step)
		v := measure.NaN
		if c < len(values) && elapsed > 0 {
			v = values[c]
		}
		if v != v && elapsed > 0 && m.stat.Sparse && r.there && to.Sub(r.seen) <= idleRow {
			v = 0
		} else if v == v {
			r.seen = to
		}
		switch {
		case v != v:
			if r.there {
				put(to, math.Float64frombits(value.StaleNaN))
			}
			r.there, r.sum, r.counted = false, 0, nil
			continue
		case m.shape == counter:
			if !r.there {
				put(w.begin(r, from), 0)
			}
			r.count(m.amount(v, elapsed), a.Step)
			put(to, m.value(r.sum))
		default:
			put(to, m.value(v))
		}
		r.there = true
	}
	if len(samples) == 0 {
		return nil
	}
	series := slices.Clone(r.labels)
	for _, s := range samples {
		sample := binary.LittleEndian.AppendUint64([]byte{1<<3 | 1}, math.Float64bits(s.value))
		series = appendField(series, 2, binary.AppendUvarint(append(sample, 2<<3), uint64(s.time)))
	}
	w.body = appendField(w.body, 1, series)
	if w.n += len(samples); w.n >= mostWritten {
		return w.flush(ctx)
	}
	return nil
}

// begin returns the time of the sample of 0 with which a counter begins, the start of its first cell. Where a sample of the row may
// have been sent of that time, it is a millisecond later: a receiver refuses a second one, and all that comes with it. It may have
// been sent as the row ended there in the round before, or by the server that ran before this one.
func (w *Writer) begin(r *sent, cell measure.Time) measure.Time {
	if r.last >= cell || cell == w.first {
		return cell.Add(measure.Millisecond)
	}
	return cell
}

// describe sends type, unit and help of the metrics.
func (w *Writer) describe(ctx context.Context, all []*metric) error {
	for _, m := range all {
		if !isWritten(m) {
			continue
		}
		kind := byte(2) // GAUGE
		if m.shape == counter {
			kind = 1 // COUNTER
		}
		one := appendField([]byte{1 << 3, kind}, 2, []byte(m.name))
		one = appendField(one, 4, []byte(m.help()))
		if m.unit != "" {
			one = appendField(one, 5, []byte(m.unit))
		}
		w.body = appendField(w.body, 3, one)
	}
	return w.flush(ctx)
}

// flush sends what was gathered, again and again until the receiver has taken or refused it, or the context ends.
func (w *Writer) flush(ctx context.Context) error {
	if len(w.body) == 0 {
		return nil
	}
	packed := s2.EncodeSnappy(nil, w.body)
	began, wait := time.Now(), leastWait
	for {
		after, err := w.send(ctx, packed)
		var no *refusal
		switch {
		case err == nil:
			w.say("")
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &no):
			w.mu.Lock()
			w.lost += uint64(w.n)
			w.refused, w.at, w.trouble = err.Error(), w.api.now(), ""
			w.mu.Unlock()
		default:
			w.say("%v; retrying since %s", err, began.UTC().Format("15:04:05 UTC"))
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(max(after, wait)):
			}
			wait = min(2*wait, mostWait)
			continue
		}
		w.body, w.n = w.body[:0], 0
		return nil
	}
}

// refusal is an answer that will be the same when asked again.
type refusal struct {
	status int
	said   string
}

func (r *refusal) Error() string {
	return strings.TrimSpace(strconv.Itoa(r.status) + " " + http.StatusText(r.status) + " " + r.said)
}

// send makes one request. after is how long the receiver wants to be left alone.
func (w *Writer) send(ctx context.Context, packed []byte) (after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.to.String(), bytes.NewReader(packed))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Encoding", "snappy")
	r.Header.Set("Content-Type", "application/x-protobuf")
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	r.Header.Set("User-Agent", "culprit/"+w.api.version)
	r.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	res, err := w.client.Do(r)
	if err != nil {
		if at := (*url.Error)(nil); errors.As(err, &at) {
			err = at.Err // the address may have a password
		}
		return 0, err
	}
	defer func() { _ = res.Body.Close() }() // read as far as it is wanted
	said, _ := io.ReadAll(io.LimitReader(res.Body, 300))
	line, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(string(said), "?")), "\n")
	switch {
	case res.StatusCode/100 == 2:
		return 0, nil
	case res.StatusCode/100 == 5 || res.StatusCode == http.StatusTooManyRequests:
		if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
			after = min(time.Duration(s)*time.Second, 10*mostWait)
		}
		return after, errors.New(strings.TrimSpace(res.Status + " " + line))
	}
	return 0, &refusal{res.StatusCode, line}
}

// encodeLabels appends the labels of a series, in the order of their names, as remote write wants them.
func encodeLabels(b []byte, own labels.Labels, more []labels.Label) []byte {
	var all []labels.Label
	own.Range(func(l labels.Label) { all = append(all, l) })
	for _, l := range more {
		if own.Has(l.Name) { // a field of that name: what the server adds gives way
			l.Name = "exported_" + l.Name
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b labels.Label) int { return cmp.Compare(a.Name, b.Name) })
	for _, l := range all {
		b = appendField(b, 1, appendField(appendField(nil, 1, []byte(l.Name)), 2, []byte(l.Value)))
	}
	return b
}

// appendField appends a field of protobuf that has a length.
func appendField(b []byte, n int, v []byte) []byte {
	return append(binary.AppendUvarint(append(b, byte(n<<3|2)), uint64(len(v))), v...)
}
