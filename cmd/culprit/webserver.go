package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"culprit/kernel"
	"culprit/measure"
	"culprit/ui"
	"culprit/view/prom"
	"culprit/view/term"
	"culprit/view/web"
	"culprit/view/web/access"
	"culprit/view/web/annotation"
	"culprit/view/web/listen"
	"culprit/view/web/worksheet"

	"golang.org/x/sys/unix"
)

// A webServer answers HTTP requests at a TCP address, where a token is needed, and at a Unix
// socket, which the same user and root can open.
type webServer struct {
	address string // URL for people: with the token on a terminal, without it in a log
	page    string // URL of the page
	api     *web.Server
	public  *http.Server // answers at tcp
	private *http.Server // answers at unix
	tcp     net.Listener
	unix    net.Listener
}

// listeners are what a web server answers at.
type listeners struct{ tcp, unix net.Listener }

// close closes both.
func (l *listeners) close() error { return errors.Join(l.tcp.Close(), l.unix.Close()) }

// openListeners listens at the address of o, if a server with or without TLS may, and at the
// socket of dir. The caller closes them.
func openListeners(dir string, o term.Serving, tls bool) (*listeners, error) {
	if err := listen.CheckAddress(o.Listen, tls); err != nil {
		return nil, err
	}
	tcp, err := listen.TCP(o.Listen)
	if err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("%w: choose another address or port with --listen", err)
		}
		return nil, err
	}
	socket, err := listen.Socket(filepath.Join(dir, "culprit.sock"))
	if err != nil {
		return nil, errors.Join(withDirectoryHint(err), tcp.Close())
	}
	return &listeners{tcp, socket}, nil
}

// newWebServer returns a server that answers at the listeners of p and closes them. It creates the
// token file if the directory has none. The error is of a file in the directory.
func newWebServer(p *place, o term.Serving, m *recordedMachine) (*webServer, error) {
	token, _, err := access.ReadServerToken(filepath.Join(p.dir, "token"))
	if err != nil {
		return nil, err
	}
	if err := listen.CheckAddress(o.Listen, p.certificates != nil); err != nil {
		return nil, err
	}
	s := &webServer{tcp: p.listeners.tcp, unix: p.listeners.unix}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	s.api = web.New(
		m, web.About{Version: version, Host: host, Kernel: kernelRelease(), CPUs: runtime.NumCPU()},
		token,
	)
	s.api.Sites.Public, s.api.Sites.Forwarded = o.Access.PublicURL, o.Access.Forwarded
	s.api.Tokens = &access.Tokens{Path: tokensPath(p.dir)}
	s.api.Sessions = access.OpenSessions(
		sessionsPath(p.dir), o.Access.SessionIdle, o.Access.SessionMax,
	)
	s.api.Notes = annotation.Open(notesPath(p.dir))
	s.api.Worksheets = worksheet.Open(worksheetsPath(p.dir))
	prometheus := prom.New(m, m.Datasets, version)
	prometheus.Workers, s.api.Workers = p.workers, p.workers
	alerts := prometheusAlerts{p.notifier.stream, p.notifier.sender, m.History}
	prometheus.Alerts = alerts
	s.api.Prometheus, s.api.Export = prometheus, prometheus.NewScraper()
	hidden := prom.New(m, m.publicDatasets, version)
	hidden.Workers, hidden.Alerts = p.workers, prom.WithoutTexts(alerts)
	s.api.HiddenPrometheus, s.api.HiddenExport = hidden, hidden.NewScraper()
	s.api.Page, s.api.CPU = ui.Files(), kernel.ThreadTime
	if s.api.HostAddress = o.HostURL; p.engine != nil {
		s.api.Fleet = servedHosts{p.engine, knownStats()}
	}
	if p.certificates != nil {
		s.api.Sites.Names = p.certificates.names
		s.api.CertificateTrouble = p.certificates.problem
		s.tcp = tls.NewListener(
			s.tcp,
			&tls.Config{
				GetCertificate: p.certificates.get,
				NextProtos:     []string{"h2", "http/1.1"},
				MinVersion:     tls.VersionTLS12,
			},
		)
	}
	s.public, s.private = s.api.HTTP(false), s.api.HTTP(true)
	s.page = pageAddress(p, o, s.tcp.Addr().(*net.TCPAddr), host) // listen.TCP opens these only
	s.address = s.page
	if o.PrintToken {
		s.address += "?token=" + token
	} else { // a log has more readers than a terminal
		s.address += " (the token is in " + filepath.Join(p.shown, "token") + ")"
	}
	return s, nil
}

// pageAddress returns the URL of the page of a server that listens at bound, on the machine host.
func pageAddress(p *place, o term.Serving, bound *net.TCPAddr, host string) string {
	if o.Access.PublicURL != nil {
		return o.Access.PublicURL.String()
	}
	scheme, at := "http", bound.String()
	if p.certificates != nil {
		scheme = "https"
	}
	if bound.IP.IsUnspecified() {
		if p.certificates != nil && len(p.certificates.names()) > 0 {
			host = p.certificates.names()[0]
		}
		at = net.JoinHostPort(host, fmt.Sprint(bound.Port))
	}
	return scheme + "://" + at + "/"
}

// shutdownTimeout is how long running requests may take when the server ends.
const shutdownTimeout = 500 * time.Millisecond

// serve answers until ctx ends, then closes the listeners. The error is of a listener.
func (s *webServer) serve(ctx context.Context) error {
	failed := make(chan error, 2)
	go func() { failed <- s.public.Serve(s.tcp) }()
	go func() { failed <- s.private.Serve(s.unix) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("answer at %s: %w", s.address, err)
	}
	s.api.Close()
	shutdown, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer stop()
	for _, server := range []*http.Server{s.public, s.private} {
		if server.Shutdown(shutdown) != nil {
			_ = server.Close() // requests are cut off after the timeout
		}
	}
	return err
}

// kernelRelease returns the release of the running kernel, as uname -r prints it; "": unknown.
func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// publicDatasets returns the datasets as the role metrics may read them.
func (m *recordedMachine) publicDatasets() []measure.Dataset {
	return access.Hide(m.Datasets(), func(id measure.StatID) bool { return !m.builtin[id] })
}
