package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/view/prom"
	"culprit/view/web"
)

// hostileTexts are values that are valid for hardly any parameter, name or field.
//
// table: texts
var hostileTexts = []string{
	"", " ", "NaN", "-Inf", "1e309", "-1", "0", "0.5", "9223372036854775808", "99999999999999999999", "null", "{}", "[", "\"", "\x00", "\xff\xfe", "ü😀\u202e",
	"%", "../../etc/passwd", "a;b&c=d", "cpu.time by", "cpu.time where cpu ~ \"[\"", "-10m", "now", "1970-01-01T00:00:00Z", "2262-04-12T00:00:00Z",
	strings.Repeat("x", 5000), strings.Repeat("(", 3000),
}

// hostileBodies returns invalid request bodies: truncated, of a wrong type, too large, or with
// values out of range.
func hostileBodies(t *testing.T) [][]byte {
	t.Helper()
	out := [][]byte{
		nil,
		[]byte("{"),
		[]byte("null"),
		[]byte("[]"),
		[]byte("1"),
		[]byte(`"x"`),
		[]byte("{} {}"),
		[]byte("\xff\xfe\x00"),
		[]byte(`{"nothing":1}`),
		bytes.Repeat([]byte("["), 60<<10),
		bytes.Repeat([]byte("x"), 80<<10),
		[]byte(`{"sentence":"` + strings.Repeat("x", 70<<10) + `"}`),
	}
	for _, field := range []string{"sentence", "step_ms", "from_ms", "to_ms", "seconds", "hz", "cpus", "only", "name", "text", "budget", "record"} {
		for _, value := range []string{"null", "-1", "0", "1e300", "1e999", "NaN", "true", `""`, `"x"`, `"\u0000\ud800"`, "[]", "[-1]", "{}", `"` + strings.Repeat("y", 5000) + `"`} {
			out = append(out, []byte(`{"`+field+`":`+value+`}`))
		}
	}
	// Profiles: truncated, compression bombs, lines with invalid counts.
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(bytes.Repeat([]byte("a;b 1\n"), 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return append(
		out, packed.Bytes()[:packed.Len()/2], []byte("\x1f\x8b"), []byte("a;b NaN\n"),
		[]byte("a;b -1\n"), []byte("a;b 1e999\n"), bytes.Repeat([]byte("\n"), 1<<20),
		bytes.Repeat([]byte(";"), 1<<20), []byte("\x0a\xff\xff\xff\xff\x0f"), []byte("PERFILE2"),
		[]byte(`{"$schema":"https://www.speedscope.app/file-format-schema.json"`),
	)
}

// A hostileClient sends invalid requests to a server.
type hostileClient struct {
	t           *testing.T
	base, token string
	// by message without its values: one request that was refused so
	refusals map[string]string
	requests int
}

// do sends a request. The answer must not be an internal error, and a refusal must have a message.
// status 0: no answer.
func (g *hostileClient) do(
	method, path string, body []byte, contentType string,
) (status int, answer []byte) {
	g.t.Helper()
	g.requests++
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, g.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil // no client can send this
	}
	r.Header.Set("Authorization", "Bearer "+g.token)
	r.Header.Set("X-Culprit", "1")
	r.Header.Set("Content-Type", contentType)
	what := fmt.Sprintf("%s %.200s %.100q", method, path, body)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Errorf("%s: no answer: %v", what, err)
		return 0, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK &&
		strings.Contains(res.Header.Get("Content-Type"), "event-stream") {
		return res.StatusCode, nil // the stream has no end
	}
	answer, err = io.ReadAll(res.Body)
	if res.StatusCode == http.StatusRequestHeaderFieldsTooLarge {
		return res.StatusCode, answer // net/http's own, which closes the connection
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		g.t.Errorf("%s: %v after %d bytes", what, err, len(answer))
	}
	if res.StatusCode >= 500 && res.StatusCode != http.StatusNotImplemented &&
		res.StatusCode != http.StatusServiceUnavailable {
		g.t.Errorf("%s: %s %.500s", what, res.Status, answer)
	}
	if res.StatusCode >= 400 {
		g.checkRefusal(what, answer)
	}
	return res.StatusCode, answer
}

// values matches the values in a refusal: quoted texts, numbers and long runs of x or y.
var values = regexp.MustCompile(
	`"(?:[^"\\]|\\.)*"|[0-9][0-9.e+]*|x{9,}|y{9,}`,
) // table: compiled once

// checkRefusal checks that a refusal has a message, and keeps one without a hint for checkHints.
func (g *hostileClient) checkRefusal(what string, answer []byte) {
	g.t.Helper()
	var said struct {
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		g.t.Errorf("%s: the refusal is not JSON: %.300q", what, answer)
		return
	}
	var own struct{ Message, Hint string }
	if json.Unmarshal(said.Error, &own) != nil { // Prometheus's API has a text there
		if json.Unmarshal(said.Error, &own.Message) != nil || own.Message == "" {
			g.t.Errorf("%s: no message: %.300q", what, answer)
		}
		return
	}
	if own.Message == "" {
		g.t.Errorf("%s: no message: %.300q", what, answer)
	}
	if len(answer) > 20_000 {
		g.t.Errorf("%s: a refusal of %d bytes", what, len(answer))
	}
	if own.Hint == "" {
		g.refusals[values.ReplaceAllString(own.Message, "…")] = what
	}
}

// TestHostileRequests sends invalid requests to each path of the server. The server must survive,
// report the mistakes, and continue to record.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(
		t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0",
		"--profile", "off",
	)
	base, token, ok := strings.Cut(c.waitForLine(t, "http://127.0.0.1:", 30*time.Second), "?token=")
	if !ok {
		t.Fatal("the address has no token")
	}
	g := &hostileClient{t: t, base: base, token: token, refusals: map[string]string{}}
	newest := func() float64 {
		var h struct {
			Newest float64 `json:"now_ms"`
			Faults uint64
		}
		_, b := g.do("GET", "api/health", nil, "")
		if err := json.Unmarshal(b, &h); err != nil {
			t.Fatalf("%v in %s", err, b)
		}
		if h.Faults != 0 {
			t.Fatalf("a request has caused an internal error: %s", b)
		}
		return h.Newest
	}
	eventually(t, "it records", 20*time.Second, func() error {
		if newest() == 0 {
			return errors.New("nothing yet")
		}
		return nil
	})
	sets := func() string {
		_, b := g.do("GET", "api/datasets", nil, "")
		var list struct {
			Datasets []struct{ Sentence, State string }
		}
		if err := json.Unmarshal(b, &list); err != nil {
			t.Fatalf("%v in %s", err, b)
		}
		return fmt.Sprint(list)
	}
	before := sets()

	all := map[string][]string{"/": {"GET"}}
	for path, methods := range web.Routes() {
		all[path] = methods
	}
	for path, methods := range prom.Routes() {
		all["/api/v1/"+path] = methods
	}
	bodies := hostileBodies(t)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		at := newest()
		g.hostileNames(path, all[path])
		for _, method := range all[path] {
			if method == "POST" {
				g.hostilePosts(path, bodies)
			} else {
				g.hostileGets(path)
			}
		}
		g.otherMethods(path, all[path])
		eventually(t, "it records after "+path, 10*time.Second, func() error {
			if newest() <= at {
				return errors.New("nothing new")
			}
			return nil
		})
	}
	if after := sets(); after != before {
		t.Errorf("the datasets have changed: %s, before %s", after, before)
	}
	g.checkHints()
	t.Logf("%d requests to %d paths", g.requests, len(all))
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if status := c.end(t, 20*time.Second); status != 0 {
		t.Errorf("it ends with status %d", status)
	}
}

// filled returns a path with text in place of each name in braces.
func filled(path, text string) string {
	for {
		before, rest, found := strings.Cut(path, "{")
		if !found {
			return strings.TrimPrefix(path, "/")
		}
		_, after, _ := strings.Cut(rest, "}")
		path = before + url.PathEscape(text) + after
	}
}

// hostileNames sends requests with hostile names in the path.
func (g *hostileClient) hostileNames(path string, methods []string) {
	if !strings.Contains(path, "{") {
		return
	}
	for _, text := range hostileTexts {
		for _, method := range methods {
			g.do(method, filled(path, text), []byte("{}"), "application/json")
		}
	}
	for _, action := range []string{"suspend", "resume", "discard", "destroy", "start", "stop", "remove"} {
		for _, id := range []string{"0", "-1", "4294967295", "99999999999999999999", "NaN", "ü"} {
			g.do(
				"POST", filled(strings.ReplaceAll(path, "{action}", action), id), []byte("{}"),
				"application/json",
			)
		}
	}
}

// parameterNames are the parameters of culprit's API, and two unknown ones. prometheusNames are
// those of Prometheus's API. culprit refuses unknown parameters, Prometheus's API ignores them.
//
// table: names
var (
	parameterNames = []string{
		"q",
		"from",
		"to",
		"step",
		"columns",
		"top",
		"name",
		"statistic",
		"text",
		"id",
		"before",
		"after",
		"a",
		"b",
		"norm",
		"by",
		"nothing",
		"\xff",
	}

	prometheusNames = []string{
		"query",
		"start",
		"end",
		"step",
		"time",
		"timeout",
		"limit",
		"match[]",
		"metric",
		"nothing",
	}
)

// hostileGets sends GET requests with a hostile value of each parameter.
func (g *hostileClient) hostileGets(path string) {
	at := filled(path, "x")
	if strings.Contains(path, "/tool/") {
		at = filled(path, "nic")
	}
	names := parameterNames
	if strings.HasPrefix(path, "/api/v1/") {
		names = prometheusNames
	}
	for _, name := range names {
		for _, text := range hostileTexts {
			v := url.Values{name: {text}}
			for more, good := range map[string]string{
				"q":       "cpu.time by mode",
				"query":   "culprit_cpu_time_seconds_total",
				"start":   "1",
				"end":     "2",
				"step":    "1",
				"match[]": "up",
			} {
				if more != name && (strings.HasPrefix(path, "/api/v1/") == (more != "q")) &&
					more != "step" ||
					more == "step" && strings.Contains(path, "range") && name != "step" {
					v.Set(more, good)
				}
			}
			if _, said := g.do("GET", at+"?"+v.Encode(), nil, ""); bytes.Contains(
				said, []byte("there is no parameter"),
			) {
				break // an unknown parameter: other values have the same answer
			}
		}
	}
	g.do("GET", at+"?%zz", nil, "")
	g.do("GET", at+"?"+strings.Repeat("q=x&", 30_000), nil, "")
}

// hostilePosts sends POST requests with hostile bodies.
func (g *hostileClient) hostilePosts(path string, bodies [][]byte) {
	at := filled(strings.ReplaceAll(path, "{action}", "discard"), "4294967295")
	for _, b := range bodies {
		kind := "application/json"
		switch {
		case strings.HasPrefix(path, "/api/v1/"):
			kind = "application/x-www-form-urlencoded"
		case path == "/api/profiles":
			kind = "application/octet-stream"
		}
		if inner, ok := bytes.CutSuffix(b, []byte("}")); ok && strings.HasSuffix(path, "/take") &&
			!bytes.Contains(b, []byte("seconds")) {
			b = append(slices.Clone(inner), `,"seconds":0.1}`...) // the default is ten
		}
		g.do("POST", at, b, kind)
	}
	g.truncatedPost(at)
}

// truncatedPost sends the start of a request with a body and closes the connection.
func (g *hostileClient) truncatedPost(path string) {
	g.t.Helper()
	host := strings.TrimSuffix(strings.TrimPrefix(g.base, "http://"), "/")
	for _, head := range []string{"Content-Length: 1000000", "Transfer-Encoding: chunked"} {
		c, err := net.Dial("tcp", host)
		if err != nil {
			g.t.Errorf("%s: %v", path, err)
			return
		}
		_, err = fmt.Fprintf(
			c,
			"POST /%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nX-Culprit: 1\r\n"+
				"Content-Type: application/json\r\n%s\r\n\r\n5\r\n{\"se",
			path, host, g.token, head,
		)
		if err := errors.Join(err, c.Close()); err != nil {
			g.t.Errorf("%s: %v", path, err)
		}
	}
}

// otherMethods sends requests with methods that the path does not have.
func (g *hostileClient) otherMethods(path string, methods []string) {
	g.t.Helper()
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "TRACE", "NOTHING"} {
		if slices.Contains(methods, method) || path == "/" {
			continue
		}
		status, _ := g.do(method, filled(path, "x"), []byte("{}"), "application/json")
		if status != http.StatusMethodNotAllowed {
			g.t.Errorf("%s %s: status %d", method, path, status)
		}
	}
}

// checkHints checks that the message of each refusal without a hint says what is valid.
func (g *hostileClient) checkHints() {
	g.t.Helper()
	right := regexp.MustCompile(
		`at most|from .* to |is no |is not |is neither|is not before|must be|expected|` +
			`should stand|should be|out of range: |it takes|there is no |is given|ask for|choose|` +
			`can add|no probe matches|there is nothing at|zero byte|out of range$|URL escape`,
	)
	for message, what := range g.refusals {
		if !right.MatchString(message) {
			g.t.Errorf("a refusal does not say what is valid: %s (%.300s)", message, what)
		}
	}
}
