package store

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"culprit/measure"
)

// profiler makes batches of samples: stacks of a random call graph, most of them of few functions,
// like those of a machine.
type profiler struct {
	r      *rand.Rand
	stat   measure.Stat
	labels []string
	frames []measure.Frame
	stacks []measure.Label
	zipf   *rand.Zipf
	batch  measure.Batch
	at     map[[5]measure.Label]int
}

func newProfiler(stacks int) *profiler {
	g := &profiler{
		r:      rand.New(rand.NewPCG(7, 8)),
		at:     map[[5]measure.Label]int{},
		frames: []measure.Frame{{Parent: -1}},
	}
	g.stat = measure.Stat{
		ID:     measure.StackSamples,
		Kind:   measure.Delta,
		Unit:   measure.Samples,
		Sparse: true,
		Fields: []measure.Field{
			{Name: "process", Type: measure.Word},
			{Name: "pid", Type: measure.Number},
			{
				Name: "cpu",
				Type: measure.Number,
			},
			{Name: "kernel", Type: measure.Stack},
			{Name: "user", Type: measure.Stack},
		},
	}
	for i := range 100 {
		g.labels = append(g.labels, fmt.Sprintf("process%d", i/2), fmt.Sprint(1000+17*i))
	}
	for i := range 64 {
		g.labels = append(g.labels, fmt.Sprint(i))
	}
	g.zipf = rand.NewZipf(g.r, 1.2, 10, uint64(stacks-1))
	type call struct {
		parent   int32
		function int
	}
	known := map[call]int32{}
	for range stacks {
		parent, function := int32(-1), g.r.IntN(20)
		for range 8 + g.r.IntN(30) {
			n, ok := known[call{parent, function}]
			if !ok {
				n = int32(len(g.frames))
				known[call{parent, function}] = n
				g.frames = append(g.frames, measure.Frame{
					Symbol: fmt.Sprintf("function_number_%d", function),
					Module: fmt.Sprintf("module%d", function%30),
					Parent: parent,
				})
			}
			parent = n
			if function = function*3 + 1 + int(g.r.ExpFloat64()*0.4); function > 3000 {
				function %= 3000
			}
		}
		g.stacks = append(g.stacks, measure.Label(parent))
	}
	return g
}

// tick returns a batch of samples, valid until the next call.
func (g *profiler) tick(at measure.Time, samples, cpus int) *measure.Batch {
	b := &g.batch
	*b = measure.Batch{
		Stat:   g.stat.ID,
		By:     []string{"process", "pid", "cpu", "kernel", "user"},
		Over:   measure.Interval{Start: at - 1e9, End: at},
		Labels: g.labels,
		Frames: g.frames,
		Keys:   b.Keys[:0],
		Values: b.Values[:0],
	}
	clear(g.at)
	for range samples {
		user, kernel := g.zipf.Uint64(), measure.Label(0)
		process := int(user) % 100
		if user%3 == 0 {
			kernel = g.stacks[user/3]
		}
		key := [5]measure.Label{
			measure.Label(2 * process),
			measure.Label(2*process + 1),
			measure.Label(200 + g.r.IntN(cpus)),
			kernel,
			g.stacks[user],
		}
		i, ok := g.at[key]
		if !ok {
			i = len(b.Values)
			g.at[key] = i
			b.Keys, b.Values = append(b.Keys, key[:]...), append(b.Values, 0)
		}
		b.Values[i]++
	}
	return b
}

// BenchmarkProfileKeep appends seconds of samples.
func BenchmarkProfileKeep(b *testing.B) {
	for _, n := range []int{98, 480} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			// an hour is appended faster than it is written
			s, err := Open(b.TempDir(), Options{Memory: 256 << 20})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			g := newProfiler(20000)
			id, err := s.Save(
				measure.Dataset{
					Stat: g.stat,
					Query: measure.Query{
						Stat: g.stat.ID,
						By:   []string{"process", "pid", "cpu", "kernel", "user"},
						Step: measure.Second,
					},
				},
			)
			if err != nil {
				b.Fatal(err)
			}
			at := someTime
			spent := time.Duration(0)
			for b.Loop() {
				at += 1e9
				batch := g.tick(at, n, max(2, n/48))
				t := time.Now()
				if err := s.Append(at, []uint32{id}, []*measure.Batch{batch}); err != nil {
					b.Fatal(err)
				}
				spent += time.Since(t)
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/append")
		})
	}
}

// BenchmarkProfileHour queries the profile of an hour of 480 samples per second.
func BenchmarkProfileHour(b *testing.B) {
	for _, stacks := range []int{3000, 20000} {
		// an hour is appended faster than it is written
		s, err := Open(b.TempDir(), Options{Memory: 256 << 20})
		if err != nil {
			b.Fatal(err)
		}
		g := newProfiler(stacks)
		id, err := s.Save(
			measure.Dataset{
				Stat: g.stat,
				Query: measure.Query{
					Stat: g.stat.ID,
					By:   []string{"process", "pid", "cpu", "kernel", "user"},
					Step: measure.Second,
				},
			},
		)
		if err != nil {
			b.Fatal(err)
		}
		start := someTime - someTime%measure.Time(hour)
		at := start
		for range 3600 {
			at += 1e9
			batch := g.tick(at, 480, 10)
			if err := s.Append(at, []uint32{id}, []*measure.Batch{batch}); err != nil {
				b.Fatal(err)
			}
		}
		h := s.Held(id)
		for name, off := range map[string]measure.Span{
			"minutes": 0, "seconds": 17 * measure.Second,
		} {
			hourOf(
				b, fmt.Sprint(stacks, " stacks, from ", name), s, g,
				measure.Interval{Start: start.Add(off), End: at}, h.Disk,
			)
		}
		s.Close()
	}
}

func hourOf(b *testing.B, name string, s *Store, g *profiler, over measure.Interval, disk int64) {
	b.Run(name, func(b *testing.B) {
		before := cpuTime()
		defer func() {
			b.ReportMetric(float64((cpuTime()-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		}()
		for b.Loop() {
			a, err := s.Ask(
				b.Context(),
				measure.Query{
					Stat: g.stat.ID,
					By:   []string{"process", "kernel", "user"},
					Over: over,
					Step: over.Span(),
				},
			)
			if err != nil {
				b.Fatal(err)
			}
			sum := 0.0
			for _, r := range a.Series {
				sum += r.Values[0] * a.Elapsed[0].Seconds()
			}
			if int(sum+0.5) != int(480*over.Seconds()) {
				b.Fatalf("%.1f samples", sum)
			}
			b.ReportMetric(float64(len(a.Series)), "rows")
			b.ReportMetric(float64(len(a.Frames)), "frames")
		}
		b.ReportMetric(float64(disk), "disk-bytes")
	})
}

// cpuTime returns the CPU time of this process, which other processes on the machine affect less
// than the wall clock.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
