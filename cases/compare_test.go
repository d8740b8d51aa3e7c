package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
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
