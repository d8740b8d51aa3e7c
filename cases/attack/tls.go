package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// tlsAttacks are those of another machine.
func tlsAttacks() []attack {
	return []attack{
		{"T0", "another machine", "listening on all addresses without TLS", "refused", withoutTLS},
		{"TLS", "another machine", "TLS 1.0 and 1.1, plain HTTP, HTTP/2 resets for 5 s",
			"refused; closed; server goes on", byTLS},
		{"CERT", "another machine", "a certificate without its key, HSTS for a foreign name",
			"the old one stays; none", renewed},
		{"PROXY", "a web site", "12 forms of Host, Origin and X-Forwarded beside --public-url",
			"421 or 403, those of the proxy 200", besideProxy},
	}
}

func withoutTLS(b *bench) (string, error) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0", boxAddress + ":7410"} {
		s, err := b.start(b.newDir(), nil, "--listen", address)
		if err != nil {
			return "", err
		}
		select {
		case <-s.ended:
		case <-time.After(5 * time.Second):
			s.kill()
			return "", fmt.Errorf("it listens on %s", address)
		}
	}
	return "4 addresses refused", nil
}

// tlsName is the DNS name of the certificates.
const tlsName = "box.example"

// certificate writes a certificate with a number for the machine's address, and its key.
func certificate(dir string, number int64) (cert, key string, err error) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(number), Subject: pkix.Name{CommonName: "attack"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(boxAddress), net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{tlsName},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &secret.PublicKey, secret)
	if err != nil {
		return "", "", err
	}
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	return cert, key, errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
			0o600),
	)
}

func byTLS(b *bench) (string, error) {
	cert, key, err := certificate(b.dir, 1)
	if err != nil {
		return "", err
	}
	address := boxAddress + ":7443"
	s, err := b.start(b.newDir(), nil, "--listen", address, "--tls-cert", cert, "--tls-key", key)
	if err != nil {
		return "", err
	}
	defer s.kill()
	any := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}
	web := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: any,
		ForceAttemptHTTP2: true}}
	var health *http.Response
	if err := s.within(20*time.Second, "an answer", func() (err error) {
		if health, err = web.Get("https://" + address + "/api/health"); err == nil {
			_ = health.Body.Close()
		}
		return err
	}); err != nil {
		return "", err
	}
	if health.StatusCode != 401 || health.ProtoMajor != 2 {
		return "", fmt.Errorf("without a token: %s by %s", health.Status, health.Proto)
	}
	for _, old := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MinVersion: old,
			MaxVersion: old})
		if err == nil {
			_ = c.Close()
			return "", fmt.Errorf("%s is accepted", tls.VersionName(old))
		}
	}
	if a, err := http.Get("http://" + address + "/api/health"); err == nil {
		_ = a.Body.Close()
		if a.StatusCode < 400 {
			return "", fmt.Errorf("plain HTTP gets status %d", a.StatusCode)
		}
	}
	streams := 0
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		n, err := resets(address, any)
		streams += n
		if err != nil && n == 0 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	health, err = web.Get("https://" + address + "/api/health")
	if err != nil {
		return "", fmt.Errorf("after %d reset streams: %w", streams, err)
	}
	_ = health.Body.Close()
	if streams < 1000 {
		return "", fmt.Errorf("only %d streams were reset: the attack has to be adapted", streams)
	}
	return fmt.Sprintf("old versions and plain HTTP refused; %d streams reset", streams), nil
}

// resets opens and resets HTTP/2 streams on one connection until the server closes it.
func resets(address string, config *tls.Config) (n int, err error) {
	c, err := tls.Dial("tcp", address, config)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return 0, err
	}
	go func() { _, _ = io.Copy(io.Discard, c) }() // until it is closed
	// A frame: length u24, type, flags, stream u32. Types: 1 HEADERS, 3 RST_STREAM, 4 SETTINGS.
	frame := func(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
		b = append(b, 0, byte(len(payload)>>8), byte(len(payload)), kind, flags)
		return append(binary.BigEndian.AppendUint32(b, stream), payload...)
	}
	// GET / by https to the address, in the static table of HPACK (RFC 7541).
	head := append([]byte{0x82, 0x84, 0x87, 0x01, byte(len(address))}, address...)
	b := frame([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 4, 0, 0, nil)
	for stream := uint32(1); stream < 20_000; stream += 2 {
		b = frame(b, 1, 5, stream, head)
		b = frame(b, 3, 0, stream, []byte{0, 0, 0, 8})
		n++
		if len(b) < 4096 {
			continue
		}
		if _, err := c.Write(b); err != nil {
			return n, err
		}
		b = b[:0]
	}
	return n, nil
}
