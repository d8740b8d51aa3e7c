package prom

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

var errTruncated = errors.New("results truncated due to limit")

// selection contains the parameters of the endpoints about series.
type selection struct {
	querier  storage.Querier
	hints    *storage.SelectHints
	matchers [][]*labels.Matcher
	limit    int
}

func (a *API) selection(r *http.Request) (s selection, f *failure) {
	var err error
	if s.limit, err = limitOf(r, "limit"); err != nil {
		return s, badParameter("limit", err)
	}
	start, err := timeOf(r, "start", time.Unix(0, 0))
	if err != nil {
		return s, badParameter("start", err)
	}
	end, err := timeOf(r, "end", a.now())
	if err != nil {
		return s, badParameter("end", err)
	}
	if err := checkTexts(r.Form["match[]"]...); err != nil && !a.unbounded {
		return s, badParameter("match[]", err)
	}
	if s.matchers, err = parser.ParseMetricSelectors(r.Form["match[]"]); err != nil {
		return s, badParameter("match[]", err)
	}
	for _, set := range s.matchers {
		nonEmpty := func(m *labels.Matcher) bool { return !m.Matches("") }
		if !slices.ContainsFunc(set, nonEmpty) {
			const text = "match[] must contain at least one non-empty matcher"
			return s, badParameter("match[]", errors.New(text))
		}
	}
	s.hints = &storage.SelectHints{Start: start.UnixMilli(), End: end.UnixMilli(), Func: "series"}
	s.querier, err = a.Querier(s.hints.Start, s.hints.End)
	if err != nil {
		return s, failed(err)
	}
	return s, nil
}

func (a *API) series(r *http.Request) (answer, *failure) {
	if len(r.Form["match[]"]) == 0 {
		return answer{}, bad(errors.New("no match[] parameter provided"))
	}
	s, f := a.selection(r)
	if f != nil {
		return answer{}, f
	}
	out, found, seen := answer{}, []labels.Labels{}, map[string]bool{}
	for _, matchers := range s.matchers {
		set := s.querier.Select(r.Context(), true, s.hints, matchers...)
		for set.Next() {
			l := set.At().Labels()
			if text := l.String(); !seen[text] {
				seen[text] = true
				found = append(found, l)
			}
		}
		if err := set.Err(); err != nil {
			return answer{}, failed(err)
		}
		out.warnings.Merge(set.Warnings())
	}
	slices.SortFunc(found, labels.Compare)
	out.data = found
	if s.limit > 0 && len(found) > s.limit {
		out.data = found[:s.limit]
		out.warnings.Add(errTruncated)
	}
	return out, nil
}

// finder returns the names or values that match one selector.
type finder func(storage.Querier, []*labels.Matcher) ([]string, annotations.Annotations, error)

func (a *API) labelNames(r *http.Request) (answer, *failure) {
	find := func(q storage.Querier, matchers []*labels.Matcher,
	) ([]string, annotations.Annotations, error) {
		return q.LabelNames(r.Context(), nil, matchers...)
	}
	return a.texts(r, find)
}

func (a *API) labelValues(r *http.Request, name string) (answer, *failure) {
	if name == "" || !utf8.ValidString(name) {
		return answer{}, bad(fmt.Errorf("invalid label name: %q", name))
	}
	find := func(q storage.Querier, matchers []*labels.Matcher,
	) ([]string, annotations.Annotations, error) {
		return q.LabelValues(r.Context(), name, nil, matchers...)
	}
	return a.texts(r, find)
}

// texts answers with the union of what find returns for each selector.
func (a *API) texts(r *http.Request, find finder) (answer, *failure) {
	s, f := a.selection(r)
	if f != nil {
		return answer{}, f
	}
	if len(s.matchers) == 0 {
		s.matchers = [][]*labels.Matcher{nil}
	}
	out, all := answer{}, map[string]bool{}
	for _, matchers := range s.matchers {
		found, warnings, err := find(s.querier, matchers)
		if err != nil {
			return answer{}, failed(err)
		}
		out.warnings.Merge(warnings)
		for _, v := range found {
			all[v] = true
		}
	}
	texts := keys(all)
	out.data = texts
	if s.limit > 0 && len(texts) > s.limit {
		out.data = texts[:s.limit]
		out.warnings.Add(errTruncated)
	}
	return out, nil
}

func (a *API) metadata(r *http.Request) (answer, *failure) {
	limit := -1
	if s := r.FormValue("limit"); s != "" {
		var err error
		if limit, err = strconv.Atoi(s); err != nil {
			return answer{}, bad(errors.New("limit must be a number"))
		}
	}
	type facts struct {
		Type string `json:"type"`
		Unit string `json:"unit"`
		Help string `json:"help"`
	}
	out := map[string][]facts{}
	for _, m := range metrics(a.datasets()) {
		if limit >= 0 && len(out) >= limit {
			break
		}
		if name := r.FormValue("metric"); name == "" || name == m.name {
			out[m.name] = []facts{{m.shape.Type(), m.unit.Word, m.help()}}
		}
	}
	return answer{data: out}, nil
}
