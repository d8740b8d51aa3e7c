package receiver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"culprit/measure"
)

// A Rejection is an answer that the same request would get again.
type Rejection struct {
	Status int
	Text   string // the first line of the reply, made printable
}

// Error returns the status and the text.
func (r *Rejection) Error() string {
	return strings.TrimSpace(
		strconv.Itoa(r.Status) + " " + http.StatusText(r.Status) + " " + r.Text)
}

// A Busy is an answer of a server that asks for a later attempt: 429 or 5xx.
type Busy struct {
	Rejection
	After time.Duration // the wait that it asks for, at most maxRetryAfter; 0: none
}

// maxRetryAfter bounds the wait that a server may ask for.
const maxRetryAfter = 10 * time.Minute

// maxReplyText bounds how much of an error reply is read, in bytes.
const maxReplyText = 300

// Post sends a body to a path below the address of the target, which may have a query after a "?".
// more has further headers. The error
// is a *Rejection if a repetition is useless, a *Busy if the server asks for one, or the network's.
func (t *Target) Post(ctx context.Context, path string, body []byte, more http.Header) error {
	to := *t.url
	path, to.RawQuery, _ = strings.Cut(path, "?")
	to.Path += path
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	for _, h := range []http.Header{more, t.header} {
		for name, values := range h {
			r.Header[name] = values
		}
	}
	res, err := t.client.Do(r)
	if err != nil {
		if at := (*url.Error)(nil); errors.As(err, &at) {
			err = at.Err // without the address, which the caller names
		}
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode/100 == 2 {
		// A short reply is read so that the connection can be used again.
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxReplyText))
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxReplyText))
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	no := Rejection{res.StatusCode, measure.Clean(strings.TrimSpace(line))}
	switch {
	case res.StatusCode/100 == 5, res.StatusCode == http.StatusTooManyRequests,
		res.StatusCode == http.StatusRequestTimeout:
		b := &Busy{Rejection: no}
		if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
			b.After = min(time.Duration(min(s, 1e6))*time.Second, maxRetryAfter)
		}
		return b
	case res.StatusCode/100 == 3:
		no.Text = fmt.Sprintf("to %s: use that address",
			measure.Clean(shortened(res.Header.Get("Location"), maxReplyText)))
	}
	return &no
}

// shortened returns at most n bytes of a text.
func shortened(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}

// Backoff is the wait between attempts: it doubles from Min to Max, and differs by up to a quarter
// between hosts that began at the same time. The zero value is useless.
type Backoff struct {
	Min, Max time.Duration
	wait     time.Duration
}

// Reset makes the next wait the shortest one.
func (b *Backoff) Reset() { b.wait = 0 }

// Next returns the wait after a failed attempt: at least what the server asked for.
func (b *Backoff) Next(err error) time.Duration {
	b.wait = min(max(2*b.wait, b.Min), b.Max)
	wait := b.wait - time.Duration(rand.Int64N(int64(b.wait)/4+1))
	if busy := (*Busy)(nil); errors.As(err, &busy) {
		wait = max(wait, busy.After)
	}
	return wait
}

// IsFinal reports whether an error of Post would be the same after a repetition.
func IsFinal(err error) bool {
	no := (*Rejection)(nil)
	return errors.As(err, &no)
}
