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

// door is where a server is reached: an address with a token, and a socket for who is the same
// user.
type door struct {
	address string // for people: a URL
	site    *web.Server
	public  *http.Server
	private *http.Server
	tcp     net.Listener
	unix    net.Listener
}

// openDoor listens. Nothing is answered before serve.
func openDoor(dir string, o term.Serving, m *served) (*door, error) {
	tokenFile := filepath.Join(dir, "token")
	token, made, err := web.ReadServerToken(tokenFile)
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
	d := &door{}
	if d.tcp, err = web.Listen(o.Listen); err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("%w: give another address or port with --listen", err)
		}
		return nil, err
	}
	if d.unix, err = web.ListenSocket(filepath.Join(dir, "culprit.sock")); err != nil {
		return nil, errors.Join(err, d.tcp.Close())
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	d.site = web.New(
		m, web.About{Version: version, Host: host, Kernel: kernelRelease(), CPUs: runtime.NumCPU()},
		token,
	)
	d.site.Tokens = &web.Tokens{Path: passesOf(dir)}
	api := prom.New(m, m.Datasets, version)
	d.site.Prometheus, d.site.Export = api, api.NewScraper()
	d.site.Page, d.site.CPU = ui.Files(), kernel.ThreadTime
	scheme := "http"
	if o.Cert != "" {
		scheme = "https"
		for _, name := range certificate.Leaf.DNSNames {
			d.site.Hosts = append(d.site.Hosts, strings.ToLower(name))
		}
		d.tcp = tls.NewListener(
			d.tcp,
			&tls.Config{
				Certificates: []tls.Certificate{certificate},
				NextProtos:   []string{"h2", "http/1.1"},
				MinVersion:   tls.VersionTLS12,
			},
		)
	}
	d.public, d.private = d.site.HTTP(false), d.site.HTTP(true)

	at := d.tcp.Addr().(*net.TCPAddr) // web.Listen opens no other
	if at.IP.IsUnspecified() {
		if len(d.site.Hosts) > 0 {
			host = d.site.Hosts[0] // what the certificate says
		}
		d.address = net.JoinHostPort(host, fmt.Sprint(at.Port))
	} else {
		d.address = at.String()
	}
	d.address = scheme + "://" + d.address + "/"
	switch {
	case os.Getenv("JOURNAL_STREAM") == "": // a log is read by more people than a terminal
		d.address += "?token=" + token
	case made:
		d.address += " (the token is in " + tokenFile + ")"
	}
	return d, nil
}

// leaving is how long requests under way get at the end.
const leaving = 500 * time.Millisecond

// serve answers until the context ends. The error is a listener's.
func (d *door) serve(ctx context.Context) error {
	failed := make(chan error, 2)
	go func() { failed <- d.public.Serve(d.tcp) }()
	go func() { failed <- d.private.Serve(d.unix) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("answer at %s: %w", d.address, err)
	}
	d.site.Close()
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer stop()
	for _, s := range []*http.Server{d.public, d.private} {
		if s.Shutdown(end) != nil {
			_ = s.Close() // it was given its time
		}
	}
	return err
}

// kernelRelease gives the release of the running kernel, as uname -r.
func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
