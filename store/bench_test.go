package store

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"culprit/measure"
)

var benchHours = flag.Int("store.hours", 1, "hours of data that the benchmarks of questions make")

// generator makes batches of a machine: series of one statistic each, by device. steady is the
// share of values that equal those of the previous second; churn is how many series are replaced
// each second.
type generator struct {
	r      *rand.Rand
	steady float64
	churn  float64
	ids    []uint32
	out    []*measure.Batch
	labels []string
	next   int
}

// newGenerator saves its datasets, with that many rows each, in the store.
func newGenerator(tb testing.TB, s *Store, sets, rows int, steady, churn float64) *generator {
	tb.Helper()
	g := &generator{r: rand.New(rand.NewPCG(5, 6)), steady: steady, churn: churn}
	for i := range sets {
		st := measure.Stat{
			ID:     measure.StatID(fmt.Sprintf("bench.set%d.bytes", i)),
			Kind:   measure.Delta,
			Unit:   measure.Bytes,
			Fields: []measure.Field{{Name: "device"}, {Name: "direction"}},
		}
		if i%3 == 2 {
			st.Kind = measure.Level
		}
		id, err := s.Save(
			measure.Dataset{
				Stat: st,
				Query: measure.Query{
					Stat: st.ID,
					By:   []string{"device", "direction"},
					Step: measure.Second,
				},
			},
		)
		if err != nil {
			tb.Fatal(err)
		}
		b := &measure.Batch{Stat: st.ID, By: []string{"device", "direction"}}
		for range rows {
			b.Keys = append(b.Keys, g.label(), measure.Label(g.r.IntN(2)))
			b.Values = append(b.Values, float64(g.r.IntN(100000)))
		}
		g.ids, g.out = append(g.ids, id), append(g.out, b)
	}
	return g
}

func (g *generator) label() measure.Label {
	if g.labels == nil {
		g.labels = []string{"receive", "transmit"}
	}
	g.next++
	g.labels = append(g.labels, fmt.Sprintf("device%d", g.next))
	return measure.Label(len(g.labels) - 1)
}

// tick makes the next batches, which are valid until the next call.
func (g *generator) tick(at measure.Time) ([]uint32, []*measure.Batch) {
	elapsed := measure.Second + measure.Span(g.r.NormFloat64()*2e5)
	for i, b := range g.out {
		b.Over = measure.Interval{Start: at.Add(-elapsed), End: at}
		for j := range b.Values {
			if g.steady > 0 && g.r.Float64() < g.steady {
				continue
			}
			// most numbers of a machine are small, some are large
			scale := float64(int(1) << (j % 14))
			if i%3 == 2 {
				// a level changes by small steps
				b.Values[j] = math.Round(b.Values[j] + g.r.NormFloat64()*scale)
			} else {
				b.Values[j] = math.Round(math.Abs(scale*10 + g.r.NormFloat64()*scale))
			}
		}
		for n := g.churn * float64(len(b.Values)); n > 0 && g.r.Float64() < n; n-- {
			b.Keys[2*g.r.IntN(len(b.Values))] = g.label()
		}
		b.Labels = g.labels
	}
	return g.ids, g.out
}

func (g *generator) fill(tb testing.TB, s *Store, from measure.Time, ticks int) measure.Time {
	for range ticks {
		from = from.Add(measure.Second)
		ids, batches := g.tick(from)
		if err := s.Append(from, ids, batches); err != nil {
			tb.Fatal(err)
		}
	}
	return from
}

func (s *Store) diskBytes() (bytes, samples float64) {
	for _, d := range s.Datasets() {
		h := s.Held(d.ID)
		bytes += float64(h.Disk)
		samples += float64(h.Samples)
	}
	return bytes, samples
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name          string
		steady, churn float64
	}{{"noisy", 0, 0}, {"real", 0.92, 0.002}} {
		b.Run(c.name, func(b *testing.B) {
			s, err := Open(b.TempDir(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			g := newGenerator(b, s, 50, 100, c.steady, c.churn)
			at := g.fill(b, s, someTime-someTime%measure.Time(hour), 2)
			var spent time.Duration
			b.ResetTimer()
			for range b.N {
				at = at.Add(measure.Second)
				ids, batches := g.tick(at)
				start := time.Now()
				if err := s.Append(at, ids, batches); err != nil {
					b.Fatal(err)
				}
				spent += time.Since(start)
			}
			start := time.Now()
			s.Settle()
			spent += time.Since(start)
			b.StopTimer()
			b.ReportMetric(float64(spent)/float64(b.N)/5000, "ns/sample")
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/1e6, "MB-heap")
			if bytes, samples := s.diskBytes(); samples > 0 {
				raw, rolled := 0.0, 0.0
				for _, d := range s.datasets.byID {
					for r, list := range d.index {
						for _, e := range list {
							if r == 0 {
								raw += float64(e.bytes)
							} else {
								rolled += float64(e.bytes)
							}
						}
					}
				}
				b.ReportMetric(raw/samples, "B/sample")
				b.ReportMetric(rolled/samples, "B-rollup/sample")
				_ = bytes
			}
			s.Close()
		})
	}
}

// BenchmarkAsk queries hours of rows, up to 1,500 columns.
func BenchmarkAsk(b *testing.B) {
	for _, rows := range []int{100, 1000} {
		dir := b.TempDir()
		s, err := Open(dir, Options{Memory: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		g := newGenerator(b, s, 1, rows, 0, 0)
		start := someTime - someTime%measure.Time(hour)
		end := start
		for range *benchHours * 12 {
			end = g.fill(b, s, end, 300)
			s.Settle()
		}
		g.fill(b, s, end, 300)
		s.Settle()
		step := measure.Span(*benchHours) * hour / 1440
		for name, q := range map[string]measure.Query{
			"plain": {By: []string{"device", "direction"}, Step: step},
			"ticks": {By: []string{"device", "direction"}, Step: step, Over: measure.Interval{
				Start: start.Add(7 * measure.Second),
			}},
			"folded": {By: []string{"direction"}, Step: step},
			"one": {By: []string{"device", "direction"}, Step: step, Where: []measure.Term{
				{Field: "device", Op: measure.Equal, Values: []string{"device7"}},
			}},
		} {
			q.Stat = "bench.set0.bytes"
			b.Run(fmt.Sprintf("%s/%d", name, rows), func(b *testing.B) {
				for range b.N {
					if _, err := s.Ask(context.Background(), q); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		s.Close()
		size := int64(0)
		_ = filepath.Walk(dir, func(_ string, i os.FileInfo, err error) error {
			if err == nil {
				size += i.Size()
			}
			return nil
		})
		b.Logf("%d rows, %d hours: %.1f MB of files", rows, *benchHours, float64(size)/1e6)
	}
}

// BenchmarkAskNow queries data recorded a moment ago, as a diagnosis (ten seconds) and the page
// (one second) do, of 100 datasets of 40 rows each.
func BenchmarkAskNow(b *testing.B) {
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	g := newGenerator(b, s, 100, 40, 0.5, 0)
	end := g.fill(b, s, someTime-someTime%measure.Time(hour), 150)
	for _, seconds := range []int{1, 10} {
		b.Run(fmt.Sprint(seconds), func(b *testing.B) {
			over := measure.Interval{
				Start: end.Add(measure.Span(-seconds) * measure.Second),
				End:   end,
			}
			b.ReportAllocs()
			for i := range b.N {
				q := measure.Query{
					Stat: g.out[i%100].Stat,
					By:   []string{"device", "direction"},
					Step: measure.Second,
					Over: over,
				}
				if a, err := s.Ask(b.Context(), q); err != nil || len(a.Series) != 40 {
					b.Fatal(a, err)
				}
			}
		})
	}
}

// BenchmarkReopen opens an archive with hours of 5,000 series in 50 datasets, and frames of the
// newest minutes.
func BenchmarkReopen(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	g := newGenerator(b, s, 50, 100, 0.92, 0.002)
	at := someTime - someTime%measure.Time(hour)
	for range *benchHours * 12 {
		at = g.fill(b, s, at, 300)
		s.Settle()
	}
	g.fill(b, s, at, 290)
	s.Close()
	b.ResetTimer()
	for range b.N {
		s, err := Open(dir, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}

// BenchmarkReplay queries one second after another, each separately, of a dataset of 500 rows, ten
// of which are replaced each second.
func BenchmarkReplay(b *testing.B) {
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	g := newGenerator(b, s, 1, 500, 0.92, 0.02)
	start := someTime - someTime%measure.Time(hour)
	end := g.fill(b, s, start, 900)
	s.Settle()
	at := start
	q := measure.Query{
		Stat: "bench.set0.bytes",
		By:   []string{"device", "direction"},
		Step: measure.Second,
	}
	b.ResetTimer()
	for range b.N {
		q.Over = measure.Interval{Start: at, End: at.Add(measure.Second)}
		if _, err := s.Ask(context.Background(), q); err != nil {
			b.Fatal(err)
		}
		if at = q.Over.End; at == end {
			at = start
		}
	}
}
