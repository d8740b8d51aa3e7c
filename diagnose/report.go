package diagnose

import (
	"bytes"
	"encoding/json"
	"math"

	"culprit/measure"
)

// Report is the result of a diagnosis. Programs rely on the shape of its JSON.
type Report struct {
	Start    measure.Time `json:"start"`
	End      measure.Time `json:"end"`
	Host     string       `json:"host"`     // "" when unknown
	Findings []Finding    `json:"findings"` // best first; empty: no fault in what was checked
	// Held are findings of the last minutes that this diagnosis lacks and that are not withdrawn:
	// they come and go. nil: nobody follows the diagnoses.
	Held     []Finding     `json:"held,omitzero"`
	Checked  []string      `json:"checked"`  // what was checked completely: "cpu", "disk" ...
	Fine     []Exoneration `json:"fine"`     // resources that are ruled out, with their numbers
	Doubtful []Doubt       `json:"doubtful"` // neither accused nor ruled out
	Missing  []Missing     `json:"missing"`  // what could not be checked, and why
	Notes    []string      `json:"notes"`    // caveats: notes and losses of the answers, once each
	// Experiments are the measurements that replaced estimates after the findings were known.
	Experiments []Experiment `json:"experiments,omitempty"`
	// Captured lists the tables that were read in place of this machine; empty of a live diagnosis.
	Captured []string `json:"captured,omitempty"`
}

// Experiment is a short measurement by BPF programs that replaces an estimate.
type Experiment struct {
	Findings   []string `json:"findings"`   // IDs of the findings that rested on it
	Statistics []string `json:"statistics"` // queries that were measured
	Seconds    Number   `json:"seconds"`    // how long
	// CPU time of culprit and of the BPF programs, in seconds
	CPUSeconds Number   `json:"cpu_seconds"`
	Results    []string `json:"results"`           // what it changed, a sentence per finding
	Missing    string   `json:"missing,omitempty"` // why nothing was measured
}

// ReportFormat is the version of the JSON of a Report: docs/schemas/report.json.
const ReportFormat = 1

// MarshalJSON returns the report with its format. The error is that of json.Marshal.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the caller's encoder decides
	err := e.Encode(struct {
		Format int `json:"format"`
		plain
	}{ReportFormat, plain(r)})
	return b.Bytes(), err
}

// Finding is one fault with its culprit and evidence.
type Finding struct {
	// stable: rule and identity of the culprit, link-saturated/eth0
	ID         string   `json:"id"`
	Rule       string   `json:"rule"`       // Rule.ID
	Severity   Severity `json:"severity"`   // high: it limits the machine now
	Confidence Number   `json:"confidence"` // 0..1
	Culprit    Culprit  `json:"culprit"`    //
	Claim      string   `json:"claim"`      // one sentence
	Explains   Number   `json:"explains"`   // 0..1, share of the symptom; null when unknown
	// 0..1, share of time taken from tasks, or of demand; null when unknown
	Effect Number `json:"effect"`
	// who takes the resource, and how it would be without them; nil for other findings
	Attribution *Attribution `json:"attribution,omitempty"`

	Evidence []Evidence `json:"evidence"` // at least one, the strongest first
	Symptoms []Symptom  `json:"symptoms"` // findings of other rules that this one explains
	// resources that are ruled out: "cpu", "disk"; numbers in Report.Fine
	Exonerated []string `json:"exonerated"`
	Against    []string `json:"against"` // caveats
	Verify     string   `json:"verify"`  // a shell command that shows the fault
	Fix        *Fix     `json:"fix"`     // null when there is no command for it
	// Waits is whether anybody waits for what the finding takes; nil: the rule does not ask.
	Waits *Waits `json:"waits,omitempty"`
	// Past is what a recording knows of the finding; nil: there is none.
	Past *Past `json:"past,omitempty"`

	covers []cover // rules whose findings are symptoms of this one
	// Subject is what the rule found, in a type of that rule: other rules read it to decide whether
	// their finding explains this one. nil for most rules.
	Subject any `json:"-"`
}

// Severity is the severity of a finding.
type Severity string

// The severities. High: it limits the machine or an application now. Medium: it degrades something.
// Low: a remark.
const (
	High   Severity = "high"
	Medium Severity = "medium"
	Low    Severity = "low"
)

// Culprit is the cause that a finding names.
type Culprit struct {
	// process interface peer cpu disk table cgroup host memory function
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	PID    int    `json:"pid,omitempty"`    // of a process; 0: none, or several
	Script string `json:"script,omitempty"` // that an interpreter runs, without its directory
	// unit or container of all its processes: "unit web.service", "container docker:3f2a1b4c5d6e"
	Group     string `json:"group,omitempty"`
	NetNS     string `json:"netns,omitempty"`
	Interface string `json:"interface,omitempty"` // the interface in use
	Local     string `json:"local,omitempty"`     // pair of hosts, if any
	Peer      string `json:"peer,omitempty"`
}

// Evidence is a number that supports a finding, with its query and its meaning.
type Evidence struct {
	Text         string  `json:"text"`      // a line of text that contains the number
	Statistic    string  `json:"statistic"` // a query that returns the number
	Value        Number  `json:"value"`     // mean over Over unless Text states otherwise
	Unit         string  `json:"unit"`      //
	Over         [2]Time `json:"over"`
	ComparedWith Number  `json:"compared_with"` // in the same unit; null: nothing
	ComparedAs   string  `json:"compared_as,omitempty"`
	Usual        *Usual  `json:"usual,omitempty"` // on the days before; nil: unknown
}

// Time is measure.Time.
type Time = measure.Time

// Symptom is a finding that another finding explains.
type Symptom struct {
	ID    string `json:"id"`
	Rule  string `json:"rule"`
	Claim string `json:"claim"`
}

// Exoneration is a resource that is ruled out, with the numbers that show it.
type Exoneration struct {
	Resource string `json:"resource"` // cpu memory disk network ...
	Because  string `json:"because"`  // "93 % idle, 0.4 of 2 CPUs wanted"
}

// Missing is something that could not be checked.
type Missing struct {
	Rule   string `json:"rule"`
	Checks string `json:"checks"` // what was not checked, Rule.Checks
	// the query without an answer; "" when something else is missing
	Statistic string `json:"statistic"`
	Why       string `json:"why"`
	// Record are the queries that a recording must have for this check; nil when recording does not
	// help.
	Record []string `json:"record,omitempty"`
}

// String returns a line of text: "disk: not checked, disk.busy by device is missing: denied ...".
func (m Missing) String() string {
	if m.Statistic == "" {
		return m.Checks + ": " + m.Why
	}
	return m.Checks + ": not checked, " + m.Statistic + " is missing: " + m.Why
}

// Fix is a change that removes the fault.
type Fix struct {
	Command string `json:"command"`
	Undo    string `json:"undo"` // restores the previous state; "" when nothing needs undoing
	Risk    string `json:"risk"` // low, medium or high, and the reason
}

// Number is a float64 whose NaN and infinities are null in JSON: unknown is never 0.
type Number float64

// MarshalJSON returns null for NaN and infinities. It never returns an error.
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads null as NaN. The error is that of text that is no number.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number(measure.NaN)
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

// Known reports whether n is a number.
func (n Number) Known() bool { return n == n }

// Doubt is a resource that no finding accuses, and that cannot be ruled out either.
type Doubt struct {
	Resource string `json:"resource"` // cpu memory disk network
	Because  string `json:"because"`  // the number that speaks against ruling it out
}
