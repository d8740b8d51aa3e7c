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

// openWebServer opens the listeners; serve answers and closes them. It creates the token file if
// dir has none. The error is of a file in dir, of the certificate, or of an address.
func openWebServer(dir string, o term.Serving, m *recordedMachine) (*webServer, error) {
	tokenFile := filepath.Join(dir, "token")
	token, _, err := web.ReadServerToken(tokenFile)
	if err != nil {
		return nil, err
	}
	if err := web.CheckListen(o.Listen, o.Cert != "", token); err != nil {
		return nil, err
	}
	var certificate tls.Certificate
	if o.Cert != "" {
		if certificate, err = tls.LoadX509KeyPair(o.Cert, o.Key); err != nil {
			return nil, fmt.Errorf("read --tls-cert %s and --tls-key %s: %w", o.Cert, o.Key, err)
		}
	}
	s := &webServer{}
	if s.tcp, err = web.Listen(o.Listen); err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("%w: choose another address or port with --listen", err)
		}
		return nil, err
	}
	if s.unix, err = web.ListenSocket(filepath.Join(dir, "culprit.sock")); err != nil {
		return nil, errors.Join(err, s.tcp.Close())
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	s.api = web.New(
		m, web.About{Version: version, Host: host, Kernel: kernelRelease(), CPUs: runtime.NumCPU()},
		token,
	)
	s.api.Tokens = &web.Tokens{Path: tokensPath(dir)}
	prometheus := prom.New(m, m.Datasets, version)
	s.api.Prometheus, s.api.Export = prometheus, prometheus.NewScraper()
	s.api.Page, s.api.CPU = ui.Files(), kernel.ThreadTime
	scheme := "http"
	if o.Cert != "" {
		scheme = "https"
		for _, name := range certificate.Leaf.DNSNames {
			s.api.Hosts = append(s.api.Hosts, strings.ToLower(name))
		}
		s.tcp = tls.NewListener(
			s.tcp,
			&tls.Config{
				Certificates: []tls.Certificate{certificate},
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
		s.address += " (the token is in " + tokenFile + ")"
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
