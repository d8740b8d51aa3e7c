package connection

import (
	"fmt"
	"runtime"
	"testing"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// BenchmarkFlowsRead reads real connections over loopback in a namespace of its own, with two
// sockets each. "kernel" is the dump alone, which no collector can beat.
func BenchmarkFlowsRead(b *testing.B) {
	for _, c := range []struct {
		sockets, moving int
		only            []measure.StatID
	}{
		{1_000, 0, nil}, {19_800, 0, nil}, {19_800, 0, []measure.StatID{"tcp.connections"}}, {1_000, 100, nil},
	} {
		name := fmt.Sprintf("sockets=%d/moving=%d", c.sockets, c.moving)
		if c.only != nil {
			name += "/" + string(c.only[0])
		}
		b.Run(name, func(b *testing.B) {
			inNamespace(b, func() { benchFlows(b, c.sockets, c.moving, c.only) })
		})
	}
}

func benchFlows(b *testing.B, sockets, moving int, ids []measure.StatID) {
	pairs := connectMany(b, sockets/2)
	defer closeMany(pairs)
	if ids == nil {
		for _, s := range (Flows{}).Stats() {
			ids = append(ids, s.ID)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := openReadings(b, Flows{}, ids...)
	defer r.r.Close()
	for range 3 {
		r.read()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	one := make([]byte, 1)
	var start, end unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &start))
	b.ReportAllocs()
	for b.Loop() {
		if moving > 0 {
			b.StopTimer()
			for _, p := range pairs[:moving/2] {
				_, err := unix.Write(p.client, one)
				must(b, err)
				_, err = unix.Read(p.server, one)
				must(b, err)
			}
			b.StartTimer()
		}
		r.read()
	}
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &end))
	if moving == 0 {
		b.ReportMetric(float64(end.Utime.Nano()-start.Utime.Nano())/float64(b.N)/1e6, "user-ms/op")
		b.ReportMetric(float64(end.Stime.Nano()-start.Stime.Nano())/float64(b.N)/1e6, "sys-ms/op")
	}
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/1e6, "MB-kept")
}

func connectMany(t testing.TB, n int) []*pair {
	t.Helper()
	listener, bound := listen(t, tcp4(127, 0, 0, 1, 0))
	defer unix.Close(listener)
	pairs := make([]*pair, n)
	for i := range pairs {
		pairs[i] = connect(t, listener, bound)
	}
	return pairs
}

func closeMany(pairs []*pair) {
	for _, p := range pairs {
		p.close()
	}
}
