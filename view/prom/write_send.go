package prom

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
)

// describe sends type, unit and help text of the exported metrics.
func (w *Writer) describe(ctx context.Context, all []*metric) error {
	for _, m := range all {
		if !isExported(m) {
			continue
		}
		kind := prompb.MetricMetadata_GAUGE
		if m.shape == counter {
			kind = prompb.MetricMetadata_COUNTER
		}
		w.request.Metadata = append(w.request.Metadata, prompb.MetricMetadata{
			Type: kind, MetricFamilyName: m.name, Help: m.help(), Unit: m.unit,
		})
	}
	return w.flush(ctx)
}

// flush sends the request and repeats it until the receiver accepts or rejects it. The error is the
// context's.
func (w *Writer) flush(ctx context.Context) error {
	if len(w.request.Timeseries) == 0 && len(w.request.Metadata) == 0 {
		return nil
	}
	body, err := w.request.Marshal()
	if err != nil { // it has no message that could be invalid
		return err
	}
	packed := s2.EncodeSnappy(nil, body)
	began, wait := time.Now(), minRetryWait
	for {
		after, err := w.send(ctx, packed)
		var no *rejection
		switch {
		case err == nil:
			w.setTrouble("")
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &no):
			w.mu.Lock()
			w.lost += uint64(w.samples)
			w.rejected, w.at, w.trouble = err.Error(), w.api.now(), ""
			w.mu.Unlock()
		default:
			w.setTrouble("%v; retrying since %s", err, began.UTC().Format("15:04:05 UTC"))
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(max(after, wait)):
			}
			wait = min(2*wait, maxRetryWait)
			continue
		}
		clear(w.request.Timeseries) // the samples can be freed
		w.request.Timeseries, w.request.Metadata = w.request.Timeseries[:0], nil
		w.samples = 0
		return nil
	}
}

// rejection is an answer that a retry would not change.
type rejection struct {
	status int
	text   string
}

func (r *rejection) Error() string {
	status := strconv.Itoa(r.status) + " " + http.StatusText(r.status)
	return strings.TrimSpace(status + " " + r.text)
}

// send makes one request. after is the wait that the receiver asks for, 0 for none. The error is a
// *rejection when a retry is useless.
func (w *Writer) send(ctx context.Context, packed []byte) (after time.Duration, err error) {
	body := bytes.NewReader(packed)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.to.String(), body)
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
			err = at.Err // without the address, which may contain a password
		}
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 300))
	printable := strings.TrimSpace(strings.ToValidUTF8(string(text), "?"))
	line, _, _ := strings.Cut(printable, "\n")
	switch {
	case res.StatusCode/100 == 2:
		return 0, nil
	case res.StatusCode/100 == 5 || res.StatusCode == http.StatusTooManyRequests:
		if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
			after = min(time.Duration(s)*time.Second, 10*maxRetryWait)
		}
		return after, errors.New(strings.TrimSpace(res.Status + " " + line))
	}
	return 0, &rejection{res.StatusCode, line}
}

// seriesLabels returns the labels of a series, sorted by name, as remote write requires.
// A label of more whose name is a field of the metric is renamed to exported_NAME.
func seriesLabels(own labels.Labels, more []labels.Label) []prompb.Label {
	var all []prompb.Label
	own.Range(
		func(l labels.Label) { all = append(all, prompb.Label{Name: l.Name, Value: l.Value}) },
	)
	for _, l := range more {
		if own.Has(l.Name) {
			l.Name = "exported_" + l.Name
		}
		all = append(all, prompb.Label{Name: l.Name, Value: l.Value})
	}
	slices.SortFunc(all, func(a, b prompb.Label) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
