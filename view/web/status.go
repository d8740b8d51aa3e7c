package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/web/access"
	"culprit/view/web/api"
)

// status reports the state of the server itself.
type status struct {
	*core
	live     *live
	recorded oldest
}

// oldest holds since when anything is recorded. Old cells are deleted slowly: it is computed once a
// minute.
type oldest struct {
	sync.Mutex
	start measure.Time // 0: nothing is recorded
	until time.Time    // when it is computed again
}

// since returns the oldest moment that a dataset has; 0 if none has any.
func (o *oldest) since(m Machine) measure.Time {
	o.Lock()
	defer o.Unlock()
	if o.start != 0 && time.Now().Before(o.until) {
		return o.start
	}
	o.start = 0
	for _, d := range m.Datasets() {
		start := m.Held(d.ID).Over.Start
		if start != 0 && (o.start == 0 || start < o.start) {
			o.start = start
		}
	}
	o.until = time.Now().Add(time.Minute)
	return o.start
}

// health reports the server's version, its cost and its problems.
func (s *status) health(w http.ResponseWriter, r *http.Request) error {
	if err := noParameters(r); err != nil {
		return err
	}
	h := s.Machine.Health()
	b := view.AppendString([]byte(`{"version":`), s.About.Version)
	b = view.AppendString(append(b, `,"may":`...), access.From(r.Context()).Role.String())
	b = view.AppendString(append(b, `,"host":`...), s.About.Host)
	b = view.AppendString(append(b, `,"kernel":`...), s.About.Kernel)
	b = strconv.AppendInt(append(b, `,"cpus":`...), int64(s.About.CPUs), 10)
	b = api.AppendMillis(append(b, `,"now_ms":`...), int64(s.now()))
	b = api.AppendMillis(append(b, `,"started_ms":`...), int64(h.Started))
	b = appendTime(append(b, `,"recorded_ms":`...), s.recorded.since(s.Machine))
	b = view.AppendNumber(append(b, `,"cpu":`...), h.CPU)
	b = append(b, `,"spent":[`...)
	for i, p := range h.Costs {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendString(append(b, `{"what":`...), p.Name)
		b = append(view.AppendNumber(append(b, `,"cpu":`...), p.CPU), '}')
	}
	b = append(b, ']')
	b = strconv.AppendInt(append(b, `,"rss_bytes":`...), h.Memory, 10)
	b = strconv.AppendBool(append(b, `,"hosts":`...), s.Fleet != nil)
	b = strconv.AppendInt(append(b, `,"viewers":`...), s.live.viewers.Load(), 10)
	b = strconv.AppendInt(append(b, `,"disk_bytes":`...), h.Disk, 10)
	b = strconv.AppendInt(append(b, `,"disk_limit_bytes":`...), h.DiskLimit, 10)
	b = view.AppendNumber(append(b, `,"cpu_limit":`...), h.CPULimit)
	problems := s.problems(&h)
	b = append(b, `,"trouble":[`...)
	for i, p := range problems {
		b = view.AppendString(comma(b, i), p.Text)
	}
	b = append(b, `],"problems":[`...)
	for i, p := range problems {
		b = view.AppendString(append(comma(b, i), `{"key":`...), p.Key)
		b = append(view.AppendString(append(b, `,"text":`...), p.Text), '}')
	}
	b = append(b, ']')
	b = strconv.AppendUint(append(b, `,"late_ticks":`...), h.Late, 10)
	b = strconv.AppendUint(append(b, `,"refused_samples":`...), h.Refused, 10)
	b = strconv.AppendUint(append(b, `,"faults":`...), s.faults.total.Load(), 10)
	return s.sendJSON(w, r, append(b, '}'))
}

// readyFor is how long a server stays ready without a new tick.
const readyFor = 10 * time.Second

// healthy replies that the server answers. It contains no numbers, since all may read it.
func (s *status) healthy(w http.ResponseWriter, r *http.Request) error {
	if err := noParameters(r); err != nil {
		return err
	}
	return plain(w, http.StatusOK, "culprit is healthy.\n")
}

// ready replies whether the recording delivers.
func (s *status) ready(w http.ResponseWriter, r *http.Request) error {
	if err := noParameters(r); err != nil {
		return err
	}
	at := s.clock.arrived.Load()
	if at == 0 || time.Since(time.Unix(0, at)) > readyFor {
		return plain(w, http.StatusServiceUnavailable, "culprit is not ready.\n")
	}
	return plain(w, http.StatusOK, "culprit is ready.\n")
}

// plain replies with a text.
func plain(w http.ResponseWriter, status int, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // fails only if the client is gone
	return nil
}

// problems returns the problems of the recording and of the server.
func (s *status) problems(h *measure.Health) []measure.Problem {
	all := slices.Clone(h.Problems)
	add := func(key, text string) { all = append(all, measure.Problem{Key: key, Text: text}) }
	if f := s.faults.newest.Load(); f != nil {
		add("fault", *f)
	}
	if s.Tokens != nil {
		if _, err := s.Tokens.Valid(); err != nil {
			add("tokens", err.Error()+": only the server's own token is accepted")
		}
	}
	if s.Sessions != nil {
		if err := s.Sessions.Trouble(); err != nil {
			add("sessions", err.Error())
		}
	}
	if s.CertificateTrouble != nil {
		if err := s.CertificateTrouble(); err != nil {
			add("certificate", err.Error())
		}
	}
	return all
}

// Exporter writes recorded statistics in Prometheus's text format. It is safe for concurrent use.
type Exporter interface {
	// Append appends the wanted statistics to b, with their values at the end of a time range;
	// counters count from its start. The error is the context's.
	Append(
		ctx context.Context, b []byte, over measure.Interval, wanted func(measure.StatID) bool,
	) ([]byte, error)
}

// metrics replies with the server's own state and the recorded statistics in Prometheus's text
// format.
func (s *status) metrics(w http.ResponseWriter, r *http.Request) error {
	p, err := parametersOf(r.URL.RawQuery, 0, nil, []string{"statistic"})
	if err != nil {
		return err
	}
	ctx, release, err := s.acquire(r.Context())
	if err != nil {
		return err
	}
	defer release()
	b := s.ownMetrics(nil)
	export := s.Export
	if !access.From(ctx).May(access.View) {
		if export = s.HiddenExport; export == nil {
			return hiddenFault()
		}
	}
	if export != nil {
		over := measure.Interval{
			Start: measure.Time(s.first.Load()), End: measure.Time(s.clock.newest.Load()),
		}
		wanted := func(id measure.StatID) bool {
			return matchesAny(p.values["statistic"], id)
		}
		if b, err = export.Append(ctx, b, over, wanted); err != nil {
			return err
		}
	}
	return s.send(w, r, "text/plain; version=0.0.4; charset=utf-8", b)
}

// matchesAny reports whether a name matches one of the patterns, or there are no patterns.
func matchesAny(patterns []string, id measure.StatID) bool {
	for _, p := range patterns {
		if (measure.Term{Op: measure.Matches, Values: []string{p}}).Match(string(id)) {
			return true
		}
	}
	return len(patterns) == 0
}

// ownMetrics appends the metrics of the server itself.
func (s *status) ownMetrics(b []byte) []byte {
	h := s.Machine.Health()
	const prefix = "culprit_server_"
	add := func(kind, name, help, labels string, v float64) {
		name = prefix + name
		b = view.AppendSample(view.AppendMetric(b, name, kind, help), name, labels, v)
	}
	gauge := func(name, help string, v float64) { add("gauge", name, help, "", v) }
	counter := func(name, help string, v float64) { add("counter", name, help, "", v) }
	label := func(name, text string) string { return string(view.AppendLabel(nil, name, text)) }

	version := label("version", s.About.Version)
	add("gauge", "build_info", "The running version.", version, 1)
	gauge("start_time_seconds", "Start of the recording, since the Unix epoch.",
		float64(h.Started)/1e9)
	gauge("newest_tick_seconds", "The newest recorded tick, since the Unix epoch.",
		float64(s.clock.newest.Load())/1e9)
	gauge("cpu_ratio", "Share of one CPU that the server uses, mean of a minute.", h.CPU)
	if len(h.Costs) > 0 {
		const name = prefix + "spent_ratio"
		b = view.AppendMetric(b, name, "gauge", "The same by its parts.")
		for _, p := range h.Costs {
			b = view.AppendSample(b, name, label("part", p.Name), p.CPU)
		}
	}
	gauge("resident_memory_bytes", "Resident memory of the server.", float64(h.Memory))
	gauge("disk_bytes", "Size of the archive.", float64(h.Disk))
	gauge("disk_limit_bytes", "Maximum size of the archive, 0 for no limit.", float64(h.DiskLimit))
	counter("late_ticks_total", "Ticks that were late or skipped.", float64(h.Late))
	counter("refused_samples_total", "Samples that the receiver of remote write refused.",
		float64(h.Refused))
	gauge("troubles", "Current problems of the recording.", float64(len(h.Problems)))
	gauge("viewers", "Open live views.", float64(s.live.viewers.Load()))
	return b
}
