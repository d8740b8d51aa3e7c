package mcp

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"culprit/measure"
	"culprit/view"
	"culprit/view/classic"
	"culprit/view/show"
	"culprit/view/term/output"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type askArgs struct {
	Query     string  `json:"query"`
	From      string  `json:"from,omitempty"`
	To        string  `json:"to,omitempty"`
	Seconds   float64 `json:"seconds,omitempty"`
	Intervals int     `json:"intervals,omitempty"`
	Rows      int     `json:"rows,omitempty"`
	Netns     string  `json:"netns,omitempty"`
}

// addAsk adds the tool ask.
func (s *server) addAsk() {
	add(s, "ask", "Query", "Answer a query about a statistic, now or in a recorded time.",
		boundTables, s.ask)
}

func boundTables(schema *jsonschema.Schema) {
	boundTexts(schema)
	bound(schema, "seconds", 0.1, maxSeconds, 1)
	bound(schema, "intervals", 1, maxCountOf, 1)
	bound(schema, "rows", 1, maxRows, defaultRows)
}

func (s *server) ask(ctx context.Context, in askArgs) (*sdk.CallToolResult, error) {
	return s.tables(ctx, request{
		from: in.From, to: in.To, seconds: in.Seconds, intervals: in.Intervals, rows: in.Rows,
		netns: in.Netns,
	}, func(m show.Machine) (*view.Tool, error) { return toolOfQuery(m, in.Query) })
}

// toolOfQuery returns the tool that shows one query. The error is a *measure.Diagnostic.
func toolOfQuery(m show.Machine, query string) (*view.Tool, error) {
	q, err := m.Parse(query)
	if err != nil {
		return nil, err
	}
	for _, st := range m.Stats() {
		if st.ID == q.Stat {
			return view.Stat(q, &st), nil
		}
	}
	return nil, fmt.Errorf("statistic %s: %w", q.Stat, measure.ErrUnsupported)
}

type toolArgs struct {
	Name      string         `json:"name"`
	Options   map[string]any `json:"options,omitempty"`
	From      string         `json:"from,omitempty"`
	To        string         `json:"to,omitempty"`
	Seconds   float64        `json:"seconds,omitempty"`
	Intervals int            `json:"intervals,omitempty"`
	Rows      int            `json:"rows,omitempty"`
	Sort      string         `json:"sort,omitempty"`
	Netns     string         `json:"netns,omitempty"`
}

// addTool adds the tool tool. Its description lists the tools.
func (s *server) addTool() {
	var names []any
	description := "Show a table of one resource, now or in a recorded time:"
	for _, t := range classic.All() {
		names = append(names, t.Name)
		description += "\n" + t.Name + ": " + t.Short
		if len(t.Flags) > 0 {
			var flags []string
			for _, f := range t.Flags {
				flags = append(flags, f.Name)
			}
			description += " (options " + strings.Join(flags, ", ") + ")"
		}
	}
	add(s, "tool", "Table of a resource", description, func(schema *jsonschema.Schema) {
		boundTables(schema)
		schema.Properties["name"].Enum = names
		schema.Properties["options"].AdditionalProperties = &jsonschema.Schema{
			AnyOf: []*jsonschema.Schema{
				{Type: "boolean"}, {Type: "string"},
				{Type: "array", Items: &jsonschema.Schema{Type: "string"}},
			},
		}
	}, s.tool)
}

func (s *server) tool(ctx context.Context, in toolArgs) (*sdk.CallToolResult, error) {
	all := classic.All()
	i := slices.IndexFunc(all, func(t *view.Tool) bool { return t.Name == in.Name })
	if i < 0 { // the schema lists the names
		return nil, show.Usagef("there is no tool %q", in.Name)
	}
	o, err := options(all[i], in.Options)
	if err != nil {
		return nil, err
	}
	return s.tables(ctx, request{
		from: in.From, to: in.To, seconds: in.Seconds, intervals: in.Intervals, rows: in.Rows,
		sort: in.Sort, netns: in.Netns, options: o,
	}, func(show.Machine) (*view.Tool, error) { return all[i], nil })
}

// maxValues bounds the values of an option.
const maxValues = 200

// options returns the options of a tool from the values of arguments.
func options(t *view.Tool, given map[string]any) (view.Options, error) {
	o := view.Options{}
	var names []string
	for _, f := range t.Flags {
		names = append(names, f.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		i := slices.Index(names, name)
		if i < 0 && len(names) == 0 {
			return nil, show.Usagef("options: %s has no options", t.Name)
		}
		if i < 0 {
			return nil, show.Usagef("options: %s has no option %q; it has %s%s", t.Name, name,
				strings.Join(names, ", "), show.DidYouMean(name, names))
		}
		values, err := optionValues(&t.Flags[i], given[name])
		if err != nil {
			return nil, err
		}
		if values != nil {
			o[name] = values
		}
	}
	return o, nil
}

// optionValues returns the values of an option; nil: it is not set.
func optionValues(f *view.Flag, given any) ([]string, error) {
	var values []string
	on, isBool := given.(bool)
	switch v := given.(type) {
	case string:
		values = []string{v}
	case []any:
		for _, one := range v {
			text, ok := one.(string)
			if !ok {
				return nil, show.Usagef("options.%s: %v is not a text", f.Name, one)
			}
			values = append(values, text)
		}
	}
	switch {
	case isBool && !on:
		return nil, nil
	case f.Value == "" && isBool:
		return []string{""}, nil
	case f.Value == "":
		return nil, show.Usagef("options.%s takes no value: write true", f.Name)
	case len(values) == 0 || slices.Contains(values, ""):
		return nil, show.Usagef("options.%s needs a value (%s)", f.Name, f.Value)
	case len(values) > 1 && !f.Many:
		return nil, show.Usagef("options.%s takes one value, not %d", f.Name, len(values))
	case len(values) > maxValues:
		return nil, show.Usagef("options.%s: at most %d values", f.Name, maxValues)
	}
	if f.Many {
		values = view.CommaList(values)
	}
	for _, v := range values {
		if len(f.Values) > 0 && !slices.Contains(f.Values, v) {
			return nil, show.Usagef("options.%s: %q is none of %s%s", f.Name, v,
				strings.Join(f.Values, ", "), show.DidYouMean(v, f.Values))
		}
	}
	return values, nil
}

// request is what a tool with tables is asked for.
type request struct {
	from, to  string
	seconds   float64 // of an interval, now
	intervals int
	rows      int
	sort      string
	netns     string
	options   view.Options
}

// tables returns the tables of the tool that pick returns for the machine.
func (s *server) tables(
	ctx context.Context, in request, pick func(show.Machine) (*view.Tool, error),
) (*sdk.CallToolResult, error) {
	step := measure.Span(in.seconds * 1e9)
	if step*measure.Span(in.intervals) > maxSeconds*measure.Second && in.from == "" {
		return nil, show.Usagef("%d intervals of %v s are longer than %d s", in.intervals,
			in.seconds, maxSeconds)
	}
	whole := (step + show.RecordedStep - 1) / show.RecordedStep * show.RecordedStep
	o, err := open(s.host, times{
		From: in.from, To: in.to, Span: whole * measure.Span(in.intervals), Netns: in.netns,
	})
	if err != nil {
		return nil, err
	}
	defer o.close()
	if !o.isLive() {
		step = intervalOf(o.over, in.intervals, o.fine)
	}
	tool, err := pick(o.Machine)
	if err != nil {
		return nil, err
	}
	plan := &show.Table{
		Tool: tool, Options: in.options, Step: step, SortBy: in.sort, MaxRows: in.rows,
		Width: math.MaxInt, Past: !o.isLive(),
	}
	all, err := plan.First(ctx, o, in.intervals)
	if err != nil {
		return nil, err
	}
	return shorten(in.rows, func(n int) ([]byte, error) { return tablesJSON(all, n, o.notes) })
}

// intervalOf returns the length of n equal intervals of a time range, a multiple of fine.
func intervalOf(over measure.Interval, n int, fine measure.Span) measure.Span {
	return max(over.Span()/measure.Span(n)/fine*fine, fine)
}

// tablesJSON returns tables with at most rows rows each. The rows of the first calls must be at
// least those of later ones.
func tablesJSON(all []*view.Table, rows int, notes []string) ([]byte, error) {
	b := []byte(`{"format":1,"tables":[`)
	for i, t := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendJSON(b, limited(t, rows))
	}
	b = append(b, `],"notes":`...)
	return append(view.AppendValue(b, append([]string{}, notes...)), '}'), nil
}

// limited returns a table with its first rows and all totals, and a note if rows are left out.
func limited(t *view.Table, rows int) *view.Table {
	out := *t
	out.Rows, out.Notes = nil, nil
	left := 0
	for _, r := range t.Rows {
		if rows == 0 && !r.Total {
			left++
			continue
		}
		if !r.Total {
			rows--
		}
		out.Rows = append(out.Rows, r)
	}
	for _, n := range t.Notes {
		if n != output.MoreRows { // it names an option of the command line
			out.Notes = append(out.Notes, n)
		} else {
			left++
		}
	}
	if left > 0 {
		out.Notes = append(out.Notes, "more rows are left out: raise rows, or narrow the query")
	}
	return &out
}

// leftOut returns the note on findings that are not in a result.
func leftOut(n int) string { return fmt.Sprintf("%d more findings are left out: raise limit", n) }
