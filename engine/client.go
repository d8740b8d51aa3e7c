package engine

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"culprit/measure"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

const (
	// requestTimeout is how long the engine may take for one query.
	requestTimeout = 30 * time.Second
	// maxBody bounds an answer, in bytes after decompression: about two million samples.
	maxBody = 64 << 20
)

// errBody is the error of an answer that is longer than maxBody.
var errBody = fmt.Errorf("the answer of the engine is larger than %d MB: ask for a shorter time, "+
	"fewer fields or one value: %w", maxBody>>20, measure.ErrTooLarge)

// Client queries one engine. Safe for concurrent use.
type Client struct {
	host  string // of the address, for errors
	label string // with the name of the host
	api   v1.API
	ahead atomic.Int64 // the engine's clock minus ours at the newest answer, in nanoseconds
	close func()
}

// New returns a client. It does not yet connect. The error is of an option or its file, or that a
// secret would be sent without encryption.
func New(o Options) (*Client, error) {
	u, err := o.address()
	if err != nil {
		return nil, err
	}
	header, err := o.headers()
	if err != nil {
		return nil, err
	}
	if err := o.Check(u); err != nil {
		return nil, fmt.Errorf("engine %s: %w", u.Host, err)
	}
	if o.HeaderFile+o.BasicFile != "" && !o.Insecure && measure.LeaksSecret(u) {
		return nil, fmt.Errorf("engine %s: the password or headers would be sent without "+
			"encryption: use https, or end the address with #insecure", u.Host)
	}
	secure, err := o.TLS()
	if err != nil {
		return nil, fmt.Errorf("read the certificates of the engine: %w", err)
	}
	c := &Client{host: u.Host, label: o.HostLabel}
	if c.label == "" {
		c.label = "instance"
	}
	if !model.LegacyValidation.IsValidLabelName(c.label) {
		return nil, fmt.Errorf("engine option host-label: %q is not the name of a label", c.label)
	}
	wire := http.DefaultTransport.(*http.Transport).Clone()
	wire.TLSClientConfig, wire.MaxIdleConnsPerHost = secure, 8
	base, err := api.NewClient(api.Config{
		Address: u.String(),
		Client: &http.Client{
			Timeout:       requestTimeout,
			Transport:     &transport{wire, header, &c.ahead},
			CheckRedirect: refuseRedirect,
		},
	})
	if err != nil {
		return nil, err
	}
	c.api, c.close = v1.NewAPI(base), wire.CloseIdleConnections
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.close() }

// ClockAhead returns the engine's clock minus ours, as of its newest answer; 0 if they differ by
// less than the resolution of a second.
func (c *Client) ClockAhead() measure.Span { return measure.Span(c.ahead.Load()) }

// refuseRedirect fails: the headers are for the given address only.
func refuseRedirect(r *http.Request, _ []*http.Request) error {
	return fmt.Errorf("it redirects to %s://%s%s: use that address", r.URL.Scheme, r.URL.Host,
		strings.TrimSuffix(r.URL.Path, "/api/v1/query"))
}

// transport adds headers to requests, bounds answers and reads the engine's clock.
type transport struct {
	wire   http.RoundTripper
	header http.Header
	ahead  *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range t.header {
		r.Header[name] = values
	}
	r.Header.Set("User-Agent", "culprit")
	sent := time.Now()
	res, err := t.wire.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if clock, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		// The header has whole seconds, so the true time is up to a second later.
		t.ahead.Store(int64(clockDifference(clock, sent, time.Now())))
	}
	res.Body = &boundedBody{res.Body, maxBody}
	return res, nil
}

// clockDifference returns by how much a clock differs from ours, 0 if it may be equal. The clock
// showed the whole second clock at some time between sent and received.
func clockDifference(clock, sent, received time.Time) time.Duration {
	switch {
	case clock.After(received):
		return clock.Sub(received)
	case clock.Add(time.Second).Before(sent):
		return clock.Add(time.Second).Sub(sent)
	}
	return 0
}

// boundedBody fails with errBody after left bytes.
type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errBody
	}
	return n, err
}

// failed returns the error of a request in a sentence, without secrets. Engines that are away,
// refuse or answer what is no JSON of Prometheus's API have different errors.
func (c *Client) failed(err error) error {
	var (
		answered *v1.Error
		at       *url.Error
		unknown  x509.UnknownAuthorityError
		name     x509.HostnameError
	)
	say := func(format string, args ...any) error {
		return fmt.Errorf("engine %s: %w", c.host, fmt.Errorf(format, args...))
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errBody):
		return say("%w", errBody)
	case errors.As(err, &unknown):
		return say("its certificate is signed by an authority that is not trusted: " +
			"give the engine option ca-file")
	case errors.As(err, &name):
		return say("%w", name)
	case errors.As(err, &answered):
		return c.refused(answered)
	case errors.As(err, &at) && at.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return say("it did not answer within %v", requestTimeout)
	case errors.As(err, &at):
		return say("%w", at.Err)
	}
	return say("%w", err)
}

// refused returns the error that the engine answered with.
func (c *Client) refused(e *v1.Error) error {
	detail, _, _ := strings.Cut(strings.TrimSpace(e.Msg), "\n")
	detail = measure.Clean(detail)
	if len(detail) > 300 {
		detail = strings.ToValidUTF8(detail[:300], "") + "..."
	}
	switch {
	case strings.Contains(detail, "401"), strings.Contains(detail, "403"):
		return fmt.Errorf("engine %s: %w", c.host, &measure.Denied{
			Doing: "query (" + detail + ")",
			Needs: "credentials: engine option token-file, basic-file or header-file",
		})
	case e.Type == v1.ErrBadResponse:
		return fmt.Errorf("engine %s: the answer is not that of Prometheus's API (%s): is "+
			"/api/v1/query below this address?", c.host, detail)
	case e.Type == v1.ErrClient && strings.Contains(detail, "404"):
		return fmt.Errorf("engine %s: there is no /api/v1/query below this address (404)", c.host)
	}
	return fmt.Errorf("engine %s: %s", c.host, detail)
}

// matrix evaluates a query at a time and returns its series with their samples. The answer of
// another type is an error.
func (c *Client) matrix(
	ctx context.Context, query string, at measure.Time,
) (model.Matrix, []string, error) {
	v, warnings, err := c.api.Query(ctx, query, at.AsTime())
	if err != nil {
		return nil, nil, c.failed(err)
	}
	m, ok := v.(model.Matrix)
	if !ok {
		return nil, nil, fmt.Errorf("engine %s: it answered a selector of a range with a %s",
			c.host, v.Type())
	}
	return m, warnings, nil
}

// vector evaluates a query at a time and returns one sample per series.
func (c *Client) vector(
	ctx context.Context, query string, at measure.Time,
) (model.Vector, error) {
	v, _, err := c.api.Query(ctx, query, at.AsTime())
	if err != nil {
		return nil, c.failed(err)
	}
	m, ok := v.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("engine %s: it answered a query at one time with a %s",
			c.host, v.Type())
	}
	return m, nil
}

// steps evaluates a query at each step of an interval, both ends included.
func (c *Client) steps(
	ctx context.Context, query string, over measure.Interval, step measure.Span,
) (model.Matrix, []string, error) {
	v, warnings, err := c.api.QueryRange(ctx, query, v1.Range{
		Start: over.Start.AsTime(), End: over.End.AsTime(), Step: step.AsDuration(),
	})
	if err != nil {
		return nil, nil, c.failed(err)
	}
	m, ok := v.(model.Matrix)
	if !ok {
		return nil, nil, fmt.Errorf("engine %s: it answered a query over a range with a %s",
			c.host, v.Type())
	}
	return m, warnings, nil
}
