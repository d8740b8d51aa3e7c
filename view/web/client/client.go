package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"culprit/diagnose"
	"culprit/measure"
	"culprit/view/web/api"
)

// Client sends queries and changes to a running server. It is a measure.Reader and safe for
// concurrent use. The caller must close it.
//
// A method fails if the server can't be reached or refuses the request. errors.Is finds the errors
// of measure as if the method had run in the server.
type Client struct {
	base  string // ends in /
	token string
	http  *http.Client
	stats []measure.Stat
}

// Dial connects to the server of this machine by its unix socket and reads its catalogue. The error
// is fs.ErrNotExist if there is no socket, and syscall.ECONNREFUSED if its server has ended.
func Dial(ctx context.Context, socket string) (*Client, error) {
	t := &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}
	return dial(ctx, &Client{base: "http://culprit/", http: &http.Client{Transport: t}})
}

// DialURL connects to the server at the URL of its page and reads its catalogue. The token is sent
// with each request; "" means the token in the URL. It is not sent by plain HTTP to another
// machine, unless the URL has the fragment #insecure. An error says what is wrong with the URL, why
// the server can't be reached, or that it refuses the token.
func DialURL(ctx context.Context, address, token string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("connect to %q: need the URL of a server, https://host:port/",
			address)
	}
	if token == "" {
		token = u.Query().Get("token")
	}
	if token != "" && measure.LeaksSecret(u) {
		return nil, fmt.Errorf("connect to http://%s/: the token would be sent without "+
			"encryption: use https, or add --insecure", u.Host)
	}
	u.RawQuery, u.Fragment = "", ""
	base := strings.TrimSuffix(u.String(), "/") + "/"
	return dial(ctx, &Client{base: base, token: token, http: &http.Client{}})
}

// dial reads the catalogue. It fails if the server is not there or refuses the token.
func dial(ctx context.Context, c *Client) (*Client, error) {
	stats, err := c.readCatalogue(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	c.stats = stats
	return c, nil
}

// statJSON is a statistic of the catalogue.
type statJSON struct {
	ID      measure.StatID
	Kind    string
	Unit    measure.Unit
	Fold    string
	Sparse  bool
	Traced  bool
	Help    string
	Fields  []fieldJSON
	Whole   measure.Whole
	Program string
}

// fieldJSON is a field of a statistic.
type fieldJSON struct {
	Name     string
	Type     string
	Unit     measure.Unit
	Help     string
	Overlaps bool
}

func (c *Client) readCatalogue(ctx context.Context) ([]measure.Stat, error) {
	var catalogue struct{ Stats []statJSON }
	if err := c.get(ctx, "api/catalogue", &catalogue); err != nil {
		return nil, err
	}
	var stats []measure.Stat
	for _, s := range catalogue.Stats {
		st := measure.Stat{
			ID: s.ID, Unit: s.Unit, Sparse: s.Sparse, Traced: s.Traced, Help: s.Help,
			Whole: s.Whole, Program: s.Program,
			Kind: parseEnum(measure.Delta, measure.Dists, s.Kind),
			Fold: parseEnum(measure.Sum, measure.Min, s.Fold),
		}
		for _, f := range s.Fields {
			st.Fields = append(st.Fields, measure.Field{
				Name: f.Name, Type: parseEnum(measure.Word, measure.Stack, f.Type),
				Unit: f.Unit, Help: f.Help, Overlaps: f.Overlaps,
			})
		}
		stats = append(stats, st)
	}
	return stats, nil
}

// parseEnum returns the value from first to last whose String is text; first if none is.
func parseEnum[T interface {
	~uint8
	String() string
}](first, last T, text string) T {
	for v := first; v <= last; v++ {
		if v.String() == text {
			return v
		}
	}
	return first
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Stats lists the statistics of the server, sorted by ID. The caller must not change the slice.
func (c *Client) Stats() []measure.Stat { return c.stats }

// Parse parses and checks the text of a query. The error is a *measure.Diagnostic if the text is
// wrong.
func (c *Client) Parse(text string) (measure.Query, error) {
	ctx, cancel := context.WithTimeout(context.Background(), api.RequestTimeout)
	defer cancel()
	var parsed struct{ Query string }
	if err := c.get(ctx, "api/parse?"+url.Values{"q": {text}}.Encode(), &parsed); err != nil {
		return measure.Query{}, err
	}
	return measure.ParseQuery(parsed.Query)
}

// Ask implements measure.Reader. Numbers, times and the order of rows are those of the server's
// reader, and so is the kind of an error. Bytes of a label that are not UTF-8 become U+FFFD.
func (c *Client) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	v := url.Values{
		"q": {q.String()}, "from": {"0"}, "to": {"now"}, "step": {millis(int64(q.Step))},
	}
	if q.Over != (measure.Interval{}) {
		v.Set("from", millis(int64(q.Over.Start)))
		v.Set("to", millis(int64(q.Over.End)))
	}
	r, err := c.newRequest(ctx, http.MethodGet, "api/ask?"+v.Encode(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", api.ColumnsType+"; width=8")
	b, err := c.do(r, replyLimit(&q))
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	columns, err := api.DecodeColumns(b)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	columns.Answer.Query = q
	return columns.Answer, nil
}

// Trouble returns the server's current problems, one text for each. See Client for errors.
func (c *Client) Trouble(ctx context.Context) ([]string, error) {
	var health struct{ Trouble []string }
	err := c.get(ctx, "api/health", &health)
	return health.Trouble, err
}

// Clock is the name of a server's machine and the time of its newest tick, by its own clock.
type Clock struct {
	Host string
	Now  measure.Time
}

// Clock asks the server for its name and time. See Client for errors.
func (c *Client) Clock(ctx context.Context) (Clock, error) {
	var health struct {
		Host string
		Now  float64 `json:"now_ms"`
	}
	err := c.get(ctx, "api/health", &health)
	return Clock{health.Host, measure.Time(health.Now * 1e6)}, err
}

// Diagnosis returns the server's newest diagnosis and its time; nil if there is none yet. See
// Client for errors.
func (c *Client) Diagnosis(ctx context.Context) (*diagnose.Report, measure.Time, error) {
	var newest struct {
		At     float64 `json:"at_ms"`
		Report *diagnose.Report
	}
	err := c.get(ctx, "api/diagnosis", &newest)
	return newest.Report, measure.Time(newest.At * 1e6), err
}

// Findings calls each for the logged diagnoses of a time range, oldest first, until each returns an
// error, which it returns. A document is the JSON of a diagnose.Report. See Client for errors.
func (c *Client) Findings(
	ctx context.Context, over measure.Interval, each func(at measure.Time, document []byte) error,
) error {
	var logged struct {
		Reports []struct {
			At     float64 `json:"at_ms"`
			Report json.RawMessage
		}
	}
	r, err := c.newRequest(ctx, http.MethodGet,
		"api/findings?from="+millis(int64(over.Start))+"&to="+millis(int64(over.End)), nil)
	if err != nil {
		return err
	}
	b, err := c.do(r, maxFindings)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &logged); err != nil {
		return err
	}
	for _, one := range logged.Reports {
		if err := each(measure.Time(one.At*1e6), one.Report); err != nil {
			return err
		}
	}
	return nil
}

// get requests path and decodes the JSON reply into the value that into points to.
func (c *Client) get(ctx context.Context, path string, into any) error {
	r, err := c.newRequest(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	b, err := c.do(r, maxJSON)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}
