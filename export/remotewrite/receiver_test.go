package remotewrite

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
)

// recordingReceiver accepts remote write and reads it with Prometheus's own packages.
type recordingReceiver struct {
	t      *testing.T
	mu     sync.Mutex // guards what follows
	series map[string][]prompb.Sample
	units  map[string]string // type and unit, by metric
	asked  int
	refuse func(n int) int // the status of request n, 0: accept it
	bad    string          // a request with a series that contains it is rejected; "": none
	auth   string          // of the newest request
	before func()          // is called before a request is read; nil: nothing
	header http.Header
	// noNative answers 500 to native histograms, as Prometheus does without its feature.
	noNative bool
	// replays allows a sample to come again with the same value.
	replays    bool
	histograms map[string][]prompb.Histogram
}

func (r *recordingReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.before != nil {
		r.before()
	}
	r.auth = req.Header.Get("Authorization")
	if r.refuse != nil {
		if status := r.refuse(r.asked); status != 0 {
			http.Error(w, "out of order\nand more", status)
			return
		}
	}
	packed, err := io.ReadAll(req.Body)
	if err != nil {
		r.t.Error(err)
		return
	}
	b, err := s2.Decode(nil, packed)
	if err != nil {
		r.t.Error(err)
		return
	}
	var got prompb.WriteRequest
	if err := got.Unmarshal(b); err != nil {
		r.t.Error(err)
		return
	}
	if h := req.Header; h.Get("Content-Encoding") != "snappy" ||
		h.Get("Content-Type") != "application/x-protobuf" ||
		h.Get("X-Prometheus-Remote-Write-Version") != "0.1.0" {
		r.t.Errorf("headers %v", h)
	}
	r.header = req.Header
	for _, m := range got.Metadata {
		r.units[m.MetricFamilyName] = m.Type.String() + " " + m.Unit
	}
	if r.bad != "" && slices.ContainsFunc(got.Timeseries, func(s prompb.TimeSeries) bool {
		return strings.Contains(keyOf(s), r.bad)
	}) {
		http.Error(w, "out of order\nand more", 400)
		return
	}
	if r.noNative && slices.ContainsFunc(got.Timeseries, func(s prompb.TimeSeries) bool {
		return len(s.Histograms) > 0
	}) {
		http.Error(w, "native histograms are disabled", 500)
		return
	}
	for _, s := range got.Timeseries {
		var names []string
		for _, l := range s.Labels {
			names = append(names, l.Name)
		}
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			r.t.Errorf("labels %v", names)
		}
		key := keyOf(s)
		for _, p := range s.Samples {
			r.sample(key, p)
		}
		for _, h := range s.Histograms {
			r.histogram(key, h)
		}
	}
}

// sample stores a sample. One of a time that is stored must have the same value.
func (r *recordingReceiver) sample(key string, p prompb.Sample) {
	have := r.series[key]
	n := len(have)
	switch {
	case n == 0 || have[n-1].Timestamp < p.Timestamp:
		r.series[key] = append(have, p)
	case !r.replays:
		r.t.Errorf("%s: %d after %d", key, p.Timestamp, have[n-1].Timestamp)
	default:
		i := slices.IndexFunc(have, func(h prompb.Sample) bool {
			return h.Timestamp == p.Timestamp
		})
		if i < 0 || math.Float64bits(have[i].Value) != math.Float64bits(p.Value) {
			r.t.Errorf("%s: %v at %d comes again, and differs", key, p.Value, p.Timestamp)
		}
	}
}

// histogram stores a native histogram, likewise.
func (r *recordingReceiver) histogram(key string, h prompb.Histogram) {
	have := r.histograms[key]
	n := len(have)
	switch {
	case n == 0 || have[n-1].Timestamp < h.Timestamp:
		r.histograms[key] = append(have, h)
	case !r.replays || !slices.ContainsFunc(have, func(o prompb.Histogram) bool {
		return o.String() == h.String()
	}):
		r.t.Errorf("%s: %d after %d, or it differs", key, h.Timestamp, have[n-1].Timestamp)
	}
}

// keyOf returns the labels of a series as text.
func keyOf(s prompb.TimeSeries) string {
	b := labels.NewScratchBuilder(len(s.Labels))
	for _, l := range s.Labels {
		b.Add(l.Name, l.Value)
	}
	return b.Labels().String()
}

// receives starts a receiver and returns its address.
func receives(t *testing.T) (*recordingReceiver, string) {
	r := &recordingReceiver{t: t, series: map[string][]prompb.Sample{}, units: map[string]string{},
		histograms: map[string][]prompb.Histogram{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return r, s.URL + "/api/v1/write"
}
