package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"culprit/fleet"
	"culprit/measure"

	"github.com/prometheus/common/model"
)

const (
	// findingMetric has a series per finding of the newest diagnosis of a host.
	findingMetric = "culprit_finding"
	// knownTime is the time in which a host that is silent now has reported.
	knownTime = 24 * 60 * measure.Minute
	// minWindow is the shortest time over which rates are computed: a rate needs two samples, the
	// newest of which may be MaxAge old.
	minWindow = 2 * measure.Minute
	// concurrentQueries is the number of queries that run at the same time.
	concurrentQueries = 4
	// maxFindings bounds the findings of all hosts.
	maxFindings = 10_000
)

// expressions returns the PromQL of each quantity of package fleet: one series per host. hosts is a
// matcher, "" for all; label the label with the host's name.
func expressions(label, hosts string, window measure.Span) map[string]string {
	by := "by (" + label + ")"
	metric := func(name string, matchers ...string) string {
		all := slices.DeleteFunc(append(matchers, hosts), isEmpty)
		return name + "{" + strings.Join(all, ",") + "}"
	}
	rate := func(fold, name string, matchers ...string) string {
		return fmt.Sprintf("%s %s (rate(%s[%ds]))", fold, by, metric(name, matchers...),
			window/measure.Second)
	}
	memory := func(kind string) string {
		return "max " + by + " (" + metric("culprit_memory_size_bytes", `kind="`+kind+`"`) + ")"
	}
	const bytes = "culprit_net_device_bytes_total"
	pressure := func(resource string) string {
		return rate("max", "culprit_pressure_time_seconds_total", `resource="`+resource+`"`,
			`scope="some"`)
	}
	const cpu = "culprit_cpu_time_seconds_total"
	return map[string]string{
		// Of all modes and not of the number of CPUs: in a window of which samples cover a part, as
		// after a start, both rates are too low, and idle time that is missing is not CPU in use.
		// A host that was never idle since its server started sends no idle time.
		"cpu": "1 - (" + rate("sum", cpu, `mode=~"idle|iowait"`) + " or 0 * " + rate("sum", cpu) +
			") / " + rate("sum", cpu),
		"memory":          "1 - " + memory("available") + " / " + memory("total"),
		"disk":            rate("max", "culprit_disk_busy_seconds_total"),
		"rx":              rate("max", bytes, `direction="rx"`, `device!="lo"`),
		"tx":              rate("max", bytes, `direction="tx"`, `device!="lo"`),
		"drops":           rate("sum", "culprit_net_device_drops_total"),
		"pressure_cpu":    pressure("cpu"),
		"pressure_memory": pressure("memory"),
		"pressure_io":     pressure("io"),
		"retransmits": rate("sum", "culprit_net_protocol_events_total", `protocol="Tcp"`,
			`counter="RetransSegs"`),
	}
}

// Overview returns all hosts that reported within a day before a time, with the means of a span
// before it. A span below two minutes is two minutes. The error is that of the engine.
func (c *Client) Overview(
	ctx context.Context, at measure.Time, span measure.Span,
) (*fleet.Overview, error) {
	span = max(span, minWindow)
	var (
		known    map[string]map[string]string // external labels of hosts
		beats    model.Vector
		findings model.Vector
	)
	exprs := expressions(c.label, "", span)
	quantities := fleet.Quantities()
	values := make([]model.Vector, len(quantities))
	tasks := []func() error{
		func() (err error) { known, err = c.known(ctx, at.Add(-knownTime), at); return err },
		func() (err error) {
			beats, err = c.vector(ctx, "timestamp("+heartbeat+")", at)
			return err
		},
		func() (err error) { findings, err = c.vector(ctx, findingMetric, at); return err },
	}
	for k, q := range quantities {
		tasks = append(tasks, func() (err error) {
			values[k], err = c.vector(ctx, exprs[q.ID], at)
			return err
		})
	}
	if err := together(tasks); err != nil {
		return nil, err
	}
	o := &fleet.Overview{At: at, Over: span, Notes: c.Trouble()}
	index := map[string]int{}
	host := func(m model.Metric) *fleet.Host {
		i, ok := index[string(m[model.LabelName(c.label)])]
		if !ok {
			return nil
		}
		return &o.Hosts[i]
	}
	for i, n := range slices.Sorted(maps.Keys(known)) {
		index[n] = i
		h := fleet.Host{Name: n, Labels: known[n], Values: make([]float64, len(quantities))}
		for k := range h.Values {
			h.Values[k] = measure.NaN
		}
		o.Hosts = append(o.Hosts, h)
	}
	for _, s := range beats {
		if h := host(s.Metric); h != nil {
			h.Newest = measure.Time(float64(s.Value) * 1e9)
			h.Reports = at.Sub(h.Newest) <= MaxAge
			h.Labels = c.external(s.Metric)
		}
	}
	for k, v := range values {
		for _, s := range v {
			if h := host(s.Metric); h != nil && isNumber(float64(s.Value)) {
				h.Values[k] = float64(s.Value)
			}
		}
		for i := range o.Hosts {
			h := &o.Hosts[i]
			// Counters that never moved are not sent. Without a rate of CPU time, which always
			// moves, nothing is known.
			if cpu := h.Values[0]; cpu == cpu && h.Values[k] != h.Values[k] && quantities[k].Zero {
				h.Values[k] = 0
			}
		}
	}
	if len(findings) > maxFindings {
		o.Notes = append(o.Notes, fmt.Sprintf("only %d of %d findings are shown", maxFindings,
			len(findings)))
		findings = findings[:maxFindings]
	}
	for _, s := range findings {
		if h := host(s.Metric); h != nil {
			h.Findings = append(h.Findings, findingOf(s.Metric, float64(s.Value)))
		}
	}
	o.SortFindings()
	return o, nil
}

// known returns the hosts with samples in a time, with their external labels.
func (c *Client) known(
	ctx context.Context, from, to measure.Time,
) (map[string]map[string]string, error) {
	sets, _, err := c.api.Series(ctx, []string{heartbeat}, from.AsTime(), to.AsTime())
	if err != nil {
		return nil, c.failed(err)
	}
	out := map[string]map[string]string{}
	for _, set := range sets {
		if name := string(set[model.LabelName(c.label)]); name != "" {
			out[name] = c.external(model.Metric(set))
		}
	}
	if len(out) > maxHosts {
		return nil, fmt.Errorf("engine %s: %d hosts are more than %d", c.host, len(out), maxHosts)
	}
	return out, nil
}

// findingOf reads a series of findingMetric.
func findingOf(labels model.Metric, confidence float64) fleet.Finding {
	text := func(name model.LabelName) string { return measure.Clean(string(labels[name])) }
	return fleet.Finding{
		Rule: text("rule"), Kind: text("kind"), Culprit: text("culprit"),
		Severity: text("severity"), Confidence: confidence,
	}
}

// external returns the labels of a heartbeat that are neither its own nor the host's name.
func (c *Client) external(m model.Metric) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		switch k {
		case model.MetricNameLabel, "window", "instance", "job", model.LabelName(c.label):
		default:
			out[string(k)] = string(v)
		}
	}
	return out
}

// together runs tasks, a few at a time, and returns the first error in their order.
func together(tasks []func() error) error {
	errs := make([]error, len(tasks))
	slots := make(chan struct{}, concurrentQueries)
	var running sync.WaitGroup
	for i, task := range tasks {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = task()
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// The bounds of the hosts and the points of Curves.
const maxCurveHosts, maxCurvePoints = 100, 300

// Curves returns the values of hosts at points steps up to a time. The error is that of the engine,
// or ErrTooLarge.
func (c *Client) Curves(
	ctx context.Context, hosts []string, over measure.Interval, points int,
) (*fleet.Curves, error) {
	if len(hosts) > maxCurveHosts || points < 2 || points > maxCurvePoints {
		return nil, fmt.Errorf("%d hosts and %d points: at most %d and from 2 to %d: %w",
			len(hosts), points, maxCurveHosts, maxCurvePoints, measure.ErrTooLarge)
	}
	const whole = measure.Second
	step := max(over.Span()/measure.Span(points)/whole*whole, whole)
	end := floor(over.End, step)
	over = measure.Interval{Start: end.Add(-step * measure.Span(points-1)), End: end}
	exprs := expressions(c.label, matcher(c.label, "=~", anyOf(hosts)), max(step, minWindow))
	quantities := fleet.Quantities()
	out := &fleet.Curves{Start: over.Start, Step: step, Values: make([][][]float64, len(hosts))}
	for i := range hosts {
		out.Values[i] = make([][]float64, len(quantities))
		for k := range quantities {
			out.Values[i][k] = make([]float64, points)
			for p := range points {
				out.Values[i][k][p] = measure.NaN
			}
		}
	}
	if len(hosts) == 0 {
		return out, nil
	}
	tasks := make([]func() error, len(quantities))
	for k, q := range quantities {
		tasks[k] = func() error {
			found, _, err := c.steps(ctx, exprs[q.ID], over, step)
			for _, s := range found {
				i := slices.Index(hosts, string(s.Metric[model.LabelName(c.label)]))
				if i < 0 {
					continue
				}
				for _, v := range s.Values {
					p := int(timeOf(v).Sub(over.Start) / step)
					if p >= 0 && p < points && isNumber(float64(v.Value)) {
						out.Values[i][k][p] = float64(v.Value)
					}
				}
			}
			return err
		}
	}
	return out, together(tasks)
}
