// Package packaging_test checks the files beside it: dashboards, rules and manifests.
package packaging_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"culprit/export"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// added are the labels that a scrape or remote write adds.
//
// table: names of labels
var added = []string{"instance", "job"}

// rule is an entry of a file of rules.
type rule struct {
	Record, Alert, Expr string
	Annotations, Labels map[string]string
}

// rules reads the rules of a file.
func rules(t *testing.T, path string) (all []rule) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 8 {
		t.Fatalf("%s has %d rules", path, len(all))
	}
	return all
}

// complaints checks an expression against the table of exported metrics: names, the labels of
// matchers, and those by which it aggregates and joins. local is whether metrics that do not leave
// the host may be used.
func complaints(expression string, local bool) (all []string) {
	parsed, err := parser.ParseExpr(expression)
	if err != nil {
		return []string{err.Error()}
	}
	known := slices.Clone(added)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		v, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		e, shape, ok := export.OfName(v.Name)
		switch {
		case !ok:
			all = append(all, fmt.Sprintf("there is no metric %s", v.Name))
			return nil
		case e.Local != "" && !local:
			all = append(all, fmt.Sprintf("%s does not leave the host: %s", v.Name, e.Local))
		case shape != export.Shapes(e.Kind, e.Signed)[0]:
			all = append(all, fmt.Sprintf("only the query API has %s", v.Name))
		}
		known = append(known, e.Labels...)
		for _, m := range v.LabelMatchers {
			if m.Name != "__name__" && !slices.Contains(append(e.Labels, added...), m.Name) {
				all = append(all, fmt.Sprintf("%s has no label %s", v.Name, m.Name))
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		var used []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			used = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				used = append(n.VectorMatching.MatchingLabels, n.VectorMatching.Include...)
			}
		}
		for _, l := range used {
			if !slices.Contains(known, l) {
				all = append(all, fmt.Sprintf("no metric of %s has a label %s", node, l))
			}
		}
		return nil
	})
	return all
}

func TestComplaints(t *testing.T) {
	for _, c := range []struct {
		name, expression string
		local            bool
		want             string // a part of the only complaint; "": none
	}{
		{"all right", `sum by (mode, instance) (rate(culprit_cpu_time_seconds_total{cpu="0"}[1m]))`, false, ""},
		{"no expression", `sum by (`, false, "parse error"},
		{"no metric", `culprit_cpu_tine_seconds_total`, false, "there is no metric culprit_cpu_tine"},
		{"a name of another shape", `culprit_cpu_time_seconds_per_second`, false, "only the query API has"},
		{"no label in a matcher", `culprit_cpu_time_seconds_total{core="1"}`, false, "has no label core"},
		{"no label in by", `sum by (core) (culprit_cpu_time_seconds_total)`, false, "has a label core"},
		{"no label in on", `culprit_limit_used / on (owner) culprit_limit_size`, false, "has a label owner"},
		{"local", `culprit_process_rss_bytes`, false, "does not leave the host"},
		{"local where it may be", `culprit_process_rss_bytes`, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := complaints(c.expression, c.local)
			if c.want == "" && len(got) == 0 {
				return
			}
			if len(got) != 1 || c.want == "" || !strings.Contains(got[0], c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
