package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"culprit/view/web/client"
)

// pairFiles writes a self-signed certificate with a serial number and its key. Where a file is "",
// it is not written.
func pairFiles(t *testing.T, serial int64, certificate, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{"Box.example", "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		certificate: {Type: "CERTIFICATE", Bytes: der},
		key:         {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		if path == "" {
			continue
		}
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// insecure accepts each certificate, and none is kept for the next request.
func insecure() *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
}

// serialAt returns the serial number of the certificate that a server uses.
func serialAt(t *testing.T, base string) (int64, error) {
	t.Helper()
	res, err := insecure().Get(base + "-/healthy")
	if err != nil {
		return 0, err
	}
	_ = res.Body.Close()
	return res.TLS.PeerCertificates[0].SerialNumber.Int64(), nil
}

// TestCertificateIsReadAgain replaces the certificate of a running server: by files that change, by
// a signal, and by a pair that does not fit. The key is readable by the caller only, in a directory
// that the server process may not read.
func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	dir, files := t.TempDir(), t.TempDir()
	cert, key := filepath.Join(files, "cert.pem"), filepath.Join(files, "key.pem")
	pairFiles(t, 11, cert, key)
	c := start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0",
		"--tls-cert", cert, "--tls-key", key)
	base, token, _ := strings.Cut(c.waitForLine(t, "https://127.0.0.1:", 20*time.Second), "?token=")
	uses := func(want int64) {
		t.Helper()
		eventually(t, "the certificate is used", 30*time.Second, func() error {
			got, err := serialAt(t, base)
			if err == nil && got != want {
				err = fmt.Errorf("number %d, want %d", got, want)
			}
			return err
		})
	}
	trouble := func(want bool) {
		t.Helper()
		eventually(t, "the trouble", 30*time.Second, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			running, err := client.Dial(ctx, socketPath(dir))
			if err != nil {
				return err
			}
			defer running.Close()
			all, err := running.Trouble(ctx)
			text := strings.Join(all, "; ")
			if err == nil && strings.Contains(text, "the old certificate stays in use") != want {
				err = fmt.Errorf("trouble %q", text)
			}
			return err
		})
	}
	uses(11)
	checkTLSLogin(t, base, token)

	pairFiles(t, 12, cert, key)
	uses(12)
	pairFiles(t, 13, cert, "") // its key is missing
	trouble(true)
	uses(12)
	c.kill(t, "culprit-server") // it starts with the certificate in use
	uses(12)
	trouble(true)
	pairFiles(t, 14, cert, key)
	if err := c.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	uses(14)
	trouble(false)
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	trouble(true)
	uses(14)
}

// checkTLSLogin checks the cookie and the headers over TLS.
func checkTLSLogin(t *testing.T, base, token string) {
	t.Helper()
	for host, hsts := range map[string]bool{"box.example": true, "localhost": false} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", base+"?token="+token, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		one := insecure()
		one.CheckRedirect = func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}
		res, err := one.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		cookies := res.Cookies()
		if len(cookies) != 1 || !strings.HasPrefix(cookies[0].Name, "__Host-culprit-") ||
			!cookies[0].Secure || !cookies[0].HttpOnly || cookies[0].Path != "/" ||
			cookies[0].Domain != "" {
			t.Errorf("%s: %s %+v", host, res.Status, cookies)
		}
		if got := res.Header.Get("Strict-Transport-Security"); got != "" != hsts {
			t.Errorf("%s: Strict-Transport-Security %q", host, got)
		}
	}
}
