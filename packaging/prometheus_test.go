package packaging_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// promtool runs promtool in the directory prometheus, or skips the test.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs: tool promtool")
	}
	c := exec.Command(path, args...)
	c.Dir = "prometheus"
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestPromtool: promtool finds nothing to complain about in the rules.
func TestPromtool(t *testing.T) {
	out, err := promtool(t, "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml", "alerts.yaml")
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestAlerts: each alert fires in its case of alerts_test.yaml and is silent just below it.
func TestAlerts(t *testing.T) {
	out, err := promtool(t, "test", "rules", "alerts_test.yaml")
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestAlertsAreTested: each alert and each recording rule has a case.
func TestAlertsAreTested(t *testing.T) {
	tests, err := os.ReadFile("prometheus/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"prometheus/rules.yaml", "prometheus/alerts.yaml"} {
		for _, r := range rules(t, path) {
			if !bytes.Contains(tests, []byte("alertname: "+r.Alert+"\n")) && r.Alert != "" ||
				!strings.Contains(string(tests), r.Record) {
				t.Errorf("%s%s has no test", r.Alert, r.Record)
			}
		}
	}
}
