package measure

// ScriptState says how a script does.
type ScriptState uint8

// The states of a script.
const (
	ScriptRunning    ScriptState = iota + 1
	ScriptStopped                // by somebody
	ScriptEnded                  // by itself
	ScriptOverBudget             // for it took more than its budget
	ScriptFailed                 // it could not begin, or broke
)

// String gives the word of the state: running, stopped, ended, suspended or failed.
func (s ScriptState) String() string {
	return word(int(s), "", "running", "stopped", "ended", "suspended", "failed")
}

// Script is a D program that a server runs, or ran: its aggregations are statistics as long as it runs.
type Script struct {
	ID      uint32 // 1 or more; never used again by one archive
	Name    string // stands in its statistics: trace.NAME.AGGREGATION. As NameOf makes it
	Text    string
	Budget  float64 // the most that it may take of one CPU: a share; 0 = no bound
	Creator string  `json:"Maker"`
	Created Time    `json:"Since"` // when it was given
	State   ScriptState
	Reason  string `json:"Why"` // why it does not run, beyond its state; "" = nothing to say

	// What is known only of one that runs, or has since the server started.
	Stats  []Stat   `json:"-"`
	Output string   `json:"-"` // the last of what it printed
	CPU    float64  `json:"-"` // share of one CPU that its programs took, mean over the last seconds; NaN = not known
	Loss   []Loss   `json:"-"` // since it began
	Notes  []string `json:"-"` // what could not be attached, and what else may mislead
}
