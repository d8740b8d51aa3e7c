package web

import (
	"context"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"culprit/fleet"
	"culprit/measure"
	"culprit/view/web/access"
	"culprit/view/web/annotation"
	"culprit/view/web/api"
	"culprit/view/web/listen"
	"culprit/view/web/worksheet"
	"culprit/worker"
)

// About describes the server and its machine.
type About struct {
	Version string
	Host    string
	Kernel  string // its release
	CPUs    int
}

// Config is what a server serves, and to whom. New sets the first three fields; the others may be
// set until Handler is called.
type Config struct {
	Machine Machine
	About   About
	Token   string // the server's own, which grants every role; "" admits only the unix socket

	Tokens   *access.Tokens   // more tokens; nil: none
	Sessions *access.Sessions // of browsers; nil: in memory
	Sites    access.Sites     // names of the server, beside loopback

	Notes *annotation.Notes // New: in memory

	Worksheets *worksheet.Worksheets // New: in memory

	Page       fs.FS        // the built page; without index.html: a page that says how to build it
	Prometheus http.Handler // handles /api/v1/; nil: not found
	Export     Exporter     // the recorded statistics in /metrics; nil: none

	// The same without the fields of access.HiddenFields, for the role metrics; nil: it is refused.
	HiddenPrometheus http.Handler
	HiddenExport     Exporter

	// MCP handles the messages of /mcp; it must not stream. nil: unsupported.
	MCP http.Handler

	Scripts Scripts // nil: unsupported

	// Complete says what may be written in a D program, and lists probes. A mistake that it checks
	// for is a *measure.Diagnostic, of which its error joins all. nil: unsupported.
	Complete func(context.Context, Completing) (*Completion, error)

	Fleet       Fleet          // the hosts of an engine; nil: none
	HostAddress fleet.Template // of the server of each host; "": unknown

	// Sample samples the CPUs until the time is over or the context ends. It is never called
	// twice at the same time. nil: unsupported.
	Sample func(context.Context, Sampling) (*Sampled, error)

	// Workers read the files that are uploaded; nil: this process does.
	Workers *worker.Pool

	// CertificateTrouble returns why the newest certificate could not be read; nil: it could.
	CertificateTrouble func() error

	CPU          func() measure.Span // CPU time of the calling thread, for Spent; nil: not metered
	QueryStarted func()              // is called by several goroutines; nil: not called
}

// Server serves the data of a recording machine over HTTP. Make it with New.
type Server struct {
	*core
	guard    *guard // nil until Handler
	status   *status
	queries  *queries
	live     *live
	tools    *tools
	findings *findings
	datasets *datasets
	scripts  *scripts
	profiles *profiles
	sessions *sessions
	hosts    *hosts
	notes    *notes

	worksheets *worksheets
}

// New returns a server that follows the machine's ticks until Close.
func New(m Machine, about About, token string) *Server {
	c := newCore(&Config{
		Machine: m, About: about, Token: token,
		Notes: annotation.Open(""), Worksheets: worksheet.Open(""),
	})
	l := newLive(c)
	s := &Server{
		core: c, live: l,
		status:   &status{core: c, live: l},
		queries:  &queries{core: c, comparing: make(chan struct{}, 1)},
		tools:    &tools{core: c, live: l},
		findings: newFindings(c, l),
		datasets: &datasets{core: c},
		scripts:  &scripts{core: c},
		profiles: newProfiles(c),
		sessions: &sessions{core: c},
		hosts:    &hosts{core: c},
		notes:    &notes{core: c},

		worksheets: &worksheets{core: c},
	}
	go l.run()
	go s.findings.run()
	return s
}

// Close ends all live views and running samplings. Other requests are ended by http.Server.
func (s *Server) Close() { s.end() }

// handler replies to a request. Its caller sends an error to the client.
type handler = func(http.ResponseWriter, *http.Request) error

// route holds the handlers of a path, by method.
type route map[string]handler

// routes lists the paths of the API. docs/openapi.yaml describes them.
func (s *Server) routes() map[string]route {
	return map[string]route{
		"/api/health":                   {"GET": s.status.health},
		"/api/catalogue":                {"GET": s.queries.catalogue},
		"/api/parse":                    {"GET": s.queries.parse},
		"/api/ask":                      {"GET": s.queries.ask},
		"/api/rank":                     {"GET": s.queries.rank},
		"/api/questions":                {"GET": s.queries.questions},
		"/api/prices":                   {"GET": s.queries.prices},
		"/api/live":                     {"GET": s.live.answers},
		"/api/tools":                    {"GET": s.tools.list},
		"/api/tool/{name}":              {"GET": s.tools.tables},
		"/api/tool/{name}/live":         {"GET": s.tools.liveTable},
		"/api/diagnosis":                {"GET": s.findings.newest},
		"/api/diagnosis/live":           {"GET": s.findings.follow},
		"/api/findings":                 {"GET": s.findings.logged},
		"/api/hosts":                    {"GET": s.hosts.list},
		"/api/hosts/curves":             {"GET": s.hosts.curves},
		"/api/datasets":                 {"GET": s.datasets.list, "POST": s.datasets.enable},
		"/api/datasets/{id}/{action}":   {"POST": s.datasets.change},
		"/api/changes":                  {"GET": s.datasets.changes},
		"/api/changed":                  {"GET": s.queries.changed},
		"/api/notes":                    {"GET": s.notes.list, "POST": s.notes.add},
		"/api/notes/{id}/{action}":      {"POST": s.notes.change},
		"/api/worksheets":               {"GET": s.worksheets.list, "POST": s.worksheets.save},
		"/api/worksheets/{id}/{action}": {"POST": s.worksheets.change},
		"/api/scripts":                  {"GET": s.scripts.list, "POST": s.scripts.add},
		"/api/scripts/{id}/{action}":    {"POST": s.scripts.change},
		"/api/scripts/complete":         {"POST": s.scripts.complete},
		"/api/scripts/check":            {"POST": s.scripts.check},
		"/api/scripts/probes":           {"POST": s.scripts.probes},
		"/api/profiles":                 {"GET": s.profiles.list, "POST": s.profiles.upload},
		"/api/profiles/take":            {"POST": s.profiles.sample},
		"/api/profile":                  {"GET": s.profiles.columns},
		"/api/profile/diff":             {"GET": s.profiles.diffColumns},
		"/api/profile/changes":          {"GET": s.profiles.diffChanges},
		"/api/login":                    {"POST": s.sessions.login},
		"/api/logout":                   {"POST": s.sessions.logout},
		"/api/sessions":                 {"GET": s.sessions.list},
		"/api/sessions/{id}/{action}":   {"POST": s.sessions.change},
		"/mcp":                          {"POST": s.mcp},
		"/metrics":                      {"GET": s.status.metrics},
		"/debug/pprof/profile":          {"GET": s.profiles.scrape},
		"/-/healthy":                    {"GET": s.status.healthy},
		"/-/ready":                      {"GET": s.status.ready},
	}
}

// Routes returns the methods of each path of the API, without Prometheus's API.
func Routes() map[string][]string {
	out := map[string][]string{}
	for path, methods := range new(Server).routes() {
		out[path] = slices.Sorted(maps.Keys(methods))
	}
	return out
}

// Handler returns the handler of all requests. With trusted it asks for no token: for a listener
// whose peers may do everything, such as listen.Socket's.
func (s *Server) Handler(trusted bool) http.Handler {
	if s.guard == nil {
		s.guard = newGuard(s.core)
		s.sessions.guard, s.live.guard = s.guard.access, s.guard.access
	}
	mux := http.NewServeMux()
	all := s.routes()
	all["/again.js"] = route{"GET": access.ReloadScript}
	all["/"] = route{"GET": func(w http.ResponseWriter, r *http.Request) error {
		return notFound("there is nothing at "+printable(r.URL.Path), "")
	}}
	for path, methods := range all {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			s.handle(w, r, path, methods)
		})
	}
	if s.Prometheus != nil {
		mux.HandleFunc("/api/v1/", s.handlePrometheus)
	}
	newPage(s.Page).register(mux, s.guard)
	return s.guard.wrap(mux, trusted)
}

// handle runs the handler for the request's method and meters it.
func (s *Server) handle(w http.ResponseWriter, r *http.Request, path string, methods route) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	handler := methods[method]
	if handler == nil {
		allow := methods.allow()
		w.Header().Set("Allow", allow)
		refuse(w, &fault{
			status: http.StatusMethodNotAllowed, Code: "bad-request",
			Message: printable(r.URL.Path) + " does not take " + printable(r.Method),
			Hint:    "it takes " + allow,
		})
		return
	}
	if err := s.guard.check(r, path); err != nil {
		refuse(w, err)
		return
	}
	reply := func() {
		err := handler(w, r)
		s.count(err)
		if err != nil && r.Context().Err() == nil {
			refuse(w, err)
		}
	}
	// Live views are metered per event. A scrape waits, and would hold a thread meanwhile.
	if strings.HasSuffix(path, "/live") || strings.HasPrefix(path, "/debug/") {
		reply()
	} else {
		s.metered(reply)
	}
}

// allow returns the Allow header of a path.
func (r route) allow() string {
	switch {
	case r["GET"] == nil:
		return "POST"
	case r["POST"] != nil:
		return "GET, HEAD, POST"
	}
	return "GET, HEAD"
}

// handlePrometheus passes a request on within the limits of queries.
func (s *Server) handlePrometheus(w http.ResponseWriter, r *http.Request) {
	if _, known := access.RuleOf(r.Method, "/api/v1/"); !known {
		s.Prometheus.ServeHTTP(w, r) // it lists the methods of the path
		return
	}
	if err := s.guard.check(r, "/api/v1/"); err != nil {
		refuse(w, err)
		return
	}
	handler := s.Prometheus
	if !access.From(r.Context()).May(access.View) {
		handler = s.HiddenPrometheus
	}
	if handler == nil {
		refuse(w, hiddenFault())
		return
	}
	ctx, release, err := s.acquire(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	defer release()
	s.metered(func() { handler.ServeHTTP(w, r.WithContext(ctx)) })
}

// hiddenFault refuses the role metrics where nothing hides fields from it.
func hiddenFault() *fault {
	return &fault{
		status: http.StatusForbidden, Code: "denied", Message: "this needs the role view",
	}
}

// HTTP returns an http.Server with timeouts and size limits for a listener; for trusted see
// Handler. Its Shutdown waits for live views, so call Close first.
func (s *Server) HTTP(trusted bool) *http.Server {
	return &http.Server{
		Handler:           s.Handler(trusted),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       api.RequestTimeout,
		WriteTimeout:      replyTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       listen.WithConnection,
		// Strangers could fill a log. /api/health reports our own faults.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
}
