package prom

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"culprit/measure"
	"culprit/worker"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
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

	// Alerts is what rules/ and alerts/ list; nil: nothing. Set it before the first request.
	Alerts Alerts
	// Workers evaluate all queries; nil: this process does. Set it before the first request.
	Workers   *worker.Pool
	described described
	fetcher   func(now measure.Time) fetcher // of a worker; nil: an asker of reader
	known     []*metric                      // of a worker; nil: those of datasets
	unbounded bool                           // the bounds of limit.go are off
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
	e := a.handler(path)
	switch {
	case e.answer == nil:
		err := fmt.Errorf("no such endpoint: %s", path)
		fail(w, &failure{http.StatusNotFound, "not_found", err})
		return
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
	case r.Method == http.MethodPost && e.posts:
	default:
		w.Header().Set("Allow", map[bool]string{true: "GET, POST", false: "GET"}[e.posts])
		err := fmt.Errorf("method %s is not allowed", r.Method)
		fail(w, &failure{http.StatusMethodNotAllowed, "bad_data", err})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	if err := r.ParseForm(); err != nil {
		fail(w, bad(fmt.Errorf("error parsing form values: %w", err)))
		return
	}
	if a.Workers != nil && !e.fixed {
		a.forward(w, r, path)
		return
	}
	a.respond(w, r, e.answer)
}

// respond answers a request whose form was parsed.
func (a *API) respond(
	w http.ResponseWriter, r *http.Request, h func(*http.Request) (answer, *failure),
) {
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
	fixed  bool // it evaluates nothing
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
		"query":            {answer: a.query, posts: true},
		"query_range":      {answer: a.queryRange, posts: true},
		"format_query":     {answer: a.formatQuery, posts: true},
		"series":           {answer: a.series, posts: true},
		"labels":           {answer: a.labelNames, posts: true},
		"metadata":         {answer: a.metadata, fixed: true},
		"query_exemplars":  {answer: a.exemplars, posts: true},
		"rules":            {answer: a.rules, fixed: true},
		"alerts":           {answer: a.activeAlerts, fixed: true},
		"status/buildinfo": {answer: fixed(build), fixed: true},
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

// handler returns the endpoint of a path; without an answer for an unknown path.
func (a *API) handler(path string) endpoint {
	if name, ok := strings.CutPrefix(path, "label/"); ok {
		if name, ok = strings.CutSuffix(name, "/values"); ok {
			return endpoint{answer: func(r *http.Request) (answer, *failure) {
				return a.labelValues(r, name)
			}}
		}
	}
	return a.endpoints()[path]
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
	text := r.FormValue("query")
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	select {
	case a.running <- struct{}{}:
		defer func() { <-a.running }()
	case <-ctx.Done():
		cancel()
		return answer{}, failed(fmt.Errorf("query waited for its turn: %w", ctx.Err()))
	}
	e, err := a.parse(text)
	if err != nil {
		cancel()
		return answer{}, badParameter("query", err)
	}
	if !a.unbounded {
		if ctx, err = withLabelBudget(ctx, e); err != nil {
			cancel()
			return answer{}, failed(err)
		}
	}
	q, err := prepare(ctx, text, promql.NewPrometheusQueryOpts(false, max(back, 0)))
	if err != nil {
		cancel()
		return answer{}, badParameter("query", err)
	}
	closed := func() { q.Close(); cancel() }
	if s, ok := q.Statement().(*parser.EvalStmt); ok && innerSteps(s) > maxInner &&
		!a.unbounded {
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

func (a *API) formatQuery(r *http.Request) (answer, *failure) {
	text := r.FormValue("query")
	e, err := a.parse(text)
	if err != nil {
		return answer{}, badParameter("query", err)
	}
	if a.unbounded {
		return answer{data: e.Pretty(0)}, nil
	}
	formatted, err := pretty(e, text)
	if err != nil {
		return answer{}, badParameter("query", err)
	}
	return answer{data: formatted}, nil
}

// exemplars checks the query and returns an empty list.
func (a *API) exemplars(r *http.Request) (answer, *failure) {
	if _, err := a.parse(r.FormValue("query")); err != nil {
		return answer{}, bad(err)
	}
	return answer{data: []any{}}, nil
}
