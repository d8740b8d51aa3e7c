package packaging_test

import (
	"strings"
	"testing"
)

// query returns the expression as Grafana sends it, with its variables replaced.
func query(expression string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*").Replace(expression)
}

// TestDashboardMetrics: each expression uses metrics and labels that are exported. Panels of the
// host's own server may use those that do not leave it.
func TestDashboardMetrics(t *testing.T) {
	panels, _ := dashboard(t)
	for _, p := range panels {
		for _, target := range p.Targets {
			for _, c := range complaints(query(target.Expr), p.Datasource.UID == "${host}") {
				t.Errorf("%s: %s: %s", p.Title, target.Expr, c)
			}
			if strings.Contains(query(target.Expr), "$") {
				t.Errorf("%s: %s has a variable that is not known", p.Title, target.Expr)
			}
		}
	}
}

// TestRules: each rule uses metrics and labels that are exported, and each alert has a summary.
func TestRules(t *testing.T) {
	for _, path := range []string{"prometheus/rules.yaml", "prometheus/alerts.yaml"} {
		for _, r := range rules(t, path) {
			for _, c := range complaints(r.Expr, false) {
				t.Errorf("%s: %s%s: %s", path, r.Record, r.Alert, c)
			}
			if r.Alert == "" {
				continue
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: %s has no summary or no description", path, r.Alert)
			}
			if s := r.Labels["severity"]; s != "warning" && s != "critical" {
				t.Errorf("%s: %s has the severity %q", path, r.Alert, s)
			}
		}
	}
}
