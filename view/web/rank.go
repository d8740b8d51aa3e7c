package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"culprit/measure"
	"culprit/view"
	"culprit/view/heat"
	"culprit/view/web/api"
)

// maxRankedRows is the largest number of values of a field that are ranked.
const maxRankedRows = 50_000

// mapColumns is about as many columns as heat maps have.
const mapColumns = 1000

// rank ranks the values of each field of a statistic inside a rectangle of its heat map against
// those outside: see heat.Rank.
func (s *queries) rank(w http.ResponseWriter, r *http.Request) error {
	known := []string{"q", "from", "to", "start", "end", "low", "high"}
	p, err := parametersOf(r.URL.RawQuery, s.now(), known, nil)
	if err != nil {
		return err
	}
	q, err := s.parseQuery(p.text("q"))
	if err != nil {
		return err
	}
	st := s.stat(q.Stat)
	if st == nil || st.Kind != measure.Dists {
		f := badRequest("%s has no distributions", q.Stat)
		f.Hint = "api/catalogue lists those whose kind is dist"
		return f
	}
	k, err := s.newRanker(p, q, st)
	if err != nil {
		return err
	}
	ctx, release, err := s.acquire(r.Context())
	if err != nil {
		return err
	}
	defer release()
	if err := k.run(ctx); err != nil {
		return err
	}
	return s.sendJSON(w, r, k.appendJSON(nil))
}

// ranker ranks all fields of one rectangle.
type ranker struct {
	*core
	query  measure.Query // without breakdown
	stat   *measure.Stat
	over   measure.Interval // the time of the map
	inside measure.Interval // the time of the rectangle, within over
	values heat.Rectangle

	whole   heat.Ranking // of all events, without a field
	fields  []rankedField
	missing []missingField
	notes   []string
}

type rankedField struct {
	name string
	heat.Ranking
}

// missingField is a field that could not be ranked.
type missingField struct {
	name, why string
	query     string // the query to record; "": recording does not help
}

// newRanker reads the parameters of a rectangle.
func (c *core) newRanker(
	p *parameters, q measure.Query, st *measure.Stat,
) (*ranker, error) {
	q.By, q.Top = nil, 0
	k := &ranker{core: c, query: q, stat: st}
	var err error
	if k.over, err = p.over(10 * measure.Minute); err != nil {
		return nil, err
	}
	// The grid of a heat map of this time, so that what is kept per minute or hour can be used.
	k.over = grid(k.over, stepFor(k.over, mapColumns, measure.Second))
	if k.inside.Start, err = p.time("start", k.over.Start); err != nil {
		return nil, err
	}
	if k.inside.End, err = p.time("end", k.over.End); err != nil {
		return nil, err
	}
	k.inside.Start = max(k.inside.Start, k.over.Start)
	k.inside.End = min(k.inside.End, k.over.End)
	if k.inside.Start >= k.inside.End {
		return nil, badRequest("start and end select no time between from and to")
	}
	if k.values.Low, err = p.number("low", 0); err != nil {
		return nil, err
	}
	if k.values.High, err = p.number("high", math.MaxFloat64); err != nil {
		return nil, err
	}
	if k.values.Low >= k.values.High {
		return nil, badRequest("low %v is not below high %v", k.values.Low, k.values.High)
	}
	return k, nil
}

// number returns a finite number of at least 0; otherwise if it is not given.
func (p *parameters) number(name string, otherwise float64) (float64, error) {
	text := p.text(name)
	if text == "" {
		return otherwise, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= math.MaxFloat64) {
		return 0, badRequest("%s: %q is not a number of at least 0", name, text)
	}
	return v, nil
}

// run ranks all fields that are recorded. The error is that of the query without fields.
func (k *ranker) run(ctx context.Context) error {
	var err error
	if k.whole, err = k.rankBy(ctx, ""); err != nil {
		return err
	}
	for _, f := range k.stat.Fields {
		if k.pinned(f.Name) {
			continue
		}
		if f.Type == measure.Stack {
			k.miss(f.Name, "stacks are not ranked: use a profile of this time", "")
			continue
		}
		r, err := k.rankBy(ctx, f.Name)
		switch {
		case err == nil:
			k.fields = append(k.fields, rankedField{f.Name, r})
		case ctx.Err() != nil:
			return err
		case errors.Is(err, measure.ErrUnclear):
			k.miss(f.Name, "not recorded in this time", k.toRecord(f.Name))
		default:
			k.miss(f.Name, faultOf(err).Error(), "")
		}
	}
	// Fields with equal scores stay in the order of the statistic.
	slices.SortStableFunc(k.fields, func(x, y rankedField) int {
		switch a, b := x.Best(), y.Best(); {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	return nil
}

func (k *ranker) miss(name, why, query string) {
	k.missing = append(k.missing, missingField{name, why, query})
}

// pinned reports whether the query selects one value of the field, so that there is nothing to
// rank.
func (k *ranker) pinned(field string) bool {
	return slices.ContainsFunc(k.query.Where, func(t measure.Term) bool {
		return t.Field == field &&
			(t.Op == measure.Equal || t.Op == measure.In && len(t.Values) == 1)
	})
}

// rankBy ranks the values of one field; "": all events as one value. Where only coarse data is
// kept, the time of the rectangle is widened to it, and k.inside with it.
func (k *ranker) rankBy(ctx context.Context, field string) (heat.Ranking, error) {
	during, err := k.ask(ctx, field, k.inside)
	if err != nil {
		return heat.Ranking{}, err
	}
	inside := during.Over()
	if field == "" && inside.Span() > 0 && inside != k.inside {
		k.notes = append(k.notes,
			"older data is kept in longer steps: the time was widened to them")
		k.inside = inside
	}
	var around []*measure.Answer
	for _, part := range []measure.Interval{
		{Start: k.over.Start, End: k.inside.Start}, {Start: k.inside.End, End: k.over.End},
	} {
		if part.Start >= part.End {
			continue
		}
		a, err := k.ask(ctx, field, part)
		if err != nil {
			return heat.Ranking{}, err
		}
		if o := a.Over(); o.Span() > 0 && o.Start < inside.End && inside.Start < o.End {
			return heat.Ranking{}, tooCoarse(a.Step)
		}
		around = append(around, a)
	}
	return heat.Rank(k.values, []*measure.Answer{during}, around), nil
}

// tooCoarse is the error for a time next to the rectangle that is kept in longer steps: its events
// would count twice.
func tooCoarse(step measure.Span) error {
	return &fault{
		status: http.StatusNotFound, Code: "unclear",
		Message: fmt.Sprintf("the time beside it is kept in steps of %v only", step),
		Hint:    "show a shorter time",
	}
}

// ask returns the answer of a time in one cell.
func (k *ranker) ask(
	ctx context.Context, field string, over measure.Interval,
) (*measure.Answer, error) {
	q := k.query
	if field != "" {
		q.By = []string{field}
	}
	q.Over, q.Step, q.Top = over, over.Span(), maxRankedRows
	a, err := k.Machine.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	if n := len(a.Series) + a.Rest.Rows; n > maxRankedRows {
		return nil, tooLarge(fmt.Sprintf("%d values are too many to rank", n), "narrow the query")
	}
	for _, n := range a.Notes {
		if !slices.Contains(k.notes, n) {
			k.notes = append(k.notes, n)
		}
	}
	return a, nil
}

// recorded returns the recorded dataset of the statistic with the most fields that has the same
// predicate or none; nil if there is none.
func (k *ranker) recorded() *measure.Dataset {
	var best *measure.Dataset
	for _, d := range k.Machine.Datasets() {
		if d.Query.Stat == k.query.Stat && d.State == measure.Recording &&
			(best == nil || len(d.Query.By) > len(best.Query.By)) {
			best = &d
		}
	}
	return best
}

// toRecord returns the query that records the field beside those that are recorded now.
func (k *ranker) toRecord(field string) string {
	q := measure.Query{Stat: k.query.Stat, By: []string{field}}
	if d := k.recorded(); d != nil {
		q.By, q.Where = append(slices.Clone(d.Query.By), field), d.Query.Where
	}
	return q.String()
}

// price returns what the recorded dataset of the statistic costs, as a share of one CPU; NaN when
// nothing is recorded or its cost is not known yet.
func (k *ranker) price() float64 {
	if d := k.recorded(); d != nil {
		return k.Machine.Usage(d.ID).CPU
	}
	return measure.NaN
}

// appendJSON appends the result. docs/openapi.yaml describes it.
func (k *ranker) appendJSON(b []byte) []byte {
	b = view.AppendString(append(b, `{"query":`...), k.query.String())
	b = view.AppendString(append(b, `,"unit":`...), string(k.stat.Unit))
	b = strconv.AppendUint(append(b, `,"inside":`...), k.whole.Inside, 10)
	b = strconv.AppendUint(append(b, `,"outside":`...), k.whole.Outside, 10)
	b = api.AppendMillis(append(b, `,"start_ms":`...), int64(k.inside.Start))
	b = api.AppendMillis(append(b, `,"end_ms":`...), int64(k.inside.End))
	b = strconv.AppendInt(append(b, `,"least_events":`...), heat.MinEvents, 10)
	b = append(b, `,"fields":[`...)
	for i, f := range k.fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendString(append(b, `{"field":`...), f.name)
		b = appendShares(append(b, `,"values":`...), f.Values)
		b = strconv.AppendInt(append(b, `,"rare":`...), int64(f.Rare), 10)
		b = strconv.AppendInt(append(b, `,"more":`...), int64(f.More), 10)
		b = append(b, '}')
	}
	b = append(b, `],"missing":[`...)
	for i, f := range k.missing {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendString(append(b, `{"field":`...), f.name)
		b = view.AppendString(append(b, `,"why":`...), f.why)
		if f.query != "" {
			b = view.AppendString(append(b, `,"record":`...), f.query)
			b = view.AppendNumber(append(b, `,"cpu":`...), k.price())
		}
		b = append(b, '}')
	}
	b = appendStrings(append(b, `],"notes":`...), k.notes)
	return append(b, '}')
}

func appendShares(b []byte, values []heat.Share) []byte {
	b = append(b, '[')
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendString(append(b, `{"value":`...), v.Value)
		b = strconv.AppendUint(append(b, `,"inside":`...), v.Inside, 10)
		b = strconv.AppendUint(append(b, `,"outside":`...), v.Outside, 10)
		b = view.AppendNumber(append(b, `,"score":`...), v.Score)
		b = append(b, '}')
	}
	return append(b, ']')
}
