package changes

import "culprit/diagnose"

// Measure is a number of a finding's evidence before and after a change.
type Measure struct {
	Query  string          `json:"query"`
	Unit   string          `json:"unit"` // of the values: per second for amounts
	Before diagnose.Number `json:"before"`
	After  diagnose.Number `json:"after"`
	// Deviations is the difference in robust standard deviations of the intervals; null: unknown.
	Deviations diagnose.Number `json:"deviations"`
	Changed    bool            `json:"changed"` // it is beyond noise
}

// Outcome is how a finding fares a while after it was found.
type Outcome struct {
	ID      string        `json:"id"`
	Seconds float64       `json:"seconds"` // since the measurement before
	Before  diagnose.Time `json:"before"`  // end of the measurement before
	After   diagnose.Time `json:"after"`   // end of this one
	// State is remains, gone or unknown: the rule could not check.
	State    string    `json:"state"`
	Severity string    `json:"severity"` // of the finding now; "" if it does not remain
	Claim    string    `json:"claim"`    // of the finding now, else why its state is unknown
	Measures []Measure `json:"measures"`
}

// The states of an Outcome.
const (
	Remains = "remains"
	Gone    = "gone"
	Unknown = "unknown"
)

// Changed returns the number of measures that changed beyond noise.
func (o *Outcome) Changed() (n int) {
	for i := range o.Measures {
		if o.Measures[i].Changed {
			n++
		}
	}
	return n
}
