package measure

import (
	"reflect"
	"strings"
	"testing"
)

// jsonKeys appends the JSON keys of the fields of t, and of the structs below them, to keys.
func jsonKeys(prefix string, t reflect.Type, keys *[]string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		*keys = append(*keys, prefix+name)
		jsonKeys(prefix+name+".", f.Type, keys)
	}
}

// TestArchivedKeys: archives contain these types as JSON, so a renamed field keeps its key.
func TestArchivedKeys(t *testing.T) {
	const query = "Query.Stat Query.By Query.Where Query.Where.Field Query.Where.Op " +
		"Query.Where.Values Query.Over Query.Over.Start Query.Over.End Query.Step Query.Top"
	const stat = "Stat.ID Stat.Kind Stat.Unit Stat.Fold Stat.Sparse Stat.Traced Stat.Signed " +
		"Stat.Help Stat.Fields Stat.Fields.Name Stat.Fields.Type Stat.Fields.Unit " +
		"Stat.Fields.Help Stat.Fields.Overlaps Stat.Whole Stat.Whole.Sentence Stat.Whole.Rest " +
		"Stat.Program"
	tests := []struct {
		name string
		of   any
		want string
	}{
		{"dataset", Dataset{}, "ID Query " + query + " Stat " + stat + " Since State Maker"},
		{"change", Change{}, "At Who What Dataset Sentence Over Over.Start Over.End"},
		{"script", Script{}, "ID Name Text Budget Maker Role Since State Why"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var keys []string
			jsonKeys("", reflect.TypeOf(tt.of), &keys)
			if got := strings.Join(keys, " "); got != tt.want {
				t.Errorf("keys\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
