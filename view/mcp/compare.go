package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/measure"
	"culprit/view/show"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type compareArgs struct {
	BeforeFrom string   `json:"before_from"`
	BeforeTo   string   `json:"before_to"`
	AfterFrom  string   `json:"after_from"`
	AfterTo    string   `json:"after_to,omitempty"`
	Queries    []string `json:"queries,omitempty"`
	Rows       int      `json:"rows,omitempty"`
}

// comparedQueries are compared unless others are given.
//
// table: queries that a server records by default
var comparedQueries = []string{
	"cpu.time by mode", "sched.load by window", "pressure.time by resource,scope",
	"memory.size by kind", "disk.busy by device", "disk.bytes by device,direction",
	"net.device.bytes by device,direction", "net.device.packets by device,direction",
	"net.device.drops by device", "process.cpu by process", "process.runwait by process",
	"process.io by process,direction", "process.rss by process",
}

// maxQueries bounds the queries of one call.
const maxQueries = 32

// addCompare adds the tool compare.
func (s *server) addCompare() {
	add(s, "compare", "Compare two times", "Compare two recorded times: the statistics that "+
		"changed most, and findings that are new or gone.",
		func(schema *jsonschema.Schema) {
			boundTexts(schema)
			bound(schema, "rows", 1, 200, defaultRows)
			most, long := maxQueries, maxTextBytes
			q := schema.Properties["queries"]
			q.Types, q.Type, q.MaxItems, q.Items.MaxLength = nil, "array", &most, &long
		}, s.compare)
}

// change is how much one row of a query has changed.
type change struct {
	Query string            `json:"query"` // without its breakdown
	Key   map[string]string `json:"key"`
	Unit  string            `json:"unit"`
	// Mean over the time; of a distribution its mean. null: not measured.
	Before diagnose.Number `json:"before"`
	After  diagnose.Number `json:"after"`
	// Share is the change as a share of the larger total of the query, -1 to 1.
	Share diagnose.Number `json:"share"`
}

// side is one of the compared times.
type side struct {
	Start    measure.Time `json:"start"`
	End      measure.Time `json:"end"`
	Findings []string     `json:"findings"` // IDs; of a time that is too short: none
}

// comparison is the result of compare.
type comparison struct {
	Format  int      `json:"format"`
	Before  side     `json:"before"`
	After   side     `json:"after"`
	New     []claim  `json:"new"`  // findings of after that before does not have
	Gone    []claim  `json:"gone"` // findings of before that after does not have
	Changes []change `json:"changes"`
	Notes   []string `json:"notes"`
}

// claim is a finding in short.
type claim struct {
	ID       string            `json:"id"`
	Severity diagnose.Severity `json:"severity"`
	Claim    string            `json:"claim"`
}

func (s *server) compare(ctx context.Context, in compareArgs) (*sdk.CallToolResult, error) {
	queries := in.Queries
	if len(queries) == 0 {
		queries = comparedQueries
	}
	c := comparison{Format: 1, New: []claim{}, Gone: []claim{}, Notes: []string{}}
	var values [2]map[string]map[string]row
	var reports [2]*diagnose.Report
	for i, t := range []times{
		{From: in.BeforeFrom, To: in.BeforeTo, Names: [2]string{"before_from", "before_to"}},
		{From: in.AfterFrom, To: in.AfterTo, Names: [2]string{"after_from", "after_to"}},
	} {
		t.Netns = "all"
		out := []*side{&c.Before, &c.After}[i]
		var err error
		if values[i], reports[i], err = s.look(ctx, t, queries, out, &c.Notes); err != nil {
			return nil, err
		}
	}
	c.New, c.Gone = claims(reports[1], reports[0]), claims(reports[0], reports[1])
	all := changes(queries, values)
	return shorten(in.Rows, func(n int) ([]byte, error) {
		out := c
		out.Changes = all[:min(n, len(all))]
		return json.Marshal(out)
	})
}

// row is the value of one row of a query.
type row struct {
	key   map[string]string
	unit  measure.Unit
	value float64
}

// look reads one of the times: the rows of each query by query and key, and its diagnosis.
func (s *server) look(
	ctx context.Context, t times, queries []string, out *side, notes *[]string,
) (map[string]map[string]row, *diagnose.Report, error) {
	o, err := openRecorded(s.host, t)
	if err != nil {
		return nil, nil, err
	}
	defer o.close()
	if err := checkRange(o.over); err != nil {
		return nil, nil, err
	}
	out.Start, out.End, out.Findings = o.over.Start, o.over.End, []string{}
	for _, n := range o.notes {
		if !slices.Contains(*notes, n) {
			*notes = append(*notes, n)
		}
	}
	all := map[string]map[string]row{}
	for _, text := range queries {
		q, err := o.Parse(text)
		if err != nil {
			return nil, nil, err
		}
		if all[text], err = rowsOf(ctx, o, q, o.over.Span()); err != nil {
			return nil, nil, err
		}
	}
	report := &diagnose.Report{}
	if o.over.Span() >= 3*o.fine {
		if report, err = show.DiagnosePast(ctx, o, o.over, o.fine); err != nil {
			return nil, nil, err
		}
	}
	for _, f := range report.Findings {
		out.Findings = append(out.Findings, f.ID)
	}
	return all, report, nil
}

// rowsOf returns the rows of a query over the whole time of a machine, by their keys. Rows without
// a value are left out.
func rowsOf(
	ctx context.Context, m show.Machine, q measure.Query, span measure.Span,
) (map[string]row, error) {
	q.Step = span
	out := map[string]row{}
	err := m.Watch(ctx, []measure.Query{q}, func(tick *measure.Tick) error {
		a := tick.Answers[0].StacksAsText(nil)
		for i, series := range a.Series {
			v := measure.NaN
			if dists := series.Dists(); len(dists) > 0 {
				v = dists[0].Mean()
			} else if len(series.Values) > 0 {
				v = series.Values[0]
			}
			if v != v {
				continue
			}
			r := row{key: map[string]string{}, unit: a.Unit, value: v}
			var key []string
			for k, field := range q.By {
				r.key[field] = a.Label(i, k)
				key = append(key, a.Label(i, k))
			}
			out[strings.Join(key, "\x00")] = r
		}
		return show.ErrCountReached
	})
	if err != nil && !errors.Is(err, show.ErrCountReached) {
		return nil, err
	}
	return out, ctx.Err()
}

// changes returns the changed rows of all queries, the largest share first. A row that only one of
// the times has is 0 in the other one if that has any row of the query, else unknown.
func changes(queries []string, values [2]map[string]map[string]row) []change {
	all := []change{}
	for _, q := range queries {
		before, after := values[0][q], values[1][q]
		total := max(sumOf(before), sumOf(after))
		keys := map[string]row{}
		for k, r := range before {
			keys[k] = r
		}
		for k, r := range after {
			keys[k] = r
		}
		name, _, _ := strings.Cut(q, " by ")
		for k, r := range keys {
			c := change{Query: name, Key: r.key, Unit: string(r.unit),
				Before: diagnose.Number(valueOf(before, k)),
				After:  diagnose.Number(valueOf(after, k)), Share: diagnose.Number(measure.NaN)}
			if total > 0 {
				c.Share = (c.After - c.Before) / diagnose.Number(total)
			}
			if c.Before != c.After {
				all = append(all, c)
			}
		}
	}
	size := func(c change) float64 {
		if !c.Share.Known() {
			return -1
		}
		return math.Abs(float64(c.Share))
	}
	slices.SortFunc(all, func(a, b change) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a.Query, b.Query),
			cmp.Compare(keyText(a.Key), keyText(b.Key)))
	})
	return all
}

func valueOf(rows map[string]row, key string) float64 {
	if r, ok := rows[key]; ok {
		return r.value
	}
	if len(rows) == 0 {
		return measure.NaN
	}
	return 0
}

func sumOf(rows map[string]row) (sum float64) {
	for _, r := range rows {
		sum += math.Abs(r.value)
	}
	return sum
}

func keyText(key map[string]string) string {
	b, err := json.Marshal(key) // its fields are sorted
	if err != nil {             // of texts: never
		panic(err)
	}
	return string(b)
}

// claims returns the findings of a that b does not have.
func claims(a, b *diagnose.Report) []claim {
	all := []claim{}
	for _, f := range a.Findings {
		if !slices.ContainsFunc(b.Findings, func(g diagnose.Finding) bool { return g.ID == f.ID }) {
			all = append(all, claim{f.ID, f.Severity, f.Claim})
		}
	}
	return all
}
