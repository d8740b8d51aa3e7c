package remotewrite

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"
	"time"

	"culprit/export"
	"culprit/measure"
)

// prepared answers each query with rows that are made before.
type prepared map[measure.StatID]*measure.Answer

// Ask implements measure.Reader.
func (p prepared) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	a := *p[q.Stat]
	a.Query, a.Start, a.Step = q, q.Over.Start, q.Step
	a.Elapsed = a.Elapsed[:int(q.Over.Span()/q.Step)]
	return &a, nil
}

// add adds a dataset with n rows that move in each cell.
func (p prepared) add(e *export.Entry, n int) measure.Dataset {
	d := measure.Dataset{Stat: measure.Stat{ID: e.Stat, Kind: e.Kind, Unit: e.Unit,
		Signed: e.Signed}, Query: measure.Query{Stat: e.Stat, By: slices.Clone(e.Labels),
		Step: measure.Second}}
	for _, t := range e.Where {
		if !slices.Contains(d.Query.By, t.Field) {
			d.Query.By = append(d.Query.By, t.Field)
		}
	}
	a := &measure.Answer{Elapsed: []measure.Span{15 * measure.Second, 15 * measure.Second}}
	for i := range n {
		s := measure.Series{Values: []float64{float64(1000*i + 17), float64(900*i + 19)}}
		for range e.Labels {
			s.Key = append(s.Key, measure.Label(len(a.Labels)))
			a.Labels = append(a.Labels, fmt.Sprintf("value-%d", i))
		}
		a.Series = append(a.Series, s)
	}
	p[e.Stat] = a
	return d
}

// processorTime returns the CPU time of this process in nanoseconds.
func processorTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkRound measures a round of the most series that are sent, without the archive: labels,
// encoding, a request by TCP with its receiver, and the file. %CPU is the CPU time of the process
// in 15 s.
func BenchmarkRound(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer s.Close()
	p, series := prepared{}, 0
	var sets []measure.Dataset
	for _, e := range export.Table() {
		n := min(60, export.MaxSeries-series)
		if len(e.Labels) == 0 {
			n = min(n, 1)
		}
		if e.Local == "" && e.Kind != measure.Dists && n > 0 {
			sets = append(sets, p.add(&e, n))
			series += n
		}
	}
	w := (&memory{}).writer(b, noon, s.URL, 15*measure.Second, func(_ *Target, s *Source) {
		s.Reader, s.Dir = p, b.TempDir()
		s.Datasets = func() []measure.Dataset { return sets }
	})
	now := noon
	round := func() {
		now = now.Add(15 * measure.Second)
		w.now = func() time.Time { return now.AsTime() }
		if err := w.round(b.Context(), now); err != nil {
			b.Fatal(err)
		}
	}
	round()
	b.ReportAllocs()
	before := processorTime(b)
	for b.Loop() {
		round()
	}
	if len(w.Problems()) > 1 { // the clock is that of the test
		b.Fatal(w.Problems())
	}
	b.ReportMetric(float64(series), "series")
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N)/15e9*100, "%CPU")
}
