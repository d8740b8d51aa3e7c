package remotewrite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"culprit/export"
	"culprit/measure"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/prompb"
)

const (
	// maxRequestSamples ends a request: it is sent once it has this many samples.
	maxRequestSamples = 5000
	// maxSplits is how often the rejected parts of a request are divided, to find the series that
	// the receiver does not take: 11 for one of 2,000 series.
	maxSplits = 32
	// The wait between two attempts doubles from minRetryWait to maxRetryWait.
	minRetryWait, maxRetryWait = time.Second, time.Minute
	// maxRetryAfter is the longest wait that a receiver may ask for.
	maxRetryAfter = 10 * time.Minute
)

// request is the next request.
type request struct {
	series   []prompb.TimeSeries
	samples  int  // in series
	refused  bool // the newest request was rejected as a whole
	metadata []prompb.MetricMetadata
	// tries is how often a request that the receiver fails to take is sent; 0: until it succeeds.
	tries int
}

// maxNativeTries is how often native histograms are sent to a receiver that took other samples just
// before and answers 5xx to them. Prometheus does so without its feature native-histograms.
const maxNativeTries = 3

// describe sends type, unit and help text of the metrics.
func (w *Writer) describe(ctx context.Context, all []*metric) error {
	kinds := map[export.Shape]prompb.MetricMetadata_MetricType{
		export.Counter:   prompb.MetricMetadata_COUNTER,
		export.Histogram: prompb.MetricMetadata_HISTOGRAM,
	}
	for _, m := range all {
		kind, ok := kinds[m.shape]
		if !ok {
			kind = prompb.MetricMetadata_GAUGE
		}
		w.floats.metadata = append(w.floats.metadata, prompb.MetricMetadata{
			Type: kind, MetricFamilyName: m.name, Help: m.help(), Unit: m.unit.Word,
		})
	}
	return w.flush(ctx)
}

// add appends a series with n samples to a request, and sends it if it is full. Native histograms
// have a request of their own: not all receivers take them.
func (w *Writer) add(ctx context.Context, s prompb.TimeSeries, n int) error {
	q := &w.floats
	if len(s.Histograms) > 0 {
		q = &w.native
	}
	q.series = append(q.series, s)
	if q.samples += n; q.samples < maxRequestSamples {
		return nil
	}
	if q == &w.native { // first what shows that the receiver is there
		return w.flush(ctx)
	}
	return w.send(ctx, q)
}

// flush sends all that is left. The error is the context's.
func (w *Writer) flush(ctx context.Context) error {
	if err := w.send(ctx, &w.floats); err != nil {
		return err
	}
	return w.send(ctx, &w.native)
}

// send sends a request. It repeats it until the receiver accepts or rejects it. The error is the
// context's.
func (w *Writer) send(ctx context.Context, q *request) error {
	if len(q.series) == 0 && len(q.metadata) == 0 {
		return nil
	}
	splits := maxSplits
	if q.refused {
		splits = 0
	}
	accepted, err := w.deliver(ctx, q, q.series, &splits)
	if err != nil {
		return err
	}
	q.refused = !accepted
	clear(q.series) // the samples can be freed
	q.series, q.metadata, q.samples = q.series[:0], nil, 0
	if q == &w.native {
		text := ""
		if q.refused {
			text = "the receiver takes no native histograms: enable them there, or send classic " +
				"ones"
		}
		w.state.set(natives, "%s", text)
	}
	return nil
}

// deliver sends series. If the receiver rejects them, each half is sent for itself, down to single
// series: a receiver refuses a whole request because of one. splits is how often that may still
// happen. It reports whether anything was accepted; the error is the context's.
func (w *Writer) deliver(ctx context.Context, q *request, series []prompb.TimeSeries, splits *int,
) (accepted bool, err error) {
	body, err := (&prompb.WriteRequest{Timeseries: series, Metadata: q.metadata}).Marshal()
	if err != nil { // it has no message that could be invalid
		return false, err
	}
	q.metadata = nil
	tries := q.tries
	if q.refused {
		tries = min(tries, 1)
	}
	no, err := w.attempt(ctx, s2.EncodeSnappy(nil, body), tries)
	if err != nil || no == nil {
		return err == nil, err
	}
	divisible := no.status == http.StatusBadRequest || no.status == http.StatusRequestEntityTooLarge
	if len(series) < 2 || *splits == 0 || !divisible {
		n := 0
		for _, s := range series {
			n += len(s.Samples) + len(s.Histograms)
		}
		w.state.reject(n, no.Error())
		return false, nil
	}
	*splits--
	half := len(series) / 2
	for _, part := range [][]prompb.TimeSeries{series[:half], series[half:]} {
		ok, err := w.deliver(ctx, q, part, splits)
		if err != nil {
			return false, err
		}
		accepted = accepted || ok
	}
	return accepted, nil
}

// attempt sends a request until the receiver accepts or rejects it. An answer of 500 is a rejection
// after tries attempts; 0: never. The error is the context's.
func (w *Writer) attempt(ctx context.Context, packed []byte, tries int) (*rejection, error) {
	began, wait := w.now(), w.retry
	for n := 1; ; n++ {
		got, err := w.to.send(ctx, packed)
		if got.timed {
			w.state.set(clocks, "%s", skewText(got.ahead))
		}
		var no *rejection
		var failed *failure
		if n == tries && errors.As(err, &failed) {
			err = &rejection{failed.status, failed.text}
		}
		switch {
		case err == nil || errors.As(err, &no):
			w.state.set(sending, "")
			return no, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		w.state.set(sending, "%v; retrying since %s", err, began.UTC().Format("15:04:05 UTC"))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(max(got.after, wait)):
		}
		wait = min(2*wait, maxRetryWait)
	}
}

// skewText describes how far the receiver's clock is ahead; "" if that is less than minSkew.
func skewText(d measure.Span) string {
	if d < minSkew && d > -minSkew {
		return ""
	}
	side := "ahead of"
	if d < 0 {
		side, d = "behind", -d
	}
	return fmt.Sprintf("its clock is %v %s this host's: values of now are wrong there, and "+
		"samples may be rejected", d.AsDuration().Round(time.Second), side)
}
