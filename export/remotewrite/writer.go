package remotewrite

import (
	"context"
	"fmt"
	"hash/fnv"
	"runtime"
	"slices"
	"time"

	"culprit/export"
	"culprit/measure"

	"github.com/prometheus/prometheus/prompb"
)

const (
	// spreadDivisor divides the step into the time over which hosts spread their writes, so that
	// thousands of hosts do not write at the same moment. A sample must be sent within a tenth of a
	// step of its time: rate() extrapolates over at most 1.1 steps and reads low beyond that.
	spreadDivisor = 20
	// maxWriteDelay is how long after its end a cell is written when no tick shows it is complete.
	maxWriteDelay = 5 * measure.Second
	// maxBacklog is how much of the past is sent after the receiver or this server was away.
	// Prometheus does not accept samples that are much older.
	maxBacklog = 60 * measure.Minute
	// backlogChunk is the time that one round of writing covers at most.
	backlogChunk = 2 * measure.Minute
	// metadataInterval is the time between two requests with types, units and help texts.
	metadataInterval = 10 * time.Minute
	// maxLateness is how late a source may record its part of a tick and still be counted.
	maxLateness = 5 * measure.Second
	// sparseHold is how long a row that is not always recorded is sent unchanged after it is left
	// out: rows of sparse statistics, and of distributions.
	sparseHold = 5 * measure.Minute
)

// Source is the recording that is sent.
type Source struct {
	Reader   measure.Reader
	Datasets func() []measure.Dataset // the current ones
	// Dir is the directory for the positions of targets; it is created. "": a restart sends from
	// its start on.
	Dir string
	// CPU returns the CPU time of the calling thread, for Spent. nil: it is not measured.
	CPU func() measure.Span
	// Ticks waits for a recorded tick later than after and returns the newest one. nil: a cell is
	// written maxWriteDelay after its end.
	Ticks func(ctx context.Context, after measure.Time) (measure.Time, error)
}

// Writer sends what is recorded to one receiver of Prometheus's remote write, version 1.0: the
// metrics of package export's table. It has no queue: after an outage it reads the recording again.
// A file has the position up to which the receiver has it.
type Writer struct {
	source Source
	to     *Receiver
	now    func() time.Time
	step   measure.Span
	retry  time.Duration  // the first wait between two attempts
	labels []prompb.Label // of every series
	sent
	floats    request // the next one with floats and metadata
	native    request // the next one with native histograms
	budget    export.Budget
	omitted   map[string]bool // metrics that the budget leaves out; nil: not planned yet
	described time.Time       // when metadata were sent
	state     state
}

// sent is what a receiver has. A file keeps it over restarts.
type sent struct {
	first measure.Time               // earlier cells were never written
	from  measure.Time               // earlier cells are written
	rows  map[string]map[string]*row // by metric, by key
}

// New returns a writer that goes on where the file in s.Dir ends, or else sends from now on. An
// unreadable file is reported by Problems.
func New(s Source, to *Receiver) *Writer {
	t := &to.target
	w := &Writer{source: s, to: to, now: time.Now, step: t.Interval, retry: minRetryWait}
	for name, value := range t.ExternalLabels {
		w.labels = append(w.labels, prompb.Label{Name: name, Value: export.Label("", value)})
	}
	w.labels = append(w.labels,
		prompb.Label{Name: "instance", Value: export.Label("", t.Instance)},
		prompb.Label{Name: "job", Value: export.Label("", t.Job)})
	sortLabels(w.labels)
	w.native.tries = maxNativeTries
	w.state.init(t.Name, to.url.Host, func() time.Time { return w.now() })
	w.begin(measure.Time(w.now().UnixNano()))
	if err := w.load(); err != nil {
		w.state.set(position, "%v; it sends from now on", err)
	}
	return w
}

// begin lets the writer send from a time on.
func (w *Writer) begin(at measure.Time) {
	w.from = floor(at, w.step)
	w.first = w.from
	w.rows = map[string]map[string]*row{}
}

// Name returns the name of the target.
func (w *Writer) Name() string { return w.to.target.Name }

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
	if w.source.Ticks != nil {
		left := end.Add(maxWriteDelay).Sub(measure.Time(w.now().UnixNano()))
		limited, cancel := context.WithTimeout(ctx, max(0, left.AsDuration()))
		defer cancel()
		if tick, err := w.source.Ticks(limited, end-1); err == nil {
			return tick, nil
		}
	}
	if err := w.sleep(ctx, end.Add(maxWriteDelay)); err != nil {
		return 0, err
	}
	return measure.Time(w.now().UnixNano()).Add(-maxWriteDelay), nil
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
	wait := until.Sub(measure.Time(w.now().UnixNano()))
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

// metered adds the CPU time of f to what Spent returns.
func (w *Writer) metered(f func() error) error {
	if w.source.CPU == nil {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := w.source.CPU()
	err := f()
	w.state.spend(w.source.CPU() - before)
	return err
}

// round writes the oldest unwritten cells, at most backlogChunk. The recording is complete up to
// complete. The error is the context's.
func (w *Writer) round(ctx context.Context, complete measure.Time) error {
	end := floor(complete, w.step)
	if back := floor(complete.Add(-maxBacklog), w.step); w.from < back {
		w.begin(back) // after the gap, counters start from 0
	}
	over := measure.Interval{Start: w.from}
	over.End = min(end, w.from.Add(max(backlogChunk, w.step)))
	if over.Start >= over.End {
		return nil
	}
	if err := w.write(ctx, metricsOf(w.source.Datasets()), over); err != nil {
		return err
	}
	w.from = over.End
	w.forget()
	if err := w.save(); err != nil {
		w.state.set(position, "can't keep the position: %v; a restart would lose samples", err)
	} else {
		w.state.set(position, "")
	}
	return nil
}

// write sends metadata when they are due, and the samples of all metrics over an interval.
func (w *Writer) write(ctx context.Context, all []*metric, over measure.Interval) error {
	if w.now().Sub(w.described) >= metadataInterval {
		if err := w.describe(ctx, all); err != nil {
			return err
		}
		w.described = w.now()
	}
	if w.omitted == nil {
		if err := w.plan(ctx, all, over); err != nil {
			return err
		}
	}
	known := map[string]bool{}
	var widths []export.Width
	unread := ""
	for _, m := range all {
		known[m.name] = true
		n, err := w.metric(ctx, m, over)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			unread = fmt.Sprintf("%s can't be read: %v", m.Stat, err)
		}
		widths = append(widths, m.width(n))
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	for name := range w.rows {
		if !known[name] {
			delete(w.rows, name) // it is not recorded any more
		}
	}
	w.choose(widths)
	w.state.set(reading, "%s", unread)
	return nil
}

// plan sets the omitted metrics before anything is sent.
func (w *Writer) plan(ctx context.Context, all []*metric, over measure.Interval) error {
	var widths []export.Width
	for _, m := range all {
		step := max(w.step, m.step)
		whole := measure.Interval{Start: floor(over.Start, step), End: floor(over.End, step)}
		n := 0
		if whole.Start < whole.End {
			a, err := w.source.Reader.Ask(ctx, m.ask(whole, step))
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil { // the round itself reports the error
				n = w.seriesIn(m, a)
			}
		}
		widths = append(widths, m.width(n))
	}
	w.choose(widths)
	return nil
}

// width returns the metric with n series for the budget.
func (m *metric) width(n int) export.Width {
	return export.Width{Metric: m.name, Series: n, Bound: m.Bound, Keep: m.Keep}
}

// choose sets the metrics to omit from the next round, and reports them.
func (w *Writer) choose(widths []export.Width) {
	w.omitted = w.budget.Choose(widths)
	if w.omitted == nil {
		w.omitted = map[string]bool{}
	}
	var names []string
	series := 0
	for _, width := range widths {
		if w.omitted[width.Metric] {
			names = append(names, width.Metric)
			series += width.Series
		}
	}
	if len(names) == 0 {
		w.state.set(omitting, "")
		return
	}
	w.state.set(omitting, "%d series are left out, of %s: the limit is %d series in all",
		series, list(names), export.MaxSeries)
}

// list returns names as text, at most five.
func list(names []string) string {
	slices.Sort(names)
	text := ""
	for i, n := range names {
		if i == 5 {
			return text + fmt.Sprintf(" and %d more", len(names)-i)
		}
		if i > 0 {
			text += ", "
		}
		text += n
	}
	return text
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

// floor returns the greatest multiple of s that is not after t.
func floor(t measure.Time, s measure.Span) measure.Time {
	r := t % measure.Time(s)
	if r < 0 {
		r += measure.Time(s)
	}
	return t - r
}

// ms returns a time in Prometheus's milliseconds, rounded down.
func ms(t measure.Time) int64 { return int64(floor(t, measure.Millisecond) / 1e6) }
