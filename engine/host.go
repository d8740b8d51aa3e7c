package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"culprit/measure"
)

const (
	// heartbeat is a metric that each server sends all the time, with few series: the load average.
	heartbeat = `culprit_sched_load{window="1m"}`
	// history is how far back an engine is searched for a host's samples, in steps of historyStep.
	history, historyStep = 30 * 24 * 60 * measure.Minute, 15 * measure.Minute
	// maxHosts bounds the number of hosts.
	maxHosts = 20_000
	// clockApart is the difference of clocks from which on there is a note.
	clockApart = 2 * measure.Second
)

// ErrNoHost is the error of a host without samples in an engine.
var ErrNoHost = errors.New("no such host in the engine")

// beat returns the selector of the heartbeat of hosts.
func beat(hosts string) string { return strings.TrimSuffix(heartbeat, "}") + "," + hosts + "}" }

// now returns the present time by our clock.
func now() measure.Time { return measure.Time(time.Now().UnixNano()) }

// Open returns the recording of a host; stats are the statistics that may be asked for. Name is the
// value of the host label, or it without a port. The error is ErrNoHost with the nearest names, or
// that of the engine. The caller closes the client, not the host.
func (c *Client) Open(ctx context.Context, name string, stats []measure.Stat) (*Host, error) {
	names, err := c.names(ctx, now().Add(-history), now())
	if err != nil {
		return nil, err
	}
	if name, err = c.choose(name, names); err != nil {
		return nil, err
	}
	h := &Host{client: c, name: name, stats: map[measure.StatID]*measure.Stat{}}
	for i := range stats {
		h.stats[stats[i].ID] = &stats[i]
	}
	if h.over, err = c.held(ctx, name); err != nil {
		return nil, err
	}
	recent, _, err := c.matrix(ctx, fmt.Sprintf("%s[%ds]", beat(c.only(name)),
		2*lead/measure.Second), h.over.End)
	h.step = intervalOf(recent, defaultInterval)
	return h, err
}

// AskHost answers a query about a host. stats are the statistics that may be asked for. The error
// is ErrUnclear with the nearest names for a host without samples within 30 days, or that of
// Host.Ask.
func (c *Client) AskHost(
	ctx context.Context, name string, stats []measure.Stat, q measure.Query,
) (*measure.Answer, error) {
	h := &Host{client: c, name: name, stats: map[measure.StatID]*measure.Stat{}}
	for i := range stats {
		if stats[i].ID == q.Stat {
			h.stats[q.Stat] = &stats[i]
		}
	}
	a, err := h.Ask(ctx, q)
	if err != nil || slices.ContainsFunc(a.Elapsed, func(e measure.Span) bool { return e > 0 }) {
		return a, err
	}
	// Nothing was measured: the host may be one with a port, or none.
	names, err := c.names(ctx, now().Add(-history), now())
	if err != nil {
		return nil, err
	}
	full, err := c.choose(name, names)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", measure.ErrUnclear, err)
	case full == name:
		return a, nil
	}
	h.name = full
	return h.Ask(ctx, q)
}

// names lists the hosts with samples in a time, sorted.
func (c *Client) names(ctx context.Context, from, to measure.Time) ([]string, error) {
	all, _, err := c.api.LabelValues(
		ctx, c.label, []string{heartbeat}, from.AsTime(), to.AsTime(),
	)
	if err != nil {
		return nil, c.failed(err)
	}
	if len(all) > maxHosts {
		return nil, fmt.Errorf("engine %s: %d hosts are more than %d", c.host, len(all), maxHosts)
	}
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = string(v)
	}
	slices.Sort(out)
	return out, nil
}

// choose returns the value of the host label that name means: itself, or with a port.
func (c *Client) choose(name string, names []string) (string, error) {
	if slices.Contains(names, name) {
		return name, nil
	}
	var with []string
	for _, n := range names {
		if host, _, ok := cutPort(n); ok && host == name {
			with = append(with, n)
		}
	}
	switch {
	case len(with) == 1:
		return with[0], nil
	case len(with) > 1:
		return "", fmt.Errorf("engine %s has several servers of host %s: give one of %s",
			c.host, name, strings.Join(shorten(with), ", "))
	case len(names) == 0:
		return "", fmt.Errorf("engine %s has no samples of culprit with the label %s in the last "+
			"30 days: is `culprit serve --remote-write` sending to it? %w", c.host, c.label,
			ErrNoHost)
	}
	hint := ""
	if near := measure.Nearest(name, names); near != "" {
		hint = "; did you mean " + near + "?"
	} else {
		hint = "; there are " + strings.Join(shorten(names), ", ")
	}
	return "", fmt.Errorf("host %q: %w%s", name, ErrNoHost, hint)
}

// cutPort splits host:port; ok is false without a decimal port.
func cutPort(s string) (host, port string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || i == len(s)-1 || strings.Trim(s[i+1:], "0123456789") != "" {
		return s, "", false
	}
	return strings.Trim(s[:i], "[]"), s[i+1:], true
}

// shorten returns the first names and the number of the others.
func shorten(names []string) []string {
	const shown = 12
	out := make([]string, 0, shown+1)
	for i, n := range names {
		if i == shown {
			return append(out, fmt.Sprintf("and %d more", len(names)-shown))
		}
		out = append(out, measure.Clean(n))
	}
	return out
}

// held returns the time with samples of a host: its start to historyStep, its end to the newest
// sample. It is zero if there are none.
func (c *Client) held(ctx context.Context, name string) (measure.Interval, error) {
	beats := beat(c.only(name))
	end := now()
	over := measure.Interval{Start: end.Add(-history), End: end}
	found, _, err := c.steps(ctx, fmt.Sprintf("count(last_over_time(%s[%ds]))", beats,
		historyStep/measure.Second), over, historyStep)
	if err != nil {
		return over, err
	}
	if len(found) == 0 || len(found[0].Values) == 0 {
		return measure.Interval{}, nil
	}
	points := found[0].Values
	first, last := timeOf(points[0]), timeOf(points[len(points)-1])
	newest, err := c.vector(ctx, fmt.Sprintf("max(max_over_time(timestamp(%s)[%ds:5s]))", beats,
		(historyStep+measure.Minute)/measure.Second), min(last.Add(historyStep), end))
	if err != nil {
		return over, err
	}
	if len(newest) > 0 {
		last = measure.Time(float64(newest[0].Value) * 1e9)
	}
	return measure.Interval{Start: first.Add(-historyStep), End: last}, nil
}

// Name returns the value of the host label.
func (h *Host) Name() string { return h.name }

// Held returns the time with samples when the host was opened; zero if there are none. Its start is
// known to a quarter of an hour.
func (h *Host) Held() measure.Interval { return h.over }

// Step returns the time between two samples.
func (h *Host) Step() measure.Span { return h.step }

// Stats lists the statistics that may be asked for.
func (h *Host) Stats() []measure.Stat {
	out := make([]measure.Stat, 0, len(h.stats))
	for _, st := range h.stats {
		out = append(out, *st)
	}
	slices.SortFunc(out, func(a, b measure.Stat) int {
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return out
}

// Trouble returns what may mislead about the engine's times: a clock that differs from ours.
func (c *Client) Trouble() []string {
	apart := c.ClockAhead()
	if max(apart, -apart) < clockApart {
		return nil
	}
	side := "ahead of"
	if apart < 0 {
		side = "behind"
	}
	return []string{fmt.Sprintf("the clock of engine %s is %v %s that of this machine: times are "+
		"those of the hosts that sent the samples", c.host,
		max(apart, -apart).AsDuration().Round(time.Second), side)}
}

// MaxAge is the maximum age of the newest sample of a host that is sending: its interval of up to a
// minute, and the time until the sample is sent.
const MaxAge = 75 * measure.Second
