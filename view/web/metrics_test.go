package web

import (
	"context"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"culprit/measure"
)

// scrape parses an exposition. It checks each line, and that the type of a metric precedes it.
func scrape(t *testing.T, s *site, path string) map[string]float64 {
	t.Helper()
	res := s.get(path)
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 ||
		!strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("%s %v: %s", res.Status, err, b)
	}
	line := regexp.MustCompile(
		`^([a-zA-Z_][a-zA-Z0-9_]*)(\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})? (\S+)$`,
	)
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

// exports is an Exporter with one metric per wanted statistic.
type exports struct{ all []measure.StatID }

func (e exports) Append(
	_ context.Context, b []byte, over measure.Interval, wanted func(measure.StatID) bool,
) ([]byte, error) {
	for _, id := range e.all {
		if name := "culprit_" + strings.ReplaceAll(string(id), ".", "_"); wanted(id) {
			b = append(
				b,
				"# TYPE "+name+" gauge\n"+name+" "+strconv.FormatInt(
					int64(over.Span()), 10,
				)+"\n"...)
		}
	}
	return b, nil
}

func TestMetrics(t *testing.T) {
	m := newMemory(t).filled(1)
	s := serve(t, m).until(start + second)
	if own := scrape(t, s, "/metrics"); own[`culprit_server_build_info{version="1.0"}`] != 1 {
		t.Errorf("without an exporter: %v", own)
	}
	s.Export = exports{[]measure.StatID{"memory.free", "net.drops"}}
	if got := scrape(t, s, "/metrics"); got["culprit_server_troubles"] != 1 || len(got) < 10 {
		t.Errorf("the server's own: %v", got)
	}
	m.add(start+2*second, map[measure.StatID][]line{"memory.free": {{nil, 5}}})
	s.until(start + 2*second)
	got := scrape(t, s, "/metrics?statistic=memory.*")
	if _, other := got["culprit_net_drops"]; got["culprit_memory_free"] != float64(second) ||
		other {
		t.Errorf("memory alone: %v", got)
	}
}
