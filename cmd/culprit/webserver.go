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
	"strings"
	"time"

	"culprit/kernel"
	"culprit/ui"
	"culprit/view/prom"
	"culprit/view/term"
	"culprit/view/web"

	"golang.org/x/sys/unix"
)

// A webServer answers HTTP requests at a TCP address, where a token is needed, and at a Unix
// socket, which the same user and root can open.
type webServer struct {
	address string // URL for people: with the token on a terminal, without it in a log
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
	if err := web.CheckAddress(o.Listen, tls); err != nil {
		return nil, err
	}
	tcp, err := web.Listen(o.Listen)
	if err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("%w: choose another address or port with --listen", err)
		}
		return nil, err
	}
	socket, err := web.ListenSocket(filepath.Join(dir, "culprit.sock"))
	if err != nil {
		return nil, errors.Join(withDirectoryHint(err), tcp.Close())
	}
	return &listeners{tcp, socket}, nil
}

// loadCertificate reads the certificate and the key of o; nil: there is none.
func loadCertificate(o term.Serving) (*tls.Certificate, error) {
	if o.Cert == "" {
		return nil, nil
	}
	c, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, fmt.Errorf("read --tls-cert %s and --tls-key %s: %w", o.Cert, o.Key, err)
	}
	return &c, nil
}

// newWebServer returns a server that answers at the listeners of p and closes them. It creates the
// token file if the directory has none. The error is of a file in the directory.
func newWebServer(p *place, o term.Serving, m *recordedMachine) (*webServer, error) {
	certificate := p.certificate
	token, _, err := web.ReadServerToken(filepath.Join(p.dir, "token"))
	if err != nil {
		return nil, err
	}
	if err := web.CheckListen(o.Listen, certificate != nil, token); err != nil {
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
	s.api.Tokens = &web.Tokens{Path: tokensPath(p.dir)}
	prometheus := prom.New(m, m.Datasets, version)
	s.api.Prometheus, s.api.Export = prometheus, prometheus.NewScraper()
	s.api.Page, s.api.CPU = ui.Files(), kernel.ThreadTime
	scheme := "http"
	if certificate != nil {
		scheme = "https"
		for _, name := range certificate.Leaf.DNSNames {
			s.api.Hosts = append(s.api.Hosts, strings.ToLower(name))
		}
		s.tcp = tls.NewListener(
			s.tcp,
			&tls.Config{
				Certificates: []tls.Certificate{*certificate},
				NextProtos:   []string{"h2", "http/1.1"},
				MinVersion:   tls.VersionTLS12,
			},
		)
	}
	s.public, s.private = s.api.HTTP(false), s.api.HTTP(true)

	bound := s.tcp.Addr().(*net.TCPAddr) // web.Listen opens TCP listeners only
	if bound.IP.IsUnspecified() {
		if len(s.api.Hosts) > 0 {
			host = s.api.Hosts[0] // the name in the certificate
		}
		s.address = net.JoinHostPort(host, fmt.Sprint(bound.Port))
	} else {
		s.address = bound.String()
	}
	s.address = scheme + "://" + s.address + "/"
	if o.PrintToken {
		s.address += "?token=" + token
	} else { // a log has more readers than a terminal
		s.address += " (the token is in " + filepath.Join(p.shown, "token") + ")"
	}
	return s, nil
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
