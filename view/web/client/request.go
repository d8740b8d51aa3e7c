package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"culprit/measure"
	"culprit/view/web/api"
)

// The longest replies that a client reads, in bytes after unpacking: lists that people read, and
// answers in columns by their cells. A cell may have 8,000 rows.
const (
	maxJSON     = 8 << 20
	maxFindings = 33 << 20 // the server's own limit is 32 MB
	maxColumns  = 256 << 20
	leastReply  = 16 << 20
	cellReply   = 8000 * 16
)

// replyLimit returns the longest reply to a query in bytes.
func replyLimit(q *measure.Query) int {
	if q.Step <= 0 || q.Over == (measure.Interval{}) {
		return maxColumns
	}
	cells := q.Over.Span()/q.Step + 1
	return int(min(maxColumns, leastReply+cellReply*min(cells, maxColumns)))
}

// millis returns nanoseconds as text in milliseconds.
func millis(ns int64) string { return string(api.AppendMillis(nil, ns)) }

// newRequest makes a request for a path of the server.
func (c *Client) newRequest(
	ctx context.Context, method, path string, body io.Reader,
) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err == nil && c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r, err
}

// post sends body as JSON to path and decodes the reply into the value that into points to. With a
// nil into the reply is ignored.
func (c *Client) post(ctx context.Context, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := c.newRequest(ctx, http.MethodPost, path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Culprit", "1")
	reply, err := c.do(r, maxJSON)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(reply, into)
}

// do sends a request and returns the body of the reply. A status other than 200 is an error, and so
// is a reply longer than limit: measure.ErrTooLarge.
func (c *Client) do(r *http.Request, limit int) ([]byte, error) {
	res, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // it was read to its end
	b, err := io.ReadAll(io.LimitReader(res.Body, int64(limit)+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > limit:
		return nil, fmt.Errorf("the reply has more than %d MB: %w", limit>>20, measure.ErrTooLarge)
	case res.StatusCode != http.StatusOK:
		return nil, parseError(res.StatusCode, b)
	}
	return b, nil
}

// remoteError is an error that a server replied.
type remoteError struct {
	text string
	kind error // one of api.Codes; nil: another
}

// Error returns the message and the hint.
func (e *remoteError) Error() string { return e.text }

// Unwrap returns the error of measure that the code of the reply means.
func (e *remoteError) Unwrap() error { return e.kind }

// parseError returns the error that a reply of the given status describes.
func parseError(status int, body []byte) error {
	var reply struct {
		Error struct {
			Message, Code, Hint, Text, Doing, Needs string
			Position, Length                        int
		}
	}
	if err := json.Unmarshal(body, &reply); err != nil || reply.Error.Message == "" {
		return errors.New("the server answered with status " + strconv.Itoa(status))
	}
	e := reply.Error
	switch {
	case e.Text != "" && status == http.StatusBadRequest:
		return &measure.Diagnostic{
			Text: e.Text, Pos: e.Position, Len: e.Length,
			Code: e.Code, Message: e.Message, Hint: e.Hint,
		}
	case e.Needs != "":
		return &measure.Denied{Doing: e.Doing, Needs: e.Needs}
	}
	out := &remoteError{text: e.Message}
	if e.Hint != "" {
		out.text += " (" + e.Hint + ")"
	}
	for _, c := range api.Codes {
		if c.Word == e.Code {
			out.kind = c.Err
		}
	}
	return out
}
