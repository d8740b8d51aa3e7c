package view

import (
	"slices"
	"strings"

	"culprit/measure"
)

// Tool is one of the classic tools: the sentences it asks and the table it makes of the answers. A
// tool that is listed in Tools has a command, a help text, a man page, completion, JSON, CSV and
// history.
type Tool struct {
	Name     string
	Short    string // one line, lower case, no full stop
	Long     string // what the columns mean, and where they differ from the classic tool's
	Examples []Example
	Flags    []Flag
	Once     bool // shows a state: one table unless an interval is given
	Most     int  // rows shown on a terminal unless -n says otherwise; 0 = all
	Ask      func(o Options) []string
	Wide     map[measure.StatID]int    // statistics whose columns need a terminal of this width: on a narrower one their notes would explain nothing
	Behind   map[measure.StatID]string // statistics whose columns a terminal shows with this flag only
	Table    func(o Options, f *Frame) *Table
	Peaks    []measure.StatID              // statistics that are the greatest of an interval: of several intervals it is the greatest of all, and no mean
	Sums     []measure.StatID              // statistics whose rows the table adds up: what came or went while several intervals passed counts in their mean by all their time
	Stack    func(f *measure.Frame) string // what a frame is called, in the texts of stacks; nil: by its function alone
	Drill    func(t *Table, r *Row) *Drill // what a row leads to; nil, or a nil result: nowhere
}

// Shown returns the queries of Ask that a terminal of the given width needs: statistics without a
// visible column are not measured.
func (t *Tool) Shown(o Options, width int) []string {
	return slices.DeleteFunc(t.Ask(o), func(sentence string) bool {
		id, _, _ := strings.Cut(sentence, " ")
		flag, behind := t.Behind[measure.StatID(id)]
		return behind && !o.Has(flag) || t.Wide[measure.StatID(id)] > width
	})
}

// Drill is the next question that a row suggests: another tool, narrowed to that row.
type Drill struct {
	Tool    string
	Options Options
	Title   string // of what: "threads of nginx (812)"
	Filter  string // text that rows must have; "" = all
	Sort    string // column; "" = the tool's own order
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

// Example is a command line and what it is good for.
type Example struct{ Line, Means string }

// Flag is one option of a tool.
type Flag struct {
	Name   string
	Letter string   // one letter, or ""
	Value  string   // what it takes, as the help shows it ("COLUMN"); "" = nothing, it is there or not
	Values []string // all that it may take; nil = anything
	Many   bool     // a comma list
	Names  string   // a sentence by one field: its words are all that the flag may name; "" = anything
	Help   string
}

// Unknown returns the first of the wanted names that is not known and, as a pattern, matches no
// known name; "" if there is none.
func Unknown(wanted, known []string) string {
	for _, w := range wanted {
		found := false
		for _, k := range known {
			found = found || anyMatch([]string{w}, k)
		}
		if !found {
			return w
		}
	}
	return ""
}

// Options is what the user gave: flag -> values. A flag without value has one empty value.
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
