package web

import (
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"culprit/measure"
)

// scrape reads an exposition and checks that each line is well-formed, and each metric has its type before it.
func scrape(t *testing.T, s *site, path string) map[string]float64 {
	t.Helper()
	res := s.get(path)
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("%s %v: %s", res.Status, err, b)
	}
	line := regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)(\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})? (\S+)$`)
	out := map[string]float64{}
	typed := ""
	for l := range strings.Lines(string(b)) {
		l = strings.TrimSuffix(l, "\n")
		if rest, ok := strings.CutPrefix(l, "# TYPE "); ok {
			typed, _, _ = strings.Cut(rest, " ")
		}
		if strings.HasPrefix(l, "#") {
			continue
		}
		m := line.FindStringSubmatch(l)
		if m == nil || m[1] != typed {
			t.Fatalf("after %s: %q", typed, l)
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := out[m[1]+m[2]]; twice {
			t.Errorf("%s is there twice", m[1]+m[2])
		}
		out[m[1]+m[2]] = v
	}
	return out
}

func TestMetrics(t *testing.T) {
	m := newMemory(t).filled(1)
	s := serve(t, m).until(start + second)
	before := scrape(t, s, "/metrics")
	if before["culprit_memory_free_bytes"] != 1e9 || before[`culprit_server_build_info{version="1.0"}`] != 1 || before["culprit_tcp_rtt_seconds{peer=\"b\"}"] != 0.003 {
		t.Errorf("first scrape: %v", before)
	}
	tick := func(i int, rx float64, drops []line) {
		m.add(start+measure.Time(i)*second, map[measure.StatID][]line{
			"net.device.bytes": {{[]string{"eth0", "rx"}, rx}, {[]string{"a\"b\\c\n", "rx"}, 3}},
			"cpu.time":         {{[]string{"0", "user"}, 25e7}}, "net.drops": drops, "memory.free": {{nil, 5}}})
		s.until(start + measure.Time(i)*second)
	}
	tick(2, 100, []line{{[]string{"eth0"}, 7}})
	tick(3, 50, nil)
	one := scrape(t, s, "/metrics")
	if one[`culprit_net_device_bytes_total{device="eth0",direction="rx"}`] != 150 || one[`culprit_net_device_bytes_total{device="a\"b\\c\n",direction="rx"}`] != 6 ||
		one[`culprit_cpu_time_seconds_total{cpu="0",mode="user"}`] != 0.5 || one[`culprit_net_drops_total{device="eth0"}`] != 7 || one["culprit_memory_free_bytes"] != 5 {
		t.Errorf("after two ticks: %v", one)
	}
	same := scrape(t, s, "/metrics") // within the same tick: the same
	if same[`culprit_net_device_bytes_total{device="eth0",direction="rx"}`] != 150 {
		t.Errorf("again: %v", same)
	}
	tick(4, 25, nil)
	two := scrape(t, s, "/metrics?statistic=net.*")
	if two[`culprit_net_device_bytes_total{device="eth0",direction="rx"}`] != 175 || two[`culprit_net_drops_total{device="eth0"}`] != 7 {
		t.Errorf("after three ticks: %v", two)
	}
	if _, ok := two["culprit_memory_free_bytes"]; ok {
		t.Error("a statistic that was not asked for")
	}
	// A row that has gone is left out; one that absence means 0 for stays.
	m.add(start+5*second, map[measure.StatID][]line{"cpu.time": {{[]string{"0", "user"}, 25e7}}})
	s.until(start + 5*second)
	gone := scrape(t, s, "/metrics")
	if _, ok := gone[`culprit_net_device_bytes_total{device="eth0",direction="rx"}`]; ok || gone[`culprit_net_drops_total{device="eth0"}`] != 7 {
		t.Errorf("after it had gone: %v", gone)
	}
}
