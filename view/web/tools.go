package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/view"
	"culprit/view/web/api"
)

// mostTables bounds the tables of one request.
const mostTables = 3600

// tools lists the tools.
func (s *Server) tools(w http.ResponseWriter, r *http.Request) error {
	if _, err := parametersOf(r.URL.RawQuery, 0, nil, nil); err != nil {
		return err
	}
	b := []byte(`{"tools":[`)
	for i, t := range view.Tools() {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendString(append(b, `{"name":`...), t.Name)
		b = view.AppendString(append(b, `,"short":`...), t.Short)
		b = view.AppendString(append(b, `,"long":`...), t.Long)
		b = strconv.AppendInt(append(b, `,"most":`...), int64(t.Most), 10)
		b = append(b, `,"flags":[`...)
		for k, f := range t.Flags {
			if k > 0 {
				b = append(b, ',')
			}
			b = view.AppendString(append(b, `{"name":`...), f.Name)
			b = view.AppendString(append(b, `,"letter":`...), f.Letter)
			b = view.AppendString(append(b, `,"value":`...), f.Value)
			b = appendStrings(append(b, `,"values":`...), f.Values)
			b = strconv.AppendBool(append(b, `,"many":`...), f.Many)
			b = view.AppendString(append(b, `,"names":`...), f.Names)
			b = view.AppendString(append(b, `,"help":`...), f.Help)
			b = append(b, '}')
		}
		b = append(b, "]}"...)
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}

// use is a tool with the options that an address gives.
type use struct {
	tool      *view.Tool
	options   view.Options
	queries   []measure.Query
	sentences []string
	key       string // the same for the same tool and options
}

// used reads which tool an address names, and its options; names are the other parameters.
func (s *Server) used(r *http.Request, now measure.Time, names ...string) (*use, *parameters, error) {
	name := r.PathValue("name")
	tools := view.Tools()
	i := slices.IndexFunc(tools, func(t *view.Tool) bool { return t.Name == name })
	if i < 0 {
		f := &fault{status: http.StatusNotFound, Code: "not-found", Message: "there is no tool " + printable(name), Hint: "api/tools lists them"}
		var known []string
		for _, t := range tools {
			known = append(known, t.Name)
		}
		if near := measure.Nearest(name, known); near != "" {
			f.Hint = "did you mean " + near + "?"
		}
		return nil, nil, f
	}
	u := &use{tool: tools[i], options: view.Options{}}
	for _, f := range u.tool.Flags {
		names = append(names, f.Name)
	}
	p, err := parametersOf(r.URL.RawQuery, now, names, nil)
	if err != nil {
		return nil, nil, err
	}
	u.key = "tool " + name
	for _, f := range u.tool.Flags {
		text := p.text(f.Name)
		switch {
		case !p.values.Has(f.Name):
			continue
		case f.Value == "" && text != "" && text != "1" && text != "true":
			return nil, nil, badf("%s takes no value", f.Name)
		case f.Value == "":
			u.options[f.Name] = []string{""}
		case text == "" || len(text) > mostText:
			return nil, nil, badf("%s needs a value (%s)", f.Name, f.Value)
		case f.Many:
			u.options[f.Name] = view.CommaList(strings.Split(text, ","))
		default:
			u.options[f.Name] = []string{text}
		}
		for _, v := range u.options[f.Name] {
			if len(f.Values) > 0 && !slices.Contains(f.Values, v) {
				return nil, nil, badf("%s: %q is none of %s", f.Name, printable(v), strings.Join(f.Values, ", "))
			}
		}
		u.key += "\n" + f.Name + "=" + strings.Join(u.options[f.Name], ",")
	}
	for _, sentence := range u.tool.Ask(u.options) {
		q, err := s.Machine.Parse(sentence)
		if err != nil {
			return nil, nil, err
		}
		u.queries, u.sentences = append(u.queries, q), append(u.sentences, q.String())
	}
	return u, p, nil
}

// table makes the table of a frame.
func (u *use) table(f *view.Frame) *view.Table {
	t := u.tool.Table(u.options, f)
	t.Over, t.Loss, t.Notes = f.Over, f.Losses(), append(t.Notes, f.Notes(nil, 0)...)
	return t
}

// missing stands for the answer to a question that could not be asked: nothing was measured, and a note says why.
func missing(q measure.Query, st *measure.Stat, over measure.Interval, step measure.Span, err error) *measure.Answer {
	a := &measure.Answer{Query: q, Start: over.Start, Step: step, Elapsed: make([]measure.Span, max(1, over.Span()/max(1, step))), Notes: []string{err.Error()}}
	if st != nil {
		a.Kind, a.Unit, a.Sparse = st.Kind, st.AnswerUnit(), st.Sparse
	}
	return a
}

// tool gives a table a step over a time; without a step one over all of it, without a time that of the newest tick.
func (s *Server) tool(w http.ResponseWriter, r *http.Request) error {
	u, p, err := s.used(r, s.now(), "from", "to", "step")
	if err != nil {
		return err
	}
	over, err := p.over(liveStep)
	if err != nil {
		return err
	}
	over = grid(over, measure.Second)
	step, err := p.span("step", over.Span())
	if err != nil {
		return err
	}
	if p.text("step") != "" {
		over = grid(over, step)
	}
	if over.Span()/step > mostTables {
		return &fault{status: http.StatusRequestEntityTooLarge, Code: "too-large", Message: "these are more than " + strconv.Itoa(mostTables) + " tables", Hint: "ask for less time or a longer step"}
	}
	ctx, done, err := s.place(r.Context())
	if err != nil {
		return err
	}
	defer done()
	answers := make([]*measure.Answer, len(u.queries))
	values, failed := 0, 0
	for i, q := range u.queries {
		q.Over, q.Step = over, step
		a, err := s.Machine.Ask(ctx, q)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if failed++; failed == len(u.queries) {
				return err
			}
			a = missing(q, s.stat(q.Stat), over, step, err)
		}
		answers[i] = a
		if values += len(a.Series) * len(a.Elapsed); values > mostValues {
			return tooLarge(len(a.Series), len(a.Elapsed), mostValues)
		}
	}
	b := []byte(`{"tables":[`)
	for at := over.Start; at < over.End; at = at.Add(step) {
		f := frameOf(answers, at, step)
		if f == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		if b = appendTable(b, u.table(f)); len(b) > mostFindings {
			return &fault{status: http.StatusRequestEntityTooLarge, Code: "too-large", Message: "these are too many tables", Hint: "ask for less time or a longer step"}
		}
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}

// frameOf gives what the answers say of one cell of their grid, which begins at the time: what a tool would have been told had it looked
// then. Nil when nothing was measured in it.
func frameOf(answers []*measure.Answer, at measure.Time, step measure.Span) *view.Frame {
	f := &view.Frame{Over: measure.Interval{Start: at.Add(step), End: at.Add(step)}}
	looked := false
	for _, a := range answers {
		c := -1
		if a.Step > 0 && at >= a.Start && (at-a.Start)%measure.Time(a.Step) == 0 {
			c = int(at.Sub(a.Start) / a.Step)
		}
		one := cellOf(a, c)
		if e := one.Elapsed[0]; e > 0 {
			looked = true
			f.Over.Start = min(f.Over.Start, f.Over.End.Add(-e))
		}
		f.Answers = append(f.Answers, one)
	}
	if !looked {
		return nil
	}
	return f
}

// cellOf gives an answer of one cell: without the rows that were not there - their value is NaN, or 0 where absent reads as 0. Losses and notes
// are those of the whole answer.
func cellOf(a *measure.Answer, c int) *measure.Answer {
	one := *a
	one.Series, one.Elapsed, one.Start = nil, []measure.Span{0}, a.Start
	one.SetColumn(nil, 0)
	if c < 0 || c >= len(a.Elapsed) {
		return &one
	}
	one.Start, one.Elapsed[0] = a.Start.Add(a.Step*measure.Span(c)), a.Elapsed[c]
	for i := range a.Series {
		s := &a.Series[i]
		if c >= len(s.Values) || s.Values[c] != s.Values[c] || a.Sparse && s.Values[c] == 0 {
			continue
		}
		one.Series = append(one.Series, measure.Series{Key: s.Key, Values: s.Values[c : c+1 : c+1]})
	}
	return &one
}

// liveTool streams a table each tick.
func (s *Server) liveTool(w http.ResponseWriter, r *http.Request) error {
	u, _, err := s.used(r, 0)
	if err != nil {
		return err
	}
	return s.stream(w, r, u.key, "table", func(ctx context.Context, at measure.Time) []byte {
		f := &view.Frame{Over: measure.Interval{Start: at, End: at}}
		for i, q := range u.queries {
			a, err := s.live.answer(ctx, q, u.sentences[i], at)
			if err != nil {
				a = missing(q, s.stat(q.Stat), measure.Interval{Start: at.Add(-liveStep), End: at}, liveStep, err)
			}
			one := cellOf(a, len(a.Elapsed)-1)
			f.Over.Start = min(f.Over.Start, at.Add(-one.Elapsed[0]))
			f.Answers = append(f.Answers, one)
		}
		return appendTable(nil, u.table(f))
	})
}

// appendTable appends a table as the page has it: the rows as lists, the columns with what is needed to show them.
func appendTable(b []byte, t *view.Table) []byte {
	b = api.AppendMillis(append(b, `{"start_ms":`...), int64(t.Over.Start))
	b = api.AppendMillis(append(b, `,"end_ms":`...), int64(t.Over.End))
	b = append(b, `,"columns":[`...)
	for i, c := range t.Columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendString(append(b, `{"name":`...), c.Name)
		b = view.AppendString(append(b, `,"head":`...), c.Head)
		b = view.AppendString(append(b, `,"unit":`...), string(c.Unit()))
		b = view.AppendString(append(b, `,"show":`...), c.Show.String())
		b = strconv.AppendInt(append(b, `,"decimals":`...), int64(c.Decimals), 10)
		b = view.AppendString(append(b, `,"help":`...), c.Help)
		b = append(b, '}')
	}
	b = append(b, `],"rows":[`...)
	for i, row := range t.Rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendString(append(b, `{"key":`...), row.Key)
		b = append(b, `,"cells":[`...)
		for k, c := range row.Cells {
			if k > 0 {
				b = append(b, ',')
			}
			b = view.AppendCell(b, c)
		}
		b = strconv.AppendBool(append(b, `],"total":`...), row.Total)
		if row.Mark != "" {
			b = view.AppendString(append(b, `,"mark":`...), row.Mark)
		}
		b = append(b, '}')
	}
	b = appendStrings(append(b, `],"notes":`...), t.Notes)
	b = appendLoss(append(b, `,"loss":`...), t.Loss)
	return append(b, '}')
}
