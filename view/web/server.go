package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/web/api"
)

// About is what a server says of the machine and of itself.
type About struct {
	Version string
	Host    string // its name
	Kernel  string // release
	CPUs    int
}

// Server tells over HTTP what a machine records. Make it with New; set the fields before Handler is called, and not afterwards.
type Server struct {
	Machine    Machine
	About      About
	Token      string                                            // what a stranger must know. "" lets in nobody but by the unix socket
	Passes     *Passes                                           // who is let in beside who has the token; nil: nobody
	Hosts      []string                                          // names in lower case that it is reached by, beside localhost and its addresses
	Page       fs.FS                                             // the built page; nil, or without index.html: a page that says how to build it
	Prometheus http.Handler                                      // answers what is below /api/v1/; nil: not found
	Export     Exporter                                          // what /metrics has of what is recorded; nil: nothing
	Scripts    Scripts                                           // nil: it runs none
	Sample     func(context.Context, Sampling) (*Sampled, error) // samples the machine, one at a time, until it is over or the context ends; nil: it can't
	CPU        func() measure.Span                               // CPU time of the calling thread, for Spent; nil: nobody asks
	Asked      func()                                            // called as a question is begun, by several goroutines at once; nil: nobody wants to know

	stop  context.CancelFunc // ends what runs for the server and all live views
	ended context.Context
	wrong bucket
	asks  chan struct{} // a place for each ask that may run at once

	shelf       shelf
	oneProfile  chan struct{} // a place for the profile that is worked on
	oneSampling chan struct{} // and for who samples the machine

	zippers sync.Pool
	live    *hub
	report  *feed // of the diagnoses
	viewers atomic.Int64
	spent   atomic.Int64           // nanoseconds
	fault   atomic.Pointer[string] // the last fault of our own, a sentence; nil = none
	faults  atomic.Uint64          // panics that ended a query, an upload, an export or a live event, and nothing else
}

// asksAtOnce is how many questions are worked on at once; others wait, at most for waitForAsk. An answer may take a quarter of a gigabyte while it is
// made, so two of the worst fit a small machine.
const (
	asksAtOnce = 2
	waitForAsk = 15 * time.Second
	askTime    = 30 * time.Second
)

// New makes a server. It follows the machine's ticks until Close.
func New(m Machine, about About, token string) *Server {
	s := &Server{Machine: m, About: about, Token: token, asks: make(chan struct{}, asksAtOnce), oneProfile: make(chan struct{}, 1), oneSampling: make(chan struct{}, 1)}
	s.ended, s.stop = context.WithCancel(context.Background())
	s.zippers.New = func() any {
		z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is one that there is
		return z
	}
	s.live, s.report = newHub(s), newReportFeed()
	go s.live.follow()
	go s.reports()
	return s
}

// Spent gives the CPU time that answers and live views have taken so far, without that of reading requests.
func (s *Server) Spent() measure.Span { return measure.Span(s.spent.Load()) }

// metered adds what f takes to what was spent. It may end by a panic.
func (s *Server) metered(f func()) {
	if s.CPU == nil {
		f()
		return
	}
	runtime.LockOSThread()
	before := s.CPU()
	defer func() {
		s.spent.Add(int64(s.CPU() - before))
		runtime.UnlockOSThread()
	}()
	f()
}

// Close ends all live views and what runs for the server. Requests under way are http.Server's to end.
func (s *Server) Close() { s.stop() }

// route is what a path answers, by method. An error is told by who calls.
type route map[string]func(http.ResponseWriter, *http.Request) error

// routes lists the paths of the API; docs/openapi.yaml describes them.
func (s *Server) routes() map[string]route {
	return map[string]route{
		"/api/health":                 {"GET": s.health},
		"/api/catalogue":              {"GET": s.catalogue},
		"/api/parse":                  {"GET": s.parse},
		"/api/ask":                    {"GET": s.ask},
		"/api/live":                   {"GET": s.liveAnswers},
		"/api/tools":                  {"GET": s.tools},
		"/api/tool/{name}":            {"GET": s.tool},
		"/api/tool/{name}/live":       {"GET": s.liveTool},
		"/api/diagnosis":              {"GET": s.diagnosis},
		"/api/diagnosis/live":         {"GET": s.liveDiagnosis},
		"/api/findings":               {"GET": s.findings},
		"/api/datasets":               {"GET": s.datasets, "POST": s.enable},
		"/api/datasets/{id}/{action}": {"POST": s.change},
		"/api/changes":                {"GET": s.changed},
		"/api/scripts":                {"GET": s.scripts, "POST": s.addScript},
		"/api/scripts/{id}/{action}":  {"POST": s.changeScript},
		"/api/profiles":               {"GET": s.profiles, "POST": s.readProfile},
		"/api/profiles/take":          {"POST": s.takeProfile},
		"/api/profile":                {"GET": s.profileColumns},
		"/api/profile/diff":           {"GET": s.diffColumns},
		"/api/profile/changes":        {"GET": s.diffChanges},
		"/metrics":                    {"GET": s.metrics},
	}
}

// Routes returns the methods that each path of the API takes, without the API of Prometheus.
func Routes() map[string][]string {
	out := map[string][]string{}
	for path, methods := range new(Server).routes() {
		out[path] = slices.Sorted(maps.Keys(methods))
	}
	return out
}

// Handler gives the handler of all requests. trusted is for a listener that has made sure that each peer may do everything: it asks for no token.
func (s *Server) Handler(trusted bool) http.Handler {
	mux := http.NewServeMux()
	all := s.routes()
	all["/"] = route{"GET": func(w http.ResponseWriter, r *http.Request) error {
		return &fault{status: http.StatusNotFound, Code: "not-found", Message: "there is nothing at " + printable(r.URL.Path)}
	}}
	for path, methods := range all {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			method := r.Method
			if method == http.MethodHead {
				method = http.MethodGet
			}
			answer := methods[method]
			if answer == nil {
				allow := "GET, HEAD"
				switch {
				case methods["GET"] == nil:
					allow = "POST"
				case methods["POST"] != nil:
					allow += ", POST"
				}
				w.Header().Set("Allow", allow)
				refuse(w, &fault{status: http.StatusMethodNotAllowed, Code: "bad-request", Message: printable(r.Method) + " is not for " + printable(r.URL.Path), Hint: "it takes " + allow})
				return
			}
			reply := func() {
				err := answer(w, r)
				s.count(err)
				if err != nil && r.Context().Err() == nil {
					refuse(w, err)
				}
			}
			if strings.HasSuffix(path, "/live") { // metered event by event
				reply()
			} else {
				s.metered(reply)
			}
		})
	}
	if s.Prometheus != nil {
		mux.HandleFunc("/api/v1/", func(w http.ResponseWriter, r *http.Request) {
			ctx, done, err := s.place(r.Context())
			if err != nil {
				refuse(w, err)
				return
			}
			defer done()
			s.metered(func() { s.Prometheus.ServeHTTP(w, r.WithContext(ctx)) })
		})
	}
	newPage(s.Page).register(mux)
	return s.guard(mux, trusted)
}

// HTTP gives a server with the limits that strangers need, for a listener of which Handler would be told trusted. Close ends the live views, which its
// Shutdown waits for.
func (s *Server) HTTP(trusted bool) *http.Server {
	return &http.Server{
		Handler: s.Handler(trusted), ReadHeaderTimeout: headerTime, ReadTimeout: api.RequestTimeout, WriteTimeout: answerTime, IdleTimeout: idleTime, MaxHeaderBytes: mostHeader,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // strangers could fill it; a fault of ours is told by health
	}
}

// now is the newest tick, or the clock's time before the first.
func (s *Server) now() measure.Time {
	if t := measure.Time(s.live.newest.Load()); t != 0 {
		return t
	}
	return measure.Time(time.Now().UnixNano())
}

// place waits for a place among the questions that are worked on, and gives a context that ends when it has taken too long.
func (s *Server) place(ctx context.Context) (context.Context, func(), error) {
	wait := time.NewTimer(waitForAsk)
	defer wait.Stop()
	select {
	case s.asks <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case <-wait.C:
		return nil, nil, &fault{status: http.StatusServiceUnavailable, Code: "busy", Message: "too many questions are being worked on", Hint: "ask again in a moment"}
	}
	if s.Asked != nil {
		s.Asked()
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	return ctx, func() {
		cancel()
		<-s.asks
	}, nil
}

// Questions says how many questions are worked on.
func (s *Server) Questions() int { return len(s.asks) }

// worthZipping is the size from which gzip makes a reply shorter by more than it costs.
const worthZipping = 1400

// send answers with a body that must not be stored anywhere.
func (s *Server) send(w http.ResponseWriter, r *http.Request, kind string, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept, Accept-Encoding")
	if len(body) >= worthZipping && accepts(r.Header.Get("Accept-Encoding"), "gzip") {
		z := s.zippers.Get().(*gzip.Writer)
		defer s.zippers.Put(z)
		var small bytes.Buffer
		z.Reset(&small)
		_, err := z.Write(body)
		if err == nil {
			err = z.Close()
		}
		if err == nil && small.Len() < len(body) {
			h.Set("Content-Encoding", "gzip")
			body = small.Bytes()
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // who is gone needs no answer
	return nil
}

func (s *Server) sendJSON(w http.ResponseWriter, r *http.Request, body []byte) error {
	return s.send(w, r, "application/json", append(body, '\n'))
}

// accepts says whether a list of a header names the word, and not with q=0.
func accepts(list, word string) bool {
	for _, item := range strings.Split(list, ",") {
		name, parameters, _ := strings.Cut(item, ";")
		if !strings.EqualFold(strings.TrimSpace(name), word) {
			continue
		}
		q, found := strings.CutPrefix(strings.ReplaceAll(parameters, " ", ""), "q=")
		if v, err := strconv.ParseFloat(q, 64); found && err == nil && v == 0 {
			return false
		}
		return true
	}
	return false
}

// query reads and checks a sentence.
func (s *Server) query(text string) (measure.Query, error) {
	if len(text) > mostText {
		return measure.Query{}, badf("a sentence of %d bytes is too long: at most %d", len(text), mostText)
	}
	if text == "" {
		return measure.Query{}, &fault{status: http.StatusBadRequest, Code: "bad-request", Message: "there is no sentence", Hint: "q=cpu.time by mode"}
	}
	return s.Machine.Parse(text)
}

// stat gives the description of a statistic, or nil.
func (s *Server) stat(id measure.StatID) *measure.Stat {
	all := s.Machine.Stats()
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	for _, d := range s.Machine.Datasets() { // recorded once, no longer measured
		if d.Stat.ID == id {
			return &d.Stat
		}
	}
	return nil
}

// ask answers one question.
func (s *Server) ask(w http.ResponseWriter, r *http.Request) error {
	p, err := parametersOf(r.URL.RawQuery, s.now(), []string{"q", "from", "to", "step", "columns", "top"}, nil)
	if err != nil {
		return err
	}
	q, err := s.query(p.text("q"))
	if err != nil {
		return err
	}
	top, err := p.count("top", mostTop)
	if err != nil {
		return err
	}
	if q.Over, q.Step, err = p.grid(); err != nil {
		return err
	}
	if q.Step == 0 {
		if q.Over.Start = max(q.Over.Start, s.oldest(q.Stat)); q.Over.Span()/measure.Second > mostCells {
			return tooManyCells(int(q.Over.Span() / measure.Second))
		}
		q.Over.Start = min(q.Over.Start, q.Over.End)
	}
	ctx, done, err := s.place(r.Context())
	if err != nil {
		return err
	}
	defer done()
	q.Top = top
	a, err := s.Machine.Ask(ctx, q)
	if err != nil {
		return err
	}
	shaped, err := shape(a, s.stat(q.Stat), top)
	if err != nil {
		return err
	}
	if width := columnsWanted(r.Header.Get("Accept")); width > 0 {
		return s.send(w, r, api.ColumnsType+"; width="+strconv.Itoa(width), shaped.appendColumns(nil, width))
	}
	return s.sendJSON(w, r, shaped.appendJSON(nil))
}

// oldest gives the start of what is held of a statistic; 0 when nothing is.
func (s *Server) oldest(id measure.StatID) (first measure.Time) {
	for _, d := range s.Machine.Datasets() {
		if d.Stat.ID != id {
			continue
		}
		if t := s.Machine.Held(d.ID).Over.Start; t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}

// grid reads the time and the step of a question. step=0 is the reader's own step; with another one the cells begin at from. A step that is chosen for
// a number of columns gives cells that begin at its multiples.
func (p *parameters) grid() (measure.Interval, measure.Span, error) {
	none := measure.Interval{}
	over, err := p.over(10 * measure.Minute)
	if err != nil {
		return none, 0, err
	}
	columns, err := p.count("columns", mostCells)
	if err != nil {
		return none, 0, err
	}
	text := p.text("step")
	switch {
	case text != "" && columns > 0:
		return none, 0, badf("step and columns are both given")
	case text == "0":
		return over, 0, nil
	case text == "":
		if columns == 0 {
			columns = 600
		}
		step := stepFor(over, max(columns, 2), measure.Second)
		return grid(over, step), step, nil
	}
	step, err := p.span("step", 0)
	if err != nil {
		return none, 0, err
	}
	if over.Span()/step > mostCells {
		return none, 0, tooManyCells(int(over.Span() / step))
	}
	return over, step, nil
}

func tooManyCells(n int) error {
	return &fault{status: http.StatusRequestEntityTooLarge, Code: "too-large", Message: "the answer would have " + strconv.Itoa(n) + " cells, more than " + strconv.Itoa(mostCells),
		Hint: "ask for less time or a longer step"}
}

// columnsWanted gives the width of the columns that an Accept header asks for, 0 for none.
func columnsWanted(accept string) int {
	for _, item := range strings.Split(accept, ",") {
		name, parameters, _ := strings.Cut(item, ";")
		if strings.EqualFold(strings.TrimSpace(name), api.ColumnsType) {
			if strings.Contains(strings.ReplaceAll(parameters, " ", ""), "width=8") {
				return 8
			}
			return 4
		}
	}
	return 0
}

// parse tells whether a sentence can be asked.
func (s *Server) parse(w http.ResponseWriter, r *http.Request) error {
	p, err := parametersOf(r.URL.RawQuery, 0, []string{"q"}, nil)
	if err != nil {
		return err
	}
	q, err := s.query(p.text("q"))
	if err != nil {
		return err
	}
	b := view.AppendString([]byte(`{"query":`), q.String())
	if st := s.stat(q.Stat); st != nil {
		b = view.AppendString(append(b, `,"kind":`...), st.Kind.String())
		b = view.AppendString(append(b, `,"unit":`...), string(st.AnswerUnit()))
	}
	b = appendStrings(append(b, `,"by":`...), q.By)
	return s.sendJSON(w, r, append(b, '}'))
}

// catalogue lists what can be measured.
func (s *Server) catalogue(w http.ResponseWriter, r *http.Request) error {
	if _, err := parametersOf(r.URL.RawQuery, 0, nil, nil); err != nil {
		return err
	}
	b := []byte(`{"stats":[`)
	for i, st := range s.Machine.Stats() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendStat(b, &st)
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}

// appendStat appends the description of a statistic.
func appendStat(b []byte, st *measure.Stat) []byte {
	b = view.AppendString(append(b, `{"id":`...), string(st.ID))
	b = view.AppendString(append(b, `,"kind":`...), st.Kind.String())
	b = view.AppendString(append(b, `,"unit":`...), string(st.Unit))
	b = view.AppendString(append(b, `,"rate_unit":`...), string(st.AnswerUnit()))
	b = view.AppendString(append(b, `,"fold":`...), st.Fold.String())
	b = appendMay(append(b, `,"may":`...), st.Allowed())
	b = view.AppendString(append(b, `,"folded":`...), st.FoldLabel())
	b = strconv.AppendBool(append(b, `,"sparse":`...), st.Sparse)
	if st.Traced {
		b = append(b, `,"traced":true`...)
	}
	b = view.AppendString(append(b, `,"help":`...), st.Help)
	b = append(b, `,"fields":[`...)
	for i, f := range st.Fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendString(append(b, `{"name":`...), f.Name)
		b = view.AppendString(append(b, `,"type":`...), f.Type.String())
		b = view.AppendString(append(b, `,"unit":`...), string(f.Unit))
		b = view.AppendString(append(b, `,"help":`...), f.Help)
		if f.Overlaps {
			b = append(b, `,"overlaps":true`...)
		}
		b = append(b, '}')
	}
	b = append(b, ']')
	if st.Whole != (measure.Whole{}) {
		b = view.AppendString(append(b, `,"whole":{"sentence":`...), st.Whole.Query)
		b = append(view.AppendString(append(b, `,"rest":`...), st.Whole.Rest), '}')
	}
	if st.Program != "" {
		b = view.AppendString(append(b, `,"program":`...), st.Program)
	}
	return append(b, '}')
}

// appendMay appends what can be done with the values of a statistic.
func appendMay(b []byte, may measure.Allowed) []byte {
	b = strconv.AppendBool(append(b, `{"sum":`...), may.Sum)
	b = strconv.AppendBool(append(b, `,"stack":`...), may.Stack)
	b = strconv.AppendBool(append(b, `,"rate":`...), may.Rate)
	b = strconv.AppendBool(append(b, `,"percentile":`...), may.Percentile)
	return append(b, '}')
}

// health says how the server does.
func (s *Server) health(w http.ResponseWriter, r *http.Request) error {
	if _, err := parametersOf(r.URL.RawQuery, 0, nil, nil); err != nil {
		return err
	}
	h := s.Machine.Health()
	b := view.AppendString([]byte(`{"version":`), s.About.Version)
	b = view.AppendString(append(b, `,"may":`...), mayOf(r).String())
	b = view.AppendString(append(b, `,"host":`...), s.About.Host)
	b = view.AppendString(append(b, `,"kernel":`...), s.About.Kernel)
	b = strconv.AppendInt(append(b, `,"cpus":`...), int64(s.About.CPUs), 10)
	b = api.AppendMillis(append(b, `,"now_ms":`...), int64(s.now()))
	b = api.AppendMillis(append(b, `,"started_ms":`...), int64(h.Started))
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
	b = strconv.AppendInt(append(b, `,"viewers":`...), s.viewers.Load(), 10)
	b = strconv.AppendInt(append(b, `,"disk_bytes":`...), h.Disk, 10)
	b = strconv.AppendInt(append(b, `,"disk_limit_bytes":`...), h.DiskLimit, 10)
	b = view.AppendNumber(append(b, `,"cpu_limit":`...), h.CPULimit)
	var trouble []string
	for _, t := range h.Problems {
		trouble = append(trouble, t.Text)
	}
	if f := s.fault.Load(); f != nil {
		trouble = append(trouble, *f)
	}
	if s.Passes != nil {
		if _, err := s.Passes.All(); err != nil {
			trouble = append(trouble, err.Error()+": only the server's own token is let in")
		}
	}
	b = appendStrings(append(b, `,"trouble":`...), trouble)
	b = strconv.AppendUint(append(b, `,"late_ticks":`...), h.Late, 10)
	b = strconv.AppendUint(append(b, `,"refused_samples":`...), h.Refused, 10)
	b = strconv.AppendUint(append(b, `,"faults":`...), s.faults.Load(), 10)
	return s.sendJSON(w, r, append(b, '}'))
}

// body reads a JSON object of a request; a field that the object has not is refused.
func body(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var large *http.MaxBytesError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &large):
		return &fault{status: http.StatusRequestEntityTooLarge, Code: "too-large", Message: "the body is too large", Hint: fmt.Sprintf("it may have %d bytes", large.Limit)}
	case errors.As(err, &wrong):
		f := badf("the body can't be read: %s where %s should be", wrong.Value, jsonWord(wrong.Type))
		if wrong.Field != "" {
			f.Message = wrong.Field + ": " + wrong.Value + " where " + jsonWord(wrong.Type) + " should be"
		}
		f.Hint = bodyHint
		return f
	case errors.Is(err, io.EOF):
		return &fault{status: http.StatusBadRequest, Code: "bad-request", Message: "the body is empty", Hint: bodyHint}
	case err != nil:
		f := badf("the body can't be read: %s", strings.TrimPrefix(err.Error(), "json: "))
		f.Hint = bodyHint
		return f
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &fault{status: http.StatusBadRequest, Code: "bad-request", Message: "the body has more than one object", Hint: bodyHint}
	}
	return nil
}

// bodyHint says what a body is.
const bodyHint = "send one JSON object with the fields of docs/openapi.yaml"

// jsonWord names what JSON has for a type of Go.
func jsonWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Pointer:
		return jsonWord(t.Elem())
	}
	return "an object"
}
