package web

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"

	"culprit/measure"
)

// Exporter appends what is recorded in Prometheus's text format: the statistics that are wanted, as they are at the end of a
// time; counters since its start. The error is the context's. Implementations are safe for several goroutines.
type Exporter interface {
	// Append appends the metrics to b.
	Append(ctx context.Context, b []byte, over measure.Interval, wanted func(measure.StatID) bool) ([]byte, error)
}

// metrics answers with the server's own state and the recorded statistics in Prometheus's text format.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	p, err := parametersOf(r.URL.RawQuery, 0, nil, []string{"statistic"})
	if err != nil {
		return err
	}
	ctx, done, err := s.place(r.Context())
	if err != nil {
		return err
	}
	defer done()
	b := s.ownMetrics(nil)
	if s.Export != nil {
		over := measure.Interval{Start: measure.Time(s.live.first.Load()), End: measure.Time(s.live.newest.Load())}
		wanted := func(id measure.StatID) bool { return wantedStat(p.values["statistic"], id) }
		if b, err = s.Export.Append(ctx, b, over, wanted); err != nil {
			return err
		}
	}
	return s.send(w, r, "text/plain; version=0.0.4; charset=utf-8", b)
}

// wantedStat says whether a name matches one of the patterns; all do when there are none.
func wantedStat(patterns []string, id measure.StatID) bool {
	for _, p := range patterns {
		if (measure.Term{Op: measure.Matches, Values: []string{p}}).Match(string(id)) {
			return true
		}
	}
	return len(patterns) == 0
}

// ownMetrics appends what the server says of itself.
func (s *Server) ownMetrics(b []byte) []byte {
	h := s.Machine.Health()
	put := func(name, kind, help, labels string, v float64) {
		name = "culprit_server_" + name
		b = append(b, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"+name+labels+" "...)
		b = append(appendValue(b, v), '\n')
	}
	put("build_info", "gauge", "The version that runs.", `{version="`+escaped(s.About.Version)+`"}`, 1)
	put("start_time_seconds", "gauge", "When the recording began, since the Unix epoch.", "", float64(h.Started)/1e9)
	put("newest_tick_seconds", "gauge", "The newest recorded tick, since the Unix epoch.", "", float64(s.live.newest.Load())/1e9)
	put("cpu_ratio", "gauge", "Share of one CPU that the server takes, mean of a minute.", "", h.CPU)
	if len(h.Spent) > 0 {
		b = append(b, "# HELP culprit_server_spent_ratio The same by its parts.\n# TYPE culprit_server_spent_ratio gauge\n"...)
		for _, p := range h.Spent {
			b = append(b, `culprit_server_spent_ratio{part="`+escaped(p.What)+`"} `...)
			b = append(appendValue(b, p.CPU), '\n')
		}
	}
	put("resident_memory_bytes", "gauge", "Resident memory of the server.", "", float64(h.Memory))
	put("disk_bytes", "gauge", "Size of the archive.", "", float64(h.Disk))
	put("disk_limit_bytes", "gauge", "Size that the archive may take, 0 for no limit.", "", float64(h.DiskLimit))
	put("late_ticks_total", "counter", "Ticks that came late or were left out.", "", float64(h.Late))
	put("refused_samples_total", "counter", "Samples that the receiver of remote write would not take.", "", float64(h.Refused))
	put("troubles", "gauge", "Things that are wrong with the recording now.", "", float64(len(h.Trouble)))
	put("viewers", "gauge", "Open live views.", "", float64(s.viewers.Load()))
	return b
}

// escaped makes a label's value fit between quotes.
func escaped(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if !strings.ContainsAny(s, "\\\"\n") {
		return s
	}
	return strings.NewReplacer("\\", `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}

// appendValue appends a number with all its digits.
func appendValue(b []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case math.IsInf(v, -1):
		return append(b, "-Inf"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}
