package prom

import (
	"context"
	"strconv"
	"testing"

	"culprit/measure"
)

// BenchmarkGraph queries an hour of 100 rows in steps of 15 seconds. The archive costs nothing, so
// the benchmark measures this package and the engine.
func BenchmarkGraph(b *testing.B) {
	m := &memory{}
	m.record(b, measure.Delta, measure.Bytes, false, "net.device.bytes by netns,device,direction")
	m.sets[0].Created = noon
	a := New(instant{}, m.datasets, "test")
	a.now = noon.Add(60 * measure.Minute).AsTime
	there := withWorkers(b, a)
	for _, q := range []string{`rate(culprit_net_device_bytes_total[5m])`, `culprit_net_device_bytes_per_second`, `sum by (direction) (rate(culprit_net_device_bytes_total[1m]))`, `topk(5, avg_over_time(culprit_net_device_bytes_per_second[1m]))`} {
		b.Run(q, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data(b, a, "query_range", "query", q, "start", seconds(noon), "end",
					seconds(noon.Add(60*measure.Minute)), "step", "15")
			}
		})
		b.Run("worker "+q, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data(b, there, "query_range", "query", q, "start", seconds(noon), "end",
					seconds(noon.Add(60*measure.Minute)), "step", "15")
			}
		})
	}
}

// instant answers any query with 100 rows of 1,000 bytes per second.
type instant struct{}

// Ask implements measure.Reader.
func (instant) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	n := int(q.Over.Span() / q.Step)
	a := &measure.Answer{Query: q, Kind: measure.Delta, Unit: "B/s", Start: q.Over.Start,
		Step: q.Step, Elapsed: make([]measure.Span, n), Labels: []string{"rx", "tx", ""}}
	for c := range n {
		if q.Over.Start.Add(q.Step*measure.Span(c)) >= noon {
			a.Elapsed[c] = q.Step
		}
	}
	for i := range 100 {
		a.Labels = append(a.Labels, "eth"+strconv.Itoa(i/2))
		v := make([]float64, n)
		for c := range v {
			v[c] = 1000
			if a.Elapsed[c] == 0 {
				v[c] = measure.NaN
			}
		}
		a.Series = append(
			a.Series,
			measure.Series{Key: []measure.Label{2, measure.Label(3 + i), measure.Label(i % 2)},
				Values: v},
		)
	}
	return a, nil
}
