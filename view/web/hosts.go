package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"culprit/fleet"
	"culprit/measure"
	"culprit/view"
	"culprit/view/web/api"
)

// Fleet is the hosts of an engine. It is safe for concurrent use.
type Fleet interface {
	// Overview returns the hosts at a time, with the means of a span before it.
	Overview(ctx context.Context, at measure.Time, span measure.Span) (*fleet.Overview, error)
	// Curves returns the values of hosts at points steps of a time.
	Curves(
		ctx context.Context, hosts []string, over measure.Interval, points int,
	) (*fleet.Curves, error)
	// AskHost answers a query about one host. The error is ErrUnsupported if servers do not send
	// the statistic or a field, ErrUnclear for an unknown host, or that of the engine.
	AskHost(ctx context.Context, host string, q measure.Query) (*measure.Answer, error)
}

const (
	// hostsFor is how long an overview of now serves all viewers: an engine has new samples every
	// 15 s.
	hostsFor = 5 * time.Second
	// maxCurveHosts and maxCurvePoints bound the curves of one request.
	maxCurveHosts, maxCurvePoints = 60, 120
	// maxHostSpan bounds the time over which values are means.
	maxHostSpan = 60 * measure.Minute
)

// hosts serves the hosts of an engine.
type hosts struct {
	*core

	mu     sync.Mutex // is held while the engine is asked, so that viewers share the answer
	newest []byte     // the reply of the newest request of now
	span   measure.Span
	at     time.Time // when it was made
}

// errNoEngine is the error of a server without an engine.
func errNoEngine() error {
	return notFound("this server reads no engine",
		"start it with --engine http://prometheus:9090")
}

// engineFault returns the error of an engine as one of a server behind this one.
func engineFault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &fault{status: http.StatusBadGateway, Code: "engine", Message: err.Error()}
}

// list replies with all hosts, ordered as fleet.Overview.Order does.
func (s *hosts) list(w http.ResponseWriter, r *http.Request) error {
	p, err := parametersOf(r.URL.RawQuery, s.now(), []string{"at", "span"}, nil)
	if err != nil {
		return err
	}
	span, err := p.span("span", 2*measure.Minute)
	if err != nil {
		return err
	}
	if span > maxHostSpan {
		return badRequest("span: at most %v", maxHostSpan)
	}
	at, err := p.time("at", 0)
	switch {
	case err != nil:
		return err
	case s.Fleet == nil:
		return errNoEngine()
	}
	ctx, release, err := s.acquire(r.Context())
	if err != nil {
		return err
	}
	defer release()
	if at != 0 {
		b, err := s.overview(ctx, at, span)
		if err != nil {
			return err
		}
		return s.sendJSON(w, r, b)
	}
	b, err := s.present(ctx, span)
	if err != nil {
		return err
	}
	return s.sendJSON(w, r, slices.Clone(b))
}

// present returns the reply for now, which is at most hostsFor old.
func (s *hosts) present(ctx context.Context, span measure.Span) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.span == span && time.Since(s.at) < hostsFor {
		return s.newest, nil
	}
	b, err := s.overview(ctx, measure.Time(time.Now().UnixNano()), span)
	if err != nil {
		return nil, err
	}
	s.newest, s.span, s.at = b, span, time.Now()
	return b, nil
}

// overview returns the hosts as JSON.
func (s *hosts) overview(
	ctx context.Context, at measure.Time, span measure.Span,
) ([]byte, error) {
	o, err := s.Fleet.Overview(ctx, at, span)
	if err != nil {
		return nil, engineFault(ctx, err)
	}
	outliers := o.Outliers()
	apart := map[int][]fleet.Outlier{}
	for _, n := range outliers {
		apart[n.Host] = append(apart[n.Host], n)
	}
	b := api.AppendMillis([]byte(`{"at_ms":`), int64(o.At))
	b = api.AppendMillis(append(b, `,"over_ms":`...), int64(o.Over))
	b = strconv.AppendInt(append(b, `,"reporting":`...), int64(o.Reporting()), 10)
	b = appendStrings(append(b, `,"notes":`...), o.Notes)
	b = append(b, `,"quantities":[`...)
	for i, q := range fleet.Quantities() {
		b = comma(b, i)
		b = view.AppendString(append(b, `{"id":`...), q.ID)
		b = view.AppendString(append(b, `,"title":`...), q.Title)
		b = view.AppendString(append(b, `,"help":`...), q.Verb)
		b = append(view.AppendString(append(b, `,"unit":`...), string(q.Unit)), '}')
	}
	b = append(b, `],"hosts":[`...)
	for i, at := range o.Order(outliers) {
		b = s.appendHost(comma(b, i), o, at, apart[at])
	}
	return append(b, "]}"...), nil
}

// ask answers a query about a host. What the engine lacks is an error with the address of the
// host's server, if it is known.
func (s *hosts) ask(ctx context.Context, host string, q measure.Query) (*measure.Answer, error) {
	if s.Fleet == nil {
		return nil, errNoEngine()
	}
	a, err := s.Fleet.AskHost(ctx, host, q)
	switch {
	case err == nil:
		return a, nil
	case errors.Is(err, measure.ErrUnsupported):
		hint := "the server of the host keeps it"
		if address := s.HostAddress.Of(&fleet.Host{Name: host}); address != "" {
			hint = "open " + address
		}
		return nil, &fault{
			status: http.StatusNotImplemented, Code: "unsupported", Message: err.Error(),
			Hint: hint,
		}
	case errors.Is(err, measure.ErrUnclear), errors.Is(err, measure.ErrTooLarge):
		return nil, err
	}
	return nil, engineFault(ctx, err)
}

// comma appends a comma before all elements but the first.
func comma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

// appendHost appends one host of an overview.
func (s *hosts) appendHost(b []byte, o *fleet.Overview, at int, apart []fleet.Outlier) []byte {
	h := &o.Hosts[at]
	b = view.AppendString(append(b, `{"name":`...), h.Name)
	b = view.AppendString(append(b, `,"url":`...), s.HostAddress.Of(h))
	b = api.AppendMillis(append(b, `,"newest_ms":`...), int64(h.Newest))
	b = strconv.AppendBool(append(b, `,"reports":`...), h.Reports)
	b = append(b, `,"labels":{`...)
	names := make([]string, 0, len(h.Labels))
	for name := range h.Labels {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		b = append(view.AppendString(comma(b, i), name), ':')
		b = view.AppendString(b, h.Labels[name])
	}
	b = append(b, `},"values":[`...)
	for i, v := range h.Values {
		b = view.AppendNumber(comma(b, i), v)
	}
	b = append(b, `],"findings":[`...)
	for i, f := range h.Findings {
		b = view.AppendString(append(comma(b, i), `{"rule":`...), f.Rule)
		b = view.AppendString(append(b, `,"kind":`...), f.Kind)
		b = view.AppendString(append(b, `,"culprit":`...), f.Culprit)
		b = view.AppendString(append(b, `,"severity":`...), f.Severity)
		b = append(view.AppendNumber(append(b, `,"confidence":`...), f.Confidence), '}')
	}
	b = append(b, `],"apart":[`...)
	for i, n := range apart {
		b = strconv.AppendInt(append(comma(b, i), `{"quantity":`...), int64(n.Quantity), 10)
		b = view.AppendNumber(append(b, `,"score":`...), n.Score)
		b = view.AppendNumber(append(b, `,"median":`...), n.Median)
		b = append(view.AppendString(append(b, `,"text":`...), o.Describe(n)), '}')
	}
	return append(b, "]}"...)
}

// curves replies with the values of some hosts over time.
func (s *hosts) curves(w http.ResponseWriter, r *http.Request) error {
	p, err := parametersOf(
		r.URL.RawQuery, s.now(), []string{"from", "to", "points"}, []string{"host"},
	)
	if err != nil {
		return err
	}
	over, err := p.over(10 * measure.Minute)
	if err != nil {
		return err
	}
	points, err := p.count("points", maxCurvePoints)
	if err != nil {
		return err
	}
	names := p.values["host"]
	switch {
	case points == 1 || len(names) > maxCurveHosts:
		return badRequest("give up to %d hosts and at least 2 points", maxCurveHosts)
	case slices.ContainsFunc(names, func(n string) bool { return len(n) > maxText }):
		return badRequest("the name of a host is too long")
	case s.Fleet == nil:
		return errNoEngine()
	case points == 0:
		points = 40
	}
	ctx, release, err := s.acquire(r.Context())
	if err != nil {
		return err
	}
	defer release()
	c, err := s.Fleet.Curves(ctx, names, over, points)
	if err != nil {
		return engineFault(ctx, err)
	}
	b := api.AppendMillis([]byte(`{"start_ms":`), int64(c.Start))
	b = api.AppendMillis(append(b, `,"step_ms":`...), int64(c.Step))
	b = append(b, `,"values":[`...)
	for i, host := range c.Values {
		b = append(comma(b, i), '[')
		for k, values := range host {
			b = append(comma(b, k), '[')
			for n, v := range values {
				b = view.AppendNumber(comma(b, n), v)
			}
			b = append(b, ']')
		}
		b = append(b, ']')
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}
