package connection

import (
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/kernel/netlink"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// TestFlowWalk compares a walk with dumps where connections have no socket, and checks that an
// incomplete walk is replaced by dumps.
func TestFlowWalk(t *testing.T) {
	walkable(t)
	inNamespace(t, func() {
		r := openReadings(t, Flows{walk: true}, "tcp.flow.bytes", "tcp.connections")
		defer r.r.Close()
		same := func(what string, walked bool) {
			t.Helper()
			until(t, what+" in all states", func() bool { // the kernel may have continued meanwhile
				before := procStates(t)
				r.read()
				states := r.rows("tcp.connections", "state")
				for state, n := range procStates(t) {
					if before[state] == n && states[state] != n && state != "time-wait" {
						t.Errorf(
							"%s: %v %s, in /proc/net/tcp %v; by a walk: %v", what, states[state],
							state, n, r.walks(),
						)
					}
				}
				return maps.Equal(before, procStates(t)) && (r.walks() == walked || r.gaveWay())
			})
		}
		listener, bound := listen(t, tcp4(127, 0, 0, 1, 0))
		defer unix.Close(listener)
		r.read()
		old := connect(t, listener, bound)
		defer old.close()
		r.read()
		same("one connection", true)

		// Until the first byte a connection remains a request: tcp(7).
		deferred, later := listen(t, tcp4(127, 0, 0, 1, 0))
		defer unix.Close(deferred)
		must(t, unix.SetsockoptInt(deferred, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 60))
		for range 3 {
			client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			must(t, err)
			defer unix.Close(client)
			must(t, unix.Connect(client, later))
		}
		same("requests", true)
		if got := r.rows("tcp.connections", "state")["syn-recv"]; got != 3 {
			t.Errorf("%v connections in SYN_RECV, want 3", got)
		}

		// After a close one end waits for the other without a socket: only a dump has that.
		gone := connect(t, listener, bound)
		send(t, gone.client, gone.server, 1000)
		same("two connections", true)
		must(t, unix.Close(gone.client))
		gone.client = -1
		until(
			t, "one end waits for the other",
			func() bool { return procStates(t)["fin-wait-2"] == 1 },
		)
		same("an end that waits", false)
		if got := r.rows("tcp.connections", "state"); got["fin-wait-2"] != 1 ||
			got["close-wait"] != 1 {
			t.Errorf("an end that waits: %v", got)
		}
		gone.close()
		until(t, "it is over", func() bool { return procStates(t)["fin-wait-2"] == 0 })
		same("it is over", true)

		// Both ways have the same bytes, each once.
		total := 0.0
		walks := r.r.(*flowReading).walks
		for i := range 6 {
			send(t, old.client, old.server, 10_000)
			r.r.(*flowReading).spaces.List[0].Data.calm = i%2 == 0
			r.read()
			if r.walks() != (i%2 == 0) && !r.gaveWay() {
				t.Errorf("reading %d by a walk: %v", i, r.walks())
			}
			for _, v := range r.rows("tcp.flow.bytes", "direction") {
				total += v
			}
		}
		if total != 2*6*10_000 {
			t.Errorf("%v bytes, want 120,000", total)
		}
		walks.close()
		same("without a walk", false)
	})
}

// TestFlowRequestsAgree compares the older request, the newer one, and the states in /proc/net/tcp.
// sockstat shows an empty namespace as empty until its first connection.
func TestFlowRequestsAgree(t *testing.T) {
	inNamespace(t, func() {
		r := openReadings(t, Flows{}, "tcp.flow.segments", "tcp.connections")
		defer r.r.Close()
		space := r.r.(*flowReading).spaces.List[0].Data
		r.read()
		if space.requests[1] != nil {
			t.Error("an empty namespace was walked")
		}
		listener, bound := listen(t, &unix.SockaddrInet6{})
		defer unix.Close(listener)
		mapped := &unix.SockaddrInet6{
			Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1},
			Port: port(bound),
		}
		old := connect(t, listener, tcp4(127, 0, 0, 1, port(bound)))
		defer old.close()
		loopback := &unix.SockaddrInet6{Addr: [16]byte{15: 1}, Port: port(bound)}
		for _, to := range []unix.Sockaddr{mapped, loopback} {
			p := connect(t, listener, to)
			defer p.close()
			must(t, unix.Shutdown(p.client, unix.SHUT_WR))
		}
		until(t, "the peers have heard of two ends", func() bool {
			states := procStates(t)
			return states["close-wait"] == 2 && states["fin-wait-2"] == 2
		})
		r.read()
		if len(r.rows("tcp.flow.segments")) == 0 {
			t.Error("nothing moved")
		}
		for _, request := range []string{"older request", "newer request"} {
			states := r.rows("tcp.connections", "state")
			for state, n := range procStates(t) {
				if states[state] != n {
					t.Errorf("%s: %v %s, in /proc/net/tcp %v", request, states[state], state, n)
				}
			}
			if states["established"] != 2 || states["listen"] != 1 {
				t.Errorf("%s: %v", request, states)
			}
			for which, mask := range []uint32{1 << tcpListen, r.r.(*flowReading).states(space)} {
				space.requests[which] = make([]netlink.Request, 2)
				diagRequest(&space.requests[which][0], unix.AF_INET, mask, true)
				diagRequest(&space.requests[which][1], unix.AF_INET6, mask, true)
			}
			r.read()
		}
		if got := r.rows("tcp.flow.segments"); len(got) != 0 {
			t.Errorf("by another request connections moved: %v", got)
		}

		// Without announcements, ends are a loss.
		space.ends.Close()
		space.ends = nil
		p := connect(t, listener, mapped)
		r.read()
		p.close()
		until(t, "the connection is gone", func() bool { return procStates(t)["established"] == 2 })
		r.read()
		if loss := r.out.Table("tcp.flow.segments").Batch().Loss; len(loss) != 1 ||
			loss[0].Events == 0 {
			t.Errorf("an end that nobody heard of: %v", loss)
		}
	})
}

// procStates counts the states in /proc/net/tcp and tcp6, which are those of
// include/net/tcp_states.h.
func procStates(t testing.TB) map[string]float64 {
	t.Helper()
	states := map[string]float64{}
	for _, name := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile("/proc/thread-self/net/" + name)
		must(t, err)
		for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
			n, err := strconv.ParseUint(strings.Fields(line)[3], 16, 8)
			must(t, err)
			states[stateWords[n]]++
		}
	}
	return states
}

// TestFlowsAllocateNothing checks that a steady reading of idle and moving connections allocates
// nothing.
func TestFlowsAllocateNothing(t *testing.T) {
	t.Run("by dumps", func(t *testing.T) { flowsAllocateNothing(t, Flows{}, 0) })
	t.Run("by a walk over sockets", func(t *testing.T) {
		walkable(t)
		// cilium/ebpf allocates to read the statistics of a program.
		flowsAllocateNothing(t, Flows{walk: true}, 12)
	})
}

func flowsAllocateNothing(t *testing.T, flows Flows, most float64) {
	inNamespace(t, func() {
		pairs := connectMany(t, 50)
		defer closeMany(pairs)
		var ids []measure.StatID
		for _, s := range (Flows{}).Stats() {
			ids = append(ids, s.ID)
		}
		r := openReadings(t, flows, ids...)
		defer r.r.Close()
		one := make([]byte, 1)
		read := func() {
			_, err := unix.Write(pairs[0].client, one)
			must(t, err)
			_, err = unix.Read(pairs[0].server, one)
			must(t, err)
			r.out.Start(r.first, time.Now())
			r.first = false
			must(t, r.r.Read(r.out))
		}
		for range 3 * ownerCheck {
			read()
		}
		if n := testing.AllocsPerRun(50, read); n > most {
			t.Errorf("%v allocations a reading", n)
		}
	})
}
