package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The tools that people have used for decades, beside the program over the same seconds. Each
// comparison is repeated up to three times, because their intervals begin some hundredths of a
// second apart and other things run meanwhile.

// watch is how long each comparison looks, in seconds.
const watch = 4

// pairing is one number from two sources.
type pairing struct {
	what         string
	ours, theirs float64
	within       float64 // share of theirs
	or           float64 // absolute difference that is no difference: rounding of what they print
}

func (p pairing) far() bool {
	// So that no number is far.
	return !(math.Abs(p.ours-p.theirs) <= max(p.within*math.Abs(p.theirs), p.or))
}

// agree makes a comparison up to three times.
func agree(t *testing.T, once func(context.Context) ([]pairing, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := 1; ; n++ {
		pairs, err := once(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(pairs) == 0 {
			t.Fatal("nothing was compared")
		}
		far := slices.ContainsFunc(pairs, pairing.far)
		if far && n < tries {
			for _, p := range pairs {
				if p.far() {
					t.Logf("again: %s: ours %.6g, theirs %.6g", p.what, p.ours, p.theirs)
				}
			}
			continue
		}
		for _, p := range pairs {
			if p.far() {
				t.Errorf("%s: ours %.6g, theirs %.6g", p.what, p.ours, p.theirs)
			} else {
				t.Logf("%s: ours %.6g, theirs %.6g", p.what, p.ours, p.theirs)
			}
		}
		return
	}
}

// together runs commands at the same time and returns the output of each.
func together(ctx context.Context, commands ...*exec.Cmd) ([][]byte, error) {
	type result struct {
		i   int
		out []byte
		err error
	}
	results := make(chan result, len(commands))
	for i, c := range commands {
		go func() {
			out, err := output(ctx, c)
			results <- result{i, out, err}
		}()
	}
	outs := make([][]byte, len(commands))
	var first error
	for range commands {
		r := <-results
		outs[r.i] = r.out
		if first == nil {
			first = r.err
		}
	}
	return outs, first
}

func needTools(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if why := needTool(n); why != "" {
			t.Skipf("needs: %s", why)
		}
	}
}

// view decodes the first interval of a view.
func view(out []byte) (rows, error) {
	var r rows
	if err := json.NewDecoder(strings.NewReader(string(out))).Decode(&r); err != nil {
		return r, fmt.Errorf("read a view: %w: %s", err, out)
	}
	return r, nil
}

// number of a row's column; NaN when it is null, absent, or there is no such row.
func (r rows) number(key, want, column string) float64 {
	if v, ok := r.find(key, want, column); ok {
		return v
	}
	return math.NaN()
}

func seconds() string { return strconv.Itoa(watch) }

// TestBeside makes the comparisons. Those of a group look at the same seconds: what each compares
// is of its own scene, or of the whole machine for both tools. No group's loads keep all CPUs busy,
// for who begins late compares other seconds.
func TestBeside(t *testing.T) {
	if quick() {
		return
	}
	type comparison struct {
		name string
		make func(*testing.T)
	}
	for _, group := range []struct {
		name string
		of   []comparison
	}{
		{"traffic, disk and processes", []comparison{{"nicstat", besideNicstatAndIP}, {"iostat", besideIostat}, {"counters", besideTheCounters}, {"loads", besideTheLoads}, {"proc", besideProc}}},
		{"CPU and memory", []comparison{{"mpstat", besideMpstat}, {"vmstat", besideVmstat}}},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.of {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.make(t)
				})
			}
		})
	}
}

func besideNicstatAndIP(t *testing.T) {
	if why := needTun(); why != "" {
		t.Skipf("needs: %s", why)
	}
	l := open(t)
	needTools(t, "nicstat")
	bin := needProgram(t)
	src, dst := pair(l, taps(l, Wire{Mbit: 1000}))
	sc := &Scene{Lab: l, Where: src}
	bulk(sc, src, dst, 25e6)
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	agree(t, func(ctx context.Context) ([]pairing, error) {
		type point struct {
			at time.Time
			v  [4]float64
		}
		counters := [4]string{"rx_bytes", "tx_bytes", "rx_packets", "tx_packets"}
		read := func() (p point) {
			for i, c := range counters {
				p.v[i] = src.Device("eth0", c)
			}
			p.at = time.Now()
			return p
		}
		before := read()
		outs, err := together(
			ctx, sc.on(bin, "nic", "--json", seconds(), "1"),
			sc.on("nicstat", "-p", "-i", "eth0", seconds(), "2"),
		)
		if err != nil {
			return nil, err
		}
		after := read()
		ours, err := view(outs[0])
		if err != nil {
			return nil, err
		}
		lines := strings.Split(
			strings.TrimSpace(string(outs[1])), "\n",
		) // time:Int:rKB/s:wKB/s:rPk/s:wPk/s:%Util:Sat
		f := strings.Split(lines[len(lines)-1], ":")
		if len(f) < 8 {
			return nil, fmt.Errorf("nicstat said %q", outs[1])
		}
		get := func(column string) float64 { return ours.number("device", "eth0", column) }
		util := max(number(f[2]), number(f[3])) * 1024 * 8 / 1e9 // full duplex
		pairs := []pairing{
			{"rx bytes/s, nicstat", get("rx_bytes_per_s"), number(f[2]) * 1024, 0.02, 100},
			{"tx bytes/s, nicstat", get("tx_bytes_per_s"), number(f[3]) * 1024, 0.02, 100},
			{"rx packets/s, nicstat", get("rx_packets_per_s"), number(f[4]), 0.02, 1},
			{"tx packets/s, nicstat", get("tx_packets_per_s"), number(f[5]), 0.02, 1},
			{
				"tx bytes a packet",
				get("tx_avg_bytes"),
				get("tx_bytes_per_s") / get("tx_packets_per_s"),
				1e-6,
				0,
			},
			{"utilization, nicstat", get("util"), number(f[6]) / 100, 0.02, 0.0015},
			{"utilization, of bytes", get("util"), util, 0.02, 0},
			{"capacity", get("capacity_bits_per_s"), 1e9, 0, 0},
			{"saturation", get("saturation_per_s"), 0, 0, 0},
		}
		for i, c := range counters {
			rate := (after.v[i] - before.v[i]) / after.at.Sub(before.at).Seconds()
			pairs = append(
				pairs, pairing{c + "/s, the kernel's counter", get(c + "_per_s"), rate, 0.02, 1},
			)
		}
		return append(
			pairs, pairing{"tx bytes/s, the load's own rate", get("tx_bytes_per_s"), 25e6, 0.03, 0},
		), nil
	})
}

func besideMpstat(t *testing.T) {
	l := open(t)
	needTools(t, "mpstat")
	bin := needProgram(t)
	sc := &Scene{Lab: l}
	for cpu := range runtime.NumCPU() {
		sc.load(
			Program{
				Name: fmt.Sprintf("usr-%d", cpu),
				Act:  "burn",
				CPUs: []int{cpu},
				Args: []string{"-duty", []string{"0.3", "0.5"}[cpu%2]},
			},
		)
		sc.load(
			Program{
				Name: fmt.Sprintf("sys-%d", cpu),
				Act:  "burn",
				CPUs: []int{cpu},
				Args: []string{"-duty", "0.2", "-sys"},
			},
		)
	}
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	agree(t, func(ctx context.Context) ([]pairing, error) {
		outs, err := together(
			ctx, sc.on(bin, "cpu", "--json", seconds(), "1"),
			sc.on("mpstat", "-o", "JSON", "-P", "ALL", seconds(), "1"),
			sc.on(bin, "use", "--json", seconds(), "1"),
		)
		if err != nil {
			return nil, err
		}
		ours, err := view(outs[0])
		if err != nil {
			return nil, err
		}
		use, err := view(outs[2])
		if err != nil {
			return nil, err
		}
		var theirs struct {
			Sysstat struct {
				Hosts []struct {
					Statistics []struct {
						Load []map[string]any `json:"cpu-load"`
					}
				}
			}
		}
		if err := json.Unmarshal(outs[1], &theirs); err != nil {
			return nil, fmt.Errorf("read mpstat: %w: %s", err, outs[1])
		}
		var pairs []pairing
		for _, row := range theirs.Sysstat.Hosts[0].Statistics[0].Load {
			cpu := fmt.Sprint(row["cpu"])
			if cpu == "-1" {
				cpu = "all"
			}
			// mpstat leaves out the time that fell between ticks, and divides by the rest.
			counted := 1 - ours.number("cpu", cpu, "unaccounted")
			for _, mode := range []string{"usr", "nice", "sys", "iowait", "soft", "steal", "guest", "idle"} {
				v, _ := row[mode].(float64)
				// A tick is 10 ms: a quarter of a percent of four seconds; and both begin a little
				// apart.
				pairs = append(
					pairs,
					pairing{
						"cpu " + cpu + " " + mode,
						ours.number("cpu", cpu, mode),
						v / 100 * counted,
						0.02,
						0.015,
					},
				)
			}
			if cpu == "all" {
				idle, _ := row["idle"].(float64)
				wait, _ := row["iowait"].(float64)
				pairs = append(
					pairs,
					pairing{
						"busy, in use",
						use.Rows[0]["cpu_util"].(float64),
						1 - (idle+wait)/100*counted,
						0.02,
						0.015,
					},
				)
			}
		}
		return pairs, nil
	})
}

func besideIostat(t *testing.T) {
	l := open(t)
	needTools(t, "iostat")
	bin := needProgram(t)
	disk, err := diskOf(l.Dir())
	if err != nil {
		t.Skipf("needs: kernel feature disk: %v", err)
	}
	sc := &Scene{Lab: l}
	sc.load(Program{Name: "appender", Act: "write", Patient: true,
		Args: []string{
			"-file",
			filepath.Join(l.Dir(), "data"),
			"-depth",
			"4",
			"-block",
			"65536",
			"-rate",
			"50e6",
		}})
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	agree(t, func(ctx context.Context) ([]pairing, error) {
		outs, err := together(
			ctx, sc.on(bin, "disk", "--json", seconds(), "1"),
			sc.on("iostat", "-xy", "-o", "JSON", disk, seconds(), "1"),
		)
		if err != nil {
			return nil, err
		}
		ours, err := view(outs[0])
		if err != nil {
			return nil, err
		}
		var theirs struct {
			Sysstat struct {
				Hosts []struct {
					Statistics []struct{ Disk []map[string]any }
				}
			}
		}
		if err := json.Unmarshal(outs[1], &theirs); err != nil {
			return nil, fmt.Errorf("read iostat: %w: %s", err, outs[1])
		}
		row := theirs.Sysstat.Hosts[0].Statistics[0].Disk[0]
		get := func(column string) float64 {
			v, ok := row[column].(float64)
			return map[bool]float64{true: v, false: math.NaN()}[ok]
		}
		our := func(column string) float64 { return ours.number("device", disk, column) }
		return []pairing{
			{"writes/s", our("writes_per_s"), get("w/s"), 0.02, 1},
			{"reads/s", our("reads_per_s"), get("r/s"), 0.02, 2},
			{"written bytes/s", our("written_bytes_per_s"), get("wkB/s") * 1024, 0.02, 4096},
			{
				"ms a write",
				our("write_await_ns") / 1e6,
				get("w_await"),
				0.02,
				0.01,
			}, // they print hundredths
			{"queue", our("queue"), get("aqu-sz"), 0.05, 0.01},
			{"busy", our("util"), get("util") / 100, 0.02, 0.01},
			{"bytes a write", our("write_avg_bytes"), get("wareq-sz") * 1024, 0.02, 1024},
			{"merged writes", our("write_merge_ratio"), get("wrqm") / 100, 0.02, 0.01},
			{"flushes/s", our("flushes_per_s"), get("f/s"), 0.02, 1},
		}, nil
	})
}

func besideVmstat(t *testing.T) {
	l := open(t)
	needTools(t, "vmstat")
	bin := needProgram(t)
	sc := &Scene{Lab: l}
	sc.load(Program{Name: "appender", Act: "write", Patient: true,
		Args: []string{
			"-file",
			filepath.Join(l.Dir(), "data"),
			"-depth",
			"4",
			"-block",
			"65536",
			"-rate",
			"50e6",
		}})
	sc.load(Program{Name: "worker", Act: "burn", Args: []string{"-threads", "4", "-duty", "0.1"}})
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	agree(t, func(ctx context.Context) ([]pairing, error) {
		outs, err := together(
			ctx, sc.on(bin, "mem", "--json", seconds(), "1"), sc.on("vmstat", seconds(), "2"),
		)
		if err != nil {
			return nil, err
		}
		ours, err := view(outs[0])
		if err != nil {
			return nil, err
		}
		lines := strings.Split(strings.TrimSpace(string(outs[1])), "\n")
		f := strings.Fields(
			lines[len(lines)-1],
		) // r b swpd free buff cache si so bi bo in cs us sy id wa st
		if len(f) < 17 || len(ours.Rows) != 1 {
			return nil, fmt.Errorf("vmstat said %q, we %v", outs[1], ours)
		}
		our := func(column string) float64 {
			if v, ok := ours.Rows[0][column].(float64); ok {
				return v
			}
			return math.NaN()
		}
		kib := func(i int) float64 { return number(f[i]) * 1024 }
		// vmstat leaves out the time that fell between ticks, and divides by the rest.
		counted := our("user") + our("system") + our("idle") + our("iowait") + our("steal")
		// vmstat 4.0 prints the memory of the interval before: its levels are taken from where it
		// has them from.
		now := func(key string) float64 { v, _ := keyed("/proc/meminfo", key+":")(); return v * 1024 }
		return []pairing{
			{"swap used", our("swap_used_bytes"), now("SwapTotal") - now("SwapFree"), 0.02, 4096},
			{"free", our("free_bytes"), now("MemFree"), 0.02, 0},
			{"available", our("available_bytes"), now("MemAvailable"), 0.02, 0},
			{"buffers", our("buffers_bytes"), now("Buffers"), 0.02, 1 << 20},
			{
				"cache, as free(1) counts it",
				our("cache_bytes"),
				now("Cached") + now("SReclaimable"),
				0.02,
				0,
			},
			{"swapped in/s", our("swap_in_bytes_per_s"), kib(6), 0.02, 1024},
			{"swapped out/s", our("swap_out_bytes_per_s"), kib(7), 0.02, 1024},
			{"written/s", our("written_bytes_per_s"), kib(9), 0.02, 1024},
			{"interrupts/s", our("interrupts_per_s"), number(f[10]), 0.03, 20},
			{"switches/s", our("switches_per_s"), number(f[11]), 0.03, 20},
			{"user", our("user"), number(f[12]) / 100 * counted, 0.02, 0.015},
			{"system", our("system"), number(f[13]) / 100 * counted, 0.02, 0.015},
			{"idle", our("idle"), number(f[14]) / 100 * counted, 0.02, 0.02},
			{"iowait", our("iowait"), number(f[15]) / 100 * counted, 0.02, 0.015},
		}, nil
	})
}

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

func TestLinkSaysWhatTheCableIs(t *testing.T) {
	if quick() {
		return
	}
	if why := needTun(); why != "" {
		t.Skipf("needs: %s", why)
	}
	l := open(t)
	bin := needProgram(t)
	src, _ := pair(l, taps(l, Wire{Mbit: 100, Best: 1000}))
	src.MAC("eth0", "02:00:00:00:00:01")
	sc := &Scene{Lab: l, Where: src}
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := output(ctx, sc.on(bin, "link", "--json"))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := view(out)
	if err != nil {
		t.Fatal(err)
	}
	for column, want := range map[string]any{"speed_bits_per_s": 1e8, "duplex": "full", "mac": "02:00:00:00:00:01", "mtu_bytes": 1500.0, "driver": "tun"} {
		for _, row := range ours.Rows {
			if row["device"] == "eth0" && row[column] != want {
				t.Errorf("%s of eth0 is %v, want %v", column, row[column], want)
			}
		}
	}
	if math.IsNaN(ours.number("device", "eth0", "speed_bits_per_s")) {
		t.Errorf("no eth0 with a speed in %s", out)
	}
}

func TestCachesCountTheTable(t *testing.T) {
	if quick() {
		return
	}
	l := open(t)
	bin := needProgram(t)
	par := l.Host("par")
	par.Set("net/ipv4/tcp_child_ehash_entries", "1024")
	box := l.HostWithin(par, "box")
	sc := &Scene{Lab: l, Where: box}
	sc.load(
		Program{
			Name:    "old-flows",
			Act:     "fill",
			On:      box,
			Args:    []string{"-n", "5000"},
			Patient: true,
		},
	)
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	agree(t, func(ctx context.Context) ([]pairing, error) {
		out, err := output(ctx, sc.on(bin, "caches", "--json", "1", "1"))
		if err != nil {
			return nil, err
		}
		ours, err := view(out)
		if err != nil {
			return nil, err
		}
		get := func(column string) float64 { return ours.number("cache", "tcp-established", column) }
		return []pairing{
			{"entries", get("entries"), 5000, 0.001, 0},
			{"buckets", get("buckets"), 1024, 0, 0},
			{"entries a bucket", get("entries_per_bucket"), 5000. / 1024, 0.001, 0},
		}, nil
	})
}
