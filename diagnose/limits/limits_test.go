package limits

import (
	"testing"

	"culprit/diagnose"
	"culprit/measure"
)

// TestKindsAreComplete: each kind of limit has words, a command to verify it, and its own ID.
func TestKindsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	table := &diagnose.Table{Query: measure.Query{By: []string{"owner", "pid", "mount"}}}
	row := &diagnose.Row{Table: table}
	for _, k := range Kinds() {
		if k.id == "" || seen[k.id+k.used.query] {
			t.Errorf("%q is not an ID of its own", k.id)
		}
		seen[k.id+k.used.query] = true
		if k.words.things == "" || k.words.amount == nil || k.words.next == "" ||
			k.words.name(row) == "" {
			t.Errorf("%s: words are missing", k.id)
		}
		if k.verify(row) == "" || k.culprit(row).Kind == "" {
			t.Errorf("%s: no command to verify it, or no culprit", k.id)
		}
		if len(k.sizes) == 0 || len(k.owner) == 0 {
			t.Errorf("%s: no size, or no owner", k.id)
		}
		if k.errors.failed == nil && len(k.errors.counters) == 0 {
			t.Errorf("%s: nothing shows that requests fail", k.id)
		}
	}
}

// TestQueries: each query is asked once and can be parsed.
func TestQueries(t *testing.T) {
	seen := map[string]bool{}
	for _, text := range Queries() {
		if q, err := measure.ParseQuery(text); err != nil || q.String() != text || seen[text] {
			t.Errorf("%s: %v, twice %v", text, err, seen[text])
		}
		seen[text] = true
	}
}
