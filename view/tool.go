package view

import (
	"slices"
	"strings"

	"culprit/measure"
)

// Tool is one of the classic tools: its queries, and the table that it makes of the answers. A tool
// that is listed in Tools has a command, a help text, a man page, completion, JSON, CSV and
// history.
type Tool struct {
	Name     string
	Short    string // one line, lower case, no full stop
	Long     string // the meaning of the columns, and differences from the classic tool
	Examples []Example
	Flags    []Flag
	Operand  string                   // flag of the words before the interval; "": none
	Once     bool                     // without an interval it shows one table
	MaxRows  int                      // rows on a terminal without -n; 0: all
	Ask      func(o Options) []string // returns the queries
	// Statistic -> terminal width that shows its columns; a narrower one does not show its notes.
	MinWidth map[measure.StatID]int
	// Statistic -> flag without which a terminal does not show its columns.
	NeedsFlag map[measure.StatID]string
	Table     func(o Options, f *Frame) *Table
	// Statistics of which several intervals have the maximum, not the mean.
	Peaks []measure.StatID
	// Statistics whose rows the table adds up; their means count an absent row as 0.
	Sums []measure.StatID
	// Returns the text of a frame of a stack; nil: the function name.
	Stack func(f *measure.Frame) string
	// Returns the next view for a row; nil or a nil result: none.
	Drill func(t *Table, r *Row) *Drill
}

// VisibleQueries returns the queries that a terminal of the given width needs: statistics without a
// visible column are not measured.
func (t *Tool) VisibleQueries(o Options, width int) []string {
	return slices.DeleteFunc(t.Ask(o), func(query string) bool {
		id, _, _ := strings.Cut(query, " ")
		flag, needed := t.NeedsFlag[measure.StatID(id)]
		return needed && !o.Has(flag) || t.MinWidth[measure.StatID(id)] > width
	})
}

// Drill is the view that a row leads to: another tool, limited to that row.
type Drill struct {
	Tool    string
	Options Options
	Title   string // "threads of nginx (812)"
	Filter  string // text that rows must contain; "": all rows
	Sort    string // column; "": the order of the tool
}

// Text returns the row's cell of a column as text; "" if there is none.
func (t *Table) Text(r *Row, name string) string {
	if i := t.Column(name); i >= 0 && i < len(r.Cells) && r.Cells[i].Kind != IsNull {
		c := t.Columns[i]
		c.Show = Plain
		return c.Format(r.Cells[i])
	}
	return ""
}

// Example is a command line and its purpose.
type Example struct{ Line, Means string }

// Flag is one option of a tool.
type Flag struct {
	Name   string
	Letter string // one letter, or "" for none
	// Placeholder of the value in the help ("COLUMN"); "": the flag takes no value.
	Value  string
	Values []string // allowed values; nil: any
	Many   bool     // takes a comma-separated list
	// Query by one field whose values it also accepts; "": none.
	AliasQuery string
	NamesQuery string // query by one field whose values the flag may name; "": any text
	Help       string
}

// Unknown returns the first of the wanted names or patterns that matches no known name; "" if all
// match.
func Unknown(wanted, known []string) string {
	for _, w := range wanted {
		found := false
		for _, k := range known {
			found = found || MatchAny([]string{w}, k)
		}
		if !found {
			return w
		}
	}
	return ""
}

// Options holds the values of each given flag. A flag without a value has one empty value.
type Options map[string][]string

// Has reports whether the flag was given.
func (o Options) Has(flag string) bool { return len(o[flag]) > 0 }

// Text returns the first value of a flag; "" if it was not given.
func (o Options) Text(flag string) string {
	if len(o[flag]) == 0 {
		return ""
	}
	return o[flag][0]
}
