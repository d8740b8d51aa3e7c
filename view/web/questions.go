package web

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/view"
	"culprit/view/drill"
)

// maxWider is the largest number of queries with terms that a graph is not narrowed by.
const maxWider = 8

// lookupSpan is the time of the newest rows that questions are about.
const lookupSpan = 10 * measure.Second

// maxLookedUp is the largest number of rows that one lookup returns.
const maxLookedUp = 1000

// questions replies with the questions that follow from a row of a graph: see drill.Questions.
func (s *queries) questions(w http.ResponseWriter, r *http.Request) error {
	p, err := parametersOf(r.URL.RawQuery, s.now(), []string{"q"}, []string{"value", "wider"})
	if err != nil {
		return err
	}
	row := drill.Row{Key: p.values["value"]}
	if row.Query, err = s.parseQuery(p.text("q")); err != nil {
		return err
	}
	if len(row.Key) == 0 {
		row.Query.By = nil // about all rows together
	}
	if len(row.Key) != len(row.Query.By) {
		return badRequest("value: %d values for a breakdown by %d fields", len(row.Key),
			len(row.Query.By))
	}
	if len(p.values["wider"]) > maxWider {
		return badRequest("wider: at most %d queries", maxWider)
	}
	for _, text := range p.values["wider"] {
		q, err := s.parseQuery(text)
		if err != nil {
			return err
		}
		row.Wider = append(row.Wider, q)
	}
	ctx, release, err := s.acquire(r.Context())
	if err != nil {
		return err
	}
	defer release()
	all, err := drill.Questions(ctx, s.Machine.Stats(), row, s.lookup)
	if err != nil {
		return err
	}
	b := []byte(`{"questions":[`)
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.appendQuestion(b, &all[i])
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}

// lookup returns the labels of the newest rows of a query; none if they are not recorded.
func (s *queries) lookup(ctx context.Context, q measure.Query) (rows [][]string, err error) {
	if !s.recorded(q) {
		return nil, nil
	}
	now := s.now()
	q.Over, q.Step = measure.Interval{Start: now.Add(-lookupSpan), End: now}, lookupSpan
	q.Top = maxLookedUp
	a, err := s.Machine.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	for i := range a.Series[:min(len(a.Series), maxLookedUp)] {
		if v := overall(a, i); v != v {
			continue
		}
		key := make([]string, len(q.By))
		for k := range key {
			key[k] = a.Label(i, k)
		}
		rows = append(rows, key)
	}
	return rows, nil
}

// recorded reports whether a dataset that is recorded now covers a query.
func (c *core) recorded(q measure.Query) bool {
	for _, d := range c.Machine.Datasets() {
		if d.State == measure.Recording && d.Query.Covers(q) {
			return true
		}
	}
	return false
}

// price returns the expected cost of recording a statistic, as a share of one CPU: the cost of its
// most expensive dataset, else of that of the statistics with the same first words. NaN if none of
// them is recorded.
func (c *core) price(id measure.StatID) float64 {
	sets := c.Machine.Datasets()
	for name := string(id); ; {
		most := measure.NaN
		for _, d := range sets {
			other := string(d.Query.Stat)
			like := other == name || strings.HasPrefix(other, name+".")
			if d.State != measure.Recording || !like {
				continue
			}
			if cpu := c.Machine.Usage(d.ID).CPU; cpu == cpu && !(cpu <= most) {
				most = cpu
			}
		}
		at := strings.LastIndexByte(name, '.')
		if most == most || at < 0 {
			return most
		}
		name = name[:at]
	}
}

// appendQuestion appends the JSON of a question. docs/openapi.yaml describes it.
func (s *queries) appendQuestion(b []byte, q *drill.Question) []byte {
	b = view.AppendString(append(b, `{"text":`...), q.Text)
	b = view.AppendString(append(b, `,"query":`...), q.Query.String())
	var wider []string
	for i := range q.Wider {
		wider = append(wider, q.Wider[i].String())
	}
	b = appendStrings(append(b, `,"wider":`...), wider)
	if q.Functions {
		b = append(b, `,"functions":true`...)
	}
	recorded := s.recorded(q.Query)
	b = strconv.AppendBool(append(b, `,"recorded":`...), recorded)
	if !recorded {
		st := s.stat(q.Query.Stat)
		b = strconv.AppendBool(append(b, `,"traced":`...), st != nil && st.Traced)
		b = view.AppendNumber(append(b, `,"cpu":`...), s.price(q.Query.Stat))
	}
	return append(b, '}')
}

// prices replies with what each statistic costs or may cost.
func (s *queries) prices(w http.ResponseWriter, r *http.Request) error {
	if err := noParameters(r); err != nil {
		return err
	}
	b := []byte(`{"prices":[`)
	stats := s.Machine.Stats()
	for i := range stats {
		if i > 0 {
			b = append(b, ',')
		}
		q := drill.Start(&stats[i])
		b = view.AppendString(append(b, `{"stat":`...), string(q.Stat))
		b = view.AppendString(append(b, `,"query":`...), q.String())
		b = strconv.AppendBool(append(b, `,"recorded":`...), s.recorded(q))
		b = append(view.AppendNumber(append(b, `,"cpu":`...), s.price(q.Stat)), '}')
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}
