package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/view"
	"culprit/view/classic"
	"culprit/view/web/api"
)

// maxTables bounds the tables of one reply.
const maxTables = 3600

// tools serves the tables of the tools.
type tools struct {
	*core
	live *live
}

// list replies with all tools and their flags.
func (s *tools) list(w http.ResponseWriter, r *http.Request) error {
	if err := noParameters(r); err != nil {
		return err
	}
	b := []byte(`{"tools":[`)
	for i, t := range classic.All() {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendString(append(b, `{"name":`...), t.Name)
		b = view.AppendString(append(b, `,"short":`...), t.Short)
		b = view.AppendString(append(b, `,"long":`...), t.Long)
		b = strconv.AppendInt(append(b, `,"most":`...), int64(t.MaxRows), 10)
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
			b = view.AppendString(append(b, `,"names":`...), f.NamesQuery)
			b = view.AppendString(append(b, `,"help":`...), f.Help)
			b = append(b, '}')
		}
		b = append(b, "]}"...)
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}

// toolRequest is a tool with the options of a URL.
type toolRequest struct {
	tool    *view.Tool
	options view.Options
	queries []measure.Query
	texts   []string // of the queries
	key     string   // equal for the same tool and options
}

// request returns the tool and the options of a URL. names are the other parameters.
func (s *tools) request(
	r *http.Request, now measure.Time, names ...string,
) (*toolRequest, *parameters, error) {
	tool, err := findTool(r.PathValue("name"))
	if err != nil {
		return nil, nil, err
	}
	for _, f := range tool.Flags {
		names = append(names, f.Name)
	}
	p, err := parametersOf(r.URL.RawQuery, now, names, nil)
	if err != nil {
		return nil, nil, err
	}
	t := &toolRequest{tool: tool, options: view.Options{}, key: "tool " + tool.Name}
	for _, f := range tool.Flags {
		if !p.values.Has(f.Name) {
			continue
		}
		values, err := flagValues(&f, p.text(f.Name))
		if err != nil {
			return nil, nil, err
		}
		t.options[f.Name] = values
		t.key += "\n" + f.Name + "=" + strings.Join(values, ",")
	}
	for _, text := range tool.Ask(t.options) {
		q, err := s.Machine.Parse(text)
		if err != nil {
			return nil, nil, err
		}
		t.queries, t.texts = append(t.queries, q), append(t.texts, q.String())
	}
	return t, p, nil
}

func findTool(name string) (*view.Tool, error) {
	all := classic.All()
	var names []string
	for _, t := range all {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	f := notFound("there is no tool "+printable(name), "api/tools lists them")
	if near := measure.Nearest(name, names); near != "" {
		f.Hint = "did you mean " + near + "?"
	}
	return nil, f
}

// flagValues returns the values of a flag that is in the URL.
func flagValues(f *view.Flag, text string) ([]string, error) {
	var values []string
	switch {
	case f.Value == "" && text != "" && text != "1" && text != "true":
		return nil, badRequest("%s takes no value", f.Name)
	case f.Value == "":
		values = []string{""}
	case text == "" || len(text) > maxText:
		return nil, badRequest("%s needs a value (%s)", f.Name, f.Value)
	case f.Many:
		values = view.CommaList(strings.Split(text, ","))
	default:
		values = []string{text}
	}
	for _, v := range values {
		if len(f.Values) > 0 && !slices.Contains(f.Values, v) {
			return nil, badRequest("%s: %q is none of %s", f.Name, printable(v),
				strings.Join(f.Values, ", "))
		}
	}
	return values, nil
}

// table returns the table of a frame.
func (t *toolRequest) table(f *view.Frame) *view.Table {
	out := t.tool.Table(t.options, f)
	out.Over, out.Loss = f.Over, f.Losses()
	out.Notes = append(out.Notes, f.Notes(nil, 0)...)
	return out
}

// unanswered returns an answer without values for a query that failed, with the error as a note.
func unanswered(
	q measure.Query, st *measure.Stat, over measure.Interval, step measure.Span, err error,
) *measure.Answer {
	cells := max(1, over.Span()/max(1, step))
	a := &measure.Answer{
		Query: q, Start: over.Start, Step: step,
		Elapsed: make([]measure.Span, cells), Notes: []string{err.Error()},
	}
	if st != nil {
		a.Kind, a.Unit, a.Sparse = st.Kind, st.AnswerUnit(), st.Sparse
	}
	return a
}

// tables replies with a table per step over a time range. The default step is the whole range, and
// the default range is the newest tick.
func (s *tools) tables(w http.ResponseWriter, r *http.Request) error {
	t, p, err := s.request(r, s.now(), "from", "to", "step")
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
	if over.Span()/step > maxTables {
		message := "these are more than " + strconv.Itoa(maxTables) + " tables"
		return tooLarge(message, "choose a shorter time or a longer step")
	}
	ctx, release, err := s.acquire(r.Context())
	if err != nil {
		return err
	}
	defer release()
	answers, err := s.ask(ctx, t, over, step)
	if err != nil {
		return err
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
		if b = appendTable(b, t.table(f)); len(b) > maxLongReply {
			return tooLarge("these are too many tables", "choose a shorter time or a longer step")
		}
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}

// ask runs the queries of a tool. The error is that of the last query if all fail.
func (s *tools) ask(
	ctx context.Context, t *toolRequest, over measure.Interval, step measure.Span,
) ([]*measure.Answer, error) {
	answers := make([]*measure.Answer, len(t.queries))
	values, failed := 0, 0
	for i, q := range t.queries {
		q.Over, q.Step = over, step
		a, err := s.Machine.Ask(ctx, q)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			if failed++; failed == len(t.queries) {
				return nil, err
			}
			a = unanswered(q, s.stat(q.Stat), over, step, err)
		}
		answers[i] = a
		if values += len(a.Series) * len(a.Elapsed); values > maxValues {
			return nil, tooManyValues(len(a.Series), len(a.Elapsed), maxValues)
		}
	}
	return answers, nil
}

// frameOf returns one cell of the answers, the one that begins at a time, as if the tool had run
// then. It returns nil if nothing was measured in the cell.
func frameOf(answers []*measure.Answer, at measure.Time, step measure.Span) *view.Frame {
	f := &view.Frame{Over: measure.Interval{Start: at.Add(step), End: at.Add(step)}}
	measured := false
	for _, a := range answers {
		c := -1
		if a.Step > 0 && at >= a.Start && (at-a.Start)%measure.Time(a.Step) == 0 {
			c = int(at.Sub(a.Start) / a.Step)
		}
		one := cellOf(a, c)
		if e := one.Elapsed[0]; e > 0 {
			measured = true
			f.Over.Start = min(f.Over.Start, f.Over.End.Add(-e))
		}
		f.Answers = append(f.Answers, one)
	}
	if !measured {
		return nil
	}
	return f
}

// cellOf returns cell c of an answer as an answer, without the rows that have no value in it: NaN,
// or 0 if the answer is sparse. Losses and notes are those of the whole answer. If there is no such
// cell, the result has no rows and an empty interval.
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
		row := measure.Series{Key: s.Key, Values: s.Values[c : c+1 : c+1]}
		one.Series = append(one.Series, row)
	}
	return &one
}

// liveTable streams a table per tick.
func (s *tools) liveTable(w http.ResponseWriter, r *http.Request) error {
	t, _, err := s.request(r, 0)
	if err != nil {
		return err
	}
	event := func(ctx context.Context, at measure.Time) []byte {
		f := &view.Frame{Over: measure.Interval{Start: at, End: at}}
		for i, q := range t.queries {
			a, err := s.live.answer(ctx, q, t.texts[i], at)
			if err != nil {
				over := measure.Interval{Start: at.Add(-liveStep), End: at}
				a = unanswered(q, s.stat(q.Stat), over, liveStep, err)
			}
			one := cellOf(a, len(a.Elapsed)-1)
			f.Over.Start = min(f.Over.Start, at.Add(-one.Elapsed[0]))
			f.Answers = append(f.Answers, one)
		}
		return appendTable(nil, t.table(f))
	}
	return s.live.stream(w, r, t.key, "table", event)
}

// appendTable appends a table as the page reads it: the columns with how to show them, and the rows
// as lists of cells.
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
		if row.Remark != "" {
			b = view.AppendString(append(b, `,"mark":`...), row.Remark)
		}
		b = append(b, '}')
	}
	b = appendStrings(append(b, `],"notes":`...), t.Notes)
	b = appendLoss(append(b, `,"loss":`...), t.Loss)
	return append(b, '}')
}
