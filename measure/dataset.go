package measure

// State says whether a dataset is being recorded.
type State uint8

// The states.
const (
	Recording State = iota + 1
	Suspended       // recorded data stays; nothing is added
)

// String returns the word of the state: recording or suspended.
func (s State) String() string { return word(int(s), "", "recording", "suspended") }

// Dataset is a query whose answers are recorded.
type Dataset struct {
	ID    uint32 // 1 or more; an archive never uses an ID again
	Query Query  // statistic, fields, predicate and step; Over is zero
	// Stat describes the statistic as it was when the dataset was created, so that its numbers can
	// be read by a program that no longer measures it.
	Stat    Stat
	Created Time `json:"Since"`
	State   State
	Creator string `json:"Maker"` // default, command line or page
}

// Stored describes what an archive contains of a dataset.
type Stored struct {
	// from the start of the oldest tick to the end of the newest; zero when the dataset is empty
	Over   Interval
	Disk   int64 // bytes
	Memory int64 // bytes
	// values on disk in the finest resolution; those of the newest five minutes are in memory
	Samples uint64
	Rows    int    // in the newest tick
	Loss    []Loss // losses of the ticks in memory (at most the newest five minutes), by reason
}

// Change is one entry of the audit log of datasets.
type Change struct {
	At    Time
	Actor string `json:"Who"` // default, command line, page, clock or culprit
	// made, suspended, resumed, destroyed or discarded; of the clock: set forward or set back; of
	// culprit: recorded nothing, with the reason in place of the query
	Action  string `json:"What"`
	Dataset uint32 // 0: all recorded datasets
	Query   string `json:"Sentence"`
	// the discarded time; of the clock: from the earlier of its two times to the later
	Over Interval
}

// Usage is what it costs to record a dataset.
type Usage struct {
	// CPU is the share of one CPU, a mean over the last minute: the dataset's part of reading,
	// folding and storing. NaN when not known yet.
	CPU     float64
	Samples float64 // values stored per second, mean over the last minute
}

// CostPart is the CPU time of one part of a program.
type CostPart struct {
	Name string  // a few words
	CPU  float64 // share of one CPU, mean over the last minute
}

// Health describes the state of a recording program.
type Health struct {
	Started Time
	// CPU is the share of one CPU that the process takes, including its programs in the kernel; a
	// mean over the last minute. NaN when not known yet.
	CPU float64
	// Costs splits CPU into parts that add up to it: the datasets first, last the remainder. nil
	// when not known yet.
	Costs     []CostPart
	Memory    int64     // resident bytes
	Disk      int64     // bytes of the archive
	DiskLimit int64     // bytes that the archive may take; 0 = no limit
	CPULimit  float64   // share of one CPU that recording may take; 0 = no limit
	Refused   uint64    // samples that remote-write receivers refused since the start
	Late      uint64    // ticks that were skipped or more than half a step late, since the start
	Problems  []Problem // current problems
}

// Problem is something that is wrong now. Key stays the same while the problem lasts; Text may
// contain counts and times that change.
type Problem struct{ Key, Text string }

// String returns the text.
func (t Problem) String() string { return t.Text }
