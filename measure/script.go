package measure

// ScriptState says whether a script runs.
type ScriptState uint8

// The states of a script.
const (
	ScriptRunning    ScriptState = iota + 1
	ScriptStopped                // by a user
	ScriptEnded                  // by itself
	ScriptOverBudget             // its cost exceeded its budget
	ScriptFailed                 // it could not start, or it failed while it ran
)

// String returns the word of the state: running, stopped, ended, suspended or failed.
func (s ScriptState) String() string {
	return word(int(s), "", "running", "stopped", "ended", "suspended", "failed")
}

// Script is a D program that a server runs or has run. Its aggregations are statistics while it
// runs.
type Script struct {
	ID      uint32 // 1 or more; an archive never uses an ID again
	Name    string // part of its statistics' IDs, trace.NAME.AGGREGATION; made by NameOf
	Text    string
	Budget  float64 // the largest share of one CPU that it may take; 0 = no limit
	Creator string  `json:"Maker"`
	Role    string  // of the token of whom it was started by last, by name
	Created Time    `json:"Since"`
	State   ScriptState
	// why it does not run, in addition to State; "" when State says enough
	Reason string `json:"Why"`

	// The following are set only when the script has run since the server started.
	Stats  []Stat `json:"-"`
	Output string `json:"-"` // the end of its printed output
	// share of one CPU that its programs took, mean over the last seconds; NaN when unknown
	CPU   float64  `json:"-"`
	Loss  []Loss   `json:"-"` // since it started
	Notes []string `json:"-"` // what could not be attached, and other caveats
}

// Asker is the origin of a request: the name of the asker and its role.
type Asker struct {
	Name string // for the audit log
	Role string // the name of the role of its token
}
