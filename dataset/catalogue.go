package dataset

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"culprit/measure"
)

// Catalogue lists what the given sources can measure. Safe for concurrent use.
type Catalogue struct {
	sources []measure.Source
	owner   map[measure.StatID]int // index into sources
	stats   []measure.Stat         // by ID
	names   []string
}

// New creates a catalogue. If two sources offer one statistic, which is a programming error, the
// first one owns it.
func New(sources ...measure.Source) *Catalogue {
	c := &Catalogue{sources: sources, owner: map[measure.StatID]int{}}
	for i, s := range sources {
		if s == nil { // a removed source: the others keep their indices
			continue
		}
		for _, st := range s.Stats() {
			if _, taken := c.owner[st.ID]; !taken {
				c.owner[st.ID] = i
				c.stats = append(c.stats, st)
			}
		}
	}
	sort.Slice(c.stats, func(i, j int) bool { return c.stats[i].ID < c.stats[j].ID })
	for _, st := range c.stats {
		c.names = append(c.names, string(st.ID))
	}
	return c
}

// plus returns the catalogue with one more source.
func (c *Catalogue) plus(s measure.Source) *Catalogue {
	return New(append(slices.Clone(c.sources), s)...)
}

// minus returns the catalogue without a source.
func (c *Catalogue) minus(s measure.Source) *Catalogue {
	rest := slices.Clone(c.sources)
	for i := range rest {
		if rest[i] == s {
			rest[i] = nil
		}
	}
	return New(rest...)
}

// Stats lists all statistics, sorted by ID. Don't modify the result.
func (c *Catalogue) Stats() []measure.Stat { return c.stats }

// ExternalCost returns the CPU time that the programs of all sources took outside of this process.
func (c *Catalogue) ExternalCost() (sum measure.Span) {
	for _, s := range c.sources {
		if o, ok := s.(interface{ ExternalCost() measure.Span }); ok {
			sum += o.ExternalCost()
		}
	}
	return sum
}

// Stat returns the named statistic, or nil.
func (c *Catalogue) Stat(id measure.StatID) *measure.Stat {
	i, ok := slices.BinarySearch(c.names, string(id))
	if !ok {
		return nil
	}
	return &c.stats[i]
}

// Parse parses a query and checks it. The error is a *measure.Diagnostic with the position in the
// text.
func (c *Catalogue) Parse(text string) (measure.Query, error) {
	q, err := measure.ParseQuery(text)
	if err != nil {
		return q, err
	}
	return q, c.check(q, text)
}

// Check reports whether the query is valid. The error is a *measure.Diagnostic for the query's
// text.
func (c *Catalogue) Check(q measure.Query) error { return c.check(q, q.String()) }

func (c *Catalogue) check(q measure.Query, text string) error {
	// where the search for a name starts: the breakdown and several terms may have the same field
	from := 0
	fault := func(word, code, message, hint string) error {
		pos := from + wordAt(text[from:], word)
		return &measure.Diagnostic{
			Text:    text,
			Pos:     pos,
			Len:     len(word),
			Code:    code,
			Message: message,
			Hint:    hint,
		}
	}
	st := c.Stat(q.Stat)
	if st == nil {
		hint := "`culprit stat --list` shows all"
		if near := measure.Nearest(string(q.Stat), c.names); near != "" {
			hint = "did you mean " + near + "?"
		}
		return fault(
			string(q.Stat), "unknown-statistic", "there is no statistic "+string(q.Stat), hint,
		)
	}
	fields := make([]string, len(st.Fields))
	for i, f := range st.Fields {
		fields[i] = f.Name
	}
	known := func(name string) error {
		if slices.Contains(fields, name) {
			return nil
		}
		hint := string(st.ID) + " has no fields"
		if near := measure.Nearest(name, fields); near != "" {
			hint = "did you mean " + near + "?"
		} else if len(fields) > 0 {
			hint = "it has " + strings.Join(fields, ", ")
		}
		return fault(name, "unknown-field", string(st.ID)+" has no field "+name, hint)
	}
	for _, f := range q.By {
		if err := known(f); err != nil {
			return err
		}
	}
	past := func(word string) {
		if i := wordAt(text[from:], word); strings.HasPrefix(text[from+i:], word) {
			from += i + len(word)
		}
	}
	if len(q.Where) > 0 {
		past("where")
	}
	for _, t := range q.Where {
		if err := known(t.Field); err != nil {
			return err
		}
		f, _ := st.Field(t.Field)
		if f.Type == measure.Stack {
			return fault(
				t.Field, "stack", t.Field+" is a stack and can't be compared",
				"break down by it: by "+t.Field,
			)
		}
		if f.Type != measure.Number && t.Op >= measure.Less && t.Op <= measure.GreaterEqual {
			return fault(
				t.Field, "not-a-number",
				fmt.Sprintf("%s is a word and can't be compared with %s", t.Field, t.Op),
				"use = != ~ !~ or in",
			)
		}
		past(t.Field)
		if f.Type == measure.Number && t.Op != measure.Matches && t.Op != measure.NotMatches {
			for _, v := range t.Values {
				if _, err := strconv.ParseFloat(v, 64); err != nil && v != "" {
					return fault(
						v, "not-a-number", t.Field+" is a number, "+strconv.Quote(v)+" is not", "",
					)
				}
			}
		}
		for _, v := range t.Values { // a value that is written with escapes is not found
			past(v)
		}
	}
	return nil
}

// wordAt returns the position of a word in a query, of a whole word if possible.
func wordAt(text, word string) int {
	inWord := func(i int) bool {
		return i >= 0 && i < len(text) &&
			(text[i] == '_' || text[i] == '.' || text[i] >= '0' && text[i] <= '9' ||
				text[i]|0x20 >= 'a' && text[i]|0x20 <= 'z')
	}
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return max(0, strings.Index(text, word))
		}
		i += from
		if !inWord(i-1) && !inWord(i+len(word)) {
			return i
		}
		from = i + 1
	}
}
