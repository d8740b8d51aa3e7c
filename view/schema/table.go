package schema

import (
	"maps"
	"slices"

	"culprit/measure"
	"culprit/view"
	"culprit/view/report"

	"github.com/google/jsonschema-go/jsonschema"
)

// object returns the schema of an object without other members. names are the members, in order.
func object(names []string, members map[string]*jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object", Properties: members, Required: names, PropertyOrder: names,
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
}

// list returns the schema of a list.
func list(items *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "array", Items: items}
}

func text(help string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Description: help}
}

// tableOf returns the schema of a table with rows; with view "" that of a table of any name.
func tableOf(name string, row *jsonschema.Schema) *jsonschema.Schema {
	kind := text("the name of the table")
	if name != "" {
		one := any(name)
		kind.Const = &one
	}
	start := moment()
	start.Description = "start of the measured time"
	return object(
		[]string{"format", "view", "start", "seconds", "rows", "loss", "notes"},
		map[string]*jsonschema.Schema{
			"format": version(),
			"view":   kind,
			"start":  start,
			"seconds": {
				Types: []string{"number", "null"}, Description: "length of the measured time",
			},
			"rows": list(row),
			"loss": list(object([]string{"reason", "events"}, map[string]*jsonschema.Schema{
				"reason": text("why events are missing"),
				"events": {Type: "integer"},
			})),
			"notes": list(text("a sentence that explains a gap or limits what the numbers prove")),
		},
	)
}

// scalar is the schema of a cell whose type the column does not fix.
func scalar() *jsonschema.Schema {
	return &jsonschema.Schema{Types: []string{"string", "number", "boolean", "null"}}
}

// openRow returns the schema of a row whose columns are not fixed.
func openRow() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: scalar()}
}

// queryRow returns the schema of a row of a query: a member per field of the breakdown, and the
// value, or what is shown of a distribution.
func queryRow() *jsonschema.Schema {
	row := openRow()
	row.AdditionalProperties = &jsonschema.Schema{
		Types: []string{"string", "null"}, Description: "a field of the breakdown",
	}
	number := func(help string) *jsonschema.Schema {
		return &jsonschema.Schema{Types: []string{"number", "null"}, Description: help}
	}
	row.Properties = map[string]*jsonschema.Schema{
		"value":  number("of a delta per second, of a level the mean"),
		"values": number("of a distribution: number of values"),
		"mean":   number("of a distribution"),
		"p50":    number("of a distribution"), "p90": number("of a distribution"),
		"p99": number("of a distribution"), "max": number("of a distribution"),
	}
	row.PropertyOrder = []string{"value", "values", "mean", "p50", "p90", "p99", "max"}
	return row
}

// toolTable returns the schema of the tables of a tool. Columns that only some options show are not
// required. more are options beside each flag alone.
func toolTable(t *view.Tool, more ...view.Options) *jsonschema.Schema {
	choices := append([]view.Options{{}}, more...)
	for _, f := range t.Flags {
		values := f.Values
		if len(values) == 0 {
			values = []string{""}
		}
		for _, v := range values {
			choices = append(choices, view.Options{f.Name: {v}})
		}
	}
	var names []string
	members := map[string]*jsonschema.Schema{}
	shown := map[string]int{}
	var views []any
	for _, o := range choices {
		tab := t.Table(o, emptyFrame())
		if !slices.Contains(views, any(tab.View)) {
			views = append(views, tab.View)
		}
		for _, c := range tab.Columns {
			if c.Name == "" {
				continue
			}
			if shown[c.Name]++; members[c.Name] == nil {
				names = append(names, c.Name)
				members[c.Name] = cell(&c)
			}
		}
	}
	row := object(names, members)
	row.Required = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return shown[name] < len(choices)
	})
	if p := perCPU[t.Name]; p != "" {
		row.PatternProperties = map[string]*jsonschema.Schema{
			p: {Types: []string{"number", "null"}, Description: "of one CPU"},
		}
	}
	whole := tableOf("", withRemark(row))
	whole.Properties["view"].Enum = views
	return whole
}

// perCPU has the pattern of the columns that a tool shows for each CPU of the machine.
//
// table: tool, regular expression
var perCPU = map[string]string{"irq": `^cpu[0-9]+_(per_s|time_ratio)$`}

// withRemark adds the remark that some rows have.
func withRemark(row *jsonschema.Schema) *jsonschema.Schema {
	if row.Properties["remark"] == nil {
		row.Properties["remark"] = text("a remark on the row; most rows have none")
		row.PropertyOrder = append(slices.Clone(row.PropertyOrder), "remark")
	}
	return row
}

// emptyFrame returns the frame of an interval in which no query has an answer.
func emptyFrame() *view.Frame { return &view.Frame{Buffers: &view.Buffers{}} }

// cell returns the schema of the cells of a column.
func cell(c *view.Column) *jsonschema.Schema {
	s := scalar()
	s.Description = c.Help
	switch {
	case c.Left:
		s.Types = []string{"string", "null"}
	case c.Unit() != "":
		s.Types = []string{"number", "null"}
	}
	return s
}

// hosts returns the schema of the table of hosts.
func hosts() *jsonschema.Schema {
	members := map[string]*jsonschema.Schema{}
	var names []string
	for _, c := range report.Hosts(nil, 1<<30).Columns {
		if c.Name != "" {
			names = append(names, c.Name)
			members[c.Name] = cell(&c)
		}
	}
	return tableOf("hosts", withRemark(object(names, members)))
}

// heat returns the schema of a column of a heat map.
func heat() *jsonschema.Schema {
	number := func(help string) *jsonschema.Schema {
		return &jsonschema.Schema{Types: []string{"number", "null"}, Description: help}
	}
	names := []string{"unit", "values", "mean", "p50", "p90", "p99", "max", "buckets"}
	members := map[string]*jsonschema.Schema{
		"unit": text("of the values"), "values": number("number of values"), "mean": number(""),
		"p50": number(""), "p90": number(""), "p99": number(""), "max": number(""),
		"buckets": list(&jsonschema.Schema{
			Type: "array", PrefixItems: []*jsonschema.Schema{
				number("lowest value"), number("values are below it"), {Type: "integer"},
			},
		}),
	}
	return tableOf("heat", object(names, members))
}

// catalogue returns the schema of the list of statistics.
func catalogue() *jsonschema.Schema {
	flag := func(help string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "boolean", Description: help}
	}
	may := map[string]*jsonschema.Schema{
		"sum": flag("rows add up"), "stack": flag("rows add up and none is negative"),
		"rate":       flag("a value is an amount per second"),
		"percentile": flag("a value is a distribution"),
	}
	field := object([]string{"name", "type", "unit", "help"}, map[string]*jsonschema.Schema{
		"name": text(""), "type": {Type: "string", Enum: []any{"word", "number", "stack"}},
		"unit": text(""), "help": text(""),
		"overlaps": flag("rows of different values can count the same thing"),
	})
	whole := object([]string{"sentence", "rest"}, map[string]*jsonschema.Schema{
		"sentence": text("a query with the total"), "rest": text("what is in no row"),
	})
	var folds []any
	for _, f := range []measure.Fold{measure.Sum, measure.Max, measure.Mean, measure.Min} {
		folds = append(folds, f.String())
	}
	stat := object(
		[]string{
			"id", "words", "kind", "unit", "rate_unit", "fold", "may", "folded", "sparse", "help",
			"fields",
		},
		map[string]*jsonschema.Schema{
			"id": text("name of the statistic"), "unit": text(""),
			"words": {
				Type: "array", Items: text(""),
				Description: "the name in words: subsystem, thing (may be empty), quantity",
			},
			"kind":      {Type: "string", Enum: []any{"delta", "level", "dist"}},
			"rate_unit": text("unit of answers"), "fold": {Type: "string", Enum: folds},
			"may":    object(slices.Sorted(maps.Keys(may)), may),
			"folded": text("label of the row that folds all rows"),
			"sparse": flag("a missing row means 0"),
			"traced": flag("BPF programs measure it"), "help": text(""),
			"fields": list(field), "whole": whole, "program": text("the D program that measures it"),
		},
	)
	return object([]string{"format", "stats"}, map[string]*jsonschema.Schema{
		"format": version(), "stats": list(stat),
	})
}
