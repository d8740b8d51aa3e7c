package connection

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"culprit/collect"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// inTableOf runs f in a namespace whose table of established connections has the given number of
// buckets; 0: it uses the table of the machine.
func inTableOf(t testing.TB, buckets int, f func()) {
	inNamespace(t, func() {
		if buckets > 0 {
			// The content of /proc/sys/net belongs to the thread that opens the file.
			must(t, os.WriteFile("/proc/sys/net/ipv4/tcp_child_ehash_entries",
				[]byte(strconv.Itoa(buckets)), 0o644))
			must(t, unix.Unshare(unix.CLONE_NEWNET))
			must(t, loopbackUp())
		}
		f()
	})
}

// fillVariable makes the test binary a process that holds connections, as "FIRST COUNT".
const fillVariable = "CULPRIT_TEST_FILL"

func TestMain(m *testing.M) {
	if what := os.Getenv(fillVariable); what != "" {
		if err := holdConnections(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// holdConnections makes established connections that no peer knows of, without a packet: connect(2)
// of a socket in repair mode only enters the table (tcp(7)). It returns at the end of its input.
func holdConnections(what string) error {
	var first, count int
	if _, err := fmt.Sscan(what, &first, &count); err != nil {
		return err
	}
	const ports = 40_000 // of one address
	for i := first; i < first+count; i++ {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1)
		}
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet4{
				Port: 20_000 + i%ports, Addr: [4]byte{127, 77, 0, byte(1 + i/ports)},
			})
		}
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}})
		}
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// fillTable makes n connections in as many processes as their limits of open files ask for. It
// returns what ends them, and one of them.
func fillTable(t testing.TB, n int) (closeAll func(), pid int) {
	t.Helper()
	var r unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &r))
	each := int(min(r.Max, 1<<20)) - 100
	var ends []func()
	closeAll = func() {
		for _, end := range ends {
			end()
		}
	}
	for first := 0; first < n; first += each {
		c := exec.Command("/proc/self/exe")
		what := fmt.Sprintf("%s=%d %d", fillVariable, first, min(each, n-first))
		c.Env = append(os.Environ(), what)
		c.Stderr = os.Stderr
		in, err := c.StdinPipe()
		must(t, err)
		out, err := c.StdoutPipe()
		must(t, err)
		must(t, c.Start())
		pid = c.Process.Pid
		ends = append(ends, func() { in.Close(); c.Wait() }) //nolint:errcheck // only held sockets
		if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
			closeAll()
			t.Errorf("a process that holds connections: %v", err)
			break
		}
	}
	return closeAll, pid
}

// BenchmarkFlowsManyConnections reads idle connections in tables of different width.
func BenchmarkFlowsManyConnections(b *testing.B) {
	for _, c := range []struct{ sockets, buckets int }{
		{50_000, 0}, {200_000, 0}, {200_000, 256},
	} {
		b.Run(fmt.Sprintf("sockets=%d/buckets=%d", c.sockets, c.buckets), func(b *testing.B) {
			inTableOf(b, c.buckets, func() {
				end, _ := fillTable(b, c.sockets)
				defer end()
				benchMany(b)
			})
		})
	}
}

func benchMany(b *testing.B) {
	var ids []measure.StatID
	for _, s := range (Flows{}).Stats() {
		ids = append(ids, s.ID)
	}
	r := openReadings(b, Flows{}, ids...)
	defer r.r.Close()
	began := time.Now()
	r.read()
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "first-ms")
	for range 2 {
		r.read()
	}
	var start, end unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &start))
	for b.Loop() {
		r.read()
	}
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &end))
	b.ReportMetric(float64(end.Utime.Nano()-start.Utime.Nano())/float64(b.N)/1e6, "user-ms/op")
	b.ReportMetric(float64(end.Stime.Nano()-start.Stime.Nano())/float64(b.N)/1e6, "sys-ms/op")
}

// steady is a collector with a row of 1 in each reading.
type steady struct{}

func (steady) Stats() []measure.Stat { return []measure.Stat{{ID: "steady.row"}} }

func (steady) Open(*collect.Env, collect.Want) (collect.Reading, error) { return steady{}, nil }

func (steady) Read(out *collect.Out) error {
	out.Table("steady.row").Row(1)
	return nil
}

func (steady) Close() {}

// TestManyConnections records a namespace with 80,000 connections. One of them moves data, and all
// its bytes are counted. Reading the connections takes a bounded part of a CPU, and the other
// statistics are read at each tick. The number of connections is that of the kernel.
func TestManyConnections(t *testing.T) {
	const connections, size = 80_000, 1 << 20
	inTableOf(t, 256, func() {
		end, pid := fillTable(t, connections)
		defer end()
		if t.Failed() {
			return
		}
		pairs := connectMany(t, 1)
		defer closeMany(pairs)
		source := collect.New(
			collect.Env{Long: true, Netns: fmt.Sprint("pid:", pid)}, Flows{}, steady{},
		)
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		defer stop()
		var queries []measure.Query
		for _, st := range source.Stats() {
			queries = append(queries, measure.Query{Stat: st.ID, Step: measure.Second})
		}
		k := manyTicks{t: t, pair: pairs[0], size: size, stop: stop}
		must(t, source.Run(ctx, queries, measure.SinkFunc(k.tick)))
		t.Logf("%d ticks, %d readings of connections, %v CPU time in %v", k.ticks, k.readings,
			k.cost(source), time.Since(k.began))
		if k.established != connections+2 {
			t.Errorf("%v established connections, want %d", k.established, connections+2)
		}
		if k.bytes != 2*size { // both ends
			t.Errorf("%v bytes moved, want %d", k.bytes, 2*size)
		}
		if share := k.cost(source).Seconds() / time.Since(k.began).Seconds(); share > 0.25 {
			t.Errorf("the connections took %.0f %% of a CPU", 100*share)
		}
	})
}

// manyTicks is the sink of TestManyConnections.
type manyTicks struct {
	t                  *testing.T
	pair               *pair
	size               int
	stop               func()
	began              time.Time
	ticks, readings    int
	bytes, established float64
}

func (k *manyTicks) tick(batches []*measure.Batch) error {
	if k.ticks++; k.ticks == 1 {
		k.began = time.Now()
	}
	for _, b := range batches {
		switch {
		case b.Stat == "steady.row" && (b.Rows() != 1 || b.Over.Span() == 0):
			k.t.Errorf("tick %d lacks another statistic: %q", k.ticks, b.Notes)
		case b.Stat == "tcp.flow.bytes":
			for _, v := range b.Values {
				k.bytes += v
			}
		case b.Stat == "tcp.connections" && b.Over.Span() > 0:
			k.readings++
			for i, v := range b.Values {
				if b.Labels[b.Key(i)[1]] == "established" {
					k.established = v
				}
			}
			if k.readings == 2 {
				send(k.t, k.pair.client, k.pair.server, k.size)
			}
		}
	}
	if k.readings >= 5 {
		k.stop()
	}
	return nil
}

func (k *manyTicks) cost(s *collect.Source) (sum time.Duration) {
	for _, st := range (Flows{}).Stats() {
		sum += s.Cost(st.ID).AsDuration()
	}
	return sum
}
