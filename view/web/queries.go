package web

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/view"
	"culprit/view/web/api"
)

// queries answers queries about the past and describes what can be asked.
type queries struct {
	*core
	comparing chan struct{} // holds one value while two times are compared
}

// ask answers one query.
func (s *queries) ask(w http.ResponseWriter, r *http.Request) error {
	known := []string{"q", "from", "to", "step", "columns", "top", "host"}
	p, err := parametersOf(r.URL.RawQuery, s.now(), known, nil)
	if err != nil {
		return err
	}
	q, err := s.parseQuery(p.text("q"))
	if err != nil {
		return err
	}
	top, err := p.count("top", maxTop)
	if err != nil {
		return err
	}
	if q.Over, q.Step, err = p.grid(); err != nil {
		return err
	}
	host := p.text("host")
	if q.Step == 0 && host == "" {
		q.Over.Start = max(q.Over.Start, s.oldest(q.Stat))
		if seconds := q.Over.Span() / measure.Second; seconds > maxCells {
			return tooManyCells(int(seconds))
		}
		q.Over.Start = min(q.Over.Start, q.Over.End)
	}
	ctx, release, err := s.acquire(r.Context())
	if err != nil {
		return err
	}
	defer release()
	q.Top = top
	var a *measure.Answer
	if host != "" {
		a, err = (&hosts{core: s.core}).ask(ctx, host, q)
	} else {
		a, err = s.Machine.Ask(ctx, q)
	}
	if err != nil {
		return err
	}
	st := s.stat(q.Stat)
	shaped, err := shape(a, st, top, unlike(a, st))
	if err != nil {
		return err
	}
	if width := columnsWanted(r.Header.Get("Accept")); width > 0 {
		kind := api.ColumnsType + "; width=" + strconv.Itoa(width)
		return s.send(w, r, kind, shaped.appendColumns(nil, width))
	}
	return s.sendJSON(w, r, shaped.appendJSON(nil))
}

// oldest returns the start of the recorded data of a statistic; 0 if there is none.
func (s *queries) oldest(id measure.StatID) (first measure.Time) {
	for _, d := range s.Machine.Datasets() {
		if d.Stat.ID != id {
			continue
		}
		if t := s.Machine.Held(d.ID).Over.Start; t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}

// grid returns the time range and the step of a query. With step=0 the reader chooses the step.
// With another step the first cell begins at from. With columns the step is chosen, and cells begin
// at its multiples.
func (p *parameters) grid() (measure.Interval, measure.Span, error) {
	none := measure.Interval{}
	over, err := p.over(10 * measure.Minute)
	if err != nil {
		return none, 0, err
	}
	columns, err := p.count("columns", maxCells)
	if err != nil {
		return none, 0, err
	}
	text := p.text("step")
	switch {
	case text != "" && columns > 0:
		return none, 0, badRequest("step and columns are both given")
	case text == "0":
		return over, 0, nil
	case text == "":
		if columns == 0 {
			columns = 600
		}
		step := stepFor(over, max(columns, 2), measure.Second)
		return grid(over, step), step, nil
	}
	step, err := p.span("step", 0)
	if err != nil {
		return none, 0, err
	}
	if over.Span()/step > maxCells {
		return none, 0, tooManyCells(int(over.Span() / step))
	}
	return over, step, nil
}

func tooManyCells(n int) error {
	message := fmt.Sprintf("the answer would have %d cells, more than %d", n, maxCells)
	return tooLarge(message, "choose a shorter time or a longer step")
}

// columnsWanted returns the width of columns that an Accept header asks for, 4 or 8; 0: no columns.
func columnsWanted(accept string) int {
	for _, item := range strings.Split(accept, ",") {
		name, parameters, _ := strings.Cut(item, ";")
		if strings.EqualFold(strings.TrimSpace(name), api.ColumnsType) {
			if strings.Contains(strings.ReplaceAll(parameters, " ", ""), "width=8") {
				return 8
			}
			return 4
		}
	}
	return 0
}

// parse checks the text of a query and returns it in its normal form.
func (s *queries) parse(w http.ResponseWriter, r *http.Request) error {
	p, err := parametersOf(r.URL.RawQuery, 0, []string{"q"}, nil)
	if err != nil {
		return err
	}
	q, err := s.parseQuery(p.text("q"))
	if err != nil {
		return err
	}
	b := view.AppendString([]byte(`{"query":`), q.String())
	if st := s.stat(q.Stat); st != nil {
		b = view.AppendString(append(b, `,"kind":`...), st.Kind.String())
		b = view.AppendString(append(b, `,"unit":`...), string(st.AnswerUnit()))
	}
	b = appendStrings(append(b, `,"by":`...), q.By)
	return s.sendJSON(w, r, append(b, '}'))
}

// catalogue lists the statistics.
func (s *queries) catalogue(w http.ResponseWriter, r *http.Request) error {
	if err := noParameters(r); err != nil {
		return err
	}
	return s.sendJSON(w, r, view.AppendCatalogue(nil, s.Machine.Stats()))
}
