package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// overTLS returns the number of the certificate that a server uses, and the header
// Strict-Transport-Security of its reply to a host name.
func overTLS(address, host string) (number int64, hsts string, err error) {
	web := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	q, err := http.NewRequest("GET", "https://"+address+"/-/healthy", nil)
	if err != nil {
		return 0, "", err
	}
	q.Host = host
	a, err := web.Do(q)
	if err != nil {
		return 0, "", err
	}
	_ = a.Body.Close()
	return a.TLS.PeerCertificates[0].SerialNumber.Int64(),
		a.Header.Get("Strict-Transport-Security"), nil
}

// renewed replaces the certificate of a server, by one that does not fit its key and by a good one,
// and looks at the names that get Strict-Transport-Security.
func renewed(b *bench) (string, error) {
	cert, key, err := certificate(b.dir, 11)
	if err != nil {
		return "", err
	}
	address := boxAddress + ":7444"
	s, err := b.start(b.newDir(), nil, "--listen", address, "--tls-cert", cert, "--tls-key", key)
	if err != nil {
		return "", err
	}
	defer s.kill()
	uses := func(want int64) error {
		return s.within(20*time.Second, fmt.Sprintf("certificate %d", want), func() error {
			got, _, err := overTLS(address, tlsName)
			if err == nil && got != want {
				err = fmt.Errorf("certificate %d", got)
			}
			return err
		})
	}
	reload := func() error { return unix.Kill(s.cmd.Process.Pid, unix.SIGHUP) }
	if err := uses(11); err != nil {
		return "", err
	}
	for host, want := range map[string]bool{
		tlsName: true, "localhost": false, "evil.example": false,
	} {
		_, hsts, err := overTLS(address, host)
		if err != nil {
			return "", err
		}
		if (hsts != "") != want {
			return "", fmt.Errorf("host %s: Strict-Transport-Security %q", host, hsts)
		}
	}
	old, err := os.ReadFile(key)
	if err != nil {
		return "", err
	}
	if _, _, err := certificate(b.dir, 12); err != nil {
		return "", err
	}
	other, err := os.ReadFile(key)
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(key, old, 0o600), reload()); err != nil {
		return "", err
	}
	for range 14 { // the server looks at the files every five seconds
		if got, _, err := overTLS(address, tlsName); err != nil || got != 11 {
			return "", failed(err, "with the key of another one, certificate %d is used", got)
		}
		time.Sleep(time.Second / 2)
	}
	if err := errors.Join(os.WriteFile(key, other, 0o600), reload(), uses(12)); err != nil {
		return "", err
	}
	return "the old one while the pair did not fit, then the new one", nil
}

// besideProxy sends what a web site and a proxy may send to a server with --public-url.
func besideProxy(b *bench) (string, error) {
	s, err := b.serve(b.newDir(), "--public-url", "https://perf.example:8443/culprit/")
	if err != nil {
		return "", err
	}
	defer s.kill()
	t := &tally{}
	public, origin := "Host: perf.example:8443\r\n", "Origin: https://perf.example:8443\r\n"
	own := "Host: " + s.host + "\r\n"
	for _, tt := range []struct{ headers, want string }{
		{public, "200"},
		{public + origin, "200"},
		{own, "200"},
		{own + origin, "200"}, // of a proxy that replaces Host
		{"Host: perf.example\r\n", "421"},
		{"Host: evil.example\r\n", "421"},
		{"Host: perf.example:8443.evil.example\r\n", "421"},
		{"Host: evil.example\r\nX-Forwarded-Host: perf.example:8443\r\n", "421"},
		{public + "Origin: http://perf.example:8443\r\n", "403"},
		{public + "Origin: https://perf.example\r\n", "403"},
		{public + "Origin: https://evil.example\r\nX-Forwarded-Host: evil.example\r\n", "403"},
		{own + "Origin: https://" + s.host + "\r\nX-Forwarded-Proto: https\r\n", "403"},
	} {
		status, _, err := s.raw(s.get11(tt.headers))
		if err != nil {
			return "", err
		}
		t.add(tt.headers, status, tt.want)
	}
	return t.result()
}
