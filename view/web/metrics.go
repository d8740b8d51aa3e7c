package web

import (
	"context"
	"net/http"

	"culprit/measure"
	"culprit/view"
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
		b = view.AppendSample(view.AppendMetric(b, name, kind, help), name, labels, v)
	}
	label := func(name, text string) string { return string(view.AppendLabel(nil, name, text)) }
	put("build_info", "gauge", "The version that runs.", label("version", s.About.Version), 1)
	put("start_time_seconds", "gauge", "When the recording began, since the Unix epoch.", "", float64(h.Started)/1e9)
	put("newest_tick_seconds", "gauge", "The newest recorded tick, since the Unix epoch.", "", float64(s.live.newest.Load())/1e9)
	put("cpu_ratio", "gauge", "Share of one CPU that the server takes, mean of a minute.", "", h.CPU)
	if len(h.Costs) > 0 {
		const name = "culprit_server_spent_ratio"
		b = view.AppendMetric(b, name, "gauge", "The same by its parts.")
		for _, p := range h.Costs {
			b = view.AppendSample(b, name, label("part", p.Name), p.CPU)
		}
	}
	put("resident_memory_bytes", "gauge", "Resident memory of the server.", "", float64(h.Memory))
	put("disk_bytes", "gauge", "Size of the archive.", "", float64(h.Disk))
	put("disk_limit_bytes", "gauge", "Size that the archive may take, 0 for no limit.", "", float64(h.DiskLimit))
	put("late_ticks_total", "counter", "Ticks that came late or were left out.", "", float64(h.Late))
	put("refused_samples_total", "counter", "Samples that the receiver of remote write would not take.", "", float64(h.Refused))
	put("troubles", "gauge", "Things that are wrong with the recording now.", "", float64(len(h.Problems)))
	put("viewers", "gauge", "Open live views.", "", float64(s.viewers.Load()))
	return b
}
