package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"culprit/diagnose"
	"culprit/measure"
)

// Client asks a running server. It is a measure.Reader; safe for use by several goroutines.
type Client struct {
	base  string // ends in /
	token string
	http  *http.Client
	stats []measure.Stat
}

// mostTaken bounds what a client takes of one answer.
const mostTaken = 1 << 30

// Dial connects to a server on this machine by its socket. Where there is none the error says so: errors.Is fs.ErrNotExist, or
// syscall.ECONNREFUSED for the socket of one that has gone.
func Dial(ctx context.Context, socket string) (*Client, error) {
	t := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}}
	return dial(ctx, &Client{base: "http://culprit/", http: &http.Client{Transport: t}})
}

// DialURL connects to a server by the address of its page, with its token.
func DialURL(ctx context.Context, address, token string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("connect to %q: it is no address of a server (https://host:port/)", address)
	}
	if given := u.Query().Get("token"); token == "" {
		token = given
	}
	u.RawQuery, u.Fragment = "", ""
	return dial(ctx, &Client{base: strings.TrimSuffix(u.String(), "/") + "/", token: token, http: &http.Client{}})
}

// dial reads the catalogue, which also shows that the server is there and lets us in.
func dial(ctx context.Context, c *Client) (*Client, error) {
	var told struct {
		Stats []struct {
			ID     measure.StatID
			Kind   string
			Unit   measure.Unit
			Fold   string
			Sparse bool
			Traced bool
			Help   string
			Fields []struct {
				Name string
				Type string
				Unit measure.Unit
				Help string

				Overlaps bool
			}
			Whole measure.Whole

			Program string
		}
	}
	if err := c.get(ctx, "api/catalogue", "", func(b []byte) error { return json.Unmarshal(b, &told) }); err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	for _, t := range told.Stats {
		st := measure.Stat{ID: t.ID, Kind: named(measure.Delta, measure.Dists, t.Kind), Unit: t.Unit, Fold: named(measure.Sum, measure.Min, t.Fold), Sparse: t.Sparse, Traced: t.Traced, Help: t.Help, Whole: t.Whole, Program: t.Program}
		for _, f := range t.Fields {
			st.Fields = append(st.Fields, measure.Field{Name: f.Name, Type: named(measure.Word, measure.Stack, f.Type), Unit: f.Unit, Help: f.Help, Overlaps: f.Overlaps})
		}
		c.stats = append(c.stats, st)
	}
	return c, nil
}

// named gives the one from first to last that has the word; first when none has.
func named[T interface {
	~uint8
	String() string
}](first, last T, word string) T {
	for v := first; v <= last; v++ {
		if v.String() == word {
			return v
		}
	}
	return first
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Stats lists what can be measured where the server runs, sorted by ID. The slice must not be changed.
func (c *Client) Stats() []measure.Stat { return c.stats }

// Parse reads and checks a sentence; a *measure.Diagnostic where it is wrong.
func (c *Client) Parse(sentence string) (measure.Query, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	var told struct{ Query string }
	if err := c.get(ctx, "api/parse?"+url.Values{"q": {sentence}}.Encode(), "", func(b []byte) error { return json.Unmarshal(b, &told) }); err != nil {
		return measure.Query{}, err
	}
	return measure.ParseQuery(told.Query)
}

// Ask implements measure.Reader: numbers and times come exactly as the server's reader gave them, in the server's order. Errors are of the kinds
// that it gave. What is no UTF-8 in a label comes as U+FFFD.
func (c *Client) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	v := url.Values{"q": {q.String()}, "from": {"0"}, "to": {"now"}, "step": {string(appendMillis(nil, int64(q.Step)))}}
	if q.Over != (measure.Interval{}) {
		v.Set("from", string(appendMillis(nil, int64(q.Over.Start))))
		v.Set("to", string(appendMillis(nil, int64(q.Over.End))))
	}
	var got *Columns
	err := c.get(ctx, "api/ask?"+v.Encode(), ColumnsType+"; width=8", func(b []byte) (err error) {
		got, err = DecodeColumns(b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	got.Answer.Query = q
	return got.Answer, nil
}

// Trouble gives what the server says is wrong now, a sentence each.
func (c *Client) Trouble(ctx context.Context) ([]string, error) {
	var h struct{ Trouble []string }
	err := c.get(ctx, "api/health", "", func(b []byte) error { return json.Unmarshal(b, &h) })
	return h.Trouble, err
}

// Here is what a server says of itself.
type Here struct {
	Host string
	Now  measure.Time // of its newest tick, by its own clock
}

// Here asks what the server says of itself.
func (c *Client) Here(ctx context.Context) (Here, error) {
	var h struct {
		Host string
		Now  float64 `json:"now_ms"`
	}
	err := c.get(ctx, "api/health", "", func(b []byte) error { return json.Unmarshal(b, &h) })
	return Here{h.Host, measure.Time(h.Now * 1e6)}, err
}

// Diagnosis gives the newest diagnosis that the server made, and when; nil when it has made none yet.
func (c *Client) Diagnosis(ctx context.Context) (*diagnose.Report, measure.Time, error) {
	var told struct {
		At     float64 `json:"at_ms"`
		Report *diagnose.Report
	}
	err := c.get(ctx, "api/diagnosis", "", func(b []byte) error { return json.Unmarshal(b, &told) })
	return told.Report, measure.Time(told.At * 1e6), err
}

// get asks for a path, and gives the body of the answer to each.
func (c *Client) get(ctx context.Context, path, accept string, each func([]byte) error) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return err
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	return c.do(r, each)
}

// do sends a request, and gives the body of the answer to each.
func (c *Client) do(r *http.Request, each func([]byte) error) error {
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // it is read to its end
	b, err := io.ReadAll(io.LimitReader(res.Body, mostTaken+1))
	switch {
	case err != nil:
		return err
	case len(b) > mostTaken:
		return fmt.Errorf("more than %d bytes: %w", mostTaken, measure.ErrTooLarge)
	case res.StatusCode != http.StatusOK:
		return errorOf(res.StatusCode, b)
	}
	return each(b)
}

// remote is an error that a server told.
type remote struct {
	text string
	kind error // of measure; nil for another
}

func (e *remote) Error() string { return e.text }

func (e *remote) Unwrap() error { return e.kind }

// errorOf makes of an error in JSON the error that it was.
func errorOf(status int, b []byte) error {
	var told struct {
		Error struct {
			Message, Code, Hint, Text, Doing, Needs string
			Position, Length                        int
		}
	}
	if err := json.Unmarshal(b, &told); err != nil || told.Error.Message == "" {
		return errors.New("the server answered with status " + strconv.Itoa(status))
	}
	e := told.Error
	switch {
	case e.Text != "" && status == http.StatusBadRequest:
		return &measure.Diagnostic{Text: e.Text, Pos: e.Position, Len: e.Length, Code: e.Code, Message: e.Message, Hint: e.Hint}
	case e.Needs != "":
		return &measure.Denied{Doing: e.Doing, Needs: e.Needs}
	}
	out := &remote{text: e.Message}
	if e.Hint != "" {
		out.text += " (" + e.Hint + ")"
	}
	for _, k := range kinds {
		if k.code == e.Code {
			out.kind = k.err
		}
	}
	return out
}
