// Package schema contains the JSON Schemas (draft 2020-12) of what commands print with --json. The
// schemas of objects are derived from their Go types, those of tables from the columns of the
// tools. docs/schemas has them as files.
package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"culprit/changes"
	"culprit/diagnose"
	"culprit/fleet"
	"culprit/load"
	"culprit/measure"
	"culprit/profile"
	"culprit/view"
	"culprit/view/classic"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema describes one shape of JSON.
type Schema struct {
	Name    string // of its file in docs/schemas, without .json
	Command string // prints it
	make    func() *jsonschema.Schema
}

// All lists the schemas, by name.
func All() []Schema {
	all := []Schema{
		{"report", "culprit --json, culprit diagnose --json", func() *jsonschema.Schema {
			return withFormat(of[diagnose.Report]())
		}},
		{"catalogue", "culprit stat --list --json", catalogue},
		{"stat", "culprit stat QUERY --json", func() *jsonschema.Schema {
			return tableOf("stat", queryRow())
		}},
		{"heat", "culprit heat QUERY --json", heat},
		{"comparison", "culprit diagnose --hosts --json", func() *jsonschema.Schema {
			return withFormat(of[fleet.Comparison]())
		}},
		{"changes", "culprit changed --json", func() *jsonschema.Schema {
			return withFormat(of[changes.Report]())
		}},
		{"outcome", "culprit watch FINDING --json", func() *jsonschema.Schema {
			return withFormat(of[changes.Outcome]())
		}},
		{"hosts", "culprit hosts ADDRESS... --json", hosts},
		{"locks", "culprit locks --json", func() *jsonschema.Schema {
			var choices []view.Options
			for _, by := range classic.LocksBy() {
				choices = append(choices, view.Options{"by": {by}})
			}
			return toolTable(classic.Locks(), choices...)
		}},
		{"list", "culprit datasets, sessions, tokens --json", func() *jsonschema.Schema {
			return tableOf("", openRow())
		}},
		{"load-interval", "culprit load stream ADDRESS --json, a line per interval",
			func() *jsonschema.Schema { return tableOf("", openRow()) }},
		{"load-result", "culprit load stream ADDRESS --json, the last line", of[load.Result]},
		{"load-compare", "culprit load compare FIRST SECOND --json", loadCompare},
		{"profile-diff", "culprit flame --diff --json, culprit profile --diff --json",
			of[profile.ChangesJSON]},
		{"version", "culprit version --json", of[versionJSON]},
	}
	for _, t := range classic.All() {
		all = append(all, Schema{t.Name, "culprit " + t.Name + " --json",
			func() *jsonschema.Schema { return toolTable(t) }})
	}
	slices.SortFunc(all, func(a, b Schema) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Find returns the schema with a name; ok is false if there is none.
func Find(name string) (s Schema, ok bool) {
	for _, one := range All() {
		if one.Name == name {
			return one, true
		}
	}
	return Schema{}, false
}

// Resolved returns the schema, ready to validate values. The error says that the schema is invalid.
func (s Schema) Resolved() (*jsonschema.Resolved, error) { return s.make().Resolve(nil) }

// JSON returns the text of the schema, indented.
func (s Schema) JSON() []byte {
	made := s.make()
	made.Schema = "https://json-schema.org/draft/2020-12/schema"
	made.Title = s.Command
	b, err := json.MarshalIndent(made, "", "  ")
	if err != nil { // of a schema of this package: never
		panic(err)
	}
	return append(b, '\n')
}

// versionJSON is the output of culprit version --json.
type versionJSON struct {
	Format  int    `json:"format"`
	Version string `json:"version"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Go      string `json:"go"`
}

// of returns the schema of a Go type. Unknown numbers are null, times are texts.
func of[T any]() *jsonschema.Schema {
	number := func() *jsonschema.Schema {
		return &jsonschema.Schema{Types: []string{"number", "null"}}
	}
	s, err := jsonschema.For[T](&jsonschema.ForOptions{
		TypeSchemas: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[diagnose.Number](): number(),
			reflect.TypeFor[load.Number]():     number(),
			reflect.TypeFor[measure.Time]():    moment(),
			reflect.TypeFor[json.RawMessage](): {},
			reflect.TypeFor[diagnose.Severity](): {
				Type: "string", Enum: []any{diagnose.High, diagnose.Medium, diagnose.Low},
			},
		},
	})
	if err != nil {
		panic(fmt.Errorf("the schema of %T: %w", *new(T), err))
	}
	return s
}

// loadCompare returns the schema of a comparison of load tests. Its rows embed the struct Ratio,
// whose member Ratio the library does not see: it has the name of the struct.
func loadCompare() *jsonschema.Schema {
	s := of[load.Comparison]()
	row := s.Properties["rows"].Items
	row.Properties["ratio"] = &jsonschema.Schema{Types: []string{"number", "null"}}
	row.PropertyOrder = append(row.PropertyOrder, "ratio")
	return s
}

// moment is the schema of a time.
func moment() *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Format: "date-time"} }

// withFormat adds the version of the format to the schema of an object.
func withFormat(s *jsonschema.Schema) *jsonschema.Schema {
	s.Properties["format"] = version()
	s.Required = append([]string{"format"}, s.Required...)
	s.PropertyOrder = append([]string{"format"}, s.PropertyOrder...)
	return s
}

// version is the schema of a version of a format.
func version() *jsonschema.Schema {
	one := any(1)
	return &jsonschema.Schema{
		Type: "integer", Const: &one,
		Description: "version of the format: it changes if a member goes or changes its meaning",
	}
}
