package prom

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// cannedAlerts are two alerts of one rule, and three rules: one with alerts, one without, and one
// that could not be checked.
type cannedAlerts struct{}

func (cannedAlerts) Alerts() []Alert {
	at := noon.AsTime()
	return []Alert{
		{
			Labels: map[string]string{"alertname": "link", "rule": "link", "kind": "process",
				"culprit": "iperf3", "finding": "link/eth0", "severity": "high"},
			Annotations: map[string]string{"fix": "tc qdisc"}, State: "firing", ActiveAt: at,
			Value: "0.9",
		},
		{
			Labels: map[string]string{"alertname": "link", "rule": "link", "kind": "peer",
				"culprit": "10.0.0.9", "finding": "link/10.0.0.9", "severity": "low"},
			Annotations: map[string]string{}, State: "firing", ActiveAt: at.Add(time.Second),
			Value: "0.25",
		},
	}
}

func (cannedAlerts) Rules() ([]AlertingRule, time.Duration) {
	last := noon.AsTime().Add(7 * time.Second)
	return []AlertingRule{
		{Name: "disk", Keep: 60, Last: last, Took: 0.5},
		{Name: "link", Keep: 60, Last: last, Took: 0.25},
		{Name: "swap", Keep: 60, Last: last, LastError: "10.0.0.9 has a gap"},
	}, 10 * time.Second
}

// TestAlertsByClient reads alerts and rules with Prometheus's own client.
func TestAlertsByClient(t *testing.T) {
	a := device(t).api(noon)
	a.Alerts = cannedAlerts{}
	server := httptest.NewServer(a)
	defer server.Close()
	c, err := api.NewClient(api.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	alerts, err := v1.NewAPI(c).Alerts(t.Context())
	if err != nil || len(alerts.Alerts) != 2 {
		t.Fatalf("alerts %v, %v", alerts, err)
	}
	if one := alerts.Alerts[1]; one.Labels["culprit"] != "10.0.0.9" || one.Value != "0.25" ||
		one.State != v1.AlertStateFiring || !one.ActiveAt.Equal(noon.AsTime().Add(time.Second)) {
		t.Errorf("the second alert is %+v", one)
	}
	rules, err := v1.NewAPI(c).Rules(t.Context())
	if err != nil || len(rules.Groups) != 1 || rules.Groups[0].Interval != 10 {
		t.Fatalf("rules %v, %v", rules, err)
	}
	var got []string
	for _, r := range rules.Groups[0].Rules {
		r := r.(v1.AlertingRule)
		got = append(got, fmt.Sprint(r.Name, " ", r.State, " ", r.Health, " ", len(r.Alerts), " ",
			r.Query, " ", r.LastError))
	}
	want := `disk inactive ok 0 culprit_finding{rule="disk"} ` + "\n" +
		`link firing ok 2 culprit_finding{rule="link"} ` + "\n" +
		`swap inactive unknown 0 culprit_finding{rule="swap"} 10.0.0.9 has a gap`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// TestRulesParameters shows which rules the parameters of rules/ select.
func TestRulesParameters(t *testing.T) {
	a := device(t).api(noon)
	a.Alerts = cannedAlerts{}
	for _, tt := range []struct {
		form []string
		want string
	}{
		{nil, "disk link+2 swap"},
		{[]string{"type", "alert"}, "disk link+2 swap"},
		{[]string{"type", "record"}, ""},
		{[]string{"rule_name[]", "link"}, "link+2"},
		{[]string{"rule_name[]", "link", "rule_name[]", "disk"}, "disk link+2"},
		{[]string{"rule_name[]", "other"}, ""},
		{[]string{"rule_group[]", "culprit"}, "disk link+2 swap"},
		{[]string{"rule_group[]", "other"}, ""},
		{[]string{"file[]", "other"}, ""},
		{[]string{"exclude_alerts", "true"}, "disk link swap"},
	} {
		t.Run(strings.Join(tt.form, " "), func(t *testing.T) {
			var got struct{ Groups []ruleGroup }
			if err := json.Unmarshal([]byte(data(t, a, "rules", tt.form...)), &got); err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, g := range got.Groups {
				for _, r := range g.Rules {
					if len(r.Alerts) > 0 {
						r.Name += fmt.Sprintf("+%d", len(r.Alerts))
					}
					all = append(all, r.Name)
				}
			}
			if text := strings.Join(all, " "); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
	for _, form := range [][]string{{"type", "both"}, {"exclude_alerts", "1"}} {
		if code, body := get(t, a, "rules", form...); code != 400 {
			t.Errorf("%v: %d %s", form, code, body)
		}
	}
}

// TestAlertsForMetrics shows what the role metrics sees: no texts, and no peer.
func TestAlertsForMetrics(t *testing.T) {
	a := device(t).api(noon)
	a.Alerts = WithoutTexts(cannedAlerts{})
	for _, path := range []string{"alerts", "rules"} {
		body := data(t, a, path)
		if strings.Contains(body, "10.0.0.9") || strings.Contains(body, "tc qdisc") ||
			!strings.Contains(body, `"culprit":"iperf3"`) || !strings.Contains(body, `"kind":"peer"`) {
			t.Errorf("%s: %s", path, body)
		}
	}
}
