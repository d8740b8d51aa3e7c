package prom

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

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
	m.record(t, measure.Delta, measure.Bytes, false, "net.device.bytes by device,direction")
	m.record(t, measure.Delta, measure.Packets, true, "net.drops by device")
	m.record(t, measure.Delta, measure.Nanoseconds, false, "cpu.time by cpu,mode")
	m.record(t, measure.Level, measure.Bytes, false, "memory.free")
	start := noon
	tick := func(s int, rx float64, drops float64) {
		at := start.Add(measure.Span(s) * measure.Second)
		m.put("net.device.bytes", at, map[string]float64{"eth0|rx": rx, "a\"b\\c\n|rx": 3})
		m.put("cpu.time", at, map[string]float64{"0|user": 25e7})
		m.put("memory.free", at, map[string]float64{"": float64(1e9 + s)})
		rows := map[string]float64{}
		if drops > 0 {
			rows["eth0"] = drops
		}
		m.put("net.drops", at, rows)
	}
	s := m.api(start).NewScraper()
	sec := func(n int) measure.Time { return start.Add(measure.Span(n) * measure.Second) }
	eth0 := key("net_device_bytes_total", "device", "eth0", "direction", "rx")
	tick(1, 100, 7)
	tick(2, 50, 0)
	one, _ := scrape(t, s, start, sec(2))
	odd := key("net_device_bytes_total", "device", "a\"b\\c\n", "direction", "rx")
	for k, want := range map[string]float64{
		eth0: 150,
		odd:  6,
		key("cpu_time_seconds_total", "cpu", "0", "mode", "user"): 0.5,
		key("net_drops_total", "device", "eth0"):                  7,
		key("memory_free_bytes"):                                  1e9 + 2,
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
		two[key("net_drops_total", "device", "eth0")] != 7 {
		t.Errorf("after 20 ticks: %v", two)
	}
	// A source records its part of a tick three seconds late: the next scrape counts it.
	for i := 21; i <= 23; i++ {
		if i != 21 {
			tick(i, 10, 0)
		}
	}
	scrape(t, s, start, sec(23))
	all := m.ticks["net.device.bytes"]
	late := tickOf(sec(21), map[string]float64{"eth0|rx": 1000, "a\"b\\c\n|rx": 3})
	m.ticks["net.device.bytes"] = slices.Insert(all, len(all)-2, late)
	if three, _ := scrape(t, s, start, sec(24)); three[eth0] != 150+18*10+20+1000 {
		t.Errorf("with the late part %s is %v, want 1350", eth0, three[eth0])
	}
	// A row that ended is omitted within seconds; one of a sparse statistic after five minutes.
	for i := 24; i <= 40; i++ {
		m.put("net.device.bytes", sec(i), map[string]float64{"lo|rx": 1})
		m.put("net.drops", sec(i), nil)
	}
	gone, _ := scrape(t, s, start, sec(40))
	if _, ok := gone[eth0]; ok || gone[key("net_drops_total", "device", "eth0")] != 7 {
		t.Errorf("after it had gone: %v", gone)
	}
	for i := 41; i <= 340; i++ {
		m.put("net.drops", sec(i), nil)
	}
	if idle, _ := scrape(t, s, start, sec(340)); idle[key("net_drops_total", "device", "eth0")] != 0 {
		t.Errorf("after five idle minutes: %v", idle)
	}
}

// TestScrapeWhileTicksAreLate checks that metrics whose newest tick is late or missing have the
// values of the tick before, as long as a part of a tick may be late. A scrape without them would
// end the series, and restart them a second later.
func TestScrapeWhileTicksAreLate(t *testing.T) {
	m := &memory{}
	m.record(t, measure.Level, measure.Bytes, false, "memory.free")
	m.record(t, measure.Delta, measure.Bytes, false, "disk.bytes by device")
	m.record(t, measure.Delta, measure.Nanoseconds, false, "cpu.time by mode")
	s := m.api(noon).NewScraper()
	sec := func(n int) measure.Time { return noon.Add(measure.Span(n) * measure.Second) }
	for n := 1; n <= 40; n++ {
		m.put("cpu.time", sec(n), map[string]float64{"user": 1e9})
		if n <= 20 {
			m.put("memory.free", sec(n), map[string]float64{"": float64(1000 + n)})
			m.put("disk.bytes", sec(n), map[string]float64{"sda": 10})
		}
		got, _ := scrape(t, s, noon, sec(n))
		last := min(n, 20)
		free, there := got[key("memory_free_bytes")]
		if want := n <= 25; there != want || there && free != float64(1000+last) {
			t.Errorf("after %d s: %v, there: %v, want %v", n, free, there, want)
		}
		bytes, there := got[key("disk_bytes_total", "device", "sda")]
		if want := n <= 25; n != 25 &&
			(there != want || there && bytes != float64(10*last)) {
			t.Errorf("after %d s: %v bytes, there: %v, want %v", n, bytes, there, want)
		}
	}
}

func tickOf(at measure.Time, rows map[string]float64) tick {
	return tick{at: at, elapsed: measure.Second, rows: rows}
}

// TestScrapeSendsWhatRemoteWriteSends checks that both export the same metrics, with the names and
// labels of the query API.
func TestScrapeSendsWhatRemoteWriteSends(t *testing.T) {
	m := world(t)
	for _, f := range highCardinality {
		m.record(t, measure.Delta, measure.Events, true, "highCardinality."+f+" by "+f)
		for i := range 30 {
			m.put(measure.StatID("highCardinality."+f),
				midnight.Add(measure.Span(i+1)*measure.Second),
				map[string]float64{strings.Repeat("secret", 500): 1})
		}
	}
	end := midnight.Add(30 * measure.Second)
	got, _ := scrape(t, m.api(end).NewScraper(), midnight, end)
	r, to := receives(t)
	through(t, m, to, measure.Second, midnight, end)
	sent := map[string]bool{}
	for k, samples := range r.series {
		if v := samples[len(samples)-1].Value; !math.IsNaN(v) { // otherwise it ended
			sent[k] = true
		}
	}
	for k := range got {
		if strings.Contains(k, "secret") {
			t.Fatalf("%.200s leaves the machine", k)
		}
		if !strings.Contains(k, "culprit_server_") && !sent[with(k)] {
			t.Errorf("%s is scraped and not written", k)
		}
	}
	if len(got) < len(sent) || len(sent) < 20 {
		t.Errorf("%d scraped, %d written", len(got), len(sent))
	}
	a := m.api(end)
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

// with adds the labels that remote write adds.
func with(k string) string {
	all := append(strings.Split(strings.Trim(k, "{}"), ", "), `instance="box"`, `job="culprit"`)
	slices.Sort(all)
	return "{" + strings.Join(all, ", ") + "}"
}

// TestScrapeIsBounded checks that a scrape of too many rows omits the metric with the most, and
// that the gauge counts them.
func TestScrapeIsBounded(t *testing.T) {
	m := &memory{}
	m.record(t, measure.Delta, measure.Events, false, "net.protocol.events by netns,counter")
	m.record(t, measure.Level, measure.Count, false, "net.sockets by netns")
	m.record(t, measure.Delta, measure.Nanoseconds, false, "cpu.time by mode")
	s := m.api(noon).NewScraper()
	fill := func(n, moving, sockets int) (map[string]float64, int) {
		at := noon.Add(measure.Span(n) * measure.Second)
		events, levels := map[string]float64{}, map[string]float64{}
		for i := range 12000 {
			events[fmt.Sprintf("ns%d|c%d", i/400, i%400)] = float64(max(0, min(1, moving-i)))
		}
		for i := range sockets {
			levels[fmt.Sprintf("ns%d", i)] = 1
		}
		m.put("net.protocol.events", at, events)
		m.put("net.sockets", at, levels)
		m.put("cpu.time", at, map[string]float64{"user": 1e9})
		return scrape(t, s, noon, at)
	}
	count := func(got map[string]float64, name string) (n int) {
		for k := range got {
			if strings.HasPrefix(k, `{__name__="culprit_`+name+`"`) {
				n++
			}
		}
		return n
	}
	dropped := key("server_scrape_dropped_series", "metric", "culprit_net_protocol_events_total")
	for i, c := range []struct{ moving, sockets, events, wantSockets int }{
		{100, 200, 100, 200},  // rows that are 0 are omitted first
		{1900, 200, 0, 200},   // then the metric with the most rows
		{1900, 50, 0, 50},     // which stays omitted for a few rows
		{1900, 2500, 0, 0},    // then the next metric
		{1900, 1850, 0, 0},    // as above
		{1900, 1700, 0, 1700}, // enough series are free again
	} {
		got, size := fill(i+1, c.moving, c.sockets)
		if e, n := count(got, "net_protocol_events_total"), count(got, "net_sockets"); e != c.events ||
			n != c.wantSockets {
			t.Errorf("%d: %d of the events and %d of the sockets, want %d and %d", i, e, n,
				c.events, c.wantSockets)
		}
		if got[dropped] != float64(12000-c.events) {
			t.Errorf("%d: %v are said to be left out, want %d", i, got[dropped], 12000-c.events)
		}
		if len(got) > maxScrapedSeries+10 || size > 300e3 ||
			count(got, "cpu_time_seconds_total") != 1 {
			t.Errorf("%d: %d series, %d bytes", i, len(got), size)
		}
	}
	if s.kept > maxCounterRows {
		t.Errorf("%d rows are kept", s.kept)
	}
}

// TestScraperKeepsBoundedRows checks that an endless number of names does not fill the memory.
func TestScraperKeepsBoundedRows(t *testing.T) {
	m := &memory{}
	m.record(t, measure.Delta, measure.Events, true, "exec.count by process")
	s := m.api(noon).NewScraper()
	for n := range 30 {
		at, names := noon.Add(measure.Span(n+1)*measure.Second), map[string]float64{}
		for i := range 2000 {
			names[fmt.Sprintf("p%d-%d", n, i)] = 1
		}
		m.put("exec.count", at, names)
		if got, _ := scrape(t, s, noon, at); len(got) > maxScrapedSeries+10 {
			t.Fatalf("%d series", len(got))
		}
	}
	if s.kept > maxCounterRows || s.kept != len(s.metrics["culprit_exec_count_total"].rows) {
		t.Errorf("%d rows are said to be kept, %d are", s.kept,
			len(s.metrics["culprit_exec_count_total"].rows))
	}
	m.sets = nil
	if scrape(t, s, noon, noon.Add(measure.Minute)); s.kept != 0 || len(s.metrics) != 0 {
		t.Errorf("%d rows of what is no longer recorded", s.kept)
	}
}
