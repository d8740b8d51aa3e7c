package cases

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"
)

func besideTheCounters(t *testing.T) {
	l := open(t)
	bin := needProgram(t)
	src, dst := pair(l, veths(l))
	sc := &Scene{Lab: l, Where: dst}
	sc.load(
		Program{Name: "server", Act: "serve", On: dst, Args: []string{"-at", "10.20.3.34:7072"}},
	)
	sc.load(
		Program{
			Name: "clients",
			Act:  "ask",
			On:   src,
			Args: []string{"-to", "10.20.3.34:7072", "-fresh", "-conns", "4", "-rate", "500"},
		},
	)
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	columns := []struct{ column, group, counter string }{
		{"in_segments_per_s", "Tcp", "InSegs"},
		{"out_segments_per_s", "Tcp", "OutSegs"},
		{"passive_opens_per_s", "Tcp", "PassiveOpens"},
		{"active_opens_per_s", "Tcp", "ActiveOpens"},
		{"retransmits_per_s", "Tcp", "RetransSegs"},
		{"listen_overflows_per_s", "TcpExt", "ListenOverflows"},
		{"rx_bytes_per_s", "IpExt", "InOctets"},
	}
	agree(t, func(ctx context.Context) ([]pairing, error) {
		before, start := make([]float64, len(columns)), time.Now()
		for i, c := range columns {
			before[i] = dst.Protocol(c.group, c.counter)
		}
		outs, err := together(ctx, sc.on(bin, "tcp", "--json", seconds(), "1"))
		if err != nil {
			return nil, err
		}
		over := time.Since(start).Seconds()
		ours, err := view(outs[0])
		if err != nil {
			return nil, err
		}
		var pairs []pairing
		for i, c := range columns[:6] { // what rx_bytes counts is the program's to say
			v, ok := ours.Rows[0][c.column].(float64)
			if !ok {
				v = math.NaN()
			}
			pairs = append(
				pairs,
				pairing{
					c.counter,
					v,
					(dst.Protocol(c.group, c.counter) - before[i]) / over,
					0.02,
					1,
				},
			)
		}
		return append(pairs, pairing{"connections a second", pairs[2].ours, 500, 0.02, 0}), nil
	})
}

// besideTheLoads has two processes with known rates to two hosts, and holds each row and the
// residual against them.
func besideTheLoads(t *testing.T) {
	l := open(t)
	bin := needProgram(t)
	hub, a, b := l.Host("hub"), l.Host("a"), l.Host("b")
	l.Veth(hub, "va", a, "eth0")
	l.Veth(hub, "vb", b, "eth0")
	hub.Address("va", "10.5.1.1/24")
	a.Address("eth0", "10.5.1.2/24")
	hub.Address("vb", "10.5.2.1/24")
	b.Address("eth0", "10.5.2.2/24")
	sc := &Scene{Lab: l, Where: hub}
	sc.load(Program{Name: "sink", Act: "sink", On: a, Args: []string{"-at", "10.5.1.2:7070"}})
	sc.load(Program{Name: "sink", Act: "sink", On: b, Args: []string{"-at", "10.5.2.2:7070"}})
	fast := sc.load(
		Program{
			Name: "fast",
			Act:  "stream",
			On:   hub,
			Args: []string{"-to", "10.5.1.2:7070", "-rate", "20e6", "-chunk", "16384"},
		},
	)
	slow := sc.load(
		Program{
			Name: "slow",
			Act:  "stream",
			On:   hub,
			Args: []string{"-to", "10.5.2.2:7070", "-rate", "5e6", "-chunk", "16384"},
		},
	)
	sc.load(
		Program{
			Name: "telemetry",
			Act:  "spray",
			On:   hub,
			Args: []string{"-to", "10.5.2.2:7071", "-rate", "1000", "-size", "1000"},
		},
	)
	sc.load(Program{Name: "listener", Act: "hear", On: b, Args: []string{"-at", "10.5.2.2:7071"}})
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	agree(t, func(ctx context.Context) ([]pairing, error) {
		start := [2]float64{hub.Device("va", "tx_bytes"), hub.Device("vb", "tx_bytes")}
		at := time.Now()
		outs, err := together(ctx, sc.on(bin, "flows", "--json", seconds(), "1"))
		if err != nil {
			return nil, err
		}
		over := time.Since(at).Seconds()
		wire := (hub.Device("va", "tx_bytes") - start[0] + hub.Device("vb", "tx_bytes") - start[1]) / over
		ours, err := view(outs[0])
		if err != nil {
			return nil, err
		}
		residual := ours.number("residual", "true", "tx_bytes_per_s")
		sum := residual
		for _, row := range ours.Rows {
			if row["residual"] != true {
				v, _ := row["tx_bytes_per_s"].(float64)
				sum += v
			}
		}
		pid := func(process string) float64 { return ours.number("process", process, "pid") }
		return []pairing{
			{
				"bytes/s of the fast process",
				ours.number("process", "fast", "tx_bytes_per_s"),
				20e6,
				0.02,
				0,
			},
			{
				"bytes/s to its host",
				ours.number("peer", "10.5.1.2", "tx_bytes_per_s"),
				20e6,
				0.02,
				0,
			},
			{
				"bytes/s of the slow process",
				ours.number("process", "slow", "tx_bytes_per_s"),
				5e6,
				0.02,
				0,
			},
			{"pid of the fast process", pid("fast"), float64(fast.PID), 0, 0},
			{"pid of the slow process", pid("slow"), float64(slow.PID), 0, 0},
			{"residual: datagrams and headers", residual, wire - 25e6, 0.1, 0.02 * wire},
			{"rows and residual together", sum, wire, 0.02, 0},
		}, nil
	})
}

func besideProc(t *testing.T) {
	l := open(t)
	bin := needProgram(t)
	sc := &Scene{Lab: l}
	usr := sc.load(Program{Name: "usr-worker", Act: "burn", Args: []string{"-duty", "0.4"}})
	sys := sc.load(Program{Name: "sys-worker", Act: "burn", Args: []string{"-duty", "0.3", "-sys"}})
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	agree(t, func(ctx context.Context) ([]pairing, error) {
		stop := followCPU(usr.PID, sys.PID)
		outs, err := together(
			ctx, sc.on("nice", "-n", "-15", bin, "ps", "--json", seconds(), "1"),
		) // as the loads are
		theirs := stop()
		if err != nil {
			return nil, err
		}
		ours, err := view(outs[0])
		if err != nil {
			return nil, err
		}
		get := func(d *Load, column string) float64 {
			return ours.number("pid", fmt.Sprint(float64(d.PID)), column)
		}
		// On a machine that is busy otherwise the program starts late and takes its time: what
		// counts are the seconds that it says it measured.
		pair := func(
			what string, d *Load, v float64, count func(cpuUsed) float64, within float64,
		) pairing {
			least, most := theirs[d.PID].over(ours.Start, ours.Seconds, count)
			return pairing{what, v, min(max(v, least), most), within, 0.01}
		}
		all := func(u cpuUsed) float64 { return u.usr + u.sys }
		user := func(u cpuUsed) float64 { return u.usr }
		system := func(u cpuUsed) float64 { return u.sys }
		return []pairing{
			pair("time of usr-worker", usr, get(usr, "usr")+get(usr, "sys"), all, 0.02),
			pair("time of sys-worker", sys, get(sys, "usr")+get(sys, "sys"), all, 0.02),
			pair("user time of usr-worker", usr, get(usr, "usr"), user, 0.05),
			pair("system time of sys-worker", sys, get(sys, "sys"), system, 0.1),
			{
				"share of user time of usr-worker",
				get(usr, "usr") / (get(usr, "usr") + get(usr, "sys")),
				1,
				0.3,
				0,
			},
			{
				"share of system time of sys-worker",
				get(sys, "sys") / (get(sys, "usr") + get(sys, "sys")),
				1,
				0.3,
				0,
			},
		}, nil
	})
}

// cpuUsed is what a process had used of CPUs: seconds, by its stat line, between two times.
type cpuUsed struct {
	from, to time.Time
	usr, sys float64
}

type cpuCourse []cpuUsed

// followCPU reads what processes have used, a hundred times a second, until stop, which returns it
// by process.
func followCPU(pids ...int) (stop func() map[int]cpuCourse) {
	all, end, ended := map[int]cpuCourse{}, make(chan struct{}), make(chan struct{})
	look := func() {
		for _, pid := range pids {
			from := time.Now()
			if usr, sys, ok := usedCPU(pid); ok {
				all[pid] = append(all[pid], cpuUsed{from, time.Now(), usr, sys})
			}
		}
	}
	look()
	go func() {
		defer close(ended)
		for range time.Tick(10 * time.Millisecond) {
			look()
			select {
			case <-end:
				return
			default:
			}
		}
	}()
	return func() map[int]cpuCourse { close(end); <-ended; return all }
}

// over returns the least and the most that it may have used a second in the seconds from a time on:
// what it used between readings within them, and between readings around them, with the hundredth
// of a second to which each is rounded.
func (c cpuCourse) over(
	start time.Time, seconds float64, count func(cpuUsed) float64,
) (least, most float64) {
	const rounding = 0.01
	end := start.Add(time.Duration(seconds * 1e9))
	var before, after, first, last *cpuUsed
	for i := range c {
		u := &c[i]
		if !u.to.After(start) {
			before = u
		}
		if !u.from.Before(start) && first == nil {
			first = u
		}
		if !u.to.After(end) {
			last = u
		}
		if !u.from.Before(end) && after == nil {
			after = u
		}
	}
	if before == nil || after == nil || first == nil || last == nil {
		return math.NaN(), math.NaN()
	}
	return max(
		0, count(*last)-count(*first)-rounding,
	) / seconds, (count(*after) - count(*before) + rounding) / seconds
}
