package web

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"culprit/measure"
	"culprit/view"
)

// totals are the counters of /metrics: what Prometheus wants are sums that only grow, and what is recorded are amounts. They are added up when
// somebody asks, from the time of the asking before, so they cost nothing while nobody does.
type totals struct {
	mu    sync.Mutex
	first measure.Time // where all began: the newest tick when the server began
	stats map[measure.StatID]*total
}

type total struct {
	last measure.Time // up to which rows are summed
	rows map[string]*sum
}

type sum struct {
	value float64
	seen  measure.Time // the end of the last window that had the row
}

const (
	mostSummed = 500_000             // rows of all counters
	forget     = 60 * measure.Minute // a row that was not seen for so long begins at 0 again, which reads as a restart
)

// metrics tells the recorded statistics and the server itself in Prometheus's text format. A delta is a counter since the server began, a level and a
// delta that goes down too are gauges of the newest tick. A row that was not there in the time since the last asking is left out.
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
	at := measure.Time(s.live.newest.Load())
	s.totals.mu.Lock()
	defer s.totals.mu.Unlock()
	taken := map[string]bool{}
	for _, d := range scraped(s.Machine.Datasets()) {
		name, unit := view.MetricName(&d.Stat)
		if taken[name] { // the query API tells them apart in the same way
			name += "_" + cmp.Or(unit, "count")
		}
		taken[name] = true
		if at == 0 || !wantedStat(p.values["statistic"], d.Stat.ID) {
			continue
		}
		if b, err = s.appendMetric(ctx, b, d, name, at); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			f := faultOf(err)
			b = append(b, "# "+string(d.Stat.ID)+" is missing: "+strings.ReplaceAll(f.Error(), "\n", " ")+"\n"...)
		}
		if len(b) > mostFindings*4 {
			return &fault{status: http.StatusRequestEntityTooLarge, Code: "too-large", Message: "these are too many rows for one scrape", Hint: "name statistics: metrics?statistic=net.*"}
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

// scraped gives one dataset a statistic: two of them would count things twice. One without a predicate is taken first, then one with more fields.
func scraped(all []measure.Dataset) []*measure.Dataset {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b measure.Dataset) int { return cmp.Compare(a.Stat.ID, b.Stat.ID) })
	var out []*measure.Dataset
	index := map[measure.StatID]int{}
	for i := range all {
		d := &all[i]
		if d.State != measure.Recording || d.Stat.Kind == measure.Dists {
			continue
		}
		k, ok := index[d.Stat.ID]
		if !ok {
			index[d.Stat.ID] = len(out)
			out = append(out, d)
			continue
		}
		old := out[k]
		if a, b := len(d.Query.Where) > 0, len(old.Query.Where) > 0; a != b && b || a == b && len(d.Query.By) > len(old.Query.By) {
			out[k] = d
		}
	}
	return out
}

// appendMetric appends one statistic. On an error nothing is appended.
func (s *Server) appendMetric(ctx context.Context, b []byte, d *measure.Dataset, name string, at measure.Time) ([]byte, error) {
	q := d.Query
	t := s.totals.stats[d.Stat.ID]
	if t == nil {
		if s.totals.first == 0 {
			s.totals.first = measure.Time(s.live.first.Load())
		}
		t = &total{last: s.totals.first, rows: map[string]*sum{}}
	}
	counter := d.Stat.Kind == measure.Delta && !d.Stat.Signed
	q.Over = measure.Interval{Start: at.Add(-max(d.Query.Step, liveStep)), End: at}
	if counter {
		q.Over.Start = t.last
	}
	var a *measure.Answer
	if q.Over.End > q.Over.Start {
		q.Step = q.Over.Span()
		var err error
		if a, err = s.Machine.Ask(ctx, q); err != nil {
			return b, err
		}
		if len(a.Elapsed) > 1 {
			return b, tooLarge(len(a.Series), len(a.Elapsed), 1)
		}
	}
	help := strings.NewReplacer("\\", `\\`, "\n", `\n`).Replace(string(d.Stat.ID) + ": " + d.Stat.Help)
	if !counter {
		if d.Stat.Kind == measure.Delta {
			name, help = name+"_per_second", help+"; per second of measured time"
		}
		b = append(b, "# HELP "+name+" "+help+"\n# TYPE "+name+" gauge\n"...)
		scale := 1.0
		if d.Stat.Unit == measure.Nanoseconds && d.Stat.Kind == measure.Level {
			scale = 1e-9
		}
		for i := range a.Series {
			if v := a.Series[i].Values; len(v) == 1 && v[0] == v[0] {
				b = appendSample(append(b, name...), a.Query.By, a, i, "", v[0]*scale)
			}
		}
		return b, nil
	}
	if a != nil && len(a.Elapsed) == 1 && a.Elapsed[0] > 0 {
		for i := range a.Series {
			v := a.Series[i].Values
			if len(v) != 1 || v[0] != v[0] {
				continue
			}
			key := string(appendLabels(nil, a.Query.By, a, i))
			row := t.rows[key]
			if row == nil {
				if len(t.rows) >= mostSummed {
					return b, tooLarge(len(a.Series), 1, mostSummed)
				}
				row = &sum{}
				t.rows[key] = row
			}
			// The rate of a time is a ratio, that of all else is per second: times seconds, both are amounts in the base unit.
			row.value, row.seen = row.value+v[0]*a.Elapsed[0].Seconds(), at
		}
		t.last = at
		for key, row := range t.rows {
			if at.Sub(row.seen) > forget {
				delete(t.rows, key)
			}
		}
		if s.totals.stats == nil {
			s.totals.stats = map[measure.StatID]*total{}
		}
		s.totals.stats[d.Stat.ID] = t
	}
	b = append(b, "# HELP "+name+"_total "+help+"; since the server began\n# TYPE "+name+"_total counter\n"...)
	for key, row := range t.rows {
		if row.seen == t.last || d.Stat.Sparse {
			b = append(append(append(b, name...), "_total"...), key...)
			b = append(appendValue(append(b, ' '), row.value), '\n')
		}
	}
	return b, nil
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

// identifier makes a name of letters, digits and _.
func identifier(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
}

// appendSample appends the labels of a row and its value, and ends the line.
func appendSample(b []byte, by []string, a *measure.Answer, i int, suffix string, v float64) []byte {
	b = appendLabels(append(b, suffix...), by, a, i)
	return append(appendValue(append(b, ' '), v), '\n')
}

// appendLabels appends {field="word",...}; nothing without fields.
func appendLabels(b []byte, by []string, a *measure.Answer, i int) []byte {
	if len(by) == 0 {
		return b
	}
	b = append(b, '{')
	for k, name := range by {
		if k > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, identifier(name)...), `="`...), escaped(a.Label(i, k))...)
		b = append(b, '"')
	}
	return append(b, '}')
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
