package prom

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"culprit/export"
	"culprit/measure"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

func every(measure.StatID) bool { return true }

// scrape scrapes up to a time and reads the result with Prometheus's own parser.
func scrape(t testing.TB, s *Scraper, start, end measure.Time) (map[string]float64, int) {
	t.Helper()
	b, err := s.Append(t.Context(), nil, measure.Interval{Start: start, End: end}, every)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	p := textparse.NewPromParser(b, labels.NewSymbolTable(), false)
	typed := ""
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return out, len(b)
		}
		if err != nil {
			t.Fatalf("Prometheus can't read it: %v in\n%.2000s", err, b)
		}
		switch entry {
		case textparse.EntryType:
			name, _ := p.Type()
			typed = string(name)
		case textparse.EntrySeries:
			_, _, v := p.Series()
			var l labels.Labels
			p.Labels(&l)
			if l.Get("__name__") != typed {
				t.Fatalf("%s after the type of %s", l, typed)
			}
			if _, twice := out[l.String()]; twice {
				t.Fatalf("%s comes twice", l)
			}
			out[l.String()] = v
		}
	}
}

func key(name string, more ...string) string {
	return labels.FromStrings(append([]string{"__name__", "culprit_" + name}, more...)...).String()
}

// TestScrape checks counters since the server began, gauges of the newest tick, rows that end, and
// a part of a tick that is recorded late.
func TestScrape(t *testing.T) {
	m := &memory{}
	m.record(t, measure.Delta, measure.Bytes, false, "disk.bytes by device,direction")
	m.record(t, measure.Delta, measure.Events, true, "softirq.count by vector")
	m.record(t, measure.Delta, measure.Nanoseconds, false, "cpu.time by cpu,mode")
	m.record(t, measure.Level, measure.Count, false, "sched.tasks")
	start := noon
	tick := func(s int, rx float64, drops float64) {
		at := start.Add(measure.Span(s) * measure.Second)
		m.put("disk.bytes", at, map[string]float64{"eth0|rx": rx, "a\"b\\c\n|rx": 3})
		m.put("cpu.time", at, map[string]float64{"0|user": 25e7})
		m.put("sched.tasks", at, map[string]float64{"": float64(1e9 + s)})
		rows := map[string]float64{}
		if drops > 0 {
			rows["eth0"] = drops
		}
		m.put("softirq.count", at, rows)
	}
	s := m.api(start).NewScraper()
	sec := func(n int) measure.Time { return start.Add(measure.Span(n) * measure.Second) }
	eth0 := key("disk_bytes_total", "device", "eth0", "direction", "rx")
	tick(1, 100, 7)
	tick(2, 50, 0)
	one, _ := scrape(t, s, start, sec(2))
	odd := key("disk_bytes_total", "device", "a\"b\\c\n", "direction", "rx")
	for k, want := range map[string]float64{
		eth0: 150,
		odd:  6,
		key("cpu_time_seconds_total", "cpu", "0", "mode", "user"): 0.5,
		key("softirq_count_total", "vector", "eth0"):              7,
		key("sched_tasks"): 1e9 + 2,
	} {
		if one[k] != want {
			t.Errorf("%s is %v, want %v", k, one[k], want)
		}
	}
	if again, _ := scrape(t, s, start, sec(2)); fmt.Sprint(again) != fmt.Sprint(one) {
		t.Errorf("the same tick scraped again: %v, was %v", again, one)
	}
	for i := 3; i <= 20; i++ {
		tick(i, 10, 0)
	}
	if two, _ := scrape(t, s, start, sec(20)); two[eth0] != 150+18*10 ||
		two[key("softirq_count_total", "vector", "eth0")] != 7 {
		t.Errorf("after 20 ticks: %v", two)
	}
	// A source records its part of a tick three seconds late: the next scrape counts it.
	for i := 21; i <= 23; i++ {
		if i != 21 {
			tick(i, 10, 0)
		}
	}
	scrape(t, s, start, sec(23))
	all := m.ticks["disk.bytes"]
	late := tickOf(sec(21), map[string]float64{"eth0|rx": 1000, "a\"b\\c\n|rx": 3})
	m.ticks["disk.bytes"] = slices.Insert(all, len(all)-2, late)
	if three, _ := scrape(t, s, start, sec(24)); three[eth0] != 150+18*10+20+1000 {
		t.Errorf("with the late part %s is %v, want 1350", eth0, three[eth0])
	}
	// A row that ended is omitted within seconds; one of a sparse statistic after five minutes.
	for i := 24; i <= 40; i++ {
		m.put("disk.bytes", sec(i), map[string]float64{"lo|rx": 1})
		m.put("softirq.count", sec(i), nil)
	}
	gone, _ := scrape(t, s, start, sec(40))
	if _, ok := gone[eth0]; ok || gone[key("softirq_count_total", "vector", "eth0")] != 7 {
		t.Errorf("after it had gone: %v", gone)
	}
	for i := 41; i <= 340; i++ {
		m.put("softirq.count", sec(i), nil)
	}
	if idle, _ := scrape(t, s, start, sec(340)); idle[key("softirq_count_total", "vector", "eth0")] != 0 {
		t.Errorf("after five idle minutes: %v", idle)
	}
}

// TestScrapeWhileTicksAreLate checks that metrics whose newest tick is late or missing have the
// values of the tick before, as long as a part of a tick may be late. A scrape without them would
// end the series, and restart them a second later.
func TestScrapeWhileTicksAreLate(t *testing.T) {
	m := &memory{}
	m.record(t, measure.Level, measure.Count, false, "sched.tasks")
	m.record(t, measure.Delta, measure.Packets, false, "softnet.packets by cpu")
	m.record(t, measure.Delta, measure.Nanoseconds, false, "cpu.time by cpu,mode")
	s := m.api(noon).NewScraper()
	sec := func(n int) measure.Time { return noon.Add(measure.Span(n) * measure.Second) }
	for n := 1; n <= 40; n++ {
		m.put("cpu.time", sec(n), map[string]float64{"0|user": 1e9})
		if n <= 20 {
			m.put("sched.tasks", sec(n), map[string]float64{"": float64(1000 + n)})
			m.put("softnet.packets", sec(n), map[string]float64{"3": 10})
		}
		got, _ := scrape(t, s, noon, sec(n))
		last := min(n, 20)
		free, there := got[key("sched_tasks")]
		if want := n <= 25; there != want || there && free != float64(1000+last) {
			t.Errorf("after %d s: %v, there: %v, want %v", n, free, there, want)
		}
		bytes, there := got[key("softnet_packets_total", "cpu", "3")]
		if want := n <= 25; n != 25 &&
			(there != want || there && bytes != float64(10*last)) {
			t.Errorf("after %d s: %v bytes, there: %v, want %v", n, bytes, there, want)
		}
	}
}

func tickOf(at measure.Time, rows map[string]float64) tick {
	return tick{at: at, elapsed: measure.Second, rows: rows}
}

// TestScrapeHidesSecrets checks that no label of high cardinality is exported, and that the query
// API knows what is.
func TestScrapeHidesSecrets(t *testing.T) {
	m := world(t)
	// A user's program, a process and a statistic with more fields than the table has.
	m.record(t, measure.Delta, measure.Events, true, "mine.count by file")
	m.record(t, measure.Level, measure.Bytes, false, "process.rss by pid,process")
	m.record(t, measure.Delta, measure.Nanoseconds, false, "cgroup.cpu by cgroup,command")
	for i := range 30 {
		at := midnight.Add(measure.Span(i+1) * measure.Second)
		secret := strings.Repeat("secret", 500)
		m.put("mine.count", at, map[string]float64{secret: 1})
		m.put("process.rss", at, map[string]float64{"7|" + secret: 1})
		m.put("cgroup.cpu", at, map[string]float64{"/a|" + secret: 1e6})
	}
	end := midnight.Add(30 * measure.Second)
	got, _ := scrape(t, m.api(end).NewScraper(), midnight, end)
	a := m.api(end)
	for k := range got {
		if strings.Contains(k, "secret") {
			t.Fatalf("%.200s leaves the machine", k)
		}
	}
	if len(got) < 18 {
		t.Errorf("%d scraped", len(got))
	}
	for k := range got {
		name := strings.Split(strings.TrimPrefix(k, `{__name__="`), `"`)[0]
		if strings.Contains(name, "_server_") {
			continue
		}
		if len(rows(t, data(t, a, "query", "query", k, "time", seconds(end)))) != 1 {
			t.Errorf("the query API does not know %s", k)
		}
	}
}

// TestScrapeIsBounded checks that a scrape omits metrics above their bound, and the widest ones
// while there are too many series, and that the gauge counts them.
func TestScrapeIsBounded(t *testing.T) {
	m := &memory{}
	widths := []string{"cgroup.pids", "cgroup.pids.limit", "cgroup.quota", "sched.load"}
	m.record(t, measure.Level, measure.Count, false, "cgroup.pids by cgroup")
	m.record(t, measure.Level, measure.Count, false, "cgroup.pids.limit by cgroup")
	m.record(t, measure.Level, measure.Count, false, "cgroup.quota by cgroup")
	m.record(t, measure.Level, measure.Count, false, "sched.load by window")
	m.record(t, measure.Delta, measure.Nanoseconds, false, "cgroup.throttled by cgroup")
	m.record(t, measure.Delta, measure.Nanoseconds, false, "cgroup.cpu by cgroup")
	s := m.api(noon).NewScraper()
	for i, tt := range []struct {
		name              string
		levels            [4]int
		throttled, moving int // of 5,000
		omitted           map[string]float64
	}{
		{"all fit", [4]int{990, 980, 970, 3}, 100, 950, nil},
		{"above its bound", [4]int{1001, 980, 970, 3}, 100, 960,
			map[string]float64{"culprit_cgroup_pids": 1001}},
		{"too many", [4]int{901, 980, 970, 3}, 200, 990, map[string]float64{
			"culprit_cgroup_pids": 901, // still above nine tenths of its bound
		}},
		{"too many, the widest goes", [4]int{899, 991, 970, 3}, 200, 990,
			map[string]float64{"culprit_cgroup_pids_limit": 991}},
	} {
		at := noon.Add(measure.Span(i+1) * measure.Second)
		for j, id := range widths {
			rows := map[string]float64{}
			for n := range tt.levels[j] {
				rows[fmt.Sprintf("/c%d", n)] = 1
			}
			m.put(measure.StatID(id), at, rows)
		}
		for id, moving := range map[measure.StatID]int{
			"cgroup.throttled": tt.throttled, "cgroup.cpu": tt.moving,
		} {
			rows := map[string]float64{}
			for n := range 5000 {
				rows[fmt.Sprintf("/c%d", n)] = float64(max(0, min(1, moving-n)))
			}
			m.put(id, at, rows)
		}
		got, size := scrape(t, s, noon, at)
		dropped := map[string]float64{}
		for k, v := range got {
			if strings.Contains(k, "culprit_server_scrape_dropped_series") {
				dropped[strings.Split(k, `"`)[3]] = v
			}
		}
		if fmt.Sprint(dropped) != fmt.Sprint(tt.omitted) {
			t.Errorf("%s: %v are omitted, want %v", tt.name, dropped, tt.omitted)
		}
		if len(got) > export.MaxSeries+10 || size > 300e3 || len(got) < 2000 {
			t.Errorf("%s: %d series, %d bytes", tt.name, len(got), size)
		}
		if _, there := got[key("sched_load", "window", "/c0")]; !there {
			t.Errorf("%s: the load is omitted", tt.name)
		}
	}
}

// TestScraperKeepsBoundedRows checks that an endless number of names does not fill the memory.
func TestScraperKeepsBoundedRows(t *testing.T) {
	m := &memory{}
	m.record(t, measure.Delta, measure.Events, true, "cgroup.memory.events by cgroup,event")
	s := m.api(noon).NewScraper()
	const name = "culprit_cgroup_memory_events_total"
	for n := range 30 {
		at, names := noon.Add(measure.Span(n+1)*measure.Second), map[string]float64{}
		for i := range 2000 {
			names[fmt.Sprintf("p%d-%d|max", n, i)] = 1
		}
		m.put("cgroup.memory.events", at, names)
		if got, _ := scrape(t, s, noon, at); len(got) > 10 {
			t.Fatalf("%d series", len(got))
		}
	}
	if s.kept > maxCounterRows || s.kept != len(s.metrics[name].rows) || s.kept < 30000 {
		t.Errorf("%d rows are said to be kept, %d are", s.kept, len(s.metrics[name].rows))
	}
	m.sets = nil
	if scrape(t, s, noon, noon.Add(measure.Minute)); s.kept != 0 || len(s.metrics) != 0 {
		t.Errorf("%d rows of what is no longer recorded", s.kept)
	}
}

// TestScrapeOfCountersThatBegin checks that a counter that never moved is left out, and that one
// that begins to move has a 0 first, so that increase() counts its first amount.
func TestScrapeOfCountersThatBegin(t *testing.T) {
	m := &memory{}
	m.record(t, measure.Delta, measure.Events, false, "memory.oom")
	m.record(t, measure.Delta, measure.Packets, false, "net.device.drops by netns,device,direction")
	s := m.api(noon).NewScraper()
	sec := func(n int) measure.Time { return noon.Add(measure.Span(n) * measure.Second) }
	oom, drops := key("memory_oom_total"),
		key("net_device_drops_total", "device", "eth0", "direction", "rx")
	for n, tt := range []struct {
		oom, drops         float64 // amounts
		wantOOM, wantDrops float64 // values; -1: it is left out
	}{
		{0, 7, -1, 7}, // the first scrape has no earlier one to begin with 0
		{0, 0, -1, 7}, {3, 1, 0, 8}, {0, 0, 3, 8}, {2, 0, 5, 8},
	} {
		m.put("memory.oom", sec(n+1), map[string]float64{"": tt.oom})
		m.put("net.device.drops", sec(n+1), map[string]float64{"|eth0|rx": tt.drops, "|eth0|tx": 0})
		for range 2 { // the same tick is scraped twice
			got, _ := scrape(t, s, noon, sec(n+1))
			for k, want := range map[string]float64{
				oom: tt.wantOOM, drops: tt.wantDrops,
				key("net_device_drops_total", "device", "eth0", "direction", "tx"): -1,
			} {
				if v, there := got[k]; there != (want >= 0) || there && v != want {
					t.Errorf("scrape %d: %s is %v, there: %v, want %v", n, k, v, there, want)
				}
			}
		}
	}
}
