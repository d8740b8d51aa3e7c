package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"culprit/measure"
	"culprit/view/web/api"
)

// Limits of one request.
const (
	maxText        = 4096      // bytes of a query's text
	maxLiveQueries = 64        // queries of a live view
	maxCells       = 100_000   // cells of an answer: a day of seconds
	maxValues      = 8_000_000 // rows times cells of an answer before it is shortened: 64 MB
	maxSent        = 2_000_000 // rows times cells of a reply
	maxTop         = 100_000
)

// parameters are the parameters of one URL.
type parameters struct {
	values url.Values
	now    measure.Time
}

// noParameters returns an error if the URL has parameters.
func noParameters(r *http.Request) error {
	_, err := parametersOf(r.URL.RawQuery, 0, nil, nil)
	return err
}

// parametersOf parses the query part of a URL. Each name must be one of known or many, and only
// those of many may be repeated.
func parametersOf(raw string, now measure.Time, known, many []string) (*parameters, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, badRequest("the query of the address can't be read: %v", err)
	}
	for name, given := range values {
		if !slices.Contains(known, name) && !slices.Contains(many, name) {
			f := badRequest("there is no parameter %q here", name)
			if near := measure.Nearest(name, slices.Concat(known, many)); near != "" {
				f.Hint = "did you mean " + near + "?"
			} else {
				f.Hint = "there are " + strings.Join(slices.Concat(known, many), ", ")
			}
			return nil, f
		}
		if len(given) > 1 && !slices.Contains(many, name) {
			return nil, badRequest("parameter %s is given %d times", name, len(given))
		}
	}
	return &parameters{values: values, now: now}, nil
}

func (p *parameters) text(name string) string { return p.values.Get(name) }

// time returns a time; otherwise if it is not given.
func (p *parameters) time(name string, otherwise measure.Time) (measure.Time, error) {
	text := p.text(name)
	if text == "" {
		return otherwise, nil
	}
	t, err := parseTime(text, p.now)
	if err != nil {
		return 0, badRequest("%s: %v", name, err)
	}
	return t, nil
}

// over returns the time range of from and to. The default of from is span before to.
func (p *parameters) over(span measure.Span) (measure.Interval, error) {
	to, err := p.time("to", p.now)
	if err != nil {
		return measure.Interval{}, err
	}
	from, err := p.time("from", to.Add(-span))
	if err != nil {
		return measure.Interval{}, err
	}
	if from >= to {
		return measure.Interval{}, badRequest("from %s is not before to %s", from, to)
	}
	return measure.Interval{Start: from, End: to}, nil
}

// count returns a whole number from 1 to limit; 0 if it is not given.
func (p *parameters) count(name string, limit int) (int, error) {
	text := p.text(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > limit {
		return 0, badRequest("%s: %q is not a whole number from 1 to %d", name, text, limit)
	}
	return n, nil
}

// span returns a duration; otherwise if it is not given.
func (p *parameters) span(name string, otherwise measure.Span) (measure.Span, error) {
	text := p.text(name)
	if text == "" {
		return otherwise, nil
	}
	s, err := parseSpan(text)
	if err != nil {
		return 0, badRequest("%s: %v", name, err)
	}
	return s, nil
}

// Bounds of times in requests. Sums of them don't overflow.
const (
	firstTime = measure.Time(0)
	lastTime  = measure.Time(1 << 62) // in the year 2116
	maxSpan   = measure.Span(1 << 60) // 36 years
)

// parseTime parses milliseconds since the epoch, RFC 3339, "now", or a time before or after now:
// "-10m", "-1.5h", "-7d".
func parseTime(text string, now measure.Time) (measure.Time, error) {
	if text == "now" {
		return now, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	switch {
	case err == nil && t.Unix() >= 0 && t.Unix() < int64(lastTime/1e9):
		return measure.Time(t.UnixNano()), nil
	case err == nil:
		return 0, fmt.Errorf("%q is out of range", text)
	}
	if ns, ok := api.ParseMillis(text); ok && ns >= 0 {
		if measure.Time(ns) > lastTime {
			return 0, fmt.Errorf("%q is out of range", text)
		}
		return measure.Time(ns), nil
	}
	if text != "" && (text[0] == '-' || text[0] == '+') {
		if span, err := parseUnits(text[1:]); err == nil {
			if text[0] == '-' {
				span = -span
			}
			return min(max(now.Add(span), firstTime), lastTime), nil
		}
	}
	return 0, fmt.Errorf("%q is not a time (milliseconds since 1970, RFC 3339, now, or -10m)", text)
}

// parseSpan parses milliseconds, or a number with a unit: "10s", "1m", "1d". The result is at least
// a millisecond.
func parseSpan(text string) (measure.Span, error) {
	if ns, ok := api.ParseMillis(text); ok {
		if ns < int64(measure.Millisecond) || ns > int64(maxSpan) {
			return 0, fmt.Errorf("%q is out of range: 1 ms to 36 years", text)
		}
		return measure.Span(ns), nil
	}
	s, err := parseUnits(text)
	if err != nil || s < measure.Millisecond {
		return 0, fmt.Errorf("%q is not a duration (milliseconds, or 10s, 1m, 1h, 1d)", text)
	}
	return s, nil
}

// parseUnits parses a number with a unit of time, as time.ParseDuration or in days (d) or weeks
// (w). It must not be negative.
func parseUnits(text string) (measure.Span, error) {
	if n := len(text); n > 0 && (text[n-1] == 'd' || text[n-1] == 'w') {
		days, err := strconv.ParseFloat(text[:n-1], 64)
		if err != nil {
			return 0, err
		}
		if text[n-1] == 'w' {
			days *= 7
		}
		if !(days >= 0 && days < 13000) {
			return 0, fmt.Errorf("%q is out of range", text)
		}
		return measure.Span(days * 24 * 3600 * 1e9), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, err
	}
	if d < 0 || measure.Span(d) > maxSpan {
		return 0, fmt.Errorf("%q is out of range", text)
	}
	return measure.Span(d), nil
}

// steps are the cell lengths that columns=N chooses from. They are round on an axis, and multiples
// of the rollups' steps.
//
// table: the steps of a graph
var steps = []measure.Span{
	measure.Second, 2 * measure.Second, 5 * measure.Second,
	10 * measure.Second, 15 * measure.Second, 30 * measure.Second,
	measure.Minute, 2 * measure.Minute, 5 * measure.Minute,
	10 * measure.Minute, 15 * measure.Minute, 30 * measure.Minute,
	60 * measure.Minute, 120 * measure.Minute, 180 * measure.Minute,
	360 * measure.Minute, 720 * measure.Minute, 1440 * measure.Minute,
}

// stepFor returns the smallest step of at least least with at most n cells in a time range. Beyond
// the last of steps it returns whole days.
func stepFor(over measure.Interval, n int, least measure.Span) measure.Span {
	for _, s := range steps {
		if s >= least && cellsOf(over, s) <= n {
			return s
		}
	}
	day := steps[len(steps)-1]
	days := max(1, over.Span()/day/measure.Span(n))
	for cellsOf(over, days*day) > max(n, 2) {
		days++
	}
	return days * day
}

// cellsOf returns how many cells of a step a time range touches.
func cellsOf(over measure.Interval, step measure.Span) int {
	g := grid(over, step)
	return int(g.Span() / step)
}

// grid returns a time range widened to multiples of the step.
func grid(over measure.Interval, step measure.Span) measure.Interval {
	s := measure.Time(step)
	start := over.Start - over.Start%s
	end := over.End
	if over.End%s != 0 {
		end += s - over.End%s
	}
	return measure.Interval{Start: start, End: end}
}
