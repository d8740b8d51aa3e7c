package mcp

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"culprit/view/show"

	"github.com/google/jsonschema-go/jsonschema"
)

// arguments checks the arguments of a tool by their JSON Schema and decodes them, with the defaults
// of the schema.
type arguments[In any] struct {
	schema   *jsonschema.Schema
	resolved *jsonschema.Resolved
}

// argumentHelp describes the arguments of all tools. A tool may describe one in its own way.
//
// table: name of an argument, description
var argumentHelp = map[string]string{
	"from":        "start of a recorded time: RFC 3339, 14:03:22 or -10m. Without it: now",
	"to":          "end of the recorded time; default now",
	"before_from": "start of the first time: RFC 3339, 14:03:22 or -1h",
	"before_to":   "its end",
	"after_from":  "start of the second time",
	"after_to":    "its end; default now",
	"seconds":     "without from: length of an interval",
	"intervals":   "number of equal intervals, a table each",
	"rows":        "most rows, the largest first",
	"limit":       "most findings",
	"netns":       "network namespace: a name or all",
	"process":     "only processes of this name",
	"query":       `statistic by field,field where field = "value"`,
	"queries":     "queries to compare; default: CPU, memory, disk, network, processes",
	"name":        "the tool",
	"sort":        "name of a column: largest first",
	"options": "its options by name without dashes: true, a text, or a list of texts, " +
		`such as {"interface": ["eth0"]}`,
}

// newArguments returns the arguments of type In. adapt completes their schema. It panics if In has
// no schema.
func newArguments[In any](adapt func(*jsonschema.Schema)) *arguments[In] {
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		panic(err)
	}
	for name, p := range schema.Properties {
		p.Description = argumentHelp[name]
	}
	adapt(schema)
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		panic(err)
	}
	return &arguments[In]{schema, resolved}
}

// parse decodes arguments. The error is a show.UsageError that names the wrong one.
func (a *arguments[In]) parse(raw json.RawMessage) (in In, err error) {
	given := map[string]any{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return in, show.Usagef("the arguments are not an object: %w", err)
		}
	}
	known := slices.Sorted(maps.Keys(a.schema.Properties))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, name) {
			return in, show.Usagef("there is no argument %q%s; there are %s", name,
				show.DidYouMean(name, known), strings.Join(known, ", "))
		}
	}
	if given == nil { // null
		given = map[string]any{}
	}
	if err := a.resolved.ApplyDefaults(&given); err != nil {
		return in, show.UsageError{Cause: err}
	}
	if err := a.resolved.Validate(given); err != nil {
		return in, show.Usagef("%s", argumentOf(err))
	}
	b, err := json.Marshal(given)
	if err != nil {
		return in, err
	}
	return in, json.Unmarshal(b, &in)
}

// schemaPath matches the parts of a message of the validator that say where a value is.
var schemaPath = regexp.MustCompile( // table: compiled once
	`validating (?:root|/properties/([\w/]+)): `)

// argumentOf returns the message of the validator with the name of the argument in front:
//
//	validating root: validating /properties/seconds: minimum: 90/1 is greater than 60.000000
//	seconds: minimum: 90 is greater than 60
func argumentOf(err error) string {
	text := schemaPath.ReplaceAllStringFunc(err.Error(), func(part string) string {
		name := schemaPath.FindStringSubmatch(part)[1]
		if name == "" {
			return ""
		}
		name, _, _ = strings.Cut(name, "/")
		return name + ": "
	})
	return strings.ReplaceAll(strings.ReplaceAll(text, "/1 ", " "), ".000000", "")
}
