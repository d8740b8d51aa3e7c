package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/measure"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// compare ranks rows by the change as a share of the larger total of their query.
func TestCompare(t *testing.T) {
	h := &host{recorded: recent()}
	h.recorded.before = table{"nginx": 0.5, "cron": 0.25, "gone": 0.125}
	h.recorded.after = table{"nginx": 2, "cron": 0.25, "new": 0.75}
	c := connect(t, h)
	text, structured, isError := call(t, c, "compare", `{"before_from": "-9m", "before_to": "-8m",
		"after_from": "-2m", "after_to": "-1m", "queries": ["process.cpu by process"]}`)
	if isError {
		t.Fatal(text)
	}
	var got []string
	for _, one := range structured["changes"].([]any) {
		m := one.(map[string]any)
		got = append(got, fmt.Sprintf("%v %v %v->%v %v", m["query"],
			m["key"].(map[string]any)["process"], m["before"], m["after"], m["share"]))
	}
	want := []string{ // the total is 3 after and 0.875 before
		"process.cpu nginx 0.5->2 0.5", "process.cpu new 0->0.75 0.25",
		"process.cpu gone 0.125->0 -0.041666666666666664",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("changes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if structured["format"] != 1.0 {
		t.Errorf("format %v", structured["format"])
	}
}

// Without a live machine, now is the newest time of the recording.
func TestNowOfARecording(t *testing.T) {
	h := &host{recorded: recent()}
	c := connect(t, h)
	text, structured, isError := call(t, c, "ask",
		`{"query": "process.cpu by process", "seconds": 10, "intervals": 2}`)
	if isError {
		t.Fatal(text)
	}
	all := structured["tables"].([]any)
	if len(all) != 2 {
		t.Fatalf("%d tables: %s", len(all), text)
	}
	first := all[0].(map[string]any)
	begin := h.recorded.held.End.Add(-20 * measure.Second)
	if first["start"] != begin.String() || first["seconds"] != 10.0 {
		t.Errorf("it starts at %v, want %s, and takes %v s", first["start"], begin, first["seconds"])
	}
	if v := first["rows"].([]any)[0].(map[string]any); v["process"] != "nginx" || v["value"] != 2.0 {
		t.Errorf("the first row is %v", v)
	}
}

// findings lists each finding once: the highest severity, the newest claim.
func TestFindings(t *testing.T) {
	h := &host{recorded: recent()}
	at := h.recorded.held.End
	document := func(id, severity, claim string) string {
		return fmt.Sprintf(`{"findings":[{"id":%q,"severity":%q,"claim":%q,"confidence":1,`+
			`"culprit":{"kind":"process","name":"x"},"rule":"r"}]}`, id, severity, claim)
	}
	h.recorded.documents = map[measure.Time]string{
		at.Add(-300 * measure.Second): document("a/x", "high", "old"),
		at.Add(-200 * measure.Second): document("a/x", "low", "newer"),
		at.Add(-100 * measure.Second): document("b/y", "medium", "other"),
		at.Add(-50 * measure.Second):  `{"findings":[]}`,
	}
	c := connect(t, h)
	text, structured, isError := call(t, c, "findings", `{"from": "-9m"}`)
	if isError {
		t.Fatal(text)
	}
	all := structured["findings"].([]any)
	if len(all) != 2 || structured["diagnoses"] != 4.0 {
		t.Fatalf("%s", text)
	}
	a := all[0].(map[string]any)
	if a["id"] != "a/x" || a["severity"] != "high" || a["claim"] != "newer" || a["logged"] != 2.0 ||
		a["first"] != at.Add(-300*measure.Second).String() ||
		a["last"] != at.Add(-200*measure.Second).String() {
		t.Errorf("%v", a)
	}
	if _, structured, _ = call(t, c, "findings", `{"from": "-9m", "limit": 1}`); !strings.Contains(
		fmt.Sprint(structured["notes"]), "1 more findings are left out") {
		t.Errorf("%v", structured)
	}
}

// The catalogue is a resource, in short and in parts.
func TestCatalogue(t *testing.T) {
	c := connect(t, &host{live: &machine{}})
	for uri, want := range map[string]string{
		catalogueURI: `"id":"process.cpu"`, catalogueURI + "/cpu": `"rate_unit"`,
	} {
		r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
		if err != nil || len(r.Contents) != 1 || !strings.Contains(r.Contents[0].Text, want) {
			t.Errorf("%s: %+v, %v", uri, r, err)
		}
	}
	for _, uri := range []string{catalogueURI + "/nothing", catalogueURI + "x", "file:///etc/passwd"} {
		if r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: %+v", uri, r)
		}
	}
}

// The client of the SDK uses the tools over HTTP, and what is not a message is refused.
func TestHTTP(t *testing.T) {
	s := httptest.NewServer(Handler(New(&host{live: &machine{rows: table{"a": 1}}}, "1")))
	t.Cleanup(s.Close)
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }() // of a client
	if text, _, isError := call(t, session, "ask", `{"query": "process.cpu by process"}`); isError ||
		!strings.Contains(text, `"process":"a"`) {
		t.Errorf("%v %s", isError, text)
	}
	for _, body := range []string{
		"", "{", "[]", "null", `{"jsonrpc":"2.0"}`, strings.Repeat("[", 60_000),
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`,
		strings.Repeat(" ", maxRequest+1),
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL,
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Errorf("%.100q: %v", body, err)
			continue
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close() // it was read
		if err != nil || res.StatusCode < 400 && !bytes.Contains(b, []byte(`"error"`)) {
			t.Errorf("%.100q: status %d, %s, %v", body, res.StatusCode, b, err)
		}
	}
}

// Masking keeps a document valid, its keys, and its strings without a secret.
func FuzzMaskStrings(f *testing.F) {
	f.Add(`{"a":"mysql -psesame","b":[1,"x\"--token=y"],"c":null}`)
	f.Add(`"\u0000"`)
	f.Add(`{"":"` + strings.Repeat("password=", 50) + `"}`)
	heapbound.Fuzz(f, func(t *testing.T, text string) {
		var before, after any
		if json.Unmarshal([]byte(text), &before) != nil {
			maskStrings([]byte(text)) // it must not fail
			return
		}
		masked := maskStrings([]byte(text))
		if err := json.Unmarshal(masked, &after); err != nil {
			t.Fatalf("%q becomes %q: %v", text, masked, err)
		}
		if !strings.Contains(string(masked), "***") && fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("%q becomes %q", text, masked)
		}
	})
}

// Arguments are refused or decoded within their bounds.
func FuzzArguments(f *testing.F) {
	args := newArguments[askArgs](boundTables)
	f.Add(`{"query":"cpu.time","rows":3}`)
	f.Add(`{"query":"x","seconds":1e300}`)
	f.Add(`{"rows":null}`)
	heapbound.Fuzz(f, func(t *testing.T, text string) {
		in, err := args.parse(json.RawMessage(text))
		if err == nil && (in.Rows < 1 || in.Rows > maxRows || in.Intervals < 1 ||
			in.Intervals > maxCountOf || !(in.Seconds >= 0.1 && in.Seconds <= maxSeconds) ||
			len([]rune(in.Query)) > maxTextBytes) {
			t.Errorf("%q is decoded as %+v", text, in)
		}
	})
}
