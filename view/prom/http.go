package prom

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"culprit/measure"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

const (
	// engineVersion is the release of Prometheus whose engine is used. Grafana asks for it to learn
	// what the server supports. A test compares it with go.mod.
	engineVersion = "3.10.0"

	lookback   = 5 * measure.Minute // how far an instant query looks back, as in Prometheus
	timeout    = 30 * time.Second   // of one query
	maxSamples = 20_000_000         // in memory for one query, 8 to 16 bytes each
	maxPoints  = 11000              // of a graph, as in Prometheus
	maxRequest = 1 << 20            // bytes of a form
	maxQuery   = 64 << 10           // bytes of an expression
	maxTokens  = 5000               // outside of {}; the time to parse grows with their square
	maxInner   = 1_000_000          // steps of a subquery, which the engine counts too late
	maxQueries = 4                  // at the same time; more wait
)

// API answers Prometheus's HTTP API from a reader. It is an http.Handler for all paths below
// api/v1/ and a storage.Queryable. It does not check who may ask: the server that mounts it does.
// Safe for several goroutines.
type API struct {
	reader   measure.Reader
	datasets func() []measure.Dataset
	version  string
	now      func() time.Time
	engine   *promql.Engine
	running  chan struct{}
}

// New returns the API of a reader. datasets returns the current datasets; version is culprit's.
func New(r measure.Reader, datasets func() []measure.Dataset, version string) *API {
	return &API{
		reader: r, datasets: datasets, version: version, now: time.Now,
		running: make(chan struct{}, maxQueries),
		engine: promql.NewEngine(promql.EngineOpts{
			MaxSamples: maxSamples, Timeout: timeout, LookbackDelta: lookback.AsDuration(),
			EnableAtModifier: true, EnableNegativeOffset: true,
			NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		}),
	}
}

// failure is an error in Prometheus's form.
type failure struct {
	status int
	kind   string // bad_data, execution, timeout, canceled, internal, not_found
	err    error
}

// bad returns the failure of a request that is invalid.
func bad(err error) *failure { return &failure{http.StatusBadRequest, "bad_data", err} }

func badParameter(name string, err error) *failure {
	return bad(fmt.Errorf("invalid parameter %q: %w", name, err))
}

// failed returns the failure of a valid request, by the kind of its error.
func failed(err error) *failure {
	var canceled promql.ErrQueryCanceled
	var late promql.ErrQueryTimeout
	var broken promql.ErrStorage
	switch {
	case errors.As(err, &late), errors.Is(err, context.DeadlineExceeded):
		return &failure{http.StatusServiceUnavailable, "timeout", err}
	case errors.As(err, &canceled), errors.Is(err, context.Canceled):
		return &failure{499, "canceled", err} // "client closed request", as Prometheus answers
	case errors.As(err, &broken):
		return &failure{http.StatusInternalServerError, "internal", err}
	}
	return &failure{http.StatusUnprocessableEntity, "execution", err}
}

// answer is the result of a request.
type answer struct {
	data     any
	warnings annotations.Annotations
	close    func() // frees data after it was written; may be nil
}

// ServeHTTP implements http.Handler. It ignores the part of the path before api/v1/.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if i := strings.Index(path, "api/v1/"); i >= 0 {
		path = path[i+len("api/v1/"):]
	}
	path = strings.TrimPrefix(path, "/")
	h, posts := a.handler(path)
	switch {
	case h == nil:
		err := fmt.Errorf("no such endpoint: %s", path)
		fail(w, &failure{http.StatusNotFound, "not_found", err})
		return
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
	case r.Method == http.MethodPost && posts:
	default:
		w.Header().Set("Allow", map[bool]string{true: "GET, POST", false: "GET"}[posts])
		err := fmt.Errorf("method %s is not allowed", r.Method)
		fail(w, &failure{http.StatusMethodNotAllowed, "bad_data", err})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	if err := r.ParseForm(); err != nil {
		fail(w, bad(fmt.Errorf("error parsing form values: %w", err)))
		return
	}
	out, f := h(r)
	if out.close != nil {
		defer out.close()
	}
	if f != nil {
		fail(w, f)
		return
	}
	succeed(w, out, r.FormValue("query"))
}

// endpoint is the handler of a path below api/v1/.
type endpoint struct {
	answer func(*http.Request) (answer, *failure)
	posts  bool // it also accepts POST
}

// endpoints returns the handlers by path. Values of a label are missing: their path contains the
// label's name.
func (a *API) endpoints() map[string]endpoint {
	fixed := func(data any) func(*http.Request) (answer, *failure) {
		return func(*http.Request) (answer, *failure) { return answer{data: data}, nil }
	}
	build := map[string]string{
		"version": engineVersion, "revision": a.version, "branch": "culprit",
		"buildUser": "", "buildDate": "", "goVersion": runtime.Version(),
	}
	return map[string]endpoint{
		"query":            {a.query, true},
		"query_range":      {a.queryRange, true},
		"format_query":     {a.formatQuery, true},
		"series":           {a.series, true},
		"labels":           {a.labelNames, true},
		"metadata":         {a.metadata, false},
		"query_exemplars":  {a.exemplars, true},
		"rules":            {fixed(map[string]any{"groups": []any{}}), false},
		"alerts":           {fixed(map[string]any{"alerts": []any{}}), false},
		"status/buildinfo": {fixed(build), false},
	}
}

// Routes returns the methods of each path below api/v1/.
func Routes() map[string][]string {
	out := map[string][]string{"label/{name}/values": {"GET"}}
	for path, e := range new(API).endpoints() {
		out[path] = []string{"GET"}
		if e.posts {
			out[path] = append(out[path], "POST")
		}
	}
	return out
}

// handler returns the handler of a path and whether it accepts POST; nil for an unknown path.
func (a *API) handler(path string) (h func(*http.Request) (answer, *failure), posts bool) {
	if name, ok := strings.CutPrefix(path, "label/"); ok {
		if name, ok = strings.CutSuffix(name, "/values"); ok {
			return func(r *http.Request) (answer, *failure) { return a.labelValues(r, name) }, false
		}
	}
	e := a.endpoints()[path]
	return e.answer, e.posts
}

func (a *API) query(r *http.Request) (answer, *failure) {
	at, err := timeOf(r, "time", a.now())
	if err != nil {
		return answer{}, badParameter("time", err)
	}
	prepare := func(ctx context.Context, text string, o promql.QueryOpts) (promql.Query, error) {
		return a.engine.NewInstantQuery(ctx, a, o, text, at)
	}
	return a.run(r, prepare)
}

func (a *API) queryRange(r *http.Request) (answer, *failure) {
	start, err := parseTime(r.FormValue("start"))
	if err != nil {
		return answer{}, badParameter("start", err)
	}
	end, err := parseTime(r.FormValue("end"))
	if err != nil {
		return answer{}, badParameter("end", err)
	}
	if end.Before(start) {
		return answer{}, badParameter("end",
			errors.New("end timestamp must not be before start time"))
	}
	step, err := parseSpan(r.FormValue("step"))
	if err != nil {
		return answer{}, badParameter("step", err)
	}
	if step < time.Millisecond {
		const text = "zero or negative query resolution step widths are not accepted. " +
			"Try a positive integer"
		return answer{}, badParameter("step", errors.New(text))
	}
	if end.Sub(start)/step > maxPoints {
		const text = "exceeded maximum resolution of 11,000 points per timeseries. " +
			"Try decreasing the query resolution (?step=XX)"
		return answer{}, bad(errors.New(text))
	}
	prepare := func(ctx context.Context, text string, o promql.QueryOpts) (promql.Query, error) {
		return a.engine.NewRangeQuery(ctx, a, o, text, start, end, step)
	}
	return a.run(r, prepare)
}

// prepared makes a query of an expression.
type prepared func(context.Context, string, promql.QueryOpts) (promql.Query, error)

// run executes a query, at most maxQueries at the same time.
func (a *API) run(r *http.Request, prepare prepared) (answer, *failure) {
	limit, err := limitOf(r, "limit")
	if err != nil {
		return answer{}, badParameter("limit", err)
	}
	wait, back := timeout, time.Duration(0)
	if s := r.FormValue("timeout"); s != "" {
		d, err := parseSpan(s)
		if err != nil {
			return answer{}, badParameter("timeout", err)
		}
		wait = min(wait, d)
	}
	if s := r.FormValue("lookback_delta"); s != "" {
		if back, err = parseSpan(s); err != nil {
			return answer{}, bad(fmt.Errorf("error parsing lookback delta duration: %w", err))
		}
	}
	text, err := expressionOf(r, "query")
	if err != nil {
		return answer{}, badParameter("query", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	select {
	case a.running <- struct{}{}:
		defer func() { <-a.running }()
	case <-ctx.Done():
		cancel()
		return answer{}, failed(fmt.Errorf("query waited for its turn: %w", ctx.Err()))
	}
	q, err := prepare(ctx, text, promql.NewPrometheusQueryOpts(false, max(back, 0)))
	if err != nil {
		cancel()
		return answer{}, badParameter("query", err)
	}
	closed := func() { q.Close(); cancel() }
	if s, ok := q.Statement().(*parser.EvalStmt); ok && innerSteps(s) > maxInner {
		return answer{close: closed}, failed(promql.ErrTooManySamples("a subquery"))
	}
	res := q.Exec(ctx)
	if res.Err != nil {
		return answer{close: closed}, failed(res.Err)
	}
	out := answer{data: res.Value, warnings: res.Warnings, close: closed}
	if limit > 0 {
		cut := false
		switch v := res.Value.(type) {
		case promql.Vector:
			cut, out.data = len(v) > limit, v[:min(len(v), limit)]
		case promql.Matrix:
			cut, out.data = len(v) > limit, v[:min(len(v), limit)]
		}
		if cut {
			out.warnings.Add(errTruncated)
		}
	}
	return out, nil
}

// expressionOf returns the expression in a parameter. The error says that it would take too long to
// parse.
func expressionOf(r *http.Request, name string) (string, error) {
	text := r.FormValue(name)
	if len(text) > maxQuery {
		return "", fmt.Errorf("longer than %d bytes", maxQuery)
	}
	tokens, inside := 0, false
	var item parser.Item
	for l := parser.Lex(text); ; {
		l.NextItem(&item)
		switch item.Typ {
		case parser.EOF, parser.ERROR:
			return text, nil
		case parser.LEFT_BRACE, parser.RIGHT_BRACE:
			inside = item.Typ == parser.LEFT_BRACE
		}
		if !inside {
			tokens++
		}
		if tokens > maxTokens {
			return "", fmt.Errorf("more than %d tokens", maxTokens)
		}
	}
}

// innerSteps returns how often the innermost of the subqueries is evaluated.
func innerSteps(s *parser.EvalStmt) (most float64) {
	parser.Inspect(s.Expr, func(n parser.Node, path []parser.Node) error {
		sub, ok := n.(*parser.SubqueryExpr)
		if !ok {
			return nil
		}
		over, step := s.End.Sub(s.Start).Seconds()+sub.Range.Seconds(), sub.Step
		for _, p := range path {
			if outer, ok := p.(*parser.SubqueryExpr); ok {
				over += outer.Range.Seconds()
			}
		}
		if step == 0 {
			step = time.Minute
		}
		most = max(most, over/step.Seconds())
		return nil
	})
	return most
}

var errTruncated = errors.New("results truncated due to limit")

func (a *API) formatQuery(r *http.Request) (answer, *failure) {
	text, err := expressionOf(r, "query")
	if err != nil {
		return answer{}, badParameter("query", err)
	}
	e, err := parser.ParseExpr(text)
	if err != nil {
		return answer{}, badParameter("query", err)
	}
	return answer{data: e.Pretty(0)}, nil
}

// exemplars checks the query and returns an empty list.
func (a *API) exemplars(r *http.Request) (answer, *failure) {
	text, err := expressionOf(r, "query")
	if err != nil {
		return answer{}, badParameter("query", err)
	}
	if _, err := parser.ParseExpr(text); err != nil {
		return answer{}, bad(err)
	}
	return answer{data: []any{}}, nil
}

// selection contains the parameters of the endpoints about series.
type selection struct {
	querier  storage.Querier
	hints    *storage.SelectHints
	matchers [][]*labels.Matcher
	limit    int
}

func (a *API) selection(r *http.Request) (s selection, f *failure) {
	var err error
	if s.limit, err = limitOf(r, "limit"); err != nil {
		return s, badParameter("limit", err)
	}
	start, err := timeOf(r, "start", time.Unix(0, 0))
	if err != nil {
		return s, badParameter("start", err)
	}
	end, err := timeOf(r, "end", a.now())
	if err != nil {
		return s, badParameter("end", err)
	}
	for _, text := range r.Form["match[]"] {
		if len(text) > maxQuery {
			return s, badParameter("match[]", fmt.Errorf("longer than %d bytes", maxQuery))
		}
	}
	if s.matchers, err = parser.ParseMetricSelectors(r.Form["match[]"]); err != nil {
		return s, badParameter("match[]", err)
	}
	for _, set := range s.matchers {
		nonEmpty := func(m *labels.Matcher) bool { return !m.Matches("") }
		if !slices.ContainsFunc(set, nonEmpty) {
			const text = "match[] must contain at least one non-empty matcher"
			return s, badParameter("match[]", errors.New(text))
		}
	}
	s.hints = &storage.SelectHints{Start: start.UnixMilli(), End: end.UnixMilli(), Func: "series"}
	s.querier, err = a.Querier(s.hints.Start, s.hints.End)
	if err != nil {
		return s, failed(err)
	}
	return s, nil
}

func (a *API) series(r *http.Request) (answer, *failure) {
	if len(r.Form["match[]"]) == 0 {
		return answer{}, bad(errors.New("no match[] parameter provided"))
	}
	s, f := a.selection(r)
	if f != nil {
		return answer{}, f
	}
	out, found, seen := answer{}, []labels.Labels{}, map[string]bool{}
	for _, matchers := range s.matchers {
		set := s.querier.Select(r.Context(), true, s.hints, matchers...)
		for set.Next() {
			l := set.At().Labels()
			if text := l.String(); !seen[text] {
				seen[text] = true
				found = append(found, l)
			}
		}
		if err := set.Err(); err != nil {
			return answer{}, failed(err)
		}
		out.warnings.Merge(set.Warnings())
	}
	slices.SortFunc(found, labels.Compare)
	out.data = found
	if s.limit > 0 && len(found) > s.limit {
		out.data = found[:s.limit]
		out.warnings.Add(errTruncated)
	}
	return out, nil
}

// finder returns the names or values that match one selector.
type finder func(storage.Querier, []*labels.Matcher) ([]string, annotations.Annotations, error)

func (a *API) labelNames(r *http.Request) (answer, *failure) {
	find := func(q storage.Querier, matchers []*labels.Matcher,
	) ([]string, annotations.Annotations, error) {
		return q.LabelNames(r.Context(), nil, matchers...)
	}
	return a.texts(r, find)
}

func (a *API) labelValues(r *http.Request, name string) (answer, *failure) {
	if name == "" || valid(name) != name {
		return answer{}, bad(fmt.Errorf("invalid label name: %q", name))
	}
	find := func(q storage.Querier, matchers []*labels.Matcher,
	) ([]string, annotations.Annotations, error) {
		return q.LabelValues(r.Context(), name, nil, matchers...)
	}
	return a.texts(r, find)
}

// texts answers with the union of what find returns for each selector.
func (a *API) texts(r *http.Request, find finder) (answer, *failure) {
	s, f := a.selection(r)
	if f != nil {
		return answer{}, f
	}
	if len(s.matchers) == 0 {
		s.matchers = [][]*labels.Matcher{nil}
	}
	out, all := answer{}, map[string]bool{}
	for _, matchers := range s.matchers {
		found, warnings, err := find(s.querier, matchers)
		if err != nil {
			return answer{}, failed(err)
		}
		out.warnings.Merge(warnings)
		for _, v := range found {
			all[v] = true
		}
	}
	texts := keys(all)
	out.data = texts
	if s.limit > 0 && len(texts) > s.limit {
		out.data = texts[:s.limit]
		out.warnings.Add(errTruncated)
	}
	return out, nil
}

func (a *API) metadata(r *http.Request) (answer, *failure) {
	limit := -1
	if s := r.FormValue("limit"); s != "" {
		var err error
		if limit, err = strconv.Atoi(s); err != nil {
			return answer{}, bad(errors.New("limit must be a number"))
		}
	}
	type facts struct {
		Type string `json:"type"`
		Unit string `json:"unit"`
		Help string `json:"help"`
	}
	out := map[string][]facts{}
	for _, m := range metrics(a.datasets()) {
		if limit >= 0 && len(out) >= limit {
			break
		}
		if name := r.FormValue("metric"); name == "" || name == m.name {
			out[m.name] = []facts{{m.shape.kind(), m.unit, m.help()}}
		}
	}
	return answer{data: out}, nil
}

func limitOf(r *http.Request, name string) (int, error) {
	s := r.FormValue(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err == nil && n < 0 {
		err = errors.New("limit must be non-negative")
	}
	return n, err
}

func timeOf(r *http.Request, name string, otherwise time.Time) (time.Time, error) {
	if s := r.FormValue(name); s != "" {
		return parseTime(s)
	}
	return otherwise, nil
}

// parseTime parses seconds since the epoch or RFC 3339, to the millisecond. Times that the engine
// can't represent become the nearest that it can.
func parseTime(s string) (time.Time, error) {
	const most = 9e15 / 1000 // milliseconds that a float64 holds exactly
	if v, err := strconv.ParseFloat(s, 64); err == nil && v == v {
		v = math.Round(min(max(v, -most), most) * 1000)
		return time.UnixMilli(int64(v)).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

// parseSpan parses seconds, or Prometheus's notation of a duration: 1h30m.
func parseSpan(s string) (time.Duration, error) {
	if v, err := strconv.ParseFloat(s, 64); err == nil && v == v {
		if math.Abs(v) > math.MaxInt64/1e9 {
			const overflow = "cannot parse %q to a valid duration. It overflows int64"
			return 0, fmt.Errorf(overflow, s)
		}
		return time.Duration(v * 1e9), nil
	}
	if d, err := parseUnits(s); err == nil {
		return d, nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
}
