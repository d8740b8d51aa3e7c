package prom

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Alert is an alert in the form of Prometheus's API.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       string            `json:"state"` // "firing"
	ActiveAt    time.Time         `json:"activeAt"`
	Value       string            `json:"value"`
}

// AlertingRule is a rule in the form of Prometheus's API. State, Type and Query are set by the API.
type AlertingRule struct {
	Name        string            `json:"name"`
	Query       string            `json:"query"`
	State       string            `json:"state"`
	Duration    float64           `json:"duration"`
	Keep        float64           `json:"keepFiringFor"` // seconds
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Alerts      []Alert           `json:"alerts,omitempty"`
	Health      string            `json:"health"` // "ok", or "unknown" if LastError is set
	LastError   string            `json:"lastError,omitempty"`
	Took        float64           `json:"evaluationTime"` // seconds
	Last        time.Time         `json:"lastEvaluation"`
	Type        string            `json:"type"`
}

// Alerts is the source of alerts/ and rules/. Its methods are called by several goroutines.
type Alerts interface {
	// Alerts returns the alerts that last.
	Alerts() []Alert
	// Rules returns the rules without their alerts, in a fixed order, and the time between two
	// evaluations.
	Rules() ([]AlertingRule, time.Duration)
}

// alertGroup is the name of the only group of rules, and of its file.
const alertGroup = "culprit"

// activeAlerts answers alerts/.
func (a *API) activeAlerts(*http.Request) (answer, *failure) {
	all := []Alert{}
	if a.Alerts != nil {
		all = append(all, a.Alerts.Alerts()...)
	}
	return answer{data: map[string]any{"alerts": all}}, nil
}

// ruleGroup is a group of rules in the form of Prometheus's API.
type ruleGroup struct {
	Name     string         `json:"name"`
	File     string         `json:"file"`
	Rules    []AlertingRule `json:"rules"`
	Interval float64        `json:"interval"` // seconds
	Limit    int            `json:"limit"`
	Took     float64        `json:"evaluationTime"` // seconds
	Last     time.Time      `json:"lastEvaluation"`
}

// rules answers rules/, with Prometheus's parameters type, rule_name[], rule_group[], file[] and
// exclude_alerts.
func (a *API) rules(r *http.Request) (answer, *failure) {
	kind, exclude := r.FormValue("type"), r.FormValue("exclude_alerts")
	if kind != "" && kind != "alert" && kind != "record" {
		return answer{}, badParameter("type", errors.New("not supported value "+kind))
	}
	if exclude != "" && exclude != "true" && exclude != "false" {
		return answer{}, badParameter("exclude_alerts", errors.New("it is true or false"))
	}
	groups := []ruleGroup{}
	if a.Alerts == nil || kind == "record" || !chosen(r.Form["rule_group[]"], alertGroup) ||
		!chosen(r.Form["file[]"], alertGroup) {
		return answer{data: map[string]any{"groups": groups}}, nil
	}
	rules, each := a.Alerts.Rules()
	g := ruleGroup{Name: alertGroup, File: alertGroup, Interval: each.Seconds()}
	alerts := map[string][]Alert{} // by rule
	for _, one := range a.Alerts.Alerts() {
		alerts[one.Labels["rule"]] = append(alerts[one.Labels["rule"]], one)
	}
	for _, rule := range rules {
		if !chosen(r.Form["rule_name[]"], rule.Name) {
			continue
		}
		rule.Query = `culprit_finding{rule="` + rule.Name + `"}`
		rule.Type, rule.State = "alerting", "inactive"
		rule.Health = cmp.Or(map[bool]string{true: "unknown"}[rule.LastError != ""], "ok")
		if len(alerts[rule.Name]) > 0 {
			rule.State = "firing"
		}
		if exclude != "true" {
			rule.Alerts = alerts[rule.Name]
		}
		rule.Labels, rule.Annotations = notNil(rule.Labels), notNil(rule.Annotations)
		g.Took, g.Last = g.Took+rule.Took, rule.Last
		g.Rules = append(g.Rules, rule)
	}
	if len(g.Rules) > 0 {
		groups = append(groups, g)
	}
	return answer{data: map[string]any{"groups": groups}}, nil
}

// chosen reports whether a parameter lists a name, or nothing.
func chosen(list []string, name string) bool {
	return len(list) == 0 || slices.Contains(list, name)
}

// notNil returns m, or an empty map.
func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// WithoutTexts hides what the role metrics must not see: the annotations, which have commands and
// peers, the culprits of other kinds than shownKinds, and why rules could not be checked.
func WithoutTexts(all Alerts) Alerts { return hiddenAlerts{all} }

// shownKinds lists the kinds of culprits that the role metrics sees: their names are labels of
// metrics, too.
//
// table: names
var shownKinds = []string{
	"process", "interface", "cpu", "disk", "table", "cgroup", "memory", "function", "filesystem",
}

type hiddenAlerts struct{ all Alerts }

// Alerts implements Alerts.
func (h hiddenAlerts) Alerts() []Alert {
	out := h.all.Alerts()
	for i := range out {
		out[i].Annotations = map[string]string{}
		if !slices.Contains(shownKinds, out[i].Labels["kind"]) {
			out[i].Labels = maps.Clone(out[i].Labels)
			delete(out[i].Labels, "culprit")
			delete(out[i].Labels, "finding")
		}
	}
	return out
}

// Rules implements Alerts.
func (h hiddenAlerts) Rules() ([]AlertingRule, time.Duration) {
	rules, each := h.all.Rules()
	for i := range rules {
		if rules[i].LastError != "" {
			rules[i].LastError = "not checked"
		}
	}
	return rules, each
}
