package drill

import (
	"context"
	"slices"

	"culprit/measure"
)

// maxQuestions is the number of questions about a row.
const maxQuestions = 7

// maxAddresses is the number of addresses or interfaces that a question goes on with.
const maxAddresses = 32

// Row is a row of a graph.
type Row struct {
	Query measure.Query
	Key   []string // a value for each field of the breakdown
	// Wider are queries with the terms by which the graph should be narrowed but is not, since its
	// statistic has no such fields.
	Wider []measure.Query
}

// Question is a way on from a row.
type Question struct {
	Text  string
	Query measure.Query
	// Wider are queries with the terms of the row that Query does not have, as its statistic lacks
	// the fields.
	Wider []measure.Query
	// Functions: a profile of the samples that the query selects answers it, not a graph.
	Functions bool
}

// Lookup returns the labels of the rows of a query in the newest seconds.
type Lookup func(ctx context.Context, q measure.Query) ([][]string, error)

// held is a term with the statistic whose field it names.
type held struct {
	term measure.Term
	stat measure.StatID
}

// asker makes the questions about one row.
type asker struct {
	stats  []measure.Stat
	row    Row
	held   []held
	lookup Lookup
}

// Questions returns at most seven questions about a row that the statistics can answer. The error
// is that of the lookup.
func Questions(
	ctx context.Context, stats []measure.Stat, row Row, lookup Lookup,
) ([]Question, error) {
	a := asker{stats: stats, row: row, lookup: lookup}
	a.hold()
	compare := a.compare()
	limit := maxQuestions
	if compare != nil {
		limit--
	}
	var lists [][]Question
	for _, t := range a.things() {
		var list []Question
		for i := range table {
			if table[i].about != t {
				continue
			}
			q, err := a.ask(ctx, table[i])
			if err != nil {
				return nil, err
			}
			if q != nil {
				list = append(list, *q)
			}
		}
		lists = append(lists, list)
	}
	out := alternate(lists, limit)
	if compare != nil {
		out = append(out, *compare)
	}
	return out, nil
}

// alternate takes from each list in turn, and each query once.
func alternate(lists [][]Question, limit int) (out []Question) {
	seen := map[string]bool{}
	for i, more := 0, true; more; i++ {
		more = false
		for _, list := range lists {
			if i >= len(list) {
				continue
			}
			more = true
			text := list[i].Query.String()
			if !seen[text] && len(out) < limit {
				seen[text] = true
				out = append(out, list[i])
			}
		}
	}
	return out
}

func (a *asker) stat(id measure.StatID) *measure.Stat {
	i := slices.IndexFunc(a.stats, func(s measure.Stat) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return &a.stats[i]
}

func equal(field, value string) measure.Term {
	return measure.Term{Field: field, Op: measure.Equal, Values: []string{value}}
}

func fixes(t measure.Term) bool { return t.Op == measure.Equal }

// hold collects the terms of the row: its labels, the predicate of its graph, and what that is not
// narrowed by.
func (a *asker) hold() {
	q, own := a.row.Query, a.stat(a.row.Query.Stat)
	for i, field := range q.By {
		if own != nil {
			if f, _ := own.Field(field); f.Type == measure.Stack {
				continue
			}
		}
		a.held = append(a.held, held{equal(field, a.row.Key[i]), q.Stat})
	}
	for _, t := range q.Where {
		if !(fixes(t) || t.Op == measure.In) || !slices.Contains(q.By, t.Field) {
			a.held = append(a.held, held{t, q.Stat})
		}
	}
	for _, w := range a.row.Wider {
		for _, t := range w.Where {
			a.held = append(a.held, held{t, w.Stat})
		}
	}
}

// things returns what the row is about: its own things, else those of its graph.
func (a *asker) things() (out []thing) {
	own := map[thing]bool{}
	for _, h := range a.held {
		if h.stat == a.row.Query.Stat && slices.Contains(a.row.Query.By, h.term.Field) &&
			fixes(h.term) && h.term.Values[0] != "" {
			own[thingOf(h.stat, h.term.Field)] = true
		}
	}
	delete(own, "")
	if len(own) == 0 {
		for _, h := range a.held {
			if fixes(h.term) && h.term.Values[0] != "" {
				own[thingOf(h.stat, h.term.Field)] = true
			}
		}
	}
	for _, t := range order {
		if own[t] {
			out = append(out, t)
		}
	}
	return out
}

// ask returns a question of the table about the row; nil if this machine cannot answer it.
func (a *asker) ask(ctx context.Context, line question) (*Question, error) {
	st := a.stat(line.stat)
	if st == nil {
		return nil, nil
	}
	q := measure.Query{Stat: line.stat, Where: slices.Clone(line.also)}
	rest := a.held
	var err error
	switch line.via {
	case addresses:
		q.Where, rest, err = a.addressTerms(ctx)
	case link:
		q.Where, rest, err = a.linkTerms(ctx)
	}
	if err != nil || line.via != direct && line.via != functions && q.Where == nil {
		return nil, err
	}
	var missing []held
	for _, h := range rest {
		t := h.term
		if line.from == t.Field {
			t.Field = line.to
		}
		if t.Field != h.term.Field || a.means(h, st) {
			q.Where = append(q.Where, t)
		} else {
			missing = append(missing, h)
		}
	}
	q.By = broken(st, line.by, q.Where)
	if q.Stat == a.row.Query.Stat && slices.Equal(q.By, a.row.Query.By) {
		return nil, nil // the row itself
	}
	if line.via == direct && len(line.by) > 0 && fixed(line.by[0], q.Where) &&
		thingOf(st.ID, line.by[0]) != "" {
		return nil, nil // the row has the answer
	}
	return &Question{line.text, q, wider(missing), line.via == functions}, nil
}

// means reports whether the statistic has the field of a term, with the same meaning.
func (a *asker) means(h held, st *measure.Stat) bool {
	f, i := st.Field(h.term.Field)
	if i < 0 || f.Type == measure.Stack {
		return false
	}
	from := measure.Field{Name: h.term.Field}
	if own := a.stat(h.stat); own != nil {
		from, _ = own.Field(h.term.Field)
	}
	return h.stat == st.ID || meaning(st.ID, f) == meaning(h.stat, from)
}

// fixed reports whether the terms select one value of a field.
func fixed(field string, where []measure.Term) bool {
	return slices.ContainsFunc(where, func(t measure.Term) bool {
		return t.Field == field && fixes(t)
	})
}

// broken returns the breakdown of a question: without fields that have one value, and by namespace
// too where rows of several namespaces would be one.
func broken(st *measure.Stat, fields []string, where []measure.Term) (out []string) {
	apart := false
	for _, f := range fields {
		if !fixed(f, where) {
			out = append(out, f)
		}
	}
	for _, f := range st.Fields {
		apart = apart || slices.Contains(perNamespace, f.Name) &&
			(slices.Contains(out, f.Name) || fixed(f.Name, where))
	}
	_, has := st.Field("netns")
	if apart && has >= 0 && !fixed("netns", where) && !slices.Contains(out, "netns") {
		out = append([]string{"netns"}, out...)
	}
	return out
}

// Start returns the query with which a look at a statistic begins: by its first thing, and by
// direction.
func Start(st *measure.Stat) measure.Query {
	q := measure.Query{Stat: st.ID}
	parts := []string{"netns", "pid", "tid", "local", "localport", "peerport"}
	for _, f := range st.Fields {
		if f.Type != measure.Stack && !slices.Contains(parts, f.Name) {
			q.By = append(q.By, f.Name)
			break
		}
	}
	if _, i := st.Field("direction"); i >= 0 && !slices.Contains(q.By, "direction") {
		q.By = append(q.By, "direction")
	}
	q.By = broken(st, q.By, nil)
	return q
}

// wider returns queries with the terms, one per statistic.
func wider(missing []held) (out []measure.Query) {
	for _, h := range missing {
		i := slices.IndexFunc(out, func(q measure.Query) bool { return q.Stat == h.stat })
		if i < 0 {
			i, out = len(out), append(out, measure.Query{Stat: h.stat})
		}
		out[i].Where = append(out[i].Where, h.term)
	}
	return out
}

// compare returns the question for the other things of the same kind; nil if the graph has them.
func (a *asker) compare() *Question {
	q := a.row.Query
	for _, t := range order {
		var removed []string
		for _, term := range q.Where {
			if fixes(term) && slices.Contains(fieldsOf[t], term.Field) &&
				(thingOf(q.Stat, term.Field) == t || term.Field == "netns") {
				removed = append(removed, term.Field)
			}
		}
		named := slices.ContainsFunc(removed, func(f string) bool { return f != "netns" })
		isNamed := func(f string) bool { return thingOf(q.Stat, f) == t }
		if !named || slices.ContainsFunc(q.By, isNamed) {
			continue
		}
		out := measure.Query{Stat: q.Stat, By: removed}
		for _, f := range q.By {
			if !slices.Contains(removed, f) {
				out.By = append(out.By, f)
			}
		}
		for _, term := range q.Where {
			if !slices.Contains(removed, term.Field) {
				out.Where = append(out.Where, term)
			}
		}
		return &Question{Text: "Compare with the others", Query: out, Wider: a.row.Wider}
	}
	return nil
}
