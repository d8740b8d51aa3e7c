package connection

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// TestFlowBytes moves known amounts over connections of all ages, in IPv4, IPv6 and IPv4 in IPv6,
// and expects them to the byte.
func TestFlowBytes(t *testing.T) {
	loop6 := [16]byte{15: 1}
	mapped := [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}
	for _, c := range []struct {
		name, local string
		listen      unix.Sockaddr
		to          func(port int) unix.Sockaddr
	}{
		{"IPv4", "127.0.0.1", tcp4(127, 0, 0, 1, 0),
			func(p int) unix.Sockaddr { return tcp4(127, 0, 0, 1, p) }},
		{"IPv6", "::1", &unix.SockaddrInet6{Addr: loop6},
			func(p int) unix.Sockaddr { return &unix.SockaddrInet6{Addr: loop6, Port: p} }},
		{"IPv4 in IPv6", "127.0.0.1", &unix.SockaddrInet6{},
			func(p int) unix.Sockaddr { return &unix.SockaddrInet6{Addr: mapped, Port: p} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inNamespace(t, func() { flowBytes(t, Flows{}, c.local, c.listen, c.to) })
		})
		t.Run(c.name+" by a walk over sockets", func(t *testing.T) {
			walkable(t)
			inNamespace(t, func() { flowBytes(t, Flows{walk: true}, c.local, c.listen, c.to) })
		})
	}
}

func flowBytes(
	t *testing.T, flows Flows, local string, at unix.Sockaddr, to func(int) unix.Sockaddr,
) {
	listener, bound := listen(t, at)
	defer unix.Close(listener)
	old := connect(t, listener, to(port(bound)))
	defer old.close()
	send(t, old.client, old.server, 1_000_000) // before the first reading: never emitted

	r := openReadings(
		t, flows, "tcp.flow.bytes", "tcp.flow.segments", "tcp.flow.rtt", "tcp.flow.queue",
		"tcp.connections", "tcp.listen.limit",
	)
	defer r.r.Close()
	r.read()
	for id, n := range map[measure.StatID]int{"tcp.flow.bytes": 0, "tcp.flow.segments": 0} {
		if got := r.rows(id); len(got) != n {
			t.Errorf("first reading of %s: %v", id, got)
		}
	}
	r.read()
	if got := r.rows("tcp.flow.bytes"); len(got) != 0 {
		t.Errorf("nothing moved, but: %v", got)
	}
	if got := r.rows("tcp.flow.rtt"); len(got) != 0 {
		t.Errorf("idle connections have a round trip time: %v", got)
	}

	send(t, old.client, old.server, 123_457)
	send(t, old.server, old.client, 765)
	r.read()
	if flows.walk != r.walks() && !r.gaveWay() {
		t.Errorf("by a walk: %v, want %v", r.walks(), flows.walk)
	}
	equal(t, "an old connection", r.rows("tcp.flow.bytes", "side", "direction"), map[string]float64{
		"client tx": 123_457, "server rx": 123_457, "server tx": 765, "client rx": 765})
	server, client := strconv.Itoa(port(bound)), strconv.Itoa(ownPort(t, old.client))
	self, name := strconv.Itoa(os.Getpid()), processName(t)
	equal(
		t,
		"its names",
		r.rows("tcp.flow.bytes", "netns", "local", "localport", "peer", "pid", "process", "side"),
		map[string]float64{
			strings.Join([]string{"", local, server, local, self, name, "server"}, " "): 123_457 + 765,
			strings.Join([]string{"", local, client, local, self, name, "client"}, " "): 123_457 + 765,
		},
	)
	if got := r.rows("tcp.flow.rtt", "side"); !(got["client"] > 0 && got["client"] < 1e9) {
		t.Errorf("round trip times: %v", got)
	}
	equal(t, "queues", r.rows("tcp.flow.queue", "direction"), map[string]float64{"rx": 0, "tx": 0})
	equal(
		t,
		"states",
		r.rows("tcp.connections", "state"),
		map[string]float64{"established": 2, "listen": 1, "syn-sent": 0, "syn-recv": 0,
			"fin-wait-1": 0, "fin-wait-2": 0, "time-wait": 0, "close-wait": 0, "last-ack": 0, "closing": 0},
	)
	for key, limit := range r.rows("tcp.listen.limit", "localport", "pid", "process") {
		if key != server+" "+self+" "+name || limit != 128 {
			t.Errorf("listener %q has the limit %v", key, limit)
		}
	}

	born := connect(t, listener, to(port(bound)))
	send(t, born.client, born.server, 54_321)
	r.read()
	if flows.walk != r.walks() && !r.gaveWay() {
		t.Errorf("a new connection by a walk: %v, want %v", r.walks(), flows.walk)
	}
	equal(
		t, "a connection that was born", r.rows("tcp.flow.bytes", "side", "direction"),
		map[string]float64{"client tx": 54_321, "server rx": 54_321},
	)

	// What is not yet read or sent waits in a queue, whether or not it moves.
	_, err := unix.Write(born.client, make([]byte, 1000))
	must(t, err)
	until(t, "1000 bytes wait to be read", func() bool {
		n, err := unix.IoctlGetInt(born.server, unix.SIOCINQ)
		must(t, err)
		return n == 1000
	})
	r.read()
	r.read()
	equal(
		t, "queues of a reader that sleeps", r.rows("tcp.flow.queue", "side", "direction"),
		map[string]float64{"server rx": 1000, "server tx": 0},
	)
	send(t, born.server, born.client, 10)
	_, err = unix.Read(born.server, make([]byte, 2000))
	must(t, err)
	r.read()

	// The last bytes of a connection that ends, and all those of one too short for any dump. A work
	// queue announces the ends, so they may come a reading later, but never twice.
	send(t, born.client, born.server, 4_000)
	send(t, born.server, born.client, 50)
	born.close()
	short := connect(t, listener, to(port(bound)))
	send(t, short.client, short.server, 70_007)
	send(t, short.server, short.client, 9)
	short.close()
	total, names := map[string]float64{}, map[string]bool{}
	var late uint64
	read := func() {
		r.read()
		late += r.r.(*flowReading).notes.late
		for k, v := range r.rows("tcp.flow.bytes", "side", "direction") {
			total[k] += v
		}
		for k := range r.rows("tcp.flow.bytes", "process") {
			names[k] = true
		}
	}
	want := map[string]float64{
		"client tx": 74_007,
		"server rx": 74_007,
		"server tx": 59,
		"client rx": 59,
	}
	defer func() {
		if t.Failed() {
			t.Logf("total %v; %d ends announced too late", total, late)
		}
	}()
	until(
		t, "the ends are announced",
		func() bool { read(); return total["client rx"] >= 59 && total["server tx"] >= 59 },
	)
	for i := 0; i < 5; i++ {
		read()
	}
	equal(t, "connections that ended", total, want)
	if !names[name] || len(names) > 2 {
		t.Errorf(
			"connections that ended belong to %v, want %q and at most the unknown", names, name,
		)
	}
	for _, table := range r.out.Tables() {
		if len(table.Batch().Loss)+len(table.Batch().Notes) > 0 {
			t.Errorf("%s: %v %v", table.Stat().ID, table.Batch().Loss, table.Batch().Notes)
		}
	}
	if got := r.rows("tcp.connections", "state"); got["established"] != 2 ||
		got["time-wait"]+got["fin-wait-2"] != 2 {
		t.Errorf("states after two ends: %v", got)
	}
}
