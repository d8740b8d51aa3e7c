package remotewrite

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"culprit/measure"
)

const (
	requestTimeout = 30 * time.Second
	// stopTimeout is how long a request may last after the server was asked to stop: a request
	// whose answer is unknown is sent again after the restart.
	stopTimeout = time.Second
	// maxSecretFile is the size in bytes above which a file is no token, password or certificate.
	maxSecretFile = 1 << 20
)

// Receiver is a target with the contents of its files.
type Receiver struct {
	target Target
	url    *url.URL
	client *http.Client
	header http.Header // of each request; contains secrets
	now    func() time.Time
}

// Open reads the files of a checked target. They are read once: call Open before the process
// drops its rights. host is the default of Instance, version is culprit's. A Receiver need not be
// closed. The error is a *Fault and names the file.
func (t Target) Open(host, version string) (*Receiver, error) {
	t.Instance = cmp.Or(t.Instance, host, "localhost")
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil, &Fault{"url", "not the address of a receiver"}
	}
	r := &Receiver{target: t, url: u, now: time.Now, header: http.Header{
		"Content-Encoding":                  {"snappy"},
		"Content-Type":                      {"application/x-protobuf"},
		"User-Agent":                        {"culprit/" + version},
		"X-Prometheus-Remote-Write-Version": {"0.1.0"},
	}}
	for name, value := range t.Headers {
		r.header.Set(name, value)
	}
	token := t.Token
	if t.BearerTokenFile != "" {
		if token, err = readSecret("bearer_token_file", t.BearerTokenFile); err != nil {
			return nil, err
		}
	}
	if token != "" {
		r.header.Set("Authorization", "Bearer "+token)
	}
	if t.BasicAuth.PasswordFile != "" {
		password, err := readSecret("basic_auth.password_file", t.BasicAuth.PasswordFile)
		if err != nil {
			return nil, err
		}
		auth := http.Request{Header: r.header}
		auth.SetBasicAuth(t.BasicAuth.Username, password)
	}
	transport, err := t.TLS.transport()
	if err != nil {
		return nil, err
	}
	r.client = &http.Client{
		Timeout: requestTimeout, Transport: transport,
		// A redirected POST would become a GET, or send the headers elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return r, nil
}

// readSecret returns the text of a file without the space around it. The error has no part of the
// text.
func readSecret(field, path string) (string, error) {
	b, err := readFile(field, path)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", &Fault{field, path + " is empty"}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", &Fault{field, path + " has more than one line, or control characters"}
	}
	return text, nil
}

// readFile returns a file of at most maxSecretFile bytes.
func readFile(field, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &Fault{field, err.Error()}
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return nil, &Fault{field, err.Error()}
	}
	if len(b) > maxSecretFile {
		return nil, &Fault{field, path + " is larger than 1 MiB"}
	}
	return b, nil
}

// transport returns the connections of a target, with its certificates.
func (c TLS) transport() (*http.Transport, error) {
	own, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default transport is not Go's")
	}
	own = own.Clone()
	own.MaxIdleConnsPerHost = 1
	if c == (TLS{}) {
		return own, nil
	}
	own.TLSClientConfig = &tls.Config{ServerName: c.ServerName, MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := readFile("tls.ca_file", c.CAFile)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, &Fault{"tls.ca_file", c.CAFile + " has no certificate in PEM"}
		}
		own.TLSClientConfig.RootCAs = pool
	}
	if c.CertFile != "" {
		cert, err := readFile("tls.cert_file", c.CertFile)
		if err != nil {
			return nil, err
		}
		key, err := readFile("tls.key_file", c.KeyFile)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, &Fault{"tls.cert_file", c.CertFile + ": " + err.Error()}
		}
		own.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return own, nil
}

// rejection is an answer that refuses the samples: a retry would not change it.
type rejection struct {
	status int
	text   string
}

func (r *rejection) Error() string {
	status := strconv.Itoa(r.status) + " " + http.StatusText(r.status)
	return strings.TrimSpace(status + " " + r.text)
}

// failure is an answer of 500: an error within the receiver.
type failure rejection

func (f *failure) Error() string { return (*rejection)(f).Error() }

// reply is what a request led to.
type reply struct {
	after time.Duration // the wait that the receiver asks for; 0 for none
	timed bool          // the answer has a time
	ahead measure.Span  // the receiver's clock, of this host's; 0 if unknown
}

// send makes one request. The error is a *rejection when a retry is useless. After ctx ended, the
// request still has stopTimeout.
func (r *Receiver) send(ctx context.Context, packed []byte) (reply, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-own.Done():
		case <-time.After(stopTimeout):
			cancel()
		}
	})()
	q, err := http.NewRequestWithContext(own, http.MethodPost, r.url.String(),
		bytes.NewReader(packed))
	if err != nil {
		return reply{}, err
	}
	q.Header = r.header.Clone()
	res, err := r.client.Do(q)
	if err != nil {
		if at := (*url.Error)(nil); errors.As(err, &at) {
			err = at.Err // without the address, which may contain a password
		}
		return reply{}, withHint(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 300))
	printable := strings.TrimSpace(strings.ToValidUTF8(string(text), "?"))
	line, _, _ := strings.Cut(printable, "\n")
	var out reply
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		out.timed, out.ahead = true, measure.Span(at.Sub(r.now()))
	}
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
		out.after = min(time.Duration(max(s, 0))*time.Second, maxRetryAfter)
	}
	return out, verdict(res, line)
}

// verdict returns the error of an answer. Samples are refused by some answers of 4xx only. Others
// say that the address, the token or the receiver is wrong, and the samples are kept for later.
func verdict(res *http.Response, line string) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	status := strings.TrimSpace(res.Status + " " + line)
	switch code := res.StatusCode; {
	case code/100 == 2 && media == "text/html":
		return errors.New("the answer is a web page: this is not the address of a receiver, " +
			"such as https://host/api/v1/write")
	case code/100 == 2:
		return nil
	case code/100 == 3:
		return fmt.Errorf("%s: redirects are not followed: use the address that it redirects to",
			res.Status)
	case code == http.StatusUnauthorized || code == http.StatusForbidden ||
		code == http.StatusProxyAuthRequired:
		return fmt.Errorf("%s: check the token or password", status)
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return fmt.Errorf("%s: check the address", status)
	case code == http.StatusInternalServerError:
		return &failure{code, line}
	case code/100 != 4 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return errors.New(status)
	default:
		return &rejection{code, line}
	}
}

// withHint adds what to do to the error of a request.
func withHint(err error) error {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: give the file of its CA", err)
	case errors.As(err, &host):
		return fmt.Errorf("%w: give the name in its certificate", err)
	case errors.Is(err, io.EOF):
		return errors.New("the connection was closed without an answer")
	}
	return err
}
