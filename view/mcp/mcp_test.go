package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"culprit/measure"
	"culprit/view/show"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// table is the rows of the fake machine's statistic process.cpu by their process, in each second.
type table map[string]float64

// machine is a fake machine with one statistic: process.cpu by process.
type machine struct {
	rows  table
	over  measure.Interval // of a recording; zero: live
	hang  bool             // Watch waits until the context ends
	panic bool             // Watch panics
}

func (m *machine) Stats() []measure.Stat {
	return []measure.Stat{{
		ID: "process.cpu", Kind: measure.Delta, Unit: measure.Nanoseconds, Help: "CPU time",
		Fields: []measure.Field{{Name: "process", Type: measure.Word}},
	}}
}

func (m *machine) Parse(text string) (measure.Query, error) {
	q, err := measure.ParseQuery(text)
	if err == nil && q.Stat != "process.cpu" {
		err = &measure.Diagnostic{
			Text: text, Len: len(q.Stat), Code: "unknown-statistic",
			Message: "there is no statistic " + string(q.Stat), Hint: "did you mean process.cpu?",
		}
	}
	return q, err
}

func (m *machine) Watch(
	ctx context.Context, queries []measure.Query, each func(*measure.Tick) error,
) error {
	if m.panic {
		panic("the machine is broken")
	}
	if m.hang {
		<-ctx.Done()
		return nil
	}
	at, step := measure.Time(1e18), queries[0].Step
	if m.over != (measure.Interval{}) {
		at = m.over.Start
	}
	for ctx.Err() == nil && (m.over.End == 0 || at < m.over.End) {
		tick := &measure.Tick{Over: measure.Interval{Start: at, End: at.Add(step)}}
		for _, q := range queries {
			a := &measure.Answer{
				Query: q, Kind: measure.Delta, Unit: measure.Ratio, Start: at, Step: step,
				Elapsed: []measure.Span{step},
			}
			for name, v := range m.rows {
				a.Labels = append(a.Labels, name)
				a.Series = append(a.Series, measure.Series{
					Key: []measure.Label{measure.Label(len(a.Labels) - 1)}, Values: []float64{v},
				})
			}
			tick.Answers = append(tick.Answers, a)
		}
		if err := each(tick); err != nil {
			return err
		}
		at = at.Add(step)
	}
	return nil
}

func (m *machine) Record(
	ctx context.Context, _ []measure.Query, _ int, _ func(int),
) (measure.Reader, error) {
	if m.hang {
		<-ctx.Done()
	}
	return nothing{}, nil
}

// nothing is a reader without any statistic.
type nothing struct{}

func (nothing) Ask(context.Context, measure.Query) (*measure.Answer, error) {
	return nil, measure.ErrUnsupported
}

// recording holds a machine from start to end. Rows differ before and after half of the time.
type recording struct {
	held          measure.Interval
	before, after table
	documents     map[measure.Time]string
}

func (r *recording) Held() measure.Interval { return r.held }
func (r *recording) Remark() string         { return "" }
func (r *recording) Trouble() []string      { return nil }
func (r *recording) Close() error           { return nil }

func (r *recording) Replay(over measure.Interval, _ string) show.Machine {
	rows := r.before
	if over.Start >= r.held.Start.Add(r.held.Span()/2) {
		rows = r.after
	}
	return &machine{rows: rows, over: over}
}

func (r *recording) Findings(
	_ context.Context, over measure.Interval, each func(measure.Time, []byte) error,
) error {
	for at := over.Start; at <= over.End; at = at.Add(measure.Second) {
		if d, ok := r.documents[at]; ok {
			if err := each(at, []byte(d)); err != nil {
				return err
			}
		}
	}
	return nil
}

// host is a fake host.
type host struct {
	live     *machine
	recorded *recording
	done     chan struct{} // gets a value at the end of each call, if it is not nil
}

func (h *host) Live(netns string, _ bool) (show.Machine, error) {
	switch {
	case netns == "nowhere":
		return nil, show.Usagef("there is no network namespace nowhere")
	case h.live == nil:
		return nil, nil
	}
	return h.live, nil
}

func (h *host) Recording() (show.Recorded, error) {
	if h.recorded == nil {
		return nil, errors.New("nothing was recorded")
	}
	return h.recorded, nil
}

func (h *host) Stats() ([]measure.Stat, error) { return (&machine{}).Stats(), nil }

func (h *host) Do(ctx context.Context, f func(context.Context) error) error {
	err := f(ctx)
	if h.done != nil {
		h.done <- struct{}{}
	}
	return err
}

// connect returns a client of the SDK's that is connected to a server of the host in memory.
func connect(t *testing.T, h Host) *sdk.ClientSession {
	t.Helper()
	ours, theirs := sdk.NewInMemoryTransports()
	if _, err := New(h, "1").Connect(t.Context(), ours, nil); err != nil {
		t.Fatal(err)
	}
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() }) // the server's end may have closed it
	return session
}

// call calls a tool and returns its text and its structured content.
func call(
	t *testing.T, c *sdk.ClientSession, name, arguments string,
) (text string, structured map[string]any, isError bool) {
	t.Helper()
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{
		Name: name, Arguments: json.RawMessage(arguments),
	})
	if err != nil {
		t.Fatalf("%s %s: %v", name, arguments, err)
	}
	structured, ok := r.StructuredContent.(map[string]any)
	if !ok || len(r.Content) != 1 {
		t.Fatalf("%s %s: %+v", name, arguments, r)
	}
	return r.Content[0].(*sdk.TextContent).Text, structured, r.IsError
}

// recent returns a recording of the last ten minutes.
func recent() *recording {
	end := measure.Time(time.Now().Unix()) * 1e9
	return &recording{
		held:   measure.Interval{Start: end.Add(-600 * measure.Second), End: end},
		before: table{"nginx": 0.5, "cron": 0.25}, after: table{"nginx": 2, "cron": 0.25},
	}
}

// Each tool says that it only reads, and is described in few words.
func TestTools(t *testing.T) {
	c := connect(t, &host{live: &machine{}})
	all, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range all.Tools {
		names = append(names, tool.Name)
		if tool.Annotations == nil || !tool.Annotations.ReadOnlyHint {
			t.Errorf("%s does not say that it only reads", tool.Name)
		}
		if n := len(tool.Description); n == 0 || n > 200 && tool.Name != "tool" {
			t.Errorf("%s: a description of %d bytes", tool.Name, n)
		}
		schema, ok := tool.InputSchema.(map[string]any)
		if !ok || schema["additionalProperties"] != false {
			t.Errorf("%s: other arguments are not refused: %v", tool.Name, tool.InputSchema)
		}
		for name, p := range schema["properties"].(map[string]any) {
			if p.(map[string]any)["description"] == nil {
				t.Errorf("%s: %s has no description", tool.Name, name)
			}
		}
	}
	want := "ask compare diagnose findings profile_diff tool"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("tools %s, want %s", got, want)
	}
	if b, err := json.Marshal(all); err != nil || len(b) > 12_000 {
		t.Errorf("the list has %d bytes, %v", len(b), err)
	}
}

// A mistake is a tool error that names it, with its position if it is in a text.
func TestMistakes(t *testing.T) {
	c := connect(t, &host{live: &machine{rows: table{"a": 1}}, recorded: recent()})
	for _, tt := range []struct{ tool, arguments, want string }{
		{"ask", `{}`, `query`},
		{"ask", `[]`, `the arguments are not an object`},
		{"ask", `null`, `query`},
		{"ask", `{"query": 1}`, `query: type`},
		{"ask", `{"querry": "process.cpu"}`, `no argument "querry"; did you mean query?`},
		{"ask", `{"query": "process.cpo by process"}`, "column 1:\n  process.cpo by process\n  ^^^"},
		{"ask", `{"query": "process.cpu by"}`, "column 15:"},
		{"ask", `{"query": "` + strings.Repeat("x", 5000) + `"}`, "query: maxLength"},
		{"ask", `{"query": "process.cpu", "rows": 501}`, "rows: maximum: 501 is greater than 500"},
		{"ask", `{"query": "process.cpu", "rows": 0}`, "rows: minimum: 0 is less than 1"},
		{"ask", `{"query": "process.cpu", "rows": 1.5}`, "rows: type"},
		{"ask", `{"query": "process.cpu", "seconds": -1}`, "seconds: minimum"},
		{"ask", `{"query": "process.cpu", "seconds": 30, "intervals": 3}`,
			"3 intervals of 30 s are longer than 60 s"},
		{"ask", `{"query": "process.cpu", "from": "soon"}`, `from "soon": this is not a time`},
		{"ask", `{"query": "process.cpu", "to": "now"}`, `to needs from`},
		{"ask", `{"query": "process.cpu", "from": "-1m", "to": "-2m"}`, `from -1m is after to -2m`},
		{"ask", `{"query": "process.cpu", "netns": "nowhere"}`, `no network namespace nowhere`},
		{"tool", `{"name": "nik"}`, `name: enum`},
		{"tool", `{"name": "nic", "options": {"devices": "lo"}}`, `no option "devices"`},
		{"tool", `{"name": "nic", "options": {"interface": []}}`, `options.interface needs a value`},
		{"tool", `{"name": "nic", "options": {"interface": 7}}`, `options: `},
		{"tool", `{"name": "nic", "options": {"idle": "x"}}`, `options.idle takes no value`},
		{"diagnose", `{"seconds": 61}`, `seconds: maximum`},
		{"diagnose", `{"from": "1990-01-01"}`, `at most 7 days`},
		{"diagnose", `{"from": "-3s", "to": "-2s"}`, `too short for a diagnosis`},
		{"findings", `{"from": "1990-01-01"}`, `at most 7 days`},
		{"compare", `{"before_from": "-1m", "before_to": "x", "after_from": "-1m"}`,
			`before_to "x": this is not a time`},
		{"compare", `{"before_from": "-1m"}`, `before_to`},
		{"compare", `{"before_from": "-4m", "before_to": "-3m", "after_from": "-1m", ` +
			`"queries": ["memory.size"]}`, "column 1:\n  memory.size"},
		{"profile_diff", `{"before_from": "-9999d", "before_to": "-1d", "after_from": "-1m"}`,
			"nothing was recorded before"},
	} {
		text, structured, isError := call(t, c, tt.tool, tt.arguments)
		if !isError || !strings.Contains(text, tt.want) {
			t.Errorf("%s %.200s: error %v: %s\nwant %s", tt.tool, tt.arguments, isError, text, tt.want)
		}
		if e, ok := structured["error"].(map[string]any); !ok || e["message"] == "" ||
			e["code"] == "failed" {
			t.Errorf("%s %.200s: %v", tt.tool, tt.arguments, structured)
		}
	}
	_, structured, _ := call(t, c, "ask", `{"query": "process.cpu by"}`)
	if got := structured["error"].(map[string]any)["position"]; got != 14.0 {
		t.Errorf("the position is %v", got)
	}
}

// Rows beyond the limit are left out with a note, and so are those for which there is no space.
func TestOutputIsBounded(t *testing.T) {
	m := &machine{rows: table{}}
	for i := range 10_000 {
		m.rows[fmt.Sprint(i, strings.Repeat("x", 1000))] = float64(i)
	}
	c := connect(t, &host{live: m})
	for _, rows := range []int{3, 500} {
		text, structured, isError := call(t, c, "ask", fmt.Sprintf(
			`{"query": "process.cpu by process", "rows": %d}`, rows))
		if isError || len(text) > maxResult {
			t.Fatalf("%d bytes, error %v: %.300s", len(text), isError, text)
		}
		one := structured["tables"].([]any)[0].(map[string]any)
		got := one["rows"].([]any)
		if len(got) == 0 || len(got) > rows || rows == 3 && len(got) != 3 {
			t.Errorf("%d rows of %d", len(got), rows)
		}
		if v := got[0].(map[string]any)["value"]; v != 9999.0 {
			t.Errorf("the first row has %v", v)
		}
		if !strings.Contains(fmt.Sprint(one["notes"]), "more rows are left out") {
			t.Errorf("notes %v", one["notes"])
		}
	}
	// One row that is too long is an error.
	m.rows = table{strings.Repeat("y", 2*maxResult): 1}
	text, structured, isError := call(t, c, "ask", `{"query": "process.cpu by process"}`)
	if !isError || !strings.Contains(text, "ask for fewer rows") || structured["error"] == nil {
		t.Errorf("%v %.200s", isError, text)
	}
}

// A secret in a command line is in neither form of a result, nor in an error.
func TestSecretsAreMasked(t *testing.T) {
	c := connect(t, &host{live: &machine{rows: table{
		`mysql -psesame --host=db`: 1, `curl "https://u:sesame@h/"`: 2, `x --token=sesame 'y"`: 3,
		"plain name": 4,
	}}})
	for _, arguments := range []string{
		`{"query": "process.cpu by process"}`,
		`{"query": "nonsense where process = \"--password=sesame\""}`,
	} {
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{
			Name: "ask", Arguments: json.RawMessage(arguments),
		})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "sesame") || !strings.Contains(string(b), "***") {
			t.Errorf("%s", b)
		}
		if !r.IsError && !strings.Contains(string(b), "plain name") {
			t.Errorf("a name without a secret is missing: %s", b)
		}
	}
}

// A cancelled call ends, and the next one runs.
func TestCancelledCallEnds(t *testing.T) {
	h := &host{live: &machine{hang: true, rows: table{"a": 1}}, done: make(chan struct{}, 1)}
	c := connect(t, h)
	for _, tt := range []struct{ tool, arguments string }{
		{"ask", `{"query": "process.cpu by process"}`}, {"diagnose", `{}`},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := c.CallTool(ctx, &sdk.CallToolParams{
			Name: tt.tool, Arguments: json.RawMessage(tt.arguments),
		})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", tt.tool, err)
		}
		select {
		case <-h.done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s runs ten seconds after it was cancelled", tt.tool)
		}
	}
	h.live.hang = false
	if text, _, isError := call(t, c, "ask", `{"query": "process.cpu"}`); isError {
		t.Error(text)
	}
}

// A panic is the error of its call.
func TestPanicIsAnError(t *testing.T) {
	h := &host{live: &machine{panic: true, rows: table{"a": 1}}}
	c := connect(t, h)
	text, _, isError := call(t, c, "ask", `{"query": "process.cpu"}`)
	if !isError || !strings.Contains(text, "the machine is broken") {
		t.Errorf("%v %s", isError, text)
	}
	h.live.panic = false
	if text, _, isError := call(t, c, "ask", `{"query": "process.cpu"}`); isError {
		t.Error(text)
	}
}
