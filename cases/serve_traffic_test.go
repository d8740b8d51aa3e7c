package cases

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"
)

// near says whether two numbers are the same but for a share of the wanted one.
func near(got, want, share float64) bool { return math.Abs(got-want) <= share*math.Abs(want) }

// linkCounters asks ip for the bytes of an interface.
func (h *Host) linkCounters(t *testing.T, dev string) (rx, tx float64) {
	t.Helper()
	var links []struct {
		Stats64 struct{ Rx, Tx struct{ Bytes float64 } }
	}
	shown := h.lab.tool("ip", "-n", h.NS, "-s", "-j", "link", "show", dev)
	if err := json.Unmarshal([]byte(shown), &links); err != nil || len(links) != 1 {
		t.Fatalf("ip reports nothing about %s: %v, %v", dev, err, h.lab.Err())
	}
	return links[0].Stats64.Rx.Bytes, links[0].Stats64.Tx.Bytes
}

// course is a counter as it grew, read again and again.
type course struct {
	mu       sync.Mutex
	readings []reading
}

// reading is a counter's value at a moment between two.
type reading struct {
	from, to time.Time
	v        float64
}

func (r *reading) middle() time.Time { return r.from.Add(r.to.Sub(r.from) / 2) }

// follow reads a counter until stop is called.
func follow(read func() float64) (c *course, stop func()) {
	c = &course{}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			r := reading{from: time.Now()}
			r.v, r.to = read(), time.Now()
			c.mu.Lock()
			c.readings = append(c.readings, r)
			c.mu.Unlock()
			select {
			case <-quit:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return c, sync.OnceFunc(func() { close(quit); <-done })
}

// when returns between which values the counter was at a time; NaN outside of all readings. Where
// two readings that were done at once stand close by, that is where the line that joins them
// passes; where others had the CPUs, it is known to be no less than before and no more than after.
func (c *course) when(at time.Time) (least, most float64) {
	const atOnce, near = 10 * time.Millisecond, 100 * time.Millisecond
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.readings
	before := sort.Search(
		len(all), func(i int) bool { return all[i].to.After(at) },
	) - 1 // the last that was done by then
	after := sort.Search(
		len(all), func(i int) bool { return !all[i].from.Before(at) },
	) // the first that was begun then or later
	if before < 0 || after == len(all) {
		return math.NaN(), math.NaN()
	}
	i := sort.Search(len(all), func(i int) bool { return !all[i].middle().Before(at) })
	if i > 0 && i < len(all) {
		a, b := &all[i-1], &all[i]
		if apart := b.middle().Sub(a.middle()); apart <= near && a.to.Sub(a.from) <= atOnce &&
			b.to.Sub(b.from) <= atOnce {
			v := a.v + at.Sub(a.middle()).Seconds()/apart.Seconds()*(b.v-a.v)
			return v, v
		}
	}
	return all[before].v, all[after].v
}

// late is how long after its planned time a busy machine may let a reading be. The time stamp is
// the planned one; what was measured between is over the true time.
const late = 150 * time.Millisecond

// stalled is for how long around a time others had the CPUs, as far as readings show it that should
// come each 20 ms: in the middle between its clock and its counters the server may have waited as
// long. 0 where they came in time.
func (c *course) stalled(at time.Time) (most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := 1; i < len(c.readings); i++ {
		a, b := &c.readings[i-1], &c.readings[i]
		if b.to.After(at.Add(-late)) && a.from.Before(at.Add(2*late)) {
			most = max(most, b.to.Sub(a.from)-30*time.Millisecond)
		}
	}
	return most
}

// compareRate compares a rate with what the counter's was over as long a time as the row's, begun
// at the row's start or up to late after it: within a share of one of these, or of what is between.
// Where the CPUs were somebody else's meanwhile the counters may be of so much later or earlier
// than the clock.
func (c *course) compareRate(t *testing.T, what string, r rows, rate, share float64) {
	t.Helper()
	length := time.Duration(r.Seconds * float64(time.Second))
	least, most := math.Inf(1), math.Inf(-1)
	stalled := max(c.stalled(r.Start), c.stalled(r.Start.Add(length)))
	for after := time.Duration(0); after <= late; after += 5 * time.Millisecond {
		start := r.Start.Add(after)
		low, high := c.when(start)
		lowEnd, _ := c.when(start.Add(length - stalled))
		_, highEnd := c.when(start.Add(length + stalled))
		least, most = min(least, (lowEnd-high)/r.Seconds), max(most, (highEnd-low)/r.Seconds)
	}
	if !(rate > least*(1-share) && rate < most*(1+share)) {
		t.Errorf(
			"%s from %v: %.0f B/s, the kernel's counter grew by %.0f to %.0f", what,
			r.Start.Format("15:04:05.000"), rate, least, most,
		)
	} else {
		t.Logf("%s from %v: %.0f B/s, the kernel's counter grew by %.0f to %.0f", what, r.Start.Format("15:04:05.000"), rate, least, most)
	}
}

// serveTraffic: reported traffic, by the page's API and by the command line, is what the
// kernel counted; it is the same when the server is killed and when it is back, and between there
// is a gap.
func serveTraffic(t *testing.T, l *Lab, bin string) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("needs: tool iperf3")
	}
	a, b := l.Host("a"), l.Host("b")
	l.Veth(a, "eth0", b, "eth0")
	a.Address("eth0", "10.0.0.1/24")
	b.Address("eth0", "10.0.0.2/24")
	l.Start(Program{Name: "iperf3", On: b, Args: []string{"iperf3", "-s"}})
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(l.Dir(), "record")
	r := serve(t, l, bin, dir, nil)
	start := time.Now()
	r.until(start.Add(time.Second))

	rx0, tx0 := a.linkCounters(t, "eth0")
	c, stop := follow(func() float64 { return a.Device("eth0", "tx_bytes") })
	defer stop()
	const rate = 5e6 // bytes a second
	began := time.Now()
	out, err := output(
		t.Context(),
		a.Command(
			"iperf3", "-c", "10.0.0.2", "-t", "5", "-b", fmt.Sprint(int(8*rate)), "-l", "8K", "-J",
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	var iperf struct {
		End struct {
			Sum struct{ Bytes float64 } `json:"sum_sent"`
		}
	}
	if err := json.Unmarshal(out, &iperf); err != nil {
		t.Fatal(err)
	}
	ended := time.Now()
	r.until(ended.Add(time.Second))
	stop()
	rx1, tx1 := a.linkCounters(t, "eth0")

	// All of it, to the byte.
	const sentence = "net.device.bytes by netns,device,direction"
	whole := r.mustAsk(sentence, start.Truncate(time.Second).Add(time.Second), time.Now())
	for direction, want := range map[string]float64{"rx": rx1 - rx0, "tx": tx1 - tx0} {
		if got := whole.amount(a.NS, "eth0", direction); !near(got, want, 1e-6) {
			t.Errorf("%s: %.0f bytes are reported, the kernel counted %.0f", direction, got, want)
		}
	}
	if tx1-tx0 < iperf.End.Sum.Bytes || iperf.End.Sum.Bytes < 4*rate {
		t.Fatalf("iperf3 sent %.0f bytes, the interface %.0f", iperf.End.Sum.Bytes, tx1-tx0)
	}

	// Each second of it, by each API.
	at := began.Truncate(time.Second).
		Add(3 * time.Second)
		// the end of an interval with nothing but traffic
	lines := [][]string{
		{"nic", "--netns", a.NS, "--at", stamp(at), "--json"},
		{"flows", "--netns", a.NS, "--at", stamp(at), "--json"},
		{
			"stat",
			sentence,
			"--netns",
			a.NS,
			"--from",
			stamp(at.Add(-2 * time.Second)),
			"--to",
			stamp(at.Add(2 * time.Second)),
			"1",
			"--json",
		},
		{
			"stat",
			"net.device.bytes by device,direction",
			"--netns",
			a.NS,
			"--from",
			stamp(at.Add(-2 * time.Second)),
			"--to",
			stamp(at.Add(2 * time.Second)),
		},
		{
			"nic",
			"--netns",
			"all",
			"--from",
			stamp(at.Add(-2 * time.Second)),
			"--to",
			stamp(at.Add(time.Second)),
			"1",
		},
		{"cpu", "--at", stamp(at)},
		{"flows", "--netns", "all", "--at", stamp(at), "--by", "process"},
	}
	said := map[string]string{}
	each := func(when string) {
		for _, args := range lines {
			line := strings.Join(args, " ")
			out, errs, status := look(t, l, bin, dir, args...)
			if status != 0 || out == "" {
				t.Errorf("%s, culprit %s: status %d, %q", when, line, status, errs)
			}
			if before, again := said[line]; again && before != out {
				t.Errorf("%s, culprit %s is\n%sand was\n%s", when, line, out, before)
			}
			said[line] = out
			noServer := strings.Contains(errs, "no server runs")
			if noServer != (when == "without a server") {
				t.Errorf("%s, culprit %s says %q", when, line, errs)
			}
		}
	}
	each("with the server")
	read := func(i int) (all []rows) {
		t.Helper()
		output := strings.TrimSpace(said[strings.Join(lines[i], " ")])
		for _, line := range strings.Split(output, "\n") {
			var one rows
			if err := json.Unmarshal([]byte(line), &one); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			all = append(all, one)
		}
		return all
	}
	nic := read(0)[0]
	printed, _ := nic.find("device", "eth0", "tx_bytes_per_s")
	c.compareRate(t, "nic --at", nic, printed, 0.02)
	flows := read(1)[0]
	payload, _ := flows.find("peer_port", "5201", "tx_bytes_per_s")
	c.compareRate(
		t,
		"flows --at",
		flows,
		payload*(tx1-tx0)/iperf.End.Sum.Bytes,
		0.1,
		// With headers; what is not acknowledged yet counts in the next interval, and connections
		// are read after devices.
	)
	seconds := read(2)
	for _, s := range seconds {
		for _, row := range s.Rows {
			if row["device"] == "eth0" && row["direction"] == "tx" {
				v, _ := row["value"].(float64)
				c.compareRate(t, "stat", s, v, 0.02)
			}
		}
	}
	if len(seconds) != 4 || !near(printed, rate, 0.2) {
		t.Errorf(
			"stat prints %d seconds of four; nic prints %.0f B/s, iperf3 was set to %.0f",
			len(seconds), printed, rate,
		)
	}
	if got := whole.value(int(at.Sub(whole.at(0))/time.Second), a.NS, "eth0", "tx"); !near(
		got, printed, 1e-6,
	) {
		t.Errorf("at %v nic prints %.0f, api/ask %.0f", at, printed, got)
	}

	// Killed, and back. The last two seconds before a kill may be lost: they have no traffic.
	r.until(ended.Add(4 * time.Second))
	r.kill()
	killed := time.Now()
	each("without a server")
	time.Sleep(time.Until(killed.Add(2500 * time.Millisecond))) // so that there is a gap
	back := time.Now()
	r = serve(t, l, bin, dir, nil)
	each("with a new server")
	shownTo := r.firstTick(back).Add(2 * time.Second)
	r.until(shownTo)
	hole := r.mustAsk(sentence, start.Truncate(time.Second).Add(time.Second), time.Now())
	gap := 0
	for cell, elapsed := range hole.Elapsed {
		switch v := hole.value(cell, a.NS, "eth0", "tx"); {
		case !hole.at(cell).Before(killed) && hole.at(cell).Before(back):
			gap++
			if elapsed != 0 || !math.IsNaN(v) {
				t.Errorf(
					"at %v nobody measured, and it is returned as %v over %v ms", hole.at(cell), v,
					elapsed,
				)
			}
		case elapsed > 0 && math.IsNaN(v):
			t.Errorf(
				"at %v it was measured over %v ms, and nothing is returned", hole.at(cell), elapsed,
			)
		}
	}
	if gap < 2 {
		t.Errorf("the gap is %d seconds long: %+v", gap, hole.Elapsed)
	}
	for direction, want := range map[string]float64{"rx": rx1 - rx0, "tx": tx1 - tx0} {
		if got := hole.amount(a.NS, "eth0", direction); !near(got, want, 1e-6) {
			t.Errorf(
				"after the kill, %s: %.0f bytes are reported, the kernel counted %.0f", direction,
				got, want,
			)
		}
	}
	out2, _, status := look(
		t, l, bin, dir, "nic", "--netns", a.NS, "-i", "eth0", "--from",
		stamp(killed.Add(-3*time.Second)), "--to", stamp(shownTo), "1", "--json",
	)
	shown := 0
	for _, line := range strings.Split(strings.TrimSpace(out2), "\n") {
		var one rows
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		end := one.Start.Add(time.Duration(one.Seconds * float64(time.Second)))
		if v, ok := one.find("device", "eth0", "tx_bytes_per_s"); ok &&
			end.After(killed.Add(time.Second)) &&
			end.Before(back) {
			t.Errorf("nobody measured at %v, and nic prints %v: %s", end, v, line)
		} else if ok {
			shown++
		}
	}
	if status != 0 || shown < 2 {
		t.Errorf("around the gap nic prints %d seconds, status %d: %s", shown, status, out2)
	}
}
