package diagnose

import (
	"encoding/json"
	"math"

	"culprit/measure"
)

// Report is the outcome of a diagnosis. Its JSON is the shape that programs rely on.
type Report struct {
	Start    measure.Time  `json:"start"`
	End      measure.Time  `json:"end"`
	Host     string        `json:"host"`     // "" when it could not be told
	Findings []Finding     `json:"findings"` // best first; empty: nothing is wrong among what was checked
	Checked  []string      `json:"checked"`  // what was looked at with all its numbers there: "cpu", "disk" ...
	Fine     []Exoneration `json:"fine"`     // what was found innocent, with the numbers
	Doubtful []Doubt       `json:"doubtful"` // resources that no finding accuses and that their own numbers keep from being ruled out
	Missing  []Missing     `json:"missing"`  // what could not be checked, and why
	Notes    []string      `json:"notes"`    // what may mislead: notes and losses of the answers, once each
}

// Finding is one accusation with its proof.
type Finding struct {
	ID         string     `json:"id"`         // rule and identity of the culprit, the same every time: link-saturated/eth0
	Rule       string     `json:"rule"`       // Rule.ID
	Severity   Severity   `json:"severity"`   // high: it holds the machine back now
	Confidence Number     `json:"confidence"` // 0..1
	Culprit    Culprit    `json:"culprit"`    //
	Claim      string     `json:"claim"`      // one sentence
	Explains   Number     `json:"explains"`   // 0..1, share of the symptom that the culprit is; null when it can't be told
	Effect     Number     `json:"effect"`     // 0..1, share of time that it takes from tasks, or of what is asked for; null when it can't be told
	Evidence   []Evidence `json:"evidence"`   // at least one, the strongest first
	Symptoms   []Symptom  `json:"symptoms"`   // what other rules found and this finding explains
	Exonerated []string   `json:"exonerated"` // resources that were checked and are innocent: "cpu", "disk"; numbers in Report.Fine
	Against    []string   `json:"against"`    // what speaks against it, a sentence each
	Verify     string     `json:"verify"`     // a shell command that anyone can run to see it
	Fix        *Fix       `json:"fix"`        // null when there is none to type

	covers []cover // whose findings are symptoms of this one
	// subject is what the rule found, in a type of its own, for rules whose findings explain this one.
	Subject any
}

// Severity is how bad a finding is.
type Severity string

// The severities. High: it holds the machine or an application back now. Medium: something is degraded. Low: a remark.
const (
	High   Severity = "high"
	Medium Severity = "medium"
	Low    Severity = "low"
)

// Culprit is who did it.
type Culprit struct {
	Kind      string `json:"kind"` // process interface peer cpu disk table cgroup host memory function
	Name      string `json:"name"`
	PID       int    `json:"pid,omitempty"` // of a process; 0 = none, or not one only
	NetNS     string `json:"netns,omitempty"`
	Interface string `json:"interface,omitempty"` // through which
	Local     string `json:"local,omitempty"`     // host pair, when there is one
	Peer      string `json:"peer,omitempty"`
}

// Evidence is one link of the chain: a number, the sentence that asks for it, and what it means.
type Evidence struct {
	Text         string  `json:"text"`      // the line for people, with the number in it
	Statistic    string  `json:"statistic"` // a sentence that gives the number
	Value        Number  `json:"value"`     // mean over Over unless Text says otherwise
	Unit         string  `json:"unit"`      //
	Over         [2]Time `json:"over"`
	ComparedWith Number  `json:"compared_with"` // in the same unit; null = nothing
	ComparedAs   string  `json:"compared_as,omitempty"`
}

// Time is measure.Time; here for short.
type Time = measure.Time

// Symptom is a finding that another finding explains.
type Symptom struct {
	ID    string `json:"id"`
	Rule  string `json:"rule"`
	Claim string `json:"claim"`
}

// Exoneration says that a resource is innocent, and the numbers that show it.
type Exoneration struct {
	Resource string `json:"resource"` // cpu memory disk network ...
	Because  string `json:"because"`  // "93 % idle, 0.4 of 2 CPUs wanted"
}

// Missing says what could not be checked.
type Missing struct {
	Rule      string `json:"rule"`
	Checks    string `json:"checks"`    // what was not checked, Rule.Checks
	Statistic string `json:"statistic"` // the sentence without an answer; "" when something else is missing
	Why       string `json:"why"`
}

// String gives the line for people: "disk is not checked: disk.busy by device is missing (denied ...)".
func (m Missing) String() string {
	if m.Statistic == "" {
		return m.Checks + ": " + m.Why
	}
	return m.Checks + ": not checked, " + m.Statistic + " is missing: " + m.Why
}

// Fix is what to do about it.
type Fix struct {
	Command string `json:"command"`
	Undo    string `json:"undo"` // a command that restores the state before; "" when nothing needs undoing
	Risk    string `json:"risk"` // low, medium or high, then why
}

// Number is a float64 whose NaN and infinities are null in JSON: unknown is never 0.
type Number float64

// MarshalJSON gives null for what is no number.
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads null as NaN.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number(measure.NaN)
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

// Known says whether n is a number.
func (n Number) Known() bool { return n == n }

// Doubt is a resource that no finding accuses and that can't be ruled out either.
type Doubt struct {
	Resource string `json:"resource"` // cpu memory disk network
	Because  string `json:"because"`  // the number that speaks against it
}
