package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view/mcp"
	"culprit/view/web/api"

	"go.yaml.in/yaml/v3"
)

// description is docs/openapi.yaml, decoded: the part of OpenAPI 3.1 that the file uses. An unknown
// word fails the test, since it would not be checked.
type description struct {
	Paths      map[string]map[string]*operation
	Components struct {
		Schemas    map[string]*schema
		Parameters map[string]*parameter
		Responses  map[string]*response
	}
}

type operation struct {
	Summary     string
	Description string
	Parameters  []*parameter
	RequestBody *struct {
		Required bool
		Content  map[string]media
	} `yaml:"requestBody"`
	Responses map[string]*response
}

type parameter struct {
	Ref         string `yaml:"$ref"`
	Name, In    string
	Required    bool
	Example     string
	Description string
	Schema      *schema
}

type response struct {
	Ref         string `yaml:"$ref"`
	Description string
	Content     map[string]media
}

type media struct {
	Schema  *schema
	Example any
	Events  map[string]*schema `yaml:"x-events"`
}

type schema struct {
	Ref        string `yaml:"$ref"`
	Type       any    // a word or a list of words
	Enum       []any
	Properties map[string]*schema
	Required   []string
	// An object has no other properties unless this is true.
	Open        bool `yaml:"additionalProperties"`
	Items       *schema
	OneOf       []*schema `yaml:"oneOf"`
	Description string
	Format      string
	Minimum     *float64
	Maximum     *float64
	MinItems    int `yaml:"minItems"`
	MaxItems    int `yaml:"maxItems"`
	MaxLength   int `yaml:"maxLength"`
}

func readDescription(t *testing.T) *description {
	t.Helper()
	text, err := os.ReadFile("../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := yaml.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	for _, known := range []string{"openapi", "info", "servers", "security"} {
		if root[known] == nil {
			t.Errorf("%s is missing", known)
		}
		delete(root, known)
	}
	delete(root["components"].(map[string]any), "securitySchemes")
	rest, err := yaml.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	var d description
	dec := yaml.NewDecoder(strings.NewReader(string(rest)))
	dec.KnownFields(true)
	if err := dec.Decode(&d); err != nil {
		t.Fatal(err)
	}
	return &d
}

func (d *description) parameter(p *parameter) *parameter {
	if p.Ref != "" {
		return d.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
	}
	return p
}

func (d *description) response(o *operation, status int) *response {
	r := o.Responses[fmt.Sprint(status)]
	if r == nil {
		r = o.Responses["default"]
	}
	if r != nil && r.Ref != "" {
		r = d.Components.Responses[strings.TrimPrefix(r.Ref, "#/components/responses/")]
	}
	return r
}

// check returns what is wrong with a value.
func (d *description) check(s *schema, v any, at string) error {
	if s == nil {
		return fmt.Errorf("%s: no schema", at)
	}
	if s.Ref != "" {
		return d.check(
			d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")], v, at,
		)
	}
	if len(s.OneOf) > 0 {
		var all []string
		fits := 0
		for _, one := range s.OneOf {
			if err := d.check(one, v, at); err != nil {
				all = append(all, err.Error())
			} else {
				fits++
			}
		}
		if fits != 1 {
			return fmt.Errorf(
				"%s: fits %d of %d: %s", at, fits, len(s.OneOf), strings.Join(all, "; "),
			)
		}
		return nil
	}
	types, ok := s.Type.([]any)
	if !ok {
		types = []any{s.Type}
	}
	kind := ""
	switch v := v.(type) {
	case nil:
		kind = "null"
	case bool:
		kind = "boolean"
	case string:
		kind = "string"
	case float64:
		if kind = "number"; v == float64(int64(v)) && !slices.Contains(types, "number") {
			kind = "integer"
		}
	case []any:
		kind = "array"
	case map[string]any:
		kind = "object"
	}
	if !slices.Contains(types, any(kind)) {
		return fmt.Errorf("%s: is %s, not %v", at, kind, s.Type)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%s: %v is none of %v", at, v, s.Enum)
	}
	switch v := v.(type) {
	case []any:
		for i, one := range v {
			if err := d.check(s.Items, one, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				return fmt.Errorf("%s: %s is missing", at, name)
			}
		}
		for name, one := range v {
			if s.Open {
				continue
			}
			if s.Properties[name] == nil {
				return fmt.Errorf("%s: %s is not described", at, name)
			}
			if err := d.check(s.Properties[name], one, at+"."+name); err != nil {
				return err
			}
		}
	}
	return nil
}

// described returns a server with an example of everything that the API describes.
func described(t *testing.T) (*site, *memory) {
	m := tooled(t)
	plain := newMemory(t)
	for _, st := range plain.stats {
		if m.stat(st.ID) == nil {
			m.stats = append(m.stats, st)
		}
	}
	m.sets = plain.sets
	for i := range m.sets {
		m.sets[i].Stat = *m.stat(m.sets[i].Query.Stat)
	}
	for i := range m.ticks {
		m.ticks[i].rows["tcp.rtt"] = []line{{[]string{"a"}, 1e6}, {[]string{"b"}, 2.5}}
	}
	for len(m.ticks) < 12 { // two times to compare
		again := m.ticks[len(m.ticks)-1]
		again.at += second
		m.ticks = append(m.ticks, again)
	}
	addLatencies(m)
	m.report(start+2*second, `{"host":"here","findings":[]}`)
	m.changes = []measure.Change{
		{At: start, Actor: "default", Action: "made", Dataset: 1, Query: "x"},
		{
			At:      start,
			Actor:   "page",
			Action:  "discarded",
			Dataset: 1,
			Query:   "x",
			Over:    measure.Interval{Start: start, End: start + second},
		},
	}
	m.programs = []measure.Script{
		{ID: 1, Name: "one", Text: "BEGIN", State: measure.ScriptRunning, Stats: m.stats[:2]},
		{ID: 2, Name: "two", Text: "END", Reason: "x", State: measure.ScriptOverBudget},
	}
	m.stats[0].Program = "BEGIN"
	s := serve(
		t, stacked{m}, func(s *Server) {
			s.Scripts, s.Sample = scripted{m}, sampler(nil)
			s.Complete = func(context.Context, Completing) (*Completion, error) {
				return &Completion{To: 1, Words: []CompletionWord{{"pid", "variable", ""}}}, nil
			}
			s.Fleet, s.HostAddress = &cluster{}, "https://{host}:7410/"
			s.MCP = mcp.Handler(mcp.New(listed{m}, "1"))
		},
	).until(start + 12*second)
	s.upload("example", "main;work;copy 3\nmain;idle 1\n")
	return s, m
}

// Every route is described, and every description has a route.
func TestEveryRouteIsDescribed(t *testing.T) {
	d := readDescription(t)
	s := New(newMemory(t), About{}, token)
	defer s.Close()
	of := func(path, method string) string { return strings.ToUpper(method) + " " + path }
	var served, documented []string
	for path, methods := range s.routes() {
		for method := range methods {
			served = append(served, of(path, method))
		}
	}
	for path, methods := range d.Paths {
		for method := range methods {
			documented = append(documented, of(path, method))
		}
	}
	slices.Sort(served)
	slices.Sort(documented)
	if !slices.Equal(served, documented) {
		t.Errorf("served    %v\ndescribed %v", served, documented)
	}
}

// The running server matches every description: the shape of replies, and each parameter with its
// example. It refuses parameters that are not described.
func TestDescriptionHolds(t *testing.T) {
	d := readDescription(t)
	s, m := described(t)
	// ask makes a request with the parameters, examples where they are required, and checks the
	// answer.
	ask := func(path, method string, o *operation, given map[string]string) (status int) {
		t.Helper()
		query, headers := url.Values{}, []string{}
		address := path
		for _, p := range o.Parameters {
			p = d.parameter(p)
			v, ok := given[p.Name]
			if !ok && !p.Required {
				continue
			}
			if !ok {
				v = p.Example
			}
			switch p.In {
			case "query":
				query.Set(p.Name, v)
			case "path":
				address = strings.Replace(address, "{"+p.Name+"}", v, 1)
			case "header":
				headers = append(headers, p.Name, v)
			}
		}
		if v, ok := given["no-such-parameter"]; ok {
			query.Set("no-such-parameter", v)
		}
		body := ""
		if o.RequestBody != nil {
			if file, ok := o.RequestBody.Content["application/octet-stream"]; ok {
				body = file.Example.(string)
				headers = append(headers, "Content-Type", "application/octet-stream")
			} else {
				b, err := json.Marshal(o.RequestBody.Content["application/json"].Example)
				if err != nil {
					t.Fatal(err)
				}
				body = string(b)
			}
		}
		if given["body"] != "" {
			body = given["body"]
		}
		if given["accept"] != "" {
			headers = append(headers, "Accept", given["accept"])
		}
		res := s.request(strings.ToUpper(method), address+"?"+query.Encode(), body, headers...)
		what := fmt.Sprintf("%s %s %v", method, address, given)
		r := d.response(o, res.StatusCode)
		if r == nil {
			t.Errorf("%s: status %d is not described", what, res.StatusCode)
			return res.StatusCode
		}
		kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
		one, ok := r.Content[kind]
		if err != nil || !ok {
			t.Errorf("%s: type %q is not described", what, kind)
			return res.StatusCode
		}
		switch kind {
		case "application/json":
			b, err := io.ReadAll(res.Body)
			var v any
			if err == nil {
				err = json.Unmarshal(b, &v)
			}
			if err == nil {
				err = d.check(one.Schema, v, "answer")
			}
			if err != nil {
				t.Errorf("%s: %v\n%.300s", what, err, b)
			}
		case "text/event-stream":
			name, data := sse(t, bufio.NewReader(res.Body))
			var v any
			if err := json.Unmarshal([]byte(data), &v); err != nil || one.Events[name] == nil {
				t.Errorf("%s: event %q: %v", what, name, err)
			} else if err := d.check(one.Events[name], v, name); err != nil {
				t.Errorf("%s: %v\n%.300s", what, err, data)
			}
			if err := res.Body.Close(); err != nil {
				t.Error(err)
			}
		}
		return res.StatusCode
	}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		stop := func() {}
		if strings.HasPrefix(path, "/debug/") { // it waits for ticks
			stop = m.run()
		}
		for method, o := range d.Paths[path] {
			if o.Summary == "" {
				t.Errorf("%s %s has no summary", method, path)
			}
			if got := ask(path, method, o, nil); got != 200 {
				t.Errorf("%s %s with its examples: %d", method, path, got)
			}
			for _, p := range o.Parameters {
				p = d.parameter(p)
				if p.Example == "" || p.Schema == nil {
					t.Errorf(
						"%s %s: parameter %s has no example or no schema", method, path, p.Name,
					)
				}
				if got := ask(path, method, o, map[string]string{p.Name: p.Example}); got != 200 {
					t.Errorf("%s %s with %s=%s: %d", method, path, p.Name, p.Example, got)
				}
				if p.Schema.Maximum != nil {
					above := fmt.Sprint(int(*p.Schema.Maximum) + 1)
					if got := ask(path, method, o, map[string]string{p.Name: above}); got != 400 {
						t.Errorf("%s %s with %s above its maximum: %d", method, path, p.Name, got)
					}
				}
				if p.Schema.MaxLength > 0 {
					long := strings.Repeat("x", p.Schema.MaxLength+1)
					if got := ask(path, method, o, map[string]string{p.Name: long}); got != 400 {
						t.Errorf("%s %s with %s above its length: %d", method, path, p.Name, got)
					}
				}
				if e := p.Schema.Enum; p.In == "path" && len(e) > 0 {
					for _, v := range e {
						body := "{}"
						if v == "discard" {
							body = `{"from_ms":1,"to_ms":2}`
						}
						given := map[string]string{p.Name: v.(string), "body": body, "id": "2"}
						if got := ask(path, method, o, given); got != 200 {
							t.Errorf("%s %s with %s=%s: %d", method, path, p.Name, v, got)
						}
					}
				}
			}
			if method == "get" {
				if got := ask(path, method, o, map[string]string{"no-such-parameter": "1"}); got != 400 {
					t.Errorf("%s %s with an unknown parameter: %d", method, path, got)
				}
			}
		}
		stop()
	}
	// The examples don't reach these: the rest row, minimum and maximum, an error with a position,
	// columns, a refused answer, a boolean cell.
	o := d.Paths["/api/ask"]["get"]
	from := fmt.Sprint(int64(start / 1e6))
	for _, given := range []map[string]string{
		{"q": "net.device.bytes by device,direction", "from": from, "top": "1", "step": "2s"},
		{"q": "no.such"},
		{"q": "memory.free by x"},
		{"accept": api.ColumnsType},
		{"q": `tcp.rtt where peer = "denied"`},
		{"q": "tcp.rtt by peer", "from": from, "top": "1"},
	} {
		ask("/api/ask", "get", o, given)
	}
	ask(
		"/api/live", "get", d.Paths["/api/live"]["get"],
		map[string]string{"q": `tcp.rtt where peer = "denied"`},
	)
	for _, tool := range []string{"nic", "link", "use", "ps", "flows"} {
		ask(
			"/api/tool/{name}", "get", d.Paths["/api/tool/{name}"]["get"],
			map[string]string{"name": tool, "from": from},
		)
	}
	ask(
		"/api/scripts", "post", d.Paths["/api/scripts"]["post"],
		map[string]string{"body": `{"text":"wrong x"}`},
	)
	ask(
		"/api/profiles", "post", d.Paths["/api/profiles"]["post"],
		map[string]string{"body": "these are no stacks"},
	)
	ask(
		"/api/changed", "get", d.Paths["/api/changed"]["get"],
		map[string]string{"accept": "text/event-stream"},
	)
	ask("/api/profile", "get", d.Paths["/api/profile"]["get"], map[string]string{"id": "none"})
	ask(
		"/api/profile/changes", "get", d.Paths["/api/profile/changes"]["get"],
		map[string]string{"after": s.upload("other", "main;work 2\nmain;other 30\n").ID},
	)
	m.mu.Lock()
	m.sets[0].State = measure.Suspended
	m.mu.Unlock()
	ask("/api/datasets", "get", d.Paths["/api/datasets"]["get"], nil)
}

// The check of shapes refuses wrong shapes.
func TestTheCheckCanFail(t *testing.T) {
	d := readDescription(t)
	for text, s := range map[string]*schema{
		`{"reason":"x"}`:                       {Ref: "#/components/schemas/Loss"},
		`{"reason":"x","events":1.5}`:          {Ref: "#/components/schemas/Loss"},
		`{"reason":null,"events":1}`:           {Ref: "#/components/schemas/Loss"},
		`{"reason":"x","events":1,"more":"x"}`: {Ref: "#/components/schemas/Loss"},
		`"other"`:                              {Ref: "#/components/schemas/Kind"},
		`[1,"x"]`:                              {Type: "array", Items: &schema{Type: "number"}},
		`1`:                                    {OneOf: []*schema{{Type: "number"}, {Type: "integer"}}},
		`2`:                                    {Ref: "#/components/schemas/NoSuch"},
	} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if d.check(s, v, "value") == nil {
			t.Errorf("%s passes", text)
		}
	}
}
